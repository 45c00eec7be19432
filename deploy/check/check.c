/* The verb check: reads arguments and files, and prints what check_bundle() finds. */
#include "deploy/check/check.h"

#include "deploy/check/check_print.h"
#include "deploy/kube/job_show.h"
#include "deploy/verbs.h"
#include "deploy/yaml/nearest.h"
#include "deploy/yaml/options.h"

#include <stdlib.h>
#include <string.h>

static const struct verb_option check_options[] = {
    {"output", 'o', true, "FORMAT", "text (the default), json, or sarif (SARIF 2.1.0)",
     "text json sarif"},
    {"rule", 'r', false, "RULE", "only this rule; repeatable", "@rules"},
    {"ignore", 'i', false, "RULE", "all rules but this one; repeatable", "@rules"},
    {"severity", 's', false, "LEVEL", "error; warning (and errors); note (all, the default)",
     "error warning note"},
    {"target", 't', false, "WHAT[=VERSION]",
     "also what breaks on that: kubernetes=1.28, training-operator=1.7, volcano=1.8, jobset=0.6, "
     "istio; repeatable",
     "kubernetes= training-operator= volcano= jobset= istio"},
    {"show", 'S', false, NULL, "print what check sees in the files, as JSON, and apply no rule",
     NULL},
    {0},
};

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SARIF };

struct check_arguments {
    enum format format;
    bool *wanted; /* by rule */
    bool chosen;  /* --rule was given */
    enum check_severity least;
    const char *const *files;
    size_t file_count;
    bool show;
};

/* --- Arguments. --- */

static void choose_rule(struct check_arguments *o, const char *id, bool want, struct diag *d)
{
    const struct check_rule *rule = check_rule_named(id);
    struct nearest n = nearest_to(id);

    for (size_t i = 0; i < check_rule_count; i++)
        nearest_try(&n, check_rules[i].id);
    if (rule == NULL && n.found != NULL)
        options_error(d, "there is no rule %s: did you mean %s?", id, n.found);
    else if (rule == NULL)
        options_error(d, "there is no rule %s: see `rdzv-manifest list rules`", id);
    if (rule == NULL)
        return;
    if (want && !o->chosen) {
        memset(o->wanted, 0, check_rule_count * sizeof *o->wanted);
        o->chosen = true;
    }
    o->wanted[rule - check_rules] = want;
}

/* The index of the word among `names`, or -1. */
static int index_of(const char *word, const char *const *names)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], word) == 0)
            return i;
    }
    return -1;
}

static void choose_format(struct check_arguments *o, const char *name, struct diag *d)
{
    static const char *const names[] = {"text", "json", "sarif", NULL};
    int i = index_of(name, names);

    if (i < 0)
        options_error(d, "there is no output %s: write text, json or sarif", name);
    o->format = i < 0 ? FORMAT_TEXT : (enum format)i;
}

static void choose_severity(struct check_arguments *o, const char *name, struct diag *d)
{
    for (int i = CHECK_NOTE; i <= CHECK_ERROR; i++) {
        if (strcmp(check_severity_name((enum check_severity)i), name) == 0) {
            o->least = (enum check_severity)i;
            return;
        }
    }
    options_error(d, "there is no severity %s: write error, warning or note", name);
}

/* `volcano=1.8`, `v1.8.2`; or the name alone. */
static void choose_target(struct check *c, const char *text, struct diag *d)
{
    static const char *const names[] = {
        "kubernetes", "training-operator", "volcano", "jobset", "istio", NULL};
    const char *equals = strchr(text, '='), *version = equals == NULL ? NULL : equals + 1;
    char name[32];
    struct check_target target = {.given = true, .major = -1};
    int i;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    i = index_of(name, names);
    if (i < 0) {
        options_error(d,
                      "there is no target %s: write kubernetes, training-operator, volcano, jobset "
                      "or istio",
                      name);
    } else if (version != NULL &&
               sscanf(version + (*version == 'v'), "%5d.%5d", &target.major, &target.minor) != 2) {
        options_error(d, "--target %s: this is no version: write one like 1.8", text);
    } else {
        target.name = names[i];
        c->targets[i] = target;
    }
}

static void read_check_arguments(struct check_arguments *o, struct check *c, int argc, char **argv,
                                 struct diag *d)
{
    int option;

    memset(o->wanted, true, check_rule_count * sizeof *o->wanted);
    optind = 0;
    while ((option = options_next(argc, argv, check_options, d)) >= 0) {
        if (option == 'o')
            choose_format(o, optarg, d);
        else if (option == 'r' || option == 'i')
            choose_rule(o, optarg, option == 'r', d);
        else if (option == 's')
            choose_severity(o, optarg, d);
        else if (option == 't')
            choose_target(c, optarg, d);
        o->show = o->show || option == 'S';
    }
    o->files = (const char *const *)argv + optind;
    o->file_count = (size_t)(argc - optind);
    if (o->file_count == 0)
        options_error(d, "no file is given: name manifests, or - for the standard input");
}

