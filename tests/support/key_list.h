/* What LIST_KEYS answers, in one piece, for tests that do not ask how it comes about. */
#pragma once

#include "store/keymap/keymap.h"

/* The bytes of a list behind each other. False: there is no room. */
static inline bool key_list_copy(const struct key_list *l, struct writer *out)
{
    for (size_t i = 0; i < l->chunk_count; i++)
        writer_slice(out, blob_slice(l->chunks[i]));
    return out->len <= out->cap;
}

/* False: memory is short. */
static inline bool key_list_now(struct keymap *m, struct writer *out)
{
    uint64_t ticket = keymap_ask_list(m);
    const struct key_list *l = NULL;
    enum store_status status = STORE_OK;

    while (l == NULL && status == STORE_OK)
        status = keymap_make_list(m, ticket, SIZE_MAX, &l);
    if (l != NULL)
        key_list_copy(l, out);
    keymap_leave_list(m, ticket);
    return l != NULL && out->len <= out->cap;
}
