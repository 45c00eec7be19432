/* Elastic jobs over links: an agent is one while its relay is away and after a start, and a worker
 * keeps its worker store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/relay.h"
#include "rdzv/relay/link_session.h"
#include "rdzv/rendezvous/rendezvous.h"
#include "tests/loop/hand.h"

#define RUN_KEY   "/torch.rendezvous.job"
#define CAS_RUN   "\2\x15\0\0\0\0\0\0\0" RUN_KEY "\0\0\0\0\0\0\0\0\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt"
#define GET_RUN   "\3\x15\0\0\0\0\0\0\0" RUN_KEY
#define THE_VALUE "\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt"

/* The agent of session 11; NULL: it is none. */
static const struct conn_agent *the_agent(void)
{
    struct conn *c;

    TAILQ_FOREACH(c, &loop.server.net.conns, entry) {
        if (conn_is_relayed(c))
            return c10d_session(c)->role == C10D_AGENT ? c10d_session(c)->bound.agent : NULL;
    }
    return NULL;
}

static void an_agent_lives_while_its_relay_is_away(void **state)
{
    const struct live_run *run;
    const struct agent *a;
    int fd;

    (void)state;
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(CAS_RUN));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 1, TEXT(THE_VALUE));
    assert_non_null(the_agent());
    a = &the_agent()->agent;
    run = the_agent()->run;
    assert_string_equal(a->local_host, "127.0.0.1"); /* as the client sees it */
    assert_int_equal(a->local_port, 29400);
    assert_true(a->pings);
    hand_lose_link(fd);
    assert_int_equal(run->run.agent_count, 1);
    assert_int_equal(a->link, LINK_AWAY);
    fd = hand_connect();
    hand_resume(fd, 1, 11, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
    assert_int_equal(a->link, LINK_HERE);
    hand_request(fd, 1, 2, TEXT(GET_RUN));
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(THE_VALUE));
    hand_send(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    LOOP_UNTIL(&loop, run->run.agent_count == 0);
    hand_lose_link(fd);
}

/* Unlike a session that is dropped because of what the store lacks. */
static void an_agent_of_a_forgotten_run_does_not_come_back(void **state)
{
    int fd = hand_connect();

    (void)state;
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(CAS_RUN));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 1, TEXT(THE_VALUE));
    assert_true(rendezvous_forget(&the_agent()->run->run.view) > 0);
    hand_lose_link(fd); /* and with it RELAY_ENDED */
    assert_int_equal(loop.server.store.links.sessions.count, 0);
    fd = hand_connect();
    hand_resume(fd, 1, 11, 0, 0, NOTHING);
    hand_lose_link(fd);
}

/* As a process that is killed leaves its sockets. */
static void reset_link(int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    uint64_t links = loop.server.engine.stats.relay_links;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(fd);
    LOOP_UNTIL(&loop, loop.server.engine.stats.relay_links == links - 1);
}

/* The store ends the link, and the relay has not said that it ends. */
static void break_link(int fd)
{
    uint64_t links = loop.server.engine.stats.relay_links;

    hand_send(fd, RELAY_WELCOME, 0, 0, 0, NOTHING);
    LOOP_UNTIL(&loop, loop.server.engine.stats.relay_links == links - 1);
    close(fd);
}

