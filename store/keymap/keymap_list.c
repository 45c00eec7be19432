/* What LIST_KEYS answers, written bit by bit. See keymap.h for the contract.
 *
 * A list shows one moment, although it is written in many slices. Keys stand in the order of their
 * creation, and each has a number. The number shows whether the key existed at that moment, and
 * whether the walk has passed it. A key that is deleted before the walk reaches it is written at
 * once. Nothing is copied beforehand, deleted keys leave nothing behind, and a change writes at
 * most its own key. The price is eight bytes for each key, and that a deleted key stands before
 * older ones: torch's own store promises no order either. */
#include <assert.h>

#include "store/keymap/keymap_entry.h"

/* A list is cut into blobs of this size, so that the store never needs, writes, sends or frees a
 * larger one at once. */
#define CHUNK_SIZE (64u << 10)

static size_t list_size(size_t chunks)
{
    return sizeof(struct key_list) + chunks * sizeof(struct blob *);
}

static bool list_is_whole(const struct key_list *l)
{
    return l->written == l->size;
}

static size_t free_chunk(struct lazy_free *f, struct lazy *lazy, size_t)
{
    struct key_list *l = (struct key_list *)lazy;

    if (l->freed < l->chunk_count) {
        blob_unref(l->chunks[l->freed++]);
        lazy_free_count(f, lazy, CHUNK_SIZE);
    } else {
        lazy_free_remove(f, lazy);
        account_free(ACCOUNT_ANSWERS, l, list_size(l->chunk_count));
    }
    return 1;
}

void keymap_forget_list(struct keymap *m)
{
    struct key_list *l = m->list;

    m->list = NULL;
    if (l != NULL)
        lazy_free_add(keymap_lazy_free(m), &l->lazy, list_size(l->chunk_count) + l->size);
}

/* --- Writing. --- */

static bool begin_list(struct keymap *m)
{
    size_t size = keymap_list_size(m), chunks = (size + CHUNK_SIZE - 1) / CHUNK_SIZE;
    struct key_list *l = account_request_zeroed(
        ACCOUNT_ANSWERS, account_class_of(list_size(chunks)), list_size(chunks));

    if (l == NULL)
        return false;
    l->lazy.free_some = free_chunk;
    l->cursor = key_cursor_begin(m);
    l->count = m->present;
    l->size = size;
    l->chunk_count = chunks;
    l->askers = m->list_askers;
    m->list = l;
    return true;
}

/* Room for more; at most *len bytes. NULL: memory is short. */
static uint8_t *next_room(struct key_list *l, size_t *len)
{
    size_t at = l->written % CHUNK_SIZE, left = l->size - l->written;
    struct blob **chunk = &l->chunks[l->written / CHUNK_SIZE];

    assert(left >= *len);
    if (at == 0)
        *chunk = blob_alloc(ACCOUNT_ANSWERS, left < CHUNK_SIZE ? left : CHUNK_SIZE);
    if (*chunk == NULL)
        return NULL;
    if (*len > CHUNK_SIZE - at)
        *len = CHUNK_SIZE - at;
    return (*chunk)->bytes + at;
}

static bool list_put_bytes(struct key_list *l, struct slice s)
{
    while (s.len > 0) {
        size_t len = s.len;
        uint8_t *room = next_room(l, &len);

        if (room == NULL)
            return false;
        memcpy(room, s.ptr, len);
        l->written += len;
        s = slice_from(s, len);
    }
    return true;
}

static bool list_put_key(struct key_list *l, const struct entry *e)
{
    uint8_t len[8];

    bytes_put_u64(len, entry_key(e).len);
    return list_put_bytes(l, (struct slice){len, sizeof len}) && list_put_bytes(l, entry_key(e));
}

/* False: memory is short. */
static bool list_write_some(struct key_list *l, size_t max)
{
    size_t bytes = l->written;
    struct entry *e;

    for (; max > 0 && l->written - bytes < CHUNK_SIZE && (e = l->cursor.next) != NULL; max--) {
        if (!list_put_key(l, e))
            return false;
        key_cursor_move(&l->cursor, TAILQ_NEXT(e, order));
    }
    assert(l->cursor.next != NULL || list_is_whole(l));
    return true;
}

/* --- Changes. --- */

void keymap_list_changed(struct keymap *m)
{
    if (list_is_whole(m->list) && m->list->askers == 0)
        keymap_forget_list(m);
}

void keymap_list_goes(struct keymap *m, struct entry *e)
{
    struct key_list *l = m->list;
    bool is_missing = key_cursor_expects(&l->cursor, e);

    key_cursor_loses(&l->cursor, e);
    if (is_missing && (!reserve_has_spare(m->reserve) || !list_put_key(l, e)))
        keymap_forget_list(m); /* the client's next step begins a new one, and finds no memory */
    else
        keymap_list_changed(m);
}

/* --- Asking. --- */

size_t keymap_list_size(const struct keymap *m)
{
    return 8 * m->present + m->present_bytes;
}

uint64_t keymap_ask_list(struct keymap *m)
{
    m->list_askers++;
    if (m->list != NULL && m->list->cursor.moment == m->changes)
        m->list->askers++;
    return m->changes;
}

void keymap_leave_list(struct keymap *m, uint64_t ticket)
{
    struct key_list *l = m->list;

    m->list_askers--;
    if (l == NULL || l->cursor.moment < ticket)
        return;
    l->askers--;
    if (l->askers == 0 && (!list_is_whole(l) || l->cursor.moment != m->changes))
        keymap_forget_list(m);
}

enum store_status keymap_make_list(struct keymap *m, uint64_t ticket, size_t max,
                                   const struct key_list **out)
{
    *out = NULL;
    if (m->list != NULL && list_is_whole(m->list) && m->list->cursor.moment < ticket &&
        m->list->askers == 0)
        keymap_forget_list(m);
    if (m->list == NULL && !begin_list(m))
        return STORE_NO_MEMORY;
    if (!list_is_whole(m->list) && !list_write_some(m->list, max)) {
        keymap_forget_list(m);
        return STORE_NO_MEMORY;
    }
    if (list_is_whole(m->list) && m->list->cursor.moment >= ticket)
        *out = m->list;
    return STORE_OK;
}

void keymap_trim(struct keymap *m)
{
    const struct key_list *l = m->list;

    if (l != NULL && list_is_whole(l) && l->askers == 0 &&
        (l->chunk_count == 0 || l->chunks[l->chunk_count - 1]->refs == 1))
        keymap_forget_list(m);
    asked_list_trim(m);
}

void keymap_sweep(struct keymap *m)
{
    m->sweep = key_cursor_begin(m);
}

struct entry *keymap_sweep_next(struct keymap *m)
{
    struct entry *e = m->sweep.next;

    if (e != NULL)
        key_cursor_move(&m->sweep, TAILQ_NEXT(e, order));
    return e;
}
