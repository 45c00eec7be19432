/* The name that a user probably meant, for "did you mean". */
#pragma once

#include <stddef.h>

struct nearest {
    const char *name;  /* as the user wrote it */
    const char *found; /* the nearest candidate so far; NULL: none is near */
    size_t distance;   /* a candidate must be nearer than this */
};

struct nearest nearest_to(const char *name);
void nearest_try(struct nearest *n, const char *candidate);
/* The same, and a candidate that begins with the name is near: "stat" of "status". */
void nearest_try_word(struct nearest *n, const char *candidate);

/* The names that other programs have for a candidate: theirs and ours; NULL ends them. Each is as
 * near as can be. */
void nearest_try_foreign(struct nearest *n, const char *const (*pairs)[2]);

/* Of `names`, which end with NULL; NULL when none is near. */
const char *nearest_name(const char *name, const char *const *names);
