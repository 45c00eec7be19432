/* In a large round, many changes of agents have one text, and are answered after it: step.h. */
#include <stdio.h>

#include "tests/unit/rendezvous/scene.h"

#define MOST 64 /* changes that have one text */

/* The first loss notifies the others at once. */
static void losses_after_the_first_one_have_one_text(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 5);
    s->settings.late_text = 1;
    scene_disconnect(s, &s->agents[1]);
    assert_int_equal(scene_count(s, POLICY_PUT), 1);
    for (size_t i = 2; i < 4; i++) {
        scene_disconnect(s, &s->agents[i]);
        assert_int_equal(scene_count(s, POLICY_PUT), 0);
    }
    assert_int_equal(s->run.view.participants, 2);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_PUT), 1);
    assert_int_equal(scene_participants(s), 2);
    assert_int_equal(scene_waiting_nodes(s), 1);
}

/* Agents "a", "b", …; "a" has joined. Each text counts as long. */
static void begin(struct scene *s, size_t count)
{
    s->settings.late_text = 1;
    for (size_t i = 0; i < count; i++)
        scene_cas(s, scene_connect(s, true), "", SENTINEL);
    assert_non_null(
        scene_cas(s, &s->agents[0], SENTINEL, scene_joined(s, SENTINEL, scene_name(0))));
    assert_int_equal(scene_participants(s), 1);
}

static const char *join(struct scene *s, size_t i)
{
    const char *seen = scene_poll(s, &s->agents[i]);

    return scene_cas(s, &s->agents[i], seen, scene_joined(s, seen, scene_name(i)));
}

/* In the value. */
static size_t count_put(const struct scene *s)
{
    struct torch_state st = scene_state(scene_get(s, ""));
    size_t count = torch_state_participants(&st);

    torch_state_free(&st);
    return count;
}

static void b_joins(struct scene *s, size_t count)
{
    begin(s, count);
    assert_null(join(s, 1));
    assert_int_equal(scene_count(s, POLICY_PUT), 0);
    assert_int_equal(count_put(s), 1);
    assert_int_equal(s->run.view.participants, 2);
}

static void b_is_answered(struct scene *s, size_t participants)
{
    assert_int_equal(scene_count(s, POLICY_PUT), 1);
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[1]));
    assert_int_equal(count_put(s), participants);
    assert_non_null(scene_cas(s, &s->agents[1], "", ""));
}

static void a_join_is_answered_with_the_next_tick(void **state)
{
    struct scene *s = *state;

    b_joins(s, 2);
    scene_event(s, RUN_TICK, NULL);
    b_is_answered(s, 2);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_PUT), 0);
}

static void so_many_joins_have_one_text(void **state)
{
    struct scene *s = *state;

    begin(s, MOST + 2);
    for (size_t i = 1; i <= MOST; i++) {
        assert_null(join(s, i));
        assert_int_equal(scene_count(s, POLICY_PUT), 0);
    }
    assert_non_null(join(s, MOST + 1));
    b_is_answered(s, MOST + 2);
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[MOST]) ||
                s->agents[MOST].held == HELD_RELEASED_ANSWER);
}

/* A sixteenth of the nodes, if that is more. */
static void in_a_larger_round_more_joins_have_one_text(void **state)
{
    struct scene *s = *state;
    size_t spares = 16 * (MOST + 4), i = 2;
    struct torch_state st;
    char name[16];

    begin(s, 2 * MOST);
    st = scene_state_now(s);
    for (size_t n = 0; n < spares; n++) {
        snprintf(name, sizeof name, "spare-%zu", n);
        scene_node(&st, name)->redundant = true;
    }
    scene_put_state(s, &st);
    assert_non_null(join(s, 1)); /* has its text at once: the value was not of rdzvd */
    while (join(s, i) == NULL) {
        assert_int_equal(scene_count(s, POLICY_PUT), 0);
        i++;
    }
    assert_int_equal(i - 2, (spares + i) / 16);
    assert_int_equal(count_put(s), i + 1);
}

/* The last step has put no text, and has one note, of this kind and node. */
static void is_noted(const struct scene *s, enum note_kind kind, size_t i)
{
    assert_int_equal(scene_count(s, POLICY_PUT), 0);
    assert_int_equal(scene_count(s, POLICY_NOTE), 1);
    assert_non_null(scene_note(s, kind));
    assert_int_equal(scene_note(s, kind)->node[0], scene_name(i)[0]);
}

