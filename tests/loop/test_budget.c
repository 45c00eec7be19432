/* The work of one iteration, with a simulated clock: requests beyond its time wait for the next
 * iteration, in order, and fast requests do not wait for slow ones. */
#include "tests/loop/budget_scene.h"

/* --- Costly requests. --- */

/* Each request takes longer than the time for slow requests, so each iteration carries out one,
 * after the one that it continues. */
static void slow_requests_share_one_budget(void **state)
{
    enum { CLIENTS = 6 };
    const struct stats *stats = &loop.server.engine.stats;
    int fds[CLIENTS], fast;
    uint64_t before;

    (void)state;
    open_loop(NULL);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = loop_connect(&loop, false);
        tell(fds[i], TEXT(METRICS));
    }
    fast = loop_connect_modern(&loop);
    LOOP_UNTIL(&loop, stats->http_requests == CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        loop_expect_answer(&loop, fds[i], NULL, 0);
    before = stats->http_requests;
    step_ns = 2 * BUDGET_SLOW_NS;
    for (int i = 0; i < CLIENTS; i++)
        tell(fds[i], TEXT(METRICS METRICS));
    for (int round = 0; stats->http_requests < before + 2 * CLIENTS; round++) {
        uint64_t done = stats->http_requests;

        tell(fast, TEXT(PING));
        loop_iterate(&loop);
        assert_in_range(stats->http_requests - done, 0, 3); /* loop_iterate() may be two */
        loop_expect(&loop, fast, "abcd", 4);
        assert_in_range(round, 0, 100);
    }
    step_ns = 0;
    for (int i = 0; i < 2 * CLIENTS; i++)
        assert_int_equal(loop_expect_answer(&loop, fds[i % CLIENTS], NULL, 0), 200);
    for (int i = 0; i < CLIENTS; i++)
        loop_leave(&loop, fds[i]);
    loop_leave(&loop, fast);
    loop_close(&loop);
}

/* Two requests of one client do not both come before the one of the next. */
static void slow_requests_get_slices_in_turn(void **state)
{
    int first, second;
    bool together = false;

    (void)state;
    open_loop(NULL);
    set_keys(&loop.server.engine, 0, 2000);
    first = loop_connect_modern(&loop);
    second = loop_connect_modern(&loop);
    step_ns = 2 * BUDGET_SLOW_NS;
    tell(first, TEXT(LIST LIST LIST LIST LIST LIST LIST LIST PING));
    tell(second, TEXT(LIST PING));
    for (int i = 0; i < 100 && !together; i++) {
        char rest[65536];
        ssize_t n;

        loop_iterate(&loop);
        while ((n = recv(second, rest, sizeof rest, 0)) > 0)
            together = together || memcmp(rest + n - 4, "abcd", 4) == 0;
    }
    assert_true(together);
    assert_int_equal(loop_conn(&loop, first)->input, INPUT_DEFERRED);
    step_ns = 0;
    loop_leave(&loop, first);
    loop_leave(&loop, second);
    loop_close(&loop);
}

/* A body is read once, however long its request waits. */
static void a_request_with_a_body_waits_whole(void **state)
{
    static const char chunked[] = "PUT /v2/keys/c?recursive=true HTTP/1.1\r\nHost: x\r\n"
                                  "Content-Type: application/x-www-form-urlencoded\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\n"
                                  "6\r\nvalue=\r\n3\r\nabc\r\n0\r\n\r\n";
    static const char plain[] = "PUT /v2/keys/d?recursive=true HTTP/1.1\r\nHost: x\r\n"
                                "Content-Type: application/x-www-form-urlencoded\r\n"
                                "Content-Length: 9\r\n\r\nvalue=xyz";
    static const char unwanted[] = "GET /v2/keys/d?recursive=true HTTP/1.1\r\nHost: x\r\n"
                                   "Content-Length: 9\r\n\r\nvalue=xyz";
    char body[256];
    int busy, fd;

    (void)state;
    open_loop(NULL);
    busy = loop_connect(&loop, false);
    fd = loop_connect(&loop, false);
    step_ns = 2 * BUDGET_SLOW_NS;
    for (int i = 0; i < 20; i++)
        tell(busy, TEXT(METRICS));
    loop_iterate(&loop);
    tell(fd, TEXT(chunked));
    tell(fd, TEXT(plain));
    tell(fd, TEXT(unwanted));
    tell(fd, TEXT("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"));
    LOOP_UNTIL(&loop, loop_conn(&loop, fd)->slow);
    assert_int_equal(loop_expect_answer(&loop, fd, body, sizeof body), 201);
    assert_non_null(strstr(body, "\"value\":\"abc\""));
    assert_int_equal(loop_expect_answer(&loop, fd, body, sizeof body), 201);
    assert_non_null(strstr(body, "\"value\":\"xyz\""));
    assert_int_equal(loop_expect_answer(&loop, fd, body, sizeof body), 200);
    assert_non_null(strstr(body, "\"value\":\"xyz\""));
    assert_int_equal(loop_expect_answer(&loop, fd, body, sizeof body), 200);
    step_ns = 0;
    loop_leave(&loop, busy);
    loop_leave(&loop, fd);
    loop_close(&loop);
}

