/* librdzv: a client of c10d, the protocol of torch's TCPStore, for rdzvd and for torch's own
 * server.
 *
 * A client is one connection to one store. It connects with its first request, and if the
 * connection ends, again with the next request. No request is ever sent twice: if its answer is
 * lost, its status says that the store may have carried it out.
 *
 * Two layers use one client:
 *   - calls that block: rdzv_set(), rdzv_get() and so on;
 *   - requests for an event loop of your own: rdzv_submit() never blocks, rdzv_client_fd() becomes
 *     readable when there is something to do, rdzv_client_process() does it.
 *
 * The store executes requests in the order of their submission. SET, ADD and other requests do not
 * wait for earlier answers. A GET, MULTI_GET, WAIT or BARRIER holds back all later requests until
 * it has ended: give waits a client of their own.
 *
 * Threads: only one thread at a time may use a client; different clients share nothing. Signals
 * interrupt nothing here, and no SIGPIPE is raised. fork(): the child uses none of its parent's
 * clients. Looking up a host name takes a thread of the library's own for as long as it lasts.
 *
 * Times are milliseconds. Keys and values are any bytes; a function copies its arguments before it
 * returns. */
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

/* --- The result of a request. --- */

enum rdzv_status {
    RDZV_OK = 0,
    RDZV_ABSENT,      /* there is no such key; the queue is empty */
    RDZV_TIMEOUT,     /* no answer in time. The store may still carry it out */
    RDZV_CANCELED,    /* by rdzv_request_cancel() or rdzv_client_free(). As RDZV_TIMEOUT */
    RDZV_UNREACHABLE, /* no connection could be made; the store has not carried it out */
    RDZV_LOST,      /* the connection ended before the answer. The store may have carried it out */
    RDZV_PROTOCOL,  /* the server there is no store of c10d's modern version */
    RDZV_INVALID,   /* the request or the address is wrong; nothing was sent */
    RDZV_NO_MEMORY, /* of this process. If it was sent, the store may have carried it out */
    RDZV_TLS, /* one side refuses the other's certificate, a file cannot be used, or what answers
               * speaks no TLS; the message says which. It was not carried out */
};

/* A word for it: "timeout". Static text. */
RDZV_API const char *rdzv_status_name(enum rdzv_status status);

/* "0.1.0" */
RDZV_API const char *rdzv_version(void);

/* --- Clients. --- */

#define RDZV_FOREVER (-1)

/* TLS 1.2 or later. The files are in PEM. The client reads them whenever it connects, so it uses a
 * renewed file from then on. A key must not need a password. */
struct rdzv_tls {
    const char *ca_file;     /* CAs, of which one must have signed the store's certificate; NULL:
                              * the CAs that this machine trusts */
    const char *cert_file;   /* the certificate for a store that asks for one, with the chain to its
                              * CA; NULL: none */
    const char *key_file;    /* its key */
    const char *server_name; /* the name or IP address that the store's certificate must have;
                              * NULL: the host of the address */
};

