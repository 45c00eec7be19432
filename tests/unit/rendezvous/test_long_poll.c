/* The looks of agents that wait for a round, or have joined one, are held until that matters. */
#include "tests/unit/rendezvous/scene.h"

/* True: its look is held. */
static bool is_held(struct scene *s, struct agent *a)
{
    assert_null(policy_poll_again(&s->run, a, false, s->now.ms, s->now.lived_ms).ptr);
    scene_event(s, AGENT_POLLED, a);
    return scene_has(s, POLICY_HOLD, a);
}

static bool goes_on(const struct scene *s, const struct agent *a)
{
    return scene_has(s, POLICY_RESUME, a);
}

static void tick(struct scene *s, uint64_t ms)
{
    scene_pass(s, ms);
    scene_event(s, RUN_TICK, NULL);
}

/* A round of "a", or of "a" and "b", and one that waits for the next. */
static struct agent *begin(struct scene *s, size_t nodes)
{
    const char *now;
    struct agent *a;

    scene_meet(s, nodes);
    a = scene_connect(s, true);
    scene_cas(s, a, "", SENTINEL);
    now = scene_get(s, "");
    scene_cas(s, a, now, scene_waiting(s, now, scene_name(nodes)));
    s->has_long_polls = true;
    scene_pass(s, 1000);
    return a;
}

static void one_that_waits_is_answered_when_it_is_let_in(void **state)
{
    struct scene *s = *state;
    struct torch_state st;
    struct agent *b;

    b = begin(s, 1);
    assert_true(is_held(s, b));
    scene_leave(s, 0);
    assert_false(goes_on(s, b)); /* the next round has begun, and "a" is about to join it */
    scene_join(s, 0);
    assert_true(s->run.view.state.complete);
    assert_true(goes_on(s, b));
    assert_int_equal(s->run.held[HELD_LONG] + s->run.held[HELD_LONG_ANSWER], 0);
    st = scene_state(scene_poll(s, b));
    assert_true(st.complete && scene_node(&st, "b")->participant);
    torch_state_free(&st);
}

/* "b" writes that it waits for the next round of "a": the answer is held. */
static struct agent *begin_to_wait(struct scene *s, const char **expected, const char **write)
{
    struct agent *b;

    s->has_long_polls = true;
    scene_meet(s, 1);
    b = scene_connect(s, true);
    scene_cas(s, b, "", SENTINEL);
    *expected = scene_copy(scene_get(s, ""));
    *write = scene_waiting(s, *expected, "b");
    assert_null(scene_cas(s, b, *expected, *write));
    assert_true(scene_has(s, POLICY_HOLD, b));
    return b;
}

static void no_write_is_answered_before_its_time(void **state)
{
    struct scene *s = *state;
    const char *now, *write;
    struct agent *b;

    b = begin_to_wait(s, &now, &write);
    assert_null(scene_cas(s, b, now, write)); /* whatever has shown it again */
    assert_int_equal(s->run.held[HELD_LONG] + s->run.held[HELD_LONG_ANSWER], 1);
    scene_leave(s, 0);
    scene_join(s, 0);
    assert_true(goes_on(s, b));
    assert_non_null(scene_cas(s, b, now, write));
}

/* The write by which it waits is done at once, and answered then. */
static void so_is_one_that_has_just_begun_to_wait(void **state)
{
    struct scene *s = *state;

    for (int let_in = 0; let_in < 2; let_in++) {
        const char *now, *write, *answer;
        struct torch_state st;
        struct agent *b;

        b = begin_to_wait(s, &now, &write);
        assert_true(scene_node_now(s, "b").waiting);
        if (let_in) {
            scene_leave(s, 0);
            assert_false(goes_on(s, b));
            scene_join(s, 0);
        } else {
            tick(s, 3000);
        }
        assert_true(goes_on(s, b));
        answer = scene_cas(s, b, now, write); /* it is shown again */
        st = scene_state(answer);
        assert_true(st.complete);
        assert_int_equal(scene_node(&st, "b")->participant, let_in);
        assert_int_equal(scene_node(&st, "b")->waiting, !let_in);
        torch_state_free(&st);
        assert_int_equal(s->run.view.state.round, let_in);
        assert_int_equal(scene_participants(s), 1 + let_in);
        scene_pass(s, 1000);
        assert_int_equal(is_held(s, b), !let_in);
        scene_renew(s);
    }
}

static void delete_keys(struct scene *s)
{
    for (size_t i = 0; i < SCENE_KEYS; i++) {
        free(s->keys[i].key);
        free(s->keys[i].value);
        s->keys[i].key = s->keys[i].value = NULL;
    }
}

