/* Heartbeats of agents that are connected, and cannot or do not send any. */
#include "tests/unit/rendezvous/scene.h"

static int64_t age_us(const struct scene *s, const char *name)
{
    struct torch_state st = scene_state_now(s);
    int64_t at_us = scene_node(&st, name)->heartbeat_us;

    torch_state_free(&st);
    return scene_now_us(s) - at_us;
}

static void tick(struct scene *s, uint64_t ms)
{
    scene_pass(s, ms);
    scene_event(s, RUN_TICK, NULL);
}

/* It waits for the ranks of its round. */
static void who_waits_for_a_key_lives(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_step(&s,
               (struct policy_event){.kind = AGENT_ASKED, .agent = &s.agents[0], .waits = true});
    tick(&s, 6000);
    assert_int_equal(age_us(&s, "a"), 6 * SECOND);
    tick(&s, 6000);
    assert_int_equal(age_us(&s, "a"), 0);
    assert_int_equal(age_us(&s, "b"), 12 * SECOND);
    tick(&s, 40000);
    assert_int_equal(age_us(&s, "a"), 0);
    tick(&s, 20000); /* torch waits for no reply for longer than a minute */
    assert_int_equal(age_us(&s, "a"), 20 * SECOND);
    scene_fini(&s);
}

/* Its relay is away: whether it lives cannot be known, and it is not disconnected. */
static void who_is_away_is_silent(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_step(&s,
               (struct policy_event){.kind = AGENT_ASKED, .agent = &s.agents[0], .waits = true});
    tick(&s, 9000);
    assert_int_equal(age_us(&s, "a"), 0);
    scene_event(&s, AGENT_AWAY, &s.agents[0]);
    tick(&s, 9000);
    assert_int_equal(age_us(&s, "a"), 9 * SECOND);
    assert_int_equal(scene_participants(&s), 2);
    scene_event(&s, AGENT_BACK, &s.agents[0]);
    tick(&s, 9000);
    assert_int_equal(age_us(&s, "a"), 0); /* it waits for the same again */
    scene_event(&s, AGENT_ASKED, &s.agents[0]);
    scene_event(&s, AGENT_AWAY, &s.agents[0]);
    scene_event(&s, AGENT_BACK, &s.agents[0]);
    tick(&s, 9000);
    assert_int_equal(age_us(&s, "a"), 9 * SECOND);
    scene_fini(&s);
}

/* The write slot and a place in its queue are for those who can write. */
static void who_is_away_holds_up_no_other(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    scene_cas(&s, &s.agents[0], "x", "y"); /* holds the slot */
    assert_null(scene_cas(&s, &s.agents[1], "x", "y"));
    assert_null(scene_cas(&s, &s.agents[2], "x", "y"));
    scene_event(&s, AGENT_AWAY, &s.agents[1]);
    assert_false(s.agents[1].queued);
    scene_event(&s, AGENT_AWAY, &s.agents[0]);
    assert_true(scene_has(&s, POLICY_RESUME, &s.agents[2]));
    scene_fini(&s);
}

/* When it was heard of last, it lived: a frozen agent is as old as that. */
static void who_asks_lived_then(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 1);
    scene_pass(&s, 7000);
    scene_event(&s, AGENT_ASKED, &s.agents[0]);
    tick(&s, 3000);
    assert_int_equal(age_us(&s, "a"), 3 * SECOND);
    tick(&s, 8000);
    assert_int_equal(age_us(&s, "a"), 11 * SECOND);
    scene_fini(&s);
}

static void who_is_queued_lives(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    scene_cas(&s, &s.agents[0], "x", "y"); /* holds the slot */
    assert_null(scene_cas(&s, &s.agents[1], "x", "y"));
    assert_true(s.agents[1].queued);
    scene_pass(&s, 8000);
    s.run.slot.deadline_ms = s.now.ms + 1000;
    scene_event(&s, RUN_TICK, NULL);
    assert_int_equal(age_us(&s, "b"), 0);
    assert_int_equal(age_us(&s, "c"), 8 * SECOND);
    scene_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_for_a_key_lives),     cmocka_unit_test(who_is_away_is_silent),
        cmocka_unit_test(who_is_away_holds_up_no_other), cmocka_unit_test(who_asks_lived_then),
        cmocka_unit_test(who_is_queued_lives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
