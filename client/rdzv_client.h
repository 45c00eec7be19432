/* librdzv: a client of c10d, the protocol of torch's TCPStore, for rdzvd and for torch's own
 * server.
 *
 * A client is one connection to one store. It connects with its first request, and again with the
 * first one after its connection has ended. Nothing is ever sent twice: what became of a request
 * whose answer did not come is not known, and its status says so.
 *
 * Two layers use one client:
 *   - calls that block: rdzv_set(), rdzv_get() and so on;
 *   - requests for an event loop of your own: rdzv_submit() never blocks, rdzv_client_fd() becomes
 *     readable when there is something to do, rdzv_client_process() does it.
 *
 * Requests are carried out in the order in which they were submitted. SET, ADD and so on are sent
 * without waiting for earlier answers. A GET, MULTI_GET, WAIT and BARRIER holds back what was
 * submitted after it until it has ended: give waits a client of their own.
 *
 * Threads: one client is used by one thread at a time; different clients share nothing. Signals
 * interrupt nothing here, and no SIGPIPE is raised. fork(): the child uses none of its parent's
 * clients. Looking up a host name takes a thread of the library's own for as long as it lasts.
 *
 * Times are milliseconds. Keys and values are any bytes; the library copies what it is given before
 * a function returns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RDZV_API __attribute__((visibility("default")))
#else
#define RDZV_API
#endif

/* --- What comes of a request. --- */

enum rdzv_status {
    RDZV_OK = 0,
    RDZV_ABSENT,      /* there is no such key; the queue is empty */
    RDZV_TIMEOUT,     /* no answer in time. It may have been carried out, or be so later */
    RDZV_CANCELED,    /* by rdzv_request_cancel() or rdzv_client_free(). As RDZV_TIMEOUT */
    RDZV_UNREACHABLE, /* no connection could be made; it was not carried out */
    RDZV_LOST,      /* the connection ended before the answer came. It may have been carried out */
    RDZV_PROTOCOL,  /* who answers there is no store of c10d's modern version */
    RDZV_INVALID,   /* the request or the address is wrong; nothing was sent */
    RDZV_NO_MEMORY, /* of this process. If it was sent, it may have been carried out */
    RDZV_TLS, /* one side refuses the other's certificate, a file cannot be used, or what answers
               * speaks no TLS; the message says which. It was not carried out */
};

/* A word for it: "timeout". Static text. */
RDZV_API const char *rdzv_status_name(enum rdzv_status status);

/* "0.1.0" */
RDZV_API const char *rdzv_version(void);

/* --- Clients. --- */

#define RDZV_FOREVER (-1)

/* TLS 1.2 or later. Files are of PEM, and are read whenever the client connects, so one that was
 * replaced is in use from then on. A key must not need a password. */
struct rdzv_tls {
    const char *ca_file;     /* whose certificate a store has to show; NULL: the CAs that this
                              * machine trusts */
    const char *cert_file;   /* what to show to a store that asks for it, with those between it and
                              * its CA; NULL: nothing */
    const char *key_file;    /* its key */
    const char *server_name; /* the name or IP address that the store's certificate has to have;
                              * NULL: the host of the address */
};

struct rdzv_options {
    /* For requests that name none, from when they are submitted; 0: 30,000. RDZV_FOREVER is
     * allowed. */
    int64_t timeout_ms;
    /* Before each key, queue and barrier that goes to the store; rdzv_list_keys() leaves out keys
     * without it, and takes it off the others. NULL: "/", so that keys have the names that torch's
     * TCPStore gives them in Python. "": the bytes as they are stored. "/PREFIX/": the keys of
     * PrefixStore("PREFIX", store). */
    const char *key_prefix;
    /* An answer that announces more bytes ends the connection; 0: 64 MiB. */
    size_t reply_max;
    /* NULL: plain text. Copied by rdzv_client_new(). */
    const struct rdzv_tls *tls;
};

struct rdzv_client;

/* A client for the store at `address`: "HOST:PORT" or "[::1]:29400". It does not connect
 * yet. `options` may be NULL. The caller ends it with rdzv_client_free().
 * RDZV_INVALID: this is no address, the prefix is over 4096 bytes, or of a certificate and its key
 * one is missing. RDZV_NO_MEMORY: or no descriptor was left. *out is untouched on failure. */
