/* What the load generator says, and where an answer ends: bytes only, no sockets.
 *
 * The unit is an exchange: the bytes sent at once, and the answer that ends it. All exchanges of a
 * connection are the same bytes, so they are made once and sent for as long as the run takes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORK_KEY_MIN   16
#define WORK_HELLO_LEN 10
#define WORK_PONG_LEN  4

enum work_kind {
    WORK_ADD,      /* c10d ADD 1 */
    WORK_GET,      /* c10d GET of a key that is there */
    WORK_SET_GET,  /* c10d SET, which has no answer, and GET of the same key in one segment */
    WORK_ETCD_GET, /* etcd v2 GET of a key that is there */
    WORK_ETCD_PUT, /* etcd v2 PUT of a form, over a value that is there */
    WORK_KINDS,
};

struct work {
    enum work_kind kind;
    size_t key_len;   /* of the key itself, at least WORK_KEY_MIN */
    size_t value_len; /* of what is set and got */
    unsigned keys;    /* connection i works on key i % keys */
};

enum work_answer {
    WORK_DONE, /* a whole answer of *size bytes */
    WORK_MORE,
    WORK_WRONG, /* not the answer to this work; *why says what is wrong with it */
};

const char *work_name(enum work_kind kind);
bool work_find(const char *name, enum work_kind *kind);
bool work_is_c10d(enum work_kind kind);

/* How many requests a server sees in one exchange. */
unsigned work_requests(enum work_kind kind);

/* The work that puts a key there for `kind` to read: its own kind when it needs none. */
enum work_kind work_before(enum work_kind kind);

/* VALIDATE and PING, as a torch client sends them: one segment. The answer is the nonce. */
void work_hello(uint8_t hello[WORK_HELLO_LEN], uint32_t nonce);

/* One exchange for a connection, on the heap. */
uint8_t *work_make(const struct work *w, unsigned connection, size_t *len);

/* An upper bound of one answer's size, and the size itself where every answer has the same: 0
 * where it varies. */
size_t work_answer_max(const struct work *w);
size_t work_answer_size(const struct work *w);

enum work_answer work_answer(const struct work *w, const uint8_t *in, size_t len, size_t *size,
                             const char **why);
