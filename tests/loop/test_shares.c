/* What one client's requests may take of an iteration, by the real clock: slow ones, large
 * values, runs that are due; and what is deferred goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/loop/harness.h"
#include "tests/loop/requests.h"

/* --- Budgets. --- */

/* Costly requests with small answers do not keep other peers waiting: a peer that has used its
 * budget goes on in the next iteration, and in the end all of them are answered. */
static void one_peer_does_not_take_the_time_of_others(void **state)
{
    static const char heads[] = "HEAD /v2/keys/d?recursive=true HTTP/1.1\r\nHost: x\r\n\r\n";
    static const uint8_t ping[] = {0x00, 0xce, 0xf7, 0x85, 0x3c, 0x0d, 1, 2, 3, 4};
    char value[4096], all[20 * (sizeof heads - 1)];
    int greedy, modest;

    (void)state;
    memset(value, 'v', sizeof value);
    for (int i = 0; i < 1000; i++) { /* 4 MB to render for each HEAD */
        char path[32];
        struct command c = {.kind = COMMAND_TREE_SET, .now_ns = 1};
        struct store_result r;

        snprintf(path, sizeof path, "/d/%d", i);
        c.key = slice_str(path);
        c.value = (struct slice){(const uint8_t *)value, sizeof value};
        engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &c, &r);
        assert_int_equal(r.tree.code, ETCD_OK);
    }
    greedy = loop_connect(&loop, false);
    modest = loop_connect(&loop, false);
    for (int i = 0; i < 20; i++)
        memcpy(all + (size_t)i * (sizeof heads - 1), heads, sizeof heads - 1);
    loop_send(&loop, greedy, all, sizeof all); /* and one iteration, as with each sending */
    loop_send(&loop, modest, ping, sizeof ping);
    loop_expect(&loop, modest, ping + 6, 4);
    assert_in_range(loop.server.engine.stats.http_requests, 0, 12); /* the ping may arrive late */
    LOOP_UNTIL(&loop, loop.server.engine.stats.http_requests == 20);
    LOOP_UNTIL(&loop, loop_conn(&loop, greedy)->input != INPUT_DEFERRED);
    loop_leave(&loop, greedy);
    loop_leave(&loop, modest);
}

