/* A node is lost: it is taken out, the others are told, and those who wait for its keys get some.
 */
#include "tests/unit/rendezvous/scene.h"

static struct torch_state state_now(const struct scene *s)
{
    return scene_state(scene_get(s, ""));
}

static size_t participants(const struct scene *s)
{
    return torch_state_participants(&s->run.view.state);
}

/* Nodes of the wait list; the mark is one of them. */
static size_t waiting(const struct scene *s)
{
    const struct torch_state *state = &s->run.view.state;
    size_t count = 0;

    for (size_t i = 0; i < state->count; i++)
        count += state->nodes[i].waiting;
    return count;
}

/* The agent leaves the round as torch does it, to meet the others again. */
static void leave(struct scene *s, size_t i)
{
    struct torch_state st = state_now(s);
    const char *now = scene_get(s, "");

    scene_remove(&st, scene_name(i));
    if (torch_state_participants(&st) == 0) {
        st.complete = false;
        st.round++;
    }
    scene_cas(s, &s->agents[i], now, scene_text(s, &st));
}

static void is_taken_out_at_once(void **state)
{
    struct scene s;
    const struct note *note;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    scene_disconnect(&s, &s.agents[1]);
    assert_int_equal(participants(&s), 2);
    assert_int_equal(s.run.view.state.round, 0);
    assert_true(s.run.view.state.complete);
    assert_int_equal(waiting(&s), 1);
    assert_int_equal(s.out.counters.nodes_disconnected, 1);
    assert_int_equal(s.out.counters.restarts_asked, 1);
    note = scene_note(&s, NOTE_NODES_RESTARTED);
    assert_int_equal(note->number, 2);
    scene_fini(&s);
}

/* Each setting alone. */
static void stays_when_told_so(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    s.settings.drop_disconnected = false;
    scene_meet(&s, 2);
    scene_disconnect(&s, &s.agents[1]);
    assert_int_equal(participants(&s), 2);
    assert_int_equal(waiting(&s), 0);
    scene_fini(&s);

    scene_init(&s);
    s.settings.restart_on_loss = RESTART_NEVER;
    scene_meet(&s, 2);
    scene_disconnect(&s, &s.agents[1]);
    assert_int_equal(participants(&s), 1);
    assert_int_equal(waiting(&s), 0);
    scene_fini(&s);
}

static void the_mark_goes_with_the_round(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    scene_disconnect(&s, &s.agents[2]);
    leave(&s, 0);
    assert_int_equal(waiting(&s), 1); /* the second has not seen it yet */
    leave(&s, 1);
    assert_int_equal(waiting(&s), 0);
    assert_int_equal(s.run.view.state.round, 1);
    assert_false(s.run.view.state.complete);
    scene_fini(&s);
}

/* The last one that is lost ends the round, and no agent is left to be told. */
static void the_last_one_ends_the_round(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_disconnect(&s, &s.agents[1]);
    scene_disconnect(&s, &s.agents[0]);
    assert_int_equal(s.run.view.state.round, 1);
    assert_false(s.run.view.state.complete);
    assert_int_equal(s.run.view.state.count, 0);
    scene_fini(&s);
}

static void a_mark_does_not_outlive_the_daemon(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_disconnect(&s, &s.agents[1]);
    assert_int_equal(waiting(&s), 1);
    scene_event(&s, RUN_RESTORED, NULL);
    assert_int_equal(waiting(&s), 0);
    assert_int_equal(participants(&s), 1);
    scene_fini(&s);
}

static void close_run(struct scene *s, size_t by)
{
    struct torch_state st = state_now(s);
    const char *now = scene_get(s, "");

    st.closed = true;
    scene_beat(&st, scene_name(by), scene_now_us(s) + 1);
    scene_cas(s, &s->agents[by], now, scene_text(s, &st));
}

/* A job that ends loses all of its nodes: none is missed. */
static void nothing_is_missed_at_the_end(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    close_run(&s, 0);
    scene_disconnect(&s, &s.agents[0]);
    assert_int_equal(waiting(&s), 0);
    assert_int_equal(participants(&s), 3);
    scene_fini(&s);

    scene_init(&s);
    scene_meet(&s, 3);
    scene_step(&s, (struct policy_event){
                       .kind = AGENT_ADD_ROUND_KEY,
                       .agent = &s.agents[0],
                       .round = 0,
                       .round_key = slice_str("torchelastic/agent/terminal_state/num_members")});
    scene_disconnect(&s, &s.agents[1]);
    assert_int_equal(participants(&s), 2);
    assert_int_equal(waiting(&s), 0);
    scene_fini(&s);

    scene_init(&s);
    scene_meet(&s, 2);
    scene_step(&s, (struct policy_event){
                       .kind = AGENT_DISCONNECTED, .agent = &s.agents[1], .daemon_drains = true});
    assert_int_equal(participants(&s), 2);
    s.agent_count = 1;
    scene_fini(&s);
}

