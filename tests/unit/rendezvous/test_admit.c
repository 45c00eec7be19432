/* Nodes that wait for a round are admitted when no node is missing. */
#include "tests/support/sanitized.h"
#include "tests/unit/rendezvous/scene.h"

static const char *name_of(const struct scene *s, const struct agent *a)
{
    return scene_name((size_t)(a - s->agents));
}

static void wait_in_line(struct scene *s, struct agent *a)
{
    const char *now = scene_get(s, "");

    scene_cas(s, a, now, scene_waiting(s, now, name_of(s, a)));
    assert_true(scene_node_now(s, name_of(s, a)).waiting);
}

/* One that is new. */
static struct agent *add_waiting(struct scene *s)
{
    struct agent *a = scene_connect(s, true);

    assert_string_equal(scene_cas(s, a, "", SENTINEL), scene_get(s, ""));
    wait_in_line(s, a);
    return a;
}

/* All of the first `count` leave the round, and wait, but for the last one, which leaves it. */
static void leave_all(struct scene *s, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        scene_leave(s, i);
        if (i + 1 < count)
            wait_in_line(s, &s->agents[i]);
    }
    assert_false(s->run.view.state.complete);
}

static bool is_complete(const struct scene *s, int64_t round, size_t nodes)
{
    const struct torch_state *st = &s->run.view.state;

    return st->complete && st->round == round && torch_state_participants(st) == nodes &&
           !st->has_deadline;
}

static void those_who_left_first_are_let_in(void **state)
{
    struct scene *s = *state;
    const struct note *note;
    const char *answer;
    struct torch_state seen;

    scene_meet(s, 3);
    leave_all(s, 3);
    scene_pass(s, 900);
    answer = scene_join(s, 2);
    assert_true(is_complete(s, 1, 3));
    assert_int_equal(scene_node_now(s, "a").rank, 0);
    assert_int_equal(scene_node_now(s, "b").rank, 1);
    assert_int_equal(scene_node_now(s, "c").rank, 2);
    note = scene_note(s, NOTE_NODES_ADMITTED);
    assert_non_null(note);
    assert_int_equal(note->number, 3);
    assert_int_equal(note->admitted, 2);
    assert_int_equal(scene_note(s, NOTE_ROUND_COMPLETE)->number, 3);
    assert_int_equal(s->out.counters.rounds_completed, 1);
    assert_non_null(scene_output(s, POLICY_PUT_RECORD)); /* the round's worker store */

    /* The one that joined learns it from the answer, and the others at their next look. */
    seen = scene_state(answer);
    assert_true(seen.complete && torch_state_participants(&seen) == 3);
    torch_state_free(&seen);
    for (size_t i = 0; i < 2; i++) {
        seen = scene_state(scene_poll(s, &s->agents[i]));
        assert_true(seen.complete && torch_state_participants(&seen) == 3);
        assert_true(scene_node(&seen, scene_name(i))->participant);
        torch_state_free(&seen);
    }
}

static void a_new_node_is_let_in(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    add_waiting(s);
    leave_all(s, 2);
    scene_join(s, 1);
    assert_true(is_complete(s, 1, 3));
}

/* Each of the two nodes has seen that the round has room for one node. */
static void two_new_nodes_may_be_more_than_max(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    add_waiting(s);
    add_waiting(s);
    leave_all(s, 2);
    scene_join(s, 1);
    assert_false(s->run.view.state.complete);
    assert_true(scene_node_now(s, "c").waiting);
}

/* The text grows with each of them. */
static void hundreds_are_let_in(void **state)
{
    struct scene *s = *state;
    const size_t count = SANITIZED_OR(100, 400);

    scene_meet(s, count);
    leave_all(s, count);
    scene_join(s, count - 1);
    assert_true(is_complete(s, 1, count));
    s->settings.restart_on_loss = RESTART_NEVER; /* so scene_fini() makes rdzvd put no owed keys */
}

/* As many as there were. */
static void two_that_are_replaced_are_let_in(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 3);
    scene_disconnect(s, &s->agents[1]);
    scene_disconnect(s, &s->agents[2]);
    add_waiting(s);
    add_waiting(s);
    scene_leave(s, 0);
    scene_join(s, 0);
    assert_true(is_complete(s, 1, 3));
    assert_true(scene_node_now(s, "d").participant && scene_node_now(s, "e").participant);
}

