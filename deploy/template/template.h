/* Fills in templates: YAML with ${expressions} in texts and directives such as $if and $for in
 * mappings. deploy/data/README.md describes the language. Values are nodes, and null is NULL. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

struct scope {
    struct yaml_node *vars; /* a mapping */
    const struct scope *up; /* NULL: the outermost */
};

struct template_state {
    struct arena *arena; /* of all results */
    struct diag *diag;
    struct yaml_node *parts; /* for $include: a mapping of names to templates */
    bool failed;             /* after an error: the result has no meaning */
    unsigned depth;
};

/* Fills in a template. NULL: the result is empty, or there was an error (t->failed). The result may
 * share nodes with the variables. */
struct yaml_node *template_fill(struct template_state *t, const struct yaml_node *node,
                                const struct scope *s);

/* Fills in a mapping of variables, in its order, and puts them into s->vars: each can use those
 * before it. */
bool template_fill_variables(struct template_state *t, const struct yaml_node *let,
                             const struct scope *s);

/* Reports the entries of a list of `checks` or `notes` whose `if` is true: at `where`, if that is
 * in a file of the user, else at `file`. False: there was an error in a template. */
bool template_check(struct template_state *t, const struct yaml_node *list, enum diag_kind kind,
                    const struct scope *s, const char *file);

/* Prints, as JSON, what `key` of an embedded template comes to, with variables to which its `let`
 * adds. `off`, if a template needs it, is one of them, and becomes null. Errors are in d. */
void template_print_json(FILE *out, const char *name, const char *key, struct yaml_node *vars,
                         struct diag *d);

/* --- Expressions, in ${...}, $if and $for. --- */

/* Evaluates text[0..len), which is one expression. Errors name `at`. */
struct yaml_node *expr_eval(struct template_state *t, const char *text, size_t len,
                            const struct scope *s, const struct yaml_node *at);

/* Replaces every ${...} in the text. A text that is one ${...} gives its value, of any type; any
 * other text gives a string. */
struct yaml_node *expr_interpolate(struct template_state *t, const struct yaml_node *text,
                                   const struct scope *s);

bool expr_true(const struct yaml_node *value);
bool expr_equal(const struct yaml_node *a, const struct yaml_node *b);

/* --- The functions that expressions may call, and what these and templates share. --- */

/* Returns NULL for null and after an error. Arguments that are null are NULL. */
struct yaml_node *function_call(struct template_state *t, const struct yaml_node *at,
                                const char *name, struct yaml_node **args, size_t count);

extern const size_t function_count;

/* Reports an error in a template, which is to be mended, at the node that is being filled in.
 * Returns NULL. */
struct yaml_node *template_error(struct template_state *t, const struct yaml_node *at,
                                 const char *format, ...) __attribute__((format(printf, 3, 4)));

/* --- What templates do with values: merges, and quantities. Nothing here changes its arguments;
 * results share their nodes. --- */

/* --- Merges of two trees, of which either may be NULL. --- */

enum merge {
    /* As helm merges values: mappings are merged key by key, other values of `over` replace those
     * below, and null removes. A key keeps the place where it came first. */
    MERGE_VALUES,
    /* The same for files of settings, in which a null stays: it also switches a default off. */
    MERGE_FILES,
    /* As helm does, and lists as Kubernetes does: items with the same mountPath, name or key are
     * merged, the others are appended. */
    MERGE_PATCH,
    /* Settings over the defaults of a profile: in lists, an item replaces the one of the same name,
     * other items are appended, and a text that is already there is not appended again. */
    MERGE_OVER_DEFAULTS,
};

struct yaml_node *merge_nodes(enum merge how, struct arena *a, const struct yaml_node *base,
                              const struct yaml_node *over);

/* --- Quantities of Kubernetes, and the requests and limits of a container. --- */

/* The number that a quantity stands for; negative if it is none. */
long double quantity_value(const char *text);

/* The resources `over` on those of `base` (mappings of requests and limits; NULL: nothing). Where
 * `over` has only one of request and limit, the other one follows it if both were equal, if they
 * have to be (devices, huge pages), or if the request would be above the limit. */
struct yaml_node *quantity_fit(struct arena *a, const struct yaml_node *base,
                               const struct yaml_node *over);

/* A list of {name, request, limit} of what no API server accepts: a request above its limit, a
 * device whose request is not its limit, and a fraction of a device. */
struct yaml_node *quantity_conflicts(struct arena *a, const struct yaml_node *resources);

/* --- Literals of CEL, in which policies of Kubernetes and of Kyverno make objects. --- */

/* Within a text, marks around an expression of CEL, whose value stands there. */
#define CEL_EXPRESSION(text) "\001" text "\002"

/* Writes a value as an expression. `type` is that of a mapping, such as
 * `Object.spec.initContainers`. A mapping with the key `cel` is an expression itself: a list of
 * texts, of {type, value}, and of such lists. */
void cel_write(struct buf *out, const char *type, const struct yaml_node *n);
