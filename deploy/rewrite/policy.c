/* The verb policy: prints the policy by which a cluster gives labelled pods a relay. It is a part
 * of parts.yaml, with the settings of rewrite for a relay. */
#include "deploy/rewrite/rewrite_plan.h"
#include "deploy/verbs.h"

#include <string.h>

#define JOB CEL_EXPRESSION("variables.job")

/* Returns the API. */
static const char *read_policy_options(struct rewrite *w, struct rewrite_options *o, int argc,
                                       char **argv)
{
    const char *api = "v1", *set;
    struct yaml_node *wishes = NULL;
    int option;

    optind = 0;
    while ((option = options_next(argc, argv, &policy_options, w->diag)) >= 0) {
        set = option == 's' ? "rdzv.endpoint=" : option == 'i' ? "rdzv.image=" : "";
        if (option == 'a')
            api = optarg;
        else if (option != 0)
            userfile_set(&w->arena, &wishes, arena_text(&w->arena, "%s%s", set, optarg), w->diag);
    }
    if (!text_is(api, "v1", "v1beta1", "kyverno"))
        options_error(w->diag, "--api %s: write v1, v1beta1 or kyverno", api);
    for (int i = optind; i < argc; i++)
        options_error(w->diag, "%s: policy reads no file: leave it out", argv[i]);
    o->wishes = w->diag->errors == 0 ? store_wishes(w, wishes, "policy") : NULL;
    return api;
}

/* Adds the variables that make the run id on a platform, if the pod has the label or annotation of
 * which they are made. */
static void add_run_id(struct rewrite *w, struct emit_job *job, struct yaml_node *cases)
{
    const struct yaml_node *id = emit_job_part(job, "runId");
    const char *path = kube_text(id, "[0].valueFrom.fieldRef.fieldPath");
    struct yaml_node *one = yaml_put_new(&w->arena, cases, NULL, YAML_MAPPING);
    int of = (int)strcspn(path, "[");

    if (*path != '\0')
        yaml_put_text(&w->arena, one, "if",
                      arena_text(&w->arena, "has(object.%.*s) && %.*s in object.%.*s", of, path,
                                 (int)strcspn(path + of + 1, "]"), path + of + 1, of, path));
    yaml_put(&w->arena, one, "value", id);
}

/* Puts the texts of expressions into the policy. */
static void write_expressions(struct rewrite *w, const struct yaml_node *policy)
{
    YAML_FOREACH(mutation, yaml_path(policy, "spec.mutations")) {
        struct yaml_node *patch = yaml_get(mutation, "jsonPatch");
        struct buf text = {.arena = &w->arena};

        cel_write(&text, "", yaml_get(patch, "expression"));
        yaml_put_text(&w->arena, patch, "expression", text.text);
    }
}

static void print_policy(struct rewrite *w, const char *api)
{
    /* The pods of a JobSet have the labels of a Job, too. The last platform adds none. */
    static const char *const platforms[] = {"jobset", "volcano", "job", "pods"};
    struct yaml_node *cases = yaml_new(&w->arena, YAML_SEQUENCE);
    struct kube_object any = {.node = yaml_new(&w->arena, YAML_MAPPING),
                              .name = JOB,
                              .namespace = CEL_EXPRESSION("request.namespace")};
    enum { COUNT = sizeof platforms / sizeof *platforms };
    struct emit_job jobs[COUNT] = {0}, *last = &jobs[COUNT - 1];
    const struct yaml_node *documents = NULL;

    for (size_t i = 0; i < COUNT && w->diag->errors == 0; i++) {
        struct store_settings s = {
            .platform = platforms[i], .placement = "relay", .endpoint = JOB "-rdzv:29400"};

        if (rewrite_open_store(w, &any, &s, &jobs[i]))
            add_run_id(w, &jobs[i], cases);
    }
    if (w->diag->errors == 0) {
        emit_job_set(last, "api", yaml_new_string(&w->arena, api));
        emit_job_set(last, "runIdCases", cases);
        documents = emit_job_part(last, "injection");
        write_expressions(w, yaml_at(documents, 0));
    }
    if (w->diag->errors == 0)
        fputs(yaml_write_documents(&w->arena, documents), stdout);
    rewrite_note_image(w);
    for (size_t i = 0; i < COUNT; i++)
        emit_job_free(&jobs[i]);
}

int run_policy(int argc, char **argv)
{
    struct rewrite_options options = {.image = REWRITE_IMAGE};
    struct diag d = {0};
    struct rewrite w = {.diag = &d, .options = &options};
    const char *api = read_policy_options(&w, &options, argc, argv);

    if (d.errors == 0)
        print_policy(&w, api);
    rewrite_free(&w);
    return diag_end(&d);
}
