/* What an agent is shown of the state: agent_view.c. */
#include "tests/unit/rendezvous/scene.h"

#define ANONYMOUS "-rdzvd.a-node"

/* What a view says. */
struct seen {
    size_t participants, waiting; /* the agent's own node also counts */
    bool has_own, complete, closed;
    int64_t rank, beat_us;
};

static struct seen read_view(const char *text, const char *own)
{
    const struct torch_node who = {.addr = slice_str(own), .pid = 100};
    struct torch_state st = scene_state(text);
    const struct torch_node *node = torch_state_find(&st, &who);
    struct seen seen = {.participants = torch_state_participants(&st),
                        .has_own = node != NULL,
                        .complete = st.complete,
                        .closed = st.closed,
                        .rank = node == NULL ? -1 : node->rank,
                        .beat_us = node == NULL ? 0 : node->heartbeat_us};

    for (size_t i = 0; i < st.count; i++) {
        seen.waiting += st.nodes[i].waiting;
        if (&st.nodes[i] != node)
            assert_false(st.nodes[i].has_heartbeat); /* nobody takes another node for dead */
    }
    torch_state_free(&st);
    return seen;
}

static struct seen look(struct scene *s, size_t i)
{
    return read_view(scene_poll(s, &s->agents[i]), scene_name(i));
}

static void introduce(struct scene *s)
{
    scene_cas(s, scene_connect(s, true), "", SENTINEL);
}

static void read_rank(struct scene *s, size_t i)
{
    scene_set_role(s, i, s->run.view.state.round);
}

/* One more agent waits; it has looked before, as torch's agents do. */
static void come(struct scene *s, size_t i)
{
    const char *seen;

    introduce(s);
    seen = scene_poll(s, &s->agents[i]);
    scene_cas(s, &s->agents[i], seen, scene_waiting(s, seen, scene_name(i)));
    assert_true(scene_node_now(s, scene_name(i)).waiting);
}

/* --- Each place. --- */

static void one_that_joins_sees_as_many_as_there_are(void **state)
{
    struct scene *s = *state;
    struct seen seen;

    scene_begin_crowd(s, 3);
    seen = look(s, 2);
    assert_int_equal(seen.participants, 2);
    assert_false(seen.has_own || seen.complete);
    assert_false(scene_names(scene_poll(s, &s->agents[2]), "a"));
}

static void one_that_has_joined_sees_itself_and_a_deadline(void **state)
{
    struct scene *s = *state;
    struct seen seen;
    struct torch_state st;

    scene_begin_crowd(s, 2);
    seen = look(s, 1);
    assert_int_equal(seen.participants, 1);
    assert_true(seen.has_own);
    st = scene_state(scene_poll(s, &s->agents[1]));
    assert_true(st.has_deadline && st.deadline_us > scene_now_us(s) + 3600 * SECOND);
    torch_state_free(&st);
}

/* The last call is over: one sees all, and completes the round; another one if it does not. */
static void one_completes_the_round(void **state)
{
    struct scene *s = *state;
    const char *seen;
    struct torch_state st;

    scene_begin_crowd(s, 2);
    st = scene_with_deadline(scene_state_now(s), scene_now_us(s) + SECOND);
    scene_put_state(s, &st);
    assert_int_equal(look(s, 0).participants, 1);
    scene_pass(s, 1000);
    assert_int_equal(look(s, 0).participants, 2);
    assert_int_equal(look(s, 1).participants, 1);
    scene_pass(s, 2000);
    assert_int_equal(look(s, 1).participants, 2);
    seen = scene_poll(s, &s->agents[1]);
    st = scene_state(seen);
    assert_true(st.deadline_us < scene_now_us(s));
    scene_complete(&st);
    seen = scene_cas(s, &s->agents[1], seen, scene_text(s, &st));
    assert_true(s->run.view.state.complete);
    assert_int_equal(scene_node_now(s, "b").rank, 1);
    assert_int_equal(read_view(seen, "b").rank, 1);
    assert_int_equal(read_view(seen, "b").participants, 2);
}

