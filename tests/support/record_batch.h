/* Unpacks all records of a batch into memory, for tests that read the records several times. */
#pragma once

#include <stdlib.h>

#include "store/disk/record.h"

struct record_batch {
    uint64_t number;
    int64_t time_ns;
    struct record *records;
    size_t count;
    uint8_t *bytes; /* the slices point into this */
};

static inline void record_free(struct record_batch *b)
{
    free(b->records);
    free(b->bytes);
    *b = (struct record_batch){0};
}

/* False: the bytes are no batch. */
static inline bool record_decode(struct slice in, struct record_batch *out)
{
    struct record_batch b = {.bytes = malloc(in.len + 1)};
    struct record_reader r;
    struct record record;

    if (in.len != 0)
        memcpy(b.bytes, in.ptr, in.len);
    record_reader_init(&r, (struct slice){b.bytes, in.len});
    while (record_next(&r, &record)) {
        b.records = realloc(b.records, (b.count + 1) * sizeof record);
        b.records[b.count++] = record;
    }
    b.number = r.number;
    b.time_ns = r.time_ns;
    if (r.failed)
        record_free(&b);
    *out = b;
    return !r.failed;
}
