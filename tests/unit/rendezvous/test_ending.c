/* How a run ends: well, or because the workers of a node have failed for the last time; and whom
 * finished agents wait for. */
#include "tests/unit/rendezvous/scene.h"

#define LAST_MEMBER ".0/torchelastic/agent/terminal_state/last_member"

/* Agents of a complete round, who have read their ranks. */
static void train(struct scene *s, size_t count)
{
    scene_meet(s, count);
    for (size_t i = 0; i < count; i++) {
        scene_set_role(s, i, 0);
        scene_step(s,
                   (struct policy_event){.kind = AGENT_GET_ROUND_KEY,
                                         .agent = &s->agents[i],
                                         .round_key = slice_str("torchelastic/assigned_ranks/0")});
        scene_poll(s, &s->agents[i]);
    }
}

static void close_run(struct scene *s, size_t by)
{
    const char *seen = scene_copy(scene_poll(s, &s->agents[by]));

    scene_cas(s, &s->agents[by], seen, scene_closing(s, seen));
    assert_true(s->run.view.state.closed);
}

static bool is_forgotten(struct scene *s)
{
    scene_event(s, RUN_TICK, NULL);
    return scene_count(s, POLICY_FORGET_RUN) == 1;
}

/* --- It fails. --- */

static void the_others_see_it_at_once_when_one_fails(void **state)
{
    struct scene *s = *state;

    train(s, 3);
    close_run(s, 1);
    assert_true(s->run.failed);
    assert_string_equal(scene_note(s, NOTE_RUN_ENDED)->end, "failed");
    for (size_t i = 0; i < 3; i += 2) {
        struct torch_state st = scene_state(scene_poll(s, &s->agents[i]));

        assert_false(scene_has(s, POLICY_HOLD, &s->agents[i]));
        assert_true(st.closed && st.complete);
        assert_true(scene_node(&st, scene_name(i))->participant);
        assert_int_equal(st.count, 2);
        assert_true(st.nodes[0].waiting != st.nodes[1].waiting);
        torch_state_free(&st);
    }
}

static void looks_that_are_held_are_answered_when_one_fails(void **state)
{
    struct scene *s = *state;

    train(s, 3);
    scene_connect(s, true);
    scene_cas(s, &s->agents[3], scene_get(s, ""), scene_waiting(s, scene_get(s, ""), "d"));
    scene_event(s, AGENT_POLLED, &s->agents[0]);
    assert_true(scene_has(s, POLICY_HOLD, &s->agents[0]));
    close_run(s, 1);
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[0]));
}

static void a_failed_run_is_forgotten_when_its_last_agent_has_ended(void **state)
{
    struct scene *s = *state;
    struct agent *again;

    train(s, 2);
    close_run(s, 0);
    scene_disconnect(s, &s->agents[0]);
    again = scene_connect(s, true); /* the container has been started again */
    assert_null(scene_cas(s, again, "", SENTINEL));
    assert_true(scene_has(s, POLICY_HOLD, again));
    assert_false(is_forgotten(s));
    scene_disconnect(s, &s->agents[1]);
    assert_true(is_forgotten(s));
    assert_true(scene_has(s, POLICY_RESUME, again));
    assert_non_null(scene_cas(s, again, "", SENTINEL));
}

static void torchs_way_ends_no_others(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    train(s, 2);
    s->settings.end_failed_runs = false;
    close_run(s, 0);
    st = scene_state(scene_poll(s, &s->agents[1]));
    assert_int_equal(st.count, 1);
    torch_state_free(&st);
}

/* Agents that were away come back to it. */
static void it_is_known_after_a_start(void **state)
{
    struct scene *s = *state;
    struct torch_state st;
    struct agent *b;

    train(s, 2);
    close_run(s, 0);
    scene_restart(s, true);
    assert_true(s->run.failed);
    b = scene_return(s, &s->agents[1]);
    scene_event(s, RUN_RETURNED, NULL);
    scene_poll(s, b);
    st = scene_state(scene_poll(s, b));
    assert_true(st.closed);
    assert_true(s->run.failed);
    torch_state_free(&st);
}

/* --- It ends well. --- */

static void no_agent_is_cut_short_when_one_has_ended_well(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    train(s, 2);
    scene_finish(s, 0);
    close_run(s, 0); /* torch has waited for 5 minutes */
    assert_false(s->run.failed);
    assert_string_equal(scene_note(s, NOTE_RUN_ENDED)->end, "done");
    scene_connect(s, true); /* also if a node waits */
    st = scene_state(scene_poll(s, &s->agents[1]));
    assert_true(st.closed);
    assert_int_equal(st.count, 1);
    torch_state_free(&st);
}