/* --- Many connections. --- */

/* The simulated clock ends the iteration at each reading: each iteration answers some of the
 * clients, and in the end all clients are answered. */
static void who_is_not_read_in_time_is_read_in_the_next_iteration(void **state)
{
    enum { CLIENTS = 200, REQUESTS = 120 }; /* of each about 10 us */
    static int fds[CLIENTS];
    char pings[5 * REQUESTS], pongs[4 * REQUESTS];
    uint64_t before, most = 0;
    struct stats *stats = &loop.server.engine.stats;

    (void)state;
    open_loop(NULL);
    for (int i = 0; i < REQUESTS; i++) {
        memcpy(pings + (size_t)i * 5, PING, 5);
        memcpy(pongs + (size_t)i * 4, "abcd", 4);
    }
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = loop_connect_modern(&loop);
    for (int i = 0; i < CLIENTS; i++)
        tell(fds[i], pings, sizeof pings);
    step_ns = 2 * BUDGET_READ_NS;
    before = stats_c10d_requests(stats);
    while (stats_c10d_requests(stats) < before + (uint64_t)CLIENTS * REQUESTS) {
        uint64_t done = stats_c10d_requests(stats), iterations = stats->loop_iterations;

        loop_iterate(&loop);
        done = (stats_c10d_requests(stats) - done) / (stats->loop_iterations - iterations);
        most = done > most ? done : most;
    }
    assert_in_range(most, 1, CLIENTS * REQUESTS / 8);
    step_ns = 0;
    for (int i = 0; i < CLIENTS; i++) {
        loop_expect(&loop, fds[i], pongs, sizeof pongs);
        loop_leave(&loop, fds[i]);
    }
    loop_close(&loop);
}

/* --- Sending. --- */

#define GET_LARGE "\3\6\0\0\0\0\0\0\0/large"

static void set_large(size_t len)
{
    struct engine *e = &loop.server.engine;
    uint8_t *value = calloc(1, len);
    const struct command c = {
        .kind = COMMAND_KEY_SET, .key = slice_str("/large"), .value = {value, len}};
    struct store_result r;

    assert_non_null(value);
    engine_apply(e, TAILQ_FIRST(&e->spaces), &c, &r);
    assert_int_equal(r.status, STORE_OK);
    free(value);
}

/* Unsent bytes of these clients' answers, of `each` bytes; clients whose requests are unread count
 * too. */
static size_t to_send(const int *fds, size_t count, size_t each)
{
    size_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        const struct conn *c = loop_conn(&loop, fds[i]);
        int unread;

        assert_int_equal(ioctl(c->fd, FIONREAD, &unread), 0);
        sum += unread > 0 ? each : c->out.bytes;
    }
    return sum;
}

/* However many large answers are queued, an iteration sends 16 MiB of them, and the small ones
 * first. */
static void an_iteration_sends_so_much(void **state)
{
    enum { CLIENTS = 40, LEN = 1 << 20, SENT_MAX = 16 << 20 };
    struct stats *stats = &loop.server.engine.stats;
    const size_t answer = 8 + LEN;
    uint64_t iterations;
    uint8_t *value = calloc(1, LEN);
    int fds[CLIENTS], fast;
    size_t before;

    (void)state;
    assert_non_null(value);
    open_loop(NULL);
    set_large(LEN);
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = loop_connect_modern(&loop);
    fast = loop_connect_modern(&loop);
    for (int i = 0; i < CLIENTS; i++)
        tell(fds[i], TEXT(GET_LARGE));
    before = CLIENTS * answer;
    iterations = stats->loop_iterations;
    while (before > 0) {
        size_t now;

        tell(fast, TEXT(PING));
        loop_iterate(&loop);
        now = to_send(fds, CLIENTS, answer);
        assert_in_range(before - now, 0, SENT_MAX * (stats->loop_iterations - iterations));
        before = now;
        iterations = stats->loop_iterations;
        loop_expect(&loop, fast, "abcd", 4);
    }
    for (int i = 0; i < CLIENTS; i++) {
        loop_expect(&loop, fds[i], "\0\0\x10\0\0\0\0\0", 8);
        loop_expect(&loop, fds[i], value, LEN);
        loop_leave(&loop, fds[i]);
    }
    free(value);
    loop_leave(&loop, fast);
    loop_close(&loop);
}

