/* Changes become bytes, and bytes changes, by one table. See record.h for the contract. */
#include "store/disk/record.h"

#include <stdlib.h>

#include "proto/c10d.h"

/* --- The table: which fields the message of each kind has, and where they are in the change. The
 * build makes it of proto/record.proto (record_table.py). --- */

enum field_type {
    BYTES, /* struct slice */
    BOOL,
    U8,
    U16,
    U64,
    ENUM,  /* of `first` to `last` */
    FIXED, /* int64_t, or a uint64_t of which most values are large: eight bytes */
};

struct field {
    uint8_t number; /* in the message; they ascend. 0: no field */
    uint8_t type;
    uint16_t offset; /* in struct change */
    uint8_t first, last;
};

#define FIELDS_MAX 21 /* with a last one whose number is 0 */

/* The store walks a MULTI_SET by its lengths, so these must agree with the bytes. */
static bool are_pairs(const struct change *c)
{
    struct slice items = c->put_all.pairs, blob;
    size_t count = 0;

    while (c10d_next_blob(&items, &blob))
        count++;
    return items.len == 0 && count % 2 == 0;
}

static bool moves_deadlines(const struct change *c)
{
    return c->by_ns > 0;
}

static bool is_tree_node(const struct change *c)
{
    return !c->node_state.dir || c->node_state.value.len == 0;
}

static bool is_tree_event(const struct change *c)
{
    const struct event_state *e = &c->event_state;

    return (e->node.has_value || e->node.value.len == 0) &&
           (e->prev.has_value || e->prev.value.len == 0);
}

static bool has_session_key(const struct change *c)
{
    return c->put.key.len == SESSION_KEY_SIZE;
}

#define AT(member)     .offset = offsetof(struct change, member)
#define UINT32(member) (sizeof(((struct change *)NULL)->member) == 1 ? U8 : U16)

static const struct field messages[][FIELDS_MAX] = {
#include "store/record_table.h"
};

#define MESSAGE_COUNT (sizeof messages / sizeof *messages)

/* Do the fields agree with each other? NULL: always. */
static bool (*const are_valid[MESSAGE_COUNT])(const struct change *c) = {
    [CHANGE_KEY_PUT_ALL] = are_pairs,         [CHANGE_TREE_POSTPONE] = moves_deadlines,
    [CHANGE_SNAPSHOT_NODE] = is_tree_node,    [CHANGE_SNAPSHOT_EVENT] = is_tree_event,
    [CHANGE_SNAPSHOT_HELD] = has_session_key,
};

/* --- Protobuf's encoding: a field is a tag, of its number and the kind of its value, and the
 * value. Fields that are zero or empty are left out. --- */

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED = 1, WIRE_BYTES = 2 };

#define VARINT_MAX 10

/* Fields of a Batch; and of a Record, beside the change, whose number is its kind. */
enum { BATCH_NUMBER = 1, BATCH_RECORD = 2, BATCH_TIME = 3 };
enum { RECORD_SPACE = 1, RECORD_WORKER_STORE = 2 };

#define TIME_SIZE 9 /* of BATCH_TIME, with its tag */

/* A batch without bytes only counts them. */
static void batch_put_byte(struct batch *b, uint8_t byte)
{
    if (b->bytes != NULL)
        b->bytes[b->len] = byte;
    b->len++;
}

static void batch_put_varint(struct batch *b, uint64_t v)
{
    for (; v > 0x7f; v >>= 7)
        batch_put_byte(b, (uint8_t)(v | 0x80));
    batch_put_byte(b, (uint8_t)v);
}

static void batch_put_tag(struct batch *b, uint64_t number, enum wire_type type)
{
    batch_put_varint(b, number << 3 | type);
}

static void batch_put_number(struct batch *b, uint64_t number, uint64_t v)
{
    batch_put_tag(b, number, WIRE_VARINT);
    batch_put_varint(b, v);
}

static void batch_put_fixed(struct batch *b, uint64_t number, uint64_t v)
{
    batch_put_tag(b, number, WIRE_FIXED);
    if (b->bytes != NULL)
        bytes_put_u64(b->bytes + b->len, v);
    b->len += 8;
}

/* The tag and the length: so many bytes are to follow. */
static void batch_put_length(struct batch *b, uint64_t number, size_t len)
{
    batch_put_tag(b, number, WIRE_BYTES);
    batch_put_varint(b, len);
}

static void batch_put_bytes(struct batch *b, uint64_t number, struct slice s)
{
    batch_put_length(b, number, s.len);
    if (b->bytes != NULL)
        memcpy(b->bytes + b->len, s.ptr, s.len);
    b->len += s.len;
}

/* --- Changes to bytes. --- */

