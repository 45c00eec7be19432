/* A node whose connection stands while nothing comes from it; --silent-node-timeout. */
#include "tests/unit/rendezvous/scene.h"

/* The network of one is gone: nothing ends its connection. */
static void a_silent_node_is_lost_after_a_while(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    for (int i = 0; i < 59; i++) {
        scene_pass(s, 1000);
        scene_event(s, AGENT_POLLED, &s->agents[0]);
        scene_event(s, RUN_TICK, NULL);
        assert_int_equal(scene_waiting_nodes(s), 0);
    }
    for (int i = 0; i < 4; i++) {
        scene_pass(s, 1000);
        scene_event(s, AGENT_POLLED, &s->agents[0]);
        scene_event(s, RUN_TICK, NULL);
    }
    assert_int_equal(scene_waiting_nodes(s), 1);
}

/* So many seconds in which only those of agents[] before `silent` poll. */
static void pass_silent(struct scene *s, int seconds, size_t silent)
{
    for (int i = 0; i < seconds; i++) {
        scene_pass(s, 1000);
        for (size_t k = 0; k < silent; k++)
            scene_event(s, AGENT_POLLED, &s->agents[k]);
        scene_event(s, RUN_TICK, NULL);
    }
}

static void a_silent_node_is_taken_out(void **state)
{
    struct scene *s = *state;
    const struct note *note;

    s->settings.silent_node_ms = 8000;
    scene_meet(s, 3);
    pass_silent(s, 7, 2);
    assert_int_equal(scene_participants(s), 3);
    pass_silent(s, 1, 2);
    assert_int_equal(scene_participants(s), 2);
    assert_int_equal(scene_waiting_nodes(s), 1);
    note = scene_note(s, NOTE_NODE_SILENT);
    assert_ptr_equal(note->agent, &s->agents[2]);
    assert_string_equal(note->previous, "participant");
    assert_int_equal(note->ms, 8000);
    assert_int_equal(s->out.counters.nodes_silent, 1);
    assert_non_null(scene_note(s, NOTE_NODES_RESTARTED));
    pass_silent(s, 10, 2);
    assert_null(scene_note(s, NOTE_NODE_SILENT)); /* once */
    scene_renew(s);

    scene_meet(s, 2);
    pass_silent(s, 30, 1); /* torch's agents see to it, so the state stays */
    assert_int_equal(scene_participants(s), 2);
}

/* --restart-on-loss says whether the others are told. */
static void the_others_of_a_silent_node_are_told_by_that_setting(void **state)
{
    struct scene *s = *state;
    static const enum restart_on_loss settings[] = {RESTART_NEVER, RESTART_WHEN_CLOSED};

    for (size_t i = 0; i < COUNT(settings); i++) {
        s->settings.silent_node_ms = 6000;
        s->settings.restart_on_loss = settings[i];
        scene_meet(s, 2);
        pass_silent(s, 6, 1);
        assert_int_equal(scene_participants(s), 1);
        assert_int_equal(scene_waiting_nodes(s), 0);
        scene_renew(s);
    }
}

/* It slept, its connection stands: it asks again, and is put back. */
static void a_node_that_only_slept_is_put_back(void **state)
{
    struct scene *s = *state;
    const struct torch_node *node;

    s->settings.silent_node_ms = 8000;
    scene_meet(s, 2);
    pass_silent(s, 9, 1);
    assert_int_equal(scene_participants(s), 1);
    scene_event(s, AGENT_POLLED, &s->agents[1]);
    assert_int_equal(scene_participants(s), 2); /* the round still exists */
    assert_int_equal(scene_waiting_nodes(s),
                     0); /* no agent has seen the mark, and none has to meet */
    node = torch_state_find(&s->run.view.state, &s->agents[1].node);
    assert_true(node->participant);
    assert_int_equal(node->rank, 1);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_participants(s), 2);
    scene_renew(s);

    s->settings.silent_node_ms = 8000;
    scene_meet(s, 2);
    pass_silent(s, 9, 1);
    scene_leave(s, 0); /* the other one has begun the next round */
    scene_event(s, AGENT_POLLED, &s->agents[1]);
    node = torch_state_find(&s->run.view.state, &s->agents[1].node);
    assert_true(node->waiting); /* so it ends its workers, and joins */
}

