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
    scene_leave(&s, 0);
    assert_int_equal(waiting(&s), 1); /* the second has not seen it yet */
    scene_leave(&s, 1);
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

/* An agent that comes back may not have seen the mark. When no agent can come back, it goes. */
static void a_mark_outlives_the_daemon_for_those_who_come_back(void **state)
{
    (void)state;
    for (int return_again = 0; return_again < 2; return_again++) {
        struct scene s;

        scene_init(&s);
        scene_meet(&s, 2);
        scene_disconnect(&s, &s.agents[1]);
        assert_int_equal(waiting(&s), 1);
        scene_restart(&s, true);
        assert_int_equal(waiting(&s), 1);
        assert_int_equal(participants(&s), 1);
        scene_restart(&s, return_again); /* before it has come back */
        assert_int_equal(waiting(&s), return_again);
        assert_int_equal(participants(&s), return_again);
        scene_fini(&s);
    }
}

/* Its workers' port has gone with the daemon, whatever is said of connections. */
static void after_a_start_a_round_with_a_port_of_its_own_is_over(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct scene s;

        scene_init(&s);
        s.settings.drop_disconnected = false;
        s.settings.own_worker_ports = own;
        scene_meet(&s, 2);
        scene_restart(&s, false);
        assert_int_equal(participants(&s), own ? 0 : 2);
        assert_int_equal(s.run.view.state.round, own);
        scene_fini(&s);
    }
}

/* Agents behind relays come back: who has not done so after a while is lost. */
static void after_a_start_agents_of_relays_are_awaited(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_restart(&s, true);
    assert_int_equal(participants(&s), 2);
    scene_return(&s, &s.agents[1]);
    assert_int_equal(participants(&s), 2);
    scene_event(&s, RUN_RETURNED, NULL);
    assert_int_equal(participants(&s), 1);
    assert_true(scene_node_now(&s, "b").participant);
    assert_non_null(scene_note(&s, NOTE_NODES_LOST));
    scene_fini(&s);
}

/* A daemon of a release before has kept nothing of it: it may be either of them, until it has said
 * so, or could have. */
static void after_a_start_one_of_whom_nothing_is_known_is_awaited(void **state)
{
    (void)state;
    for (int says = 0; says < 2; says++) {
        struct agent *a;
        struct scene s;

        scene_init(&s);
        scene_meet(&s, 2);
        scene_restart(&s, true);
        a = scene_return(&s, NULL);
        scene_event(&s, RUN_RETURNED, NULL);
        scene_pass(&s, 59000);
        scene_event(&s, RUN_TICK, NULL);
        assert_int_equal(participants(&s), 2);
        if (says)
            scene_say_node(&s, a, "b");
        else
            scene_pass(&s, 1000);
        scene_event(&s, RUN_TICK, NULL);
        assert_int_equal(participants(&s), says);
        assert_non_null(scene_note(&s, NOTE_NODES_LOST));
        scene_fini(&s);
    }
}

/* The last agent that may be one of them has gone; no agent makes the run due. */
static void after_a_start_a_tick_misses_nodes_of_a_run_without_agents(void **state)
{
    struct agent *a;
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_restart(&s, true);
    a = scene_return(&s, NULL);
    scene_event(&s, RUN_RETURNED, NULL);
    scene_disconnect(&s, a);
    assert_int_equal(run_due_ms(&s.run), 0);
    scene_event(&s, RUN_TICK, NULL);
    assert_int_equal(participants(&s), 0);
    assert_int_not_equal(run_due_ms(&s.run), 0);
    scene_fini(&s);
}

