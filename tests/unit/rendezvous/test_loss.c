/* A node is lost when its agent disconnects: rdzvd removes the node, and notifies the other agents.
 */
#include "tests/unit/rendezvous/scene.h"

static void is_taken_out_at_once(void **state)
{
    struct scene *s = *state;
    const struct note *note;

    scene_meet(s, 3);
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(scene_participants(s), 2);
    assert_int_equal(s->run.view.state.round, 0);
    assert_true(s->run.view.state.complete);
    assert_int_equal(scene_waiting_nodes(s), 1);
    assert_int_equal(s->out.counters.nodes_disconnected, 1);
    assert_int_equal(s->out.counters.restarts_asked, 1);
    note = scene_note(s, NOTE_NODES_RESTARTED);
    assert_int_equal(note->number, 2);
    assert_string_equal(note->text, "b/100/0");
}

/* Each setting alone. */
static void stays_when_told_so(void **state)
{
    struct scene *s = *state;

    s->settings.drop_disconnected = false;
    scene_meet(s, 2);
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(scene_participants(s), 2);
    assert_int_equal(scene_waiting_nodes(s), 0);
    scene_renew(s);

    s->settings.restart_on_loss = RESTART_NEVER;
    scene_meet(s, 2);
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(scene_participants(s), 1);
    assert_int_equal(scene_waiting_nodes(s), 0);
}

static void the_mark_goes_with_the_round(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 3);
    scene_disconnect(s, &s->agents[2]);
    scene_leave(s, 0);
    assert_int_equal(scene_waiting_nodes(s), 1); /* the second has not seen it yet */
    scene_leave(s, 1);
    assert_int_equal(scene_waiting_nodes(s), 0);
    assert_int_equal(s->run.view.state.round, 1);
    assert_false(s->run.view.state.complete);
}

/* The last one that is lost ends the round, and no agent is left to be told. */
static void the_last_one_ends_the_round(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_disconnect(s, &s->agents[1]);
    scene_disconnect(s, &s->agents[0]);
    assert_int_equal(s->run.view.state.round, 1);
    assert_false(s->run.view.state.complete);
    assert_int_equal(s->run.view.state.count, 0);
}

static void close_run(struct scene *s, size_t by)
{
    struct torch_state st = scene_state_now(s);
    const char *now = scene_get(s, "");

    st.closed = true;
    scene_beat(&st, scene_name(by), scene_now_us(s) + 1);
    scene_cas(s, &s->agents[by], now, scene_text(s, &st));
}

/* A job that ends loses all of its nodes: none is missed. */
static void nothing_is_missed_at_the_end(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 3);
    scene_finish(s, 0);
    close_run(s, 0);
    scene_disconnect(s, &s->agents[0]);
    assert_int_equal(scene_waiting_nodes(s), 0);
    assert_int_equal(scene_participants(s), 3);
    scene_renew(s);

    scene_meet(s, 3);
    scene_finish(s, 0);
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(scene_participants(s), 2);
    assert_int_equal(scene_waiting_nodes(s), 0);
    scene_renew(s);

    scene_meet(s, 2);
    scene_step(s, (struct policy_event){
                      .kind = AGENT_DISCONNECTED, .agent = &s->agents[1], .daemon_drains = true});
    assert_int_equal(scene_participants(s), 2);
    s->agent_count = 1;
}

/* A node has two connections, or its successor is there before the old one's has ended. */
static void a_node_with_another_connection_lives(void **state)
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
    assert_ptr_equal(run_agent_of(&s->run, &s->agents[1].node), &s->agents[2]);
    scene_disconnect(s, &s->agents[2]);
    assert_int_equal(scene_participants(s), 2);
    assert_ptr_equal(run_agent_of(&s->run, &s->agents[1].node), &s->agents[1]);
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(scene_participants(s), 1);
}

/* The node is lost, but its predecessor is not: the predecessor's relay is away, or it ran on
 * another machine. */
static void a_node_whose_predecessor_is_still_connected_is_lost(void **state)
{
    struct scene *s = *state;
    static const int64_t ahead_us[] = {0, 120 * SECOND};

    for (size_t i = 0; i < COUNT(ahead_us); i++) {
        struct torch_state st;
        const char *now;

        scene_meet(s, 2);
        if (ahead_us[i] == 0)
            scene_event(s, AGENT_AWAY, &s->agents[1]);
        scene_connect(s, true);
        st = scene_state_now(s);
        now = scene_get(s, "");
        scene_beat(&st, "b", scene_now_us(s) + ahead_us[i] + 1);
        scene_cas(s, &s->agents[2], now, scene_text(s, &st));
        scene_disconnect(s, &s->agents[2]);
        assert_int_equal(scene_participants(s), 1);
        scene_renew(s);
    }
}

/* The last agent connects, and joins a complete round. */
static void wait_in_it(struct scene *s, const char *name)
{
    struct agent *a = scene_connect(s, true);
    struct torch_state st = scene_state_now(s);
    const char *now = scene_get(s, "");

    scene_beat(&st, name, scene_now_us(s));
    scene_node(&st, name)->waiting = true;
    scene_cas(s, a, now, scene_text(s, &st));
}

static void a_node_that_waits_is_reason_enough(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 3);
    wait_in_it(s, "d");
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(scene_waiting_nodes(s), 1);
    assert_null(scene_note(s, NOTE_NODES_RESTARTED));
    assert_non_null(scene_get(s, ".0/torchelastic/role_info/1"));
}

/* The others look once a second, and may have seen neither. */
static void a_node_that_waits_is_a_reason_while_it_is_there(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 3);
    wait_in_it(s, "d");
    scene_disconnect(s, &s->agents[3]);
    assert_int_equal(scene_waiting_nodes(s), 0);
    wait_in_it(s, "e");
    scene_disconnect(s, &s->agents[1]);
    scene_disconnect(s, &s->agents[4]);
    assert_int_equal(scene_waiting_nodes(s), 1);
    assert_non_null(scene_note(s, NOTE_NODES_RESTARTED));
}

static void a_node_that_was_taken_out_closes_nothing(void **state)
{
    struct scene *s = *state;
    struct torch_state st;
    const char *now, *answer;

    scene_meet(s, 2);
    scene_cas(s, scene_connect(s, true), "", SENTINEL);
    now = scene_get(s, "");
    st = scene_state_now(s);
    st.closed = true;
    answer = scene_text(s, &st);
    assert_string_equal(scene_cas(s, &s->agents[2], now, answer), answer);
    assert_false(s->run.view.state.closed);
    assert_non_null(scene_note(s, NOTE_CLOSE_IGNORED));
    close_run(s, 1);
    assert_true(s->run.view.state.closed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(is_taken_out_at_once),
        TEST(stays_when_told_so),
        TEST(the_mark_goes_with_the_round),
        TEST(the_last_one_ends_the_round),
        TEST(nothing_is_missed_at_the_end),
        TEST(a_node_with_another_connection_lives),
        TEST(a_node_whose_predecessor_is_still_connected_is_lost),
        TEST(a_node_that_waits_is_reason_enough),
        TEST(a_node_that_waits_is_a_reason_while_it_is_there),
        TEST(a_node_that_was_taken_out_closes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