static void nobody_is_let_in_while_one_is_missing(void **state)
{
    struct scene *s = *state;
    struct agent *late;

    /* one that has not joined yet: it does, or it ends */
    scene_meet(s, 2);
    s->run.max_nodes = 0; /* else it has no place */
    late = scene_connect(s, true);
    leave_all(s, 2);
    scene_join(s, 1);
    assert_false(s->run.view.state.complete);
    scene_disconnect(s, late);
    assert_true(is_complete(s, 1, 2));
    assert_int_equal(scene_note(s, NOTE_NODES_ADMITTED)->admitted, 1);
    scene_renew(s);

    /* the last round had more */
    scene_meet(s, 3);
    scene_disconnect(s, &s->agents[2]);
    leave_all(s, 2);
    scene_join(s, 1);
    assert_false(s->run.view.state.complete);
}

static void nobody_is_let_in_of_whom_nothing_comes(void **state)
{
    struct scene *s = *state;

    for (int looks = 0; looks < 2; looks++) {
        scene_meet(s, 2);
        leave_all(s, 2);
        scene_pass(s, 1500);
        if (looks)
            scene_poll(s, &s->agents[0]);
        scene_pass(s, 1500);
        scene_join(s, 1);
        assert_int_equal(s->run.view.state.complete, looks);
        scene_renew(s);
    }
}

/* Its relay may be gone for good, and the agent with it. */
static void nobody_is_let_in_who_is_away(void **state)
{
    struct scene *s = *state;

    for (int back = 0; back < 2; back++) {
        scene_meet(s, 2);
        leave_all(s, 2);
        scene_event(s, AGENT_AWAY, &s->agents[0]);
        if (back)
            scene_event(s, AGENT_BACK, &s->agents[0]);
        scene_join(s, 1);
        assert_int_equal(s->run.view.state.complete, back);
        scene_renew(s);
    }
}

/* The node is presumed dead, and the round is complete without it. */
static void an_absent_node_is_not_missing(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    add_waiting(s);
    scene_event(s, AGENT_AWAY, &s->agents[2]);
    leave_all(s, 2);
    scene_join(s, 1);
    assert_false(s->run.view.state.complete);
    scene_event(s, AGENT_GONE, &s->agents[2]);
    assert_true(is_complete(s, 1, 2));
}

/* Its connection ends with the daemon's, and it may be back. */
static void who_goes_when_the_daemon_ends_is_missing(void **state)
{
    struct scene *s = *state;

    for (int drains = 0; drains < 2; drains++) {
        scene_meet(s, 2);
        s->run.max_nodes = 0; /* else the third one has no place */
        scene_connect(s, true);
        leave_all(s, 2);
        scene_join(s, 1);
        scene_step(s, (struct policy_event){.kind = AGENT_DISCONNECTED,
                                            .agent = &s->agents[2],
                                            .daemon_drains = drains});
        s->agents[2].local_port = 0;
        assert_int_equal(s->run.view.state.complete, !drains);
        scene_renew(s);
    }
}

/* The mate presumes it dead, and it is put back as one that waits, once the mate has left: its
 * agent does not know that, and trains. Before, it was admitted. */
static void a_node_that_was_put_back_is_not_let_in(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    scene_meet(s, 2);
    scene_leave(s, 1);
    wait_in_line(s, &s->agents[1]);
    scene_leave(s, 0);
    scene_join(s, 0);
    assert_true(is_complete(s, 1, 2));
    scene_poll(s, &s->agents[1]);
    st = scene_state_now(s); /* the other one presumes it dead, and meets alone */
    scene_remove(&st, "b");
    scene_beat(&st, "a", scene_now_us(s));
    scene_cas(s, &s->agents[0], scene_get(s, ""), scene_text(s, &st));
    scene_leave(s, 0);
    scene_event(s, AGENT_POLLED, &s->agents[1]);
    assert_true(scene_node_now(s, "b").waiting);
    scene_join(s, 0);
    assert_false(s->run.view.state.complete);
}

