/* A node is lost in the first minute of a round: those who wait for its keys get some. */
#include "tests/unit/rendezvous/scene.h"

static void those_who_wait_for_ranks_get_some(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_disconnect(s, &s->agents[0]);
    assert_string_equal(scene_get(s, ".0/torchelastic/role_info/0"),
                        "{\"role\": \"default\", \"rank\": 0, \"local_world_size\": 1}");
    assert_string_equal(scene_get(s, ".0/torchelastic/assigned_ranks/0"), "[0, 2, 0, 2]");
    assert_string_equal(scene_get(s, ".0/torchelastic/assigned_ranks/1"), "[1, 2, 1, 2]");
    assert_null(scene_get(s, ".0/torchelastic/role_info1"));
}

/* Torch 2.4 and before read a place in each round, and wait for it for five minutes. */
static void old_agents_get_a_place_too(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    s->agents[1].pings = false;
    scene_disconnect(s, &s->agents[0]);
    assert_string_equal(scene_get(s, ".0/MASTER_ADDR"), "localhost");
    assert_non_null(scene_get(s, ".0/MASTER_PORT"));
}

/* Later agents read the address only once, so it must be the address of a running store. */
static void later_agents_get_rdzvd_as_their_place(void **state)
{
    struct scene *s = *state;

    for (int said = 0; said < 2; said++) {
        scene_meet(s, 2);
        if (said) /* half of it */
            scene_set(s, &s->agents[0], 0, "MASTER_ADDR", "agent-0.example");
        scene_disconnect(s, &s->agents[0]);
        assert_string_equal(scene_get(s, ".0/MASTER_ADDR"), "10.0.0.1");
        assert_string_equal(scene_get(s, ".0/MASTER_PORT"), "29400");
        scene_renew(s);
    }
}

/* Agent 0 lives, and waits for the roles of all. */
static void agent_zero_gets_the_role_of_a_lost_node(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_put(s, ".0/torchelastic/role_info/0", "said");
    scene_disconnect(s, &s->agents[1]);
    assert_string_equal(scene_get(s, ".0/torchelastic/role_info/0"), "said");
    assert_non_null(scene_get(s, ".0/torchelastic/role_info/1"));
    assert_null(scene_get(s, ".0/torchelastic/assigned_ranks/0"));
}

/* If all pods of a job end, a thousand nodes are lost one by one. */
static void each_lost_node_gets_its_placeholders_once(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 4);
    scene_disconnect(s, &s->agents[0]);
    assert_int_equal(scene_count(s, POLICY_PUT_IF_ABSENT), 1 + 4);
    for (size_t i = 1; i < 3; i++) {
        scene_disconnect(s, &s->agents[i]);
        assert_int_equal(scene_count(s, POLICY_PUT_IF_ABSENT), 1);
    }
    assert_non_null(scene_get(s, ".0/torchelastic/role_info/2"));
}

static void placeholders_that_had_no_room_are_put_with_the_next_loss(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 4);
    s->room = 200;
    scene_disconnect(s, &s->agents[0]);
    assert_null(scene_get(s, ".0/torchelastic/assigned_ranks/3"));
    s->room = SIZE_MAX;
    scene_disconnect(s, &s->agents[1]);
    assert_non_null(scene_get(s, ".0/torchelastic/assigned_ranks/3"));
}

/* They have all that they wait for. */
static void nobody_waits_long_after_the_round_was_complete(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_pass(s, 61000);
    scene_disconnect(s, &s->agents[0]);
    assert_null(scene_get(s, ".0/torchelastic/role_info/0"));
}

/* Its user has told it to be patient (read_timeout). */
static void an_agent_that_still_waits_gets_them_later_too(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_step(s,
               (struct policy_event){.kind = AGENT_ASKED, .agent = &s->agents[1], .waits = true});
    scene_pass(s, 300000);
    scene_disconnect(s, &s->agents[0]);
    assert_non_null(scene_get(s, ".0/torchelastic/assigned_ranks/1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(those_who_wait_for_ranks_get_some),
        TEST(old_agents_get_a_place_too),
        TEST(later_agents_get_rdzvd_as_their_place),
        TEST(agent_zero_gets_the_role_of_a_lost_node),
        TEST(each_lost_node_gets_its_placeholders_once),
        TEST(placeholders_that_had_no_room_are_put_with_the_next_loss),
        TEST(nobody_waits_long_after_the_round_was_complete),
        TEST(an_agent_that_still_waits_gets_them_later_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
