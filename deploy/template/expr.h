/* The expressions of templates, in ${...}, $if and $for; deploy/data/README.md describes them.
 * Values are nodes, and null is NULL. */
#pragma once

#include "deploy/template/scope.h"

/* Evaluates text[0..len), which is one expression. Errors name `at`. */
struct yaml_node *expr_eval(struct template_state *t, const char *text, size_t len,
                            const struct scope *s, const struct yaml_node *at);

/* Replaces every ${...} in the text. If the text is one ${...} and nothing else, returns its value,
 * of any type, else a string. */
struct yaml_node *expr_interpolate(struct template_state *t, const struct yaml_node *text,
                                   const struct scope *s);

bool expr_true(const struct yaml_node *value);
bool expr_equal(const struct yaml_node *a, const struct yaml_node *b);
