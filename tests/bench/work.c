/* Requests of c10d's modern version and of etcd v2, and the ends of their answers; see work.h. */
#include "tests/bench/work.h"

#include <endian.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OP_VALIDATE = 0, OP_SET = 1, OP_GET = 3, OP_ADD = 4, OP_PING = 13 };

#define VALIDATE_MAGIC 0x3C85F7CEu
#define KEY_MAX        4096

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

static void put_u64(FILE *out, uint64_t v)
{
    v = htole64(v);
    fwrite(&v, sizeof v, 1, out);
}

static void put_str(FILE *out, const char *s, size_t len)
{
    put_u64(out, len);
    fwrite(s, 1, len, out);
}

void work_hello(uint8_t hello[WORK_HELLO_LEN], uint32_t nonce)
{
    uint32_t magic = htole32(VALIDATE_MAGIC);

    hello[0] = OP_VALIDATE;
    memcpy(hello + 1, &magic, sizeof magic);
    hello[5] = OP_PING;
    nonce = htole32(nonce);
    memcpy(hello + 6, &nonce, sizeof nonce);
}

/* "/bench/000042" and as many letters as make the length: keys of one length, so that requests
 * have one too. */
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
    switch (w->kind) {
    case WORK_ADD:
        fputc(OP_ADD, out);
        put_str(out, key, w->key_len);
        put_u64(out, 1);
        break;
    case WORK_SET_GET:
        fputc(OP_SET, out);
        put_str(out, key, w->key_len);
        put_str(out, value, w->value_len);
        fputc(OP_GET, out);
        put_str(out, key, w->key_len);
        break;
    case WORK_GET:
        fputc(OP_GET, out);
        put_str(out, key, w->key_len);
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
    uint64_t value_len;

    if (len < sizeof value_len)
        return WORK_MORE;
    memcpy(&value_len, in, sizeof value_len);
    if (le64toh(value_len) != w->value_len) {
        *why = "GET answered a value of another length than was set";
        return WORK_WRONG;
    }
    *size = sizeof value_len + w->value_len;
    return len >= *size ? WORK_DONE : WORK_MORE;
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
