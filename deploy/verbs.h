/* The verbs of rdzv-manifest: the rows of verbs.py. The parser and --help read them. */
#pragma once

#include "deploy/yaml/options.h"

struct verb {
    const char *name;
    const char *words;   /* "[OPTION...] FILE..." */
    const char *summary; /* with the verb in front, and without a full stop: "checks ..." */
    const char *about;   /* paragraphs, an empty line between them */
    const char *more;    /* the same, behind the options; NULL: nothing */
    const struct verb_option *options;
    int (*run)(int argc, char **argv); /* one of those below */
};

/* All verbs in the order of --help, and the options of each. */
extern const struct verb verbs[];
extern const size_t verb_count;
extern const struct verb_option emit_options[], import_options[], rewrite_options[],
    policy_options[], check_options[], list_options[], explain_options[];

/* Each gets its own arguments, argv[0] being its name. It prints its result to standard output and
 * its errors and notes to standard error, and returns the exit code. main() handles --help. */
int run_emit(int argc, char **argv);
int run_import(int argc, char **argv);
int run_rewrite(int argc, char **argv);
int run_policy(int argc, char **argv);
int run_check(int argc, char **argv);
int run_list(int argc, char **argv);
int run_explain(int argc, char **argv);
