/* The policy: compare-and-sets as torch's store does them, heartbeats that merge, closing, and runs
 * that are forgotten. */
#include "rdzv/rendezvous/step.h"
#include "tests/unit/rendezvous/scene.h"

/* --- Torch's own semantics. --- */

static void a_value_that_is_no_state_is_compared_as_torch_does(void **state)
{
    struct scene *s = *state;
    static const char *const values[] = {"non_base64", "", "AAAA", SENTINEL, SENTINEL "\n"};
    struct agent *a;

    a = scene_connect(s, true);
    assert_string_equal(scene_cas(s, a, "something", "x"), "something"); /* there is no key */
    assert_null(scene_get(s, ""));
    for (size_t i = 0; i < COUNT(values); i++) {
        scene_change(s, values[i]);
        assert_string_equal(scene_cas(s, a, "something", "x"), values[i]);
        assert_string_equal(scene_cas(s, a, values[i], "next"), "next");
    }
}

static void the_first_that_joins_is_known(void **state)
{
    struct scene *s = *state;
    const char *next;

    scene_connect(s, true);
    assert_string_equal(scene_cas(s, &s->agents[0], "", SENTINEL), SENTINEL);
    next = scene_joined(s, SENTINEL, "a");
    scene_cas(s, &s->agents[0], SENTINEL, next);
    assert_string_equal(scene_get(s, ""), next); /* in torch's own form */
    assert_true(agent_has_node(&s->agents[0]) && slice_is(s->agents[0].node.addr, "a"));
    assert_ptr_equal(run_agent_of(&s->run, &s->agents[0].node), &s->agents[0]);
}

static void a_full_space_refuses(void **state)
{
    struct scene *s = *state;

    scene_connect(s, true);
    s->room = 8;
    assert_null(scene_cas(s, &s->agents[0], "", SENTINEL));
    assert_true(scene_has(s, POLICY_NO_ROOM, &s->agents[0]));
    s->room = 1000;
    assert_string_equal(scene_cas(s, &s->agents[0], "", SENTINEL), SENTINEL);
    s->room = 0;
    assert_string_equal(scene_cas(s, &s->agents[0], SENTINEL, "shorter"), "shorter");
}

/* --- Heartbeats. --- */

static const char *beat(struct scene *s, const char *value, const char *name, int64_t at_us)
{
    struct torch_state state = scene_state(value);

    scene_beat(&state, name, at_us);
    return scene_text(s, &state);
}

static int64_t heartbeat_of(const struct scene *s, const char *name)
{
    struct torch_state state = scene_state_now(s);
    int64_t at_us = scene_node(&state, name)->heartbeat_us;

    torch_state_free(&state);
    return at_us;
}

static void heartbeats_of_two_agents_merge(void **state)
{
    struct scene *s = *state;
    const char *old, *mine;

    scene_meet(s, 2);
    old = beat(s, scene_get(s, ""), "a", scene_now_us(s)); /* a copy of the value */
    old = scene_cas(s, &s->agents[0], scene_get(s, ""), old);
    scene_pass(s, 5000);
    scene_cas(s, &s->agents[0], old, beat(s, old, "a", scene_now_us(s)));
    old = scene_poll(s, &s->agents[1]);
    mine = beat(s, old, "b", scene_now_us(s) + 1);
    scene_cas(s, &s->agents[1], old, mine);
    assert_int_equal(s->out.counters.writes_merged, 1);
    scene_event(s, RUN_READ, NULL); /* puts them into the value */
    assert_int_equal(heartbeat_of(s, "a"), scene_now_us(s));
    assert_int_equal(heartbeat_of(s, "b"), scene_now_us(s)); /* by our clock */
    assert_int_equal(s->agents[1].clock.ahead_us, 1);
}

/* --- Closing. --- */

static const char *closed_text(struct scene *s)
{
    struct torch_state st = scene_state_now(s);

    st.closed = true;
    return scene_text(s, &st);
}

