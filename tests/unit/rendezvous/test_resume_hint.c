/* What is kept of an agent behind a relay over a start of the daemon. */
#include "tests/unit/rendezvous/scene.h"

#define HOUR (3600 * SECOND)

static bool sees_that_one_waits(struct scene *s, struct agent *a)
{
    struct torch_state st = scene_state(scene_poll(s, a));
    bool waits = false;

    for (size_t k = 0; k < st.count; k++)
        waits = waits || st.nodes[k].waiting;
    torch_state_free(&st);
    return waits;
}

static void remove_b(struct scene *s)
{
    struct torch_state st = scene_state_now(s);

    scene_remove(&st, "b");
    scene_put_state(s, &st);
}

static void an_agent_is_its_node_when_it_asks_again(void **state)
{
    struct scene *s = *state;
    struct agent *a;

    scene_meet(s, 2);
    scene_restart(s, true);
    a = scene_return(s, &s->agents[1]);
    assert_true(a->naming == NAMING_LISTED && slice_is(a->node.addr, "b"));
    assert_int_equal(a->nodes, 2);
    assert_int_equal(s->run.room_for, 2);
    assert_false(sees_that_one_waits(s, a));
}

/* It trains, perhaps: the others had presumed it dead before the start, and it has not found out.
 */
static void one_whose_node_was_gone_before_joins_anew(void **state)
{
    struct scene *s = *state;
    struct agent *a, *b;
    const char *seen;

    scene_meet(s, 2);
    remove_b(s);
    scene_restart(s, true);
    a = scene_return(s, &s->agents[0]);
    b = scene_return(s, &s->agents[1]);
    assert_false(sees_that_one_waits(s, a));
    assert_true(sees_that_one_waits(s, b));
    seen = scene_poll(s, b);
    assert_true(scene_names(scene_cas(s, b, seen, scene_waiting(s, seen, "b")), "b"));
    assert_true(scene_node_now(s, "a").participant && scene_node_now(s, "b").waiting);
}

/* The round goes on, and it is put back into it. */
static void one_whose_node_is_gone_since_is_in_its_round(void **state)
{
    struct scene *s = *state;
    struct agent *b;

    scene_meet(s, 2);
    scene_restart(s, true);
    scene_return(s, &s->agents[0]);
    remove_b(s);
    scene_event(s, RUN_CHANGED, NULL);
    b = scene_return(s, &s->agents[1]);
    assert_false(sees_that_one_waits(s, b));
    assert_true(scene_node_now(s, "b").participant);
    assert_int_equal(scene_node_now(s, "b").rank, 1);
}

/* The agent's clock is ahead or behind: the agent sees its own heartbeat with its right age, and
 * the other agents do too. */
static void a_clock_that_is_wrong_is_known(void **state)
{
    struct scene *s = *state;

    for (int64_t ahead = -HOUR; ahead <= HOUR; ahead += 2 * HOUR) {
        struct torch_state st;
        struct agent *a, *b;
        const char *now;

        scene_meet(s, 2);
        for (int beats = 0; beats < 2; beats++) {
            scene_pass(s, 6000);
            scene_poll(s, &s->agents[1]);
            now = scene_get(s, "");
            st = scene_state(now);
            scene_beat(&st, "b", scene_now_us(s) + ahead);
            scene_cas(s, &s->agents[1], now, scene_text(s, &st));
        }
        assert_int_equal(s->agents[1].clock.ahead_us, ahead);
        scene_event(s, RUN_READ, NULL); /* puts the heartbeats into the value */
        scene_restart(s, true);
        a = scene_return(s, &s->agents[0]);
        assert_in_range(scene_node_now(s, "b").heartbeat_us, scene_now_us(s) - 6 * SECOND,
                        scene_now_us(s));
        b = scene_return(s, &s->agents[1]);
        assert_int_equal(b->clock.ahead_us, ahead);
        scene_event(s, RUN_RETURNED, NULL);
        scene_pass(s, 1000);
        scene_event(s, RUN_TICK, NULL);
        assert_true(scene_node_now(s, "a").participant && scene_node_now(s, "b").participant);
        assert_false(sees_that_one_waits(s, a));
        scene_renew(s);
    }
}

static void what_is_no_memo_says_nothing(void **state)
{
    struct scene *s = *state;
    static const struct scene_memo memos[] = {
        {.len = 0},
        {.bytes = {1}, .len = 1},
        {.bytes = {1}, .len = 24},   /* a node has no key of 15 bytes */
        {.bytes = {2}, .len = 26},   /* of another version */
        {.bytes = {1}, .len = 1049}, /* an address is too long */
    };

    for (size_t i = 0; i < COUNT(memos); i++) {
        scene_meet(s, 1);
        s->memos[0] = memos[i];
        scene_restart(s, true);
        assert_false(agent_has_node(scene_return(s, &s->agents[0])));
        scene_renew(s);
    }
}

/* What differs by less than a second is not kept anew. */
static void a_clock_that_is_set_is_kept_anew(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 1);
    for (int64_t ms = 0; ms <= 3000; ms += 1000) {
        const char *now = scene_get(s, "");
        struct torch_state st = scene_state(now);

        scene_pass(s, 6000);
        scene_beat(&st, "a", scene_now_us(s) + ms * 1000);
        scene_cas(s, &s->agents[0], now, scene_text(s, &st));
        assert_int_equal(scene_count(s, POLICY_KEEP_MEMO), ms == 2000);
    }
    scene_restart(s, true);
    assert_int_equal(scene_return(s, &s->agents[0])->clock.ahead_us, 2 * SECOND);
}

/* It ends with the daemon. */
static void of_one_without_a_relay_nothing_is_kept(void **state)
{
    struct scene *s = *state;
    struct agent *a;
    const char *now;

    scene_meet(s, 1);
    assert_int_not_equal(s->memos[0].len, 0);
    a = scene_connect(s, true);
    a->relayed = false;
    now = scene_get(s, "");
    scene_cas(s, a, now, scene_waiting(s, now, "b"));
    assert_true(agent_has_node(a));
    assert_int_equal(s->memos[1].len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_agent_is_its_node_when_it_asks_again),
        TEST(one_whose_node_was_gone_before_joins_anew),
        TEST(one_whose_node_is_gone_since_is_in_its_round),
        TEST(a_clock_that_is_wrong_is_known),
        TEST(what_is_no_memo_says_nothing),
        TEST(a_clock_that_is_set_is_kept_anew),
        TEST(of_one_without_a_relay_nothing_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
