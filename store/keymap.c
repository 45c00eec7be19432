/* The c10d world of a space: its keys and what changes them. See keymap.h for the contract;
 * keymap_queue.c has the queues, keymap_wait.c those who wait. */
#include "store/keymap.h"

#include <assert.h>
#include <errno.h>

#include "proto/c10d.h"
#include "store/keymap_entry.h"

#define APPEND_SPARE_MAX (1u << 20)

#define NUMBER_MAX 24 /* bytes of any int64 in decimal, with room */

void keymap_init(struct keymap *m, struct ready_list *ready, uint64_t seed, size_t bytes_max)
{
    *m = (struct keymap){.ready = ready, .bytes_max = bytes_max};
    table_init(&m->keys, seed);
    table_init(&m->queues, seed);
    TAILQ_INIT(&m->entries);
    TAILQ_INIT(&m->queue_order);
}

struct entry *keymap_find(const struct keymap *m, struct slice key)
{
    return (struct entry *)table_find(&m->keys, key); /* node is the first member */
}

/* Finds the entry, or adds an absent one. NULL when memory is short. */
struct entry *keymap_need(struct keymap *m, struct slice key)
{
    struct entry *e = keymap_find(m, key);
    uint8_t *name;

    if (e != NULL)
        return e;
    e = malloc(sizeof *e + key.len);
    if (e == NULL)
        return NULL;
    name = (uint8_t *)(e + 1);
    *e = (struct entry){.node = {.key = {name, key.len}}};
    if (key.len != 0)
        memcpy(name, key.ptr, key.len);
    TAILQ_INIT(&e->waiting);
    TAILQ_INIT(&e->barrier);
    TAILQ_INIT(&e->watching);
    table_add(&m->keys, &e->node);
    TAILQ_INSERT_TAIL(&m->entries, e, order);
    m->bytes += ENTRY_COST + key.len;
    return e;
}

/* Frees an entry that nobody needs: no value, nobody waiting, nobody watching. */
void keymap_release(struct keymap *m, struct entry *e)
{
    if (e->value != NULL || !TAILQ_EMPTY(&e->waiting) || !TAILQ_EMPTY(&e->barrier) ||
        !TAILQ_EMPTY(&e->watching))
        return;
    m->bytes -= ENTRY_COST + e->node.key.len;
    TAILQ_REMOVE(&m->entries, e, order);
    table_remove(&m->keys, &e->node);
    free(e);
}

/* True when `more` bytes would break the limit of the space. */
bool keymap_too_much(const struct keymap *m, size_t more)
{
    return m->bytes_max != 0 && (more > m->bytes_max || m->bytes > m->bytes_max - more);
}

bool keymap_has_room(const struct keymap *m, struct slice key, size_t value_len)
{
    const struct entry *e;

    if (!keymap_too_much(m, ENTRY_COST + key.len + value_len))
        return true;
    /* Nearly full: look closer, a value that only replaces another may still fit. */
    e = keymap_find(m, key);
    return e != NULL && !keymap_too_much(m, value_len - (value_len < blob_slice(e->value).len
                                                             ? value_len
                                                             : blob_slice(e->value).len));
}

/* --- Reads. --- */

struct blob *keymap_get(const struct keymap *m, struct slice key)
{
    struct entry *e = keymap_find(m, key);

    return e == NULL ? NULL : e->value;
}

bool keymap_exists(const struct keymap *m, struct slice key)
{
    return keymap_get(m, key) != NULL || keymap_find_queue(m, key) != NULL; /* none is empty */
}

size_t keymap_list_size(const struct keymap *m)
{
    const struct entry *e;
    size_t size = 0;

    TAILQ_FOREACH(e, &m->entries, order) {
        if (e->value != NULL)
            size += 8 + e->node.key.len;
    }
    return size;
}

void keymap_list(const struct keymap *m, struct writer *out)
{
    const struct entry *e;

    TAILQ_FOREACH(e, &m->entries, order) {
        uint8_t len[8];

        if (e->value == NULL)
            continue;
        bytes_put_u64(len, e->node.key.len);
        writer_put(out, len, sizeof len);
        writer_slice(out, e->node.key);
    }
}

/* --- Changes. --- */

/* Puts `value` (whose reference it takes) in the place of what was there, whose reference passes to
 * the caller. Cannot fail. */
