/* The files that `rewrite` was given as one bundle of objects, whichever file they stand in, and
 * the edits that are to be made in each file. */
#pragma once

#include "deploy/yaml/diag.h"
#include "deploy/yaml/text_edit.h"
#include "deploy/yaml/yaml_doc.h"

struct rewrite_options {
    bool keep_backend; /* jobs stay on etcd-v2 */
    bool keep_kind;    /* a Pod stays a Pod */
    bool diff, in_place;
    bool agent_store;          /* --wiring=agent-store */
    bool from_etcd, from_c10d; /* only these; neither: both */
    const char *etcd;          /* NAME or NAMESPACE/NAME, or NULL */
    const char *image;
    char **paths;
    size_t path_count;
};

struct bundle_file {
    struct yaml_file yaml;
    const char *path, *eol;
    struct text_edits edits;
    struct text_result result;
};

/* A Kubernetes object: a document, an item of a List, or a part of an AppWrapper. */
struct object {
    struct bundle_file *file;
    struct yaml_doc *doc;
    struct yaml_node *node;
    struct yaml_node *list;              /* the `items` it is one of, or NULL */
    size_t index;                        /* there */
    struct object *wrapper;              /* the AppWrapper around it, or NULL */
    const char *kind, *name, *namespace; /* never NULL; "" when absent */
};

struct bundle {
    struct arena arena;
    struct diag *diag;
    const struct rewrite_options *options;
    struct bundle_file *files;
    size_t file_count;
    struct object **objects; /* in the order of the files */
    size_t count, cap;
};

/* Reads the files and finds the objects. False: an error is in diag. */
bool bundle_read(struct bundle *b);
/* The same of one file whose bytes are here. */
bool bundle_parse(struct bundle *b, const char *name, const char *bytes, size_t len);
void bundle_free(struct bundle *b);

/* Whether an object named so, in that namespace, may be meant: nobody knows which one `kubectl -n`
 * will name, so no namespace is like any. */
bool bundle_same_namespace(const char *a, const char *b);

/* Something was found, changed, or should be known, at this node. */
void bundle_note(struct bundle *b, const struct yaml_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void bundle_error(struct bundle *b, const struct yaml_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "Pod etcd-server", for notes. */
const char *object_title(struct bundle *b, const struct object *o);

/* Pod specs anywhere in an object: mappings with a list of `containers`. In the order of the file.
 */
struct pod_specs {
    struct yaml_node **list;      /* the specs */
    struct yaml_node **templates; /* the mapping around each, with its `metadata` */
    size_t count, cap;
};
void find_pod_specs(struct bundle *b, struct yaml_node *node, struct pod_specs *out);