static void close_needs_all_who_are_in(void **state)
{
    struct scene *s = *state;
    const char *closed, *now;

    s->settings.close_needs_all = true;
    scene_meet(s, 2);
    closed = closed_text(s);
    now = beat(s, scene_get(s, ""), "a", heartbeat_of(s, "a"));
    assert_string_equal(scene_cas(s, &s->agents[0], now, closed), closed); /* looks like success */
    assert_non_null(scene_note(s, NOTE_CLOSE_IGNORED));
    assert_false(s->run.view.state.closed);
    now = beat(s, scene_get(s, ""), "a", heartbeat_of(s, "a"));
    scene_cas(s, &s->agents[1], now, closed_text(s));
    assert_true(s->run.view.state.closed);
    assert_int_equal(s->out.counters.runs_closed, 1);
}

/* --- Runs that are forgotten. --- */

static void close_run(struct scene *s)
{
    const char *now = beat(s, scene_get(s, ""), "a", heartbeat_of(s, "a"));

    scene_finish(s, 0);
    scene_cas(s, &s->agents[0], now, closed_text(s));
    assert_true(s->run.view.state.closed);
}

static void a_closed_run_is_forgotten_when_all_have_left(void **state)
{
    struct scene *s = *state;
    const struct note *note;

    scene_meet(s, 2);
    close_run(s);
    scene_disconnect(s, &s->agents[0]);
    scene_pass(s, 3600 * 1000);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 0); /* one is still there */
    scene_disconnect(s, &s->agents[1]);
    scene_pass(s, 4999);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 0);
    scene_pass(s, 1);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
    note = scene_note(s, NOTE_RUN_FORGOTTEN);
    assert_true(note != NULL && note->closed);
    assert_true(run_is_unused(&s->run));
    assert_int_equal(s->share, PORT_IS_FREE);
    for (size_t i = 0; i < COUNT(s->open_stores); i++)
        assert_int_equal(s->open_stores[i], 0);
}

/* A disk is full: its keys could not be deleted. */
static void a_run_is_forgotten_when_that_can_be_done(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 1);
    close_run(s);
    scene_disconnect(s, &s->agents[0]);
    scene_pass(s, 5000);
    s->now.refuses = true;
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 0);
    assert_true(s->run.view.exists);
    s->now.refuses = false;
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
}

/* The agent's relay has closed the link, so the agent was presumed dead; it must not enter the next
 * run of this name. */
static void who_was_taken_for_dead_ends_with_its_run(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    close_run(s);
    scene_disconnect(s, &s->agents[0]);
    scene_event(s, AGENT_AWAY, &s->agents[1]);
    scene_event(s, AGENT_GONE, &s->agents[1]);
    scene_pass(s, 5000);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
    assert_true(scene_has(s, POLICY_CLOSE, &s->agents[1]));
}

static void an_open_run_is_forgotten_after_its_ttl(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 1);
    scene_disconnect(s, &s->agents[0]);
    scene_pass(s, 3600 * 1000);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 0); /* the TTL is off */
    s->settings.idle_run_ttl_ms = 7200 * 1000;
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 0);
    scene_pass(s, 3600 * 1000);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
}

/* A tick's `now` is from before the run: an interval that wraps would be one of ages. */
static void a_run_is_not_forgotten_before_it_began(void **state)
{
    struct scene *s = *state;

    s->settings.idle_run_ttl_ms = 1;
    scene_put(s, "", SENTINEL);
    scene_event(s, RUN_RESTORED, NULL);
    s->now.ms -= 2;
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 0);
    s->now.ms += 3;
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
    assert_int_equal(clock_elapsed_ms(2, 1), 0);
    assert_int_equal(clock_elapsed_ms(1, UINT64_MAX), UINT64_MAX - 1);
}

static void a_run_is_forgotten_on_request_under_its_agents(void **state)
{
    struct scene *s = *state;

    scene_event(s, RUN_FORGET, NULL);
    assert_int_equal(s->out.count, 0); /* there is none */
    scene_meet(s, 2);
    scene_event(s, RUN_FORGET, NULL);
    assert_int_equal(scene_count(s, POLICY_CLOSE), 2);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
    assert_null(scene_get(s, ""));
    scene_disconnect(s, &s->agents[0]);
    assert_null(scene_note(s, NOTE_NODE_DISCONNECTED)); /* it is not missed */
}