static void one_fails_while_another_has_finished(void **state)
{
    struct scene *s = *state;

    train(s, 3);
    scene_finish(s, 0);
    close_run(s, 1);
    assert_true(s->run.failed);
}

/* --- The exit barrier. --- */

/* That key as it is after the next tick. */
static const char *exit_key(struct scene *s, const char *rest)
{
    scene_event(s, RUN_TICK, NULL);
    return scene_get(s, rest);
}

static void those_who_have_finished_do_not_wait_for_a_lost_node(void **state)
{
    struct scene *s = *state;

    train(s, 3);
    scene_finish(s, 0);
    scene_disconnect(s, &s->agents[2]);
    assert_null(exit_key(s, LAST_MEMBER)); /* "b" still trains */
    scene_finish(s, 1);
    assert_non_null(exit_key(s, LAST_MEMBER));
    assert_int_equal(scene_note(s, NOTE_EXIT_BARRIER_ENDED)->number, 1);
    scene_renew(s);

    train(s, 3);
    scene_finish(s, 0);
    scene_finish(s, 1);
    assert_null(exit_key(s, LAST_MEMBER));
    scene_disconnect(s, &s->agents[2]);
    assert_non_null(exit_key(s, LAST_MEMBER));
}

static void torch_itself_ends_the_barrier_when_all_have_finished(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    scene_finish(s, 0);
    scene_finish(s, 1);
    scene_disconnect(s, &s->agents[0]);
    assert_null(exit_key(s, ".0/torchelastic/agent/terminal_state0"));
    assert_null(scene_note(s, NOTE_EXIT_BARRIER_ENDED));
}

/* The node's workers have failed, and the node has restarts left: it will not enter this barrier.
 */
static void a_node_that_has_left_the_round_is_not_waited_for(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    scene_finish(s, 0);
    scene_leave(s, 1);
    scene_cas(s, &s->agents[1], scene_get(s, ""), scene_waiting(s, scene_get(s, ""), "b"));
    assert_true(scene_node_now(s, "b").waiting);
    assert_non_null(exit_key(s, LAST_MEMBER));
    close_run(s, 0);
    assert_true(s->run.failed);
    assert_string_equal(scene_note(s, NOTE_RUN_ENDED)->end, "failed");
    assert_string_equal(scene_note(s, NOTE_RUN_ENDED)->by_node, "b/100/0");
    assert_string_equal(scene_note(s, NOTE_RUN_ENDED)->reason,
                        "workers of a (pid 100) have ended well, those of b (pid 100) have not: "
                        "its agent waits for a new round");
}

/* A newcomer has no workers. */
static void a_node_that_waits_for_its_first_round_has_not_failed(void **state)
{
    struct scene *s = *state;

    train(s, 1);
    scene_finish(s, 0);
    scene_connect(s, true);
    scene_cas(s, &s->agents[1], "", SENTINEL);
    scene_cas(s, &s->agents[1], scene_get(s, ""), scene_waiting(s, scene_get(s, ""), "b"));
    close_run(s, 0);
    assert_string_equal(scene_note(s, NOTE_RUN_ENDED)->end, "done");
}

/* The run has failed, so nobody takes "b" out. */
static void nor_is_one_that_has_failed(void **state)
{
    struct scene *s = *state;

    train(s, 3);
    scene_finish(s, 0);
    close_run(s, 1);
    scene_disconnect(s, &s->agents[1]);
    assert_null(exit_key(s, LAST_MEMBER)); /* "c" still trains */
    scene_disconnect(s, &s->agents[2]);
    assert_non_null(exit_key(s, LAST_MEMBER));
}

static void those_at_the_barrier_are_known_after_a_start(void **state)
{
    struct scene *s = *state;
    struct agent *a;

    train(s, 2);
    scene_finish(s, 0);
    scene_restart(s, true);
    a = scene_return(s, &s->agents[0]);
    scene_event(s, AGENT_ASKED, a);
    assert_null(exit_key(s, LAST_MEMBER)); /* "b" may be back */
    scene_event(s, RUN_RETURNED, NULL);
    assert_non_null(exit_key(s, LAST_MEMBER));
}

/* The agent was cut off while the other nodes made a round without it. */
static void an_agent_that_finishes_an_older_round_waits_for_nobody(void **state)
{
    struct scene *s = *state;

    train(s, 3);
    scene_event(s, AGENT_AWAY, &s->agents[0]);
    scene_event(s, AGENT_GONE, &s->agents[0]);
    scene_leave(s, 2);
    scene_leave(s, 1);
    scene_join(s, 1);
    scene_join(s, 2);
    if (!s->run.view.state.complete) /* the last call is over */
        scene_cas(s, &s->agents[1], scene_get(s, ""), scene_completed(s, scene_get(s, ""), "b"));
    assert_int_equal(s->run.view.state.round, 1);
    scene_set(s, &s->agents[1], 1, "torchelastic/agent/terminal_state/num_members", "1");
    scene_event(s, AGENT_BACK, &s->agents[0]);
    scene_set(s, &s->agents[0], 0, "torchelastic/agent/terminal_state/num_members", "1");
    assert_non_null(scene_get(s, LAST_MEMBER));
    assert_int_equal(s->run.finishing.round, 1);
    assert_null(exit_key(s, ".1/torchelastic/agent/terminal_state/last_member"));
    scene_disconnect(s, &s->agents[2]);
    assert_non_null(exit_key(s, ".1/torchelastic/agent/terminal_state/last_member"));
}