/* A rank is below the number of nodes also if one of them was lost in the meantime. */
static void one_that_looks_for_its_rank_sees_the_round_as_completed(void **state)
{
    struct scene *s = *state;
    struct seen seen;

    for (int lost = 0; lost < 2; lost++) {
        scene_meet(s, 3);
        if (lost)
            scene_disconnect(s, &s->agents[0]);
        seen = look(s, 1);
        assert_true(seen.complete);
        assert_int_equal(seen.participants, 3);
        assert_int_equal(seen.rank, 1);
        assert_int_equal(seen.waiting, 0);
        scene_renew(s);
    }
}

static void one_that_trains_sees_itself(void **state)
{
    struct scene *s = *state;
    struct seen seen;

    scene_meet(s, 3);
    read_rank(s, 1);
    seen = look(s, 1);
    assert_int_equal(seen.participants, 1);
    assert_int_equal(seen.rank, 1);
}

/* The agent reads no key for its rank, and polls again later than it would read its rank. */
static void one_that_looks_again_has_its_rank(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 3);
    assert_int_equal(look(s, 1).participants, 3);
    scene_pass(s, 500);
    assert_int_equal(look(s, 1).participants, 3);
    scene_pass(s, 500);
    assert_int_equal(look(s, 1).participants, 1);
}

/* Its heartbeat says the same. */
static void one_that_beats_has_its_rank(void **state)
{
    struct scene *s = *state;
    const char *seen;

    scene_meet(s, 3);
    seen = scene_poll(s, &s->agents[1]);
    scene_pass(s, 500);
    scene_cas(s, &s->agents[1], seen, scene_beating(s, seen, "b"));
    assert_int_equal(look(s, 1).participants, 1);
}

static void one_that_waits_sees_itself(void **state)
{
    struct scene *s = *state;
    struct seen seen;

    scene_meet(s, 2);
    come(s, 2);
    seen = look(s, 2);
    assert_true(seen.has_own && seen.complete);
    assert_int_equal(seen.participants, 0);
    assert_int_equal(seen.waiting, 1);
}

/* Torch compares the number with MAX: it waits, or becomes a spare. */
static void a_new_one_and_a_spare_see_how_many_there_are(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    scene_meet(s, 2);
    introduce(s);
    assert_int_equal(look(s, 2).participants, 2);
    assert_false(look(s, 2).has_own);
    st = scene_state(scene_poll(s, &s->agents[2]));
    scene_beat(&st, "c", scene_now_us(s));
    scene_node(&st, "c")->redundant = true;
    scene_cas(s, &s->agents[2], scene_poll(s, &s->agents[2]), scene_text(s, &st));
    assert_true(scene_node_now(s, "c").redundant);
    assert_int_equal(look(s, 2).participants, 2);
    assert_true(look(s, 2).has_own);
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(look(s, 2).participants, 1);
}

/* So it adds itself to the wait list. */
static void one_that_has_left_sees_nobody(void **state)
{
    struct scene *s = *state;
    struct seen seen;

    scene_meet(s, 3);
    scene_leave(s, 1);
    seen = look(s, 1);
    assert_true(seen.complete);
    assert_int_equal(seen.participants, 0);
    assert_false(seen.has_own);
}

static void all_see_that_the_run_is_closed(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    scene_meet(s, 2);
    read_rank(s, 0);
    st = scene_state_now(s);
    st.closed = true;
    scene_put_state(s, &st);
    assert_true(look(s, 0).closed);
    assert_true(look(s, 1).closed);
}

/* --- Clocks. --- */

