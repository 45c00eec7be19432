/* Opcodes of a pickle, read and written. See pickle.h for the contract. */
#include "proto/torch/pickle.h"

#include <stdlib.h>

#include "proto/utf8.h"

void pickle_reader_fini(struct pickle_reader *r)
{
    free(r->memo);
    *r = (struct pickle_reader){0};
}

bool pickle_begin(struct pickle_reader *r, uint8_t *protocol)
{
    if (r->in.len < 2 || r->in.ptr[0] != PICKLE_PROTO || r->in.ptr[1] < 4 || r->in.ptr[1] > 5)
        return false;
    *protocol = r->in.ptr[1];
    r->at = r->end = 2;
    return true;
}

bool pickle_skip_frame(const uint8_t header[PICKLE_FRAME_HEADER], size_t len, size_t *at)
{
    size_t left = len - *at - PICKLE_FRAME_HEADER;
    uint64_t size = bytes_get_u64(header + 1);

    if (header[0] != PICKLE_FRAME || size < 4 || size > left)
        return false;
    *at += PICKLE_FRAME_HEADER + (size_t)size;
    return true;
}

/* CPython cuts all its output into frames, between opcodes; a last one of less than four bytes gets
 * no header. */
bool pickle_next_frame(struct pickle_reader *r)
{
    size_t left = r->in.len - r->at, end = r->at;

    if (left < 4) {
        r->end = r->in.len;
        return left > 0;
    }
    if (left <= PICKLE_FRAME_HEADER || !pickle_skip_frame(r->in.ptr + r->at, r->in.len, &end))
        return false;
    r->at += PICKLE_FRAME_HEADER;
    r->end = end;
    return true;
}

bool pickle_take(struct pickle_reader *r, size_t len, struct slice *out)
{
    if (len > r->end - r->at)
        return false;
    *out = (struct slice){r->in.ptr + r->at, len};
    r->at += len;
    return true;
}

/* `len` bytes as an unsigned number; len is at most 8. */
static bool take_unsigned(struct pickle_reader *r, size_t len, uint64_t *out)
{
    struct slice bytes;
    uint64_t v = 0;

    if (!pickle_take(r, len, &bytes))
        return false;
    for (size_t i = len; i-- > 0;)
        v = v << 8 | bytes.ptr[i];
    *out = v;
    return true;
}

#define PICKLE_INT_MAX 10

/* Writes an integer in the fewest bytes at *p, PICKLE_INT_MAX at most, and returns its end. */
static uint8_t *encode_int(uint8_t *p, int64_t v)
{
    uint8_t len = 5;

    if (v >= 0 && v <= UINT8_MAX) {
        p[0] = PICKLE_BININT1;
        p[1] = (uint8_t)v;
        return p + 2;
    }
    if (v >= 0 && v <= UINT16_MAX) {
        p[0] = PICKLE_BININT2;
        p[1] = (uint8_t)v;
        p[2] = (uint8_t)(v >> 8);
        return p + 3;
    }
    if (v >= INT32_MIN && v <= INT32_MAX) {
        p[0] = PICKLE_BININT;
        bytes_put_u32(p + 1, (uint32_t)v);
        return p + 5;
    }
    while (len < 8 && (v < -(INT64_C(1) << (8 * len - 1)) || v >= INT64_C(1) << (8 * len - 1)))
        len++;
    p[0] = PICKLE_LONG1;
    p[1] = len;
    bytes_put_u64(p + 2, (uint64_t)v);
    return p + 2 + len;
}

/* `len` bytes of two's complement. */
static bool take_signed(struct pickle_reader *r, size_t len, uint64_t *out)
{
    uint64_t sign = UINT64_C(1) << (8 * len - 1);

    if (!take_unsigned(r, len, out))
        return false;
    *out = (*out ^ sign) - sign;
    return true;
}

/* Reads any spelling of a number, and refuses all except the one that is written. */
bool pickle_int(struct pickle_reader *r, int64_t *out)
{
    uint8_t shortest[PICKLE_INT_MAX];
    int op = pickle_peek(r);
    size_t start = r->at++;
    uint64_t v, len;

    if (!(op == PICKLE_BININT1   ? take_unsigned(r, 1, &v)
          : op == PICKLE_BININT2 ? take_unsigned(r, 2, &v)
          : op == PICKLE_BININT  ? take_signed(r, 4, &v)
                                 : op == PICKLE_LONG1 && take_unsigned(r, 1, &len) && len - 1 < 8 &&
                                      take_signed(r, len, &v)))
        return false;
    *out = (int64_t)v;
    len = (size_t)(encode_int(shortest, *out) - shortest);
    return len == r->at - start && shortest[0] == op;
}

bool pickle_bool(struct pickle_reader *r, bool *out)
{
    int op = pickle_peek(r);

    if (op != PICKLE_NEWTRUE && op != PICKLE_NEWFALSE)
        return false;
    r->at++;
    *out = op == PICKLE_NEWTRUE;
    return true;
}

