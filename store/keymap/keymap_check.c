/* Decides what comes of the commands that change c10d keys: limits, comparisons, numbers. Nothing
 * is changed here. See keymap.h for the contract. */
#include "proto/c10d.h"
#include "store/keymap/keymap_entry.h"

/* --- Limits. --- */

static bool is_present(const struct entry *e)
{
    return e != NULL && e->value != NULL;
}

/* What is at a key. */
struct place {
    struct slice key;
    struct entry *entry; /* NULL: nothing */
    uint64_t hash;
    size_t groups; /* that a new entry would be in; 0 where there is one */
};

static inline struct place place_look_up(const struct keymap *m, struct slice key)
{
    uint64_t hash;
    struct entry *e = keymap_look_up(m, key, &hash);

    return (struct place){key, e, hash, e == NULL ? keymap_count_groups(m, key) : 0};
}

/* The quota's cost of the key without its value. */
static size_t key_cost(const struct place *at)
{
    return at->entry == NULL ? entry_size(at->groups, at->key.len) : entry_allocated(at->entry);
}

/* True if the space's quota has room for a value of `len` bytes in place of the present one. */
static bool place_has_room(const struct keymap *m, const struct place *at, size_t len)
{
    const struct entry *e = at->entry;

    return quota_has_room(m->quota, entry_value(e).len, is_present(e) ? len : key_cost(at) + len);
}

/* --- Numbers. --- */

/* ADD reads at most this many bytes of a value. Otherwise each ADD would read millions of blanks or
 * zeros before a number. */
#define NUMBER_TEXT_MAX 4096

bool keymap_parse_number(struct slice text, int64_t *out)
{
    size_t len = text.len < NUMBER_TEXT_MAX ? text.len : NUMBER_TEXT_MAX, at = 0, begin;
    bool is_negative = false;
    uint64_t v = 0;

    while (at < len && (text.ptr[at] == ' ' || (text.ptr[at] >= '\t' && text.ptr[at] <= '\r')))
        at++; /* the blanks of strtoll() */
    if (at < len && (text.ptr[at] == '-' || text.ptr[at] == '+'))
        is_negative = text.ptr[at++] == '-';
    for (begin = at; at < len && byte_is_digit(text.ptr[at]); at++) {
        if (v > INT64_MAX / 10)
            return false;
        v = v * 10 + text.ptr[at] - '0';
    }
    if (at == begin || v > (uint64_t)INT64_MAX + is_negative)
        return false;
    *out = (int64_t)(is_negative ? 0 - v : v);
    return true;
}

/* Decimal text without padding, at the end of `room`. */
static struct slice format_number(int64_t v, uint8_t room[CHANGE_NUMBER_MAX])
{
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    size_t at = CHANGE_NUMBER_MAX;

    do {
        room[--at] = (uint8_t)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (v < 0)
        room[--at] = '-';
    return (struct slice){room + at, CHANGE_NUMBER_MAX - at};
}

/* --- Outcomes. --- */

/* Values of at least this length are compared, so the journal holds only the differing bytes. */
#define PATCH_VALUE_MIN 256

static size_t common_start(struct slice a, struct slice b)
{
    size_t max = a.len < b.len ? a.len : b.len, i = 0;

    while (max - i >= 256 && memcmp(a.ptr + i, b.ptr + i, 256) == 0)
        i += 256;
    while (max - i >= 8 && memcmp(a.ptr + i, b.ptr + i, 8) == 0)
        i += 8;
    while (i < max && a.ptr[i] == b.ptr[i])
        i++;
    return i;
}

static size_t common_end(struct slice a, struct slice b)
{
    const uint8_t *a_end = a.ptr + a.len, *b_end = b.ptr + b.len;
    size_t max = a.len < b.len ? a.len : b.len, i = 0;

    while (max - i >= 256 && memcmp(a_end - i - 256, b_end - i - 256, 256) == 0)
        i += 256;
    while (max - i >= 8 && memcmp(a_end - i - 8, b_end - i - 8, 8) == 0)
        i += 8;
    while (i < max && *(a_end - i - 1) == *(b_end - i - 1))
        i++;
    return i;
}

/* A large value of which a small part in the middle is new: what torch's agents write each few
 * seconds is 80 KB of base64 for 256 nodes, and a heartbeat changes a dozen bytes of them. */
__attribute__((noinline)) static bool is_patch_of_large(struct slice old, struct slice value,
                                                        struct key_patch *out)
{
    size_t start, end;

