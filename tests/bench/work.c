/* What the clients of rdzv-bench ask: single operations, and the requests of torch's start, of
 * NCCL, gloo and etcd's clients. See bench.h. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"

#define KEY_MAX      4096
#define ANSWER_MAX   (64u << 20)
#define NCCL_ID_LEN  128
#define RANKS_A_ROOT 128
#define DUMP_KEY     "/exception_dump"

/* An answer of etcd's: its headers (about 300 bytes), and a body that has the key and the value,
 * twice in the answer to a PUT. */
#define ETCD_ANSWER_MAX (4096 + 2 * (bench.options.key_len + bench.options.value_len))

static const uint8_t filler[64u << 10] = "value";

static struct slice value(void)
{
    return (struct slice){filler, bench.options.value_len};
}

/* "/bench/000042" and as many letters as make the length: all keys have the same length, so all
 * requests have, too. */
static struct slice key_below(const char *folder, const struct client *c)
{
    static char key[KEY_MAX];
    int n = snprintf(key, sizeof key, "%s%06u", folder, c->index % bench.options.keys);

    memset(key + n, 'k', bench.options.key_len - (size_t)n);
    return (struct slice){(const uint8_t *)key, bench.options.key_len};
}

static struct slice own_key(const struct client *c)
{
    return key_below("/bench/", c);
}

/* A key of this phase. */
static struct slice phase_key(const char *name, unsigned i)
{
    static char key[128];
    int n = snprintf(key, sizeof key, "/default_pg/%u-%u/%s%u", bench.options.source, bench.phase,
                     name, i);

    return (struct slice){(const uint8_t *)key, (size_t)n};
}

/* --- Requests. --- */

static void list_grow(struct writer *w, size_t len)
{
    w->cap = len * 2;
    w->ptr = need(realloc(w->ptr, w->cap));
}

static void ask_key(struct client *c, enum c10d_op op, struct slice key)
{
    ask(c, &(struct c10d_request){.op = op, .key = key, .number = 1});
}

static void ask_value(struct client *c, enum c10d_op op, struct slice key, struct slice v)
{
    ask(c, &(struct c10d_request){.op = op, .key = key, .value = v, .expected = v});
}

/* CHECK or WAIT of one key. */
static void ask_one(struct client *c, enum c10d_op op, struct slice key)
{
    uint8_t item[KEY_MAX + 8];
    struct writer w = {.ptr = item, .cap = sizeof item};

    c10d_write_blob(&w, key);
    ask(c, &(struct c10d_request){.op = op, .count = 1, .items = {item, w.len}});
}

/* So many keys of that name, which are the same in all requests of a phase. */
static void ask_list(struct client *c, enum c10d_op op, const char *name, unsigned count)
{
    static struct writer items, requests[C10D_OP_COUNT];
    static unsigned counts[C10D_OP_COUNT], phases[C10D_OP_COUNT];
    struct writer *w = &requests[op];

    if (counts[op] != count || phases[op] != bench.phase) {
        items.len = w->len = 0;
        items.grow = w->grow = list_grow;
        for (unsigned i = 0; i < count; i++) {
            c10d_write_blob(&items, phase_key(name, i));
            if (op == C10D_MULTI_SET)
                c10d_write_blob(&items, value());
        }
        c10d_write_request(
            w, &(struct c10d_request){.op = op, .count = count, .items = {items.ptr, items.len}});
        counts[op] = count;
        phases[op] = bench.phase;
    }
    ask_written(c, op, count, (struct slice){w->ptr, w->len});
}

/* --- Single operations. --- */

static bool add_next(struct client *c, struct slice)
{
    ask_key(c, C10D_ADD, key_below("/count/", c)); /* other works write texts */
    return true;
}

static bool get_next(struct client *c, struct slice)
{
    ask_key(c, C10D_GET, own_key(c));
    return true;
}

