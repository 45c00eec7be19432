/* Grants and revocations on sets. See auth_merge.h for the contract.
 *
 * By sorting, since lists are long: comparing each with each would let one request stop the loop.
 */
#include "rdzv/etcd/auth_merge.h"

#include <stdlib.h>

#include "store/account.h"

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

/* The items of a list in order. A list that was merged before is in order already, and most lists
 * were. */
static void add_places(struct place *places, const struct command_list *list, size_t first)
{
    bool sorted = true;

    for (size_t i = 0; i < list->count; i++) {
        places[i] = (struct place){list->items[i], first == 0 ? 0 : first + i};
        sorted = sorted && (i == 0 || compare(&places[i - 1], &places[i]) <= 0);
    }
    if (!sorted)
        qsort(places, list->count, sizeof *places, compare);
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

/* The next one in order of two sorted arrays, one of which is not at its end. */
static const struct place *next_place(const struct place **a, const struct place *a_end,
                                      const struct place **b, const struct place *b_end)
{
    bool first = *b == b_end || (*a != a_end && compare(*a, *b) <= 0);

    return first ? (*a)++ : (*b)++;
}

/* Puts each text of two sorted arrays into `out` once; how many there are. *worst: the first grant
 * of what was there. */
static size_t unite(const struct place *old, size_t old_count, const struct place *grants,
                    size_t grant_count, struct place *out, const struct place **worst)
{
    const struct place *old_end = old + old_count, *grants_end = grants + grant_count;
    size_t kept = 0;

    while (old != old_end || grants != grants_end) {
        const struct place *p = next_place(&old, old_end, &grants, grants_end);

        if (kept == 0 || !slice_equal(p->text, out[kept - 1].text))
            out[kept++] = *p;
        else if (p->at != 0)
            blame(worst, p);
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
    items = account_heap_request(ACCOUNT_INPUT, ACCOUNT_ORDINARY, size);
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
    size_t most = old->count + grant->count, count;
    struct place *places = account_heap_request(ACCOUNT_INPUT, ACCOUNT_ORDINARY,
                                                (2 * most + revoke->count + 1) * sizeof *places);
    struct place *grants, *revoked, *set;
    const struct place *worst = NULL;
    enum auth_merge_result result;

    if (places == NULL)
        return AUTH_MERGE_NO_MEMORY;
    grants = places + old->count;
    revoked = places + most;
    set = revoked + revoke->count;
    add_places(places, old, 0);
    add_places(grants, grant, 1);
    add_places(revoked, revoke, 1);

    count = unite(places, old->count, grants, grant->count, set, &worst);
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
    account_heap_free(ACCOUNT_INPUT, places);
    return result;
}

void auth_merge_free(struct command_list *merged)
{
    account_heap_free(ACCOUNT_INPUT, (void *)(uintptr_t)merged->items);
    merged->items = NULL;
}