static struct blob *entry_swap(struct keymap *m, struct entry *e, struct blob *value)
{
    struct blob *old = e->value;

    if (old == NULL) {
        /* The list of keys is in order of creation: where somebody has waited for this one before
         * must not show, since a replay does not know of it. */
        m->present++;
        TAILQ_REMOVE(&m->entries, e, order);
        TAILQ_INSERT_TAIL(&m->entries, e, order);
    }
    m->bytes = m->bytes - blob_slice(old).len + value->len;
    e->value = value;
    return old;
}

/* SET, once everything is there: `value`'s reference is taken. Cannot fail. */
static void entry_set(struct keymap *m, struct entry *e, struct blob *value)
{
    struct blob *old = entry_swap(m, e, value);

    keymap_tell(m, e, old == NULL ? KEYMAP_CREATED : KEYMAP_UPDATED, blob_slice(old),
                blob_slice(value));
    blob_unref(old);
    keymap_wake_all(m, e);
}

enum store_status keymap_set(struct keymap *m, struct slice key, struct slice value)
{
    struct entry *e;
    struct blob *copy;

    if (!keymap_has_room(m, key, value.len))
        return STORE_FULL;
    copy = blob_new(value);
    e = copy == NULL ? NULL : keymap_need(m, key);
    if (e == NULL) {
        blob_unref(copy);
        return STORE_NO_MEMORY;
    }
    entry_set(m, e, copy);
    return STORE_OK;
}

/* A copy of `old` with `more` behind it and as much room again, so that many small APPENDs cost one
 * copy in all and not one each. NULL when memory is short. */
static struct blob *longer_copy(struct slice old, struct slice more)
{
    size_t len = old.len + more.len;
    size_t spare = old.len == 0 ? 0 : len < APPEND_SPARE_MAX ? len : APPEND_SPARE_MAX;
    struct blob *b = blob_alloc(len + spare);

    if (b == NULL)
        return NULL;
    if (old.len != 0)
        memcpy(b->bytes, old.ptr, old.len);
    if (more.len != 0)
        memcpy(b->bytes + old.len, more.ptr, more.len);
    b->len = len;
    b->spare = (uint32_t)spare;
    return b;
}

enum store_status keymap_append(struct keymap *m, struct slice key, struct slice more)
{
    struct entry *e = keymap_find(m, key);
    struct blob *b = e == NULL ? NULL : e->value;

    if (!keymap_has_room(m, key, blob_slice(b).len + more.len))
        return STORE_FULL;
    if (b != NULL && b->refs == 1 && b->spare >= more.len) { /* nobody else holds it */
        if (more.len != 0)
            memcpy(b->bytes + b->len, more.ptr, more.len);
        b->len += more.len;
        b->spare -= (uint32_t)more.len;
        m->bytes += more.len;
    } else {
        b = longer_copy(blob_slice(b), more);
        e = b == NULL ? NULL : keymap_need(m, key);
        if (e == NULL) {
            blob_unref(b);
            return STORE_NO_MEMORY;
        }
        blob_unref(entry_swap(m, e, b));
    }
    keymap_tell(m, e, KEYMAP_APPENDED, (struct slice){0}, more);
    keymap_wake_all(m, e);
    return STORE_OK;
}

/* Reads as C's strtoll(…, 10) does on a copy that ends in a NUL: leading blanks, a sign, digits;
 * whatever follows is ignored. False without digits and out of range. */
static bool parse_number(struct slice text, int64_t *out)
{
    char copy[NUMBER_MAX + 1], *end;
    size_t start = 0, len;
    long long v;

    /* strtoll skips any number of blanks and of leading zeros; the copy need not hold them. */
    while (start < text.len &&
           (text.ptr[start] == ' ' || (text.ptr[start] >= '\t' && text.ptr[start] <= '\r')))
        start++;
    text = slice_from(text, start);
    len = text.len < NUMBER_MAX ? text.len : NUMBER_MAX;
    if (len == NUMBER_MAX) {
        size_t sign = text.ptr[0] == '-' || text.ptr[0] == '+' ? 1 : 0, zeros = sign;

        while (zeros + 1 < text.len && text.ptr[zeros] == '0' && text.ptr[zeros + 1] >= '0' &&
               text.ptr[zeros + 1] <= '9')
            zeros++;
        copy[0] = sign ? (char)text.ptr[0] : '+';
        len = text.len - zeros < NUMBER_MAX - 1 ? text.len - zeros : NUMBER_MAX - 1;
        memcpy(copy + 1, text.ptr + zeros, len);
        len++;
    } else if (len != 0) {
        memcpy(copy, text.ptr, len);
    }
    copy[len] = '\0';

    errno = 0;
    v = strtoll(copy, &end, 10);
    if (end == copy || errno == ERANGE)
        return false;
    *out = v;
    return true;
}