static void an_agent_ends_with_its_relay(void **state)
{
    static const struct {
        const char *name;
        void (*end)(int fd);
        bool is_awaited;
    } rows[] = {{"closed", hand_lose_link, true},
                {"reset", reset_link, true},
                {"broken", break_link, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct live_run *run;
        const struct agent *a;
        int fd;

        print_message("  %s\n", rows[i].name);
        loop_open(&loop, NULL);
        fd = hand_connect();
        hand_open(fd, 1, 11);
        hand_request(fd, 1, 1, TEXT(CAS_RUN));
        hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 1, TEXT(THE_VALUE));
        a = &the_agent()->agent;
        run = the_agent()->run;
        rows[i].end(fd);
        assert_int_equal(a->link, LINK_AWAY);
        hand_tick_after(RELAY_RETURN_MS - 100);
        assert_int_not_equal(a->link, LINK_GONE);
        hand_tick_after(100);
        assert_int_equal(a->link == LINK_GONE, rows[i].is_awaited);
        assert_int_equal(run->run.agent_count, !rows[i].is_awaited);
        fd = hand_connect(); /* it comes back after all */
        hand_resume(fd, 1, 11, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
        assert_int_not_equal(a->link, LINK_GONE);
        assert_int_equal(run->run.agent_count, 1);
        hand_request(fd, 1, 2, TEXT(GET_RUN));
        hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(THE_VALUE));
        rows[i].end(fd);
        fd = hand_connect(); /* or in time */
        hand_resume(fd, 1, 11, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
        hand_tick_after(RELAY_RETURN_MS);
        assert_int_not_equal(a->link, LINK_GONE);
        hand_lose_link(fd);
        loop_close(&loop);
    }
}

/* All sessions from before the start that come back have: that is known when the last one has
 * asked, or ended, and does not take --session-timeout. */
static void after_a_start_sessions_are_counted_that_come_back(void **state)
{
    int fd;

    (void)state;
    hand_store_open();
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_open(fd, 2, 12);
    hand_request(fd, 1, 1, TEXT(CAS_RUN));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 1, TEXT(THE_VALUE));
    hand_request(fd, 2, 1, TEXT(CAS_RUN));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 2, 1, TEXT(THE_VALUE));
    hand_store_restart(fd);
    assert_int_equal(TAILQ_FIRST(&loop.server.engine.spaces)->sessions_missing, 2);
    fd = hand_connect();
    hand_resume(fd, 1, 11, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
    hand_tick_after(0);
    assert_int_equal(TAILQ_FIRST(&loop.server.engine.spaces)->sessions_missing, 2);
    hand_request(fd, 1, 2, TEXT(GET_RUN));
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(THE_VALUE));
    hand_tick_after(0);
    assert_int_equal(TAILQ_FIRST(&loop.server.engine.spaces)->sessions_missing, 1);
    assert_int_equal(the_agent()->run->run.start, START_AWAITED);
    hand_resume(fd, 2, 12, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
    hand_send(fd, RELAY_CLOSE, 0, 2, 0, NOTHING); /* its client has ended meanwhile */
    hand_expect_nothing(fd);
    hand_tick_after(0);
    assert_int_equal(TAILQ_FIRST(&loop.server.engine.spaces)->sessions_missing, 0);
    assert_int_equal(the_agent()->run->run.start, START_UNNAMED); /* it has not said who it is */
    hand_lose_link(fd);
    hand_store_close();
}

static void an_agent_is_one_again_after_a_start(void **state)
{
    int fd;

    (void)state;
    hand_store_open();
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(CAS_RUN));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 1, TEXT(THE_VALUE));
    hand_store_restart(fd);
    fd = hand_connect();
    hand_resume(fd, 1, 11, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
    assert_null(the_agent());
    hand_request(fd, 1, 2, TEXT(GET_K));
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT("\0\0\0\0\0\0\0\0"));
    hand_request(fd, 1, 3, TEXT(GET_RUN));
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 3, TEXT(THE_VALUE));
    assert_non_null(the_agent());
    hand_lose_link(fd);
    hand_store_close();
}

/* A worker uses the keys of its worker store, before a start and after it; and that goes with it.
 */