/* The others are told when a participant was one of them. */
static void after_a_start_the_others_are_told(void **state)
{
    (void)state;
    for (int tells = 0; tells < 2; tells++) {
        struct scene s;

        scene_init(&s);
        s.settings.restart_on_loss = tells ? RESTART_WHEN_CLOSED : RESTART_NEVER;
        scene_meet(&s, 3);
        scene_restart(&s, true);
        scene_return(&s, &s.agents[1]);
        scene_pass(&s, 1000);
        scene_event(&s, RUN_TICK, NULL);
        assert_int_equal(participants(&s), 3);
        scene_event(&s, RUN_RETURNED, NULL);
        assert_int_equal(participants(&s), 1);
        assert_int_equal(scene_note(&s, NOTE_NODES_LOST)->number, 2);
        assert_int_equal(waiting(&s), tells);
        assert_int_equal(scene_note(&s, NOTE_NODES_RESTARTED) != NULL, tells);
        scene_event(&s, RUN_TICK, NULL);
        assert_null(scene_note(&s, NOTE_NODES_LOST)); /* once */
        scene_fini(&s);
    }
}

/* Heartbeats are put together, each HEARTBEATS_MS: what came since is lost with rdzvd. No agent
 * sends one sooner after another one, so of "b" none was lost. The clocks of "d" and "e" are wrong,
 * and not known yet. The daemon was away for `away_ms`: no heartbeat is from then. */
static void check_lost_heartbeats(uint64_t away_ms)
{
    static const int64_t age_us[] = {14 * SECOND, 3 * SECOND, -2 * SECOND, 60 * SECOND,
                                     -60 * SECOND};
    struct torch_state st;
    struct scene s;

    scene_init(&s);
    scene_meet(&s, COUNT(age_us));
    st = state_now(&s);
    for (size_t i = 0; i < COUNT(age_us); i++)
        scene_node(&st, scene_name(i))->heartbeat_us = scene_now_us(&s) - age_us[i];
    scene_put(&s, "", scene_text(&s, &st));
    scene_pass(&s, away_ms);
    scene_step(&s, (struct policy_event){
                       .kind = RUN_RESTORED, .agents_return = true, .still_ms = away_ms});
    st = state_now(&s);
    assert_int_equal(scene_node(&st, "a")->heartbeat_us, scene_now_us(&s) - 9 * SECOND);
    assert_int_equal(scene_node(&st, "b")->heartbeat_us, scene_now_us(&s) - 3 * SECOND);
    assert_int_equal(scene_node(&st, "c")->heartbeat_us, scene_now_us(&s) + 2 * SECOND);
    assert_int_equal(scene_node(&st, "d")->heartbeat_us, scene_now_us(&s));
    assert_int_equal(scene_node(&st, "e")->heartbeat_us, scene_now_us(&s));
    torch_state_free(&st);
    scene_fini(&s);
}

static void after_a_start_heartbeats_may_have_been_lost(void **state)
{
    (void)state;
    check_lost_heartbeats(0);
    check_lost_heartbeats(20000);
}

/* --- A relay that has closed its link and does not come back. --- */

static void lose_relay(struct scene *s, size_t i)
{
    scene_event(s, AGENT_AWAY, &s->agents[i]);
    scene_pass(s, 3000);
    scene_event(s, AGENT_GONE, &s->agents[i]);
}

static void who_is_gone_with_its_relay_is_lost(void **state)
{
    const struct note *note;
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    lose_relay(&s, 1);
    assert_int_equal(participants(&s), 2);
    assert_int_equal(waiting(&s), 1);
    assert_int_equal(s.run.agent_count, 2);
    assert_int_equal(s.out.counters.nodes_disconnected, 1);
    assert_int_equal(s.out.counters.restarts_asked, 1);
    note = scene_note(&s, NOTE_NODE_DISCONNECTED);
    assert_ptr_equal(note->agent, &s.agents[1]);
    assert_string_equal(note->reason,
                        "its relay has closed the link and not come back, so both have ended");
    scene_disconnect(&s, &s.agents[1]); /* at the end of --session-timeout */
    assert_null(scene_note(&s, NOTE_NODE_DISCONNECTED));
    assert_int_equal(participants(&s), 2);
    scene_fini(&s);

    scene_init(&s);
    s.settings.drop_disconnected = false;
    scene_meet(&s, 2);
    lose_relay(&s, 1);
    assert_int_equal(participants(&s), 2);
    assert_int_equal(s.run.agent_count, 2);
    scene_fini(&s);
}

