/* Which nodes live: presence.c. */
#include "rdzv/rendezvous/policy_internal.h"
#include "tests/unit/rendezvous/scene.h"

static bool is_lost(struct scene *s, const char *name)
{
    const struct step step = {.run = &s->run, .now = &s->now};
    const struct torch_node who = {.addr = slice_str(name), .pid = 100};
    const struct torch_node *node = torch_state_find(&s->run.view.state, &who);

    assert_non_null(node);
    return presence_is_lost(&step, node, 0);
}

static void ask(struct scene *s, struct agent *a, bool waits)
{
    scene_step(s, (struct policy_event){.kind = AGENT_ASKED, .agent = a, .waits = waits});
}

static void one_that_is_silent_is_lost_after_15_s(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_pass(s, 4000);
    ask(s, &s->agents[0], false);
    scene_pass(s, 4000);
    ask(s, &s->agents[0], false);
    scene_pass(s, 7000);
    assert_false(is_lost(s, "a"));
    assert_true(is_lost(s, "b"));
    scene_pass(s, 8000);
    assert_true(is_lost(s, "a"));
}

/* keep_alive_interval is 10 s: torch's agents take it for dead after 30. */
static void one_that_asks_seldom_is_lost_later(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 1);
    scene_pass(s, 10000);
    ask(s, &s->agents[0], false);
    scene_pass(s, 29000);
    assert_false(is_lost(s, "a"));
    scene_pass(s, 1000);
    assert_true(is_lost(s, "a"));
}

static void the_setting_is_the_limit(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 1);
    s->settings.silent_node_ms = 30000;
    scene_pass(s, 29000);
    assert_false(is_lost(s, "a"));
    scene_pass(s, 1000);
    assert_true(is_lost(s, "a"));
}

/* Torch waits a minute for a reply. */
static void one_that_waits_for_a_reply_lives(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 1);
    ask(s, &s->agents[0], true);
    scene_pass(s, 59000);
    assert_false(is_lost(s, "a"));
    scene_pass(s, 2000);
    assert_true(is_lost(s, "a"));
}

static void one_that_is_away_is_silent(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 1);
    ask(s, &s->agents[0], true);
    scene_event(s, AGENT_AWAY, &s->agents[0]);
    scene_pass(s, 16000);
    assert_true(is_lost(s, "a"));
    scene_event(s, AGENT_BACK, &s->agents[0]);
    assert_false(is_lost(s, "a"));
}

/* No agent of it is connected. */
static void an_old_heartbeat_counts_for_a_node_without_an_agent(void **state)
{
    struct scene *s = *state;

    s->settings.drop_disconnected = false;
    scene_meet(s, 2);
    scene_disconnect(s, &s->agents[1]);
    scene_pass(s, 14000);
    assert_false(is_lost(s, "b"));
    scene_pass(s, 2000);
    assert_true(is_lost(s, "b"));
    s->run.start = START_AWAITED; /* it may come back after a start of the daemon */
    assert_false(is_lost(s, "b"));
    s->run.start = START_OVER;
}

static void none_was_silent_while_rdzvd_stood_still(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 1);
    scene_pass(s, 2000);
    scene_stand_still(s, 18000);
    assert_false(is_lost(s, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_that_is_silent_is_lost_after_15_s),
        TEST(one_that_asks_seldom_is_lost_later),
        TEST(the_setting_is_the_limit),
        TEST(one_that_waits_for_a_reply_lives),
        TEST(one_that_is_away_is_silent),
        TEST(an_old_heartbeat_counts_for_a_node_without_an_agent),
        TEST(none_was_silent_while_rdzvd_stood_still),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
