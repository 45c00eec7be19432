/* Grants and revocations on sets. See auth_merge.h for the contract.
 *
 * By sorting, since the lists are as long as a peer likes: comparing each with each would let one
 * request stop the loop. */
#include "rdzv/etcd/auth_merge.h"

#include <stdlib.h>

/* An item, and where it stood; 0 for those of the old list. */
struct place {
    struct slice text;
    size_t at;
};

static int compare(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    int order = slice_compare(a->text, b->text);

    return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

static void add_places(struct place *places, const struct command_list *list, size_t first)
{
    for (size_t i = 0; i < list->count; i++)
        places[i] = (struct place){list->items[i], first == 0 ? 0 : first + i};
}

static bool is_again(const struct place *places, size_t i)
{
    return i > 0 && slice_equal(places[i].text, places[i - 1].text);
}

static void blame(const struct place **worst, const struct place *p)
{
    if (*worst == NULL || p->at < (*worst)->at)
        *worst = p;
}

/* Leaves each text of a sorted array once. *worst: the first grant of what was there. */
static size_t unite(struct place *places, size_t count, struct place *again,
                    const struct place **worst)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || !slice_equal(places[i].text, places[kept - 1].text)) {
            places[kept++] = places[i];
        } else if (places[i].at != 0 && (*worst == NULL || places[i].at < (*worst)->at)) {
            *again = places[i];
            *worst = again;
        }
    }
    return kept;
}

/* Takes the revoked ones out of a set; both are sorted. *worst: the first that is not in it. */
static size_t subtract(struct place *set, size_t count, const struct place *revoked,
                       size_t revoked_count, const struct place **worst)
{
    size_t kept = 0, at = 0;

    for (size_t i = 0; i < count; i++) {
        bool gone = false;

        for (; at < revoked_count && slice_compare(revoked[at].text, set[i].text) <= 0; at++) {
            if (!slice_equal(revoked[at].text, set[i].text) || is_again(revoked, at))
                blame(worst, &revoked[at]);
            else
                gone = true;
        }
        if (!gone)
            set[kept++] = set[i];
    }
    for (; at < revoked_count; at++)
        blame(worst, &revoked[at]);
    return kept;
}

/* The set as a list, with its bytes in the same piece of memory. */
static enum auth_merge_result give(const struct place *set, size_t count, struct command_list *out)
{
    size_t size = count * sizeof(struct slice) + 1;
    struct slice *items;
    uint8_t *bytes;

    for (size_t i = 0; i < count; i++)
        size += set[i].text.len;
    items = malloc(size);
    if (items == NULL)
        return AUTH_MERGE_NO_MEMORY;
    bytes = (uint8_t *)(items + count);
    for (size_t i = 0; i < count; i++) {
        items[i] = (struct slice){bytes, set[i].text.len};
        if (set[i].text.len != 0)
            memcpy(bytes, set[i].text.ptr, set[i].text.len);
        bytes += set[i].text.len;
    }
    *out = (struct command_list){.items = items, .count = count};
    return AUTH_MERGE_DONE;
}

enum auth_merge_result auth_merge(const struct command_list *old, const struct command_list *grant,
                                  const struct command_list *revoke, bool strict,
                                  struct command_list *out, struct slice *culprit)
{
    size_t count = old->count + grant->count;
    struct place *set = malloc((count + revoke->count + 1) * sizeof *set), *revoked, again;
    const struct place *worst = NULL;
    enum auth_merge_result result;

    if (set == NULL)
        return AUTH_MERGE_NO_MEMORY;
    revoked = set + count;
    add_places(set, old, 0);
    add_places(set + old->count, grant, 1);
    add_places(revoked, revoke, 1);
    qsort(set, count, sizeof *set, compare);
    qsort(revoked, revoke->count, sizeof *set, compare);

    count = unite(set, count, &again, &worst);
    result = AUTH_MERGE_DUPLICATE;
    if (worst == NULL) {
        count = subtract(set, count, revoked, revoke->count, &worst);
        result = AUTH_MERGE_UNGRANTED;
        if (worst == NULL || !strict) {
            worst = NULL;
            result = give(set, count, out);
        }
    }
    if (worst != NULL)
        *culprit = worst->text;
    free(set);
    return result;
}
