/* Agents that join an open round write once each, whatever the order of their writes: numbers.c. */
#include "tests/unit/rendezvous/scene.h"

/* Agents "a", "b", …, who have introduced themselves. */
static void introduce(struct scene *s, size_t count)
{
    for (size_t i = 0; i < count; i++)
        scene_cas(s, scene_connect(s, true), "", SENTINEL);
}

/* "a" has joined. */
static void begin(struct scene *s, size_t count)
{
    introduce(s, count);
    scene_cas(s, &s->agents[0], SENTINEL, scene_joined(s, SENTINEL, "a"));
    assert_int_equal(scene_participants(s), 1);
}

static size_t count_in(const char *text)
{
    struct torch_state st = scene_state(text);
    size_t count = torch_state_participants(&st);

    torch_state_free(&st);
    return count;
}

/* Writes that the agent joins, by what it has seen. True: it is held. */
static bool join(struct scene *s, size_t i, const char *seen)
{
    return scene_cas(s, &s->agents[i], seen, scene_joined(s, seen, scene_name(i))) == NULL;
}

static bool has_joined(struct scene *s, size_t i)
{
    return scene_node_now(s, scene_name(i)).participant;
}

/* "b", "c" and "d" look; "d" and "c" write, and are held. */
static void hold_two(struct scene *s, const char *seen[4])
{
    begin(s, 4);
    for (size_t i = 1; i < 4; i++)
        seen[i] = scene_poll(s, &s->agents[i]);
    assert_true(join(s, 3, seen[3]));
    assert_true(join(s, 2, seen[2]));
    assert_int_equal(scene_participants(s), 1);
}

static void each_is_shown_one_more(void **state)
{
    struct scene *s = *state;

    begin(s, 4);
    for (size_t i = 1; i < 4; i++)
        assert_int_equal(count_in(scene_poll(s, &s->agents[i])), i);
    assert_int_equal(count_in(scene_poll(s, &s->agents[2])), 2); /* it has its number already */
}

static void each_writes_once(void **state)
{
    struct scene *s = *state;
    const char *seen[4];

    begin(s, 4);
    for (size_t i = 1; i < 4; i++)
        seen[i] = scene_poll(s, &s->agents[i]);
    for (size_t i = 1; i < 4; i++) {
        assert_false(join(s, i, seen[i]));
        assert_int_equal(scene_participants(s), i + 1);
    }
}

static void a_write_before_its_turn_is_held(void **state)
{
    struct scene *s = *state;
    const char *seen[4];

    hold_two(s, seen);
    assert_false(join(s, 1, seen[1]));
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[2]));
    assert_false(scene_has(s, POLICY_RESUME, &s->agents[3]));
    assert_false(join(s, 2, seen[2]));
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[3]));
    assert_false(join(s, 3, seen[3]));
    assert_int_equal(scene_participants(s), 4);
}

/* "c" is MAX of three nodes: "d" came too late, and waits. */
static void one_beyond_max_is_not_let_in(void **state)
{
    struct scene *s = *state;
    const char *seen[4];

    begin(s, 4);
    for (size_t i = 1; i < 4; i++)
        seen[i] = scene_poll(s, &s->agents[i]);
    assert_true(join(s, 3, seen[3]));
    assert_null(scene_cas(s, &s->agents[2], seen[2], scene_completed(s, seen[2], "c")));
    assert_false(join(s, 1, seen[1]));
    assert_non_null(scene_cas(s, &s->agents[2], seen[2], scene_completed(s, seen[2], "c")));
    assert_true(s->run.view.state.complete);
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[3]));
    assert_false(join(s, 3, seen[3]));
    assert_false(has_joined(s, 3));
    assert_int_equal(s->run.max_nodes, 3);
}

