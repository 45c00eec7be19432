/* What the verb check is to do: from the command line, and from a file beside the manifests. */
#pragma once

#include "deploy/check/check.h"
#include "deploy/yaml/options.h"

/* Read from the current folder unless the command line says otherwise. */
#define CHECK_CONFIG ".rdzv-check.yaml"

enum check_format {
    CHECK_FORMAT_TEXT,
    CHECK_FORMAT_JSON,
    CHECK_FORMAT_SARIF,
    CHECK_FORMAT_GITHUB,
};

struct check_options {
    struct arena arena;
    struct yaml_file config; /* bytes NULL: there is none */
    enum check_format format;
    bool *wanted; /* by rule */
    bool chosen;  /* only some rules are wanted */
    enum check_severity least;
    const char **excluded; /* patterns, as fnmatch() has them */
    size_t excluded_count;
    const char **paths; /* files and folders */
    size_t path_count;
    bool show;
};

/* The options of the command line. */
extern const struct verb_option check_option_table[];

void check_options_init(struct check_options *o);
void check_options_fini(struct check_options *o);

/* Reads the arguments of the verb over the file that they name, or CHECK_CONFIG. Targets go into c.
 * Errors are in d. */
void check_options_read(struct check_options *o, struct check *c, int argc, char **argv,
                        struct diag *d);