/* --- The bundle. --- */

/* Without this, a document that is no manifest would pass as one without faults. Empty documents
 * between `---` lines are common, but a file of nothing else is the wrong file or a broken pipe. */
static void refuse_non_objects(const struct yaml_file *f, struct diag *d)
{
    size_t seen = 0;

    for (size_t i = 0; i < f->count; i++) {
        const struct yaml_node *root = f->docs[i].root;
        const char *missing = NULL;

        if (root == NULL || (root->kind == YAML_SCALAR && yaml_is_null(root)))
            continue;
        seen++;
        if (root->kind != YAML_MAPPING)
            missing = "apiVersion and kind";
        else if (*kube_text(root, "apiVersion") == '\0')
            missing = *kube_text(root, "kind") == '\0' ? "apiVersion and kind" : "apiVersion";
        else if (*kube_text(root, "kind") == '\0')
            missing = "kind";
        if (missing != NULL)
            diag_error(
                d, f->name, root->start,
                "this is no Kubernetes object, it has no %s: give check what kubectl apply accepts",
                missing);
    }
    if (seen == 0)
        diag_error(d, f->name, (struct yaml_mark){0, 1, 1},
                   "no Kubernetes object in it: name a file of manifests, or pipe them to -");
}

static bool read_files(struct check *c, const struct check_arguments *o, struct diag *d)
{
    c->files = calloc(o->file_count + 1, sizeof *c->files);
    if (c->files == NULL)
        abort();
    for (size_t i = 0; i < o->file_count; i++) {
        if (!yaml_file_read(&c->files[c->file_count], o->files[i], YAML_SIZE_MAX, d))
            continue; /* and read the others: the user wants to know their errors, too */
        refuse_non_objects(&c->files[c->file_count++], d);
    }
    return d->errors == 0;
}

static void check_fini(struct check *c)
{
    for (size_t i = 0; i < c->file_count; i++)
        yaml_file_free(&c->files[i]);
    free(c->files);
    kube_free(&c->bundle);
}

static void print_findings(struct check *c, enum format format)
{
    if (format == FORMAT_JSON)
        check_print_json(stdout, c);
    else if (format == FORMAT_SARIF)
        check_print_sarif(stdout, c);
    else
        check_print_text(stdout, c);
    check_print_sum(stderr, c);
}

static void check_files(struct check *c, const struct check_arguments *o, struct diag *d)
{
    if (!read_files(c, o, d))
        return;
    for (size_t i = 0; i < check_rule_count; i++)
        o->wanted[i] = o->wanted[i] && !o->show && check_rules[i].severity >= o->least;
    if (!check_bundle(c, o->wanted))
        diag_error(d, o->files[0], (struct yaml_mark){0},
                   "more than %d objects in all files together: check them in parts",
                   KUBE_OBJECTS_MAX);
    else if (o->show)
        job_show(stdout, &c->jobs);
    else
        print_findings(c, o->format);
}

static int run_check(int argc, char **argv)
{
    struct check c = {0};
    struct check_arguments o = {.wanted = calloc(check_rule_count, sizeof *o.wanted)};
    struct diag d = {0};
    int code;

    if (o.wanted == NULL)
        abort();
    read_check_arguments(&o, &c, argc, argv, &d);
    if (d.errors == 0)
        check_files(&c, &o, &d);
    diag_print(&d, stderr);
    code = d.errors > 0 ? 2 : c.count > 0;
    diag_free(&d);
    check_fini(&c);
    free(o.wanted);
    return code;
}

const struct verb verb_check = {
    .name = "check",
    .words = "[OPTION...] FILE...",
    .summary = "finds in manifests what is known to break the rendezvous",
    .about = "Finds in Kubernetes manifests what is known to break the rendezvous of training "
             "jobs.\n\n"
             "All files together are one bundle, as they are applied together; - is the standard "
             "input. check knows Volcano Jobs, PyTorchJobs, AppWrappers, JobSets, Jobs, TrainJobs, "
             "Pods, StatefulSets and Services. It finds the options of torchrun in commands, in "
             "scripts, in PET_* variables and in elasticPolicy.",
    .more = "`rdzv-manifest list rules` lists the rules, and `rdzv-manifest explain RULE` explains "
            "one.\n\n"
            "Exit codes: 0 nothing found; 1 findings; 2 the input or the arguments are wrong.",
    .options = check_options,
    .arguments = "@files",
    .run = run_check,
};