static void no_round_is_completed_with_a_silent_node(void **state)
{
    struct scene *s = *state;

    for (int silent = 0; silent < 2; silent++) {
        scene_meet(s, 3);
        leave_all(s, 3);
        scene_join(s, 1); /* at its look, and it says nothing more */
        scene_pass(s, silent ? 16000 : 14000);
        scene_poll(s, &s->agents[0]);
        scene_join(s, 2);
        assert_int_equal(s->run.view.state.complete, !silent);
        scene_renew(s);
    }
}

/* Then MIN is not known: the round that there is has lost nodes since it was completed. If the
 * agent that has joined begins a last call, they are MIN. */
static void after_a_start_nobody_is_let_in_without_a_last_call(void **state)
{
    struct scene *s = *state;

    for (int calls = 0; calls < 2; calls++) {
        struct torch_state st;
        const char *now;

        scene_meet(s, 3);
        scene_disconnect(s, &s->agents[2]);
        scene_restart(s, true);
        for (size_t i = 0; i < 2; i++)
            scene_return(s, &s->agents[i]);
        scene_event(s, RUN_RETURNED, NULL);
        for (size_t i = 0; i < 2; i++) {
            struct agent *a = &s->agents[3 + i];

            now = scene_get(s, "");
            scene_cas(s, a, now, scene_leaving(s, now, scene_name(i)));
            now = scene_get(s, "");
            if (i == 0)
                scene_cas(s, a, now, scene_waiting(s, now, "a"));
        }
        st = scene_state(scene_joined(s, now, "b"));
        st.has_deadline = calls;
        st.deadline_us = scene_now_us(s) + SCENE_CALL;
        scene_cas(s, &s->agents[4], now, scene_text(s, &st));
        assert_int_equal(s->run.view.state.complete, calls);
        scene_renew(s);
    }
}

static void a_write_from_before_it_was_let_in_is_refused(void **state)
{
    struct scene *s = *state;
    const char *before, *joined;
    struct torch_state seen;

    scene_meet(s, 2);
    leave_all(s, 2);
    before = scene_poll(s, &s->agents[0]);
    joined = scene_joined(s, before, "a");
    scene_join(s, 1);
    assert_true(is_complete(s, 1, 2));
    seen = scene_state(scene_cas(s, &s->agents[0], before, joined));
    assert_true(is_complete(s, 1, 2));
    assert_true(seen.complete && torch_state_participants(&seen) == 2);
    torch_state_free(&seen);
}

/* MAX is what a round has that was completed by a node that joined. */
static void max_is_known_from_an_earlier_round(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    assert_int_not_equal(s->run.fill, FILL_BELOW_MAX);
    leave_all(s, 2);
    scene_join(s, 1);
    assert_true(is_complete(s, 1, 2) && s->run.fill != FILL_BELOW_MAX);
    add_waiting(s); /* so it is more */
    leave_all(s, 2);
    scene_join(s, 1);
    assert_true(is_complete(s, 2, 3));
    assert_int_equal(s->run.fill, FILL_BELOW_MAX);
}

static void nobody_is_let_in_when_told_so(void **state)
{
    struct scene *s = *state;

    s->settings.end_last_call = false;
    scene_meet(s, 2);
    leave_all(s, 2);
    scene_join(s, 1);
    assert_false(s->run.view.state.complete);
    assert_true(scene_node_now(s, "a").waiting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(those_who_left_first_are_let_in),
        TEST(a_new_node_is_let_in),
        TEST(hundreds_are_let_in),
        TEST(two_new_nodes_may_be_more_than_max),
        TEST(two_that_are_replaced_are_let_in),
        TEST(nobody_is_let_in_while_one_is_missing),
        TEST(nobody_is_let_in_of_whom_nothing_comes),
        TEST(nobody_is_let_in_who_is_away),
        TEST(an_absent_node_is_not_missing),
        TEST(who_goes_when_the_daemon_ends_is_missing),
        TEST(a_node_that_was_put_back_is_not_let_in),
        TEST(no_round_is_completed_with_a_silent_node),
        TEST(after_a_start_nobody_is_let_in_without_a_last_call),
        TEST(a_write_from_before_it_was_let_in_is_refused),
        TEST(max_is_known_from_an_earlier_round),
        TEST(nobody_is_let_in_when_told_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