/* The run is forgotten meanwhile: rdzvd answers the write like any other late write. */
static void a_write_is_answered_when_its_run_is_gone(void **state)
{
    struct scene *s = *state;
    const char *now, *write;
    struct agent *b;

    b = begin_to_wait(s, &now, &write);
    delete_keys(s);
    scene_event(s, RUN_CHANGED, NULL);
    assert_true(goes_on(s, b));
    assert_string_equal(scene_cas(s, b, now, write), SENTINEL);
    assert_string_equal(scene_get(s, ""), SENTINEL); /* it joins the next one */
}

/* Its relay has lost the store, and sends the write again: it is made anew of what there is. */
static void a_write_that_comes_again_is_a_write(void **state)
{
    struct scene *s = *state;
    const char *now, *write, *answer;
    struct torch_state st;
    struct agent *b;

    b = begin_to_wait(s, &now, &write);
    scene_event(s, AGENT_AWAY, b);
    assert_int_equal(b->held, HELD_NONE);
    scene_event(s, AGENT_BACK, b);
    answer = scene_cas(s, b, now, write);
    assert_non_null(answer); /* it is refused: the state is another one */
    st = scene_state(answer);
    assert_true(scene_node(&st, "b")->waiting);
    torch_state_free(&st);
    assert_int_equal(s->run.held[HELD_LONG] + s->run.held[HELD_LONG_ANSWER], 0);
}

/* "a" has left, and does not join. */
static void one_that_is_not_let_in_joins_at_the_next_tick(void **state)
{
    struct scene *s = *state;
    struct torch_state st;
    struct agent *b;

    b = begin(s, 1);
    assert_true(is_held(s, b));
    scene_leave(s, 0);
    tick(s, 100);
    assert_true(goes_on(s, b));
    st = scene_state(scene_poll(s, b));
    assert_true(!st.complete && st.round == 1);
    torch_state_free(&st);
}

static void one_that_cannot_be_let_in_joins_at_once(void **state)
{
    struct scene *s = *state;

    for (int why = 0; why < 3; why++) {
        struct agent *b;

        b = begin(s, 1);
        s->settings.end_last_call = why != 0;
        if (why == 1)
            s->run.enough = 0; /* MIN is not known */
        if (why == 2)
            s->run.room_for = 1; /* nor whether there is room for two */
        assert_true(is_held(s, b));
        scene_leave(s, 0);
        assert_true(goes_on(s, b));
        scene_renew(s);
    }
}

/* rdzvd holds no poll for long: a held agent cannot see a signal to end, and must send heartbeats.
 */
static void no_look_is_held_for_long(void **state)
{
    struct scene *s = *state;
    struct agent *b;

    b = begin(s, 1);
    for (int looks = 0; looks < 3; looks++) {
        assert_true(is_held(s, b));
        tick(s, 900);
        tick(s, 1000);
        assert_false(goes_on(s, b));
        tick(s, 1000);
        assert_true(goes_on(s, b));
        assert_false(is_held(s, b)); /* the same look, shown again */
        scene_pass(s, 1000);
    }
}

/* It has joined, and the last call is long; until it is about to be over. */
static void one_that_has_joined_is_answered_when_others_do(void **state)
{
    struct scene *s = *state;
    struct agent *a;

    s->has_long_polls = true;
    for (size_t i = 0; i < 2; i++)
        scene_cas(s, scene_connect(s, true), "", SENTINEL);
    a = &s->agents[0];
    scene_join(s, 0);
    scene_pass(s, 1000);
    assert_true(is_held(s, a));
    scene_cas(s, &s->agents[1], scene_get(s, ""), scene_completed(s, scene_get(s, ""), "b"));
    assert_true(goes_on(s, a));
}

static void one_that_is_to_complete_the_round_looks_as_ever(void **state)
{
    struct scene *s = *state;
    struct agent *a;

    s->has_long_polls = true;
    for (size_t i = 0; i < 2; i++)
        scene_cas(s, scene_connect(s, true), "", SENTINEL);
    a = &s->agents[0];
    scene_join(s, 0);
    scene_pass(s, SCENE_CALL / 1000 - 3500);
    assert_true(is_held(s, a));
    tick(s, 600);
    assert_true(goes_on(s, a));
    assert_false(is_held(s, a));
    scene_pass(s, 1000);
    assert_false(is_held(s, a));
}

/* The one that was missing is gone: the last call is over, and one of the others completes the
 * round. The other would only learn that it has joined. */