/* Its workers know that port, and would come to the store of another run. */
static void a_run_keeps_its_port_until_nobody_may_be_back(void **state)
{
    struct torch_state st;
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    lose_relay(&s, 0);
    assert_true(run_keeps_port(&s.run));
    lose_relay(&s, 1);
    assert_true(s.run.idle && run_keeps_port(&s.run));
    scene_event(&s, AGENT_BACK, &s.agents[1]);
    scene_disconnect(&s, &s.agents[0]);
    assert_true(run_keeps_port(&s.run));
    scene_disconnect(&s, &s.agents[1]);
    assert_false(run_keeps_port(&s.run));
    scene_restart(&s, true);
    assert_true(s.run.idle && run_keeps_port(&s.run));
    scene_event(&s, RUN_RETURNED, NULL);
    assert_false(run_keeps_port(&s.run));
    scene_fini(&s);

    scene_init(&s);
    scene_meet(&s, 2);
    st = scene_state(scene_get(&s, ""));
    st.closed = true;
    scene_put_state(&s, &st);
    assert_false(run_keeps_port(&s.run));
    scene_fini(&s);
}

/* The others had no time to see that a node waits before the daemon ended, and it does not come
 * back. */
static void who_was_told_before_a_start_is_told_again(void **state)
{
    const char *now;
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    now = scene_get(&s, "");
    scene_cas(&s, scene_connect(&s, true), now, scene_waiting(&s, now, "c"));
    scene_disconnect(&s, &s.agents[1]);
    assert_int_equal(waiting(&s), 1);
    scene_restart(&s, true);
    assert_int_equal(waiting(&s), 1);
    scene_return(&s, &s.agents[0]);
    scene_event(&s, RUN_RETURNED, NULL);
    assert_int_equal(waiting(&s), 1);
    assert_false(scene_node_now(&s, "c").waiting);
    assert_non_null(scene_note(&s, NOTE_NODES_RESTARTED));
    scene_fini(&s);
}

/* All were back, and have met, before the last session of the space was. */
static void who_has_met_since_the_start_is_told_nothing(void **state)
{
    const char *now;
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 1);
    now = scene_get(&s, "");
    scene_cas(&s, scene_connect(&s, true), now, scene_waiting(&s, now, "b"));
    scene_restart(&s, true);
    for (size_t i = 0; i < 2; i++)
        scene_return(&s, &s.agents[i == 0 ? 0 : 1]);
    now = scene_get(&s, "");
    scene_cas(&s, &s.agents[2], now, scene_leaving(&s, now, "a"));
    now = scene_get(&s, "");
    scene_cas(&s, &s.agents[3], now, scene_joined(&s, now, "b"));
    now = scene_get(&s, "");
    scene_cas(&s, &s.agents[2], now, scene_completed(&s, now, "a"));
    assert_int_equal(participants(&s), 2);
    scene_event(&s, RUN_RETURNED, NULL);
    assert_int_equal(s.out.counters.restarts_asked, 0);
    assert_null(scene_note(&s, NOTE_NODES_RESTARTED));
    scene_fini(&s);
}

