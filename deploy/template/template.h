/* Fills in templates: YAML whose texts contain ${expressions} and whose mappings contain directives
 * such as $if and $for. deploy/data/README.md describes the language. */
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