/* "d" gets the number of "b", and the number of "d" is no agent's: only "d" writes once more. */
static void d_joins_in_place_of_b(struct scene *s, const char *seen[4])
{
    const char *again;

    assert_true(scene_has(s, POLICY_RESUME, &s->agents[3]));
    assert_false(scene_has(s, POLICY_RESUME, &s->agents[2]));
    again = scene_cas(s, &s->agents[3], seen[3], scene_joined(s, seen[3], "d"));
    assert_int_equal(count_in(again), 1);
    assert_false(has_joined(s, 3));
    assert_false(join(s, 3, again));
    assert_true(has_joined(s, 3));
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[2]));
    assert_false(join(s, 2, seen[2]));
    assert_int_equal(scene_participants(s), 3);
}

static void the_number_of_one_that_ends_is_another_ones(void **state)
{
    struct scene *s = *state;
    const char *seen[4];

    hold_two(s, seen);
    scene_disconnect(s, &s->agents[1]);
    d_joins_in_place_of_b(s, seen);
}

static void the_number_of_one_that_does_not_write_is_another_ones(void **state)
{
    struct scene *s = *state;
    const char *seen[4], *again;

    hold_two(s, seen);
    scene_pass(s, 500);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_RESUME), 0);
    scene_pass(s, 500);
    scene_event(s, RUN_TICK, NULL);
    d_joins_in_place_of_b(s, seen);
    /* It writes in the end, when three have joined, and nobody as number 4. */
    again = scene_cas(s, &s->agents[1], seen[1], scene_joined(s, seen[1], "b"));
    assert_int_equal(count_in(again), 3);
    assert_false(join(s, 1, again));
    assert_int_equal(scene_participants(s), 4);
}

/* A joining node is lost: its number has been tried, and "d" may take the number. */
static void a_number_that_was_tried_needs_no_other_try(void **state)
{
    struct scene *s = *state;
    const char *seen[4];

    begin(s, 4);
    for (size_t i = 1; i < 4; i++)
        seen[i] = scene_poll(s, &s->agents[i]);
    join(s, 1, seen[1]);
    join(s, 2, seen[2]);
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(scene_participants(s), 2);
    assert_false(join(s, 3, seen[3]));
    assert_true(has_joined(s, 3));
}

/* Nothing tells the dialect of the state yet. */
static void one_writes_the_first_state(void **state)
{
    struct scene *s = *state;

    introduce(s, 3);
    assert_string_equal(scene_poll(s, &s->agents[0]), SENTINEL);
    scene_event(s, AGENT_POLLED, &s->agents[1]);
    assert_true(scene_has(s, POLICY_HOLD, &s->agents[1]));
    scene_cas(s, &s->agents[0], SENTINEL, scene_joined(s, SENTINEL, "a"));
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[1]));
    assert_int_equal(count_in(scene_poll(s, &s->agents[1])), 1);
}

static void another_one_does_if_that_does_not(void **state)
{
    struct scene *s = *state;

    introduce(s, 3);
    scene_poll(s, &s->agents[0]);
    scene_event(s, AGENT_POLLED, &s->agents[1]);
    scene_pass(s, 1000);
    scene_event(s, RUN_TICK, NULL);
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[1]));
    assert_string_equal(scene_poll(s, &s->agents[1]), SENTINEL);
}

#define NUMBERS 128

static void so_many_have_one_and_the_looks_of_others_are_held(void **state)
{
    struct scene *s = *state;
    const char *first;

    begin(s, NUMBERS + 3);
    first = scene_poll(s, &s->agents[1]);
    for (size_t i = 2; i <= NUMBERS; i++)
        scene_poll(s, &s->agents[i]);
    scene_event(s, AGENT_POLLED, &s->agents[NUMBERS + 1]);
    assert_true(scene_has(s, POLICY_HOLD, &s->agents[NUMBERS + 1]));
    scene_event(s, AGENT_POLLED, &s->agents[NUMBERS + 2]);
    assert_true(scene_has(s, POLICY_HOLD, &s->agents[NUMBERS + 2]));
    join(s, 1, first);
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[NUMBERS + 1]));
    assert_false(scene_has(s, POLICY_RESUME, &s->agents[NUMBERS + 2]));
    assert_int_equal(count_in(scene_poll(s, &s->agents[NUMBERS + 1])), NUMBERS + 1);
}

