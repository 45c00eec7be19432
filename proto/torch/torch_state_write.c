/* From a rendezvous state to the value that torch would write of it. See torch_state.h.
 *
 * Torch loads these bytes, and dumps them again byte for byte, except for the order of sets: Python
 * orders sets by hashes that differ from process to process. */
#include "proto/torch/torch_state.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/base64.h"
#include "proto/torch/pickle.h"
#include "proto/torch/torch_state_internal.h"

#define BATCH 1000 /* items of a container between two marks */

#define UNWRITTEN UINT32_MAX

/* Equal nodes and addresses are written once, and later places refer to them, even if the text that
 * was read had several equal objects. Without this, one string that a hostile or odd text refers to
 * a thousand times would be written a thousand times. */
struct written_node {
    uint32_t number; /* in the pickle's memo, or UNWRITTEN; the same of the next one */
    uint32_t addr;   /* the number of the address; valid in the first node with this address */
    uint32_t first;  /* which node that is */
};

struct writing {
    struct pickle_writer pickle;
    const struct torch_state *state;
    struct written_node *nodes; /* one for each of the state */
    size_t addr_bytes;          /* of all addresses that differ */
    struct torch_numbers numbers;
    struct torch_mark *marks; /* of a front; NULL: of none */
};

static void write_opcode(struct writing *w, enum pickle_op code)
{
    pickle_op(&w->pickle, code);
}

/* Returns the number of the object that the opcode makes. */
static uint32_t write_numbered(struct writing *w, enum pickle_op code)
{
    pickle_op(&w->pickle, code);
    return pickle_number(&w->pickle);
}

/* A string that is written once; later places refer to it. */
static void put_shared(struct writing *w, uint32_t *number, struct slice text)
{
    if (*number != UNWRITTEN)
        pickle_reference(&w->pickle, *number);
    else
        *number = pickle_put_string(&w->pickle, text);
}

static void put_attribute(struct writing *w, enum torch_name name, const char *text)
{
    put_shared(w, &w->numbers.names[name], slice_str(text));
}

static void put_class(struct writing *w, enum torch_class which)
{
    bool ours = which == TORCH_STATE_CLASS || which == TORCH_NODE_CLASS;

    if (w->numbers.classes[which] != UNWRITTEN) {
        pickle_reference(&w->pickle, w->numbers.classes[which]);
        return;
    }
    put_attribute(w, ours ? TORCH_NAME_RENDEZVOUS : TORCH_NAME_DATETIME,
                  torch_classes[which].module);
    pickle_put_string(&w->pickle, slice_str(torch_classes[which].name));
    w->numbers.classes[which] = write_numbered(w, PICKLE_STACK_GLOBAL);
}

/* An object without its attributes; returns its number. */
static uint32_t begin_written_object(struct writing *w, enum torch_class which)
{
    uint32_t number;

    put_class(w, which);
    pickle_put_op(&w->pickle, PICKLE_EMPTY_TUPLE);
    number = write_numbered(w, PICKLE_NEWOBJ);
    pickle_put_op(&w->pickle, PICKLE_EMPTY_DICT);
    pickle_number(&w->pickle);
    write_opcode(w, PICKLE_MARK);
    return number;
}

static void end_written_object(struct writing *w)
{
    write_opcode(w, PICKLE_SETITEMS);
    write_opcode(w, PICKLE_BUILD);
}

/* timezone.utc. */
static void put_utc(struct writing *w)
{
    if (w->numbers.utc != UNWRITTEN) {
        pickle_reference(&w->pickle, w->numbers.utc);
        return;
    }
    put_class(w, TORCH_TIMEZONE_CLASS);
    put_class(w, TORCH_TIMEDELTA_CLASS);
    for (int i = 0; i < 3; i++)
        pickle_put_int(&w->pickle, 0);
    write_numbered(w, PICKLE_TUPLE3);
    write_numbered(w, PICKLE_REDUCE);
    write_numbered(w, PICKLE_TUPLE1);
    w->numbers.utc = write_numbered(w, PICKLE_REDUCE);
}