/* The state has times by our clock, and each agent sees its own by its own clock. */
static void times_are_by_the_clock_of_the_agent(void **state)
{
    struct scene *s = *state;

    for (int64_t ahead = -120 * SECOND; ahead <= 120 * SECOND; ahead += 120 * SECOND) {
        struct torch_state st;

        introduce(s);
        introduce(s);
        st = scene_state(scene_joined(s, SENTINEL, "a"));
        scene_beat(&st, "a", scene_now_us(s) + ahead);
        st = scene_with_deadline(st, scene_now_us(s) + ahead + 30 * SECOND);
        scene_cas(s, &s->agents[0], SENTINEL, scene_text(s, &st));
        assert_int_equal(scene_node_now(s, "a").heartbeat_us, scene_now_us(s));
        st = scene_state_now(s);
        assert_int_equal(st.deadline_us, scene_now_us(s) + 30 * SECOND);
        torch_state_free(&st);
        assert_int_equal(look(s, 0).beat_us, scene_now_us(s) + ahead);
        scene_pass(s, 20000); /* it was frozen: it must not take itself for dead */
        assert_int_equal(look(s, 0).beat_us, scene_now_us(s) + ahead - 11 * SECOND / 2);
        scene_renew(s);
    }
}

static void a_heartbeat_is_shown_as_it_came_while_it_is_young(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    read_rank(s, 0);
    scene_pass(s, 1000);
    look(s, 0);
    scene_pass(s, 4000); /* else the agent would never send another one */
    assert_int_equal(look(s, 0).beat_us, scene_now_us(s) - 5 * SECOND);
}

/* --- Who sees the value itself, and the same text once more. --- */

static void a_tool_sees_the_value(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_connect(s, true);
    assert_string_equal(scene_poll(s, &s->agents[2]), scene_get(s, ""));
}

static void a_tool_writes_literally(void **state)
{
    struct scene *s = *state;
    const char *now, *next;

    scene_meet(s, 2);
    scene_connect(s, true);
    now = scene_get(s, "");
    next = scene_waiting(s, now, "z");
    assert_string_equal(scene_cas(s, &s->agents[2], "other", next), now);
    assert_string_equal(scene_cas(s, &s->agents[2], now, next), next);
    assert_string_equal(scene_get(s, ""), next);
}

/* A look that changes nothing needs no step. */
static void the_same_is_shown_again_until_anything_changes(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    read_rank(s, 0);
    scene_poll(s, &s->agents[0]);
    scene_pass(s, 4000);
    assert_non_null(
        policy_poll_again(&s->run, &s->agents[0], false, s->now.ms, s->now.lived_ms).ptr);
    scene_pass(s, 1000);
    assert_null(policy_poll_again(&s->run, &s->agents[0], false, s->now.ms, s->now.lived_ms).ptr);
    scene_poll(s, &s->agents[0]);
    assert_non_null(
        policy_poll_again(&s->run, &s->agents[0], false, s->now.ms, s->now.lived_ms).ptr);
    scene_disconnect(s, &s->agents[1]);
    assert_null(policy_poll_again(&s->run, &s->agents[0], false, s->now.ms, s->now.lived_ms).ptr);
    scene_poll(s, &s->agents[0]); /* it shows a second node, that waits */
    assert_null(policy_poll_again(&s->run, &s->agents[0], false, s->now.ms, s->now.lived_ms).ptr);
}

/* Nor does a heartbeat: its answer is what a step would write. */
static void a_heartbeat_is_answered_with_its_own_text(void **state)
{
    struct scene *s = *state;
    struct agent *a;
    const char *seen, *beat;
    struct slice shown;

    scene_meet(s, 2);
    read_rank(s, 0);
    a = &s->agents[0];
    scene_pass(s, 1000);
    seen = scene_poll(s, a);
    beat = scene_beating(s, seen, scene_name(0));
    shown = policy_heartbeat(&s->run, a, slice_str(seen), slice_str(beat), &s->now);
    assert_true(slice_is(shown, beat));
    assert_int_equal(scene_node_now(s, scene_name(0)).heartbeat_us, scene_now_us(s));
    assert_true(slice_is(policy_poll_again(&s->run, a, false, s->now.ms, s->now.lived_ms), beat));
    a->view.until_ms = s->now.ms;
    assert_string_equal(scene_poll(s, a), beat);
}

/* An old text, an old heartbeat, a change that is more than a heartbeat, and one by a clock that
 * has moved need a step. */
