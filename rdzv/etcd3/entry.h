/* What the journal writes into etcd's keys, as bytes. Pure but for memory.
 *
 * Batches are a stream: each as its length (32 bits, little-endian) and its bytes. An entry of the
 * log carries a piece of that stream, and a batch may continue in the next entry; a snapshot's
 * chunks are pieces of a stream of their own. Each entry's checksum continues that of the entry
 * before, so a log with a missing entry, or one put together from two logs, is noticed.
 *
 *     PREFIX leader                 who leads: host, pid, nonce; attached to its lease
 *     PREFIX head                   index and epoch of the last entry: "%016x %016x"
 *     PREFIX log/%016x              an entry
 *     PREFIX snapshot               struct snapshot_pointer, as text
 *     PREFIX snap/ID/%08x           a chunk of the snapshot that the pointer names */
#pragma once

#include "proto/bytes.h"

/* --- Entries. --- */

#define ENTRY_HEADER 16u

/* A build reads entries and snapshots of these versions, and writes the newest. A change of what an
 * entry, or a record in it, means is a version more. A replica of the release before cannot read
 * such an entry, so it cannot lead from then on; a replica that leads has read the whole log, so
 * nothing is lost. */
#ifndef ENTRY_VERSION_MAX
#define ENTRY_VERSION_MAX 4u
#endif
#define ENTRY_VERSION_MIN 4u

struct log_entry {
    uint8_t version;
    uint64_t epoch; /* the leader key's create revision, under which it was written */
    uint32_t chain;
    bool begins; /* the first one of its epoch: a batch that has not ended before never will */
    struct slice bytes;
};

/* The checksum of an entry behind one with that checksum; of the first one that is 0. */
uint32_t entry_chain(uint32_t before, const struct log_entry *e);
void entry_encode(const struct log_entry *e, uint8_t header[ENTRY_HEADER]);

/* Whether a value of the log is an entry of this build, no entry, or an entry of a newer one. */
enum log_fault { LOG_IS_FINE, LOG_IS_NONE, LOG_IS_NEWER };
enum log_fault entry_decode(struct slice value, struct log_entry *out);

/* --- Head and snapshot. --- */

struct log_head {
    uint64_t index; /* 0: no entry was ever written */
    uint64_t epoch;
};

#define HEAD_TEXT 34
void head_encode(const struct log_head *h, char text[HEAD_TEXT]);
bool head_decode(struct slice value, struct log_head *out);

#define SNAPSHOT_ID 24

struct snapshot_pointer {
    uint8_t version;    /* of the entries that the snapshot stands for */
    struct log_head at; /* the last entry that it has */
    uint32_t chain;     /* that entry's */
    uint64_t batch;     /* the number of the last batch in it */
    char id[SNAPSHOT_ID + 1];
    uint32_t chunks;
    uint32_t checksum; /* of all bytes of its chunks */
    uint64_t bytes;
};

#define POINTER_TEXT 128
void pointer_encode(const struct snapshot_pointer *p, char text[POINTER_TEXT]);
enum log_fault pointer_decode(struct slice value, struct snapshot_pointer *out);

/* --- Streams. --- */

#define STREAM_LENGTH 4u

/* Pieces that come in, or go out. All zeros: it is empty. */
struct stream {
    uint8_t *bytes;
    size_t from, len, cap; /* the content: `len` bytes from `from` on */
};

/* Appends a piece. False if memory is short; then the stream is unchanged. */
bool stream_put(struct stream *s, struct slice piece);

/* The next whole batch, until the next stream_put(); false: it has not ended yet. */
bool stream_next(struct stream *s, struct slice *batch);

static inline struct slice stream_bytes(const struct stream *s)
{
    return (struct slice){s->len == 0 ? NULL : s->bytes + s->from, s->len};
}

/* Drops the first `len` bytes, whose batches are applied. */
void stream_drop(struct stream *s, size_t len);
void stream_fini(struct stream *s);
