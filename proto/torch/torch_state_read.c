/* From a value to a rendezvous state. See torch_state.h.
 *
 * The problem: the value is a pickle, and a pickle is a program: Python's own reader imports and
 * calls the functions that the opcodes name, and any client can write the key. A machine that runs
 * only harmless opcodes is not enough: a short text can build deep or huge objects from references,
 * and rdzvd would have to keep all that it does not understand. So each function below expects one
 * shape that torch's classes and CPython's pickler write, and passes its opcodes in their order;
 * there is no stack, and no recursion. The invariant: a text that is read is a state that torch can
 * load, in the spelling of CPython; every other text is TORCH_STATE_NOT_MINE, and stays a value
 * that rdzvd does not interpret. pickle.h refuses other spellings, and the functions here refuse
 * other shapes.
 *
 * Upstream: torch 1.13 to 2.14, dynamic_rendezvous.py: _NodeDesc, _RendezvousState;
 * CPython 3.14, Modules/_pickle.c (save_dict, save_set, save_reduce) and _datetimemodule.c. */
#include "proto/torch/torch_state.h"

#include <stdlib.h>

#include "proto/base64.h"
#include "proto/torch/pickle.h"
#include "proto/torch/torch_state_internal.h"

/* What the memo holds. */
enum kind {
    KIND_PLAIN, /* never referred to */
    KIND_STRING = PICKLE_STRING,
    KIND_CLASS, /* its value is an enum torch_class */
    KIND_NODE,  /* an index in `nodes` */
    KIND_UTC,
};

struct reading {
    struct pickle_reader pickle;
    struct torch_node *nodes; /* one for each object; several may name the same node */
    size_t count;
    size_t cap;
    size_t unnamed;
    bool fqdn;
    bool naive;                    /* some time carries no UTC */
    bool aware;                    /* some time does */
    bool has_class[TORCH_CLASSES]; /* it has a number; it is not spelled again */
    bool has_utc;
};

/* --- Parts. --- */

static bool pass_op(struct reading *r, enum pickle_op op)
{
    return pickle_pass(&r->pickle, op);
}

static bool memoize_part(struct reading *r, enum kind kind, size_t value)
{
    return pickle_memoize(&r->pickle, kind, value);
}

static bool read_attribute(struct reading *r, const char *name)
{
    struct slice s;

    return pickle_string(&r->pickle, &s) && slice_is(s, name);
}

static bool read_class(struct reading *r, enum torch_class which)
{
    uint32_t value;

    if (pickle_get(&r->pickle, KIND_CLASS, &value))
        return value == (uint32_t)which;
    if (r->has_class[which])
        return false;
    r->has_class[which] = true;
    return read_attribute(r, torch_classes[which].module) &&
           read_attribute(r, torch_classes[which].name) && pass_op(r, PICKLE_STACK_GLOBAL) &&
           memoize_part(r, KIND_CLASS, which);
}

/* An object made without arguments, and the start of its attributes. */
static bool begin_read_object(struct reading *r, enum torch_class which, enum kind kind,
                              size_t value)
{
    return read_class(r, which) && pass_op(r, PICKLE_EMPTY_TUPLE) && pass_op(r, PICKLE_NEWOBJ) &&
           memoize_part(r, kind, value) && pass_op(r, PICKLE_EMPTY_DICT) &&
           memoize_part(r, KIND_PLAIN, 0) && pass_op(r, PICKLE_MARK);
}

static bool end_read_object(struct reading *r)
{
    return pass_op(r, PICKLE_SETITEMS) && pass_op(r, PICKLE_BUILD);
}

/* --- Nodes. --- */

static struct torch_node *append_node(struct reading *r)
{
    if (r->count == r->cap) {
        size_t cap = r->cap == 0 ? 16 : r->cap * 2;
        struct torch_node *nodes = torch_memory.grow(r->nodes, cap, sizeof *nodes);

        if (nodes == NULL) {
            r->pickle.no_memory = true;
            return NULL;
        }
        r->nodes = nodes;
        r->cap = cap;
    }
    r->nodes[r->count] = (struct torch_node){0};
    return &r->nodes[r->count++];
}