/* It slept while the others exchanged the ranks of their workers: a placeholder may stand for its
 * key, so its round must end although it is back. */
static void a_node_that_slept_before_its_ranks_ends_its_round(void **state)
{
    struct scene *s = *state;

    s->settings.silent_node_ms = 8000;
    scene_meet(s, 2);
    s->run.shares_roles = true;
    s->agents[0].workers_round = ROUND_NONE;
    pass_silent(s, 9, 1);
    scene_event(s, AGENT_POLLED, &s->agents[1]);
    assert_int_equal(scene_participants(s), 2);
    assert_int_equal(scene_waiting_nodes(s), 1);
}

/* The only node of a job: nobody else would find out. */
static void the_only_node_may_be_silent_too(void **state)
{
    struct scene *s = *state;

    s->settings.silent_node_ms = 8000;
    scene_meet(s, 1);
    pass_silent(s, 8, 0);
    assert_int_equal(scene_participants(s), 0);
    assert_int_equal(s->run.view.state.round, 1);
    assert_null(scene_note(s, NOTE_NODES_RESTARTED));
    scene_event(s, AGENT_POLLED, &s->agents[0]);
    assert_int_equal(scene_waiting_nodes(s), 1);
}

static void an_agent_that_waits_for_a_key_is_not_silent(void **state)
{
    struct scene *s = *state;

    s->settings.silent_node_ms = 6000;
    scene_meet(s, 2);
    scene_step(s,
               (struct policy_event){.kind = AGENT_ASKED, .agent = &s->agents[1], .waits = true});
    pass_silent(s, 59, 1);
    assert_int_equal(scene_participants(s), 2);
    pass_silent(s, 1, 1); /* torch waits for no reply for longer than a minute */
    assert_int_equal(scene_participants(s), 1);
}

static void an_agent_at_the_exit_barrier_is_not_silent(void **state)
{
    struct scene *s = *state;

    s->settings.silent_node_ms = 6000;
    scene_meet(s, 2);
    scene_step(s, (struct policy_event){
                      .kind = AGENT_ADD_ROUND_KEY,
                      .agent = &s->agents[1],
                      .round = 0,
                      .round_key = slice_str("torchelastic/agent/terminal_state/num_members")});
    scene_step(s,
               (struct policy_event){.kind = AGENT_ASKED, .agent = &s->agents[1], .waits = true});
    pass_silent(s, 120, 1);
    assert_int_equal(scene_participants(s), 2);
}

/* Nothing can come of anybody while rdzvd itself stands still. */
static void nobody_was_silent_while_rdzvd_stood_still(void **state)
{
    struct scene *s = *state;

    s->settings.silent_node_ms = 8000;
    scene_meet(s, 2);
    pass_silent(s, 3, 1);
    scene_stand_still(s, 20000);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_participants(s), 2);
    pass_silent(s, 4, 1);
    assert_int_equal(scene_participants(s), 2);
    pass_silent(s, 1, 1); /* 3 s before, 5 s since */
    assert_int_equal(scene_participants(s), 1);
}

/* Longer than torch's 15 s. */
static void a_silent_node_may_be_given_longer(void **state)
{
    struct scene *s = *state;

    s->settings.silent_node_ms = 90000;
    scene_meet(s, 2);
    for (int i = 0; i < 89; i++) {
        const struct torch_node *node;

        pass_silent(s, 1, 1);
        node = torch_state_find(&s->run.view.state, &s->agents[1].node);
        assert_true(node->participant);
    }
    pass_silent(s, 1, 1);
    assert_int_equal(scene_participants(s), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_silent_node_is_lost_after_a_while),
        TEST(a_silent_node_is_taken_out),
        TEST(the_others_of_a_silent_node_are_told_by_that_setting),
        TEST(a_node_that_only_slept_is_put_back),
        TEST(a_node_that_slept_before_its_ranks_ends_its_round),
        TEST(the_only_node_may_be_silent_too),
        TEST(an_agent_that_waits_for_a_key_is_not_silent),
        TEST(an_agent_at_the_exit_barrier_is_not_silent),
        TEST(nobody_was_silent_while_rdzvd_stood_still),
        TEST(a_silent_node_may_be_given_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
