/* Whose close counts, and whose leaves the run open for the others. */
#include "tests/unit/rendezvous/scene.h"

/* The agent wants to close the run; what it is answered looks like success. True: it is closed;
 * false: a note says that it goes on, `note` or the other one. */
static bool closes_or(struct scene *s, struct agent *a, enum note_kind note)
{
    const char *now = scene_get(s, ""), *closed;
    struct torch_state st = scene_state(now);

    st.closed = true;
    closed = scene_text(s, &st);
    st = scene_state(scene_cas(s, a, now, closed));
    assert_true(st.closed);
    torch_state_free(&st);
    assert_int_equal(scene_note(s, note) == NULL, s->run.view.state.closed);
    return s->run.view.state.closed;
}

static bool closes(struct scene *s, size_t i)
{
    return closes_or(s, &s->agents[i], NOTE_CLOSE_IGNORED);
}

static void read_key(struct scene *s, size_t i, int64_t round, const char *name)
{
    scene_step(s, (struct policy_event){.kind = AGENT_GET_ROUND_KEY,
                                        .agent = &s->agents[i],
                                        .round = round,
                                        .round_key = slice_str(name)});
}

static void say_role(struct scene *s, size_t i, int64_t round)
{
    scene_set_role(s, i, round);
}

/* Its workers have ended well, or failed for the last time. */
static void whose_workers_run_closes(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 3);
    say_role(s, 0, 0);
    read_key(s, 0, 0, "torchelastic/assigned_ranks/0");
    assert_true(closes(s, 0));
}

/* The agent timed out while it waited for its ranks, or torch 2.6 ended it when it was about to
 * become rank 0. */
static void an_agent_without_ranks_closes_no_run(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 3);
    say_role(s, 0, 0);
    assert_false(closes(s, 0));
    assert_false(closes(s, 1)); /* it has not even said its role */
    read_key(s, 2, 0, "torchelastic/role_info/0");
    s->agents[0].closes = s->agents[1].closes = false;
    assert_false(closes(s, 2)); /* that is no rank */
}

static void ranks_of_another_round_are_none(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    say_role(s, 0, 0);
    read_key(s, 0, 0, "torchelastic/assigned_ranks/0");
    scene_next_round(s, 2);
    assert_false(closes(s, 0));
    read_key(s, 1, 1, "torchelastic/assigned_ranks/1");
    assert_true(closes(s, 1));
}

/* Torch 2.3 and before: an agent reads the roles of all, and then says that it has. */
static void old_agents_have_their_ranks_when_they_have_all_roles(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_set(s, &s->agents[0], 0, "torchelastic/role_info0", "{}");
    assert_false(closes(s, 0));
    s->agents[0].closes = false;
    scene_set(s, &s->agents[1], 0, "torchelastic/role_info1", "{}");
    scene_set(s, &s->agents[1], 0, "torchelastic/role_info1.FIN", "FIN");
    assert_true(closes(s, 1));
}

/* TORCH_ELASTIC_WORKER_IDENTICAL: nothing tells whether they have workers. */
static void where_no_agent_says_its_role_a_participant_closes(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    assert_true(closes(s, 0));
}

static void join(struct scene *s, const char *name)
{
    const char *now = scene_get(s, "");
    struct agent *a = scene_connect(s, true);

    scene_cas(s, a, now == NULL ? "" : now, scene_joined(s, now == NULL ? SENTINEL : now, name));
}

/* The agent's join has timed out, or a signal ended the agent (2.3 to 2.7): the round is not
 * complete. */
static void a_joining_agent_closes_no_run(void **state)
{
    struct scene *s = *state;

    join(s, "a");
    join(s, "b");
    assert_false(closes(s, 0));
    scene_disconnect(s, &s->agents[0]);
    assert_true(closes(s, 1)); /* it is the last one */
}

/* All of them want to: the last one may. */
static void when_nobody_goes_on_the_run_is_closed(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    say_role(s, 0, 0);
    assert_false(closes(s, 0));
    assert_true(closes(s, 1));
}

static void restore(struct scene *s, bool agents_return)
{
    scene_step(s, (struct policy_event){.kind = RUN_RESTORED, .agents_return = agents_return});
}

/* Who is behind a relay may train on, and come back up to --session-timeout later. */
static void until_all_are_back_after_a_start_others_go_on(void **state)
{
    struct scene *s = *state;

    for (int returned = 0; returned < 2; returned++) {
        join(s, "a");
        restore(s, true);
        if (returned)
            scene_event(s, RUN_RETURNED, NULL);
        assert_int_equal(closes_or(s, &s->agents[0], NOTE_CLOSE_WAITS), returned);
        scene_renew(s);
    }
    join(s, "a");
    restore(s, false); /* none is to come back */
    assert_true(closes(s, 0));
}