static bool set_get_next(struct client *c, struct slice)
{
    ask_value(c, C10D_SET, own_key(c), value());
    ask_key(c, C10D_GET, own_key(c));
    return true;
}

static bool set_next(struct client *c, struct slice)
{
    ask_value(c, C10D_SET, own_key(c), value());
    ask_one(c, C10D_CHECK, own_key(c));
    return true;
}

static bool check_next(struct client *c, struct slice)
{
    ask_one(c, C10D_CHECK, own_key(c));
    return true;
}

static bool wait_next(struct client *c, struct slice)
{
    ask_one(c, C10D_WAIT, own_key(c));
    return true;
}

static bool compare_set_next(struct client *c, struct slice)
{
    ask_value(c, C10D_COMPARE_SET, own_key(c), value());
    return true;
}

static bool append_next(struct client *c, struct slice)
{
    ask_value(c, C10D_APPEND, own_key(c), value());
    ask_key(c, C10D_DELETE_KEY, own_key(c));
    return true;
}

static bool queue_next(struct client *c, struct slice)
{
    ask_value(c, C10D_QUEUE_PUSH, own_key(c), value());
    ask_key(c, C10D_QUEUE_POP, own_key(c));
    return true;
}

static bool num_keys_next(struct client *c, struct slice)
{
    ask(c, &(struct c10d_request){.op = C10D_GETNUMKEYS});
    return true;
}

static bool multi_set_next(struct client *c, struct slice)
{
    bench.phase = 0;
    ask_list(c, C10D_MULTI_SET, "many/", bench.options.batch);
    ask_one(c, C10D_CHECK, phase_key("many/", 0));
    return true;
}

static bool multi_get_next(struct client *c, struct slice)
{
    bench.phase = 0;
    ask_list(c, C10D_MULTI_GET, "many/", bench.options.batch);
    return true;
}

/* Three GETs, two CHECKs, an ADD, a SET, a COMPARE_SET and a WAIT. */
static bool mixed_next(struct client *c, struct slice answer)
{
    switch (c->step % 8) {
    case 0:
        return set_next(c, answer);
    case 1:
        return compare_set_next(c, answer);
    case 2:
        return wait_next(c, answer);
    case 3:
        ask_key(c, C10D_ADD, slice_str("/bench/sum"));
        return true;
    case 4:
        return check_next(c, answer);
    default:
        return get_next(c, answer);
    }
}

/* --- What jobs do. --- */

/* A rank has connected, and counts itself. */
static bool init_next(struct client *c, struct slice)
{
    if (c->step == 0)
        ask_key(c, C10D_ADD, slice_str("init/"));
    return c->step == 0;
}

/* A worker starts: ADD of init/, its own key of gloo, and the key of rank 0. */
static bool open_next(struct client *c, struct slice)
{
    switch (c->step) {
    case 0:
        ask_key(c, C10D_ADD, slice_str("init/"));
        return true;
    case 1:
        ask_value(c, C10D_SET, phase_key("/cpu//0/", c->index), (struct slice){filler, 154});
        ask_one(c, C10D_WAIT, phase_key("/cpu//0/", 0));
        return true;
    case 2:
        ask_one(c, C10D_WAIT, phase_key("/cpu//0/", 0));
        return true;
    case 3:
        ask_key(c, C10D_GET, phase_key("/cpu//0/", 0));
        return true;
    default:
        return false;
    }
}

/* NCCL: rank 0 sets the id, the others wait for it and read it. */
static bool id_next(struct client *c, struct slice)
{
    struct slice key = phase_key("/cuda//", 0);

    if (c->step == 0 && c->index == 0)
        ask_value(c, C10D_SET, key, (struct slice){filler, NCCL_ID_LEN});
    else if (c->step == 0)
        ask_one(c, C10D_WAIT, key);
    else if (c->step == 1)
        ask_key(c, C10D_GET, key);
    return c->index != 0 && c->step < 2;
}