/* The length and the bytes of a string whose opcode has been passed. */
static bool take_string(struct pickle_reader *r, int op, struct slice *out)
{
    uint64_t len;

    if (!take_unsigned(r, op == PICKLE_BINUNICODE ? 4 : 1, &len))
        return false;
    if (op == PICKLE_BINUNICODE && len <= UINT8_MAX)
        return false;
    return pickle_take(r, (size_t)len, out);
}

/* The string at a place where one has been read before. */
static struct slice string_at(const struct pickle_reader *r, size_t at)
{
    const uint8_t *p = r->in.ptr + at;

    if (p[0] == PICKLE_SHORT_BINUNICODE)
        return (struct slice){p + 2, p[1]};
    return (struct slice){p + 5, bytes_get_u32(p + 1)};
}

bool pickle_string(struct pickle_reader *r, struct slice *out)
{
    uint32_t place;
    int op;

    if (pickle_get(r, PICKLE_STRING, &place)) {
        *out = string_at(r, place);
        return true;
    }
    op = pickle_peek(r);
    if (op != PICKLE_SHORT_BINUNICODE && op != PICKLE_BINUNICODE)
        return false;
    place = (uint32_t)r->at++;
    return take_string(r, op, out) && utf8_is_text(*out) && pickle_memoize(r, PICKLE_STRING, place);
}

static bool make_memo_room(struct pickle_reader *r)
{
    size_t cap = r->memo_cap == 0 ? 64 : r->memo_cap * 2;
    struct pickle_ref *memo = reallocarray(r->memo, cap, sizeof *memo);

    if (memo == NULL) {
        r->no_memory = true;
        return false;
    }
    r->memo = memo;
    r->memo_cap = cap;
    return true;
}

bool pickle_memoize(struct pickle_reader *r, uint32_t kind, size_t value)
{
    if (!pickle_pass(r, PICKLE_MEMOIZE) || (r->memo_count == r->memo_cap && !make_memo_room(r)))
        return false;
    r->memo[r->memo_count++] = (struct pickle_ref){kind, (uint32_t)value};
    return true;
}

bool pickle_get(struct pickle_reader *r, uint32_t kind, uint32_t *value)
{
    int op = pickle_peek(r);
    size_t len = op == PICKLE_BINGET ? 1 : 4;
    const uint8_t *p = r->in.ptr + r->at + 1;
    uint32_t i;

    if ((op != PICKLE_BINGET && op != PICKLE_LONG_BINGET) || r->end - r->at < len + 1)
        return false;
    i = len == 1 ? p[0] : bytes_get_u32(p);
    if (i >= r->memo_count || r->memo[i].kind != kind || (len == 4 && i <= UINT8_MAX))
        return false;
    r->at += len + 1;
    *value = r->memo[i].value;
    return true;
}

/* --- Writing: save_long, memo_put, memo_get, _Pickler_Write and _Pickler_OpcodeBoundary of
 * CPython.
 * --- */

#define FRAME_LEAST 4

/* A frame that would be shorter than four bytes, which only the last one can be, has no header. */
void pickle_end_frame(struct pickle_writer *w)
{
    size_t len = w->out.len - w->frame;
    bool fits = w->out.len <= w->out.cap;
    uint8_t *content = fits ? w->out.ptr + w->frame : NULL;

    if (len < FRAME_LEAST) {
        if (fits)
            memmove(content - PICKLE_FRAME_HEADER, content, len);
        w->out.len -= PICKLE_FRAME_HEADER;
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
    static const uint8_t header[PICKLE_FRAME_HEADER] = {PICKLE_FRAME};

    writer_put(&w->out, header, sizeof header);
    w->frame = w->out.len;
}

uint32_t pickle_number(struct pickle_writer *w)
{
    pickle_op(w, PICKLE_MEMOIZE);
    return w->memoed++;
}

/* Bytes that begin with an opcode, as one object. */
static void put_object(struct pickle_writer *w, const uint8_t *bytes, const uint8_t *end)
{
    pickle_put_op(w, bytes[0]);
    writer_put(&w->out, bytes + 1, (size_t)(end - bytes - 1));
}

/* A number of one byte behind the opcode for such numbers, or of four bytes behind the other. */
static void put_number(struct pickle_writer *w, enum pickle_op of_byte, enum pickle_op of_four,
                       uint32_t v)
{
    uint8_t bytes[5] = {(uint8_t)(v <= UINT8_MAX ? of_byte : of_four)};

    bytes_put_u32(bytes + 1, v);
    put_object(w, bytes, bytes + (v <= UINT8_MAX ? 2 : 5));
}

void pickle_reference(struct pickle_writer *w, uint32_t number)
{
    put_number(w, PICKLE_BINGET, PICKLE_LONG_BINGET, number);
}

void pickle_put_int(struct pickle_writer *w, int64_t v)
{
    uint8_t bytes[PICKLE_INT_MAX];

    put_object(w, bytes, encode_int(bytes, v));
}

uint32_t pickle_put_string(struct pickle_writer *w, struct slice s)
{
    put_number(w, PICKLE_SHORT_BINUNICODE, PICKLE_BINUNICODE, (uint32_t)s.len);
    writer_slice(&w->out, s);
    return pickle_number(w);
}