struct rdzv_options {
    /* The default timeout of requests, counted from their submission; 0: 30,000. RDZV_FOREVER is
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

/* A client for the store at `address`: "HOST:PORT" or "[::1]:29400". It does not connect yet.
 * `options` may be NULL. The caller ends it with rdzv_client_free(). RDZV_INVALID: this is no
 * address, the prefix is over 4096 bytes, or a certificate lacks its key, or a key its certificate.
 * RDZV_NO_MEMORY: no memory or no descriptor is left. *out is untouched on failure. */
RDZV_API enum rdzv_status rdzv_client_new(const char *address, const struct rdzv_options *options,
                                          struct rdzv_client **out);

/* Closes the connection. Open requests end with RDZV_CANCELED, without their callbacks; the caller
 * must still free them. NULL is allowed. Not from a callback. */
RDZV_API void rdzv_client_free(struct rdzv_client *c);

/* "localhost:29400": as it was given. Lives as long as the client. */
RDZV_API const char *rdzv_client_address(const struct rdzv_client *c);

/* "TLSv1.3, the certificate of store.example ends 2027-01-31": of the present connection, or of the
 * last one. NULL: it had no TLS. Valid until the client connects again. */
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
    RDZV_MULTI_GET,   /* keys -> values, in this order; or RDZV_ABSENT if one is absent */
    RDZV_MULTI_SET,   /* keys, values: `count` of each */
    RDZV_QUEUE_PUSH,  /* key, value */
    RDZV_QUEUE_POP,   /* key -> value: the oldest; or RDZV_ABSENT. RDZV_WAIT on the name of a queue
                       * waits until it has something */
    RDZV_QUEUE_LEN,   /* key -> number */
    RDZV_BARRIER,     /* key, number: until so many have arrived. One that timed out has arrived */
    RDZV_NUM_KEYS,    /* -> number: all keys of the store, regardless of their prefix */
    RDZV_LIST_KEYS,   /* -> values: the keys, in any order */
    RDZV_PING,        /* nothing but an answer */
};

struct rdzv_result {
    enum rdzv_status status;
    const char *message; /* the fault, its place, and the remedy; "" with RDZV_OK */
    int64_t number;
    struct rdzv_bytes value; /* a NUL follows it, which `len` does not count */
    const struct rdzv_bytes *values;
    size_t count;
};

struct rdzv_request;

/* Called once, by rdzv_client_process() or by a call that blocks, when a request has ended. It may
 * submit, cancel and free requests, including this one. */
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
 * callback: if something fails later, such as connecting, the request's result says so.
 * RDZV_INVALID: an unknown kind, a null pointer with a length, or no keys. RDZV_NO_MEMORY. *out is
 * untouched on failure. */
RDZV_API enum rdzv_status rdzv_submit(struct rdzv_client *c, const struct rdzv_op *op,
                                      struct rdzv_request **out);

/* NULL until it has ended. Lives as long as the request. */
RDZV_API const struct rdzv_result *rdzv_request_result(const struct rdzv_request *r);

/* Ends the request with RDZV_CANCELED, without its callback; does nothing if it has ended. A WAIT
 * or BARRIER is also canceled at the store. The connection stays usable. */
RDZV_API void rdzv_request_cancel(struct rdzv_request *r);

/* Cancels it if it has not ended. NULL is allowed. */
RDZV_API void rdzv_request_free(struct rdzv_request *r);

/* --- For an event loop. --- */

/* A descriptor that is readable (POLLIN, EPOLLIN) when rdzv_client_process() has something to do:
 * bytes came, bytes can go, a deadline has passed, a name was looked up. It belongs to the client
 * and stays the same for the client's whole life: only wait for it. */
RDZV_API int rdzv_client_fd(const struct rdzv_client *c);

/* Sends and receives without blocking, and calls the callbacks of requests that have ended. Not
 * from a callback. */
RDZV_API void rdzv_client_process(struct rdzv_client *c);

/* --- Blocking calls. Other callbacks may run meanwhile. Not to be used in a callback. --- */

/* Submits `op` and waits for its end. *result may be NULL; it is valid until the client's next
 * blocking call. */
RDZV_API enum rdzv_status rdzv_call(struct rdzv_client *c, const struct rdzv_op *op,
                                    const struct rdzv_result **result);

/* The message of the last blocking call: "" after RDZV_OK. Lives until the next one. */
RDZV_API const char *rdzv_client_message(const struct rdzv_client *c);

/* Keys are strings here; rdzv_call() takes any bytes. Values are any bytes. The caller must free()
 * a returned `value`, which a NUL follows; out-parameters may be NULL, and are untouched unless
 * RDZV_OK. */
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
/* `values` has room for `count` values, which the caller frees; so has `lens`, unless NULL. */
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