RDZV_API enum rdzv_status rdzv_client_new(const char *address, const struct rdzv_options *options,
                                          struct rdzv_client **out);

/* Closes the connection. Requests that have not ended end with RDZV_CANCELED, and their callbacks
 * are not called; they are still the caller's to free. NULL is allowed. Not from a callback. */
RDZV_API void rdzv_client_free(struct rdzv_client *c);

/* "localhost:29400": as it was given. Lives as long as the client. */
RDZV_API const char *rdzv_client_address(const struct rdzv_client *c);

/* "TLSv1.3, the certificate of store.example ends 2027-01-31": of the connection, or of the last
 * one once that has ended. NULL: it has or had no TLS. Lives until the client connects again or
 * ends. */
RDZV_API const char *rdzv_client_tls(const struct rdzv_client *c);

/* --- Requests. --- */

struct rdzv_bytes {
    const void *ptr; /* may be NULL when len is 0 */
    size_t len;
};

enum rdzv_kind {
    RDZV_SET = 1,     /* key, value */
    RDZV_GET,         /* key -> value, or RDZV_ABSENT */
    RDZV_ADD,         /* key, number: the text of a number + number -> number: the sum */
    RDZV_COMPARE_SET, /* key, expected, value. If the key holds `expected`, or is absent and
                       * `expected` is empty, it gets `value` -> value: what it holds now. Of an
                       * absent key and an `expected` that is not empty: `expected`, as torch
                       * answers; nothing is set */
    RDZV_APPEND,      /* key, value: at the end of what is there; an absent key is created */
    RDZV_DELETE,      /* key -> RDZV_ABSENT if there was none */
    RDZV_CHECK,       /* keys -> RDZV_ABSENT unless all are there */
    RDZV_WAIT,        /* keys: until all are there */
    RDZV_MULTI_GET,   /* keys -> values, in this order; or RDZV_ABSENT if not all are there */
    RDZV_MULTI_SET,   /* keys, values: `count` of each */
    RDZV_QUEUE_PUSH,  /* key, value */
    RDZV_QUEUE_POP,   /* key -> value: the oldest; or RDZV_ABSENT. RDZV_WAIT on the name of a queue
                       * waits until it has something */
    RDZV_QUEUE_LEN,   /* key -> number */
    RDZV_BARRIER,     /* key, number: until so many have arrived. One that timed out has arrived */
    RDZV_NUM_KEYS,    /* -> number: all keys of the store, whatever their prefix */
    RDZV_LIST_KEYS,   /* -> values: the keys, in any order */
    RDZV_PING,        /* nothing but an answer */
};

struct rdzv_result {
    enum rdzv_status status;
    const char *message; /* what failed, where, and what to do about it; "" with RDZV_OK */
    int64_t number;
    struct rdzv_bytes value; /* a NUL follows it, which `len` does not count */
    const struct rdzv_bytes *values;
    size_t count;
};

struct rdzv_request;

/* Called once, by rdzv_client_process() or by a call that blocks, when a request has ended. It may
 * submit, cancel and free requests, this one too. */
typedef void rdzv_done_fn(struct rdzv_request *r, const struct rdzv_result *result, void *arg);

struct rdzv_op {
    enum rdzv_kind kind;
    struct rdzv_bytes key, value, expected;
    const struct rdzv_bytes *keys, *values;
    size_t count;
    int64_t number;
    int64_t timeout_ms; /* 0: that of the client; RDZV_FOREVER: none */
    rdzv_done_fn *done; /* NULL: ask rdzv_request_result() */
    void *arg;
};

/* Queues a request, which the caller frees with rdzv_request_free(). Never blocks and calls no
 * callback: what fails later, such as connecting, is told by the request.
 * RDZV_INVALID: a kind that there is none of, a null pointer with a length, no count of keys.
 * RDZV_NO_MEMORY. *out is untouched on failure. */
RDZV_API enum rdzv_status rdzv_submit(struct rdzv_client *c, const struct rdzv_op *op,
                                      struct rdzv_request **out);

/* NULL until it has ended. Lives as long as the request. */
RDZV_API const struct rdzv_result *rdzv_request_result(const struct rdzv_request *r);

