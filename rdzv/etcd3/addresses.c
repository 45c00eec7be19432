/* The order of a name's addresses. See addresses.h for the contract. */
#include "rdzv/etcd3/addresses.h"

#include <stdbool.h>
#include <string.h>

static bool is_same(const union resolve_address *a, const union resolve_address *b)
{
    return a->any.sa_family == b->any.sa_family && memcmp(a, b, resolve_address_len(a)) == 0;
}

/* 0: it has not failed; else the higher, the later it was. */
static size_t rank(const struct failed_addresses *f, const union resolve_address *a)
{
    for (size_t i = 0; i < f->count; i++) {
        if (is_same(&f->list[i], a))
            return i + 1;
    }
    return 0;
}

void addresses_note_failure(struct failed_addresses *f, const union resolve_address *a)
{
    size_t gone = rank(f, a);

    if (gone == 0 && f->count == RESOLVE_MAX)
        gone = 1;
    if (gone != 0) {
        memmove(&f->list[gone - 1], &f->list[gone], (f->count - gone) * sizeof f->list[0]);
        f->count--;
    }
    f->list[f->count++] = *a;
}

void addresses_sort(const struct failed_addresses *f, union resolve_address *addresses,
                    size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const union resolve_address a = addresses[i];
        size_t at = i;

        for (; at > 0 && rank(f, &addresses[at - 1]) > rank(f, &a); at--)
            addresses[at] = addresses[at - 1];
        addresses[at] = a;
    }
}
