/* A relay has closed its link and does not come back, or does later: what its agents are then. */
#include "tests/unit/rendezvous/scene.h"

static void lose_relay(struct scene *s, size_t i)
{
    scene_event(s, AGENT_AWAY, &s->agents[i]);
    scene_pass(s, 3000);
    scene_event(s, AGENT_GONE, &s->agents[i]);
}

static void a_node_is_lost_with_its_relay(void **state)
{
    struct scene *s = *state;
    const struct note *note;

    scene_meet(s, 3);
    lose_relay(s, 1);
    assert_int_equal(scene_participants(s), 2);
    assert_int_equal(scene_waiting_nodes(s), 1);
    assert_int_equal(s->run.agent_count, 2);
    assert_int_equal(s->out.counters.nodes_disconnected, 1);
    assert_int_equal(s->out.counters.restarts_asked, 1);
    note = scene_note(s, NOTE_NODE_DISCONNECTED);
    assert_ptr_equal(note->agent, &s->agents[1]);
    assert_string_equal(note->reason,
                        "its relay has closed the link and not come back, so both have ended");
    scene_disconnect(s, &s->agents[1]); /* at the end of --session-timeout */
    assert_null(scene_note(s, NOTE_NODE_DISCONNECTED));
    assert_int_equal(scene_participants(s), 2);
    scene_renew(s);

    s->settings.drop_disconnected = false;
    scene_meet(s, 2);
    lose_relay(s, 1);
    assert_int_equal(scene_participants(s), 2);
    assert_int_equal(s->run.agent_count, 2);
}

/* Its workers know that port, and would come to the store of another run. */
static void a_run_keeps_its_port_until_nobody_may_be_back(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    scene_meet(s, 2);
    lose_relay(s, 0);
    assert_true(run_keeps_port(&s->run));
    lose_relay(s, 1);
    assert_true(s->run.agent_count == 0 && run_keeps_port(&s->run));
    scene_event(s, AGENT_BACK, &s->agents[1]);
    scene_disconnect(s, &s->agents[0]);
    assert_true(run_keeps_port(&s->run));
    scene_disconnect(s, &s->agents[1]);
    assert_false(run_keeps_port(&s->run));
    scene_restart(s, true);
    assert_true(s->run.agent_count == 0 && run_keeps_port(&s->run));
    scene_event(s, RUN_RETURNED, NULL);
    assert_false(run_keeps_port(&s->run));
    scene_renew(s);

    scene_meet(s, 2);
    st = scene_state_now(s);
    st.closed = true;
    scene_put_state(s, &st);
    assert_false(run_keeps_port(&s->run));
}

/* Its relay lives after all. */
static void a_node_that_returns_is_put_back(void **state)
{
    struct scene *s = *state;
    const struct torch_node *node;

    scene_meet(s, 2);
    lose_relay(s, 1);
    assert_int_equal(scene_participants(s), 1);
    scene_event(s, AGENT_BACK, &s->agents[1]);
    assert_int_equal(s->run.agent_count, 2);
    scene_event(s, AGENT_POLLED, &s->agents[1]);
    node = torch_state_find(&s->run.view.state, &s->agents[1].node);
    assert_true(node->participant); /* in the round that the others are about to leave */
    assert_int_equal(node->rank, 1);
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(scene_participants(s), 1);
    scene_renew(s);

    scene_meet(s, 2);
    lose_relay(s, 1);
    scene_leave(s, 0);
    scene_event(s, AGENT_BACK, &s->agents[1]);
    scene_event(s, AGENT_POLLED, &s->agents[1]);
    node = torch_state_find(&s->run.view.state, &s->agents[1].node);
    assert_true(node->waiting); /* in the next round */
}

/* No node waits for the lost agent to join, and the agent does not keep the run from being
 * forgotten. */
static void who_is_gone_is_counted_nowhere(void **state)
{
    struct scene *s = *state;
    const char *now;

    scene_meet(s, 3);
    lose_relay(s, 2);
    lose_relay(s, 1);
    lose_relay(s, 0);
    assert_int_equal(s->run.agent_count, 0);
    assert_int_equal(s->run.agent_count, 0);
    scene_event(s, AGENT_BACK, &s->agents[0]);
    assert_int_not_equal(s->run.agent_count, 0);
    now = scene_get(s, "");
    scene_cas(s, &s->agents[0], now, scene_joined(s, now, "a"));
    scene_event(s, RUN_FORGET, NULL);
    assert_true(scene_has(s, POLICY_CLOSE, &s->agents[0]));
    assert_true(scene_has(s, POLICY_CLOSE, &s->agents[1]));
}

/* Another agent of the same name took its place while the agent was away. */
static void who_comes_back_behind_its_successor_does_not_count(void **state)
{
    struct scene *s = *state;
    const char *now;

    scene_meet(s, 2);
    lose_relay(s, 1);
    scene_connect(s, true);
    now = scene_get(s, "");
    scene_cas(s, &s->agents[2], now, scene_joined(s, now, "b"));
    scene_event(s, AGENT_BACK, &s->agents[1]);
    assert_ptr_equal(run_agent_of(&s->run, &s->agents[1].node), &s->agents[2]);
    scene_disconnect(s, &s->agents[1]);
    assert_ptr_equal(run_agent_of(&s->run, &s->agents[2].node), &s->agents[2]);
}

/* It has two connections through the same relay. */
static void a_node_with_two_sessions_is_lost_with_the_second(void **state)
{
    struct scene *s = *state;
    struct torch_state st;
    const char *now;

    scene_meet(s, 2);
    scene_connect(s, true);
    st = scene_state_now(s);
    now = scene_get(s, "");
    scene_beat(&st, "b", scene_now_us(s) + 1);
    scene_cas(s, &s->agents[2], now, scene_text(s, &st));
    lose_relay(s, 2);
    assert_int_equal(scene_participants(s), 2);
    lose_relay(s, 1);
    assert_int_equal(scene_participants(s), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_node_is_lost_with_its_relay),
        TEST(a_run_keeps_its_port_until_nobody_may_be_back),
        TEST(a_node_that_returns_is_put_back),
        TEST(who_is_gone_is_counted_nowhere),
        TEST(who_comes_back_behind_its_successor_does_not_count),
        TEST(a_node_with_two_sessions_is_lost_with_the_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
