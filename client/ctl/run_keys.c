/* keys, get, wait, watch, set, add and delete: commands about keys. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/print.h"
#include "client/ctl_run.h"

#define SHOWN_MOST  60  /* bytes of a value in a table, */
#define KEY_MOST    120 /* and of a key */
#define AT_ONCE     256 /* keys of one request, at first */
#define INTERVAL_MS 1000
#define FIND_MS     10000
#define TAKEN_MS    1000

/* --- keys --- */

static int by_bytes(const void *left, const void *right)
{
    const struct rdzv_bytes *a = left, *b = right;
    int order = memcmp(a->ptr, b->ptr, a->len < b->len ? a->len : b->len);

    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

/* A line of any bytes. */
static void print_bytes(const struct rdzv_bytes *b)
{
    text_safe(stdout, b->ptr, b->len, SIZE_MAX);
    putchar('\n');
}

static void list_value(struct table *t, cJSON *list, const struct rdzv_bytes *key,
                       const struct rdzv_bytes *value)
{
    if (list != NULL) {
        cJSON *pair = print_pair(key->ptr, key->len, value->ptr, value->len);

        cJSON_AddNumberToObject(pair, "size", (double)value->len);
        cJSON_AddItemToArray(list, pair);
        return;
    }
    table_row(t, STYLE_PLAIN);
    table_bytes(t, key->ptr, key->len, KEY_MOST);
    table_printf(t, "%zu", value->len);
    table_bytes(t, value->ptr, value->len, SHOWN_MOST);
}

/* Leaves out keys that were deleted meanwhile, one by one. */
static enum rdzv_status add_values(struct rdzv_client *c, struct table *t, cJSON *list,
                                   const struct rdzv_bytes *keys, size_t count)
{
    const struct rdzv_result *result;
    const struct rdzv_op many = {.kind = RDZV_MULTI_GET, .keys = keys, .count = count};
    enum rdzv_status status = rdzv_call(c, &many, &result);

    for (size_t i = 0; status == RDZV_OK && i < count; i++)
        list_value(t, list, &keys[i], &result->values[i]);
    if (status != RDZV_ABSENT)
        return status;
    for (size_t i = 0; i < count; i++) {
        const struct rdzv_op one = {.kind = RDZV_GET, .key = keys[i]};

        status = rdzv_call(c, &one, &result);
        if (status == RDZV_OK)
            list_value(t, list, &keys[i], &result->value);
        else if (status != RDZV_ABSENT)
            return status;
    }
    return RDZV_OK;
}

/* The sizes of values are unknown until they come: if they are large, asks for fewer at once. */
static enum rdzv_status add_all_values(struct rdzv_client *c, struct table *t, cJSON *list,
                                       const struct rdzv_bytes *keys, size_t count)
{
    size_t at_once = AT_ONCE, at = 0;

    while (at < count) {
        size_t n = count - at < at_once ? count - at : at_once;
        enum rdzv_status status = add_values(c, t, list, keys + at, n);

        if ((status == RDZV_PROTOCOL || status == RDZV_LOST) && n > 1)
            at_once = n / 2; /* more than the library takes in one answer, or the store sends */
        else if (status != RDZV_OK)
            return status;
        else
            at += n;
    }
    return RDZV_OK;
}

static enum rdzv_status keys_with_values(const struct ctl *ctl, struct rdzv_client *c,
                                         const struct rdzv_bytes *keys, size_t count)
{
    struct table t = {.heads = {"KEY", "SIZE", "VALUE"}};
    cJSON *list = ctl->output >= OUTPUT_JSON ? ctl_memory(cJSON_CreateArray()) : NULL;
    enum rdzv_status status = add_all_values(c, &t, list, keys, count);

    if (list == NULL)
        table_print(&t, stdout, "", ctl->colour);
    else
        print_structured(ctl, list);
    cJSON_Delete(list);
    return status;
}

/* The keys that begin with the prefix, sorted, in memory of their own: the library's answer only
 * lives until its next call. */
static struct rdzv_bytes *filter_keys(const struct rdzv_result *all, const char *prefix,
                                      size_t *count)
{
    size_t len = strlen(prefix), size = all->count * sizeof(struct rdzv_bytes) + 1;
    struct rdzv_bytes *keys;
    char *at;

    for (size_t i = 0; i < all->count; i++)
        size += all->values[i].len;
    keys = ctl_memory(malloc(size));
    at = (char *)(keys + all->count);
    *count = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct rdzv_bytes *key = &all->values[i];

        if (key->len < len || memcmp(key->ptr, prefix, len) != 0)
            continue;
        memcpy(at, key->ptr, key->len);
        keys[(*count)++] = (struct rdzv_bytes){at, key->len};
        at += key->len;
    }
    qsort(keys, *count, sizeof *keys, by_bytes);
    return keys;
}

