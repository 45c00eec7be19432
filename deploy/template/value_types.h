/* The types of settings that are texts of a certain form, and the check of each. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct value_type {
    const char *name; /* as in `type:` */
    bool (*fits)(const char *text, size_t len);
    const char *what; /* "is not ..." */
    const char *remedy;
    const char *pattern; /* the same as a regular expression of ECMA 262; it may accept more */
};

/* NULL: no type of that name. */
const struct value_type *value_type_find(const char *name);