/* Whether anybody else is there does not matter. */
static void who_is_in_the_round_closes_it_before_all_are_back(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    restore(s, true);
    assert_true(closes(s, 0));
}

/* --- After a start: rdzvd does not know which agents go on before all are back. --- */

/* As an agent whose workers ended while the daemon was away. */
static bool returns_to_close(struct scene *s, size_t i, enum note_kind otherwise)
{
    struct agent *a = scene_return(s, &s->agents[i]);
    bool closed = closes_or(s, a, otherwise);

    scene_disconnect(s, a);
    return closed;
}

static void settled(const struct scene *s, bool closed)
{
    assert_int_equal(s->run.view.state.closed, closed);
    assert_int_equal(scene_note(s, NOTE_RUN_ENDED) != NULL, closed);
    assert_int_equal(scene_note(s, NOTE_CLOSE_IGNORED) == NULL, closed);
    assert_int_equal(s->out.counters.runs_closed, closed);
}

/* The job has ended while the daemon was down: the run is closed as if the daemon had been running.
 */
static void who_was_in_the_round_before_a_start_closes_it(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_restart(s, true);
    assert_true(returns_to_close(s, 1, NOTE_CLOSE_WAITS));
    scene_event(s, RUN_RETURNED, NULL);
    assert_null(scene_note(s, NOTE_NODES_LOST));
    scene_pass(s, s->settings.closed_run_ttl_ms);
    scene_event(s, RUN_TICK, NULL);
    assert_null(scene_get(s, ""));
}

/* It was cut off for so long that it presumes itself dead, which begins the next round if it is
 * alone. */
static void who_takes_itself_out_was_in_the_round(void **state)
{
    struct scene *s = *state;

    for (size_t nodes = 1; nodes < 3; nodes++) {
        struct torch_state st;
        struct agent *a;
        const char *now;

        scene_meet(s, nodes);
        scene_restart(s, true);
        a = scene_return(s, &s->agents[0]);
        now = scene_get(s, "");
        st = scene_state(scene_leaving(s, now, "a"));
        st.closed = true;
        scene_cas(s, a, now, scene_text(s, &st));
        assert_true(s->run.view.state.closed);
        scene_renew(s);
    }
}

/* One that waits for the next round gives up; the others come back, or do not. */
static void who_waits_closes_when_no_agent_comes_back(void **state)
{
    struct scene *s = *state;

    for (int others = 0; others < 2; others++) {
        const char *now;

        scene_meet(s, 2);
        now = scene_get(s, "");
        scene_cas(s, scene_connect(s, true), now, scene_waiting(s, now, "c"));
        scene_restart(s, true);
        assert_false(returns_to_close(s, 2, NOTE_CLOSE_WAITS));
        if (others)
            scene_return(s, &s->agents[0]);
        scene_event(s, RUN_RETURNED, NULL);
        settled(s, !others);
        scene_event(s, RUN_TICK, NULL);
        assert_null(scene_note(s, NOTE_CLOSE_IGNORED)); /* once */
        scene_renew(s);
    }
}

static void who_joins_closes_when_no_agent_comes_back(void **state)
{
    struct scene *s = *state;

    for (int others = 0; others < 2; others++) {
        join(s, "a");
        join(s, "b");
        scene_restart(s, true);
        assert_false(returns_to_close(s, 0, NOTE_CLOSE_WAITS));
        if (others)
            scene_return(s, &s->agents[1]);
        scene_event(s, RUN_RETURNED, NULL);
        settled(s, !others);
        scene_renew(s);
    }
}

/* "b" reconnects, and joins a round with "a" or without "a". */
static struct agent *b_meets(struct scene *s)
{
    struct agent *b = scene_return(s, &s->agents[1]);

    for (int complete = 0; complete < 2; complete++) {
        const char *now = scene_get(s, "");
        struct torch_state st = scene_state(now);

        st.round = 1;
        st.complete = false;
        scene_remove(&st, "a");
        scene_beat(&st, "b", scene_now_us(s) + 2 + complete);
        if (complete)
            scene_complete(&st);
        scene_cas(s, b, now, scene_text(s, &st));
    }
    assert_int_equal(s->run.view.last_completed.round, 1);
    return b;
}