enum ctl_exit run_keys(const struct ctl *ctl, struct rdzv_client *c)
{
    const struct rdzv_op op = {.kind = RDZV_LIST_KEYS};
    const struct rdzv_result *result;
    enum rdzv_status status = rdzv_call(c, &op, &result);
    struct rdzv_bytes *keys;
    size_t count;

    if (status == RDZV_OK) {
        keys = filter_keys(result, ctl->arg_count > 0 ? ctl->args[0] : "", &count);
        if (ctl->output == OUTPUT_TABLE || ctl->output == OUTPUT_NAME) {
            for (size_t i = 0; i < count; i++)
                print_bytes(&keys[i]);
        } else {
            status = keys_with_values(ctl, c, keys, count);
        }
        free(keys);
    }
    return store_failed(c, status);
}

/* --- get --- */

static void print_value(const struct ctl *ctl, const char *key, const struct rdzv_bytes *value)
{
    cJSON *json;

    if (ctl->raw) {
        fwrite(value->ptr, 1, value->len, stdout);
    } else if (ctl->output >= OUTPUT_JSON) {
        json = print_pair(key, strlen(key), value->ptr, value->len);
        print_structured(ctl, json);
        cJSON_Delete(json);
    } else if (text_is_plain(value->ptr, value->len)) {
        fwrite(value->ptr, 1, value->len, stdout);
        putchar('\n');
    } else {
        print_bytes(value);
    }
    fflush(stdout);
}

static struct rdzv_bytes bytes_of_text(const char *text)
{
    return (struct rdzv_bytes){text, strlen(text)};
}

static enum rdzv_status wait_for_keys(struct rdzv_client *c, const char *const *keys, size_t count,
                                      int64_t timeout_ms)
{
    struct rdzv_bytes list[CTL_ARGS_MOST];
    const struct rdzv_op op = {
        .kind = RDZV_WAIT, .keys = list, .count = count, .timeout_ms = timeout_ms};

    for (size_t i = 0; i < count; i++)
        list[i] = bytes_of_text(keys[i]);
    return rdzv_call(c, &op, NULL);
}

/* Does the store answer? Only then can a timeout mean that a key is missing. The rest of --timeout
 * goes to *left_ms. --timeout=0 looks once, which needs a connection as well. */
static enum rdzv_status ping_store(const struct ctl *ctl, struct rdzv_client *c, int64_t *left_ms)
{
    const struct rdzv_op ping = {.kind = RDZV_PING,
                                 .timeout_ms = ctl->timeout_ms > 0 ? ctl->timeout_ms : FIND_MS};
    double began = ctl_now_s();
    enum rdzv_status status = rdzv_call(c, &ping, NULL);
    int64_t took = (int64_t)((ctl_now_s() - began) * 1000);

    if (took >= TAKEN_MS) /* else the words name the time that was given */
        *left_ms = took < *left_ms ? *left_ms - took : 1;
    return status;
}

/* Waits for all keys of the command line. Without --timeout, rdzvctl waits forever, also for a
 * store that does not answer. */
enum ctl_exit run_wait(const struct ctl *ctl, struct rdzv_client *c)
{
    int64_t left_ms = ctl_timeout(ctl, RDZV_FOREVER);
    enum rdzv_status status = RDZV_OK;
    enum ctl_exit code;

    if (ctl->timeout_ms >= 0)
        status = ping_store(ctl, c, &left_ms);
    if (status != RDZV_OK)
        return store_failed(c, status);
    status = wait_for_keys(c, ctl->args, ctl->arg_count, left_ms);
    code = store_failed(c, status);
    return status == RDZV_TIMEOUT ? CTL_MISSING : code; /* its time was up: a key is missing */
}

/* In Python, torch names this key without the slash. */
static enum ctl_exit say_absent(struct rdzv_client *c, const char *key)
{
    char other[1024];
    struct rdzv_bytes name = {other, 0};
    const struct rdzv_op op = {.kind = RDZV_CHECK, .keys = &name, .count = 1};
    int len = snprintf(other, sizeof other, "/%s", key);

    name.len = (size_t)len;
    if (key[0] != '/' && name.len < sizeof other && rdzv_call(c, &op, NULL) == RDZV_OK)
        return ctl_say(CTL_MISSING, "%s has no key %s; there is %s, as torch names it in the store",
                       rdzv_client_address(c), key, other);
    return ctl_say(CTL_MISSING, "%s has no key %s; `rdzvctl keys` lists the store's keys",
                   rdzv_client_address(c), key);
}

enum ctl_exit run_get(const struct ctl *ctl, struct rdzv_client *c)
{
    const struct rdzv_op op = {.kind = RDZV_GET, .key = bytes_of_text(ctl->args[0])};
    enum ctl_exit code = ctl->wait ? run_wait(ctl, c) : CTL_FINE;
    const struct rdzv_result *result;
    enum rdzv_status status;