static void put_datetime(struct writing *w, int64_t us)
{
    uint8_t bytes[1 + TORCH_TIME_SIZE] = {TORCH_TIME_SIZE};

    torch_time_write(us, bytes + 1);
    put_class(w, TORCH_DATETIME_CLASS);
    pickle_put_op(&w->pickle, PICKLE_SHORT_BINBYTES);
    writer_put(&w->pickle.out, bytes, sizeof bytes);
    pickle_number(&w->pickle);
    if (w->state->aware)
        put_utc(w);
    write_numbered(w, w->state->aware ? PICKLE_TUPLE2 : PICKLE_TUPLE1);
    write_numbered(w, PICKLE_REDUCE);
}

static void put_node(struct writing *w, size_t i)
{
    const struct torch_node *node = &w->state->nodes[i];
    uint32_t *number = &w->nodes[i].number;

    if (*number != UNWRITTEN) {
        pickle_reference(&w->pickle, *number);
        return;
    }
    *number = begin_written_object(w, TORCH_NODE_CLASS);
    put_attribute(w, TORCH_NAME_ADDR, w->state->fqdn ? "fqdn" : "addr");
    put_shared(w, &w->nodes[w->nodes[i].first].addr, node->addr);
    put_attribute(w, TORCH_NAME_PID, "pid");
    pickle_put_int(&w->pickle, node->pid);
    put_attribute(w, TORCH_NAME_LOCAL_ID, "local_id");
    pickle_put_int(&w->pickle, node->local_id);
    end_written_object(w);
}

/* --- Lists of nodes. --- */

static bool is_in_list(const struct torch_node *node, enum torch_list list)
{
    return *(const bool *)((const char *)node + torch_list_flags[list]);
}

static void put_item(struct writing *w, enum torch_list list, size_t i)
{
    const struct torch_node *node = &w->state->nodes[i];

    put_node(w, i);
    if (list == TORCH_PARTICIPANTS)
        pickle_put_int(&w->pickle, node->rank);
    else if (list == TORCH_LAST_HEARTBEATS)
        put_datetime(w, node->heartbeat_us);
}

static void note_mark(struct writing *w, size_t i)
{
    if (w->marks != NULL)
        w->marks[i] = (struct torch_mark){(uint32_t)w->pickle.out.len, (uint32_t)w->pickle.frame,
                                          w->pickle.memoed};
}

/* Writes a list in batches, as CPython does: behind each full batch follows another batch, which
 * may be empty. The first one is open, and has so many items. */
static void put_batches(struct writing *w, enum torch_list list, enum pickle_op end,
                        size_t in_batch)
{
    for (size_t i = 0; i < w->state->count; i++) {
        if (!is_in_list(&w->state->nodes[i], list))
            continue;
        note_mark(w, i);
        put_item(w, list, i);
        if (++in_batch == BATCH) {
            write_opcode(w, end);
            write_opcode(w, PICKLE_MARK);
            in_batch = 0;
        }
    }
    note_mark(w, w->state->count);
    write_opcode(w, end);
}

/* dict.fromkeys(range(count)). */
static void put_counted(struct writing *w, size_t count)
{
    uint32_t builtins = pickle_put_string(&w->pickle, slice_str("builtins"));

    pickle_put_string(&w->pickle, slice_str("dict.fromkeys"));
    write_opcode(w, PICKLE_STACK_GLOBAL);
    pickle_reference(&w->pickle, builtins);
    pickle_put_string(&w->pickle, slice_str("range"));
    write_opcode(w, PICKLE_STACK_GLOBAL);
    pickle_put_int(&w->pickle, (int64_t)count);
    for (int i = 0; i < 2; i++) {
        write_opcode(w, PICKLE_TUPLE1);
        write_opcode(w, PICKLE_REDUCE);
    }
}

static void put_list(struct writing *w, enum torch_list list)
{
    static const char *const names[TORCH_LISTS] = {"participants", "wait_list", "redundancy_list",
                                                   "last_heartbeats"};
    const struct torch_state *s = w->state;
    bool dict = list == TORCH_PARTICIPANTS || list == TORCH_LAST_HEARTBEATS;
    size_t count = 0, last = 0;
    bool counts;

    for (size_t i = 0; i < s->count; i++) {
        if (is_in_list(&s->nodes[i], list)) {
            count++;
            last = i;
        }
    }
    pickle_put_string(&w->pickle, slice_str(names[list]));
    counts = list == TORCH_PARTICIPANTS && s->unnamed != 0;
    if (counts) {
        put_counted(w, s->unnamed);
    } else {
        pickle_put_op(&w->pickle, dict ? PICKLE_EMPTY_DICT : PICKLE_EMPTY_SET);
        pickle_number(&w->pickle);
    }
    if (dict && count == 1 && !counts) {
        put_item(w, list, last);
        write_opcode(w, PICKLE_SETITEM);
    } else if (count > 0) {
        write_opcode(w, PICKLE_MARK);
        put_batches(w, list, dict ? PICKLE_SETITEMS : PICKLE_ADDITEMS, 0);
    }
}

