/* Blocking calls of librdzv: each submits one request and waits for its end. See rdzv_client.h. */
#include <poll.h>
#include <stdlib.h>

#include "client/client.h"

static struct rdzv_bytes bytes_from_text(const char *s)
{
    return (struct rdzv_bytes){s, strlen(s)};
}

static enum rdzv_status not_submitted(struct rdzv_client *c, enum rdzv_status status)
{
    c->last_message = status == RDZV_INVALID
                          ? "the request is wrong: an unknown kind, no keys, or a null pointer"
                          : "there is no memory for the request";
    return status;
}

enum rdzv_status rdzv_call(struct rdzv_client *c, const struct rdzv_op *op,
                           const struct rdzv_result **result)
{
    struct rdzv_op quiet = *op;
    enum rdzv_status status;

    quiet.done = NULL; /* the caller waits for it here */
    rdzv_request_free(c->last);
    c->last = NULL;
    status = rdzv_submit(c, &quiet, &c->last);
    if (status != RDZV_OK)
        return not_submitted(c, status);
    while (rdzv_request_result(c->last) == NULL) {
        struct pollfd p = {.fd = c->link.epoll, .events = POLLIN};

        if (poll(&p, 1, -1) > 0)
            rdzv_client_process(c);
    }
    c->last_message = c->last->result.message;
    if (result != NULL)
        *result = &c->last->result;
    return c->last->result.status;
}

const char *rdzv_client_message(const struct rdzv_client *c)
{
    return c->last_message;
}

static enum rdzv_status no_memory(struct rdzv_client *c)
{
    c->last_message = "there is no memory for a copy of the answer";
    return RDZV_NO_MEMORY;
}

static char *copy_bytes(struct rdzv_bytes b)
{
    char *s = malloc(b.len + 1);

    if (s == NULL)
        return NULL;
    if (b.len != 0)
        memcpy(s, b.ptr, b.len);
    s[b.len] = '\0';
    return s;
}

/* A call whose answer is a value. */
static enum rdzv_status call_value(struct rdzv_client *c, const struct rdzv_op *op, char **value,
                                   size_t *len)
{
    const struct rdzv_result *result;
    enum rdzv_status status = rdzv_call(c, op, &result);
    char *out;

    if (status != RDZV_OK)
        return status;
    if (value != NULL) {
        out = copy_bytes(result->value);
        if (out == NULL)
            return no_memory(c);
        *value = out;
    }
    if (len != NULL)
        *len = result->value.len;
    return RDZV_OK;
}

/* A call whose answer is a number. */
static enum rdzv_status call_number(struct rdzv_client *c, const struct rdzv_op *op,
                                    int64_t *number)
{
    const struct rdzv_result *result;
    enum rdzv_status status = rdzv_call(c, op, &result);

    if (status == RDZV_OK && number != NULL)
        *number = result->number;
    return status;
}

/* A call about many keys. */
static enum rdzv_status call_keys(struct rdzv_client *c, struct rdzv_op *op,
                                  const char *const *keys, const struct rdzv_result **result)
{
    struct rdzv_bytes *list = calloc(op->count + 1, sizeof *list);
    enum rdzv_status status;

    if (list == NULL)
        return not_submitted(c, RDZV_NO_MEMORY);
    for (size_t i = 0; i < op->count; i++)
        list[i] = bytes_from_text(keys[i]);
    op->keys = list;
    status = rdzv_call(c, op, result);
    free(list);
    return status;
}

enum rdzv_status rdzv_set(struct rdzv_client *c, const char *key, const void *value, size_t len)
{
    return rdzv_call(
        c, &(struct rdzv_op){.kind = RDZV_SET, .key = bytes_from_text(key), .value = {value, len}},
        NULL);
}

enum rdzv_status rdzv_get(struct rdzv_client *c, const char *key, char **value, size_t *len)
{
    return call_value(c, &(struct rdzv_op){.kind = RDZV_GET, .key = bytes_from_text(key)}, value,
                      len);
}

enum rdzv_status rdzv_add(struct rdzv_client *c, const char *key, int64_t delta, int64_t *sum)
{
    return call_number(
        c, &(struct rdzv_op){.kind = RDZV_ADD, .key = bytes_from_text(key), .number = delta}, sum);
}

enum rdzv_status rdzv_compare_set(struct rdzv_client *c, const char *key, const void *expected,
                                  size_t expected_len, const void *desired, size_t desired_len,
                                  char **value, size_t *len)
{
    const struct rdzv_op op = {.kind = RDZV_COMPARE_SET,
                               .key = bytes_from_text(key),
                               .expected = {expected, expected_len},
                               .value = {desired, desired_len}};

    return call_value(c, &op, value, len);
}

