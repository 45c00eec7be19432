/* The expressions of templates: what stands in ${...}, and behind $if and $for.
 *
 *     name.key[0]   a variable, and parts of it; what is absent is null, and so are its parts
 *     'text' 12 true false null [a, b]
 *     a ?? b        a, or b if a is null
 *     a + b         of integers; of texts: one behind the other; with null: null
 *     a - b  a * b  == != < <= > >=   a in list   'key' in mapping   not and or
 *     f(a, b)       a function: see functions.c
 *
 * False are null, false, 0, an empty text, and what has nothing in it. Values are nodes; null is
 * NULL. Everything is evaluated, so `if(c, a, b)` is a function like any other. */
#pragma once

#include "deploy/template/scope.h"

/* Evaluates text[0..len); the whole of it is one expression. Errors name `at`. */
struct yaml_node *expr_eval(struct template_state *t, const char *text, size_t len,
                            const struct scope *s, const struct yaml_node *at);

/* The text with every ${...} in it replaced; `$${` is `${`. When the whole of it is one ${...} the
 * result is that value, of any type. Texts come back as strings. */
struct yaml_node *expr_interpolate(struct template_state *t, const struct yaml_node *text,
                                   const struct scope *s);

bool expr_true(const struct yaml_node *value);
bool expr_equal(const struct yaml_node *a, const struct yaml_node *b);
