/* The verb check: reads arguments and files, and prints what check_bundle() finds. */
#include "deploy/check/check.h"

#include "deploy/check/check_verb.h"
#include "deploy/kube/job_view.h"
#include "deploy/verbs.h"

#include <stdlib.h>

static void check_fini(struct check *c)
{
    for (size_t i = 0; i < c->file_count; i++)
        yaml_file_free(&c->files[i]);
    free(c->files);
    kube_free(&c->bundle);
}

static void print_findings(struct check *c, const struct check_options *o, size_t ignored)
{
    o->print(stdout, c);
    check_print_sum(stderr, c);
    if (ignored > 0)
        fprintf(stderr, "rdzv-manifest: %zu more left out by %s\n", ignored, CHECK_IGNORE);
    check_input_print(stderr, &o->skipped);
}

static void check_files(struct check *c, struct check_options *o, struct diag *d)
{
    if (!check_input_read(o, c, d))
        return;
    for (size_t i = 0; i < check_rule_count; i++)
        o->wanted[i] = o->wanted[i] && !o->show && check_rules[i].severity >= o->least;
    if (!check_bundle(c, o->wanted))
        diag_error(d, o->paths.list[0], (struct yaml_mark){0},
                   "more than %d objects in all files together: check them in parts",
                   KUBE_OBJECTS_MAX);
    else if (o->show)
        job_show(stdout, &c->jobs);
    else
        print_findings(c, o, check_ignore(c, d));
}

static int check_run(int argc, char **argv)
{
    struct check c = {0};
    struct check_options o = {0};
    struct diag d = {0};
    int code;

    check_options_read(&o, &c, argc, argv, &d);
    if (d.errors == 0)
        check_files(&c, &o, &d);
    code = diag_end(&d);
    code = code == 0 ? c.count > 0 : code;
    check_fini(&c);
    check_options_fini(&o);
    return code;
}

const struct verb verb_check = {
    .name = "check",
    .words = "[OPTION...] [FILE | FOLDER]...",
    .summary = "finds in manifests what is known to break the rendezvous",
    .about =
        "Finds in Kubernetes manifests what is known to break the rendezvous of training "
        "jobs.\n\n"
        "All files together are one bundle, as they are applied together; - is the standard "
        "input. Of a folder check takes all manifests, and skips and counts files that hold no "
        "objects. check knows Volcano Jobs, PyTorchJobs, AppWrappers, JobSets, Jobs, "
        "TrainJobs, Pods, StatefulSets and Services. It finds the options of torchrun in "
        "commands, in scripts, in PET_* variables and in elasticPolicy.",
    .more = "The annotation `rdzv.dev/ignore: RULE,RULE` of an object leaves out what these rules "
            "find there.\n\n"
            "`rdzv-manifest list rules` lists the rules, and `rdzv-manifest explain RULE` explains "
            "one.\n\n"
            "Exit codes: 0 nothing found; 1 findings; 2 the input or the arguments are wrong.",
    .options = check_option_table,
    .arguments = "@files",
    .run = check_run,
};
