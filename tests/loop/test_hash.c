/* Requests that wait for the hash of a password, in a whole server. The thread is the real one;
 * what it computes is no real hash, and waits for the test. */
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdzv/net/input.h"
#include "tests/loop/harness.h"

/* "root:secret", "root:other", "nobody:secret" */
#define RIGHT   "Authorization: Basic cm9vdDpzZWNyZXQ=\r\n"
#define WRONG   "Authorization: Basic cm9vdDpvdGhlcg==\r\n"
#define UNKNOWN "Authorization: Basic bm9ib2R5OnNlY3JldA==\r\n"

#define GET(who) "GET /v2/keys/ HTTP/1.1\r\nHost: x\r\n" who "\r\n"
#define PUT(who, path, body, length) \
    "PUT " path " HTTP/1.1\r\nHost: x\r\n" who "Content-Length: " length "\r\n\r\n" body
#define PUT_U(who) PUT(who, "/v2/auth/users/u", "{\"user\":\"u\",\"password\":\"p\"}", "27")

static struct loop loop; /* large */

static sem_t may_compute, began;
static char last[PASSWORD_MAX + 1]; /* the password that was begun; the thread's until it is done */

/* Method, salt, and the password in clear: any password of one hash can be told from its text. */
static void compute(const char *password, const char *setting, struct crypt_data *room,
                    char made[PASSWORD_HASH_MAX])
{
    const char *end = strchr(setting + 3, '$');
    size_t head = end == NULL ? strlen(setting) : (size_t)(end - setting);

    (void)room;
    snprintf(last, sizeof last, "%s", password);
    sem_post(&began);
    while (sem_wait(&may_compute) != 0)
        ;
    snprintf(made, PASSWORD_HASH_MAX, "%.*s$%s", (int)head, setting, password);
}

static struct engine *engine(void)
{
    return &loop.server.engine;
}

static void apply(enum command_kind kind, const char *key, const char *value)
{
    const struct command command = {.kind = kind, .key = slice_str(key), .value = slice_str(value)};
    struct store_result result;

    engine_apply(engine(), TAILQ_FIRST(&engine()->spaces), &command, &result);
    assert_int_equal(result.auth, AUTH_OK);
}

static const struct auth_user *find(const char *name)
{
    return auth_find_user(&TAILQ_FIRST(&engine()->spaces)->store->auth, slice_str(name));
}

/* A salt for each test, since what was right is remembered. */
static void open_loop(void)
{
    static unsigned salt;
    char hash[64];

    sem_init(&may_compute, 0, 0);
    sem_init(&began, 0, 0);
    loop_open(&loop, NULL);
    loop.server.store.hasher.compute = compute;
    snprintf(hash, sizeof hash, "$6$salt%u$secret", salt++);
    apply(COMMAND_AUTH_USER_PUT, "root", hash);
}

/* Nothing of a request is left. */
static void close_loop(void)
{
    loop_close(&loop);
    assert_int_equal(loop.server.engine.uses, 0);
    assert_int_equal(loop.server.engine.stats.hashes_waiting, 0);
    assert_int_equal(account.bytes[ACCOUNT_SESSIONS], 0);
}

/* With auth on. */
static void open_guarded(void)
{
    open_loop();
    apply(COMMAND_AUTH_ENABLE, "", "");
}

static void the_thread_begins(void)
{
    while (sem_wait(&began) != 0)
        ;
}

/* One hash is computed, and has come back. */
static void let_one_through(void)
{
    uint64_t before = engine()->stats.hashes_computed;
    struct pollfd wake = {.fd = loop.server.store.hasher.worker.wake, .events = POLLIN};

    sem_post(&may_compute);
    while (engine()->stats.hashes_computed == before) {
        assert_int_equal(poll(&wake, 1, 60000), 1);
        loop_iterate(&loop);
    }
}