/* NCCL with one root for each 128 ranks: all ranks read the ids of all roots. */
static bool ids_next(struct client *c, struct slice)
{
    unsigned roots = (bench.options.clients + RANKS_A_ROOT - 1) / RANKS_A_ROOT;
    char name[] = "/cuda//UniqueNCCLID:";

    if (c->step == 0 && c->index % RANKS_A_ROOT == 0)
        ask_value(c, C10D_SET, phase_key(name, c->index / RANKS_A_ROOT),
                  (struct slice){filler, NCCL_ID_LEN});
    if (c->step < 2)
        ask_list(c, c->step == 0 ? C10D_WAIT : C10D_MULTI_GET, name, roots);
    return c->step < 2;
}

/* gloo: each rank sets its addresses, and reads the addresses of each other rank after two WAITs.
 */
static bool mesh_next(struct client *c, struct slice)
{
    unsigned step = c->step, peer = step / 3;

    if (step == 0)
        ask_value(c, C10D_SET, phase_key("/mesh/", c->index),
                  (struct slice){filler, 154 + 8 * (size_t)bench.options.clients});
    if (peer >= bench.options.clients)
        return false;
    if (step % 3 < 2)
        ask_one(c, C10D_WAIT, phase_key("/mesh/", peer));
    else
        ask_key(c, C10D_GET, phase_key("/mesh/", peer));
    return true;
}

static bool barrier_next(struct client *c, struct slice)
{
    if (c->step > 0)
        return false;
    ask(c, &(struct c10d_request){
               .op = C10D_BARRIER, .key = phase_key("/bar", 0), .number = bench.options.clients});
    return true;
}

/* The barrier of torch before it had BARRIER: the last that arrives sets a key. */
static bool store_barrier_next(struct client *c, struct slice answer)
{
    if (c->step == 0) {
        ask_key(c, C10D_ADD, phase_key("/count", 0));
    } else if (c->step == 1) {
        if (bytes_get_u32(answer.ptr) == bench.options.clients)
            ask_value(c, C10D_SET, phase_key("/last", 0), slice_str("1"));
        ask_one(c, C10D_WAIT, phase_key("/last", 0));
    }
    return c->step < 2;
}

void work_awaited_key(char key[64])
{
    struct slice s = phase_key("wake", 0);

    snprintf(key, 64, "%.*s", (int)s.len, (const char *)s.ptr);
}

static bool wake_next(struct client *c, struct slice)
{
    if (c->step == 0)
        ask_one(c, C10D_WAIT, phase_key("wake", 0));
    return c->step == 0;
}

/* The HeartbeatMonitor of each rank looks once a second whether a rank has failed. */
static bool rest_next(struct client *c, struct slice)
{
    ask_one(c, C10D_CHECK, slice_str(DUMP_KEY));
    return true;
}

/* --- etcd v2. --- */

static void ask_http(struct client *c, const char *method, struct slice key, const char *query,
                     size_t body_len)
{
    char head[KEY_MAX + 256];
    int n = snprintf(head, sizeof head, "%s /v2/keys%.*s%s HTTP/1.1\r\nHost: 127.0.0.1\r\n", method,
                     (int)key.len, (const char *)key.ptr, query);

    if (body_len > 0)
        n += snprintf(head + n, sizeof head - (size_t)n,
                      "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %zu\r\n",
                      body_len);
    memcpy(head + n, "\r\n", 2);
    ask_bytes(c, head, (size_t)n + 2);
}

static void put_form(struct client *c, const char *name)
{
    char *text = need(malloc(bench.options.value_len));

    memset(text, 'v', bench.options.value_len);
    ask_bytes(c, name, strlen(name));
    ask_bytes(c, text, bench.options.value_len);
    free(text);
}

static bool etcd_get_next(struct client *c, struct slice)
{
    ask_http(c, "GET", own_key(c), "", 0);
    return true;
}

