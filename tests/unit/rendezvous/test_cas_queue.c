/* Who may write the state: one agent after the other, and for how long. */
#include "tests/unit/rendezvous/scene.h"

#define HOLD_MS 250 /* as long as an agent holds the slot before any has been quick */

/* Agents who have all seen the state before the newest: their next write must fail. */
static void stale_agents(struct scene *s, size_t count)
{
    scene_init(s);
    for (size_t i = 0; i <= count; i++)
        scene_cas(s, scene_connect(s, true), "", SENTINEL);
    scene_cas(s, &s->agents[count], SENTINEL, scene_joined(s, SENTINEL, "first"));
}

static const char *stale_join(struct scene *s, size_t i)
{
    return scene_cas(s, &s->agents[i], SENTINEL, scene_joined(s, SENTINEL, scene_name(i)));
}

/* The first holds the slot, and the others are queued. */
static const char *queue_up(struct scene *s, size_t count)
{
    const char *seen;

    stale_agents(s, count);
    seen = stale_join(s, 0);
    assert_ptr_equal(s->run.slot.holder, &s->agents[0]);
    assert_int_equal(scene_output(s, POLICY_TIMER)->deadline_ms, s->now.ms + HOLD_MS);
    for (size_t i = 1; i < count; i++) {
        assert_null(stale_join(s, i));
        assert_true(scene_has(s, POLICY_HOLD, &s->agents[i]));
    }
    return seen;
}

static void each_of_many_writers_takes_two_attempts(void **state)
{
    enum { AGENTS = 8 };
    const char *seen;
    struct scene s;

    (void)state;
    seen = queue_up(&s, AGENTS);
    for (size_t i = 0; i < AGENTS; i++) {
        scene_cas(&s, &s.agents[i], seen, scene_joined(&s, seen, scene_name(i)));
        assert_int_equal(s.run.view.state.count, i + 2);
        if (i + 1 == AGENTS)
            break;
        assert_true(scene_has(&s, POLICY_RESUME, &s.agents[i + 1]));
        seen = stale_join(&s, i + 1); /* shown again: the first attempt, which fails */
        assert_true(scene_names(seen, scene_name(i)));
    }
    assert_null(s.run.slot.holder);
    assert_int_equal(s.run.slot.deadline_ms, 0);
    assert_int_equal(s.run.view.state.count, AGENTS + 1);
    scene_fini(&s);
}

static void the_slot_passes(void **state, void (*end)(struct scene *))
{
    struct scene s;

    (void)state;
    queue_up(&s, 3);
    end(&s);
    assert_ptr_equal(s.run.slot.holder, &s.agents[1]);
    assert_int_equal(scene_count(&s, POLICY_RESUME), 1);
    assert_true(scene_has(&s, POLICY_RESUME, &s.agents[1]));
    assert_true(s.run.slot.deadline_ms > s.now.ms);
    assert_true(s.agents[2].queued && !s.agents[1].queued);
    scene_fini(&s);
}

static void holder_dies(struct scene *s)
{
    scene_disconnect(s, &s->agents[0]);
}
static void holder_looks(struct scene *s)
{
    scene_event(s, AGENT_LOOKED, &s->agents[0]);
}
static void holder_asks(struct scene *s)
{
    scene_event(s, AGENT_ASKED, &s->agents[0]);
}
static void holder_stalls(struct scene *s)
{
    scene_pass(s, HOLD_MS);
    scene_event(s, RUN_TIMER, NULL);
}
static void holder_stalls_without_a_timer(struct scene *s)
{
    scene_pass(s, HOLD_MS);
    scene_event(s, RUN_TICK, NULL);
}
static void holder_sets(struct scene *s)
{
    scene_set(s, &s->agents[0], 0, "MASTER_ADDR", "x");
}

static void a_holder_that_dies_passes_the_slot(void **state)
{
    the_slot_passes(state, holder_dies);
}
static void a_holder_that_looks_passes_the_slot(void **state)
{
    the_slot_passes(state, holder_looks);
}
static void a_holder_that_asks_passes_the_slot(void **state)
{
    the_slot_passes(state, holder_asks);
}
static void a_holder_that_stalls_loses_the_slot(void **state)
{
    the_slot_passes(state, holder_stalls);
}
static void a_tick_passes_a_slot_whose_timer_could_not_be_set(void **state)
{
    the_slot_passes(state, holder_stalls_without_a_timer);
}
static void a_holder_that_sets_passes_the_slot(void **state)
{
    the_slot_passes(state, holder_sets);
}