static void one_completes_the_round_when_nobody_is_missing(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    s->has_long_polls = true;
    scene_meet(s, 3);
    for (size_t i = 0; i < 3; i++)
        scene_leave(s, i);
    scene_disconnect(s, &s->agents[2]);
    scene_connect(s, true); /* it does not join */
    scene_connect(s, true);
    for (size_t i = 0; i < 2; i++)
        scene_join(s, i);
    s->settings.expected_nodes = 2;
    s->run.view.has_completed = false; /* 2 of them are enough */
    scene_pass(s, 1000);
    for (size_t i = 0; i < 2; i++)
        assert_true(is_held(s, &s->agents[i]));
    scene_disconnect(s, &s->agents[3]);
    assert_int_equal(scene_count(s, POLICY_RESUME), 0);
    scene_disconnect(s, &s->agents[4]);
    assert_non_null(scene_note(s, NOTE_LAST_CALL_ENDED));
    assert_int_equal(scene_count(s, POLICY_RESUME), 1);
    assert_true(goes_on(s, &s->agents[0]));
    st = scene_state(scene_poll(s, &s->agents[0]));
    assert_int_equal(torch_state_participants(&st), 2);
    assert_true(st.has_deadline && st.deadline_us < scene_now_us(s));
    torch_state_free(&st);
    tick(s, 1000); /* it does not: the other one may */
    assert_true(goes_on(s, &s->agents[1]));
}

static void all_are_answered_when_the_run_is_closed_or_gone(void **state)
{
    struct scene *s = *state;

    for (int gone = 0; gone < 2; gone++) {
        const char *now;
        struct agent *b;

        b = begin(s, 1);
        assert_true(is_held(s, b));
        now = scene_get(s, "");
        if (gone)
            scene_event(s, RUN_FORGET, NULL);
        else
            scene_cas(s, &s->agents[0], now, scene_closing(s, now));
        assert_true(goes_on(s, b) || scene_has(s, POLICY_CLOSE, b));
        assert_int_equal(s->run.held[HELD_LONG] + s->run.held[HELD_LONG_ANSWER], 0);
        scene_renew(s);
    }
}

static void one_that_goes_looks_no_more(void **state)
{
    struct scene *s = *state;
    static const enum policy_event_kind kinds[] = {AGENT_DISCONNECTED, AGENT_AWAY};

    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct agent *b;

        b = begin(s, 1);
        assert_true(is_held(s, b));
        if (kinds[i] == AGENT_AWAY)
            scene_event(s, AGENT_AWAY, b);
        else
            scene_disconnect(s, b);
        assert_int_equal(s->run.held[HELD_LONG] + s->run.held[HELD_LONG_ANSWER], 0);
        tick(s, 5000);
        assert_false(goes_on(s, b));
        if (kinds[i] == AGENT_AWAY) {
            scene_event(s, AGENT_BACK, b);
            assert_true(is_held(s, b)); /* it asks again */
        }
        scene_renew(s);
    }
}

/* The other nodes have presumed the node dead, and rdzvd has put it back into the wait list. The
 * node trains until it reads this state. Then it ends its workers, and its polls are held. */
static void one_that_trains_is_answered(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    s->has_long_polls = true;
    scene_meet(s, 2);
    st = scene_state_now(s);
    scene_remove(&st, "b");
    st.round = 1;
    scene_put_state(s, &st);
    scene_event(s, RUN_CHANGED, NULL);
    assert_false(is_held(s, &s->agents[1]));
    assert_true(scene_node_now(s, "b").waiting);
    scene_pass(s, 1000);
    assert_false(is_held(s, &s->agents[1])); /* now it has ended its workers */
    scene_pass(s, 1000);
    assert_true(is_held(s, &s->agents[1]));
    assert_false(is_held(s, &s->agents[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_that_waits_is_answered_when_it_is_let_in),
        TEST(so_is_one_that_has_just_begun_to_wait),
        TEST(no_write_is_answered_before_its_time),
        TEST(a_write_that_comes_again_is_a_write),
        TEST(a_write_is_answered_when_its_run_is_gone),
        TEST(one_that_is_not_let_in_joins_at_the_next_tick),
        TEST(one_that_cannot_be_let_in_joins_at_once),
        TEST(no_look_is_held_for_long),
        TEST(one_that_has_joined_is_answered_when_others_do),
        TEST(one_that_is_to_complete_the_round_looks_as_ever),
        TEST(one_completes_the_round_when_nobody_is_missing),
        TEST(all_are_answered_when_the_run_is_closed_or_gone),
        TEST(one_that_goes_looks_no_more),
        TEST(one_that_trains_is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