/* Its relay lives after all. */
static void who_comes_back_is_put_back(void **state)
{
    const struct torch_node *node;
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    lose_relay(&s, 1);
    assert_int_equal(participants(&s), 1);
    scene_event(&s, AGENT_BACK, &s.agents[1]);
    assert_int_equal(s.run.agent_count, 2);
    scene_event(&s, AGENT_LOOKED, &s.agents[1]);
    node = torch_state_find(&s.run.view.state, &s.agents[1].node);
    assert_true(node->participant); /* in the round that the others are about to leave */
    assert_int_equal(node->rank, 1);
    scene_disconnect(&s, &s.agents[1]);
    assert_int_equal(participants(&s), 1);
    scene_fini(&s);

    scene_init(&s);
    scene_meet(&s, 2);
    lose_relay(&s, 1);
    scene_leave(&s, 0);
    scene_event(&s, AGENT_BACK, &s.agents[1]);
    scene_event(&s, AGENT_LOOKED, &s.agents[1]);
    node = torch_state_find(&s.run.view.state, &s.agents[1].node);
    assert_true(node->waiting); /* in the next round */
    scene_fini(&s);
}

/* Nobody waits for it to join, and it does not keep the run from being forgotten. */
static void who_is_gone_is_counted_nowhere(void **state)
{
    struct scene s;
    const char *now;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    lose_relay(&s, 2);
    lose_relay(&s, 1);
    lose_relay(&s, 0);
    assert_true(s.run.idle);
    assert_int_equal(s.run.agent_count, 0);
    scene_event(&s, AGENT_BACK, &s.agents[0]);
    assert_false(s.run.idle);
    now = scene_get(&s, "");
    scene_cas(&s, &s.agents[0], now, scene_joined(&s, now, "a"));
    scene_event(&s, RUN_FORGET, NULL);
    assert_true(scene_has(&s, POLICY_CLOSE, &s.agents[0]));
    assert_true(scene_has(&s, POLICY_CLOSE, &s.agents[1]));
    scene_fini(&s);
}

/* Its place was taken by another one of its name while it was gone. */
static void who_comes_back_behind_its_successor_does_not_count(void **state)
{
    struct scene s;
    const char *now;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    lose_relay(&s, 1);
    scene_connect(&s, true);
    now = scene_get(&s, "");
    scene_cas(&s, &s.agents[2], now, scene_joined(&s, now, "b"));
    scene_event(&s, AGENT_BACK, &s.agents[1]);
    assert_ptr_equal(run_agent_of(&s.run, &s.agents[1].node), &s.agents[2]);
    scene_disconnect(&s, &s.agents[1]);
    assert_ptr_equal(run_agent_of(&s.run, &s.agents[2].node), &s.agents[2]);
    scene_fini(&s);
}

/* It has two connections through the same relay. */
static void a_node_with_two_sessions_is_lost_with_the_second(void **state)
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
    lose_relay(&s, 2);
    assert_int_equal(participants(&s), 2);
    lose_relay(&s, 1);
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

/* Its predecessor is not: that is away with its relay, or was on another machine. */
static void a_node_whose_predecessor_is_still_connected_is_lost(void **state)
{
    static const int64_t ahead_us[] = {0, 120 * SECOND};

    (void)state;
    for (size_t i = 0; i < COUNT(ahead_us); i++) {
        struct torch_state st;
        struct scene s;
        const char *now;

        scene_init(&s);
        scene_meet(&s, 2);
        if (ahead_us[i] == 0)
            scene_event(&s, AGENT_AWAY, &s.agents[1]);
        scene_connect(&s, true);
        st = state_now(&s);
        now = scene_get(&s, "");
        scene_beat(&st, "b", scene_now_us(&s) + ahead_us[i] + 1);
        scene_cas(&s, &s.agents[2], now, scene_text(&s, &st));
        scene_disconnect(&s, &s.agents[2]);
        assert_int_equal(participants(&s), 1);
        scene_fini(&s);
    }
}

/* The last agent connects, and joins a complete round. */
static void wait_in_it(struct scene *s, const char *name)
{
    struct agent *a = scene_connect(s, true);
    struct torch_state st = state_now(s);
    const char *now = scene_get(s, "");

    scene_beat(&st, name, scene_now_us(s));
    scene_node(&st, name)->waiting = true;
    scene_cas(s, a, now, scene_text(s, &st));
}