/* One value that a request names ten thousand times: its answer holds it, and copies nothing. */
static void an_answer_of_many_values_holds_them(void **state)
{
    enum { COUNT = 10000, LEN = 1000 };
    static uint8_t request[1 + 8 + COUNT * 14] = {0x0a};
    uint8_t expected[8 + LEN] = {LEN & 255, LEN >> 8};
    struct space *space;
    struct blob *value;
    int fd;

    (void)state;
    bytes_put_u64(request + 1, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        memcpy(request + 9 + i * 14, "\6\0\0\0\0\0\0\0/large", 14);
    open_loop(NULL);
    set_large(LEN);
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    value = keymap_get(&space->keys, slice_str("/large"));
    fd = loop_connect(&loop, true);
    loop_send(&loop, fd, TEXT(VALIDATE));
    loop_send(&loop, fd, request, sizeof request);
    LOOP_UNTIL(&loop, value->refs >= COUNT);            /* it holds each as it finds it */
    assert_in_range(value->refs, COUNT, 2 * COUNT + 1); /* and answers with some of them */
    for (int i = 0; i < COUNT; i++)
        loop_expect(&loop, fd, expected, sizeof expected);
    assert_int_equal(value->refs, 1);
    loop_leave(&loop, fd);
    loop_close(&loop);
}

/* Clients share one list of keys until a key is added; a second list waits until it has room. */
static void clients_share_the_list_of_keys(void **state)
{
    enum { CLIENTS = 5, KEYS = 100000 };
    const char *const flags[] = {"--output-limit", "2MiB", NULL};
    struct engine *e = &loop.server.engine;
    const struct key_list *list;
    struct keymap *keys;
    int fds[CLIENTS];

    (void)state;
    open_loop(flags);
    set_keys(e, 0, KEYS);
    keys = &TAILQ_FIRST(&e->spaces)->store->keys;
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = loop_connect(&loop, true);
        loop_send(&loop, fds[i], TEXT(VALIDATE LIST LIST));
    }
    for (int i = 0; i < CLIENTS; i++)
        LOOP_UNTIL(&loop, loop_conn(&loop, fds[i])->input == INPUT_PAUSED);
    list = keys->list;
    assert_non_null(list);
    assert_int_equal(list->askers + keys->list_askers, 0);
    assert_int_equal(list->chunks[list->chunk_count - 1]->refs, CLIENTS + 1);
    keymap_trim(keys);
    assert_ptr_equal(keys->list, list);
    set_keys(e, KEYS, KEYS + 1);
    assert_null(keys->list);
    expect_list(fds[0], KEYS); /* as the keys were when the client sent the request */
    expect_list(fds[0], KEYS + 1);
    for (int i = 0; i < CLIENTS; i++)
        loop_leave(&loop, fds[i]);
    keymap_trim(keys);
    assert_null(keys->list);
    LOOP_UNTIL(&loop, lazy_free_is_empty(&e->store.lazy_free));
    assert_in_range(account.bytes[ACCOUNT_ANSWERS], 0, 2u << 20);
    loop_close(&loop);
}

/* A list of many keys takes many iterations, in which others are answered, and keys come and go;
 * requests behind it wait. */
static void a_long_list_is_written_over_many_iterations(void **state)
{
    enum { KEYS = 100000 };
    struct engine *e = &loop.server.engine;
    const struct stats *stats = &e->stats;
    uint64_t before, answered = 0, requests;
    int fd, other, leaver;

    (void)state;
    open_loop(NULL);
    set_keys(e, 0, KEYS);
    fd = loop_connect_modern(&loop);
    other = loop_connect_modern(&loop);
    leaver = loop_connect_modern(&loop);
    before = stats->loop_iterations;
    tell(leaver, TEXT(LIST)); /* and does not wait for it */
    tell(fd, TEXT(LIST PING));
    requests = stats_c10d_requests(stats);
    for (; !has_answer(fd); answered++) {
        tell(other, TEXT(SET_K DELETE_K PING));
        loop_expect(&loop, other, "\1\0\0\0\0\0\0\0abcd", 12);
        if (answered == 5)
            close(leaver);
    }
    assert_in_range(answered, 15, 100);
    assert_in_range(stats->loop_iterations - before, 15, 200);
    expect_list(fd, KEYS);
    loop_expect(&loop, fd, "abcd", 4);
    assert_int_equal(stats_c10d_requests(stats) - requests, 3 + 3 * answered);
    loop_leave(&loop, fd);
    loop_leave(&loop, other);
    loop_close(&loop);
}

