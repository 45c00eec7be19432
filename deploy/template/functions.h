/* The functions that expressions may call: see the table at the end of functions.c. */
#pragma once

#include "deploy/template/scope.h"

/* NULL for null, and after an error. Arguments that are null are NULL. */
struct yaml_node *function_call(struct template *t, const struct yaml_node *at, const char *name,
                                size_t len, struct yaml_node **args, size_t count);