/* The name of a node's first attribute, which is the same in all nodes of a state. */
static bool read_addr_name(struct reading *r, bool first)
{
    struct slice name;
    bool fqdn;

    if (!pickle_string(&r->pickle, &name))
        return false;
    fqdn = slice_is(name, "fqdn");
    if (!fqdn && !slice_is(name, "addr"))
        return false;
    if (first)
        r->fqdn = fqdn;
    return r->fqdn == fqdn;
}

static bool read_node_desc(struct reading *r, struct torch_node **out)
{
    struct torch_node *node;
    uint32_t index;

    if (pickle_get(&r->pickle, KIND_NODE, &index)) {
        *out = &r->nodes[index];
        return true;
    }
    if (!begin_read_object(r, TORCH_NODE_CLASS, KIND_NODE, r->count) ||
        !read_addr_name(r, r->count == 0))
        return false;
    node = append_node(r);
    if (node == NULL || !pickle_string(&r->pickle, &node->addr) || node->addr.len > TORCH_ADDR_MAX)
        return false;
    *out = node;
    return read_attribute(r, "pid") && pickle_int(&r->pickle, &node->pid) &&
           read_attribute(r, "local_id") && pickle_int(&r->pickle, &node->local_id) &&
           end_read_object(r);
}

/* --- Times. --- */

/* timezone(timedelta(0)), the content of timezone.utc. */
static bool read_utc(struct reading *r)
{
    uint32_t value;
    int64_t part;

    if (pickle_get(&r->pickle, KIND_UTC, &value))
        return true;
    if (r->has_utc)
        return false;
    r->has_utc = true;
    if (!read_class(r, TORCH_TIMEZONE_CLASS) || !read_class(r, TORCH_TIMEDELTA_CLASS))
        return false;
    for (int i = 0; i < 3; i++) {
        if (!pickle_int(&r->pickle, &part) || part != 0)
            return false;
    }
    return pass_op(r, PICKLE_TUPLE3) && memoize_part(r, KIND_PLAIN, 0) &&
           pass_op(r, PICKLE_REDUCE) && memoize_part(r, KIND_PLAIN, 0) &&
           pass_op(r, PICKLE_TUPLE1) && memoize_part(r, KIND_PLAIN, 0) &&
           pass_op(r, PICKLE_REDUCE) && memoize_part(r, KIND_UTC, 0);
}

/* torch writes each node's time as an object of its own: a reference to a time is no state. */
static bool read_time(struct reading *r, int64_t *us)
{
    struct slice len, bytes;

    if (!read_class(r, TORCH_DATETIME_CLASS) || !pass_op(r, PICKLE_SHORT_BINBYTES) ||
        !pickle_take(&r->pickle, 1, &len) || len.ptr[0] != TORCH_TIME_SIZE ||
        !pickle_take(&r->pickle, TORCH_TIME_SIZE, &bytes) || !torch_time_read(bytes.ptr, us) ||
        !memoize_part(r, KIND_PLAIN, 0))
        return false;
    if (pass_op(r, PICKLE_TUPLE1)) {
        r->naive = true;
    } else {
        if (!read_utc(r) || !pass_op(r, PICKLE_TUPLE2))
            return false;
        r->aware = true;
    }
    return memoize_part(r, KIND_PLAIN, 0) && pass_op(r, PICKLE_REDUCE) &&
           memoize_part(r, KIND_PLAIN, 0);
}

/* --- Lists of nodes. If a list names a node twice, the state is refused. --- */

/* Its name is the next number, and it has no rank. */
static bool read_unnamed(struct reading *r)
{
    int64_t number;

    return pickle_int(&r->pickle, &number) && number == (int64_t)r->unnamed++ &&
           pass_op(r, PICKLE_NONE);
}

