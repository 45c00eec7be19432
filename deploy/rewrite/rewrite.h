/* The files of `rewrite` as one bundle, as `check` sees them, with the edits of each file; its
 * rewrite, and the forms in which the verb gives it out. */
#pragma once

#include "deploy/kube/job_view.h"
#include "deploy/yaml/text_edit.h"

#define REWRITE_IMAGE "registry.example/rdzvd:0.1.0"

struct rewrite_options {
    bool keep_backend; /* jobs stay on etcd-v2 */
    bool keep_kind;    /* a Pod stays a Pod */
    bool diff, in_place, show;
    bool agent_store;          /* --wiring=agent-store */
    bool relay;                /* --rdzv=relay, and --rdzv=replicas */
    bool replicas;             /* --rdzv=replicas */
    bool from_etcd, from_c10d; /* only these; neither: both */
    const char *etcd;          /* NAME or NAMESPACE/NAME, or NULL */
    const char *image;
    const char *metrics; /* "annotations"; NULL: nothing says where metrics are */
    char **paths;
    size_t path_count;
    bool exit_code;                 /* 1 when there is nothing to rewrite */
    bool plan;                      /* print what to do on the cluster */
    const struct yaml_node *wishes; /* settings of rdzv.* for the pod of the store, or NULL */
};

/* Sets an option that has a value, or a switch to `true` or `false`. Returns NULL or, after a wrong
 * word (or none: NULL), what to write instead; "" if there is no option of that name. */
const char *rewrite_choose(struct rewrite_options *o, const char *name, const char *word);

struct rewrite_file {
    struct yaml_file yaml;
    const char *path, *eol;
    struct text_edits edits;
    struct buf result;
    struct yaml_file again; /* the result, parsed again; empty if nothing was edited */
};

struct rewrite_mark {
    bool trains;       /* it has runs */
    bool moved;        /* a job that meets at rdzvd after the rewrite */
    bool restarted;    /* an unchanged job whose store is replaced */
    bool edited;       /* a Service or policy that has its edits */
    const char *store; /* the name of the store that the job got, or NULL */
};

struct rewrite {
    struct arena arena;
    struct diag *diag;
    const struct rewrite_options *options;
    struct rewrite_file *files;
    size_t file_count;
    struct kube_bundle bundle;
    struct job_view jobs;
    struct rewrite_mark *marks; /* by index of objects */
    bool has_moved;             /* one of them */
    bool has_left;              /* an etcd or a job stays, and a note says why */
};

/* Reads and parses the files, and looks into them. False: there is an error in diag. */
bool rewrite_read(struct rewrite *w);
/* The same for files that are parsed already. */
bool rewrite_look(struct rewrite *w);
void rewrite_free(struct rewrite *w);

/* Whether the file has a new text, and another one. */
bool rewrite_changed(const struct rewrite_file *f);

/* The file that contains a node. */
struct rewrite_file *rewrite_file_of(const struct rewrite *w, const struct yaml_node *n);

/* Notes a finding or a change at this node, or advice for the user. */
#define rewrite_note(m, ...)  yaml_note((m)->diag, __VA_ARGS__)
#define rewrite_error(m, ...) yaml_error((m)->diag, __VA_ARGS__)

/* Notes that the image is the placeholder, if it is. */
void rewrite_note_image(struct rewrite *w);

/* Returns the number of things to rewrite. After errors, which are in diag, no file has a new text.
 * Otherwise each file has its `result`, which may equal the old text. */
size_t rewrite_run(struct rewrite *w);

/* --- As a KRM function: a ResourceList on standard input, changed and with results on standard
 * output (config.kubernetes.io/v1, as kustomize and kpt have them). --- */

/* Whether the input is one ResourceList. */
bool rewrite_is_function(const struct rewrite *w);

/* Takes the options from functionConfig (`data` of a ConfigMap, else `spec`): the names of
 * rewrite's own, such as `image` and `rdzv`. Errors are in diag. */
void rewrite_function_options(struct rewrite *w, struct rewrite_options *o);

/* Prints the list with what diag says in `results`; after an error, the list as it came. */
void rewrite_function_print(FILE *out, struct rewrite *w);

/* --- What to do on the cluster after a rewrite. --- */

/* Prints the commands in order: first delete the jobs that must restart, then the objects that are
 * absent from the new files or that kubectl apply cannot change; then apply the files, and wait for
 * the store. Call it after the bundle was rewritten. */
void rewrite_steps_print(FILE *out, struct rewrite *w);

/* --- Files with new contents: none is ever half written, and the old contents are kept. --- */

struct save {
    const char *path;
    const char *bytes;
    size_t len;
    const char *target, *temp, *backup; /* set by save_files(); they lie in the arena */
};

/* Writes all new files under temporary names. Only when each of them is complete and on disk, gives
 * each old file the name of its backup (PATH.bak, else PATH.bak.2 and so on) and renames the new
 * one to its path. Returns NULL, or the path of the file that failed, with errno; until the first
 * rename nothing has changed. Symbolic links are followed. */
const char *save_files(struct arena *a, struct save *list, size_t count);

/* --- Edits of nodes, rewrite_edit.c: a new value, a new part of a value, a pair or an item that is
 * added or removed, each in the style of the text around it. What cannot be edited safely becomes
 * an error in the diag, with its place. --- */

/* Sets a new value, in the quotes of the old one. An empty value (`key:`) gets one. */
void edit_value(struct rewrite *w, const struct yaml_node *n, const char *text);

/* Replaces bytes [from, to) of the value. A newline in the text asks for a line of its own, and
 * gets one if the style has lines; elsewhere ` \` and the newline become a blank. */
void edit_part(struct rewrite *w, const struct yaml_node *n, size_t from, size_t to,
               const char *text);

/* Adds a pair before or after another one; in an empty mapping it becomes the first. `block` is a
 * whole node in block style: its lines end with \n, and its outermost level has no indentation.
 * Within flow collections it is written in flow style. */
void edit_add_pair(struct rewrite *w, const struct yaml_node *mapping,
                   const struct yaml_pair *beside, bool before, const char *block);
/* Adds an item before or after the item of this index; in an empty list it becomes the first. */
void edit_add_item(struct rewrite *w, const struct yaml_node *sequence, size_t index, bool before,
                   const char *block);
void edit_append_item(struct rewrite *w, const struct yaml_node *sequence, const char *block);
void edit_replace(struct rewrite *w, const struct yaml_node *n, const char *block);

/* A node that fills whole lines is removed with them, including comments after it. */
void edit_remove_pair(struct rewrite *w, const struct yaml_node *mapping,
                      const struct yaml_pair *pair);
void edit_remove_item(struct rewrite *w, const struct yaml_node *sequence, size_t index);

/* Turns a JSON file with a single object into a List, with the object as its last item. */
void edit_make_list(struct rewrite *w, const struct yaml_node *object,
                    const struct yaml_node *documents);

/* Removes the document; comments around it stay. */
void edit_remove_document(struct rewrite *w, const struct yaml_doc *doc);
/* Whole documents with `---` lines between them, and one more `---` at the end if necessary. */
void edit_add_documents(struct rewrite *w, const struct yaml_doc *before, const char *documents);

/* Makes the new text of the file. Errors: two edits at one place, edits of what an anchor or alias
 * shares, edits of a template's braces, a result that is not YAML. */
bool edit_apply(struct rewrite *w, struct rewrite_file *f);
