/* The last call ends when no node is missing. */
#include "tests/unit/rendezvous/scene.h"

/* The first `count` nodes leave round 0, one after the other. */
static void leave_all(struct scene *s, size_t count)
{
    for (size_t i = 0; i < count; i++)
        scene_leave(s, i);
}

static int64_t left_us(const struct scene *s)
{
    return s->run.view.state.deadline_us - scene_now_us(s);
}

static void ends_when_all_are_back(void **state)
{
    struct scene *s = *state;
    struct torch_state st;
    const char *answer;

    scene_meet(s, 2);
    leave_all(s, 2);
    scene_join(s, 0);
    assert_int_equal(left_us(s), SCENE_CALL);
    answer = scene_join(s, 1);
    assert_true(left_us(s) <= 0);
    assert_non_null(scene_note(s, NOTE_LAST_CALL_ENDED));
    st = scene_state(answer); /* so it completes the round at once */
    assert_int_equal(torch_state_participants(&st), 2);
    assert_true(st.has_deadline && st.deadline_us < scene_now_us(s));
    torch_state_free(&st);
}

static void goes_on_while_somebody_is_missing(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_disconnect(s, &s->agents[1]);
    leave_all(s, 1);
    scene_join(s, 0);
    assert_int_equal(left_us(s), SCENE_CALL); /* there were two */
    scene_renew(s);

    scene_meet(s, 1);
    leave_all(s, 1);
    scene_connect(s, true); /* one more is there, and has not joined */
    scene_join(s, 0);
    assert_int_equal(left_us(s), SCENE_CALL);
    scene_disconnect(s, &s->agents[1]);
    assert_true(left_us(s) <= 0);
}

static void of_the_first_round_only_expect_knows(void **state)
{
    struct scene *s = *state;

    scene_connect(s, true);
    scene_cas(s, &s->agents[0], "", SENTINEL);
    scene_join(s, 0);
    assert_int_equal(left_us(s), SCENE_CALL);
    scene_renew(s);

    s->settings.expected_nodes = 2;
    for (size_t i = 0; i < 2; i++) {
        scene_connect(s, true);
        scene_cas(s, &s->agents[i], "", SENTINEL);
    }
    scene_join(s, 0);
    assert_int_equal(left_us(s), SCENE_CALL);
    scene_join(s, 1);
    assert_true(left_us(s) <= 0);
}

static void is_shortened_by_regroup_wait(void **state)
{
    struct scene *s = *state;

    s->settings.regroup_wait_ms = 5000;
    scene_meet(s, 2);
    scene_disconnect(s, &s->agents[1]);
    leave_all(s, 1);
    scene_join(s, 0);
    assert_int_equal(left_us(s), 5 * SECOND);
}

/* They look once a second, and join then. */
static void is_long_enough_for_those_who_wait(void **state)
{
    struct scene *s = *state;

    for (int waits = 0; waits < 2; waits++) {
        s->settings.regroup_wait_ms = 500;
        scene_meet(s, 2);
        if (waits) {
            const char *now = scene_get(s, "");

            scene_cas(s, scene_connect(s, true), now, scene_waiting(s, now, "c"));
        }
        leave_all(s, 2);
        scene_join(s, 0);
        assert_int_equal(left_us(s), waits ? 2 * SECOND : SECOND / 2);
        scene_renew(s);
    }
}

/* Of which the state does not say so: it has our time. */
static void is_shortened_for_a_clock_that_is_behind(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    s->settings.regroup_wait_ms = 5000;
    scene_meet(s, 2);
    scene_disconnect(s, &s->agents[1]);
    leave_all(s, 1);
    s->agents[0].has_clock = false;
    st = scene_state(scene_joined(s, scene_get(s, ""), "a"));
    scene_beat(&st, "a", scene_now_us(s) - 20 * SECOND);
    st.has_deadline = true;
    st.deadline_us = scene_now_us(s) - 20 * SECOND + SCENE_CALL;
    scene_cas(s, &s->agents[0], scene_copy(scene_get(s, "")), scene_text(s, &st));
    assert_int_equal(left_us(s), 5 * SECOND);
}

static void stays_when_told_so(void **state)
{
    struct scene *s = *state;

    s->settings.end_last_call = false;
    scene_meet(s, 1);
    leave_all(s, 1);
    scene_join(s, 0);
    assert_int_equal(left_us(s), SCENE_CALL);
}

/* rdzvd stands still for longer than the last call has left, or is started again after so long. */
static void time_in_which_no_agent_could_write_does_not_count(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    scene_meet(s, 2);
    leave_all(s, 2);
    scene_disconnect(s, &s->agents[1]);
    scene_connect(s, true);
    scene_join(s, 0);
    assert_int_equal(left_us(s), SCENE_CALL);
    for (int passed = 0; passed < 2; passed++) {
        scene_event(s, RUN_TICK, NULL);
        scene_stand_still(s, SCENE_CALL / 1000 + 1000);
        st = scene_state(scene_poll(s, &s->agents[0]));
        assert_true(st.has_deadline && st.deadline_us > scene_now_us(s));
        torch_state_free(&st);
    }
    scene_pass(s, SCENE_CALL / 1000);
    st = scene_state(scene_poll(s, &s->agents[0]));
    assert_true(st.has_deadline && st.deadline_us < scene_now_us(s));
    torch_state_free(&st);
    scene_renew(s);

    scene_meet(s, 2);
    leave_all(s, 2);
    scene_join(s, 0);
    scene_step(
        s, (struct policy_event){.kind = RUN_RESTORED, .agents_return = true, .away_ms = 60000});
    assert_int_equal(left_us(s), SCENE_CALL + 60 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ends_when_all_are_back),
        TEST(goes_on_while_somebody_is_missing),
        TEST(of_the_first_round_only_expect_knows),
        TEST(is_shortened_by_regroup_wait),
        TEST(is_long_enough_for_those_who_wait),
        TEST(is_shortened_for_a_clock_that_is_behind),
        TEST(stays_when_told_so),
        TEST(time_in_which_no_agent_could_write_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
