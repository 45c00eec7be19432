/* The verb rewrite: reads arguments and files, and prints or saves them with rdzvd instead of an
 * etcd or of the store in worker 0. */
#include "deploy/rewrite/rewrite.h"

#include "deploy/check/check.h"
#include "deploy/rewrite/rewrite_plan.h"
#include "deploy/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- Arguments. --- */

/* Sets the option, one of those with a value. */
static void read_choice(struct rewrite_options *o, int option, const char *word, struct diag *d)
{
    const struct option *v = rewrite_options.names;
    const char *instead;

    while (v->val != option)
        v++;
    instead = rewrite_choose(o, v->name, word);
    if (instead != NULL)
        options_error(d, "--%s %s: write %s", v->name, word, instead);
}

static void read_options(int argc, char **argv, struct rewrite *w, struct rewrite_options *o)
{
    bool *switches[128] = {
        ['k'] = &o->keep_backend, ['K'] = &o->keep_kind, ['d'] = &o->diff,
        ['p'] = &o->in_place,     ['s'] = &o->show,      ['P'] = &o->plan,
        ['x'] = &o->exit_code,
    };
    struct yaml_node *wishes = NULL;
    struct diag *d = w->diag;
    int option;

    optind = 0;
    while ((option = options_next(argc, argv, &rewrite_options, d)) >= 0) {
        if (switches[option] != NULL)
            *switches[option] = true;
        else if (option == 'S')
            userfile_set(&w->arena, &wishes, optarg, d);
        else if (option != 0)
            read_choice(o, option, optarg, d);
    }
    o->wishes = d->errors == 0 ? store_wishes(w, wishes, "rewrite") : NULL;
}

static void read_rewrite_arguments(int argc, char **argv, struct rewrite *w,
                                   struct rewrite_options *o)
{
    struct diag *d = w->diag;

    *o = (struct rewrite_options){.image = REWRITE_IMAGE};
    read_options(argc, argv, w, o);
    o->path_count = options_files(argc, argv, &o->paths, d);
    if (o->relay && o->keep_backend)
        options_error(d,
                      "relays are for jobs that move to c10d: leave out --keep-backend, or --rdzv");
    if (*o->image == '\0' || strpbrk(o->image, " \n\t") != NULL)
        options_error(d, "--image %s: this is no name of an image", o->image);
    for (size_t i = 0; i < o->path_count; i++) {
        if (o->in_place && strcmp(o->paths[i], "-") == 0)
            options_error(d, "the standard input cannot be written in place: leave out --in-place");
        for (size_t j = 0; j < i; j++) {
            if (strcmp(o->paths[i], o->paths[j]) == 0)
                options_error(d, "%s is named twice: name it once", o->paths[i]);
        }
    }
}

/* --- The bundle: first the etcd and the jobs that meet there, then the other jobs; at last check
 * judges the result. --- */

/* Replicas and TLS are for a store in the place of worker 0 alone. */
static void refuse_in_place_of_etcd(struct rewrite *w, const struct kube_object *etcd)
{
    const struct yaml_node *tls = yaml_get(w->options->wishes, "tls");

    if (w->options->replicas)
        rewrite_error(w, etcd->node,
                      "%s: the Services of an etcd lead to one store, and replicas come in the "
                      "place of a store in worker 0: use --rdzv=relay, or --from=c10d",
                      etcd->title);
    if (tls != NULL)
        rewrite_error(
            w, etcd->node,
            "%s: other clients of this etcd have no certificate, so rewrite gives TLS only to a "
            "store in the place of worker 0: leave out --set rdzv.tls, or use --from=c10d",
            etcd->title);
}

/* The number of things to rewrite. */
static size_t move_jobs(struct rewrite *w)
{
    const struct rewrite_options *o = w->options;
    struct etcd *etcds = NULL;
    size_t count = o->from_c10d && !o->from_etcd ? 0 : etcd_find(w, &etcds);
    size_t found = count, self;
    bool look;

    for (size_t i = 0; i < count; i++)
        refuse_in_place_of_etcd(w, etcds[i].object);
    if (w->diag->errors > 0)
        return 0;
    if (count > 0)
        move_from_etcds(w, etcds, count, !o->keep_backend);
    for (size_t i = 0; i < count; i++)
        etcd_replace(w, &etcds[i], !o->keep_backend && (etcds[i].moved > 0 || etcds[i].fixed == 0));
    look = o->keep_backend || (o->from_etcd && !o->from_c10d);
    self = move_self_hosted(w, look);
    found += look ? 0 : self;
    self = move_to_agent_store(w, !o->agent_store);
    found += o->agent_store ? self : 0;
    return found;
}

/* Whether an object of the result is a job that moved. */
static bool is_rewritten(const struct rewrite *w, const struct kube_object *o)
{
    return ANY(KUBE_FOREACH(before, &w->bundle),
               w->marks[before->index].moved && strcmp(before->kind, o->kind) == 0 &&
                   strcmp(before->name, o->name) == 0 && kube_same_namespace(before, o));
}

/* What check finds in the files before or after the rewrite. The caller frees the bundle. */
static struct check check_files(struct rewrite *w, bool after, const bool *wanted)
{
    struct check c = {.file_count = w->file_count};

    c.files = arena_alloc(&w->arena, w->file_count * sizeof *c.files);
    for (size_t i = 0; i < w->file_count; i++)
        c.files[i] = after && w->files[i].edits.count > 0 ? w->files[i].again : w->files[i].yaml;
    check_bundle(&c, wanted);
    return c;
}