/* The daemon stops, and the answer that it has begun is sent to its end. */
static void a_list_that_has_begun_is_answered_when_the_daemon_stops(void **state)
{
    enum { KEYS = 100000 };
    struct engine *e = &loop.server.engine;
    int fd;

    (void)state;
    open_loop(NULL);
    set_keys(e, 0, KEYS);
    fd = loop_connect_modern(&loop);
    tell(fd, TEXT(LIST PING));
    LOOP_UNTIL(&loop, TAILQ_FIRST(&e->spaces)->store->keys.list != NULL);
    transport_drain(&loop.server.net);
    expect_list(fd, KEYS);
    loop_expect_end(&loop, fd);
    close(fd);
    loop_close(&loop);
}

/* --- Those who do not go on. --- */

/* Many stall at the same time: they are dropped over several iterations, and others are answered
 * between. */
static void those_who_stall_are_dropped_over_several_iterations(void **state)
{
    enum { CLIENTS = 400 };
    const struct stats *stats = &loop.server.engine.stats;
    static int fds[CLIENTS];
    uint64_t before;
    int fast;

    (void)state;
    open_loop(NULL);
    fast = loop_connect_modern(&loop);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = loop_connect_modern(&loop);
        loop_send(&loop, fds[i], "\1", 1);
    }
    step_ns = 500000;
    before = stats->loop_iterations;
    transport_drop_stalled(&loop.server.net, UINT64_MAX);
    assert_true(transport_has_work(&loop.server.net));
    tell(fast, TEXT(PING));
    loop_expect(&loop, fast, "abcd", 4);
    assert_in_range(stats->dropped[DROP_STALLED], 1, CLIENTS / 2);
    LOOP_UNTIL(&loop, stats->dropped[DROP_STALLED] == CLIENTS);
    assert_in_range(stats->loop_iterations - before, 5, CLIENTS);
    LOOP_UNTIL(&loop, !transport_has_work(&loop.server.net));
    step_ns = 0;
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    loop_leave(&loop, fast);
    loop_close(&loop);
}

/* --- Waking. --- */

/* One key that many wait for: they are woken over several iterations, in the order in which they
 * began to wait, and others are answered between. */
static void those_who_are_woken_take_several_iterations(void **state)
{
    enum { CLIENTS = 400 };
    static int fds[CLIENTS];
    uint64_t before;
    int writer, woken = 0;

    (void)state;
    open_loop(NULL);
    writer = loop_connect_modern(&loop);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = loop_connect_modern(&loop);
        loop_send(&loop, fds[i], TEXT(WAIT_K));
        LOOP_UNTIL(&loop,
                   loop.server.engine.spaces.tqh_first->store->keys.waiters == (uint64_t)i + 1);
    }
    step_ns = 2 * BUDGET_END_NS;
    tell(writer, TEXT(SET_K));
    before = loop.server.engine.stats.loop_iterations;
    while (woken < CLIENTS) {
        loop_iterate(&loop);
        for (; woken < CLIENTS && has_answer(fds[woken]); woken++)
            assert_int_equal(loop_next_byte(&loop, fds[woken]), 0);
        for (int i = woken; i < CLIENTS; i++)
            assert_false(has_answer(fds[i]));
        if (woken > 0 && woken < CLIENTS) {
            tell(writer, TEXT(PING));
            loop_expect(&loop, writer, "abcd", 4);
        }
    }
    assert_true(loop.server.engine.stats.loop_iterations - before > 5);
    step_ns = 0;
    for (int i = 0; i < CLIENTS; i++)
        loop_leave(&loop, fds[i]);
    loop_leave(&loop, writer);
    loop_close(&loop);
}

static size_t told(const struct net *n)
{
    const struct conn *c;
    size_t count = 0;

    TAILQ_FOREACH(c, &n->notified, queued)
        count++;
    return count;
}

