/* What check did not look at. */
#pragma once

#include "deploy/check/check.h"

#include <stdio.h>

/* A line for each kind of thing: how many objects there were, and which of them are of kinds that
 * check does not know; the files with placeholders, of which it takes nothing for certain. */
void check_print_looked(FILE *out, const struct check *c);