static void a_node_that_waits_is_reason_enough(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    wait_in_it(&s, "d");
    scene_disconnect(&s, &s.agents[1]);
    assert_int_equal(waiting(&s), 1);
    assert_null(scene_note(&s, NOTE_NODES_RESTARTED));
    assert_non_null(scene_get(&s, ".0/torchelastic/role_info/1"));
    scene_fini(&s);
}

/* The others look once a second, and may have seen neither. */
static void a_node_that_waits_is_a_reason_while_it_is_there(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    wait_in_it(&s, "d");
    scene_disconnect(&s, &s.agents[3]);
    assert_int_equal(waiting(&s), 0);
    wait_in_it(&s, "e");
    scene_disconnect(&s, &s.agents[1]);
    scene_disconnect(&s, &s.agents[4]);
    assert_int_equal(waiting(&s), 1);
    assert_non_null(scene_note(&s, NOTE_NODES_RESTARTED));
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

/* --- --silent-node-timeout. --- */

/* So many seconds in which only those of agents[] before `silent` poll. */
static void pass_silent(struct scene *s, int seconds, size_t silent)
{
    for (int i = 0; i < seconds; i++) {
        scene_pass(s, 1000);
        for (size_t k = 0; k < silent; k++)
            scene_event(s, AGENT_LOOKED, &s->agents[k]);
        scene_event(s, RUN_TICK, NULL);
    }
}

static void a_silent_node_is_taken_out(void **state)
{
    struct scene s;
    const struct note *note;

    (void)state;
    scene_init(&s);
    s.settings.silent_node_ms = 8000;
    scene_meet(&s, 3);
    pass_silent(&s, 7, 2);
    assert_int_equal(participants(&s), 3);
    pass_silent(&s, 1, 2);
    assert_int_equal(participants(&s), 2);
    assert_int_equal(waiting(&s), 1);
    note = scene_note(&s, NOTE_NODE_SILENT);
    assert_ptr_equal(note->agent, &s.agents[2]);
    assert_string_equal(note->previous, "participant");
    assert_int_equal(note->ms, 8000);
    assert_int_equal(s.out.counters.nodes_silent, 1);
    assert_non_null(scene_note(&s, NOTE_NODES_RESTARTED));
    pass_silent(&s, 10, 2);
    assert_null(scene_note(&s, NOTE_NODE_SILENT)); /* once */
    scene_fini(&s);

    scene_init(&s);
    scene_meet(&s, 2);
    pass_silent(&s, 30, 1); /* torch's agents see to it, so the state stays */
    assert_int_equal(participants(&s), 2);
    scene_fini(&s);
}

/* --restart-on-loss says whether the others are told. */
static void the_others_of_a_silent_node_are_told_by_that_setting(void **state)
{
    static const enum restart_on_loss settings[] = {RESTART_NEVER, RESTART_WHEN_CLOSED};
    struct scene s;

    (void)state;
    for (size_t i = 0; i < COUNT(settings); i++) {
        scene_init(&s);
        s.settings.silent_node_ms = 6000;
        s.settings.restart_on_loss = settings[i];
        scene_meet(&s, 2);
        pass_silent(&s, 6, 1);
        assert_int_equal(participants(&s), 1);
        assert_int_equal(waiting(&s), 0);
        scene_fini(&s);
    }
}

/* It slept, its connection stands: it asks again, and is put back. */
static void a_node_that_only_slept_is_put_back(void **state)
{
    struct scene s;
    const struct torch_node *node;

    (void)state;
    scene_init(&s);
    s.settings.silent_node_ms = 8000;
    scene_meet(&s, 2);
    pass_silent(&s, 9, 1);
    assert_int_equal(participants(&s), 1);
    scene_event(&s, AGENT_LOOKED, &s.agents[1]);
    assert_int_equal(participants(&s), 2); /* the round is there still, and so is the mark */
    assert_int_equal(waiting(&s), 1);
    node = torch_state_find(&s.run.view.state, &s.agents[1].node);
    assert_true(node->participant);
    assert_int_equal(node->rank, 1);
    scene_event(&s, RUN_TICK, NULL);
    assert_int_equal(participants(&s), 2);
    scene_fini(&s);

    scene_init(&s);
    s.settings.silent_node_ms = 8000;
    scene_meet(&s, 2);
    pass_silent(&s, 9, 1);
    scene_leave(&s, 0); /* the other one has begun the next round */
    scene_event(&s, AGENT_LOOKED, &s.agents[1]);
    node = torch_state_find(&s.run.view.state, &s.agents[1].node);
    assert_true(node->waiting); /* so it ends its workers, and joins */
    scene_fini(&s);
}

/* The only node of a job: nobody else would find out. */
static void the_only_node_may_be_silent_too(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    s.settings.silent_node_ms = 8000;
    scene_meet(&s, 1);
    pass_silent(&s, 8, 0);
    assert_int_equal(participants(&s), 0);
    assert_int_equal(s.run.view.state.round, 1);
    assert_null(scene_note(&s, NOTE_NODES_RESTARTED));
    scene_event(&s, AGENT_LOOKED, &s.agents[0]);
    assert_int_equal(waiting(&s), 1);
    scene_fini(&s);
}

static void who_waits_for_a_key_is_not_silent(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    s.settings.silent_node_ms = 6000;
    scene_meet(&s, 2);
    scene_step(&s,
               (struct policy_event){.kind = AGENT_ASKED, .agent = &s.agents[1], .waits = true});
    pass_silent(&s, 59, 1);
    assert_int_equal(participants(&s), 2);
    pass_silent(&s, 1, 1); /* torch waits for no reply for longer than a minute */
    assert_int_equal(participants(&s), 1);
    scene_fini(&s);
}

static void who_waits_for_the_end_of_the_job_is_not_silent(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    s.settings.silent_node_ms = 6000;
    scene_meet(&s, 2);
    scene_step(&s, (struct policy_event){
                       .kind = AGENT_ADD_ROUND_KEY,
                       .agent = &s.agents[1],
                       .round = 0,
                       .round_key = slice_str("torchelastic/agent/terminal_state/num_members")});
    scene_step(&s,
               (struct policy_event){.kind = AGENT_ASKED, .agent = &s.agents[1], .waits = true});
    pass_silent(&s, 120, 1);
    assert_int_equal(participants(&s), 2);
    scene_fini(&s);
}

/* Nothing can come of anybody while rdzvd itself stands still. */
static void nobody_was_silent_while_rdzvd_stood_still(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    s.settings.silent_node_ms = 8000;
    scene_meet(&s, 2);
    pass_silent(&s, 3, 1);
    scene_pass(&s, 20000);
    scene_step(&s, (struct policy_event){.kind = RUN_STOOD_STILL, .still_ms = 20000});
    scene_event(&s, RUN_TICK, NULL);
    assert_int_equal(participants(&s), 2);
    pass_silent(&s, 4, 1);
    assert_int_equal(participants(&s), 2);
    pass_silent(&s, 1, 1); /* 3 s before, 5 s since */
    assert_int_equal(participants(&s), 1);
    scene_fini(&s);
}

/* Longer than torch's 15 s: its heartbeat stays fresh until then, so that no agent removes it. */
static void a_silent_node_may_be_given_longer(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    s.settings.silent_node_ms = 90000;
    scene_meet(&s, 2);
    for (int i = 0; i < 89; i++) {
        const struct torch_node *node;

        pass_silent(&s, 1, 1);
        node = torch_state_find(&s.run.view.state, &s.agents[1].node);
        assert_true(node->participant);
        assert_true(node->heartbeat_us > scene_now_us(&s) - 10 * SECOND);
    }
    pass_silent(&s, 1, 1);
    assert_int_equal(participants(&s), 1);
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

/* Torch 2.4 and before read a place in each round, and wait for it for five minutes. Later ones
 * read one in their life. */
static void old_agents_get_a_place_too(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_disconnect(&s, &s.agents[0]);
    assert_null(scene_get(&s, ".0/MASTER_ADDR"));
    scene_fini(&s);

    scene_init(&s);
    scene_meet(&s, 2);
    s.agents[1].pings = false;
    scene_disconnect(&s, &s.agents[0]);
    assert_non_null(scene_get(&s, ".0/MASTER_ADDR"));
    assert_non_null(scene_get(&s, ".0/MASTER_PORT"));
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

/* Its user has told it to be patient (read_timeout). */
static void an_agent_that_still_waits_gets_them_later_too(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_step(&s,
               (struct policy_event){.kind = AGENT_ASKED, .agent = &s.agents[1], .waits = true});
    scene_pass(&s, 300000);
    scene_disconnect(&s, &s.agents[0]);
    assert_non_null(scene_get(&s, ".0/torchelastic/assigned_ranks/1"));
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
        cmocka_unit_test(a_mark_outlives_the_daemon_for_those_who_come_back),
        cmocka_unit_test(after_a_start_a_round_with_a_port_of_its_own_is_over),
        cmocka_unit_test(after_a_start_agents_of_relays_are_awaited),
        cmocka_unit_test(after_a_start_one_of_whom_nothing_is_known_is_awaited),
        cmocka_unit_test(after_a_start_a_tick_misses_nodes_of_a_run_without_agents),
        cmocka_unit_test(after_a_start_the_others_are_told),
        cmocka_unit_test(after_a_start_heartbeats_may_have_been_lost),
        cmocka_unit_test(who_is_gone_with_its_relay_is_lost),
        cmocka_unit_test(a_run_keeps_its_port_until_nobody_may_be_back),
        cmocka_unit_test(who_was_told_before_a_start_is_told_again),
        cmocka_unit_test(who_has_met_since_the_start_is_told_nothing),
        cmocka_unit_test(who_comes_back_is_put_back),
        cmocka_unit_test(who_is_gone_is_counted_nowhere),
        cmocka_unit_test(who_comes_back_behind_its_successor_does_not_count),
        cmocka_unit_test(a_node_with_two_sessions_is_lost_with_the_second),
        cmocka_unit_test(nothing_is_missed_at_the_end),
        cmocka_unit_test(a_node_with_another_connection_lives),
        cmocka_unit_test(a_node_whose_predecessor_is_still_connected_is_lost),
        cmocka_unit_test(a_node_that_waits_is_reason_enough),
        cmocka_unit_test(a_node_that_waits_is_a_reason_while_it_is_there),
        cmocka_unit_test(a_silent_node_is_lost_after_a_while),
        cmocka_unit_test(a_silent_node_is_taken_out),
        cmocka_unit_test(the_others_of_a_silent_node_are_told_by_that_setting),
        cmocka_unit_test(a_node_that_only_slept_is_put_back),
        cmocka_unit_test(the_only_node_may_be_silent_too),
        cmocka_unit_test(who_waits_for_a_key_is_not_silent),
        cmocka_unit_test(who_waits_for_the_end_of_the_job_is_not_silent),
        cmocka_unit_test(nobody_was_silent_while_rdzvd_stood_still),
        cmocka_unit_test(a_silent_node_may_be_given_longer),
        cmocka_unit_test(those_who_wait_for_ranks_get_some),
        cmocka_unit_test(old_agents_get_a_place_too),
        cmocka_unit_test(agent_zero_gets_the_role_of_a_lost_node),
        cmocka_unit_test(nobody_waits_long_after_the_round_was_complete),
        cmocka_unit_test(an_agent_that_still_waits_gets_them_later_too),
        cmocka_unit_test(a_node_that_was_taken_out_closes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
