/* The verbs of rdzv-manifest. Each verb is one row, defined in the file of its code. The parser,
 * --help, the manual page and the shell completions read these rows. */
#pragma once

#include "deploy/yaml/options.h"

struct verb {
    const char *name;
    const char *words;   /* "[OPTION...] FILE..." */
    const char *summary; /* with the verb in front, and without a full stop: "checks ..." */
    const char *about;   /* paragraphs, an empty line between them */
    const char *more;    /* the same, behind the options; NULL: nothing */
    const struct verb_option *options; /* NULL: none */
    const char *arguments; /* how a shell completes them, as struct verb_option's `words` */
    /* Gets its own arguments, argv[0] being its name. It prints its result to standard output and
     * its errors and notes to standard error, and returns the exit code. main() handles --help. */
    int (*run)(int argc, char **argv);
};

extern const struct verb verb_emit;
extern const struct verb verb_import;
extern const struct verb verb_rewrite;
extern const struct verb verb_policy;
extern const struct verb verb_check;
extern const struct verb verb_list;
extern const struct verb verb_explain;

/* All verbs in the order of --help. */
extern const struct verb *const verbs[];
extern const size_t verb_count;
