/* A YAML file as trees of nodes that know their place, byte for byte. It reads any stream of
 * documents, within limits; the verbs know what they mean. */
#pragma once

#include "deploy/yaml/diag.h"

#define YAML_DEPTH_MAX    100
#define YAML_NODES_MAX    4000000 /* read; an alias is one */
#define YAML_SIZE_MAX     ((size_t)64 << 20)
#define YAML_USER_MAX     ((size_t)4 << 20) /* for a file of settings, which a person writes */
#define YAML_EXPANDED_MAX 1000000           /* nodes for which all aliases of a file stand */

enum yaml_kind { YAML_SCALAR, YAML_MAPPING, YAML_SEQUENCE };

enum yaml_style {
    YAML_PLAIN,
    YAML_SINGLE,
    YAML_DOUBLE,
    YAML_LITERAL,
    YAML_FOLDED,
    YAML_BLOCK, /* collections */
    YAML_FLOW,
};

/* The type that Kubernetes, a YAML 1.1 reader, sees in a scalar: `yes` and `off` are booleans, 010
 * is 8. Quoted and block scalars are strings. */
enum yaml_type { YAML_NULL, YAML_BOOL, YAML_INT, YAML_FLOAT, YAML_STRING };

struct yaml_node {
    enum yaml_kind kind;
    enum yaml_style style;
    bool alias;       /* *name: shares the content of the anchored node, has marks of its own */
    const char *file; /* for messages; NULL in trees that the program makes */
    const char *anchor, *tag; /* NULL: none; a tag is written out: tag:yaml.org,2002:str */
    struct yaml_mark start;   /* the first byte, of an anchor or a tag if there is one */
    struct yaml_mark end; /* after the last byte. A block collection ends where its last part does;
                             a block scalar after its last newline; an empty value (`key:`) starts
                             and ends after the colon */
    const char *text;     /* scalar: the value, NUL-terminated, no NUL inside */
    size_t len;           /* of text */
    struct yaml_pair *pairs;  /* mapping, in the order of the file */
    struct yaml_node **items; /* sequence */
    size_t count, cap;        /* of pairs or items */
    uint32_t weight;          /* number of nodes, including this node and the targets of aliases */
    const char *comment;      /* in trees that the program makes: written above the node */
};

struct yaml_pair {
    struct yaml_node *key, *value; /* keys are scalars, and differ */
    bool merged;                   /* written elsewhere: it came with `<<: *base`, which is gone */
};

struct yaml_doc {
    struct yaml_node *root; /* NULL: nothing, or comments alone */
    /* [start, end) of all documents together is the whole file: comments belong to the document
     * that they stand in front of, up to its `---`; those behind its last node are its own. */
    size_t start;
    size_t body; /* behind the `---`, if there is one, else start */
    size_t end;
    bool marked; /* has a `---` */
};

/* A key that its mapping has twice: readers take the last one, which is in the tree. */
struct yaml_twice {
    const struct yaml_node *mapping, *first, *last;
};

struct yaml_file {
    struct arena arena; /* of everything below but the bytes */
    const char *name;   /* as in messages; `-` is shown as <stdin> */
    char *bytes;        /* as they were read, and a NUL */
    size_t len;
    struct yaml_doc *docs;
    size_t count;
    struct yaml_twice *twice;
    size_t twice_count, twice_cap;
    bool is_template; /* only of files that could not be read */
    bool is_manifest; /* it may hold objects in JSON */
};

/* Reads the file (`-`: standard input). False: there is an error in d, and nothing to free;
 * out->is_template says whether the file has to be rendered before it is YAML. */
bool yaml_file_read(struct yaml_file *out, const char *path, size_t size_max, struct diag *d);

/* The same for bytes, which are copied. */
bool yaml_file_parse(struct yaml_file *out, const char *name, const char *bytes, size_t len,
                     struct diag *d);
