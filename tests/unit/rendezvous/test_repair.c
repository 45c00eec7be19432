/* Nodes that the others presumed dead. */
#include "rdzv/rendezvous/step.h"
#include "tests/unit/rendezvous/scene.h"

/* Another agent writes the state without these. */
static void prune(struct scene *s, size_t by, const char *names)
{
    struct torch_state st = scene_state_now(s);
    const char *now;

    now = scene_text(s, &st);
    st = scene_state(now);
    for (; *names != '\0'; names++)
        scene_remove(&st, (const char[]){*names, '\0'});
    scene_beat(&st, scene_name(by), scene_now_us(s));
    scene_cas(s, &s->agents[by], now, scene_text(s, &st));
}

static void a_node_is_put_back_into_its_round(void **state)
{
    struct scene *s = *state;
    int64_t rank;

    scene_meet(s, 3);
    rank = scene_node_now(s, "b").rank;
    prune(s, 2, "ab");
    assert_int_equal(s->run.view.state.count, 1);
    scene_event(s, AGENT_POLLED, &s->agents[1]);
    assert_true(scene_node_now(s, "b").participant);
    assert_int_equal(scene_node_now(s, "b").rank, rank);
    assert_int_equal(scene_node_now(s, "b").heartbeat_us, scene_now_us(s));
    assert_string_equal(scene_note(s, NOTE_NODE_REPAIRED)->action, "is a participant again");
    assert_string_equal(scene_note(s, NOTE_NODE_REPAIRED)->node, "b/100/0");
    /* By a write too, which fails: the answer says that it is in. */
    scene_cas(s, &s->agents[0], "stale", "x");
    assert_true(scene_node_now(s, "a").participant);
}

static void a_node_is_put_back_when_there_is_room(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    prune(s, 1, "a");
    s->room = 10;
    scene_event(s, AGENT_POLLED, &s->agents[0]);
    assert_int_equal(s->run.view.state.count, 1);
    s->room = SIZE_MAX;
    scene_event(s, AGENT_POLLED, &s->agents[0]);
    assert_int_equal(s->run.view.state.count, 2);
}

static void a_node_waits_when_a_smaller_round_has_begun(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 3);
    prune(s, 0, "c");
    scene_next_round(s, 2);
    scene_event(s, AGENT_POLLED, &s->agents[2]);
    assert_true(scene_node_now(s, "c").waiting && !scene_node_now(s, "c").participant);
    assert_int_equal(s->run.view.state.round, 1);
    scene_event(s, AGENT_POLLED, &s->agents[2]);
    assert_null(scene_note(s, NOTE_NODE_REPAIRED)); /* once */
}

static void a_node_that_was_replaced_is_closed(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    prune(s, 0, "b");
    /* Another one takes its place. */
    {
        struct agent *other = scene_connect(s, true);
        struct torch_state st = scene_state_now(s);
        const char *now = scene_text(s, &st);

        st = scene_state(now);
        st.round++;
        scene_beat(&st, "c", scene_now_us(s));
        scene_node(&st, "c")->participant = true;
        scene_complete(&st);
        scene_cas(s, other, now, scene_text(s, &st));
    }
    scene_event(s, AGENT_POLLED, &s->agents[1]);
    assert_true(scene_has(s, POLICY_CLOSE, &s->agents[1]));
    assert_non_null(strstr(scene_output(s, POLICY_CLOSE)->reason, "replaced"));
    assert_null(scene_cas(s, &s->agents[1], "x", "y"));
}

/* The last call had passed, so there is room for more nodes than have met. */
static void a_node_waits_when_the_new_round_was_not_full(void **state)
{
    struct scene *s = *state;
    struct torch_state st;
    struct agent *c;
    const char *now;

    scene_meet(s, 2);
    prune(s, 0, "b");
    st = scene_state_now(s);
    st.round++;
    st.complete = false;
    st.has_deadline = true;
    st.deadline_us = scene_now_us(s) - SECOND;
    scene_put_state(s, &st);
    scene_pass(s, 6000); /* its place is free */
    c = scene_connect(s, true);
    scene_cas(s, c, scene_get(s, ""), scene_joined(s, scene_get(s, ""), "c"));
    now = scene_get(s, "");
    st = scene_state(now);
    scene_complete(&st);
    scene_beat(&st, "c", scene_now_us(s) + 1);
    scene_cas(s, c, now, scene_text(s, &st));
    assert_int_equal(s->run.fill, FILL_BELOW_MAX);
    scene_event(s, AGENT_POLLED, &s->agents[1]);
    assert_true(scene_node_now(s, "b").waiting);
}

static void a_node_that_left_by_itself_is_not_put_back(void **state)
{
    struct scene *s = *state;
    struct torch_state st;
    const char *now;

    scene_meet(s, 2);
    st = scene_state_now(s);
    now = scene_text(s, &st);
    st = scene_state(now);
    scene_remove(&st, "a");
    scene_cas(s, &s->agents[0], now, scene_text(s, &st));
    scene_event(s, AGENT_POLLED, &s->agents[0]);
    assert_int_equal(s->run.view.state.count, 1);
}

/* The others are gone, in the middle of the next round: nobody else tells it to join. */
static void a_node_waits_when_no_round_is_complete(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    scene_meet(s, 1);
    st = scene_state_now(s);
    scene_remove(&st, "a");
    st.complete = false;
    st.round++;
    scene_put_state(s, &st);
    scene_event(s, AGENT_POLLED, &s->agents[0]);
    assert_true(scene_node_now(s, "a").waiting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_node_is_put_back_into_its_round),
        TEST(a_node_is_put_back_when_there_is_room),
        TEST(a_node_waits_when_a_smaller_round_has_begun),
        TEST(a_node_that_was_replaced_is_closed),
        TEST(a_node_waits_when_the_new_round_was_not_full),
        TEST(a_node_that_left_by_itself_is_not_put_back),
        TEST(a_node_waits_when_no_round_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