static void a_join_is_noted_before_its_text(void **state)
{
    struct scene *s = *state;

    b_joins(s, 3);
    is_noted(s, NOTE_NODE_JOINED, 1);
    assert_null(join(s, 2));
    is_noted(s, NOTE_NODE_JOINED, 2);
    assert_int_equal(s->run.view.participants, 3);
    assert_true(s->run.view.before.is_part);
}

static void a_node_that_waits_or_leaves_is_noted_before_its_text(void **state)
{
    struct scene *s = *state;
    struct agent *d;
    const char *seen;

    scene_meet(s, 3);
    s->settings.late_text = 1;
    d = scene_connect(s, true);
    scene_cas(s, d, "", SENTINEL);
    seen = scene_poll(s, d);
    s->has_long_polls = true;
    assert_null(scene_cas(s, d, seen, scene_waiting(s, seen, "d")));
    is_noted(s, NOTE_NODE_JOINED, 3);
    assert_int_equal(s->run.view.waiting, 4); /* the fourth node */
    for (size_t i = 0; i < 3; i++)
        scene_poll(s, &s->agents[i]);
    scene_leave(s, 0);
    is_noted(s, NOTE_NODE_LEFT, 0);
    assert_int_equal(s->run.view.waiting, 3);
    assert_int_equal(s->run.view.participants, 2);
    assert_int_equal(s->run.view.state.count, 3);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_participants(s), 2);
}

static void a_complete_round_has_all_joins(void **state)
{
    struct scene *s = *state;
    const char *seen;

    b_joins(s, 3);
    seen = scene_poll(s, &s->agents[2]);
    assert_non_null(scene_cas(s, &s->agents[2], seen, scene_completed(s, seen, "c")));
    b_is_answered(s, 3);
    assert_true(s->run.view.state.complete);
}

static void a_reader_sees_all_joins(void **state)
{
    struct scene *s = *state;

    b_joins(s, 2);
    scene_event(s, RUN_READ, NULL);
    b_is_answered(s, 2);
}

static void after_a_start_a_join_without_an_answer_is_repeated(void **state)
{
    struct scene *s = *state;
    const char *seen;
    struct agent *b;

    b_joins(s, 2);
    scene_restart(s, true);
    assert_int_equal(s->run.view.participants, 1);
    b = scene_return(s, &s->agents[1]);
    seen = scene_cas(s, b, SENTINEL, scene_joined(s, SENTINEL, "b"));
    assert_non_null(scene_cas(s, b, seen, scene_joined(s, seen, "b")));
    assert_int_equal(count_put(s), 2);
}

static void the_text_of_a_tool_ends_the_wait(void **state)
{
    struct scene *s = *state;

    b_joins(s, 2);
    scene_change(s, scene_copy(scene_get(s, "")));
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[1]));
    assert_int_equal(s->run.view.participants, 1);
}

static void without_room_for_the_text_a_join_is_undone(void **state)
{
    struct scene *s = *state;

    b_joins(s, 2);
    s->room = 0;
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_PUT), 0);
    assert_true(s->run.view.unread);
    scene_event(s, RUN_CHANGED, NULL); /* as the daemon does it then */
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[1]));
    assert_int_equal(s->run.view.participants, 1);
}

static void without_much_room_a_join_has_its_text_at_once(void **state)
{
    struct scene *s = *state;

    begin(s, 2);
    s->room = 100000;
    assert_non_null(join(s, 1));
    assert_int_equal(count_put(s), 2);
}

static void after_the_text_of_a_tool_a_join_has_its_text_at_once(void **state)
{
    struct scene *s = *state;

    begin(s, 2);
    scene_change(s, scene_terse(s, 2));
    assert_non_null(join(s, 1));
    assert_int_equal(scene_count(s, POLICY_PUT), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(losses_after_the_first_one_have_one_text),
        TEST(a_join_is_answered_with_the_next_tick),
        TEST(so_many_joins_have_one_text),
        TEST(in_a_larger_round_more_joins_have_one_text),
        TEST(a_join_is_noted_before_its_text),
        TEST(a_node_that_waits_or_leaves_is_noted_before_its_text),
        TEST(a_complete_round_has_all_joins),
        TEST(a_reader_sees_all_joins),
        TEST(after_a_start_a_join_without_an_answer_is_repeated),
        TEST(the_text_of_a_tool_ends_the_wait),
        TEST(without_room_for_the_text_a_join_is_undone),
        TEST(without_much_room_a_join_has_its_text_at_once),
        TEST(after_the_text_of_a_tool_a_join_has_its_text_at_once),
    };

    return cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