void yaml_file_free(struct yaml_file *f);
/* True, with an error in d: a key occurs twice between these bytes. */
bool yaml_refuse_twice(const struct yaml_file *f, size_t from, size_t to, struct diag *d);

/* --- Looking into trees. NULL in, NULL out; a node of another kind has nothing in it. --- */

/* A new list of the items of a loop, such as YAML_FOREACH(item, list), for which the condition
 * holds; NULL: there are none. */
#define YAML_SELECT(a, item, loop, condition)                                    \
    ({                                                                           \
        struct yaml_node *selected = NULL;                                       \
        loop if (condition)                                                      \
        {                                                                        \
            selected = selected != NULL ? selected : yaml_new(a, YAML_SEQUENCE); \
            yaml_append(a, selected, (struct yaml_node *)(item));                \
        }                                                                        \
        selected;                                                                \
    })

/* The value of a key, or NULL. */
struct yaml_node *yaml_get(const struct yaml_node *mapping, const char *key);
struct yaml_pair *yaml_get_pair(const struct yaml_node *mapping, const char *key);
struct yaml_node *yaml_at(const struct yaml_node *sequence, size_t index);
size_t yaml_length(const struct yaml_node *sequence);
/* Loops over the items of a sequence, and over the pairs of a mapping. */
#define YAML_FOREACH(item, sequence)                                       \
    for (struct yaml_node *const *item##_end,                              \
             *const *item##_at = yaml_items(sequence, &item##_end), *item; \
         item##_at != item##_end && (item = *item##_at) != NULL; item##_at++)
#define YAML_FOREACH_PAIR(pair, mapping)                                          \
    for (struct yaml_pair * pair##_end, *pair = yaml_pairs(mapping, &pair##_end); \
         pair != pair##_end; pair++)
struct yaml_node *const *yaml_items(const struct yaml_node *sequence,
                                    struct yaml_node *const **end);
struct yaml_pair *yaml_pairs(const struct yaml_node *mapping, struct yaml_pair **end);
/* An item of a sequence, or a value of a mapping; the index is below `count`. */
struct yaml_node *yaml_child(const struct yaml_node *collection, size_t index);

/* yaml_path(root, "spec.template.spec.containers[0].image"); in a key, `\.` is a dot. */
struct yaml_node *yaml_path(const struct yaml_node *node, const char *path);

/* A scalar's text, else NULL. */
const char *yaml_text(const struct yaml_node *node);
/* Whether it is a scalar with exactly this text. */
bool yaml_is(const struct yaml_node *node, const char *text);

/* Whether a sequence has such a scalar. */
bool yaml_contains(const struct yaml_node *sequence, const char *text);

/* The same as diag_report(), about a node; NULL: about an argument. */
void *yaml_report(struct diag *d, enum diag_kind kind, const struct yaml_node *at,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));
#define yaml_error(d, ...) yaml_report(d, DIAG_ERROR, __VA_ARGS__)
#define yaml_note(d, ...)  yaml_report(d, DIAG_NOTE, __VA_ARGS__)

/* --- Places: the line of an option within a block of script. --- */

/* The mark of a byte behind another one. This is slow: use it for one message. */
struct yaml_mark yaml_mark_forward(struct yaml_mark from, const char *bytes, size_t offset);

/* The place of byte `at` of the scalar's text. The place is exact for every style except folded
 * ones: there, the search follows joined lines as far as the text allows. The place of an alias is
 * where the alias is written. A node that no file contains has none (line 0). */
struct yaml_mark scalar_position(const struct yaml_file *f, const struct yaml_node *scalar,
                                 size_t at);
/* The byte of the file at which the value begins, behind an anchor and a tag. */
size_t scalar_start(const struct yaml_file *f, const struct yaml_node *scalar);

/* --- What scalars mean. Collections and NULL have the type YAML_STRING and no value. --- */

enum yaml_type yaml_type(const struct yaml_node *node);
bool yaml_is_null(const struct yaml_node *node); /* true for NULL, too: absent */
bool yaml_to_bool(const struct yaml_node *node, bool *out);
bool yaml_true(const struct yaml_node *node);
bool yaml_to_int(const struct yaml_node *node, int64_t *out); /* false when it does not fit */

/* --- Making trees. Texts are copied. --- */

struct yaml_node *yaml_new(struct arena *a, enum yaml_kind kind);
struct yaml_node *yaml_new_text(struct arena *a, const char *text, size_t len); /* a string */
struct yaml_node *yaml_new_string(struct arena *a, const char *text);
struct yaml_node *yaml_new_plain(struct arena *a, const char *text); /* a number, true, null */
struct yaml_node *yaml_new_number(struct arena *a, int64_t number);
void yaml_append(struct arena *a, struct yaml_node *sequence, struct yaml_node *item);
/* Replaces the value of the key, or adds the pair. NULL puts nothing. */
void yaml_put(struct arena *a, struct yaml_node *mapping, const char *key,
              const struct yaml_node *value);
/* Puts a new mapping or sequence: as the value of the key, or as the last item of a sequence. */
struct yaml_node *yaml_put_new(struct arena *a, struct yaml_node *to, const char *key,
                               enum yaml_kind kind);
void yaml_put_text(struct arena *a, struct yaml_node *mapping, const char *key, const char *text);
/* Puts some: YAML_PUT_TEXTS(a, m, {"kind", o->kind}, {"name", o->name}), or those that are not
 * empty. */
#define YAML_PUT_TEXTS(a, mapping, ...) \
    yaml_put_texts(a, mapping, false, (const struct yaml_text[]){__VA_ARGS__, {NULL, NULL}})
#define YAML_PUT_FILLED(a, mapping, ...) \
    yaml_put_texts(a, mapping, true, (const struct yaml_text[]){__VA_ARGS__, {NULL, NULL}})
struct yaml_text {
    const char *key, *text;
};
void yaml_put_texts(struct arena *a, struct yaml_node *mapping, bool filled,
                    const struct yaml_text *texts);
void yaml_put_plain(struct arena *a, struct yaml_node *mapping, const char *key, const char *text);
void yaml_put_number(struct arena *a, struct yaml_node *mapping, const char *key, long number);
/* Adds a pair. The caller knows that the key is not there yet. */
void yaml_add(struct arena *a, struct yaml_node *mapping, struct yaml_node *key,
              struct yaml_node *value);
bool yaml_remove(struct yaml_node *mapping, const char *key);

/* --- Writing: trees as human-style YAML or as JSON, yaml_write.c; and single values on one line,
 * for edits of files. --- */

/* Block style: indentation of two, lists not indented below their key, keys in the order of the
 * tree, no anchors, texts of several lines as `|` if YAML allows it, quotes if any reader could
 * take a text for something else. A comment stands above its node. Ends with a newline. */
char *yaml_write(struct arena *a, const struct yaml_node *root);
/* All documents of a list, with `---` between them. */
const char *yaml_write_documents(struct arena *a, const struct yaml_node *documents);

/* JSON in lines that are indented by `tab`, without a newline behind it. Integers keep all digits,
 * even if a double cannot hold them. */
char *yaml_write_json(struct arena *a, const struct yaml_node *root, const char *tab);

/* --- Strings as scalars. --- */

/* The text as a scalar that every reader takes for a string, in block and in flow style: quoted if
 * necessary. */
const char *scalar_text(struct arena *a, const char *text);

/* The text as it is written between double quotes, also in JSON. */
void scalar_add_quoted(struct buf *out, const char *text);
void scalar_add_string(struct buf *out, const char *text); /* with the quotes */

/* --- Nodes in flow style, on one line, for files that are written so: JSON is one of them. --- */

struct flow_style {
    bool json;   /* keys and strings in double quotes */
    bool spaced; /* { a: b } */
};

/* Prints the one node of a text in block style; with `bare` without the outer braces. False when
 * the text is no YAML. */
bool flow_print_block(struct buf *out, const char *block, struct flow_style style, bool bare);
