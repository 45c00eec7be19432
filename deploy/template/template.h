/* Fills in templates: YAML whose texts hold ${expressions}, and whose mappings may hold
 *
 *     $if: EXPR        this mapping is there only when the expression is true
 *     $else: X         with $if: what is there otherwise
 *     $for: v in EXPR  this mapping, once for each item (of a mapping: once for each pair, with
 *                      v.key and v.value); as an item of a list the results are items of that list
 *     $value: X        instead of other keys: the result is X, of any kind
 *     $concat: X       as an item of a list: X is a list, and its items come here
 *     $include: NAME   the part of that name (of `parts:`), filled in here; other keys win over its
 *     $vars: {a: X}    variables for it, and for the other keys
 *     $merge: [X, Y]   mappings, the later winning; the other keys win over them
 *     $patch: X        a mapping that wins over the other keys; in lists whose items have names
 *                      those with the same name are merged, the others added
 *     $comment: TEXT   a comment above this mapping, or above the key whose value this is
 *
 * Null leaves the key, or the item, out; so does a collection that had something in it and comes
 * out empty. `{}` and `[]` stay. */
#pragma once

#include "deploy/template/scope.h"

/* Fills in a template. NULL: the result is empty, or there was an error (t->failed). The result may
 * share nodes with the variables. */
struct yaml_node *template_fill(struct template_state *t, const struct yaml_node *node,
                                const struct scope *s);

/* Fills in a mapping of variables, in its order, and puts them into s->vars: each can use those
 * before it. */
bool template_fill_variables(struct template_state *t, const struct yaml_node *let,
                             const struct scope *s);

/* The index-th item that a $for loops over: an item of a list, or {key, value} of a mapping. */
struct yaml_node *template_item(struct template_state *t, const struct yaml_node *over,
                                size_t index);
