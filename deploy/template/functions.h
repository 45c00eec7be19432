/* The functions that expressions may call; the table at the end of functions.c lists them. */
#pragma once

#include "deploy/template/scope.h"

/* Returns NULL for null and after an error. Arguments that are null are NULL. */
struct yaml_node *function_call(struct template_state *t, const struct yaml_node *at,
                                const char *name, size_t len, struct yaml_node **args,
                                size_t count);