static void a_timer_that_comes_early_is_set_again(void **state)
{
    struct scene s;

    (void)state;
    queue_up(&s, 2);
    scene_pass(&s, HOLD_MS - 1);
    scene_event(&s, RUN_TIMER, NULL);
    assert_int_equal(s.out.count, 1);
    assert_int_equal(scene_output(&s, POLICY_TIMER)->deadline_ms, s.now.ms + 1);
    scene_fini(&s);
}

static void quick_agents_make_the_time_short(void **state)
{
    struct scene s;

    (void)state;
    stale_agents(&s, 1);
    for (int i = 0; i < 40; i++) {
        stale_join(&s, 0);
        scene_event(&s, AGENT_LOOKED, &s.agents[0]);
    }
    stale_join(&s, 0);
    assert_int_equal(s.run.slot.deadline_ms, s.now.ms + 20);
    for (int i = 0; i < 40; i++) {
        scene_pass(&s, 1000);
        scene_event(&s, RUN_TIMER, NULL);
        stale_join(&s, 0);
    }
    assert_int_equal(s.run.slot.deadline_ms, s.now.ms + 1000); /* and slow ones long */
    scene_fini(&s);
}

static void an_agent_that_is_queued_may_leave(void **state)
{
    struct scene s;

    (void)state;
    queue_up(&s, 4);
    scene_disconnect(&s, &s.agents[1]);
    scene_disconnect(&s, &s.agents[3]);
    scene_event(&s, AGENT_LOOKED, &s.agents[0]);
    assert_ptr_equal(s.run.slot.holder, &s.agents[2]);
    scene_fini(&s);
}

static void the_one_that_makes_the_key_is_not_queued(void **state)
{
    struct scene s;

    (void)state;
    queue_up(&s, 2);
    assert_string_equal(scene_cas(&s, scene_connect(&s, true), "", SENTINEL), scene_get(&s, ""));
    assert_ptr_equal(s.run.slot.holder, &s.agents[0]);
    scene_fini(&s);
}

static void of_a_closed_run_no_agent_is_queued(void **state)
{
    struct torch_state st;
    struct scene s;
    const char *seen, *closed;

    (void)state;
    seen = queue_up(&s, 4);
    s.settings.close_from_members = false; /* they are still joining */
    st = scene_state(seen);
    st.closed = true;
    closed = scene_text(&s, &st);
    assert_string_equal(scene_cas(&s, &s.agents[0], seen, closed), closed);
    assert_int_equal(scene_count(&s, POLICY_RESUME), 3);
    assert_null(s.run.slot.holder);
    for (size_t i = 1; i < 4; i++) {
        assert_string_equal(stale_join(&s, i), closed);
        assert_null(s.run.slot.holder);
    }
    scene_fini(&s);
}

/* And it does not spoil the write of the holder. */
static void a_heartbeat_is_not_queued(void **state)
{
    struct scene s;
    const char *seen, *now, *answer;

    (void)state;
    seen = queue_up(&s, 2);
    scene_pass(&s, 10);
    now = scene_get(&s, "");
    assert_non_null(scene_cas(&s, &s.agents[2], now, scene_beating(&s, now, "first")));
    assert_ptr_equal(s.run.slot.holder, &s.agents[0]);
    answer = scene_cas(&s, &s.agents[0], seen, scene_joined(&s, seen, "a"));
    assert_string_equal(answer, scene_get(&s, ""));
    assert_int_equal(s.run.view.state.count, 2);
    assert_int_equal(s.run.view.state.nodes[1].heartbeat_us, scene_now_us(&s));
    assert_true(scene_has(&s, POLICY_RESUME, &s.agents[1]));
    scene_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_many_writers_takes_two_attempts),
        cmocka_unit_test(a_holder_that_dies_passes_the_slot),
        cmocka_unit_test(a_holder_that_looks_passes_the_slot),
        cmocka_unit_test(a_holder_that_asks_passes_the_slot),
        cmocka_unit_test(a_holder_that_stalls_loses_the_slot),
        cmocka_unit_test(a_holder_that_sets_passes_the_slot),
        cmocka_unit_test(a_tick_passes_a_slot_whose_timer_could_not_be_set),
        cmocka_unit_test(a_timer_that_comes_early_is_set_again),
        cmocka_unit_test(quick_agents_make_the_time_short),
        cmocka_unit_test(an_agent_that_is_queued_may_leave),
        cmocka_unit_test(the_one_that_makes_the_key_is_not_queued),
        cmocka_unit_test(of_a_closed_run_no_agent_is_queued),
        cmocka_unit_test(a_heartbeat_is_not_queued),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
