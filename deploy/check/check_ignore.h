/* Findings that the object itself asks to leave out. */
#pragma once

#include "deploy/check/check.h"

/* The annotation: names of rules, with commas between them. */
#define CHECK_IGNORE "rdzv.dev/ignore"

/* Removes findings of rules that the annotation of their object, or of the AppWrapper around it,
 * names. Returns how many; a note in d says where the annotation names no rule. */
size_t check_ignore(struct check *c, struct diag *d);