static void a_worker_keeps_its_worker_store(void **state)
{
    struct engine *e = &loop.server.engine;
    struct engine_space *space;
    struct store_result result;
    int fd;

    (void)state;
    hand_store_open();
    space = TAILQ_FIRST(&e->spaces);
    engine_apply(e, space, &(struct command){.kind = COMMAND_WORKER_STORE_OPEN}, &result);
    assert_int_equal(result.status, STORE_OK);
    assert_int_equal(engine_session_bind(e, space, 11, true, 1), STORE_OK);
    loop_iterate(&loop);
    fd = loop_connect(&loop, false);
    hand_store_restart(fd);
    space = TAILQ_FIRST(&e->spaces);
    fd = hand_connect();
    hand_resume(fd, 1, 11, RELAY_KNOWN, 0, NOTHING);
    hand_request(fd, 1, 1, TEXT(SET_K));
    hand_expect(fd, RELAY_DONE, CHANGED, 1, 1, NOTHING);
    assert_null(keymap_get(&space->store->keys, slice_str("/k")));
    assert_non_null(keymap_get(space_keys(space->store, 1), slice_str("/k")));
    hand_lose_link(fd);
    hand_tick_after(44000);
    assert_int_equal(space->store->worker_stores.count, 1);
    hand_tick_after(1000);
    assert_int_equal(space->store->worker_stores.count, 0);
    hand_store_close();
}

/* --- A run that its agents have left. --- */

/* A tool writes a state with one node. */
static void put_state(struct engine_space *space)
{
    const struct torch_node who = {.addr = slice_str("a"), .participant = true};
    struct command c = {.kind = COMMAND_KEY_SET, .key = slice_str(RUN_KEY)};
    struct torch_state state = {.aware = true, .has_redundancy = true, .protocol = 4};
    struct store_result result;
    struct torch_node *at;
    uint8_t *text;

    assert_true(torch_state_insert(&state, &who, &at));
    assert_true(torch_state_write(&state, &text, &c.value.len));
    c.value.ptr = text;
    engine_apply(&loop.server.engine, space, &c, &result);
    assert_int_equal(result.status, STORE_OK);
    free(text);
    torch_state_free(&state);
}

static size_t count_reports(const struct engine_space *space)
{
    const struct run_record *record;
    size_t count = 0;

    TAILQ_FOREACH(record, &space->store->runs.list, order) {
        assert_true(run_record_is_ended(record));
        assert_non_null(memmem(record->address.ptr, record->address.len, "\"end\":\"left\"", 12));
        count++;
    }
    return count;
}

/* Containers start again within that minute. */
static void a_run_without_agents_for_a_minute_is_reported_once(void **state)
{
    struct engine_space *space;
    struct live_run *run;
    int fd;

    (void)state;
    space = TAILQ_FIRST(&loop.server.engine.spaces);
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(CAS_RUN));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 1, TEXT(THE_VALUE));
    run = the_agent()->run;
    put_state(space);
    hand_send(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    LOOP_UNTIL(&loop, run->run.agent_count == 0);
    rendezvous_tick(&loop.server.store.rendezvous);
    assert_int_equal(count_reports(space), 0);
    run->run.idle_since_ms -= RUN_LEFT_MS;
    driver_set_due(run, 0);
    LOOP_UNTIL(&loop, (rendezvous_tick(&loop.server.store.rendezvous), run->left_reported));
    assert_int_equal(count_reports(space), 1);
    driver_set_due(run, 0);
    rendezvous_tick(&loop.server.store.rendezvous);
    assert_int_equal(count_reports(space), 1);
    hand_lose_link(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(an_agent_lives_while_its_relay_is_away),
        LOOP_TEST(an_agent_of_a_forgotten_run_does_not_come_back),
        cmocka_unit_test(an_agent_ends_with_its_relay),
        cmocka_unit_test(after_a_start_sessions_are_counted_that_come_back),
        cmocka_unit_test(an_agent_is_one_again_after_a_start),
        cmocka_unit_test(a_worker_keeps_its_worker_store),
        LOOP_TEST(a_run_without_agents_for_a_minute_is_reported_once),
    };

    return cmocka_run_group_tests_name("rdzv/relay/link, jobs", tests, NULL, NULL);
}