/* Its predecessor of the same name has said that it lives at a later time. */
static void an_agent_whose_clock_is_behind_its_predecessors_is_known(void **state)
{
    struct scene *s = *state;
    struct torch_state st;
    const char *now;

    s->settings.drop_disconnected = false;
    scene_meet(s, 2);
    now = scene_get(s, "");
    st = scene_state(now);
    scene_beat(&st, "b", scene_now_us(s) + 120000000);
    scene_cas(s, &s->agents[1], now, scene_text(s, &st));
    scene_disconnect(s, &s->agents[1]);
    scene_cas(s, scene_connect(s, true), "", SENTINEL);
    now = scene_poll(s, &s->agents[2]);
    scene_cas(s, &s->agents[2], now, scene_waiting(s, now, "b"));
    assert_true(s->agents[2].naming == NAMING_LISTED);
    assert_false(scene_node_now(s, "b").participant); /* as torch's agent takes itself out first */
    assert_non_null(scene_note(s, NOTE_NODE_REPLACED));
}

/* The agent's old host and the other node are lost, and no agent has noticed it yet. The agent
 * removes both nodes, and is the first node of the next round. */
static void an_agent_that_takes_out_all_and_begins_anew_is_known(void **state)
{
    struct scene *s = *state;
    struct torch_state st;
    const char *now;

    scene_meet(s, 2);
    scene_pass(s, 16000);
    now = scene_get(s, "");
    st = scene_state(now);
    scene_remove(&st, "b");
    st.round++;
    st.complete = false;
    scene_beat(&st, "a", scene_now_us(s));
    scene_cas(s, scene_connect(s, true), now, scene_text(s, &st));
    assert_int_equal(s->run.view.state.round, 1);
    assert_ptr_equal(run_agent_of(&s->run, &s->agents[0].node), &s->agents[2]);
    scene_disconnect(s, &s->agents[0]);
    assert_int_equal(scene_participants(s), 1);
}

static void a_run_whose_key_is_deleted_keeps_nothing(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    assert_true(s->has_record);
    free(s->keys[SCENE_KEYS - 1].key);
    free(s->keys[SCENE_KEYS - 1].value);
    s->keys[SCENE_KEYS - 1].key = s->keys[SCENE_KEYS - 1].value = NULL;
    assert_null(scene_get(s, ""));
    scene_event(s, RUN_CHANGED, NULL);
    assert_false(s->has_record);
    assert_int_equal(scene_count(s, POLICY_DROP_WORKER_STORE), 1);
    s->agents[0].origin = ORIGIN_TOOL;
    assert_string_equal(scene_cas(s, &s->agents[0], "stale", "x"), "stale");
    assert_null(scene_get(s, ""));
    s->agents[0].origin = ORIGIN_AGENT; /* torch's agent would ask again for ever */
    assert_string_equal(scene_cas(s, &s->agents[0], "stale", "x"), SENTINEL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_value_that_is_no_state_is_compared_as_torch_does),
        TEST(the_first_that_joins_is_known),
        TEST(a_full_space_refuses),
        TEST(heartbeats_of_two_agents_merge),
        TEST(close_needs_all_who_are_in),
        TEST(a_closed_run_is_forgotten_when_all_have_left),
        TEST(a_run_is_forgotten_when_that_can_be_done),
        TEST(who_was_taken_for_dead_ends_with_its_run),
        TEST(an_open_run_is_forgotten_after_its_ttl),
        TEST(a_run_is_not_forgotten_before_it_began),
        TEST(a_run_is_forgotten_on_request_under_its_agents),
        TEST(an_agent_whose_clock_is_behind_its_predecessors_is_known),
        TEST(an_agent_that_takes_out_all_and_begins_anew_is_known),
        TEST(a_run_whose_key_is_deleted_keeps_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