static bool read_item(struct reading *r, enum torch_list list)
{
    int next = pickle_peek(&r->pickle);
    struct torch_node *node;
    bool *is_in;

    if (list == TORCH_PARTICIPANTS &&
        (next == PICKLE_BININT1 || next == PICKLE_BININT2 || next == PICKLE_BININT))
        return read_unnamed(r);
    if (!read_node_desc(r, &node))
        return false;
    is_in = (bool *)((char *)node + torch_list_flags[list]);
    if (*is_in)
        return false;
    *is_in = true;
    return list == TORCH_PARTICIPANTS      ? pickle_int(&r->pickle, &node->rank)
           : list == TORCH_LAST_HEARTBEATS ? read_time(r, &node->heartbeat_us)
                                           : true;
}

static bool read_batch(struct reading *r, enum torch_list list, enum pickle_op end)
{
    while (!pass_op(r, end)) {
        if (!read_item(r, list))
            return false;
    }
    return true;
}

/* The batches of at most 1000 items in which CPython writes a container. */
static bool read_batches(struct reading *r, enum torch_list list, enum pickle_op end)
{
    while (pass_op(r, PICKLE_MARK)) {
        if (!read_batch(r, list, end))
            return false;
    }
    return true;
}

/* dict.fromkeys(range(COUNT)). */
static bool read_counted(struct reading *r)
{
    int64_t count;

    if (!read_attribute(r, "builtins") || !read_attribute(r, "dict.fromkeys") ||
        !pass_op(r, PICKLE_STACK_GLOBAL) || !read_attribute(r, "builtins") ||
        !read_attribute(r, "range") || !pass_op(r, PICKLE_STACK_GLOBAL) ||
        !pickle_int(&r->pickle, &count) || count <= 0 || count > UINT32_MAX)
        return false;
    r->unnamed = (size_t)count;
    return pass_op(r, PICKLE_TUPLE1) && pass_op(r, PICKLE_REDUCE) && pass_op(r, PICKLE_TUPLE1) &&
           pass_op(r, PICKLE_REDUCE) && read_batches(r, TORCH_PARTICIPANTS, PICKLE_SETITEMS);
}

static bool read_dict(struct reading *r, enum torch_list list)
{
    int next = pickle_peek(&r->pickle);

    if (list == TORCH_PARTICIPANTS && next == PICKLE_SHORT_BINUNICODE)
        return read_counted(r);
    if (!pass_op(r, PICKLE_EMPTY_DICT) || !memoize_part(r, KIND_PLAIN, 0))
        return false;
    /* A single item has no mark. It starts with a reference (to a node, the class, or the module's
     * name), and all of these are known by now; the opcode that follows a dict does not. */
    next = pickle_peek(&r->pickle);
    if (next == PICKLE_BINGET || next == PICKLE_LONG_BINGET)
        return read_item(r, list) && pass_op(r, PICKLE_SETITEM);
    return read_batches(r, list, PICKLE_SETITEMS);
}

static bool read_set(struct reading *r, enum torch_list list)
{
    return pass_op(r, PICKLE_EMPTY_SET) && memoize_part(r, KIND_PLAIN, 0) &&
           read_batches(r, list, PICKLE_ADDITEMS);
}

/* What stands between wait_list and last_heartbeats in the releases that have it. */
static bool read_redundancy_list(struct reading *r, struct torch_state *s)
{
    struct slice name;

    if (!pickle_string(&r->pickle, &name))
        return false;
    if (slice_is(name, "last_heartbeats"))
        return true;
    s->has_redundancy = true;
    return slice_is(name, "redundancy_list") && read_set(r, TORCH_REDUNDANCY_LIST) &&
           read_attribute(r, "last_heartbeats");
}

/* --- The whole. --- */

/* All that stands behind the participants. */
static bool read_rest(struct reading *r, struct torch_state *s)
{
    return read_attribute(r, "wait_list") && read_set(r, TORCH_WAIT_LIST) &&
           read_redundancy_list(r, s) && read_dict(r, TORCH_LAST_HEARTBEATS) &&
           end_read_object(r) && pass_op(r, PICKLE_STOP) && r->pickle.at == r->pickle.in.len;
}

