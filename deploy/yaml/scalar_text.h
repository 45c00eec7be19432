/* Strings as YAML scalars. */
#pragma once

#include "deploy/yaml/buf.h"

/* The text as a scalar that everybody reads as a string, in block and in flow style: quoted where
 * it has to be. */
const char *scalar_text(struct arena *a, const char *text);

/* What stands between double quotes for it. */
void scalar_add_quoted(struct buf *out, const char *text);
