/* Python pickles of protocol 4 and 5, opcode by opcode, with frames and the memo; the caller
 * decides about their meaning. Nothing is ever executed or imported.
 *
 * Upstream: CPython 3.14, Modules/_pickle.c; the meaning of opcodes is in Lib/pickletools.py. */
#pragma once

#include "proto/bytes.h"

/* The opcodes that are read and written, by the names that Lib/pickletools.py gives them. */
enum pickle_op {
    PICKLE_MARK = '(',
    PICKLE_STOP = '.',
    PICKLE_EMPTY_TUPLE = ')',
    PICKLE_BININT = 'J',
    PICKLE_BININT1 = 'K',
    PICKLE_BININT2 = 'M',
    PICKLE_NONE = 'N',
    PICKLE_REDUCE = 'R',
    PICKLE_BINUNICODE = 'X',
    PICKLE_EMPTY_DICT = '}',
    PICKLE_BUILD = 'b',
    PICKLE_BINGET = 'h',
    PICKLE_LONG_BINGET = 'j',
    PICKLE_SETITEM = 's',
    PICKLE_SETITEMS = 'u',
    PICKLE_SHORT_BINBYTES = 'C',
    PICKLE_PROTO = 0x80,
    PICKLE_NEWOBJ = 0x81,
    PICKLE_TUPLE1 = 0x85,
    PICKLE_TUPLE2 = 0x86,
    PICKLE_TUPLE3 = 0x87,
    PICKLE_NEWTRUE = 0x88,
    PICKLE_NEWFALSE = 0x89,
    PICKLE_LONG1 = 0x8a,
    PICKLE_SHORT_BINUNICODE = 0x8c,
    PICKLE_EMPTY_SET = 0x8f,
    PICKLE_ADDITEMS = 0x90,
    PICKLE_STACK_GLOBAL = 0x93,
    PICKLE_MEMOIZE = 0x94,
    PICKLE_FRAME = 0x95,
};

/* --- Reading. Only the spelling that CPython's own pickler writes is read: the shortest opcode for
 * each number, string and reference. --- */

/* The caller's kind of a memoized object; objects of kind 0 must not be referred to. */
struct pickle_ref {
    uint32_t kind;
    uint32_t value;
};

/* The one kind that this file knows: its value is where the string is in the input. */
#define PICKLE_STRING 1

/* Starts as {.in = bytes}, at most UINT32_MAX of them; ends with pickle_reader_fini(). After a
 * false, except of pickle_get(), the caller must stop reading: the pickle does not have the
 * expected opcode here, or, if `no_memory` is set, memory is short. The memo takes at most 16 bytes
 * per passed MEMOIZE. */
struct pickle_reader {
    struct slice in;
    size_t at;
    size_t end; /* of the frame that `at` is in */
    bool no_memory;
    struct pickle_ref *memo;
    size_t memo_count;
    size_t memo_cap;
};

void pickle_reader_fini(struct pickle_reader *r);

/* Passes the start of a pickle; *protocol is 4 or 5. */
bool pickle_begin(struct pickle_reader *r, uint8_t *protocol);

/* Enters the next frame at the end of a frame or at the start; false: the pickle ends here. For
 * pickle_peek(). */
bool pickle_next_frame(struct pickle_reader *r);

/* Moves *at behind the frame that begins there, in a pickle of `len` bytes that has at least the
 * frame's `header` there. False: the header is no frame's, or the frame is longer than the pickle.
 */
#define PICKLE_FRAME_HEADER 9
bool pickle_skip_frame(const uint8_t header[PICKLE_FRAME_HEADER], size_t len, size_t *at);

/* The next opcode, which stays; -1: there is none. */
static inline int pickle_peek(struct pickle_reader *r)
{
    if (r->at == r->end && !pickle_next_frame(r))
        return -1;
    return r->in.ptr[r->at];
}

/* Passes the next opcode if it is this one. */
static inline bool pickle_pass(struct pickle_reader *r, enum pickle_op op)
{
    if (pickle_peek(r) != (int)op)
        return false;
    r->at++;
    return true;
}

/* The `len` bytes of an opcode that has been passed. */
bool pickle_take(struct pickle_reader *r, size_t len, struct slice *out);

bool pickle_int(struct pickle_reader *r, int64_t *out);

bool pickle_bool(struct pickle_reader *r, bool *out);

/* A string of UTF-8, written here or referred to. The slice lies within the input. */
bool pickle_string(struct pickle_reader *r, struct slice *out);

/* Passes MEMOIZE, which gives the object before it the next number. */
bool pickle_memoize(struct pickle_reader *r, uint32_t kind, size_t value);

/* Passes a reference to an object of that kind. False: the next opcode is not such a reference, and
 * the reader stays in front of it. */
bool pickle_get(struct pickle_reader *r, uint32_t kind, uint32_t *value);

/* --- Writing, as CPython's pickler does it, byte for byte: the shortest opcodes, every string and
 * object numbered in the memo, frames of 64 KiB. --- */

/* Starts as {.out = {memory, size, 0}}. */
struct pickle_writer {
    struct writer out;
    size_t frame;    /* where the open frame's content starts; 0: none is open */
    uint32_t memoed; /* how many objects have a number */
};

/* The first bytes of a pickle, and the last. */
void pickle_start(struct pickle_writer *w, uint8_t protocol);
void pickle_stop(struct pickle_writer *w);

/* Private. */
#define PICKLE_FRAME_ENOUGH 65536
void pickle_start_frame(struct pickle_writer *w);
void pickle_end_frame(struct pickle_writer *w);

/* What belongs to the opcode goes to w->out behind it. */
static inline void pickle_op(struct pickle_writer *w, enum pickle_op op)
{
    if (w->frame == 0)
        pickle_start_frame(w);
    writer_u8(&w->out, (uint8_t)op);
}

/* The object that has been written last gets a number, which is returned. */
uint32_t pickle_number(struct pickle_writer *w);

/* --- Whole objects, and references to them. CPython ends a frame that is long enough only between
 * two of these. --- */

void pickle_reference(struct pickle_writer *w, uint32_t number);
void pickle_put_int(struct pickle_writer *w, int64_t v);

static inline void pickle_put_op(struct pickle_writer *w, enum pickle_op op)
{
    if (w->frame != 0 && w->out.len - w->frame >= PICKLE_FRAME_ENOUGH)
        pickle_end_frame(w);
    pickle_op(w, op);
}

/* Returns the string's number. */
uint32_t pickle_put_string(struct pickle_writer *w, struct slice s);