static void a_close_is_void_when_a_round_is_completed(void **state)
{
    struct scene *s = *state;
    const char *now;

    scene_meet(s, 2);
    now = scene_get(s, "");
    scene_cas(s, scene_connect(s, true), now, scene_waiting(s, now, "c"));
    scene_restart(s, true);
    assert_false(returns_to_close(s, 2, NOTE_CLOSE_WAITS));
    scene_disconnect(s, b_meets(s));
    scene_event(s, RUN_RETURNED, NULL);
    assert_false(s->run.view.state.closed);
    assert_null(scene_note(s, NOTE_CLOSE_IGNORED));
}

/* An agent that was cut off before the start comes back when the others have met again. */
static void a_close_behind_a_round_of_others_is_ignored(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_restart(s, true);
    b_meets(s);
    assert_false(returns_to_close(s, 0, NOTE_CLOSE_IGNORED));
    scene_event(s, RUN_RETURNED, NULL);
    assert_false(s->run.view.state.closed);
}

static void a_close_that_needs_all_waits_for_them(void **state)
{
    struct scene *s = *state;

    for (int others = 0; others < 2; others++) {
        s->settings.close_needs_all = true;
        scene_meet(s, 2);
        scene_restart(s, true);
        assert_false(returns_to_close(s, 0, NOTE_CLOSE_WAITS));
        if (others)
            scene_return(s, &s->agents[1]);
        scene_event(s, RUN_RETURNED, NULL);
        settled(s, !others);
        scene_renew(s);
    }
}

/* An agent that had not written before the start fails: those that train go on. */
static void one_of_whom_nothing_is_known_closes_no_run_of_others(void **state)
{
    struct scene *s = *state;
    struct agent *unnamed;
    const char *now;

    scene_meet(s, 2);
    scene_restart(s, true);
    unnamed = scene_return(s, NULL);
    scene_return(s, &s->agents[0]);
    scene_return(s, &s->agents[1]);
    scene_event(s, RUN_RETURNED, NULL);
    now = scene_copy(scene_get(s, ""));
    scene_cas(s, unnamed, now, scene_closing(s, now));
    assert_false(s->run.view.state.closed);
    assert_non_null(scene_note(s, NOTE_CLOSE_IGNORED));
}

/* If an older daemon kept no hint for an agent, the agent may be any of the nodes for one minute,
 * in which it would send its name. */
static void one_of_whom_nothing_is_known_may_go_on(void **state)
{
    struct scene *s = *state;

    for (int says = 0; says < 2; says++) {
        struct agent *unnamed;

        join(s, "a");
        join(s, "b");
        scene_restart(s, true);
        unnamed = scene_return(s, NULL);
        assert_false(returns_to_close(s, 0, NOTE_CLOSE_WAITS));
        scene_event(s, RUN_RETURNED, NULL);
        assert_int_not_equal(s->run.close_kept, CLOSE_NOT_KEPT);
        if (says)
            scene_say_node(s, unnamed, "b");
        else
            scene_pass(s, 60000);
        scene_event(s, RUN_TICK, NULL);
        settled(s, !says);
        scene_renew(s);
    }
}

static void as_ever_when_told_so(void **state)
{
    struct scene *s = *state;

    s->settings.close_from_members = false;
    scene_meet(s, 2);
    say_role(s, 0, 0);
    assert_true(closes(s, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whose_workers_run_closes),
        TEST(an_agent_without_ranks_closes_no_run),
        TEST(ranks_of_another_round_are_none),
        TEST(old_agents_have_their_ranks_when_they_have_all_roles),
        TEST(where_no_agent_says_its_role_a_participant_closes),
        TEST(a_joining_agent_closes_no_run),
        TEST(when_nobody_goes_on_the_run_is_closed),
        TEST(until_all_are_back_after_a_start_others_go_on),
        TEST(who_is_in_the_round_closes_it_before_all_are_back),
        TEST(who_takes_itself_out_was_in_the_round),
        TEST(a_close_is_void_when_a_round_is_completed),
        TEST(a_close_behind_a_round_of_others_is_ignored),
        TEST(who_joins_closes_when_no_agent_comes_back),
        TEST(a_close_that_needs_all_waits_for_them),
        TEST(as_ever_when_told_so),
        TEST(who_was_in_the_round_before_a_start_closes_it),
        TEST(who_waits_closes_when_no_agent_comes_back),
        TEST(one_of_whom_nothing_is_known_closes_no_run_of_others),
        TEST(one_of_whom_nothing_is_known_may_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