/* A peer whose request waits. */
static int ask_and_wait(const char *request)
{
    int fd = loop_connect(&loop, false);
    const struct conn *c = loop_conn(&loop, fd);

    loop_send_text(&loop, fd, request);
    LOOP_UNTIL(&loop, c->input == INPUT_PARKED);
    return fd;
}

static void expect(int fd, unsigned status)
{
    char body[512];
    unsigned got = loop_expect_answer(&loop, fd, body, sizeof body);

    if (got != status)
        fail_msg("%u instead of %u: %s", got, status, body);
}

static void leave(int fd)
{
    loop_leave(&loop, fd);
}

/* --- */

static void who_waits_for_a_hash_waits_alone(void **state)
{
    int fd, other;

    (void)state;
    open_guarded();
    assert_false(loop.server.store.hasher.worker.started);
    fd = ask_and_wait(GET(RIGHT) GET(RIGHT));
    the_thread_begins();
    other = loop_connect(&loop, false);
    loop_send_text(&loop, other, GET(""));
    expect(other, 200);             /* a guest, without a hash */
    loop_expect_silence(&loop, fd); /* others are served */
    assert_false(transport_has_work(&loop.server.net));
    assert_int_equal(loop_conn(&loop, fd)->stalled_ms, 0);
    let_one_through();
    expect(fd, 200);
    expect(fd, 200); /* that password has been right */
    assert_int_equal(engine()->stats.hashes_computed, 1);
    assert_int_equal(engine()->stats.http_requests, 3);
    leave(fd);
    leave(other);
    close_loop();
}

/* The same answer, after the same work. */
static void a_wrong_password_costs_what_an_unknown_user_costs(void **state)
{
    static const char *const requests[] = {GET(WRONG), GET(UNKNOWN), PUT_U(WRONG), PUT_U(UNKNOWN)};
    const struct stats *stats = &loop.server.engine.stats;

    (void)state;
    open_guarded();
    for (unsigned i = 0; i < 4; i++) {
        int fd = ask_and_wait(requests[i]);

        let_one_through();
        expect(fd, 401);
        assert_int_equal(stats->hashes_computed, i + 1);
        assert_int_equal(stats->refused[REFUSAL_PASSWORD], i + 1);
        leave(fd);
    }
    assert_null(find("u"));
    close_loop();
}

/* Neither those that come later, nor those that waited when the last one that was free failed. */
static void who_has_to_wait_after_wrong_passwords_takes_no_hash(void **state)
{
    enum { COUNT = 12, WITH_THREAD = 2 }; /* by the time that the last one is found wrong */
    const struct stats *stats = &loop.server.engine.stats;
    int fds[COUNT], late;

    (void)state;
    open_guarded();
    for (int i = 0; i < COUNT; i++)
        fds[i] = ask_and_wait(GET(WRONG));
    for (int i = 0; i < BACKOFF_FREE + WITH_THREAD; i++)
        let_one_through();
    for (int i = 0; i < COUNT; i++)
        expect(fds[i], 401);
    assert_int_equal(stats->hashes_computed, BACKOFF_FREE + WITH_THREAD);
    assert_int_equal(stats->refused[REFUSAL_PASSWORD], BACKOFF_FREE);
    assert_int_equal(stats->refused[REFUSAL_BACKOFF], COUNT - BACKOFF_FREE);
    late = loop_connect(&loop, false);
    loop_send_text(&loop, late, GET(RIGHT));
    expect(late, 401);
    assert_int_equal(stats->hashes_computed, BACKOFF_FREE + WITH_THREAD);
    for (int i = 0; i < COUNT; i++)
        leave(fds[i]);
    leave(late);
    close_loop();
}

/* The last one that was found wrong is no reason to let others wait: what is refused anyway needs
 * no turn among costly requests, whichever it asks for. */
