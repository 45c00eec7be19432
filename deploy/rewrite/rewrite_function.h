/* rewrite as a KRM function: a ResourceList on standard input, changed and with results on standard
 * output (config.kubernetes.io/v1, as kustomize and kpt have them). */
#pragma once

#include "deploy/rewrite/rewrite_engine.h"

/* Whether the input is one ResourceList. */
bool rewrite_is_function(const struct rewrite *w);

/* Takes the options from functionConfig (`data` of a ConfigMap, else `spec`): the names of
 * rewrite's own, such as `image` and `rdzv`. Errors are in diag. */
void rewrite_function_options(struct rewrite *w, struct rewrite_options *o);

/* Prints the list with what diag says in `results`; after an error, the list as it came. */
void rewrite_function_print(FILE *out, struct rewrite *w);