/* Three of six are frozen: the writes of the others wait for one tick, and not for three. */
static void several_that_do_not_write_cost_one_tick(void **state)
{
    struct scene *s = *state;
    const char *seen[7];

    begin(s, 7);
    for (size_t i = 1; i < 7; i++)
        seen[i] = scene_poll(s, &s->agents[i]);
    for (size_t i = 2; i < 7; i += 2)
        assert_true(join(s, i, seen[i])); /* "b", "d" and "f" do not write */
    scene_pass(s, 1000);
    scene_event(s, RUN_TICK, NULL);
    for (int turns = 0; turns < 12; turns++) {
        for (size_t i = 2; i < 7; i += 2) {
            if (has_joined(s, i) || s->agents[i].held == HELD_JOIN)
                continue;
            seen[i] = scene_copy(
                scene_cas(s, &s->agents[i], seen[i], scene_joined(s, seen[i], scene_name(i))));
        }
    }
    assert_int_equal(scene_participants(s), 4);
}

/* The key is deleted under agents whose writes are held. */
static void when_the_run_is_gone_none_waits(void **state)
{
    struct scene *s = *state;
    const char *seen[4];

    hold_two(s, seen);
    scene_change(s, SENTINEL);
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[2]));
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[3]));
}

/* They look, and do not join. */
static void those_that_do_not_write_make_room(void **state)
{
    struct scene *s = *state;

    begin(s, NUMBERS + 3);
    for (size_t i = 1; i < NUMBERS + 3; i++)
        scene_event(s, AGENT_POLLED, &s->agents[i]);
    assert_true(scene_has(s, POLICY_HOLD, &s->agents[NUMBERS + 2]));
    scene_pass(s, 1000);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_RESUME), 2);
    assert_int_equal(count_in(scene_poll(s, &s->agents[NUMBERS + 2])), 1);
}

static void when_the_round_is_over_none_waits(void **state)
{
    struct scene *s = *state;
    const char *seen[4];

    hold_two(s, seen);
    scene_cas(s, &s->agents[0], scene_get(s, ""), scene_closing(s, scene_get(s, "")));
    assert_true(s->run.view.state.closed);
    assert_int_equal(scene_count(s, POLICY_RESUME), 2);
    assert_false(join(s, 2, seen[2]));
    assert_false(has_joined(s, 2));
}

/* rdzvd does not wait for an agent that is away; the agent asks again when it is back. */
static void one_that_is_away_has_no_number(void **state)
{
    struct scene *s = *state;
    const char *seen[4];

    hold_two(s, seen);
    scene_event(s, AGENT_AWAY, &s->agents[1]);
    d_joins_in_place_of_b(s, seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_is_shown_one_more),
        TEST(each_writes_once),
        TEST(a_write_before_its_turn_is_held),
        TEST(one_beyond_max_is_not_let_in),
        TEST(the_number_of_one_that_ends_is_another_ones),
        TEST(the_number_of_one_that_does_not_write_is_another_ones),
        TEST(a_number_that_was_tried_needs_no_other_try),
        TEST(one_writes_the_first_state),
        TEST(another_one_does_if_that_does_not),
        TEST(so_many_have_one_and_the_looks_of_others_are_held),
        TEST(several_that_do_not_write_cost_one_tick),
        TEST(when_the_run_is_gone_none_waits),
        TEST(those_that_do_not_write_make_room),
        TEST(when_the_round_is_over_none_waits),
        TEST(one_that_is_away_has_no_number),
    };

    return cmocka_run_group_tests_name("numbers", tests, NULL, NULL);
}