static void any_other_write_needs_a_step(void **state)
{
    struct scene *s = *state;
    struct agent *a;
    const char *old, *seen, *beat;

    scene_meet(s, 2);
    read_rank(s, 0);
    a = &s->agents[0];
    old = scene_poll(s, a);
    scene_pass(s, 1000);
    seen = scene_cas(s, a, old, scene_beating(s, old, scene_name(0)));
    scene_pass(s, 1000);
    beat = scene_beating(s, seen, scene_name(0));
    for (size_t i = 0; i < 4; i++) {
        const char *expected = i == 0 ? old : seen;
        const char *desired = i == 1 ? old : i == 2 ? scene_closing(s, beat) : beat;

        if (i == 3)
            s->now.wall_ns -= INT64_C(3000000000);
        assert_null(
            policy_heartbeat(&s->run, a, slice_str(expected), slice_str(desired), &s->now).ptr);
    }
    s->now.wall_ns += INT64_C(3000000000);
    assert_non_null(policy_heartbeat(&s->run, a, slice_str(seen), slice_str(beat), &s->now).ptr);
}

/* --- Writes that are over. --- */

/* The agent was frozen while the round went on: it receives the present state, and rdzvd ignores
 * its write. */
static void a_write_of_another_round_changes_nothing(void **state)
{
    struct scene *s = *state;
    const char *seen, *before;

    scene_meet(s, 2);
    introduce(s);
    seen = scene_poll(s, &s->agents[2]);
    scene_next_round(s, 2);
    before = scene_get(s, "");
    scene_cas(s, &s->agents[2], seen, scene_waiting(s, seen, "c"));
    assert_string_equal(scene_get(s, ""), before);
    seen = scene_poll(s, &s->agents[2]);
    scene_cas(s, &s->agents[2], seen, scene_waiting(s, seen, "c"));
    assert_true(scene_node_now(s, "c").waiting);
}

/* Nothing of it is in the run that has begun in the meantime. */
static void a_write_of_a_forgotten_run_changes_nothing(void **state)
{
    struct scene *s = *state;
    const char *seen;

    scene_meet(s, 2);
    seen = scene_poll(s, &s->agents[1]);
    scene_change(s, SENTINEL);
    assert_string_equal(scene_cas(s, &s->agents[1], seen, scene_closing(s, seen)), SENTINEL);
    assert_string_equal(scene_cas(s, &s->agents[1], seen, scene_beating(s, seen, "b")), SENTINEL);
    assert_string_equal(scene_get(s, ""), SENTINEL);
}

/* An agent decides to join or to wait by an outdated number of other nodes. */
static void one_that_waits_by_another_number_decides_again(void **state)
{
    struct scene *s = *state;
    const char *seen;

    scene_meet(s, 3);
    introduce(s);
    seen = scene_poll(s, &s->agents[3]);
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(
        read_view(scene_cas(s, &s->agents[3], seen, scene_waiting(s, seen, "d")), "d").participants,
        2);
    assert_false(scene_node_now(s, "d").waiting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_that_joins_sees_as_many_as_there_are),
        TEST(one_that_has_joined_sees_itself_and_a_deadline),
        TEST(one_completes_the_round),
        TEST(one_that_looks_for_its_rank_sees_the_round_as_completed),
        TEST(one_that_trains_sees_itself),
        TEST(one_that_looks_again_has_its_rank),
        TEST(one_that_beats_has_its_rank),
        TEST(one_that_waits_sees_itself),
        TEST(a_new_one_and_a_spare_see_how_many_there_are),
        TEST(one_that_has_left_sees_nobody),
        TEST(all_see_that_the_run_is_closed),
        TEST(times_are_by_the_clock_of_the_agent),
        TEST(a_heartbeat_is_shown_as_it_came_while_it_is_young),
        TEST(a_tool_sees_the_value),
        TEST(a_tool_writes_literally),
        TEST(the_same_is_shown_again_until_anything_changes),
        TEST(a_heartbeat_is_answered_with_its_own_text),
        TEST(any_other_write_needs_a_step),
        TEST(a_write_of_another_round_changes_nothing),
        TEST(a_write_of_a_forgotten_run_changes_nothing),
        TEST(one_that_waits_by_another_number_decides_again),
    };

    return cmocka_run_group_tests_name("agent_view", tests, NULL, NULL);
}