/* Who asks is answered in the same iteration, and those who were told before still wait. */
static void answers_go_before_what_nobody_asked_for(void **state)
{
    enum { CLIENTS = 400 };
    static int fds[CLIENTS];
    const struct net *n = &loop.server.net;
    int writer, rounds = 0;

    (void)state;
    open_loop(NULL);
    writer = loop_connect_modern(&loop);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = loop_connect_modern(&loop);
        loop_send(&loop, fds[i], TEXT(WAIT_K));
        LOOP_UNTIL(&loop,
                   loop.server.engine.spaces.tqh_first->store->keys.waiters == (uint64_t)i + 1);
    }
    step_ns = 2 * BUDGET_END_NS;
    tell(writer, TEXT(SET_K));
    LOOP_UNTIL(&loop, told(n) > 20);
    for (; told(n) > 20; rounds++) {
        char answer[4];

        tell(writer, TEXT(PING));
        loop_iterate(&loop);
        assert_int_equal(recv(writer, answer, 4, 0), 4);
        assert_memory_equal(answer, "abcd", 4);
    }
    assert_true(rounds > 2);
    step_ns = 0;
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(loop_next_byte(&loop, fds[i]), 0);
    for (int i = 0; i < CLIENTS; i++)
        loop_leave(&loop, fds[i]);
    loop_leave(&loop, writer);
    loop_close(&loop);
}

/* Each connection with unsent bytes waits for its turn or for its socket, and no other connection
 * does. */
static void check_output_states(struct net *n)
{
    size_t listed = told(n), waiting = 0;
    const struct conn *c;

    TAILQ_FOREACH(c, &n->queued, queued)
        listed++;
    TAILQ_FOREACH(c, &n->bulk, queued)
        listed++;
    TAILQ_FOREACH(c, &n->conns, entry) {
        assert_int_equal(c->out.bytes > 0, c->output != OUTPUT_IDLE);
        assert_true(c->output != OUTPUT_BLOCKED || c->mask & EPOLLOUT);
        waiting += c->output >= OUTPUT_QUEUED;
    }
    assert_int_equal(listed, waiting);
}

/* In one iteration the first connection of each list has its turn. */
static void iterate_with_progress(struct net *n)
{
    const struct conn *first_told = TAILQ_FIRST(&n->notified), *first_bulk = TAILQ_FIRST(&n->bulk);
    size_t told_bytes = first_told == NULL ? 0 : first_told->out.bytes;
    size_t bulk_bytes = first_bulk == NULL ? 0 : first_bulk->out.bytes;

    loop_iterate(&loop);
    check_output_states(n);
    assert_true(first_told == NULL || TAILQ_FIRST(&n->notified) != first_told ||
                first_told->out.bytes != told_bytes);
    assert_true(first_bulk == NULL || TAILQ_FIRST(&n->bulk) != first_bulk ||
                first_bulk->out.bytes != bulk_bytes);
}

struct watcher {
    int fd;
    char tail[8]; /* the last 7 bytes that came, and a NUL */
    bool over;
};

/* A little of what has come. */
static void read_some(struct watcher *w)
{
    char bytes[16384 + 7];
    ssize_t len = recv(w->fd, bytes + 7, sizeof bytes - 7, 0);

    assert_true(len != 0);
    if (len < 0)
        return;
    memcpy(bytes, w->tail, 7);
    memcpy(w->tail, bytes + len, 7);
    w->over = strcmp(w->tail, "\r\n0\r\n\r\n") == 0;
}

static void open_watch(struct watcher *w, bool slow)
{
    const struct space *space = TAILQ_FIRST(&loop.server.engine.spaces)->store;
    uint64_t before = space->tree.hub.registered;

    w->fd = loop_connect(&loop, slow);
    loop_send_text(&loop, w->fd, "GET /v2/keys/k?wait=true HTTP/1.1\r\nHost: x\r\n\r\n");
    LOOP_UNTIL(&loop, space->tree.hub.registered == before + 1);
}

static void set_large_node(size_t len)
{
    uint8_t *value = calloc(1, len);
    struct command c = {.kind = COMMAND_TREE_SET, .key = slice_str("/k"), .now_ns = 1};
    struct store_result r;

    assert_non_null(value);
    memset(value, 'x', len);
    c.value = (struct slice){value, len};
    engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &c, &r);
    free(value);
}

/* Many are told something large, and many something small, in a little time for each iteration. The
 * second half of the watchers begins to read when the first has read all. */