/* --- The whole. --- */

/* In the order of nodes those that share an address are neighbours. False: no memory. */
static bool find_addresses(struct writing *w)
{
    const struct torch_node *nodes = w->state->nodes;
    uint32_t first = 0;

    w->nodes = malloc(w->state->count * sizeof *w->nodes + 1);
    for (size_t i = 0; w->nodes != NULL && i < w->state->count; i++) {
        if (i == 0 || !slice_equal(nodes[i].addr, nodes[first].addr)) {
            first = (uint32_t)i;
            w->addr_bytes += nodes[i].addr.len;
        }
        w->nodes[i] = (struct written_node){UNWRITTEN, UNWRITTEN, first};
    }
    return w->nodes != NULL;
}

static void put_bool(struct writing *w, const char *name, bool value)
{
    pickle_put_string(&w->pickle, slice_str(name));
    pickle_put_op(&w->pickle, value ? PICKLE_NEWTRUE : PICKLE_NEWFALSE);
}

/* All that stands behind the participants. */
static void put_rest(struct writing *w)
{
    put_list(w, TORCH_WAIT_LIST);
    if (w->state->has_redundancy)
        put_list(w, TORCH_REDUNDANCY_LIST);
    put_list(w, TORCH_LAST_HEARTBEATS);
    end_written_object(w);
    pickle_stop(&w->pickle);
}

static void put_state_object(struct writing *w)
{
    const struct torch_state *s = w->state;

    pickle_start(&w->pickle, s->protocol);
    begin_written_object(w, TORCH_STATE_CLASS);
    pickle_put_string(&w->pickle, slice_str("round"));
    pickle_put_int(&w->pickle, s->round);
    put_bool(w, "complete", s->complete);
    pickle_put_string(&w->pickle, slice_str("deadline"));
    if (s->has_deadline)
        put_datetime(w, s->deadline_us);
    else
        pickle_put_op(&w->pickle, PICKLE_NONE);
    put_bool(w, "closed", s->closed);
    put_list(w, TORCH_PARTICIPANTS);
    put_rest(w);
}

/* An upper bound of the pickle's size: 600 bytes for all names, a deadline and the lists; for each
 * address its bytes; for a node 57 more bytes if its numbers are long, 15 for three references to
 * it, 10 for its rank and 28 for a time; and the bytes that open and close batches and frames. */
static size_t size_limit(const struct writing *w)
{
    size_t size = 1024 + w->state->count * 112 + w->addr_bytes;

    return size + size / 1024;
}

/* Room for a pickle that begins with `front` bytes. False: no memory. */
static bool begin_writing(struct writing *w, size_t front)
{
    struct writer *out = &w->pickle.out;

    if (!find_addresses(w))
        return false;
    out->cap = front + size_limit(w);
    out->ptr = malloc(out->cap);
    memset(&w->numbers, 0xff, sizeof w->numbers);
    return out->ptr != NULL;
}

static void end_writing(struct writing *w)
{
    assert(w->pickle.out.len <= w->pickle.out.cap);
    free(w->pickle.out.ptr);
    free(w->nodes);
}

bool torch_state_write(const struct torch_state *s, uint8_t **text, size_t *len)
{
    struct writing w = {.state = s};
    const struct writer *out = &w.pickle.out;

    *text = NULL;
    if (begin_writing(&w, 0)) {
        put_state_object(&w);
        *len = base64_size(out->len);
        *text = malloc(*len);
        if (*text != NULL)
            base64_encode((struct slice){out->ptr, out->len}, *text);
    }
    end_writing(&w);
    return *text != NULL;
}

/* --- Fronts. --- */