    if (code != CTL_FINE)
        return code;
    status = rdzv_call(c, &op, &result);
    if (status == RDZV_ABSENT)
        return say_absent(c, ctl->args[0]);
    if (status == RDZV_OK)
        print_value(ctl, ctl->args[0], &result->value);
    return store_failed(c, status);
}

/* --- watch --- */

/* Prints the value if it differs from the last one; `*last` has memory of its own. */
static void print_change(const struct ctl *ctl, const struct rdzv_bytes *value,
                         struct rdzv_bytes *last)
{
    void *copy;

    if (last->ptr != NULL && last->len == value->len &&
        memcmp(last->ptr, value->ptr, value->len) == 0)
        return;
    print_value(ctl, ctl->args[0], value);
    copy = ctl_memory(malloc(value->len + 1));
    memcpy(copy, value->ptr, value->len);
    free((void *)(uintptr_t)last->ptr);
    *last = (struct rdzv_bytes){copy, value->len};
}

enum ctl_exit run_watch(const struct ctl *ctl, struct rdzv_client *c)
{
    int64_t interval = ctl->interval_ms >= 0 ? ctl->interval_ms : INTERVAL_MS;
    const struct rdzv_op op = {.kind = RDZV_GET, .key = bytes_of_text(ctl->args[0])};
    struct rdzv_bytes last = {0};
    enum rdzv_status status;

    do {
        const struct rdzv_result *result;

        status = rdzv_call(c, &op, &result);
        if (status == RDZV_OK) {
            print_change(ctl, &result->value, &last);
            ctl_pause(interval < 10 ? 10 : interval);
        } else if (status == RDZV_ABSENT) {
            status = wait_for_keys(c, ctl->args, 1, RDZV_FOREVER);
        }
    } while (status == RDZV_OK);
    free((void *)(uintptr_t)last.ptr);
    return store_failed(c, status);
}

/* --- set, add, delete --- */

/* Reads all of standard input; the caller frees it. NULL: it failed, and has printed an error. */
static char *read_input(size_t *len)
{
    char *bytes = NULL, part[16384];
    size_t n;
    FILE *out = ctl_memory(open_memstream(&bytes, len));
    int error;

    while ((n = fread(part, 1, sizeof part, stdin)) > 0)
        ctl_memory(fwrite(part, 1, n, out) == n ? out : NULL);
    error = ferror(stdin) ? errno : 0;
    ctl_memory(fclose(out) == 0 ? bytes : NULL);
    if (error == 0)
        return bytes;
    ctl_say(CTL_FAILED, "standard input: %s; nothing was set", strerror(error));
    free(bytes);
    return NULL;
}

enum ctl_exit run_set(const struct ctl *ctl, struct rdzv_client *c)
{
    struct rdzv_op op = {.kind = RDZV_SET, .key = bytes_of_text(ctl->args[0])};
    enum ctl_exit code;
    char *input = NULL;

    op.value = bytes_of_text(ctl->args[1]);
    if (strcmp(ctl->args[1], "-") == 0) {
        input = read_input(&op.value.len);
        op.value.ptr = input;
        if (input == NULL)
            return CTL_FAILED;
    }
    code = store_failed(c, rdzv_call(c, &op, NULL));
    free(input);
    return code;
}

static bool parse_addend(const char *text, int64_t *out)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0)
        return false;
    *out = v;
    return true;
}

enum ctl_exit run_add(const struct ctl *ctl, struct rdzv_client *c)
{
    struct rdzv_op op = {.kind = RDZV_ADD, .key = bytes_of_text(ctl->args[0]), .number = 1};
    const struct rdzv_result *result;
    enum ctl_exit code;

    if (ctl->arg_count > 1 && !parse_addend(ctl->args[1], &op.number))
        return ctl_say(CTL_USAGE, "%s is no number of 64 bits", ctl->args[1]);
    code = store_failed(c, rdzv_call(c, &op, &result));
    if (code == CTL_FINE)
        printf("%lld\n", (long long)result->number);
    else if (code == CTL_UNREACHABLE)
        fputs("rdzvctl: a store closes the connection when the value is no number\n", stderr);
    return code;
}

enum ctl_exit run_delete(const struct ctl *ctl, struct rdzv_client *c)
{
    enum ctl_exit code = CTL_FINE;

    for (size_t i = 0; i < ctl->arg_count && code <= CTL_MISSING; i++) {
        const struct rdzv_op op = {.kind = RDZV_DELETE, .key = bytes_of_text(ctl->args[i])};
        enum rdzv_status status = rdzv_call(c, &op, NULL);
        enum ctl_exit one = store_failed(c, status);

        if (status == RDZV_OK)
            print_bytes(&op.key);
        code = one > code ? one : code;
    }
    return code;
}