static bool etcd_put_next(struct client *c, struct slice)
{
    ask_http(c, "PUT", own_key(c), "", strlen("value=") + bench.options.value_len);
    put_form(c, "value=");
    return true;
}

static bool etcd_cas_next(struct client *c, struct slice)
{
    ask_http(c, "PUT", own_key(c), "", strlen("value=&prevValue=") + 2 * bench.options.value_len);
    put_form(c, "value=");
    put_form(c, "&prevValue=");
    return true;
}

static bool etcd_watch_next(struct client *c, struct slice)
{
    if (c->step == 0)
        ask_http(c, "GET", phase_key("wake", 0), "?wait=true", 0);
    return c->step == 0;
}

/* --- Other stores of small values, as yardsticks: their ADD. --- */

static bool redis_incr_next(struct client *c, struct slice)
{
    char text[KEY_MAX];
    int n = snprintf(text, sizeof text, "*2\r\n$4\r\nINCR\r\n$8\r\nb/%06u\r\n",
                     c->index % bench.options.keys);

    ask_bytes(c, text, (size_t)n);
    return true;
}

static bool memcached_set_next(struct client *c, struct slice)
{
    char text[64];
    int n = snprintf(text, sizeof text, "set b/%06u 0 0 1\r\n0\r\n", c->index % bench.options.keys);

    ask_bytes(c, text, (size_t)n);
    return true;
}

static bool memcached_incr_next(struct client *c, struct slice)
{
    char text[64];
    int n = snprintf(text, sizeof text, "incr b/%06u 1\r\n", c->index % bench.options.keys);

    ask_bytes(c, text, (size_t)n);
    return true;
}

/* --- The table. --- */

#define OPERATION (WORK_REPEATS | WORK_SAME)

static const struct work works[] = {
    {"add", OPERATION, 1, add_next, NULL},
    {"get", OPERATION, 1, get_next, "set-get"},
    {"set-get", OPERATION, 2, set_get_next, NULL},
    {"set", OPERATION, 2, set_next, NULL},
    {"check", OPERATION, 1, check_next, "set-get"},
    {"wait", OPERATION, 1, wait_next, "set-get"},
    {"compare-set", OPERATION, 1, compare_set_next, "set-get"},
    {"append", OPERATION | WORK_MODERN, 2, append_next, NULL},
    {"queue", OPERATION | WORK_MODERN, 2, queue_next, NULL},
    {"num-keys", OPERATION, 1, num_keys_next, NULL},
    {"multi-set", WORK_REPEATS | WORK_MODERN, 2, multi_set_next, NULL},
    {"multi-get", WORK_REPEATS | WORK_MODERN, 1, multi_get_next, "multi-set"},
    {"mixed", WORK_REPEATS, 1.125, mixed_next, "set-get"},
    {"init", 0, 1, init_next, NULL},
    {"open", 0, 5, open_next, NULL},
    {"id", 0, 2, id_next, NULL},
    {"ids", WORK_MODERN, 2, ids_next, NULL},
    {"mesh", 0, WORK_EACH_OTHER, mesh_next, NULL},
    {"barrier", WORK_MODERN, 1, barrier_next, NULL},
    {"store-barrier", 0, 2, store_barrier_next, NULL},
    {"wake", WORK_PARKS, 1, wake_next, NULL},
    {"rest", WORK_RESTS, 1, rest_next, NULL},
    {"join", WORK_AGENTS, 0, NULL, NULL},
    {"steady", WORK_AGENTS, 0, NULL, NULL},
    {"again", WORK_AGENTS, 0, NULL, NULL},
    {"idle", WORK_IDLES, 0, NULL, NULL},
    {"leave", WORK_IDLES, 0, NULL, NULL},
    {"etcd-get", OPERATION | WORK_HTTP, 1, etcd_get_next, "etcd-put"},
    {"etcd-put", OPERATION | WORK_HTTP, 1, etcd_put_next, NULL},
    {"etcd-cas", OPERATION | WORK_HTTP, 1, etcd_cas_next, "etcd-put"},
    {"etcd-watch", WORK_PARKS | WORK_HTTP, 1, etcd_watch_next, NULL},
    {"redis-incr", OPERATION | WORK_TEXT, 1, redis_incr_next, NULL},
    {"memcached-set", OPERATION | WORK_TEXT, 1, memcached_set_next, NULL},
    {"memcached-incr", OPERATION | WORK_TEXT, 1, memcached_incr_next, "memcached-set"},
    {"etcd3-txn", WORK_REPEATS | WORK_GRPC, 1, etcd3_next, NULL},
};

