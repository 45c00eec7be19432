/* Commands as bytes: the protobuf of proto/command.proto, which a journal keeps and a replica
 * replays. Pure; framing and checksums are the journal's. */
#pragma once

#include "store/command.h"

/* The encoded command, in memory of malloc() that the caller frees; false when memory is short. */
bool record_encode(const char *space, const struct command *command, uint8_t **out, size_t *len);

/* A decoded command; its slices point into `memory` and end with record_free(). */
struct record {
    struct slice space;
    struct command command;
    void *memory;
    struct slice *lists;
};

/* False when the bytes are no command, or memory is short; *out is then untouched. */
bool record_decode(struct slice in, struct record *out);
void record_free(struct record *r);
