/* After a restart of the daemon: the nodes that return, the nodes that are lost, and the agents
 * that are notified. */
#include "tests/unit/rendezvous/scene.h"

/* An agent that comes back may not have seen the mark. When no agent can come back, it goes. */
static void a_mark_outlives_the_daemon_for_those_who_come_back(void **state)
{
    struct scene *s = *state;

    for (int return_again = 0; return_again < 2; return_again++) {
        scene_meet(s, 2);
        scene_disconnect(s, &s->agents[1]);
        assert_int_equal(scene_waiting_nodes(s), 1);
        scene_restart(s, true);
        assert_int_equal(scene_waiting_nodes(s), 1);
        assert_int_equal(scene_participants(s), 1);
        scene_restart(s, return_again); /* before it has come back */
        assert_int_equal(scene_waiting_nodes(s), return_again);
        assert_int_equal(scene_participants(s), return_again);
        scene_renew(s);
    }
}

/* Its workers' port has gone with the daemon, whatever is said of connections. */
static void after_a_start_a_round_with_a_port_of_its_own_is_over(void **state)
{
    struct scene *s = *state;

    for (int own = 0; own < 2; own++) {
        s->settings.drop_disconnected = false;
        s->settings.worker_port_low = own ? 31000 : 0;
        scene_meet(s, 2);
        scene_restart(s, false);
        assert_int_equal(scene_participants(s), own ? 0 : 2);
        assert_int_equal(s->run.view.state.round, own);
        scene_renew(s);
    }
}

/* Agents behind relays reconnect: a node whose agent has not reconnected after a while is lost. */
static void after_a_start_agents_of_relays_are_awaited(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_restart(s, true);
    assert_int_equal(scene_participants(s), 2);
    scene_return(s, &s->agents[1]);
    assert_int_equal(scene_participants(s), 2);
    scene_event(s, RUN_RETURNED, NULL);
    assert_int_equal(scene_participants(s), 1);
    assert_true(scene_node_now(s, "b").participant);
    assert_non_null(scene_note(s, NOTE_NODES_LOST));
}

/* An older daemon kept no hint for the agent: the agent may be either node until it sends its name,
 * or has had the time to send it. */
static void after_a_start_one_of_whom_nothing_is_known_is_awaited(void **state)
{
    struct scene *s = *state;

    for (int says = 0; says < 2; says++) {
        struct agent *a;

        scene_meet(s, 2);
        scene_restart(s, true);
        a = scene_return(s, NULL);
        scene_event(s, RUN_RETURNED, NULL);
        scene_pass(s, 59000);
        scene_event(s, RUN_TICK, NULL);
        assert_int_equal(scene_participants(s), 2);
        if (says)
            scene_say_node(s, a, "b");
        else
            scene_pass(s, 1000);
        scene_event(s, RUN_TICK, NULL);
        assert_int_equal(scene_participants(s), says);
        assert_non_null(scene_note(s, NOTE_NODES_LOST));
        scene_renew(s);
    }
}

/* The last agent that may be one of them has gone; no agent makes the run due. */
static void after_a_start_a_tick_misses_nodes_of_a_run_without_agents(void **state)
{
    struct scene *s = *state;
    struct agent *a;

    scene_meet(s, 2);
    scene_restart(s, true);
    a = scene_return(s, NULL);
    scene_event(s, RUN_RETURNED, NULL);
    scene_disconnect(s, a);
    assert_int_equal(run_due_ms(&s->run), 0);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_participants(s), 0);
    assert_int_not_equal(run_due_ms(&s->run), 0);
}

/* rdzvd notifies the other agents if a lost node was a participant. */
static void after_a_start_the_others_are_told(void **state)
{
    struct scene *s = *state;

    for (int tells = 0; tells < 2; tells++) {
        s->settings.restart_on_loss = tells ? RESTART_WHEN_CLOSED : RESTART_NEVER;
        scene_meet(s, 3);
        scene_restart(s, true);
        scene_return(s, &s->agents[1]);
        scene_pass(s, 1000);
        scene_event(s, RUN_TICK, NULL);
        assert_int_equal(scene_participants(s), 3);
        scene_event(s, RUN_RETURNED, NULL);
        assert_int_equal(scene_participants(s), 1);
        assert_int_equal(scene_note(s, NOTE_NODES_LOST)->number, 2);
        assert_int_equal(scene_waiting_nodes(s), tells);
        assert_int_equal(scene_note(s, NOTE_NODES_RESTARTED) != NULL, tells);
        scene_event(s, RUN_TICK, NULL);
        assert_null(scene_note(s, NOTE_NODES_LOST)); /* once */
        scene_renew(s);
    }
}
/* The others had no time to see that a node waits before the daemon ended, and it does not come
 * back. */
static void who_was_told_before_a_start_is_told_again(void **state)
{
    struct scene *s = *state;
    const char *now;

    scene_meet(s, 2);
    now = scene_get(s, "");
    scene_cas(s, scene_connect(s, true), now, scene_waiting(s, now, "c"));
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(scene_waiting_nodes(s), 1);
    scene_restart(s, true);
    assert_int_equal(scene_waiting_nodes(s), 1);
    scene_return(s, &s->agents[0]);
    scene_event(s, RUN_RETURNED, NULL);
    assert_int_equal(scene_waiting_nodes(s), 1);
    assert_false(scene_node_now(s, "c").waiting);
    assert_non_null(scene_note(s, NOTE_NODES_RESTARTED));
}

/* All were back, and have met, before the last session of the space was. */
static void who_has_met_since_the_start_is_told_nothing(void **state)
{
    struct scene *s = *state;
    const char *now;

    scene_meet(s, 1);
    now = scene_get(s, "");
    scene_cas(s, scene_connect(s, true), now, scene_waiting(s, now, "b"));
    scene_restart(s, true);
    s->run.max_nodes = 0; /* MAX is more than 1 */
    for (size_t i = 0; i < 2; i++)
        scene_return(s, &s->agents[i == 0 ? 0 : 1]);
    now = scene_get(s, "");
    scene_cas(s, &s->agents[2], now, scene_leaving(s, now, "a"));
    now = scene_get(s, "");
    scene_cas(s, &s->agents[3], now, scene_joined(s, now, "b"));
    now = scene_get(s, "");
    scene_cas(s, &s->agents[2], now, scene_completed(s, now, "a"));
    assert_int_equal(scene_participants(s), 2);
    scene_event(s, RUN_RETURNED, NULL);
    assert_int_equal(s->out.counters.restarts_asked, 0);
    assert_null(scene_note(s, NOTE_NODES_RESTARTED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_mark_outlives_the_daemon_for_those_who_come_back),
        TEST(after_a_start_a_round_with_a_port_of_its_own_is_over),
        TEST(after_a_start_agents_of_relays_are_awaited),
        TEST(after_a_start_one_of_whom_nothing_is_known_is_awaited),
        TEST(after_a_start_a_tick_misses_nodes_of_a_run_without_agents),
        TEST(after_a_start_the_others_are_told),
        TEST(who_was_told_before_a_start_is_told_again),
        TEST(who_has_met_since_the_start_is_told_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