/* All in one piece: the marks, the pickle and its text follow the front. */
static struct torch_front *make_front(const struct writing *w, size_t count)
{
    struct slice pickle = {w->pickle.out.ptr, w->pickle.out.len};
    size_t marks = (count + 1) * sizeof *w->marks;
    struct torch_front *f =
        torch_memory.alloc(sizeof *f + marks + pickle.len + base64_size(pickle.len));
    uint8_t *at;

    if (f == NULL)
        return NULL;
    at = (uint8_t *)(f + 1);
    *f = (struct torch_front){.like = *w->state, .count = count, .numbers = w->numbers};
    f->like.nodes = NULL;
    f->like.count = 0;
    f->like.memory = NULL;
    f->marks = memcpy(at, w->marks, marks);
    f->pickle = (struct slice){memcpy(at + marks, pickle.ptr, pickle.len), pickle.len};
    base64_encode(pickle, at + marks + pickle.len);
    f->text = at + marks + pickle.len;
    return f;
}

struct torch_front *torch_front_new(const struct torch_state *like, struct slice addr, size_t count)
{
    struct torch_state s = *like;
    struct writing w = {.state = &s};
    struct torch_front *f = NULL;

    s.nodes = malloc(count * sizeof *s.nodes);
    s.count = count;
    w.marks = malloc((count + 1) * sizeof *w.marks);
    for (size_t i = 0; s.nodes != NULL && i < count; i++)
        s.nodes[i] = (struct torch_node){.addr = addr, .pid = (int64_t)i, .participant = true};
    if (s.nodes != NULL && w.marks != NULL && begin_writing(&w, 0)) {
        put_state_object(&w);
        f = make_front(&w, count);
    }
    end_writing(&w);
    free(w.marks);
    free(s.nodes);
    if (f == NULL || torch_front_learn(f))
        return f;
    torch_front_free(f);
    return NULL;
}

void torch_front_free(struct torch_front *f)
{
    torch_memory.free(f);
}

bool torch_front_fits(const struct torch_front *f, const struct torch_state *like, size_t count)
{
    return f != NULL && f->count >= count && f->like.round == like->round &&
           f->like.complete == like->complete && f->like.closed == like->closed &&
           f->like.has_deadline == like->has_deadline &&
           (!like->has_deadline || f->like.deadline_us == like->deadline_us) &&
           f->like.fqdn == like->fqdn && f->like.aware == like->aware &&
           f->like.has_redundancy == like->has_redundancy && f->like.protocol == like->protocol;
}

struct torch_seam torch_front_seam(const struct torch_front *f, size_t count)
{
    const struct torch_mark *m = &f->marks[count];
    struct torch_seam seam = {.cut = m->len / 3 * 3};

    seam.header = (m->frame - PICKLE_FRAME_HEADER) / 3 * 3;
    seam.header_end = (m->frame + 2) / 3 * 3;
    if (seam.header_end > seam.cut)
        seam.header_end = seam.cut;
    return seam;
}

/* Writes the pickle from the open frame on. The front has the text of all earlier frames. */
bool torch_front_write(const struct torch_front *f, size_t count, const struct torch_state *s,
                       uint8_t **text, size_t *len)
{
    const struct torch_mark *m = &f->marks[count];
    struct torch_seam seam = torch_front_seam(f, count);
    struct writing w = {.state = s};
    struct writer *out = &w.pickle.out;

    *text = NULL;
    if (begin_writing(&w, m->len - seam.header)) {
        writer_put(out, f->pickle.ptr + seam.header, m->len - seam.header);
        w.pickle.frame = m->frame - seam.header;
        w.pickle.memoed = m->memoed;
        w.numbers = f->numbers;
        put_batches(&w, TORCH_PARTICIPANTS, PICKLE_SETITEMS, count % BATCH);
        put_rest(&w);
        *len = base64_size(seam.header + out->len);
        *text = malloc(*len);
    }
    if (*text != NULL) {
        memcpy(*text, f->text, seam.cut / 3 * 4);
        base64_encode((struct slice){out->ptr, seam.header_end - seam.header},
                      *text + seam.header / 3 * 4);
        base64_encode(slice_from((struct slice){out->ptr, out->len}, seam.cut - seam.header),
                      *text + seam.cut / 3 * 4);
    }
    end_writing(&w);
    return *text != NULL;
}