    start = common_start(old, value);
    end = common_end(slice_from(old, start), slice_from(value, start));
    out->offset = start;
    out->removed = old.len - start - end;
    out->bytes = (struct slice){value.ptr + start, value.len - start - end};
    return out->bytes.len < value.len / 4;
}

static inline bool is_patch(struct slice old, struct slice value, struct key_patch *out)
{
    return old.len >= PATCH_VALUE_MIN && value.len >= PATCH_VALUE_MIN &&
           is_patch_of_large(old, value, out);
}

static void change_put(const struct place *at, struct slice value, struct blob *blob,
                       enum key_wakes wakes, struct change *out)
{
    out->kind = CHANGE_KEY_PUT;
    out->put = (struct key_put){.key = at->key,
                                .value = value,
                                .blob = blob,
                                .entry = at->entry,
                                .looked_up = true,
                                .hash = at->hash,
                                .groups = at->groups,
                                .wakes = wakes};
}

/* The value takes the place of what is there. */
static void change_put_or_patch(const struct place *at, const struct command *c,
                                enum key_wakes wakes, struct change *out)
{
    struct key_patch patch;

    if (!is_patch(entry_value(at->entry), c->value, &patch)) {
        change_put(at, c->value, c->blob, wakes, out);
        return;
    }
    out->kind = CHANGE_KEY_PATCH;
    patch.key = at->key;
    patch.blob = c->blob;
    patch.entry = at->entry;
    patch.wakes = wakes;
    out->patch = patch;
}

static void change_put_number(const struct place *at, int64_t v, enum key_wakes wakes,
                              struct change *out)
{
    change_put(at, format_number(v, out->number), NULL, wakes, out);
}

/* --- Each command. --- */

static enum store_status check_key_set(const struct keymap *m, const struct command *c,
                                       struct change *change)
{
    struct place at = place_look_up(m, c->key);

    if (!place_has_room(m, &at, c->value.len))
        return STORE_FULL;
    change_put_or_patch(&at, c, WAKES_WAITERS, change);
    return STORE_OK;
}

/* Reads the key's number. If the key is absent, the number is 0, and the space must have room for
 * the key with the longest number. */
static enum store_status number_at(const struct keymap *m, const struct place *at, int64_t *out)
{
    *out = 0;
    if (is_present(at->entry))
        return keymap_parse_number(entry_value(at->entry), out) ? STORE_OK : STORE_NOT_A_NUMBER;
    return place_has_room(m, at, CHANGE_NUMBER_MAX) ? STORE_OK : STORE_FULL;
}

/* Adds to the decimal text at the key (absent: 0) as strtoll reads it. */
static enum store_status check_add(const struct keymap *m, const struct command *c,
                                   struct change *change, struct store_result *out)
{
    struct place at = place_look_up(m, c->key);
    int64_t now;
    enum store_status status = number_at(m, &at, &now);

    if (status != STORE_OK)
        return status;
    /* Wraps at 64 bits, as torch's store does in practice. */
    out->number = (int64_t)((uint64_t)now + (uint64_t)c->number);
    change_put_number(&at, out->number, WAKES_WAITERS, change);
    return STORE_OK;
}

static enum store_status check_compare_set(const struct keymap *m, const struct command *c,
                                           struct change *change, struct store_result *out)
{
    struct place at = place_look_up(m, c->key);

    if (!is_present(at.entry))
        /* The one outcome that wakes; libuv's wakes on all. */
        return c->expected.len != 0 ? STORE_ABSENT : check_key_set(m, c, change);
    if (!slice_equal(entry_value(at.entry), c->expected)) {
        out->value = at.entry->value;
        return STORE_MISMATCH;
    }
    if (!place_has_room(m, &at, c->value.len))
        return STORE_FULL;
    change_put_or_patch(&at, c, WAKES_NONE, change);
    return STORE_OK;
}

static enum store_status check_append(const struct keymap *m, const struct command *c,
                                      struct change *change)
{
    struct place at = place_look_up(m, c->key);
    size_t len = entry_value(at.entry).len + c->value.len;

