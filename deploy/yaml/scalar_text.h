/* Strings as YAML scalars. */
#pragma once

#include "deploy/yaml/buf.h"

/* The text as a scalar that every reader takes for a string, in block and in flow style: quoted if
 * necessary. */
const char *scalar_text(struct arena *a, const char *text);

/* The text as it is written between double quotes. */
void scalar_add_quoted(struct buf *out, const char *text);
