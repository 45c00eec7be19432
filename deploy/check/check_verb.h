/* The steps of the verb check around its rules: options, files, and the forms of its output. */
#pragma once

#include "deploy/check/check.h"
#include "deploy/yaml/options.h"

/* --- Options: from the command line, and from a file beside the manifests. --- */

/* Read from the current folder unless the command line says otherwise. */
#define CHECK_CONFIG ".rdzv-check.yaml"

struct check_texts {
    const char **list;
    size_t count, cap;
};

/* Files of folders that hold no objects, and are skipped. */
struct check_skipped {
    size_t kustomizations, templates, others;
};

struct check_options {
    struct arena arena;      /* of the paths, among others: they live as long as the findings */
    struct yaml_file config; /* bytes NULL: there is none */
    void (*print)(FILE *out, struct check *c);
    bool *wanted; /* by rule */
    bool chosen;  /* only some rules are wanted */
    enum check_severity least;
    struct check_texts excluded; /* patterns of paths below folders, as fnmatch() has them */
    struct check_texts paths;    /* files and folders */
    struct check_texts patches;  /* files that kustomizations list as patches */
    struct check_skipped skipped;
    bool show;
    bool strict;
};

/* --- Reading manifests from files and, recursively, from folders. --- */

/* Reads all files into c->files. A file that is named holds Kubernetes objects and nothing else; of
 * a folder, files that hold none are skipped and counted. False: there are errors in d. */
bool check_input_read(struct check_options *o, struct check *c, struct diag *d);

/* One line about what was skipped, if anything was. */
void check_input_print(FILE *out, const struct check_skipped *s);

/* --- Output. --- */

/* `file:line:column: severity: what [rule]`, with why and remedy. */
void check_print_text(FILE *out, struct check *c);
void check_print_json(FILE *out, struct check *c);
void check_print_sarif(FILE *out, struct check *c);
/* Commands that GitHub's runners show beside the lines of a pull request. */
void check_print_github(FILE *out, struct check *c);
/* One line: the number of findings. */
void check_print_sum(FILE *out, const struct check *c);
/* One line about what no rule has judged, if there is anything (out NULL: nothing): launches and
 * containers whose text is not in the files, and objects of unknown kinds. Returns how many. */
size_t check_print_unread(FILE *out, const struct check *c);
/* A rule: its fault, the consequence and the remedy. */
void check_print_rule(FILE *out, const struct check_rule *rule);