/* Decimal text without padding; returns its length. `out` has room for NUMBER_MAX. */
static size_t format_number(int64_t v, uint8_t *out)
{
    uint8_t digits[NUMBER_MAX];
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    size_t count = 0, len = 0;

    do {
        digits[count++] = (uint8_t)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (v < 0)
        out[len++] = '-';
    while (count > 0)
        out[len++] = digits[--count];
    return len;
}

/* Stores a number as text, in place when nobody else holds the old text: ADD is the hot path, and
 * it allocates nothing after its first. The room of a longer text is given back: what it takes is
 * counted no more. */
static enum store_status put_number(struct keymap *m, struct entry *e, int64_t v)
{
    uint8_t text[NUMBER_MAX];
    size_t len = format_number(v, text);
    struct blob *b = e->value;

    if (b != NULL && b->refs == 1 && b->len <= NUMBER_MAX && b->len + b->spare >= NUMBER_MAX) {
        b->spare = (uint32_t)(b->len + b->spare - len);
        m->bytes = m->bytes - b->len + len;
        b->len = len;
        memcpy(b->bytes, text, len);
        return STORE_OK;
    }
    b = blob_alloc(NUMBER_MAX);
    if (b == NULL)
        return STORE_NO_MEMORY;
    memcpy(b->bytes, text, len);
    b->len = len;
    b->spare = (uint32_t)(NUMBER_MAX - len);
    blob_unref(entry_swap(m, e, b));
    return STORE_OK;
}

enum store_status keymap_add(struct keymap *m, struct slice key, int64_t delta, int64_t *sum)
{
    struct entry *e = keymap_find(m, key);
    struct blob *old = NULL;
    int64_t now = 0;
    bool created = e == NULL || e->value == NULL;

    if (!created && !parse_number(blob_slice(e->value), &now))
        return STORE_NOT_A_NUMBER;
    if (created && !keymap_has_room(m, key, NUMBER_MAX))
        return STORE_FULL;
    now = (int64_t)((uint64_t)now + (uint64_t)delta); /* wraps, as torch's does in practice */
    if (e == NULL && (e = keymap_need(m, key)) == NULL)
        return STORE_NO_MEMORY;
    if (!TAILQ_EMPTY(&e->watching))
        old = blob_ref(e->value);
    if (put_number(m, e, now) != STORE_OK) {
        blob_unref(old);
        keymap_release(m, e);
        return STORE_NO_MEMORY;
    }

    *sum = now;
    keymap_tell(m, e, created ? KEYMAP_CREATED : KEYMAP_UPDATED, blob_slice(old),
                blob_slice(e->value));
    blob_unref(old);
    keymap_wake_all(m, e);
    return STORE_OK;
}

enum store_status keymap_compare_set(struct keymap *m, struct slice key, struct slice expected,
                                     struct slice desired, struct blob **current)
{
    struct entry *e = keymap_find(m, key);
    bool created = e == NULL || e->value == NULL;
    struct blob *copy;

    if (created && expected.len != 0)
        return STORE_ABSENT;
    if (!created && !slice_equal(blob_slice(e->value), expected)) {
        *current = e->value;
        return STORE_MISMATCH;
    }
    if (created)
        return keymap_set(m, key, desired); /* the one outcome that wakes; libuv's wakes on all */
    if (!keymap_has_room(m, key, desired.len))
        return STORE_FULL;
    copy = blob_new(desired);
    if (copy == NULL)
        return STORE_NO_MEMORY;
    blob_unref(entry_swap(m, e, copy));
    keymap_tell(m, e, KEYMAP_UPDATED, expected, desired);
    return STORE_OK;
}

enum store_status keymap_delete(struct keymap *m, struct slice key)
{
    struct entry *e = keymap_find(m, key);
    struct blob *old;

    if (e == NULL || e->value == NULL)
        return STORE_ABSENT;
    old = e->value;
    e->value = NULL;
    m->present--;
    m->bytes -= old->len;
    keymap_tell(m, e, KEYMAP_DELETED, blob_slice(old), (struct slice){0});
    blob_unref(old);
    keymap_release(m, e);
    return STORE_OK;
}

/* One pair of a MULTI_SET that has all it needs. */
struct staged {
    struct entry *entry;
    struct blob *value;
};

/* Makes everything that the pairs need, or nothing. NULL when memory is short. */
static struct staged *stage(struct keymap *m, struct slice pairs, size_t count)
{
    struct staged *staged = calloc(count + 1, sizeof *staged);
    struct slice rest = pairs, key, value;

    if (staged == NULL)
        return NULL;
    for (size_t i = 0; i < count && c10d_next_blob(&rest, &key); i++) {
        c10d_next_blob(&rest, &value);
        staged[i].value = blob_new(value);
        staged[i].entry = staged[i].value == NULL ? NULL : keymap_need(m, key);
        if (staged[i].entry != NULL)
            continue;
        for (size_t k = 0; k <= i; k++)
            blob_unref(staged[k].value);
        free(staged);
        while (c10d_next_blob(&pairs, &key) && c10d_next_blob(&pairs, &value)) {
            struct entry *made = keymap_find(m, key);

            if (made != NULL)
                keymap_release(m, made);
        }
        return NULL;
    }
    return staged;
}

enum store_status keymap_multi_set(struct keymap *m, struct slice pairs)
{
    struct slice rest = pairs, key, value;
    size_t more = 0, count = 0;
    struct staged *staged;

    for (; c10d_next_blob(&rest, &key) && c10d_next_blob(&rest, &value); count++)
        more += ENTRY_COST + key.len + value.len;
    if (keymap_too_much(m, more))
        return STORE_FULL;
    staged = stage(m, pairs, count);
    if (staged == NULL)
        return STORE_NO_MEMORY;

    /* From here on nothing can fail: all pairs or none, and one record for the journal. */
    for (size_t i = 0; i < count; i++)
        entry_set(m, staged[i].entry, staged[i].value);
    free(staged);
    return STORE_OK;
}

/* --- Barriers. --- */

/* torch keeps barrier and WAIT registrations in one list, so that a SET on the key lets a barrier
 * through early; here barriers wait apart and only the count opens them. A plain WAIT on the key is
 * released by the arrival that completes it, as torch's is. */
enum store_status keymap_barrier(struct keymap *m, struct slice key, int64_t world, bool *open)
{
    struct entry *e = keymap_find(m, key);
    bool created = e == NULL || e->value == NULL;
    int64_t count = 0;

    if (!created && !parse_number(blob_slice(e->value), &count))
        return STORE_NOT_A_NUMBER;
    if (created && !keymap_has_room(m, key, NUMBER_MAX))
        return STORE_FULL;
    if (e == NULL && (e = keymap_need(m, key)) == NULL)
        return STORE_NO_MEMORY;
    count = (int64_t)((uint64_t)count + 1);
    if (put_number(m, e, count) != STORE_OK) {
        keymap_release(m, e);
        return STORE_NO_MEMORY;
    }
    *open = count >= world;
    if (!*open)
        return STORE_OK;
    keymap_open_barrier(m, e);
    keymap_wake_all(m, e);
    return STORE_OK;
}

/* --- The whole. --- */

void keymap_clear(struct keymap *m)
{
    struct entry *e, *next;
    struct queue *q;

    while ((q = TAILQ_FIRST(&m->queue_order)) != NULL) {
        for (uint64_t left = q->len; left > 0; left--)
            blob_unref(keymap_take(m, q));
    }
    for (e = TAILQ_FIRST(&m->entries); e != NULL; e = next) {
        next = TAILQ_NEXT(e, order);
        if (e->value != NULL)
            keymap_delete(m, e->node.key);
    }
}

void keymap_fini(struct keymap *m)
{
    keymap_clear(m);
    assert(TAILQ_EMPTY(&m->entries));
    table_fini(&m->keys);
    table_fini(&m->queues);
}