static void who_has_to_wait_takes_no_costly_turn(void **state)
{
    static const char *const requests[] = {
        PUT_U(RIGHT), GET(RIGHT), "DELETE /v2/members/1 HTTP/1.1\r\nHost: x\r\n" RIGHT "\r\n"};

    (void)state;
    open_guarded();
    for (int i = 0; i < BACKOFF_FREE; i++) {
        int fd = ask_and_wait(GET(WRONG));

        let_one_through();
        expect(fd, 401);
        leave(fd);
    }
    for (size_t i = 0; i < 3; i++) {
        int fd = loop_connect(&loop, false);
        struct conn *c = loop_conn(&loop, fd);

        /* All of an iteration's costly time is used up, so a costly request would be deferred. */
        budget_begin_part(&loop.server.net.budget, BUDGET_READ_NS);
        loop.server.net.budget.costly_ns = BUDGET_COSTLY_NS;
        assert_int_equal(send(fd, requests[i], strlen(requests[i]), 0), strlen(requests[i]));
        input_receive(c);
        assert_int_equal(c->input, INPUT_READY);
        expect(fd, 401);
        leave(fd);
    }
    close_loop();
}

/* --- What is true when the hash is there. --- */

static void the_hash_of_that_moment_counts(void **state)
{
    static const struct {
        const char *request, *hash;
        unsigned status;
    } cases[] = {
        {GET(RIGHT), "$6$other$changed", 401},
        {GET(WRONG), "$6$salt$other", 200},
        {GET(RIGHT), "$6$new$secret", 200}, /* the same password, another salt */
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        int fd;

        open_guarded();
        fd = ask_and_wait(cases[i].request);
        the_thread_begins();
        apply(COMMAND_AUTH_USER_PUT, "root", cases[i].hash);
        let_one_through();
        the_thread_begins(); /* it is computed anew */
        let_one_through();
        expect(fd, cases[i].status);
        assert_int_equal(engine()->stats.hashes_computed, 2);
        leave(fd);
        close_loop();
    }
}

static void a_user_who_has_gone_is_refused(void **state)
{
    int fd;

    (void)state;
    open_guarded();
    apply(COMMAND_AUTH_USER_PUT, "nobody", "$6$nobody$secret");
    fd = ask_and_wait(GET(UNKNOWN));
    the_thread_begins();
    apply(COMMAND_AUTH_USER_DELETE, "nobody", "");
    let_one_through();
    let_one_through(); /* as for any name that is no user's */
    expect(fd, 401);
    leave(fd);
    close_loop();
}

static void auth_that_has_been_switched_off_asks_for_nothing(void **state)
{
    int fd;

    (void)state;
    open_guarded();
    fd = ask_and_wait(GET(WRONG));
    the_thread_begins();
    apply(COMMAND_AUTH_DISABLE, "", "");
    let_one_through();
    expect(fd, 200);
    assert_int_equal(engine()->stats.refused[REFUSAL_PASSWORD], 0);
    leave(fd);
    close_loop();
}

static void auth_that_has_been_switched_on_asks(void **state)
{
    int fds[2];

    (void)state;
    open_loop();
    fds[0] = ask_and_wait(PUT_U(""));
    fds[1] = ask_and_wait(PUT_U(RIGHT));
    apply(COMMAND_AUTH_ENABLE, "", "");
    let_one_through();
    expect(fds[0], 401);
    let_one_through(); /* the new password's, which was begun; then the sender's */
    assert_null(find("u"));
    let_one_through();
    expect(fds[1], 201);
    assert_int_equal(engine()->stats.hashes_computed, 3);
    leave(fds[0]);
    leave(fds[1]);
    close_loop();
}

/* --- New passwords. --- */

static void a_new_user_has_the_hash_of_its_password(void **state)
{
    int fd;

    (void)state;
    open_guarded();
    fd = ask_and_wait(PUT_U(RIGHT));
    the_thread_begins();
    assert_string_equal(last, "secret");
    let_one_through();
    the_thread_begins();
    assert_string_equal(last, "p");
    assert_null(find("u"));
    let_one_through();
    expect(fd, 201);
    assert_int_equal(engine()->stats.http_requests, 1);
    assert_true(slice_starts_with(find("u")->hash, slice_str("$6$")));
    assert_memory_equal(find("u")->hash.ptr + find("u")->hash.len - 2, "$p", 2);
    leave(fd);
    close_loop();
}