/* Ends it with RDZV_CANCELED, without its callback; nothing if it has ended. A WAIT or BARRIER is
 * canceled at the store, too. The connection stays usable. */
RDZV_API void rdzv_request_cancel(struct rdzv_request *r);

/* Cancels it if it has not ended. NULL is allowed. */
RDZV_API void rdzv_request_free(struct rdzv_request *r);

/* --- For an event loop. --- */

/* A descriptor that is readable (POLLIN, EPOLLIN) when rdzv_client_process() has something to do:
 * bytes came, bytes can go, a deadline has passed, a name was looked up. It is the same for the
 * client's whole life, and the client's: do nothing with it but wait for it. */
RDZV_API int rdzv_client_fd(const struct rdzv_client *c);

/* Does what can be done without blocking, and calls the callbacks of what has ended. Not from a
 * callback. */
RDZV_API void rdzv_client_process(struct rdzv_client *c);

/* --- Calls that block. Callbacks of submitted requests may be called meanwhile; not from one. ---
 */

/* Submits `op` and waits until it has ended. *result may be NULL; it lives until the client's next
 * call that blocks. */
RDZV_API enum rdzv_status rdzv_call(struct rdzv_client *c, const struct rdzv_op *op,
                                    const struct rdzv_result **result);

/* What the last blocking call said: "" after RDZV_OK. Lives until the next one. */
RDZV_API const char *rdzv_client_message(const struct rdzv_client *c);

/* Keys are strings here; for others there is rdzv_call(). Values are any bytes. A `value` that is
 * given out is the caller's to free(), and a NUL follows it; out-parameters are untouched unless
 * RDZV_OK, and may be NULL. */
RDZV_API enum rdzv_status rdzv_set(struct rdzv_client *c, const char *key, const void *value,
                                   size_t len);
RDZV_API enum rdzv_status rdzv_get(struct rdzv_client *c, const char *key, char **value,
                                   size_t *len);
RDZV_API enum rdzv_status rdzv_add(struct rdzv_client *c, const char *key, int64_t delta,
                                   int64_t *sum);
RDZV_API enum rdzv_status rdzv_compare_set(struct rdzv_client *c, const char *key,
                                           const void *expected, size_t expected_len,
                                           const void *desired, size_t desired_len, char **value,
                                           size_t *len);
RDZV_API enum rdzv_status rdzv_append(struct rdzv_client *c, const char *key, const void *value,
                                      size_t len);
RDZV_API enum rdzv_status rdzv_delete(struct rdzv_client *c, const char *key);
RDZV_API enum rdzv_status rdzv_check(struct rdzv_client *c, const char *const *keys, size_t count);
RDZV_API enum rdzv_status rdzv_wait(struct rdzv_client *c, const char *const *keys, size_t count,
                                    int64_t timeout_ms);
/* `values` has room for `count`, each to be freed; `lens` too, or is NULL. */
RDZV_API enum rdzv_status rdzv_multi_get(struct rdzv_client *c, const char *const *keys,
                                         size_t count, char **values, size_t *lens);
RDZV_API enum rdzv_status rdzv_multi_set(struct rdzv_client *c, const char *const *keys,
                                         const struct rdzv_bytes *values, size_t count);
RDZV_API enum rdzv_status rdzv_queue_push(struct rdzv_client *c, const char *queue,
                                          const void *value, size_t len);
RDZV_API enum rdzv_status rdzv_queue_pop(struct rdzv_client *c, const char *queue, char **value,
                                         size_t *len);
RDZV_API enum rdzv_status rdzv_queue_len(struct rdzv_client *c, const char *queue, int64_t *len);
RDZV_API enum rdzv_status rdzv_barrier(struct rdzv_client *c, const char *name, int64_t size,
                                       int64_t timeout_ms);
RDZV_API enum rdzv_status rdzv_num_keys(struct rdzv_client *c, int64_t *count);
/* *keys is one allocation, strings and all: free(*keys). Keys that hold a NUL end there. */
RDZV_API enum rdzv_status rdzv_list_keys(struct rdzv_client *c, char ***keys, size_t *count);
RDZV_API enum rdzv_status rdzv_ping(struct rdzv_client *c);

#ifdef __cplusplus
}
#endif