const struct work *work_find(const char *name)
{
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
        if (strcmp(works[i].name, name) == 0)
            return &works[i];
    }
    return NULL;
}

void work_list(void)
{
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++)
        printf(" %s", works[i].name);
    printf("\n");
}

/* --- Answers. --- */

size_t work_answer_size(const struct work *w)
{
    if (w->next == add_next)
        return sizeof(int64_t);
    if (w->next == get_next || w->next == set_get_next)
        return sizeof(uint64_t) + bench.options.value_len;
    return w->next == check_next || w->next == wait_next || w->next == set_next ||
           w->next == barrier_next;
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

/* The end of the body that begins there: of a known length, or of one chunk. */
static size_t http_body_end(const char *head, const char *body, size_t len)
{
    size_t at = (size_t)(body - head);
    long size = content_length(head, body - 2);
    const char *last;

    if (size >= 0)
        return at + (size_t)size <= len ? at + (size_t)size : 0;
    last = memmem(body, len - at, "0\r\n\r\n", 5);
    return last == NULL ? 0 : (size_t)(last - head) + 5;
}

static size_t http_answer_end(const uint8_t *in, size_t len)
{
    const char *head = (const char *)in;
    const char *end = memmem(head, len, "\r\n\r\n", 4);

    if (len > ETCD_ANSWER_MAX * bench.options.depth)
        errx(1, "the HTTP answer is too long");
    if (end == NULL)
        return 0;
    if (memcmp(head, "HTTP/1.1 20", strlen("HTTP/1.1 20")) != 0)
        errx(1, "the HTTP answer is neither 200 nor 201: %.*s", (int)len, head);
    return http_body_end(head, end + 4, len);
}

static size_t text_answer_end(const uint8_t *in, size_t len)
{
    const uint8_t *end = memchr(in, '\n', len);

    if (in[0] == '-' || in[0] == 'E' || in[0] == 'N')
        errx(1, "an error: %.*s", (int)len, (const char *)in);
    return end == NULL ? 0 : (size_t)(end - in) + 1;
}

static void check_reply(const struct client *c, const struct c10d_reply *reply)
{
    if (c->agent == NULL && c->op == C10D_GET && bench.work->flags & WORK_SAME &&
        reply->value.len != bench.options.value_len)
        errx(1, "GET returns a value of another length than was set");
}

size_t work_answer_end(const struct client *c, const uint8_t *in, size_t len)
{
    static const struct c10d_reply_limits limits = {.value_max = ANSWER_MAX,
                                                    .reply_max = ANSWER_MAX};
    struct c10d_progress progress = {0};
    struct c10d_reply reply;
    size_t size;

    if (c->agent == NULL && bench.work->flags & WORK_HTTP)
        return http_answer_end(in, len);
    if (c->agent == NULL && bench.work->flags & WORK_TEXT)
        return text_answer_end(in, len);
    if (c->agent == NULL && bench.work->flags & WORK_GRPC)
        return etcd3_answer_end(c, in, len);
    switch (c10d_parse_reply((struct slice){in, len}, (enum c10d_op)c->op, c->asked, &limits,
                             &progress, &reply, &size)) {
    case PARSE_DONE:
        check_reply(c, &reply);
        return size;
    case PARSE_MORE:
        return 0;
    default:
        errx(1, "no answer of c10d");
    }
}