/* A node has two connections, or its successor is there before the old one's has ended. */
static void a_node_with_another_connection_lives(void **state)
{
    struct scene s;
    struct torch_state st;
    const char *now;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_connect(&s, true);
    st = state_now(&s);
    now = scene_get(&s, "");
    scene_beat(&st, "b", scene_now_us(&s) + 1);
    scene_cas(&s, &s.agents[2], now, scene_text(&s, &st));
    assert_ptr_equal(run_agent_of(&s.run, &s.agents[1].node), &s.agents[2]);
    scene_disconnect(&s, &s.agents[2]);
    assert_int_equal(participants(&s), 2);
    assert_ptr_equal(run_agent_of(&s.run, &s.agents[1].node), &s.agents[1]);
    scene_disconnect(&s, &s.agents[1]);
    assert_int_equal(participants(&s), 1);
    scene_fini(&s);
}

static void a_node_that_waits_is_reason_enough(void **state)
{
    struct scene s;
    struct torch_state st;
    const char *now;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    scene_connect(&s, true);
    st = state_now(&s);
    now = scene_get(&s, "");
    scene_beat(&st, "d", scene_now_us(&s));
    scene_node(&st, "d")->waiting = true;
    scene_cas(&s, &s.agents[3], now, scene_text(&s, &st));
    scene_disconnect(&s, &s.agents[1]);
    assert_int_equal(waiting(&s), 1);
    assert_null(scene_note(&s, NOTE_NODES_RESTARTED));
    scene_fini(&s);
}

/* The network of one is gone: nothing ends its connection. */
static void a_silent_node_is_lost_after_a_while(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    for (int i = 0; i < 60; i++) {
        scene_pass(&s, 1000);
        scene_event(&s, AGENT_LOOKED, &s.agents[0]);
        scene_event(&s, RUN_TICK, NULL);
        assert_int_equal(waiting(&s), 0);
    }
    for (int i = 0; i < 4; i++) {
        scene_pass(&s, 1000);
        scene_event(&s, AGENT_LOOKED, &s.agents[0]);
        scene_event(&s, RUN_TICK, NULL);
    }
    assert_int_equal(waiting(&s), 1);
    scene_fini(&s);
}

/* --- Keys. --- */

static void those_who_wait_for_ranks_get_some(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_disconnect(&s, &s.agents[0]);
    assert_string_equal(scene_get(&s, ".0/torchelastic/role_info/0"),
                        "{\"role\": \"default\", \"rank\": 0, \"local_world_size\": 1}");
    assert_string_equal(scene_get(&s, ".0/torchelastic/assigned_ranks/0"), "[0, 2, 0, 2]");
    assert_string_equal(scene_get(&s, ".0/torchelastic/assigned_ranks/1"), "[1, 2, 1, 2]");
    assert_null(scene_get(&s, ".0/torchelastic/role_info1"));
    scene_fini(&s);
}

/* Agent 0 lives, and waits for the roles of all. */
static void agent_zero_gets_the_role_of_a_lost_node(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_put(&s, ".0/torchelastic/role_info/0", "said");
    scene_disconnect(&s, &s.agents[1]);
    assert_string_equal(scene_get(&s, ".0/torchelastic/role_info/0"), "said");
    assert_non_null(scene_get(&s, ".0/torchelastic/role_info/1"));
    assert_null(scene_get(&s, ".0/torchelastic/assigned_ranks/0"));
    scene_fini(&s);
}

/* They have all that they wait for. */
static void nobody_waits_long_after_the_round_was_complete(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_pass(&s, 61000);
    scene_disconnect(&s, &s.agents[0]);
    assert_null(scene_get(&s, ".0/torchelastic/role_info/0"));
    scene_fini(&s);
}

/* --- Who closes. --- */

static void a_node_that_was_taken_out_closes_nothing(void **state)
{
    struct scene s;
    struct torch_state st;
    const char *now, *answer;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_connect(&s, true);
    now = scene_get(&s, "");
    st = state_now(&s);
    st.closed = true;
    answer = scene_text(&s, &st);
    assert_string_equal(scene_cas(&s, &s.agents[2], now, answer), answer);
    assert_false(s.run.view.state.closed);
    assert_non_null(scene_note(&s, NOTE_CLOSE_IGNORED));
    close_run(&s, 1);
    assert_true(s.run.view.state.closed);
    scene_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_taken_out_at_once),
        cmocka_unit_test(stays_when_told_so),
        cmocka_unit_test(the_mark_goes_with_the_round),
        cmocka_unit_test(the_last_one_ends_the_round),
        cmocka_unit_test(a_mark_does_not_outlive_the_daemon),
        cmocka_unit_test(nothing_is_missed_at_the_end),
        cmocka_unit_test(a_node_with_another_connection_lives),
        cmocka_unit_test(a_node_that_waits_is_reason_enough),
        cmocka_unit_test(a_silent_node_is_lost_after_a_while),
        cmocka_unit_test(those_who_wait_for_ranks_get_some),
        cmocka_unit_test(agent_zero_gets_the_role_of_a_lost_node),
        cmocka_unit_test(nobody_waits_long_after_the_round_was_complete),
        cmocka_unit_test(a_node_that_was_taken_out_closes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