/* The field as a number; of BYTES their length. */
static uint64_t field_get(const struct field *f, const struct change *c)
{
    const void *at = (const uint8_t *)c + f->offset;

    switch (f->type) {
    case BYTES:
        return ((const struct slice *)at)->len;
    case BOOL:
        return *(const bool *)at;
    case U8:
        return *(const uint8_t *)at;
    case U16:
        return *(const uint16_t *)at;
    case ENUM:
        return *(const unsigned *)at;
    default:
        return *(const uint64_t *)at;
    }
}

static void message_put(const struct field *f, const struct change *c, struct batch *b)
{
    for (; f->number != 0; f++) {
        const void *at = (const uint8_t *)c + f->offset;
        uint64_t v = field_get(f, c);

        if (v == 0)
            continue;
        if (f->type == BYTES)
            batch_put_bytes(b, f->number, *(const struct slice *)at);
        else if (f->type == FIXED)
            batch_put_fixed(b, f->number, v);
        else
            batch_put_number(b, f->number, v);
    }
}

/* Writes the record's fields before the change's message, which has `message` bytes. */
static void record_put_head(struct batch *b, struct slice space, const struct change *c,
                            size_t message)
{
    if (space.len != 0)
        batch_put_bytes(b, RECORD_SPACE, space);
    if (c->worker_store != 0)
        batch_put_number(b, RECORD_WORKER_STORE, c->worker_store);
    batch_put_length(b, (uint64_t)c->kind, message);
}

/* --- Batches. --- */

void batch_init(struct batch *b)
{
    *b = (struct batch){0};
}

void batch_init_fixed(struct batch *b, uint8_t *bytes, size_t cap)
{
    *b = (struct batch){.bytes = bytes, .cap = cap, .fixed = true};
}

void batch_fini(struct batch *b)
{
    if (!b->fixed)
        free(b->bytes);
    *b = (struct batch){0};
}

void batch_begin(struct batch *b, uint64_t number)
{
    b->number = number;
    b->space = NULL;
    b->count = b->len = 0;
}

uint8_t *batch_take(struct batch *b, size_t *cap)
{
    uint8_t *bytes = b->bytes;

    *cap = b->cap + b->kept;
    b->bytes = NULL;
    b->space = NULL;
    b->count = b->len = b->cap = 0;
    return bytes;
}

static bool batch_make_room(struct batch *b, size_t more)
{
    size_t cap = b->cap == 0 ? 4096 : b->cap;
    uint8_t *wider;

    if (more <= b->cap - b->len)
        return true;
    if (b->fixed)
        return false;
    while (cap - b->len < more)
        cap *= 2;
    wider = realloc(b->bytes, cap + b->kept);
    if (wider == NULL)
        return false;
    b->bytes = wider;
    b->cap = cap;
    return true;
}

bool batch_keep(struct batch *b, size_t size)
{
    if (b->refuses)
        return false;
    size += 2 * (1 + VARINT_MAX) + TIME_SIZE;
    if (b->bytes != NULL && size <= b->kept)
        return true;
    batch_release(b);
    if (!batch_make_room(b, size))
        return false;
    b->cap -= size;
    b->kept = size;
    return true;
}

void batch_release(struct batch *b)
{
    if (b->bytes != NULL) /* NULL: the caller took the bytes, with the kept room */
        b->cap += b->kept;
    b->kept = 0;
}

/* Every batch begins with it. */
static void batch_put_begin(struct batch *b)
{
    if (b->len == 0)
        batch_put_number(b, BATCH_NUMBER, b->number);
}

bool batch_end(struct batch *b, int64_t time_ns)
{
    if (!batch_make_room(b, (b->len == 0 ? 1 + VARINT_MAX : 0) + TIME_SIZE))
        return false;
    batch_put_begin(b);
    batch_put_fixed(b, BATCH_TIME, (uint64_t)time_ns);
    return true;
}

/* Two protobuf messages in a row form one message with the records of both. */
bool batch_append(struct batch *b, const struct batch *other)
{
    if (!batch_make_room(b, other->len + TIME_SIZE))
        return false;
    slice_copy(b->bytes + b->len, batch_bytes(other));
    b->len += other->len;
    b->space = NULL;
    b->count += other->count;
    return true;
}

bool batch_add(struct batch *b, const char *space, const struct change *change)
{
    struct slice name = b->space == space ? (struct slice){0} : slice_str(space);
    const struct field *fields = messages[change->kind];
    struct batch counted = {0};
    size_t message;

    if (b->refuses)
        return false;
    message_put(fields, change, &counted);
    message = counted.len;
    record_put_head(&counted, name, change, message);
    if (!batch_make_room(b, counted.len + 2 * (1 + VARINT_MAX) + TIME_SIZE))
        return false;
    batch_put_begin(b);
    batch_put_length(b, BATCH_RECORD, counted.len);
    record_put_head(b, name, change, message);
    message_put(fields, change, b);
    b->space = space;
    b->count++;
    return true;
}

/* --- Bytes to changes. Unknown fields and truncated messages make the batch invalid. --- */

struct wire_field {
    uint64_t number;
    enum wire_type type;
    uint64_t value;
    struct slice bytes; /* WIRE_BYTES */
};