/* Short requests that walk many keys, or are answered with many bytes, are charged for that. */
static void what_a_request_walks_is_charged(void **state)
{
    static const char metrics[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char append[] = "\11\x13\0\0\0\0\0\0\0/torch.rendezvous.j\4\0\0\0\0\0\0\0AAAA";
    static char value[300001];
    enum { KEYS = 5000, TIMES = 200 };
    char appends[TIMES * (sizeof append - 1)];
    uint8_t lists[TIMES], gets[TIMES * 11];
    char all[TIMES * (sizeof metrics - 1)];
    uint64_t before;
    int greedy, modest;

    (void)state;
    modest = loop_connect_modern(&loop);
    for (int i = 0; i < KEYS; i++) {
        char key[32];

        snprintf(key, sizeof key, "%d", i);
        loop_set_key(&loop, key, "");
    }
    greedy = loop_connect_modern(&loop);
    memset(lists, 0x11, sizeof lists);
    before = stats_c10d_requests(&loop.server.engine.stats);
    loop_send(&loop, greedy, lists, sizeof lists); /* and one iteration */
    assert_in_range(stats_c10d_requests(&loop.server.engine.stats) - before, 1, 4);
    loop_send(&loop, modest, TEXT(PING));
    loop_expect(&loop, modest, "abcd", 4);
    loop_leave(&loop, greedy);

    loop_set_large(&loop, modest, 300000);
    greedy = loop_connect_modern(&loop);
    for (int i = 0; i < TIMES; i++)
        memcpy(gets + (size_t)i * 11, GET_K, 11);
    before = stats_c10d_requests(&loop.server.engine.stats);
    loop_send(&loop, greedy, gets, sizeof gets);
    assert_in_range(stats_c10d_requests(&loop.server.engine.stats) - before, 1, 4);
    loop_send(&loop, modest, TEXT(PING));
    loop_expect(&loop, modest, "abcd", 4);
    loop_leave(&loop, greedy);

    memset(value, 'A', sizeof value - 1);
    memcpy(value, "gASV", 4);
    loop_set_key(&loop, "/torch.rendezvous.j", value);
    greedy = loop_connect_modern(&loop);
    for (size_t i = 0; i < TIMES; i++)
        memcpy(appends + i * (sizeof append - 1), append, sizeof append - 1);
    before = stats_c10d_requests(&loop.server.engine.stats);
    loop_send(&loop, greedy, appends, sizeof appends);
    assert_in_range(stats_c10d_requests(&loop.server.engine.stats) - before, 1, 4);
    loop_leave(&loop, greedy);

    greedy = loop_connect(&loop, false);
    for (size_t i = 0; i < TIMES; i++)
        memcpy(all + i * (sizeof metrics - 1), metrics, sizeof metrics - 1);
    loop_send(&loop, greedy, all, sizeof all);
    assert_in_range(loop.server.engine.stats.http_requests, 1, 32);
    loop_send(&loop, modest, TEXT(PING));
    loop_expect(&loop, modest, "abcd", 4);
    loop_leave(&loop, greedy);
    loop_leave(&loop, modest);
}

/* --- Bodies. --- */

static uint64_t http_requests(void)
{
    return loop.server.engine.stats.http_requests;
}

static void expect_status(int fd, unsigned status)
{
    char body[256];

    assert_int_equal(loop_expect_answer(&loop, fd, body, sizeof body), status);
}

/* Costly requests with a body wait for their turn, whichever way their length is told, and no
 * answer comes out of order. */
static void bodies_wait_in_order(void **state)
{
    static const char requests[] = "POST /v2/members HTTP/1.1\r\nHost: x\r\n"
                                   "Content-Type: application/json\r\nContent-Length: 27\r\n\r\n"
                                   "{\"peerURLs\":[\"http://a:1\"]}"
                                   "GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
                                   "POST /v2/members HTTP/1.1\r\nHost: x\r\n"
                                   "Content-Type: application/json\r\n"
                                   "Transfer-Encoding: chunked\r\n\r\n"
                                   "10\r\n{\"peerURLs\":[\"ht\r\nb\r\ntp://a:1\"]}\r\n0\r\n\r\n";
    int fd;

    (void)state;
    fd = loop_connect(&loop, false);
    for (int i = 0; i < 4; i++)
        loop_send_text(&loop, fd, requests);
    for (int i = 0; i < 4; i++) {
        expect_status(fd, 409); /* no change of members is carried out */
        expect_status(fd, 200);
        expect_status(fd, 409);
    }
    loop_leave(&loop, fd);
}

/* --- Large values. --- */

/* GETs of one large value go on side by side, in slices: each writes it as JSON. */
static void gets_of_a_large_value_are_sliced(void **state)
{
    enum { CLIENTS = 5, LEN = 1100000 };
    const struct tree *t;
    struct command c = {.kind = COMMAND_TREE_SET, .key = slice_str("/large"), .now_ns = 1};
    char *value = calloc(1, LEN);
    struct store_result r;
    int clients[CLIENTS];

    (void)state;
    assert_non_null(value);
    t = &TAILQ_FIRST(&loop.server.engine.spaces)->store->tree;
    c.value = (struct slice){(uint8_t *)value, LEN};
    engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &c, &r);
    assert_int_equal(r.tree.code, ETCD_OK);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = loop_connect(&loop, false);
    for (int i = 0; i < CLIENTS; i++) {
        static const char get[] = "GET /v2/keys/large HTTP/1.1\r\nHost: x\r\n\r\n";

        assert_int_equal(write(clients[i], get, strlen(get)), strlen(get));
    }
    for (int i = 0; i < 2; i++) { /* each takes a slice at most in an iteration, and needs some */
        loop_iterate(&loop);
        assert_int_equal(loop_conn(&loop, clients[0])->input, INPUT_DEFERRED);
    }
    assert_in_range(http_requests(), 1, CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        loop_expect(&loop, clients[i], TEXT("HTTP/1.1 200 OK\r\n"));
    assert_int_equal(http_requests(), CLIENTS);
    assert_int_equal(t->succeeded[TREE_GETS], CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        loop_leave(&loop, clients[i]);
    free(value);
}

/* MULTI_SET may name one key many times; the value that is there in the end is large. */
static void a_value_that_is_set_many_times_at_once_is_read_once(void **state)
{
    enum { TIMES = 1000, LEN = 300000 };
    static const char key[] = "/torch.rendezvous.j";
    struct command c = {.kind = COMMAND_KEY_MULTI_SET};
    size_t cap = TIMES * (16 + sizeof key) + LEN + 64;
    struct writer w = {.ptr = malloc(cap), .cap = cap};
    char *large = malloc(LEN + 1);
    struct store_result r;

    (void)state;
    assert_true(w.ptr != NULL && large != NULL);
    memset(large, 'A', LEN);
    memcpy(large, "gASV", 4);
    large[LEN] = '\0';
    loop_open(&loop, NULL);
    for (int i = 0; i <= TIMES; i++) {
        const char *pair[2] = {key, i == TIMES ? large : ""};

        for (size_t j = 0; j < 2; j++) {
            uint8_t len[8];

            bytes_put_u64(len, strlen(pair[j]));
            writer_put(&w, len, sizeof len);
            writer_str(&w, pair[j]);
        }
    }
    assert_true(w.len <= w.cap);
    c.items = (struct slice){w.ptr, w.len};
    engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &c, &r);
    assert_int_equal(r.status, STORE_OK);
    assert_in_range(loop.server.engine.work, LEN, 2 * LEN);
    loop_close(&loop);
    free(large);
    free(w.ptr);
}

/* --- Runs. --- */

/* Makes runs without agents. */
static void make_runs(int count)
{
    for (int i = 0; i < count; i++) {
        char key[64];

        snprintf(key, sizeof key, "/torch.rendezvous.%d", i);
        loop_set_key(&loop, key, "Y2FuaW1hZGFt");
    }
}

static size_t runs_due_within(const struct expiry *due, uint64_t now_ms, uint64_t ms)
{
    size_t count = 0;

    for (size_t i = 0; i < due->count; i++)
        count += due->heap[i]->at_ns <= (int64_t)(now_ms + ms) * 1000000;
    return count;
}

/* A client may make many runs with one connection: runs without agents cost a tick no time until
 * they are due. */
static void a_tick_looks_at_runs_that_are_due(void **state)
{
    const struct expiry *due = &loop.server.store.rendezvous.due;
    uint64_t now_ms;
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    make_runs(500);
    now_ms = engine_now_ms(&loop.server.engine);
    assert_int_equal(due->count, 500);
    assert_int_equal(runs_due_within(due, now_ms, 3600 * 1000), 0);
    fd = loop_connect_modern(&loop);
    loop_send(&loop, fd,
              TEXT("\2\x13\0\0\0\0\0\0\0/torch.rendezvous.7\0\0\0\0\0\0\0\0"
                   "\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt"));
    loop_expect(&loop, fd, TEXT("\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt"));
    assert_int_equal(runs_due_within(due, now_ms, 3600 * 1000), 1);
    rendezvous_tick(&loop.server.store.rendezvous);
    assert_int_equal(runs_due_within(due, now_ms, 3600 * 1000), 1); /* at the next tick again */
    loop_leave(&loop, fd);
    assert_int_equal(runs_due_within(due, now_ms, RUN_LEFT_MS - 1), 0);
    assert_int_equal(runs_due_within(due, now_ms, 3600 * 1000),
                     1); /* then it is reported as left */
    loop_close(&loop);
    assert_int_equal(due->count, 0);
}

/* A tick that finds many runs due goes on in the next iterations. */
static void many_runs_that_are_due_share_iterations(void **state)
{
    static const char *const flags[] = {"--idle-run-ttl", "1ms", NULL};
    const struct expiry *due = &loop.server.store.rendezvous.due;
    uint64_t ended_ms;

    (void)state;
    loop_open(&loop, flags);
    make_runs(500);
    ended_ms = engine_now_ms(&loop.server.engine) + 2;
    while (engine_now_ms(&loop.server.engine) < ended_ms)
        continue;
    rendezvous_tick(&loop.server.store.rendezvous);
    assert_in_range(due->count, 100, 499);
    LOOP_UNTIL(&loop, due->count == 0);
    loop_close(&loop);
}

/* The run exists until all of its keys are deleted, because agents of the next run would take the
 * keys for their own. */
static void a_large_run_goes_over_many_iterations(void **state)
{
    static const char *const flags[] = {"--idle-run-ttl", "1ms", NULL};
    enum { KEYS = 3000, LEAST = 4, MOST = KEYS / LEAST };
    const struct keymap *keys;
    uint64_t ended_ms, left;

    (void)state;
    loop_open(&loop, flags);
    make_runs(1);
    keys = &TAILQ_FIRST(&loop.server.engine.store.spaces)->keys;
    for (int i = 0; i < KEYS; i++) {
        char key[64];

        snprintf(key, sizeof key, "/torch.rendezvous.0.1/%d", i);
        loop_set_key(&loop, key, "v");
    }
    ended_ms = engine_now_ms(&loop.server.engine) + 2;
    while (engine_now_ms(&loop.server.engine) < ended_ms)
        continue;
    rendezvous_tick(&loop.server.store.rendezvous);
    for (int i = 0; i < LEAST; i++) {
        left = keys->present;
        assert_in_range(left, 2, KEYS);
        loop_iterate(&loop);
        assert_in_range(keys->present, left - MOST, left - 1);
        assert_non_null(keymap_get(keys, slice_str("/torch.rendezvous.0")));
    }
    LOOP_UNTIL(&loop, keys->present == 0);
    loop_close(&loop);
}

/* --- Deferred connections. --- */

/* The next requests of a peer find its budget used up. */
static void use_up_budget(int fd)
{
    struct conn *c = loop_conn(&loop, fd);

    c->charged_in = (uint16_t)(loop.server.engine.stats.loop_iterations + 1);
    c->charged = CONN_BUDGET;
}

/* A deferred request may end the connection that is deferred last. The requests behind it wait for
 * the next iteration all the same, so each iteration ends. */
static void a_deferred_request_may_close_the_last_deferred_peer(void **state)
{
    static const char forget[] =
        "DELETE /rdzv/v1/spaces/default/runs/job HTTP/1.1\r\nHost: x\r\n"
        "Authorization: Bearer token\r\n\r\n"
        "GET /v2/keys/k HTTP/1.1\r\nHost: x\r\n\r\n"
        "GET /v2/keys/k HTTP/1.1\r\nHost: x\r\n\r\n"
        "GET /v2/keys/k HTTP/1.1\r\nHost: x\r\n\r\n" /* together as much as a budget */
        "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char join[] = "\2\x15\0\0\0\0\0\0\0/torch.rendezvous.job\0\0\0\0\0\0\0\0"
                               "\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt";
    static const char look[] = "\3\x15\0\0\0\0\0\0\0/torch.rendezvous.job";
    static char value[30 << 10];
    const struct command put = {.kind = COMMAND_TREE_SET,
                                .key = slice_str("/k"),
                                .value = {(uint8_t *)value, sizeof value}};
    struct store_result result;
    char body[256], flag[64];
    const char *const flags[] = {flag, NULL};
    int agent, http, token = memfd_create("token", MFD_CLOEXEC);

    (void)state;
    memset(value, 'v', sizeof value);
    assert_int_equal(write(token, "token", 5), 5);
    snprintf(flag, sizeof flag, "--admin-token-file=/proc/self/fd/%d", token);
    loop_open(&loop, flags);
    engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &put, &result);
    agent = loop_connect_modern(&loop);
    loop_send(&loop, agent, join, sizeof join - 1);
    loop_expect(&loop, agent, TEXT("\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt"));
    http = loop_connect(&loop, false);
    use_up_budget(http);
    loop_send(&loop, http, forget, sizeof forget - 1);
    /* Both are deferred now, and go on together. */
    assert_int_equal(loop_conn(&loop, http)->input, INPUT_DEFERRED);
    conn_set_input(loop_conn(&loop, http), INPUT_READY);
    conn_set_input(loop_conn(&loop, http), INPUT_DEFERRED);
    use_up_budget(agent);
    assert_int_equal(send(agent, look, sizeof look - 1, 0), sizeof look - 1);
    use_up_budget(http);
    loop_iterate(&loop);
    LOOP_UNTIL(&loop, loop_conn(&loop, agent) == NULL);
    assert_int_equal(loop_expect_answer(&loop, http, body, sizeof body), 200);
    assert_string_equal(body, "{\"run\":\"job\",\"removed\":1}\n");
    for (int i = 0; i < 4; i++)
        assert_int_equal(loop_expect_answer(&loop, http, body, sizeof body), 200);
    close(agent);
    loop_leave(&loop, http);
    loop_close(&loop);
    close(token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(one_peer_does_not_take_the_time_of_others),
        LOOP_TEST(what_a_request_walks_is_charged),
        LOOP_TEST(bodies_wait_in_order),
        LOOP_TEST(gets_of_a_large_value_are_sliced),
        cmocka_unit_test(a_value_that_is_set_many_times_at_once_is_read_once),
        cmocka_unit_test(a_tick_looks_at_runs_that_are_due),
        cmocka_unit_test(many_runs_that_are_due_share_iterations),
        cmocka_unit_test(a_large_run_goes_over_many_iterations),
        cmocka_unit_test(a_deferred_request_may_close_the_last_deferred_peer),
    };

    return cmocka_run_group_tests_name("rdzv/conn, shares", tests, NULL, NULL);
}
