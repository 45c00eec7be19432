/* What is noted of the changes of a run: who joined, left, was presumed dead, and why. */
#include "tests/unit/rendezvous/scene.h"

static const char *value_now(struct scene *s)
{
    struct torch_state st = scene_state_now(s);

    return scene_text(s, &st);
}

/* Agent `i` writes what `change` makes of the state, with its own heartbeat. */
static void write_state(struct scene *s, size_t i,
                        void (*change)(struct scene *, struct torch_state *))
{
    const char *now = value_now(s);
    struct torch_state st = scene_state(now);

    change(s, &st);
    scene_cas(s, &s->agents[i], now, scene_text(s, &st));
}

static void a_starts(struct scene *s, struct torch_state *st)
{
    scene_beat(st, "a", scene_now_us(s));
    scene_node(st, "a")->participant = true;
}
static void b_makes_a_last_call(struct scene *s, struct torch_state *st)
{
    scene_beat(st, "b", scene_now_us(s));
    scene_node(st, "b")->participant = true;
    st->has_deadline = true;
    st->deadline_us = scene_now_us(s) + 30 * SECOND;
}
static void a_completes(struct scene *s, struct torch_state *st)
{
    scene_beat(st, "a", scene_now_us(s) + 1);
    scene_complete(st);
}
static void c_waits(struct scene *s, struct torch_state *st)
{
    scene_beat(st, "c", scene_now_us(s));
    scene_node(st, "c")->waiting = true;
}
static void b_leaves(struct scene *s, struct torch_state *st)
{
    (void)s;
    scene_remove(st, "b");
}
static void b_is_presumed_dead(struct scene *s, struct torch_state *st)
{
    scene_beat(st, "a", scene_now_us(s));
    scene_remove(st, "b");
}
static void a_closes(struct scene *s, struct torch_state *st)
{
    (void)s;
    st->closed = true;
}

static void begin(struct scene *s)
{
    for (size_t i = 0; i < 3; i++)
        scene_cas(s, scene_connect(s, true), "", SENTINEL);
    scene_cas(s, &s->agents[0], SENTINEL, scene_joined(s, SENTINEL, "a"));
}

static void a_run_from_its_start_to_its_close(void **state)
{
    struct scene *s = *state;
    const struct note *note;

    (void)a_starts;
    begin(s);
    assert_non_null(scene_note(s, NOTE_RUN_STARTED));
    note = scene_note(s, NOTE_NODE_JOINED);
    assert_string_equal(note->node, "a/100/0");
    assert_string_equal(note->role, "participant");
    assert_string_equal(note->previous, "none");
    assert_ptr_equal(note->agent, &s->agents[0]);

    write_state(s, 1, b_makes_a_last_call);
    assert_int_equal(scene_note(s, NOTE_LAST_CALL)->number, 2);
    assert_int_equal(scene_note(s, NOTE_LAST_CALL)->ms, 30000);
    assert_null(scene_note(s, NOTE_RUN_STARTED));

    write_state(s, 0, a_completes);
    assert_int_equal(scene_note(s, NOTE_ROUND_COMPLETE)->number, 2);
    assert_string_equal(scene_note(s, NOTE_ROUND_COMPLETE)->text, "0=a/100/0 1=b/100/0");
    assert_null(scene_note(s, NOTE_NODE_JOINED));

    write_state(s, 2, c_waits);
    assert_string_equal(scene_note(s, NOTE_NODE_JOINED)->role, "waiting");

    write_state(s, 1, b_leaves);
    note = scene_note(s, NOTE_NODE_LEFT);
    assert_string_equal(note->node, "b/100/0");
    assert_string_equal(note->reason, "by itself");

    write_state(s, 0, a_closes);
    assert_string_equal(scene_note(s, NOTE_RUN_ENDED)->by_node, "a/100/0");
}

static void a_node_that_is_gone(void **state)
{
    struct scene *s = *state;
    const struct note *note;

    begin(s);
    s->settings.drop_disconnected = false;
    write_state(s, 1, b_makes_a_last_call);
    write_state(s, 0, a_completes);
    scene_disconnect(s, &s->agents[1]);
    note = scene_note(s, NOTE_NODE_DISCONNECTED);
    assert_string_equal(note->node, "b/100/0");
    assert_string_equal(note->previous, "participant");
    assert_int_equal(s->out.counters.nodes_disconnected, 1);

    scene_pass(s, 11000);
    write_state(s, 0, b_is_presumed_dead);
    note = scene_note(s, NOTE_NODE_PRESUMED_DEAD);
    assert_null(note->agent);
    assert_int_equal(note->ms, 11000);
    assert_string_equal(note->by_node, "a/100/0");
}

/* The same name and pid, and its first step is to leave. */
static void a_container_that_is_started_again(void **state)
{
    struct scene *s = *state;

    begin(s);
    s->settings.drop_disconnected = false;
    write_state(s, 1, b_makes_a_last_call);
    write_state(s, 0, a_completes);
    scene_disconnect(s, &s->agents[1]);
    scene_connect(s, true);
    write_state(s, 3, b_leaves);
    assert_string_equal(scene_note(s, NOTE_NODE_REPLACED)->node, "b/100/0");
}

/* Of two connections of one node the later counts, and the end of either harms nothing. */
static void a_node_with_two_connections(void **state)
{
    struct scene *s = *state;

    begin(s);
    scene_pass(s, 1000);
    scene_connect(s, true);
    write_state(s, 3, a_starts);
    assert_ptr_equal(run_agent_of(&s->run, &s->agents[0].node), &s->agents[3]);
    scene_disconnect(s, &s->agents[0]);
    assert_ptr_equal(run_agent_of(&s->run, &s->agents[3].node), &s->agents[3]);
    scene_disconnect(s, &s->agents[3]);
}

static void no_node_is_missed_when_rdzvd_ends(void **state)
{
    struct scene *s = *state;

    begin(s);
    scene_step(s, (struct policy_event){
                      .kind = AGENT_DISCONNECTED, .agent = &s->agents[0], .daemon_drains = true});
    s->agents[0].local_port = 0;
    assert_null(scene_note(s, NOTE_NODE_DISCONNECTED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_from_its_start_to_its_close), TEST(a_node_that_is_gone),
        TEST(a_container_that_is_started_again), TEST(a_node_with_two_connections),
        TEST(no_node_is_missed_when_rdzvd_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
