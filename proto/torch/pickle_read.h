/* The opcodes of Python pickles of protocol 4 and 5, one by one, with frames and the memo; what
 * they mean is the caller's to say, who asks for what it expects. Nothing is ever executed or
 * imported. Only the spelling that CPython's own pickler writes is read: the shortest opcode for
 * each number, string and reference.
 *
 * Upstream: CPython 3.14, Modules/_pickle.c; the meaning of opcodes is in Lib/pickletools.py. */
#pragma once

#include "proto/bytes.h"
#include "proto/torch/pickle_op.h"

/* What a memoized object is, in the caller's words. Kind 0 is of what may not be referred to. */
struct pickle_ref {
    uint32_t kind;
    uint32_t value;
};

/* The one kind that this file knows: its value is where the string is in the input. */
#define PICKLE_STRING 1

/* Starts as {.in = bytes}, at most UINT32_MAX of them; ends with pickle_reader_fini(). Whoever gets
 * a false is done: what was asked for is not there, or there is no memory, which `no_memory` tells.
 * The memo takes at most 16 bytes for each MEMOIZE that has been passed. */
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

/* Goes on where a frame ends, or none has begun; false: there is nothing. For pickle_peek(). */
bool pickle_next_frame(struct pickle_reader *r);

/* Moves *at behind the frame that begins there, in a pickle of `len` bytes that has at least the
 * frame's `header` there. False: it is no frame, or a longer one than there is room for. */
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

/* Passes a reference to an object of that kind; false, and nothing is passed, when something else
 * is there. */
bool pickle_get(struct pickle_reader *r, uint32_t kind, uint32_t *value);
