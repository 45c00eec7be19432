/* Clients that write to an etcd v3 directly: what a journal there is measured against. Each has a
 * connection of its own and DEPTH transactions under way, of one comparison and one put.
 *
 *     bench_etcd3 HOST:PORT CONNECTIONS DEPTH SECONDS        prints rps=N p50_us=N p99_us=N */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdzv/engine/clock.h"
#include "rdzv/etcd3/grpc.h"
#include "rdzv/etcd3/message.h"

#define CLIENTS_MAX 1024
#define DEPTH_MAX   64
#define TIMES_MAX   (1u << 22)

struct client;

struct exchange {
    struct client *client;
    struct grpc_call call;
    uint64_t sent_ns;
};

struct client {
    struct grpc *grpc;
    struct message message;
    struct exchange exchanges[DEPTH_MAX];
};

static struct client clients[CLIENTS_MAX];
static size_t depth;
static uint32_t times_us[TIMES_MAX];
static size_t done;
static bool counts;

static void begin(struct exchange *x);

static void on_answer(void *arg, const struct grpc_answer *a)
{
    struct exchange *x = arg;
    uint64_t took_ns = clock_monotonic_ns(&clock_system) - x->sent_ns;

    if (a->code != 0) {
        fprintf(stderr, "bench_etcd3: %s\n", a->text);
        exit(1);
    }
    if (counts && done < TIMES_MAX)
        times_us[done++] = (uint32_t)(took_ns / 1000);
    begin(x);
}

static void begin(struct exchange *x)
{
    x->sent_ns = clock_monotonic_ns(&clock_system);
    x->call.tell = on_answer;
    x->call.arg = x;
    if (!grpc_start(x->client->grpc, &x->call, etcd_txn.path, message_bytes(&x->client->message),
                    10000)) {
        fprintf(stderr, "bench_etcd3: a call could not be started\n");
        exit(1);
    }
}

static void on_link(void *arg, bool up)
{
    struct client *c = arg;

    for (size_t i = 0; i < depth && up; i++) {
        c->exchanges[i].client = c;
        begin(&c->exchanges[i]);
    }
}

static void connect_client(struct event_base *base, const struct upstream_spec *to, size_t i)
{
    static const struct certificate plain;
    const struct grpc_options options = {.base = base,
                                         .tls = &plain,
                                         .endpoints = to,
                                         .endpoint_count = 1,
                                         .clock = &clock_system,
                                         .link = on_link,
                                         .arg = &clients[i]};
    char key[40];
    struct txn t;

    snprintf(key, sizeof key, "/bench/%zu", i);
    txn_init(&t);
    txn_if_created(&t, slice_str("/bench/absent"), 0);
    txn_put(&t.yes, slice_str(key), slice_str("12345678"), 0);
    if (!txn_write(&t, &clients[i].message))
        abort();
    clients[i].grpc = grpc_new(&options);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void run(struct event_base *base, double seconds)
{
    struct timeval t = {.tv_sec = (time_t)seconds,
                        .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};

    event_base_loopexit(base, &t);
    event_base_dispatch(base);
}

int main(int argc, char **argv)
{
    struct event_base *base = event_base_new();
    const char *colon = argc == 5 ? strrchr(argv[1], ':') : NULL;
    size_t count = argc == 5 ? strtoul(argv[2], NULL, 10) : 0;
    double seconds = argc == 5 ? strtod(argv[4], NULL) : 0;
    struct upstream_spec to;

    depth = argc == 5 ? strtoul(argv[3], NULL, 10) : 0;
    if (colon == NULL || count == 0 || count > CLIENTS_MAX || depth == 0 || depth > DEPTH_MAX ||
        !(seconds > 0)) {
        fprintf(stderr, "usage: bench_etcd3 HOST:PORT CONNECTIONS DEPTH SECONDS\n");
        return 2;
    }
    to = (struct upstream_spec){.host = strndup(argv[1], (size_t)(colon - argv[1])),
                                .port = (uint16_t)strtoul(colon + 1, NULL, 10)};
    for (size_t i = 0; i < count; i++)
        connect_client(base, &to, i);
    run(base, 0.5); /* until all are at work */
    counts = true;
    run(base, seconds);
    qsort(times_us, done, sizeof times_us[0], compare);
    printf("rps=%.0f p50_us=%u p99_us=%u\n", (double)done / seconds, times_us[done / 2],
           times_us[done * 99 / 100]);
    return done == 0;
}
