/* The files that `rewrite` was given, as the one bundle that `check` sees in them, and the edits
 * that are to be made in each file. */
#pragma once

#include "deploy/kube/job_view.h"
#include "deploy/yaml/diag.h"
#include "deploy/yaml/text_edit.h"

struct rewrite_options {
    bool keep_backend; /* jobs stay on etcd-v2 */
    bool keep_kind;    /* a Pod stays a Pod */
    bool diff, in_place, show;
    bool agent_store;          /* --wiring=agent-store */
    bool from_etcd, from_c10d; /* only these; neither: both */
    const char *etcd;          /* NAME or NAMESPACE/NAME, or NULL */
    const char *image;
    char **paths;
    size_t path_count;
};

struct rewrite_file {
    struct yaml_file yaml;
    const char *path, *eol;
    struct text_edits edits;
    struct text_result result;
    struct yaml_file again; /* the result as it is read again; empty when nothing was edited */
};

struct rewrite {
    struct arena arena;
    struct diag *diag;
    const struct rewrite_options *options;
    struct rewrite_file *files;
    size_t file_count;
    struct kube_bundle bundle;
    struct job_view jobs;
    const struct kube_object **moved; /* jobs that meet at rdzvd from now on */
    size_t moved_count;
};

/* Reads the files and what is in them. False: an error is in diag. */
bool rewrite_read(struct rewrite *w);
/* The same of one file whose bytes are here. */
bool rewrite_parse(struct rewrite *w, const char *name, const char *bytes, size_t len);
void rewrite_free(struct rewrite *w);

/* The file that a node stands in. */
struct rewrite_file *rewrite_file_of(const struct rewrite *w, const struct yaml_node *n);

/* Something was found, changed, or should be known, at this node. */
void rewrite_note(struct rewrite *w, const struct yaml_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rewrite_error(struct rewrite *w, const struct yaml_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "Pod etcd-server", for notes. */
const char *rewrite_title(struct rewrite *w, const struct kube_object *o);