    if (c->number != 0 && len > (uint64_t)c->number)
        return STORE_TOO_LONG;
    if (!place_has_room(m, &at, len))
        return STORE_FULL;
    change->kind = CHANGE_KEY_APPEND;
    change->put = (struct key_put){.key = c->key, .value = c->value, .entry = at.entry};
    return STORE_OK;
}

static size_t pairs_cost(const struct keymap *m, struct slice pairs)
{
    struct slice key, value;
    size_t cost = 0;

    while (c10d_next_blob(&pairs, &key) && c10d_next_blob(&pairs, &value))
        cost += keymap_key_cost(m, key) + value.len;
    return cost;
}

/* One more arrival; c->number is the world size, and later arrivals pass, too. The count wraps as
 * in check_add(). Torch keeps barriers and WAITs in one list, so a SET of the key lets a barrier
 * through early; here barriers wait apart, and only the count opens them. As in torch, the arrival
 * that opens the barrier ends each plain WAIT for its key, and WATCH_KEY does not see barriers. */
static enum store_status check_barrier(const struct keymap *m, const struct command *c,
                                       struct change *change, struct store_result *out)
{
    struct place at = place_look_up(m, c->key);
    int64_t count;
    enum store_status status = number_at(m, &at, &count);

    if (status != STORE_OK)
        return status;
    count = (int64_t)((uint64_t)count + 1);
    out->open = count >= c->number;
    if (!out->open && !quota_may_wait(m->quota, WAITER_COST + awaited_size(c->key)))
        return STORE_FULL;
    change_put_number(&at, count, out->open ? WAKES_BARRIER : WAKES_NONE, change);
    change->put.unwatched = true;
    if (out->open)
        change->kind = CHANGE_BARRIER_OPEN;
    return STORE_OK;
}

enum store_status keymap_check(const struct keymap *m, const struct command *c,
                               struct change *change, struct store_result *out)
{
    size_t cost;

    switch (c->kind) {
    case COMMAND_KEY_SET:
        return check_key_set(m, c, change);
    case COMMAND_KEY_ADD:
        return check_add(m, c, change, out);
    case COMMAND_KEY_COMPARE_SET:
        return check_compare_set(m, c, change, out);
    case COMMAND_KEY_APPEND:
        return check_append(m, c, change);
    case COMMAND_KEY_DELETE:
        change->kind = CHANGE_KEY_DELETE;
        change->put = (struct key_put){.key = c->key, .entry = keymap_find(m, c->key)};
        return is_present(change->put.entry) ? STORE_OK : STORE_ABSENT;
    case COMMAND_KEY_MULTI_SET:
        change->kind = CHANGE_KEY_PUT_ALL;
        change->put_all = (struct key_put_all){.pairs = c->items, .lookup = c->lookup};
        cost = c->lookup != NULL ? c->lookup->cost : pairs_cost(m, c->items);
        return quota_has_room(m->quota, 0, cost) ? STORE_OK : STORE_FULL;
    case COMMAND_QUEUE_PUSH:
        change->kind = CHANGE_QUEUE_PUSH;
        change->put = (struct key_put){.key = c->key, .value = c->value};
        cost = ENTRY_COST + c->key.len + ELEMENT_COST + c->value.len;
        return quota_has_room(m->quota, 0, cost) ? STORE_OK : STORE_FULL;
    case COMMAND_QUEUE_POP:
        change->kind = CHANGE_QUEUE_POP;
        change->pop = (struct queue_pop){.queue = c->key, .found = keymap_find_queue(m, c->key)};
        return change->pop.found != NULL ? STORE_OK : STORE_ABSENT;
    default: /* COMMAND_BARRIER */
        return check_barrier(m, c, change, out);
    }
}

/* --- What was decoded. --- */

bool keymap_can_apply(const struct keymap *m, const struct change *change)
{
    const struct entry *e;

    switch (change->kind) {
    case CHANGE_KEY_PATCH:
        e = keymap_find(m, change->patch.key);
        return is_present(e) && change->patch.offset <= entry_value(e).len &&
               change->patch.removed <= entry_value(e).len - change->patch.offset;
    case CHANGE_KEY_DELETE:
        return is_present(keymap_find(m, change->put.key));
    case CHANGE_QUEUE_POP:
        return keymap_find_queue(m, change->pop.queue) != NULL;
    default:
        return true;
    }
}