static bool read_pickle(struct reading *r, struct torch_state *s)
{
    struct pickle_reader *p = &r->pickle;

    if (!pickle_begin(p, &s->protocol) || !begin_read_object(r, TORCH_STATE_CLASS, KIND_PLAIN, 0) ||
        !read_attribute(r, "round") || !pickle_int(p, &s->round) ||
        !read_attribute(r, "complete") || !pickle_bool(p, &s->complete) ||
        !read_attribute(r, "deadline"))
        return false;
    s->has_deadline = !pass_op(r, PICKLE_NONE);
    return (!s->has_deadline || read_time(r, &s->deadline_us)) && read_attribute(r, "closed") &&
           pickle_bool(p, &s->closed) && read_attribute(r, "participants") &&
           read_dict(r, TORCH_PARTICIPANTS) && read_rest(r, s);
}

static int compare_read_nodes(const void *a, const void *b)
{
    return torch_node_compare(a, b);
}

/* Adds what `b` says of the same node to `a`. False when both say the same thing. */
static bool merge_node(struct torch_node *a, const struct torch_node *b)
{
    if ((a->participant && b->participant) || (a->waiting && b->waiting) ||
        (a->redundant && b->redundant) || (a->has_heartbeat && b->has_heartbeat))
        return false;
    a->participant |= b->participant;
    a->waiting |= b->waiting;
    a->redundant |= b->redundant;
    a->has_heartbeat |= b->has_heartbeat;
    a->rank |= b->rank; /* one of the two is 0 */
    a->heartbeat_us |= b->heartbeat_us;
    return true;
}

/* Brings the nodes into order, and several objects that name one node together. */
static bool settle_nodes(struct reading *r)
{
    size_t sorted = 1, count = 1;

    while (sorted < r->count && torch_node_compare(&r->nodes[sorted - 1], &r->nodes[sorted]) < 0)
        sorted++;
    if (sorted >= r->count)
        return true;
    qsort(r->nodes, r->count, sizeof *r->nodes, compare_read_nodes);
    for (size_t i = 1; i < r->count; i++) {
        if (torch_node_compare(&r->nodes[count - 1], &r->nodes[i]) != 0)
            r->nodes[count++] = r->nodes[i];
        else if (!merge_node(&r->nodes[count - 1], &r->nodes[i]))
            return false;
    }
    r->count = count;
    return true;
}

/* Takes over all that has been read. */
static bool end_reading(struct reading *r, struct torch_state *s)
{
    if ((r->naive && r->aware) || !settle_nodes(r))
        return false;
    s->fqdn = r->count > 0 ? r->fqdn : !s->has_redundancy;
    s->aware = r->aware || (!r->naive && s->has_redundancy);
    s->nodes = r->nodes;
    s->count = r->count;
    s->cap = r->cap;
    s->unnamed = r->unnamed;
    return true;
}

/* Checks the length and the first characters of a state: other values are rarely read further. */
static bool is_likely(struct slice value)
{
    return value.len >= 160 && value.len <= TORCH_STATE_MAX &&
           (slice_starts_with(value, slice_str("gASV")) ||
            slice_starts_with(value, slice_str("gAWV")));
}

static size_t decoded_len(struct slice value)
{
    size_t padding = 0;

    while (padding < 2 && value.ptr[value.len - 1 - padding] == '=')
        padding++;
    return value.len / 4 * 3 - padding;
}

/* A long pickle is a chain of frames from byte 2 on, behind the opcode PROTO. A client may append
 * to a long state again and again, and each time the whole value would be read. So this decodes
 * only the head of each frame: a chain that does not end with the value, give or take 3 bytes, is
 * no state. is_likely() comes first. */