enum rdzv_status rdzv_append(struct rdzv_client *c, const char *key, const void *value, size_t len)
{
    return rdzv_call(
        c,
        &(struct rdzv_op){.kind = RDZV_APPEND, .key = bytes_from_text(key), .value = {value, len}},
        NULL);
}

enum rdzv_status rdzv_delete(struct rdzv_client *c, const char *key)
{
    return rdzv_call(c, &(struct rdzv_op){.kind = RDZV_DELETE, .key = bytes_from_text(key)}, NULL);
}

enum rdzv_status rdzv_check(struct rdzv_client *c, const char *const *keys, size_t count)
{
    return call_keys(c, &(struct rdzv_op){.kind = RDZV_CHECK, .count = count}, keys, NULL);
}

enum rdzv_status rdzv_wait(struct rdzv_client *c, const char *const *keys, size_t count,
                           int64_t timeout_ms)
{
    return call_keys(c,
                     &(struct rdzv_op){.kind = RDZV_WAIT, .count = count, .timeout_ms = timeout_ms},
                     keys, NULL);
}

enum rdzv_status rdzv_multi_get(struct rdzv_client *c, const char *const *keys, size_t count,
                                char **values, size_t *lens)
{
    struct rdzv_op op = {.kind = RDZV_MULTI_GET, .count = count};
    const struct rdzv_result *result;
    enum rdzv_status status = call_keys(c, &op, keys, &result);
    char **copies;
    size_t made = 0;

    if (status != RDZV_OK)
        return status;
    copies = calloc(count, sizeof *copies);
    while (copies != NULL && made < count &&
           (copies[made] = copy_bytes(result->values[made])) != NULL)
        made++;
    for (size_t i = 0; i < count && made == count; i++) {
        values[i] = copies[i];
        if (lens != NULL)
            lens[i] = result->values[i].len;
    }
    for (size_t i = 0; i < made && made < count; i++)
        free(copies[i]);
    free(copies);
    return made == count ? RDZV_OK : no_memory(c);
}

enum rdzv_status rdzv_multi_set(struct rdzv_client *c, const char *const *keys,
                                const struct rdzv_bytes *values, size_t count)
{
    return call_keys(c, &(struct rdzv_op){.kind = RDZV_MULTI_SET, .values = values, .count = count},
                     keys, NULL);
}

enum rdzv_status rdzv_queue_push(struct rdzv_client *c, const char *queue, const void *value,
                                 size_t len)
{
    return rdzv_call(c,
                     &(struct rdzv_op){.kind = RDZV_QUEUE_PUSH,
                                       .key = bytes_from_text(queue),
                                       .value = {value, len}},
                     NULL);
}

enum rdzv_status rdzv_queue_pop(struct rdzv_client *c, const char *queue, char **value, size_t *len)
{
    return call_value(c, &(struct rdzv_op){.kind = RDZV_QUEUE_POP, .key = bytes_from_text(queue)},
                      value, len);
}

enum rdzv_status rdzv_queue_len(struct rdzv_client *c, const char *queue, int64_t *len)
{
    return call_number(c, &(struct rdzv_op){.kind = RDZV_QUEUE_LEN, .key = bytes_from_text(queue)},
                       len);
}

enum rdzv_status rdzv_barrier(struct rdzv_client *c, const char *name, int64_t size,
                              int64_t timeout_ms)
{
    const struct rdzv_op op = {.kind = RDZV_BARRIER,
                               .key = bytes_from_text(name),
                               .number = size,
                               .timeout_ms = timeout_ms};

    return rdzv_call(c, &op, NULL);
}

enum rdzv_status rdzv_num_keys(struct rdzv_client *c, int64_t *count)
{
    return call_number(c, &(struct rdzv_op){.kind = RDZV_NUM_KEYS}, count);
}

enum rdzv_status rdzv_list_keys(struct rdzv_client *c, char ***keys, size_t *count)
{
    const struct rdzv_result *result;
    enum rdzv_status status = rdzv_call(c, &(struct rdzv_op){.kind = RDZV_LIST_KEYS}, &result);
    size_t size;
    char **list, *at;

    if (status != RDZV_OK)
        return status;
    size = (result->count + 1) * sizeof *list;
    for (size_t i = 0; i < result->count; i++)
        size += result->values[i].len + 1;
    list = malloc(size);
    if (list == NULL)
        return no_memory(c);
    at = (char *)(list + result->count + 1);
    for (size_t i = 0; i < result->count; i++) {
        list[i] = at;
        memcpy(at, result->values[i].ptr, result->values[i].len + 1);
        at += result->values[i].len + 1;
    }
    list[result->count] = NULL;
    *count = result->count;
    *keys = list;
    return RDZV_OK;
}

enum rdzv_status rdzv_ping(struct rdzv_client *c)
{
    return rdzv_call(c, &(struct rdzv_op){.kind = RDZV_PING}, NULL);
}
