/* How far a watch has come. See http_trace.h for the contract. */
#include "rdzv/relay/http_trace.h"

#include "store/disk/crc32c.h"

static const char name[] = "\"modifiedIndex\":";

enum { READING_NOT, READING_NUMBER, READING_DONE };

uint64_t watch_trace_next(const struct watch_trace *t)
{
    if (t->last != 0)
        return t->last + 1;
    return t->asked != 0 ? t->asked : t->from + 1;
}

static void begin_event(struct watch_trace *t)
{
    t->current = t->partial = 0;
    t->sum = 0;
    t->matched = 0;
    t->reading = READING_NOT;
}

void watch_trace_restart(struct watch_trace *t)
{
    if (t->skip == 0 || t->partial > t->skip) {
        t->skip = t->partial;
        t->skip_sum = t->sum;
    }
    begin_event(t);
}

/* The name has one quote at its start and one near its end: what does not go on may begin. */
static void look_for_name(struct watch_trace *t, uint8_t c)
{
    if (c == (uint8_t)name[t->matched])
        t->matched++;
    else
        t->matched = c == (uint8_t)name[0];
    if (t->matched == sizeof name - 1)
        t->reading = READING_NUMBER;
}

static void read_number(struct watch_trace *t, uint8_t c)
{
    if (c >= '0' && c <= '9')
        t->current = t->current * 10 + (uint64_t)(c - '0');
    else
        t->reading = READING_DONE;
}

static void read_index(struct watch_trace *t, struct slice s)
{
    for (size_t i = 0; i < s.len && t->reading != READING_DONE; i++) {
        if (t->reading == READING_NUMBER)
            read_number(t, s.ptr[i]);
        else
            look_for_name(t, s.ptr[i]);
    }
}

/* Sums up what passes. False: what the client has is not how this event begins. */
static bool pass(struct watch_trace *t, struct slice s, struct slice *out)
{
    uint64_t left = t->skip > t->partial ? t->skip - t->partial : 0;
    size_t known = left < s.len ? (size_t)left : s.len;

    t->sum = crc32c(t->sum, s.ptr, known);
    t->partial += known;
    if (known > 0 && t->partial == t->skip && t->sum != t->skip_sum)
        return false;
    *out = slice_from(s, known);
    t->sum = crc32c(t->sum, out->ptr, out->len);
    t->partial += out->len;
    return true;
}

bool watch_trace_take(struct watch_trace *t, struct slice *in, struct slice *out, bool *whole)
{
    const uint8_t *end = memchr(in->ptr, '\n', in->len);
    struct slice piece = {in->ptr, end == NULL ? in->len : (size_t)(end - in->ptr) + 1};

    *in = slice_from(*in, piece.len);
    *whole = end != NULL;
    read_index(t, piece);
    if (!pass(t, piece, out))
        return false;
    if (!*whole)
        return true;
    if (t->partial < t->skip || t->current == 0)
        return false;
    if (t->current > t->last) /* a stream on a node that was removed is told of it twice */
        t->last = t->current;
    t->skip = 0;
    begin_event(t);
    return true;
}
