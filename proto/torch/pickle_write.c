/* Opcodes of a pickle, written. See pickle_write.h.
 *
 * Upstream: CPython 3.14, Modules/_pickle.c: save_long, memo_put, memo_get, _Pickler_Write,
 * _Pickler_OpcodeBoundary. */
#include "proto/torch/pickle_write.h"

#define FRAME_HEADER 9
#define FRAME_LEAST  4

/* A frame that would be shorter than four bytes, which only the last one can be, has no header. */
void pickle_end_frame(struct pickle_writer *w)
{
    size_t len = w->out.len - w->frame;
    bool fits = w->out.len <= w->out.cap;
    uint8_t *content = fits ? w->out.ptr + w->frame : NULL;

    if (len < FRAME_LEAST) {
        if (fits)
            memmove(content - FRAME_HEADER, content, len);
        w->out.len -= FRAME_HEADER;
    } else if (fits) {
        bytes_put_u64(content - 8, len);
    }
    w->frame = 0;
}

void pickle_start(struct pickle_writer *w, uint8_t protocol)
{
    writer_u8(&w->out, PICKLE_PROTO);
    writer_u8(&w->out, protocol);
}

void pickle_stop(struct pickle_writer *w)
{
    pickle_op(w, PICKLE_STOP); /* which begins a frame if none is open */
    pickle_end_frame(w);
}

void pickle_start_frame(struct pickle_writer *w)
{
    static const uint8_t header[FRAME_HEADER] = {PICKLE_FRAME};

    writer_put(&w->out, header, sizeof header);
    w->frame = w->out.len;
}

void pickle_argument(struct pickle_writer *w, const void *bytes, size_t len)
{
    writer_put(&w->out, bytes, len);
}

uint32_t pickle_number(struct pickle_writer *w)
{
    pickle_op(w, PICKLE_MEMOIZE);
    return w->memoed++;
}

/* An opcode and the `len` low bytes of v. */
static void put_number(struct pickle_writer *w, enum pickle_op op, uint64_t v, size_t len)
{
    uint8_t bytes[8];

    bytes_put_u64(bytes, v);
    pickle_op(w, op);
    pickle_argument(w, bytes, len);
}

void pickle_reference(struct pickle_writer *w, uint32_t number)
{
    pickle_next_object(w);
    if (number <= UINT8_MAX)
        put_number(w, PICKLE_BINGET, number, 1);
    else
        put_number(w, PICKLE_LONG_BINGET, number, 4);
}

void pickle_put_int(struct pickle_writer *w, int64_t v)
{
    uint8_t len = 5;

    pickle_next_object(w);
    if (v >= 0 && v <= UINT8_MAX) {
        put_number(w, PICKLE_BININT1, (uint64_t)v, 1);
    } else if (v >= 0 && v <= UINT16_MAX) {
        put_number(w, PICKLE_BININT2, (uint64_t)v, 2);
    } else if (v >= INT32_MIN && v <= INT32_MAX) {
        put_number(w, PICKLE_BININT, (uint64_t)v, 4);
    } else {
        while (len < 8 && (v < -(INT64_C(1) << (8 * len - 1)) || v >= INT64_C(1) << (8 * len - 1)))
            len++;
        pickle_op(w, PICKLE_LONG1);
        pickle_argument(w, &len, 1);
        for (uint8_t i = 0; i < len; i++)
            writer_u8(&w->out, (uint8_t)((uint64_t)v >> (8 * i)));
    }
}

uint32_t pickle_put_string(struct pickle_writer *w, struct slice s)
{
    pickle_next_object(w);
    if (s.len <= UINT8_MAX)
        put_number(w, PICKLE_SHORT_BINUNICODE, s.len, 1);
    else
        put_number(w, PICKLE_BINUNICODE, s.len, 4);
    pickle_argument(w, s.ptr, s.len);
    return pickle_number(w);
}
