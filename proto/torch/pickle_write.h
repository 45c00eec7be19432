/* Pickles as CPython's pickler writes them, byte for byte: the shortest opcodes, every string and
 * object numbered in the memo, frames of 64 KiB. What objects there are is the caller's to say. */
#pragma once

#include "proto/bytes.h"
#include "proto/torch/pickle_op.h"

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

/* To be called before each object, be it written or referred to: between two objects, and nowhere
 * else, a frame that has become long enough ends. */
static inline void pickle_next_object(struct pickle_writer *w)
{
    if (w->frame != 0 && w->out.len - w->frame >= PICKLE_FRAME_ENOUGH)
        pickle_end_frame(w);
}

static inline void pickle_op(struct pickle_writer *w, enum pickle_op op)
{
    if (w->frame == 0)
        pickle_start_frame(w);
    writer_u8(&w->out, (uint8_t)op);
}

/* What belongs to an opcode. */
void pickle_argument(struct pickle_writer *w, const void *bytes, size_t len);

/* The object that has been written last gets a number, which is returned. */
uint32_t pickle_number(struct pickle_writer *w);

/* --- Whole objects; pickle_next_object() is called for them. --- */

void pickle_reference(struct pickle_writer *w, uint32_t number);
void pickle_put_int(struct pickle_writer *w, int64_t v);

static inline void pickle_put_op(struct pickle_writer *w, enum pickle_op op)
{
    pickle_next_object(w);
    pickle_op(w, op);
}

/* Returns the string's number. */
uint32_t pickle_put_string(struct pickle_writer *w, struct slice s);