static void who_reads_late_is_told_everything(void **state)
{
    enum { WATCHERS = 24, WAITERS = 300, LEN = 1500000 };
    static struct watcher watchers[WATCHERS];
    static int waiters[WAITERS];
    struct net *n = &loop.server.net;
    int over = 0, beside = 0, writer;

    (void)state;
    open_loop(NULL);
    for (int i = 0; i < WATCHERS; i++)
        open_watch(&watchers[i], i % 4 == 0);
    writer = loop_connect_modern(&loop);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = loop_connect_modern(&loop);
        loop_send(&loop, waiters[i], TEXT(WAIT_K PING));
        loop_iterate(&loop);
    }
    set_large_node(LEN);
    step_ns = 2 * BUDGET_END_NS;
    LOOP_UNTIL(&loop, !TAILQ_EMPTY(&n->bulk));
    tell(writer, TEXT(SET_K));
    for (int round = 0; over < WATCHERS; round++) {
        int half = over < WATCHERS / 2 ? 0 : WATCHERS / 2;

        assert_in_range(round, 0, 100000);
        over = half;
        for (struct watcher *w = watchers + half; w < watchers + half + WATCHERS / 2; w++) {
            if (!w->over)
                read_some(w);
            over += w->over;
        }
        beside += !TAILQ_EMPTY(&n->notified) && !TAILQ_EMPTY(&n->bulk);
        iterate_with_progress(n);
        loop_iterate_again(&loop, round);
    }
    assert_true(beside > 2);
    step_ns = 0;
    for (int i = 0; i < WATCHERS; i++)
        loop_leave(&loop, watchers[i].fd);
    for (int i = 0; i < WAITERS; i++)
        loop_leave(&loop, waiters[i]);
    loop_leave(&loop, writer);
    loop_close(&loop);
}

/* A watch gets its events in order, however many there are at once, and then its end. */
static void a_watch_is_told_in_slices(void **state)
{
    enum { EVENTS = 4000 };
    static const char ask[] = "GET /v2/keys/k?wait=true&stream=true HTTP/1.1\r\nHost: x\r\n\r\n";
    struct engine *e = &loop.server.engine;
    char text[64] = "";
    uint64_t before;
    int fd;

    (void)state;
    open_loop(NULL);
    fd = loop_connect(&loop, false);
    loop_send_text(&loop, fd, ask);
    LOOP_UNTIL(&loop, TAILQ_FIRST(&e->spaces)->store->tree.hub.registered == 1);
    while (memcmp(text, "\r\n\r\n", 4) != 0) {
        memmove(text, text + 1, 3);
        text[3] = (char)loop_next_byte(&loop, fd);
    }
    for (int i = 0; i < EVENTS; i++) {
        const struct command c = {.kind = COMMAND_TREE_SET, .key = slice_str("/k"), .now_ns = 1};
        struct store_result r;

        engine_apply(e, TAILQ_FIRST(&e->spaces), &c, &r);
    }
    step_ns = 2 * BUDGET_END_NS;
    before = e->stats.loop_iterations;
    LOOP_UNTIL(&loop, TAILQ_EMPTY(&e->store.ready));
    assert_true(e->stats.loop_iterations - before >= 4);
    for (int i = 0; i < EVENTS; i++) {
        char byte;
        size_t len = 0;

        snprintf(text, sizeof text, "\"modifiedIndex\":%d,", i + 4);
        while (len < strlen(text)) {
            byte = (char)loop_next_byte(&loop, fd);
            len = byte == text[len] ? len + 1 : byte == text[0];
        }
    }
    step_ns = 0;
    loop_leave(&loop, fd);
    loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_requests_share_one_budget),
        cmocka_unit_test(slow_requests_get_slices_in_turn),
        cmocka_unit_test(a_request_with_a_body_waits_whole),
        cmocka_unit_test(who_is_not_read_in_time_is_read_in_the_next_iteration),
        cmocka_unit_test(an_iteration_sends_so_much),
        cmocka_unit_test(answers_go_before_what_nobody_asked_for),
        cmocka_unit_test(who_reads_late_is_told_everything),
        cmocka_unit_test(a_watch_is_told_in_slices),
        cmocka_unit_test(an_answer_of_many_values_holds_them),
        cmocka_unit_test(clients_share_the_list_of_keys),
        cmocka_unit_test(a_long_list_is_written_over_many_iterations),
        cmocka_unit_test(a_list_that_has_begun_is_answered_when_the_daemon_stops),
        cmocka_unit_test(those_who_are_woken_take_several_iterations),
        cmocka_unit_test(those_who_stall_are_dropped_over_several_iterations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
