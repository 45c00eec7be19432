/* More nodes wait than a complete round has room for: they become spares. */
#include "tests/unit/rendezvous/scene.h"

static void wait_in_line(struct scene *s, size_t i)
{
    const char *now = scene_get(s, "");

    scene_cas(s, &s->agents[i], now, scene_waiting(s, now, scene_name(i)));
}

/* A third one comes to a round of two, which is MAX, while the workers of "a" have failed: "a",
 * too, waits, and MAX is not known. "b" begins the next round. */
static void begin_again(struct scene *s)
{
    scene_meet(s, 2);
    s->run.max_nodes = 0;
    scene_cas(s, scene_connect(s, true), "", SENTINEL);
    scene_leave(s, 0);
    wait_in_line(s, 2);
    wait_in_line(s, 0);
    scene_leave(s, 1);
    scene_join(s, 1);
    assert_int_equal(scene_waiting_nodes(s), 2);
}

/* "c" joins as the last of MAX. Returns what it is answered. */
static const char *complete(struct scene *s)
{
    const char *now = scene_get(s, "");
    struct torch_state st = scene_state(scene_completed(s, now, "c"));

    scene_node(&st, "c")->waiting = false;
    return scene_cas(s, &s->agents[2], now, scene_text(s, &st));
}

static size_t waiting_in(const char *text)
{
    struct torch_state st = scene_state(text);
    size_t waiting = 0;

    for (size_t i = 0; i < st.count; i++)
        waiting += st.nodes[i].waiting;
    torch_state_free(&st);
    return waiting;
}

static void a_node_beyond_max_is_a_spare(void **state)
{
    struct scene *s = *state;
    const struct note *note;

    begin_again(s);
    assert_int_equal(waiting_in(complete(s)), 0);
    assert_true(s->run.view.state.complete && s->run.fill != FILL_BELOW_MAX);
    assert_int_equal(scene_participants(s), 2);
    assert_int_equal(scene_waiting_nodes(s), 0);
    assert_true(scene_node_now(s, "a").redundant && scene_node_now(s, "a").has_heartbeat);
    note = scene_note(s, NOTE_NODE_JOINED); /* the first: "c" has joined as well */
    assert_non_null(note);
    assert_string_equal(note->role, "spare");
    assert_string_equal(note->previous, "waiting");
    assert_ptr_equal(note->agent, &s->agents[0]);
}

/* Neither "b", which reads the round at its completion, nor "c", which completed it, sees the spare
 * wait. The spare itself may still train: so it always sees that a node waits. */
static void no_participant_sees_one_wait(void **state)
{
    struct scene *s = *state;

    begin_again(s);
    complete(s);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(waiting_in(scene_poll(s, &s->agents[i])), i == 0);
        scene_pass(s, 1100);
        assert_int_equal(waiting_in(scene_poll(s, &s->agents[i])), i == 0);
    }
}

/* The round has a place: the spare leaves its list, and waits, as torch does it. */
static void a_spare_is_let_in_when_a_node_is_lost(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    begin_again(s);
    complete(s);
    scene_disconnect(s, &s->agents[2]);
    st = scene_state(scene_poll(s, &s->agents[0]));
    assert_true(scene_node(&st, "a")->redundant);
    assert_int_equal(torch_state_participants(&st), 1);
    torch_state_free(&st);
    scene_leave(s, 0);
    wait_in_line(s, 0);
    scene_leave(s, 1);
    scene_join(s, 1);
    assert_true(s->run.view.state.complete);
    assert_true(scene_node_now(s, "a").participant);
}

/* The round has room for the waiting nodes: they must be admitted. */
static void nobody_is_a_spare_of_a_round_that_has_room(void **state)
{
    struct scene *s = *state;
    struct torch_state st;
    const char *now;

    begin_again(s);
    now = scene_get(s, "");
    st = scene_state(now);
    scene_complete(&st); /* its last call is over */
    scene_cas(s, &s->agents[1], now, scene_text(s, &st));
    assert_true(s->run.view.state.complete && s->run.fill == FILL_BELOW_MAX);
    assert_int_equal(scene_waiting_nodes(s), 2);
}

/* Its agent does not know that it waits, and may train: it has to learn that. */
static void a_node_that_was_put_back_is_no_spare(void **state)
{
    struct scene *s = *state;

    begin_again(s);
    s->agents[0].line = LINE_PUT; /* as repair.c leaves it */
    complete(s);
    assert_true(scene_node_now(s, "a").waiting);
}

/* After a start rdzvd does not know which nodes wait by their own choice. */
static void after_a_start_too_who_is_left_over_is_a_spare(void **state)
{
    struct scene *s = *state;
    const char *now;
    struct torch_state st;

    begin_again(s);
    scene_restart(s, true);
    s->run.max_nodes = 0;
    for (size_t i = 0; i < 3; i++)
        scene_return(s, &s->agents[i]);
    scene_event(s, RUN_RETURNED, NULL);
    now = scene_get(s, "");
    st = scene_state(scene_completed(s, now, "c"));
    scene_node(&st, "c")->waiting = false;
    scene_cas(s, &s->agents[5], now, scene_text(s, &st));
    assert_true(s->run.view.state.complete);
    assert_int_equal(scene_waiting_nodes(s), 0);
    assert_true(scene_node_now(s, "a").redundant);
}

/* Before torch 2.3: no list names a spare, and its agent asks again when there is a place. */
static void older_agents_get_no_list_that_they_do_not_know(void **state)
{
    struct scene *s = *state;
    struct torch_state st;

    begin_again(s);
    st = scene_state_now(s);
    st.has_redundancy = false;
    scene_put_state(s, &st);
    assert_int_equal(waiting_in(complete(s)), 0);
    assert_false(s->run.view.state.has_redundancy);
    assert_int_equal(scene_participants(s), 2);
    assert_false(scene_names(scene_get(s, ""), "a"));
    assert_string_equal(scene_note(s, NOTE_NODE_LEFT)->node, "a/100/0");
    assert_false(scene_names(scene_poll(s, &s->agents[0]), "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_node_beyond_max_is_a_spare),
        TEST(no_participant_sees_one_wait),
        TEST(a_spare_is_let_in_when_a_node_is_lost),
        TEST(nobody_is_a_spare_of_a_round_that_has_room),
        TEST(a_node_that_was_put_back_is_no_spare),
        TEST(after_a_start_too_who_is_left_over_is_a_spare),
        TEST(older_agents_get_no_list_that_they_do_not_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
