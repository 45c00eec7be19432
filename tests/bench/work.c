/* Requests of c10d's modern version and of etcd v2, and the ends of their answers; see work.h. */
#include "tests/bench/work.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c10d_client.h"

#define KEY_MAX 4096

/* An answer of etcd's: its headers (about 300 bytes), and a body that holds the key and the value,
 * twice over in the answer to a PUT. */
#define ETCD_ANSWER_MAX(w) (2048 + 2 * ((w)->key_len + (w)->value_len))

static const struct {
    const char *name;
    bool is_c10d;
    unsigned requests;
    enum work_kind before;
} kinds[WORK_KINDS] = {
    [WORK_ADD] = {"add", true, 1, WORK_ADD},
    [WORK_GET] = {"get", true, 1, WORK_SET_GET},
    [WORK_SET_GET] = {"set-get", true, 2, WORK_SET_GET},
    [WORK_ETCD_GET] = {"etcd-get", false, 1, WORK_ETCD_PUT},
    [WORK_ETCD_PUT] = {"etcd-put", false, 1, WORK_ETCD_PUT},
};

const char *work_name(enum work_kind kind)
{
    return kinds[kind].name;
}

bool work_find(const char *name, enum work_kind *kind)
{
    for (unsigned i = 0; i < WORK_KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *kind = (enum work_kind)i;
            return true;
        }
    }
    return false;
}

bool work_is_c10d(enum work_kind kind)
{
    return kinds[kind].is_c10d;
}

unsigned work_requests(enum work_kind kind)
{
    return kinds[kind].requests;
}

enum work_kind work_before(enum work_kind kind)
{
    return kinds[kind].before;
}

_Static_assert(WORK_HELLO_LEN == C10D_HELLO_LEN, "VALIDATE and PING");

void work_hello(uint8_t hello[WORK_HELLO_LEN], uint32_t nonce)
{
    struct writer w = {.ptr = hello, .cap = WORK_HELLO_LEN};

    c10d_write_hello(&w, nonce);
}

static void put_c10d(FILE *out, const struct c10d_request *req)
{
    struct writer w = {0};
    uint8_t *bytes;

    c10d_write_request(&w, req);
    bytes = malloc(w.len);
    if (bytes == NULL)
        err(1, "making requests");
    w = (struct writer){.ptr = bytes, .cap = w.len};
    c10d_write_request(&w, req);
    fwrite(bytes, 1, w.len, out);
    free(bytes);
}

/* "/bench/000042" and as many letters as make the length: all keys have the same length, so all
 * requests have, too. */
static void make_key(const struct work *w, unsigned connection, char *key)
{
    int n = snprintf(key, KEY_MAX, "/bench/%06u", connection % w->keys);

    if (n < 0 || (size_t)n > w->key_len || w->key_len >= KEY_MAX)
        errx(1, "keys of %zu bytes cannot be made: from %d to %d can", w->key_len, WORK_KEY_MIN,
             KEY_MAX - 1);
    memset(key + n, 'k', w->key_len - (size_t)n);
    key[w->key_len] = '\0';
}

static void put_request(FILE *out, const struct work *w, const char *key, const char *value)
{
    struct c10d_request req = {.key = {(const uint8_t *)key, w->key_len},
                               .value = {(const uint8_t *)value, w->value_len},
                               .number = 1};

    switch (w->kind) {
    case WORK_ADD:
        req.op = C10D_ADD;
        put_c10d(out, &req);
        break;
    case WORK_SET_GET:
        req.op = C10D_SET;
        put_c10d(out, &req);
        req.op = C10D_GET;
        put_c10d(out, &req);
        break;
    case WORK_GET:
        req.op = C10D_GET;
        put_c10d(out, &req);
        break;
    case WORK_ETCD_GET:
        fprintf(out, "GET /v2/keys%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", key);
        break;
    case WORK_ETCD_PUT:
        fprintf(out,
                "PUT /v2/keys%s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %zu\r\n\r\n"
                "value=%s",
                key, strlen("value=") + w->value_len, value);
        break;
    case WORK_KINDS:
        break;
    }
}

uint8_t *work_make(const struct work *w, unsigned connection, size_t *len)
{
    char key[KEY_MAX];
    char *value = malloc(w->value_len + 1);
    char *request = NULL;
    FILE *out = open_memstream(&request, len);

    if (value == NULL || out == NULL)
        err(1, "making requests");
    memset(value, 'v', w->value_len);
    value[w->value_len] = '\0';
    make_key(w, connection, key);
    put_request(out, w, key, value);
    if (fclose(out) != 0)
        err(1, "making requests");
    free(value);
    return (uint8_t *)request;
}

size_t work_answer_size(const struct work *w)
{
    switch (w->kind) {
    case WORK_ADD:
        return sizeof(int64_t);
    case WORK_GET:
    case WORK_SET_GET:
        return sizeof(uint64_t) + w->value_len;
    default:
        return 0;
    }
}

size_t work_answer_max(const struct work *w)
{
    size_t size = work_answer_size(w);

    return size != 0 ? size : ETCD_ANSWER_MAX(w);
}

static enum work_answer value_answer(const struct work *w, const uint8_t *in, size_t len,
                                     size_t *size, const char **why)
{
    const struct c10d_reply_limits limits = {.value_max = w->value_len};
    struct c10d_progress progress = {0};
    struct c10d_reply reply;
    enum parse_result result =
        c10d_parse_reply((struct slice){in, len}, C10D_GET, 0, &limits, &progress, &reply, size);

    if (result == PARSE_BAD || (result == PARSE_DONE && reply.value.len != w->value_len)) {
        *why = "GET answered a value of another length than was set";
        return WORK_WRONG;
    }
    return result == PARSE_DONE ? WORK_DONE : WORK_MORE;
}

/* The value of Content-Length between `head` and `end`, or -1. */
static long content_length(const char *head, const char *end)
{
    static const char name[] = "\r\ncontent-length:";

    for (const char *at = head; (at = memchr(at, '\r', (size_t)(end - at))) != NULL; at++) {
        if ((size_t)(end - at) > sizeof name && strncasecmp(at, name, sizeof name - 1) == 0)
            return strtol(at + sizeof name - 1, NULL, 10);
    }
    return -1;
}

static enum work_answer http_answer(const struct work *w, const uint8_t *in, size_t len,
                                    size_t *size, const char **why)
{
    const char *head = (const char *)in;
    const char *end = memmem(head, len, "\r\n\r\n", 4);
    long body;

    if (end == NULL) {
        *why = "the head of the HTTP answer does not end";
        return len >= work_answer_max(w) ? WORK_WRONG : WORK_MORE;
    }
    if (memcmp(head, "HTTP/1.1 20", strlen("HTTP/1.1 20")) != 0) {
        *why = "the HTTP answer is neither 200 nor 201";
        return WORK_WRONG;
    }
    body = content_length(head, end);
    *size = (size_t)(end - head) + 4 + (size_t)body;
    if (body < 0 || *size > work_answer_max(w)) {
        *why = "the HTTP answer has no Content-Length, or one that is too large";
        return WORK_WRONG;
    }
    return len >= *size ? WORK_DONE : WORK_MORE;
}

enum work_answer work_answer(const struct work *w, const uint8_t *in, size_t len, size_t *size,
                             const char **why)
{
    switch (w->kind) {
    case WORK_ADD:
        *size = sizeof(int64_t);
        return len >= *size ? WORK_DONE : WORK_MORE;
    case WORK_GET:
    case WORK_SET_GET:
        return value_answer(w, in, len, size, why);
    default:
        return http_answer(w, in, len, size, why);
    }
}