static bool wire_take_varint(struct reader *r, uint64_t *out)
{
    uint8_t byte = 0x80;

    *out = 0;
    for (unsigned shift = 0; byte > 0x7f; shift += 7) {
        if (shift >= 7 * VARINT_MAX || !reader_u8(r, &byte))
            return false;
        *out |= (uint64_t)(byte & 0x7f) << shift;
    }
    return true;
}

/* The next field; false: there is none. */
static bool wire_take_field(struct reader *r, struct wire_field *f)
{
    uint64_t tag;

    if (!wire_take_varint(r, &tag))
        return false;
    f->number = tag >> 3;
    f->type = tag & 7;
    if (f->number == 0)
        return false;
    switch (f->type) {
    case WIRE_VARINT:
        return wire_take_varint(r, &f->value);
    case WIRE_FIXED:
        return reader_u64(r, &f->value);
    case WIRE_BYTES:
        return wire_take_varint(r, &f->value) && reader_take(r, f->value, &f->bytes);
    }
    return false;
}

static bool reader_is_done(const struct reader *r)
{
    return r->at == r->in.len;
}

/* False: the value has another wire type, or is too large; *c is of no use then. The least value of
 * an ENUM is checked when the message has been read, since an absent field counts as 0. */
static bool field_set(const struct field *f, struct change *c, const struct wire_field *w)
{
    void *at = (uint8_t *)c + f->offset;

    if (w->type != (f->type == BYTES ? WIRE_BYTES : f->type == FIXED ? WIRE_FIXED : WIRE_VARINT))
        return false;
    switch (f->type) {
    case BYTES:
        *(struct slice *)at = w->bytes;
        return true;
    case BOOL:
        *(bool *)at = w->value != 0;
        return w->value <= 1;
    case U8:
        *(uint8_t *)at = (uint8_t)w->value;
        return w->value <= UINT8_MAX;
    case U16:
        *(uint16_t *)at = (uint16_t)w->value;
        return w->value <= UINT16_MAX;
    case ENUM:
        *(unsigned *)at = (unsigned)w->value;
        return w->value <= f->last;
    default:
        *(uint64_t *)at = w->value;
        return true;
    }
}

/* Takes each field at most once, in ascending order. */
static bool record_take_message(const struct field *fields, struct slice in, struct change *c)
{
    const struct field *f = fields;
    struct reader r = {.in = in};
    struct wire_field w;

    for (; !reader_is_done(&r); f++) {
        if (!wire_take_field(&r, &w))
            return false;
        while (f->number != 0 && f->number < w.number)
            f++;
        if (f->number != w.number || !field_set(f, c, &w))
            return false;
    }
    for (f = fields; f->number != 0; f++) {
        if (f->type == ENUM && field_get(f, c) < f->first)
            return false;
    }
    return are_valid[c->kind] == NULL || are_valid[c->kind](c);
}

static bool record_take_change(const struct wire_field *w, struct change *c)
{
    if (w->type != WIRE_BYTES || w->number >= MESSAGE_COUNT || messages[w->number]->number == 0)
        return false;
    c->kind = (enum change_kind)w->number;
    return record_take_message(messages[w->number], w->bytes, c);
}

/* The change comes last. `space` is that of the record before. */
static bool record_take(struct slice in, struct slice space, struct record *out)
{
    struct reader r = {.in = in};
    struct change *c = &out->change;
    struct wire_field w;

    *out = (struct record){.space = space};
    while (!reader_is_done(&r)) {
        if (c->kind != CHANGE_NONE || !wire_take_field(&r, &w))
            return false;
        if (w.number == RECORD_SPACE && w.type == WIRE_BYTES)
            out->space = w.bytes;
        else if (w.number == RECORD_WORKER_STORE && w.type == WIRE_VARINT)
            c->worker_store = w.value;
        else if (!record_take_change(&w, c))
            return false;
    }
    /* Only changes of keys can name a worker store. */
    return c->kind != CHANGE_NONE && (c->worker_store == 0 || change_part(c->kind) == PART_KEYS ||
                                      c->kind == CHANGE_SNAPSHOT_KEYS);
}

/* A batch that was added to another one begins again within it (batch_append()). */
bool record_next(struct record_reader *r, struct record *out)
{
    struct wire_field w;

    while (!r->failed && !reader_is_done(&r->bytes)) {
        if (!wire_take_field(&r->bytes, &w)) {
            r->failed = true;
        } else if (w.number == BATCH_NUMBER && w.type == WIRE_VARINT) {
            r->number = w.value;
        } else if (w.number == BATCH_TIME && w.type == WIRE_FIXED) {
            r->time_ns = (int64_t)w.value;
        } else if (w.number == BATCH_RECORD && w.type == WIRE_BYTES &&
                   record_take(w.bytes, r->space, out)) {
            r->space = out->space;
            return true;
        } else {
            r->failed = true;
        }
    }
    return false;
}