static bool has_all_frames(struct slice value)
{
    size_t len = decoded_len(value), at = 2;

    if (value.len % 4 != 0)
        return false;
    while (len - at >= 4) {
        uint8_t bytes[12];
        struct slice part = {value.ptr + at / 3 * 4, (at % 3 + PICKLE_FRAME_HEADER + 2) / 3 * 4};
        size_t part_len;

        if (len - at <= PICKLE_FRAME_HEADER || !base64_decode(part, false, bytes, &part_len) ||
            !pickle_skip_frame(bytes + at % 3, len, &at))
            return false;
    }
    return true;
}

/* A block for the bytes of a text that is likely a state, which *r reads; NULL: it is none, or
 * there is no memory. */
static struct torch_block *begin_reading(struct slice value, struct reading *r)
{
    struct torch_block *block;

    if (!is_likely(value) || !has_all_frames(value))
        return NULL;
    block = torch_block_new(value.len / 4 * 3);
    r->pickle.no_memory = block == NULL;
    if (block != NULL)
        r->pickle.in.ptr = block->bytes;
    return block;
}

/* NULL: `block` holds no state. */
static enum torch_state_status give(struct reading *r, struct torch_block *block,
                                    const struct torch_state *s, struct torch_state *out)
{
    bool no_memory = r->pickle.no_memory;

    pickle_reader_fini(&r->pickle);
    if (s != NULL) {
        *out = *s;
        out->memory = block;
        return TORCH_STATE_OK;
    }
    torch_memory.free(r->nodes);
    torch_memory.free(block);
    return no_memory ? TORCH_STATE_NO_MEMORY : TORCH_STATE_NOT_MINE;
}

static enum torch_state_status read_text(struct slice value, bool is_view, struct torch_state *out)
{
    struct reading r = {0};
    struct torch_state s = {0};
    struct torch_block *block = begin_reading(value, &r);
    bool done = block != NULL && base64_decode(value, true, block->bytes, &r.pickle.in.len) &&
                read_pickle(&r, &s) && end_reading(&r, &s) && (is_view || s.unnamed == 0);

    return give(&r, block, done ? &s : NULL, out);
}

enum torch_state_status torch_state_read(struct slice value, struct torch_state *out)
{
    return read_text(value, false, out);
}

enum torch_state_status torch_state_read_view(struct slice value, struct torch_state *out)
{
    return read_text(value, true, out);
}

/* A quad of base64 may begin in front of the time, or behind its first bytes, which seldom change.
 */
#define BEAT_BEFORE 16
#define BEAT_WINDOW 48

bool torch_state_read_beat(struct slice shown, struct slice wanted, int64_t *us)
{
    uint8_t was[BEAT_WINDOW / 4 * 3], is[BEAT_WINDOW / 4 * 3];
    const size_t size = 2 + TORCH_TIME_SIZE;
    size_t at = 0, end, len;

    if (shown.len != wanted.len)
        return false;
    while (at < wanted.len && shown.ptr[at] == wanted.ptr[at])
        at++;
    if (at < BEAT_BEFORE || at == wanted.len)
        return false;
    at = at / 4 * 4 - BEAT_BEFORE;
    end = wanted.len - at < BEAT_WINDOW ? wanted.len : at + BEAT_WINDOW;
    if (!slice_equal(slice_from(shown, end), slice_from(wanted, end)) ||
        !base64_decode((struct slice){shown.ptr + at, end - at}, true, was, &len) ||
        !base64_decode((struct slice){wanted.ptr + at, end - at}, true, is, &len))
        return false;
    for (size_t i = 0; i + size <= len; i++) {
        if (is[i] == PICKLE_SHORT_BINBYTES && is[i + 1] == TORCH_TIME_SIZE &&
            memcmp(was, is, i + 2) == 0 &&
            memcmp(was + i + size, is + i + size, len - i - size) == 0)
            return torch_time_read(is + i + 2, us);
    }
    return false;
}

/* --- Fronts. --- */