/* Whether the policy kept agents from their store before. */
static bool was_closed(struct rewrite *w, const struct check_rule *rule,
                       const struct kube_object *policy)
{
    bool *wanted = arena_alloc(&w->arena, check_rule_count), found;
    struct check c;

    wanted[rule - check_rules] = true;
    c = check_files(w, false, wanted);
    found =
        ANY(FOREACH(const struct check_finding, f, c.findings, c.count),
            strcmp(f->object->name, policy->name) == 0 && kube_same_namespace(f->object, policy));
    kube_free(&c.bundle);
    return found;
}

/* Notes the faults of the rewritten jobs that they had before, and refuses a store that a policy
 * closes now: the jobs would wait for it until join_timeout. */
static void note_faults(struct rewrite *w)
{
    struct check c = check_files(w, true, NULL);

    FOREACH(const struct check_finding, f, c.findings, c.count) {
        bool blocked = strcmp(f->rule->id, "store-blocked") == 0;

        if (blocked && !was_closed(w, f->rule, f->object))
            diag_error(w->diag, f->file, f->mark,
                       "%s (in the result): first give this policy, or another one of the same "
                       "pods, a rule for port %d with the pods of the other end; those of a store "
                       "that rewrite adds have the label `rdzvd: JOB`",
                       f->text, C10D_PORT);
        else if (f->rule->severity >= CHECK_WARNING && (blocked || is_rewritten(w, f->object)))
            diag_note(w->diag, f->file, f->mark, "%s: %s (%s, in the result)", f->object->title,
                      f->text, f->rule->id);
    }
    kube_free(&c.bundle);
}

size_t rewrite_run(struct rewrite *w)
{
    size_t found = move_jobs(w);

    for (size_t i = 0; i < w->file_count && w->diag->errors == 0; i++)
        edit_apply(w, &w->files[i]);
    if (w->has_moved && w->diag->errors == 0)
        note_faults(w);
    return found;
}

/* --- The output. --- */

/* Files one after the other are one stream only with a `---` between them. */
static void print_files(const struct rewrite *w)
{
    char last = '\n';

    for (size_t i = 0; i < w->file_count; i++) {
        const struct rewrite_file *f = &w->files[i];
        const char *bytes = f->result.text;

        if (i > 0 && last != '\n')
            fputs(f->eol, stdout);
        if (i > 0 && strncmp(bytes, "---", 3) != 0)
            printf("---%s", f->eol);
        fwrite(bytes, 1, f->result.len, stdout);
        last = f->result.len > 0 ? bytes[f->result.len - 1] : '\n';
    }
}

static void save_changed(struct rewrite *w)
{
    struct save *list = arena_alloc(&w->arena, (w->file_count + 1) * sizeof *list);
    const char *failed;
    size_t count = 0;

    FOREACH(const struct rewrite_file, f, w->files, w->file_count) {
        if (rewrite_changed(f))
            list[count++] =
                (struct save){.path = f->path, .bytes = f->result.text, .len = f->result.len};
    }
    failed = save_files(&w->arena, list, count);
    if (failed != NULL)
        diag_error(w->diag, failed, (struct yaml_mark){0}, "cannot be written: %s",
                   strerror(errno));
    for (size_t i = 0; failed == NULL && i < count; i++)
        diag_note(w->diag, list[i].path, (struct yaml_mark){0}, "written; the old one is %s",
                  list[i].backup);
}

static void print_result(struct rewrite *w)
{
    const struct rewrite_options *o = w->options;

    if (o->plan)
        rewrite_steps_print(stdout, w);
    else if (!o->diff && rewrite_is_function(w))
        rewrite_function_print(stdout, w);
    else if (!o->diff && !o->in_place)
        print_files(w);
    FOREACH(const struct rewrite_file, f, w->files, o->diff && !o->plan ? w->file_count : 0)
        text_diff_print(stdout, f->yaml.name, f->yaml.bytes, f->yaml.len, f->result.text,
                        f->result.len);
}

/* Rewrites what was read; returns whether a file changes. */
static bool rewrite_files(struct rewrite *w)
{
    bool changed;

    if (rewrite_run(w) == 0 && w->diag->errors == 0 && !w->has_left)
        options_note(
            w->diag,
            "nothing to rewrite: no etcd, and no job that hosts its store, was found; if a "
            "job meets at an etcd of another file, name that file too%s",
            w->options->relay ? "; a job that meets at rdzvd already gets no relays: import "
                                "it, and emit it with `rdzv: {placement: relay}`"
                              : "");
    changed =
        w->diag->errors == 0 &&
        ANY(FOREACH(const struct rewrite_file, f, w->files, w->file_count), rewrite_changed(f));
    if (changed)
        rewrite_note_image(w);
    return changed;
}

static int rewrite_and_print(struct rewrite *w, struct rewrite_options *o)
{
    bool changed;

    if (!rewrite_read(w))
        return 2;
    if (o->show) {
        job_show(stdout, &w->jobs);
        return 0;
    }
    if (rewrite_is_function(w))
        rewrite_function_options(w, o);
    changed = w->diag->errors == 0 && rewrite_files(w);
    if (w->diag->errors == 0 && o->in_place && !o->diff && !o->plan)
        save_changed(w);
    if (w->diag->errors > 0 && rewrite_is_function(w))
        rewrite_function_print(stdout, w);
    if (w->diag->errors > 0)
        return 2;
    print_result(w);
    return changed || !o->exit_code ? 0 : 1;
}

int run_rewrite(int argc, char **argv)
{
    struct rewrite_options options;
    struct diag d = {0};
    struct rewrite w = {.diag = &d, .options = &options};
    int code = 2;

    read_rewrite_arguments(argc, argv, &w, &options);
    if (d.errors == 0)
        code = rewrite_and_print(&w, &options);
    rewrite_free(&w);
    diag_end(&d);
    return code;
}
