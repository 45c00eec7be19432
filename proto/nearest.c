/* The edit distance of two names, and which distance counts as near. */
#include "proto/nearest.h"

#include <string.h>
#include <strings.h>

/* Optimal string alignment: letters missing, wrong, too many, or two exchanged. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { MAX = 64 };
    size_t d[3][MAX + 1], n = strlen(a), m = strlen(b);

    if (n > MAX || m > MAX)
        return MAX;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = d[i % 3], *up = d[(i - 1) % 3], *up2 = d[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);

            if (up[j] + 1 < best)
                best = up[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            row[j] = best;
        }
    }
    return d[n % 3][m];
}

struct nearest nearest_to(const char *name)
{
    size_t len = strlen(name);

    /* One letter of a short name may be wrong, three of a long one. */
    return (struct nearest){.name = name, .distance = len < 3 ? 2 : len < 9 ? len / 3 + 1 : 4};
}

void nearest_try(struct nearest *n, const char *candidate)
{
    size_t distance = strcasecmp(n->name, candidate) == 0 ? 0 : edit_distance(n->name, candidate);

    if (distance < n->distance) {
        n->distance = distance;
        n->found = candidate;
    }
}

void nearest_try_word(struct nearest *n, const char *candidate)
{
    size_t len = strlen(n->name);

    nearest_try(n, candidate);
    if (len >= 3 && n->distance > 1 && strncmp(n->name, candidate, len) == 0)
        *n = (struct nearest){.name = n->name, .found = candidate, .distance = 1};
}

void nearest_try_foreign(struct nearest *n, const char *const (*pairs)[2])
{
    for (; (*pairs)[0] != NULL; pairs++)
        if (strcmp(n->name, (*pairs)[0]) == 0)
            *n = (struct nearest){.name = n->name, .found = (*pairs)[1], .distance = 0};
}

const char *nearest_name(const char *name, const char *const *names)
{
    struct nearest n = nearest_to(name);

    for (; *names != NULL; names++)
        nearest_try(&n, *names);
    return n.found;
}