bool torch_front_learn(struct torch_front *f)
{
    struct reading r = {.pickle.in = f->pickle};
    struct torch_state s = {0};
    size_t count = f->marks[1].memoed;
    bool ok = read_pickle(&r, &s) && count <= TORCH_FRONT_MEMO;

    if (ok)
        memcpy(f->memo, r.pickle.memo, count * sizeof *f->memo);
    torch_memory.free(r.nodes);
    pickle_reader_fini(&r.pickle);
    return ok;
}

/* The bytes that are no front's. False: the text does not begin like the front. */
static bool decode_seam(const struct torch_front *f, size_t count, struct slice value,
                        uint8_t *bytes, size_t *len)
{
    const struct torch_mark *m = &f->marks[count];
    struct torch_seam seam = torch_front_seam(f, count);
    size_t header = seam.header / 3 * 4, header_end = seam.header_end / 3 * 4;
    size_t cut = seam.cut / 3 * 4, last;

    if (value.len <= cut || memcmp(value.ptr, f->text, header) != 0 ||
        memcmp(value.ptr + header_end, f->text + header_end, cut - header_end) != 0 ||
        !base64_decode((struct slice){value.ptr + header, header_end - header}, true,
                       bytes + seam.header, &last) ||
        !base64_decode(slice_from(value, cut), true, bytes + seam.cut, &last))
        return false;
    memcpy(bytes, f->pickle.ptr, seam.header);
    memcpy(bytes + seam.header_end, f->pickle.ptr + seam.header_end, seam.cut - seam.header_end);
    *len = seam.cut + last;
    return *len > m->len &&
           memcmp(bytes + seam.header, f->pickle.ptr + seam.header, m->frame - 8 - seam.header) ==
               0 &&
           memcmp(bytes + m->frame, f->pickle.ptr + m->frame, m->len - m->frame) == 0;
}

/* Where reading all up to the mark would have led. False: no memory, or the frame ends before. */
static bool resume_at_mark(struct reading *r, const struct torch_front *f, size_t count)
{
    const struct torch_mark *m = &f->marks[count];
    struct pickle_reader *p = &r->pickle;
    size_t known = f->marks[1].memoed < m->memoed ? f->marks[1].memoed : m->memoed;

    p->end = m->frame - PICKLE_FRAME_HEADER;
    if (!pickle_skip_frame(p->in.ptr + p->end, p->in.len, &p->end) || p->end < m->len)
        return false;
    p->at = m->len;
    p->memo_count = m->memoed;
    p->memo_cap = m->memoed + 64;
    p->memo = reallocarray(NULL, p->memo_cap, sizeof *p->memo);
    p->no_memory = p->memo == NULL;
    if (p->no_memory)
        return false;
    memset(p->memo, 0, p->memo_count * sizeof *p->memo);
    memcpy(p->memo, f->memo, known * sizeof *p->memo);
    r->has_class[TORCH_STATE_CLASS] = r->has_class[TORCH_NODE_CLASS] = true;
    r->fqdn = f->like.fqdn;
    return true;
}

enum torch_state_status torch_front_read(const struct torch_front *f, size_t count,
                                         struct slice value, struct torch_state *out)
{
    struct reading r = {0};
    struct torch_state s = {.round = f->like.round,
                            .complete = f->like.complete,
                            .closed = f->like.closed,
                            .protocol = f->like.protocol};
    struct torch_block *block;
    bool done;

    if (count == 0 || count > f->count || f->like.has_deadline)
        return TORCH_STATE_NOT_MINE;
    block = begin_reading(value, &r);
    done = block != NULL && decode_seam(f, count, value, block->bytes, &r.pickle.in.len) &&
           resume_at_mark(&r, f, count) && read_batch(&r, TORCH_PARTICIPANTS, PICKLE_SETITEMS) &&
           read_batches(&r, TORCH_PARTICIPANTS, PICKLE_SETITEMS) && read_rest(&r, &s) &&
           end_reading(&r, &s);
    s.fqdn = f->like.fqdn;
    return give(&r, block, done ? &s : NULL, out);
}