/* Two who make one user: the second finds it there, as if the hash took no time. */
static void what_is_there_by_then_is_found(void **state)
{
    int fds[2];

    (void)state;
    open_loop();
    for (int i = 0; i < 2; i++)
        fds[i] = ask_and_wait(PUT_U(""));
    let_one_through();
    let_one_through();
    expect(fds[0], 201);
    expect(fds[1], 200); /* etcd changes the password of a user who is there */
    for (int i = 0; i < 2; i++)
        leave(fds[i]);
    close_loop();
}

/* --- Ends. --- */

static void a_connection_that_ends_takes_its_hash_along(void **state)
{
    enum { COUNT = 5 };
    const struct linger reset = {.l_onoff = 1};
    int fds[COUNT];

    (void)state;
    open_guarded();
    for (int i = 0; i < COUNT; i++)
        fds[i] = ask_and_wait(GET(WRONG));
    the_thread_begins();
    assert_int_equal(engine()->stats.hashes_waiting, COUNT - 2);
    for (int i = 0; i < COUNT; i++) {
        setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        leave(fds[i]);
    }
    assert_int_equal(engine()->stats.hashes_waiting, 0);
    let_one_through();
    let_one_through();
    assert_int_equal(engine()->stats.refused[REFUSAL_PASSWORD], 0);
    close_loop();
}

static void a_half_closed_client_gets_its_reply(void **state)
{
    int fd;

    (void)state;
    open_guarded();
    fd = ask_and_wait(GET(RIGHT));
    shutdown(fd, SHUT_WR);
    LOOP_UNTIL(&loop, loop_conn(&loop, fd)->end == CONN_PEER_ENDED);
    let_one_through();
    expect(fd, 200);
    loop_expect_end(&loop, fd);
    close(fd);
    close_loop();
}

static void a_daemon_that_stops_answers_who_waits(void **state)
{
    int fd;

    (void)state;
    open_guarded();
    fd = ask_and_wait(PUT_U(RIGHT) GET(RIGHT));
    raise(SIGTERM);
    LOOP_UNTIL(&loop, loop.server.net.draining);
    loop_iterate(&loop);
    let_one_through();
    let_one_through();
    expect(fd, 201);
    loop_expect_end(&loop, fd);
    close(fd);
    close_loop();
}

/* Killed by a second signal, or by --drain-timeout: the thread is let finish what it has begun. */
static void a_daemon_that_ends_leaves_no_hash_behind(void **state)
{
    int fds[3];

    (void)state;
    open_guarded();
    for (int i = 0; i < 3; i++)
        fds[i] = ask_and_wait(GET(RIGHT));
    the_thread_begins();
    for (int i = 0; i < 3; i++)
        sem_post(&may_compute);
    loop_forget(&loop);
    assert_int_equal(account.bytes[ACCOUNT_SESSIONS], 0);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_for_a_hash_waits_alone),
        cmocka_unit_test(a_wrong_password_costs_what_an_unknown_user_costs),
        cmocka_unit_test(who_has_to_wait_after_wrong_passwords_takes_no_hash),
        cmocka_unit_test(who_has_to_wait_takes_no_costly_turn),
        cmocka_unit_test(the_hash_of_that_moment_counts),
        cmocka_unit_test(a_user_who_has_gone_is_refused),
        cmocka_unit_test(auth_that_has_been_switched_off_asks_for_nothing),
        cmocka_unit_test(auth_that_has_been_switched_on_asks),
        cmocka_unit_test(a_new_user_has_the_hash_of_its_password),
        cmocka_unit_test(what_is_there_by_then_is_found),
        cmocka_unit_test(a_connection_that_ends_takes_its_hash_along),
        cmocka_unit_test(a_half_closed_client_gets_its_reply),
        cmocka_unit_test(a_daemon_that_stops_answers_who_waits),
        cmocka_unit_test(a_daemon_that_ends_leaves_no_hash_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
