/* torch's c10d TCPStore requests, from bytes to structs. Knows the layouts and numbers of each
 * version and the limits on lengths; what a request means is the store's and the session's matter.
 *
 * Upstream: torch/csrc/distributed/c10d/TCPStore.cpp, TCPStoreBackend.cpp, TCPStoreLibUvBackend.cpp
 * (1.9 to 2.14). Numbers are little-endian, a blob is a u64 length and its bytes, a list is a u64
 * count and its blobs; there is no framing beyond that. */
#pragma once

#include "proto/bytes.h"

enum c10d_version {
    C10D_LEGACY, /* 1.9 to 2.0: no opening, opcodes of its own */
    C10D_MODERN, /* 2.2 on: opens with VALIDATE */
};

/* One numbering for all versions: the opcodes of the modern one, and the legacy WATCH_KEY behind
 * them. */
enum c10d_op {
    C10D_VALIDATE,
    C10D_SET,
    C10D_COMPARE_SET,
    C10D_GET,
    C10D_ADD,
    C10D_CHECK,
    C10D_WAIT,
    C10D_GETNUMKEYS,
    C10D_DELETE_KEY,
    C10D_APPEND,
    C10D_MULTI_GET,
    C10D_MULTI_SET,
    C10D_CANCEL_WAIT,
    C10D_PING,
    C10D_QUEUE_PUSH,
    C10D_QUEUE_POP,
    C10D_QUEUE_LEN,
    C10D_LIST_KEYS,
    C10D_BARRIER,
    C10D_WATCH_KEY,
    C10D_OP_COUNT,
};
_Static_assert(C10D_SET == 1 && C10D_PING == 13 && C10D_BARRIER == 18, "as on the wire");

/* What stands behind the opcode, in this order. */
enum c10d_part {
    C10D_HAS_KEY = 1,
    C10D_HAS_EXPECTED = 2,
    C10D_HAS_VALUE = 4,
    C10D_HAS_NUMBER = 8,
    C10D_HAS_KEYS = 16,  /* a list */
    C10D_HAS_PAIRS = 32, /* a list of keys with their values */
    C10D_HAS_NONCE = 64,
};

/* A set of those. */
unsigned c10d_op_parts(enum c10d_op op);

/* Answer bytes (u8). */
enum {
    C10D_READY = 0,
    C10D_NOT_READY = 1,
    C10D_STOP_WAITING = 0,
    C10D_WAIT_CANCELED = 1,
    C10D_WATCHING = 3,
};

/* Torch's own limits. The parser checks each length as soon as its 8 bytes are here, before it
 * waits for the body. A key longer than 1015412685 bytes could make a request of one version look
 * like one of the other. */
#define C10D_KEY_MAX  8192u            /* bytes of a key, queue or barrier name */
#define C10D_KEYS_MAX UINT64_C(131072) /* entries of one CHECK, WAIT, MULTI_GET or MULTI_SET */

struct c10d_limits {
    size_t value_max;   /* bytes of one value */
    size_t request_max; /* bytes of one whole request */
};

/* The limits of a store whose values have at most so many bytes: a request has 64 MiB, or more if a
 * COMPARE_SET with two such values does not fit into that. */
struct c10d_limits c10d_limits_of(uint64_t value_max);

struct c10d_request {
    enum c10d_op op;
    struct slice key;      /* also the name of a queue or a barrier */
    struct slice value;    /* SET, APPEND, QUEUE_PUSH: the value. COMPARE_SET: the desired one */
    struct slice expected; /* COMPARE_SET */
    int64_t number;        /* ADD: the delta. BARRIER: the world size */
    uint32_t nonce;        /* PING */
    uint64_t count;        /* entries in `items` */
    struct slice items;    /* a list, checked; c10d_next_blob() walks it */
};

/* How far a list that is still arriving has been checked, so that the parser reads a large list
 * once and not once per segment. All zero before each request; the caller keeps it between
 * calls. */
struct c10d_progress {
    size_t at;
    uint64_t left;
};

/* Decides the version of a connection by its first bytes (at most 5).
 * PARSE_DONE: *size bytes are used up (VALIDATE's 5, else 0).
 * PARSE_BAD: the bytes fit no version, or only the legacy version while `legacy_on` is false.
 * An empty input is always PARSE_MORE. */
enum parse_result c10d_detect(struct slice in, bool legacy_on, enum c10d_version *out,
                              size_t *size);

/* Why a request is not carried out. */
struct c10d_refusal {
    const char *reason; /* static: "unknown opcode" */
    bool is_limit;      /* well formed, but over one of the limits */
};

/* Parses the request at the start of `in`.
 * PARSE_DONE: *out is filled, its slices point into `in`, *size is the request's length, *progress
 *   is zero again.
 * PARSE_MORE: call again with the same progress when `in` has at least *size bytes.
 * PARSE_BAD: *refusal is filled.
 * *out is untouched unless PARSE_DONE. */
enum parse_result c10d_parse(struct slice in, enum c10d_version version,
                             const struct c10d_limits *limits, struct c10d_progress *progress,
                             struct c10d_request *out, size_t *size, struct c10d_refusal *refusal);

/* Takes the next blob off a checked list: a key of CHECK, WAIT and MULTI_GET; a key, then its
 * value, of MULTI_SET. False at the end. */
bool c10d_next_blob(struct slice *items, struct slice *out);
/* The first key that a request names; empty: it names none. */
struct slice c10d_first_key(const struct c10d_request *req);

/* For logs: "SET", "c10d-legacy". Static text. */
const char *c10d_op_name(enum c10d_op op);
const char *c10d_version_name(enum c10d_version version);
