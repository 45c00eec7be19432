/* The verbs of rdzv-manifest, which the build makes of verbs.py. */
#pragma once

#include "deploy/yaml/options.h"

/* Gets the verb's own arguments, argv[0] being its name. It prints its result to standard output
 * and its errors and notes to standard error, and returns the exit code. main() handles --help. */
typedef int verb_run(int argc, char **argv);

verb_run run_emit, run_import, run_rewrite, run_policy, run_check, run_list, run_explain;
extern const struct verb_options emit_options, import_options, rewrite_options, policy_options,
    check_options;

struct verb {
    const char *name;
    verb_run *run;
    const char *help;
};

/* All verbs in the order of --help, and the help about all of them. */
extern const struct verb verbs[];
extern const size_t verb_count;
extern const char verbs_help[];