static void a_key_of_a_round_that_has_not_begun_ends_no_barrier(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    scene_set(s, &s->agents[1], INT64_MAX, "torchelastic/agent/terminal_state/num_members", "1");
    scene_finish(s, 0);
    assert_null(exit_key(s, LAST_MEMBER)); /* "b" still trains */
    assert_int_equal(s->run.finishing.round, 0);
}

/* Each agent reads the key of each rank; rank 0 also the second one. */
static void agents_before_2_4_get_the_keys_of_the_lost_rank(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    s->agents[0].pings = s->agents[1].pings = false;
    scene_set(s, &s->agents[0], 0, "torchelastic/agent/terminal_state0", "0");
    scene_disconnect(s, &s->agents[1]);
    assert_non_null(exit_key(s, ".0/torchelastic/agent/terminal_state1"));
    assert_non_null(exit_key(s, ".0/torchelastic/agent/terminal_state1.FIN"));
}

/* --- A join times out. --- */

/* As torch's join operation does: the node goes, and then the agent closes the run. */
static void give_up(struct scene *s, size_t i)
{
    const char *seen = scene_copy(scene_poll(s, &s->agents[i]));

    seen = scene_copy(scene_cas(s, &s->agents[i], seen, scene_leaving(s, seen, scene_name(i))));
    assert_string_equal(scene_note(s, NOTE_NODE_LEFT)->reason, "its join has timed out");
    scene_cas(s, &s->agents[i], seen, scene_closing(s, seen));
}

static void a_join_that_times_out_is_no_other_close(void **state)
{
    struct scene *s = *state;
    const struct note *note;

    scene_begin_crowd(s, 2);
    scene_pass(s, 600000);
    give_up(s, 1); /* the other one may still get its round */
    assert_non_null(scene_note(s, NOTE_CLOSE_IGNORED));
    give_up(s, 0);
    note = scene_note(s, NOTE_RUN_ENDED);
    assert_string_equal(note->end, "join_timeout");
    assert_string_equal(note->reason, "the join of a (pid 100) timed out after 600 s; nodes that "
                                      "had joined: 2");
}

/* The others train on. */
static void a_node_gives_up_waiting(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 1);
    scene_connect(s, true);
    scene_cas(s, &s->agents[1], "", SENTINEL);
    scene_cas(s, &s->agents[1], scene_get(s, ""), scene_waiting(s, scene_get(s, ""), "b"));
    give_up(s, 1);
    assert_non_null(scene_note(s, NOTE_CLOSE_IGNORED));
}

/* A node that joins again after its round has a new deadline. */
static void a_close_after_a_round_is_no_join_that_times_out(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 1);
    scene_next_round(s, 1);
    assert_false(s->agents[0].gave_up);
    close_run(s, 0);
    assert_string_not_equal(scene_note(s, NOTE_RUN_ENDED)->end, "join_timeout");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_others_see_it_at_once_when_one_fails),
        TEST(looks_that_are_held_are_answered_when_one_fails),
        TEST(a_failed_run_is_forgotten_when_its_last_agent_has_ended),
        TEST(torchs_way_ends_no_others),
        TEST(it_is_known_after_a_start),
        TEST(no_agent_is_cut_short_when_one_has_ended_well),
        TEST(one_fails_while_another_has_finished),
        TEST(those_who_have_finished_do_not_wait_for_a_lost_node),
        TEST(torch_itself_ends_the_barrier_when_all_have_finished),
        TEST(a_node_that_has_left_the_round_is_not_waited_for),
        TEST(a_node_that_waits_for_its_first_round_has_not_failed),
        TEST(nor_is_one_that_has_failed),
        TEST(those_at_the_barrier_are_known_after_a_start),
        TEST(an_agent_that_finishes_an_older_round_waits_for_nobody),
        TEST(a_key_of_a_round_that_has_not_begun_ends_no_barrier),
        TEST(agents_before_2_4_get_the_keys_of_the_lost_rank),
        TEST(a_join_that_times_out_is_no_other_close),
        TEST(a_node_gives_up_waiting),
        TEST(a_close_after_a_round_is_no_join_that_times_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
