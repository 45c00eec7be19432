/* Agents that join a closed run: rdzvd holds them until the run is forgotten, or until their time
 * is over. */
#include "tests/unit/rendezvous/scene.h"

static void close_run(struct scene *s)
{
    struct torch_state st = scene_state_now(s);
    const char *now;

    now = scene_text(s, &st);
    st = scene_state(now);
    st.closed = true;
    scene_cas(s, &s->agents[0], now, scene_text(s, &st));
    assert_true(s->run.view.state.closed);
}

/* A run that agent "a" has closed and is still connected to. */
static void closed_run(struct scene *s)
{
    scene_meet(s, 1);
    close_run(s);
}

static void pass_ttl(struct scene *s)
{
    scene_pass(s, s->settings.closed_run_ttl_ms);
    scene_event(s, RUN_TICK, NULL);
}

static bool is_shown_closed(struct scene *s, struct agent *a)
{
    struct torch_state shown = scene_state(scene_poll(s, a));
    bool closed = shown.closed;

    torch_state_free(&shown);
    return closed;
}

static const char *knock(struct scene *s, struct agent *a)
{
    return scene_cas(s, a, "", SENTINEL);
}

static void an_agent_that_comes_for_it_waits_until_it_is_forgotten(void **state)
{
    struct scene *s = *state;
    struct agent *early[2];

    closed_run(s);
    for (size_t i = 0; i < 2; i++) {
        early[i] = scene_connect(s, true);
        assert_null(knock(s, early[i]));
        assert_int_equal(scene_note(s, NOTE_AGENTS_WAITING) != NULL, i == 0);
    }
    assert_int_equal(s->run.held[HELD_REJOIN], 2);
    assert_int_equal(s->run.agent_count, 1);
    scene_disconnect(s, &s->agents[0]);
    assert_int_equal(s->run.agent_count, 0); /* those who wait keep it from nothing */
    scene_pass(s, 5000);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
    assert_true(scene_has(s, POLICY_RESUME, early[0]) && scene_has(s, POLICY_RESUME, early[1]));
    assert_string_equal(knock(s, early[0]), SENTINEL);
    assert_string_equal(knock(s, early[1]), SENTINEL);
    assert_int_equal(s->run.agent_count, 2);
}

/* The run closes after they have introduced themselves. */
static void an_agent_that_has_joined_nothing_waits_as_well(void **state)
{
    struct scene *s = *state;
    struct agent *polls, *joins;
    const char *seen, *wanted;

    scene_meet(s, 1);
    polls = scene_connect(s, true);
    joins = scene_connect(s, true);
    knock(s, polls);
    seen = knock(s, joins);
    close_run(s);
    wanted = scene_waiting(s, seen, "c");
    assert_null(scene_poll(s, polls));
    assert_null(scene_cas(s, joins, seen, wanted));
    assert_int_equal(s->run.agent_count, 1);
    scene_disconnect(s, &s->agents[0]);
    pass_ttl(s);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
    assert_true(scene_has(s, POLICY_RESUME, polls) && scene_has(s, POLICY_RESUME, joins));
    assert_null(scene_get(s, ""));
    assert_string_equal(scene_poll(s, polls), SENTINEL); /* else it would wait for the key */
    assert_string_equal(scene_cas(s, joins, seen, wanted), SENTINEL);
    assert_int_equal(s->run.agent_count, 2);
}

static void an_agent_that_has_joined_nothing_learns_it_after_its_time(void **state)
{
    struct scene *s = *state;
    struct agent *polls;

    scene_meet(s, 1);
    polls = scene_connect(s, true);
    knock(s, polls);
    close_run(s);
    assert_null(scene_poll(s, polls));
    scene_pass(s, s->settings.closed_run_wait_ms);
    scene_event(s, RUN_TICK, NULL);
    assert_true(scene_has(s, POLICY_RESUME, polls));
    assert_true(is_shown_closed(s, polls));
}

static void an_agent_that_was_in_it_is_answered_at_once(void **state)
{
    struct scene *s = *state;

    closed_run(s);
    assert_string_equal(knock(s, &s->agents[0]), scene_get(s, ""));
    assert_true(is_shown_closed(s, &s->agents[0]));
}

/* The relay loses its link, and sends the held request again over the next link. rdzvd holds the
 * request for the rest of its time. */
static void a_request_that_comes_again_is_held_no_longer(void **state)
{
    struct scene *s = *state;
    struct agent *early;

    closed_run(s);
    early = scene_connect(s, true);
    assert_null(knock(s, early));
    scene_pass(s, 10000);
    scene_event(s, AGENT_AWAY, early);
    assert_int_equal(s->run.held[HELD_REJOIN], 0);
    scene_pass(s, s->settings.closed_run_wait_ms);
    scene_event(s, RUN_TICK, NULL);
    assert_false(scene_has(s, POLICY_RESUME, early));
    scene_event(s, AGENT_BACK, early);
    assert_null(knock(s, early));
    scene_event(s, RUN_TICK, NULL);
    assert_true(scene_has(s, POLICY_RESUME, early));
}

static void it_learns_that_the_run_is_closed_after_its_time(void **state)
{
    struct scene *s = *state;
    struct agent *early;

    closed_run(s);
    early = scene_connect(s, true);
    assert_null(knock(s, early));
    scene_pass(s, s->settings.closed_run_wait_ms - 1);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(s->out.count, 0);
    scene_pass(s, 1);
    scene_event(s, RUN_TICK, NULL);
    assert_true(scene_has(s, POLICY_RESUME, early));
    assert_int_equal(scene_note(s, NOTE_AGENTS_REJECTED)->number, 1);
    assert_non_null(strstr(scene_note(s, NOTE_AGENTS_REJECTED)->reason, "connected"));
    assert_string_equal(knock(s, early), scene_get(s, ""));
    assert_int_equal(s->run.held[HELD_REJOIN], 0);
    /* The rejected agent does not keep the run from being forgotten. */
    scene_disconnect(s, &s->agents[0]);
    scene_pass(s, 5000);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
}

static void no_agent_waits_when_the_time_is_0(void **state)
{
    struct scene *s = *state;

    closed_run(s);
    s->settings.closed_run_wait_ms = 0;
    assert_string_equal(knock(s, scene_connect(s, true)), scene_get(s, ""));
}

static void agents_go_on_when_the_run_is_forgotten_on_request_or_gone(void **state)
{
    struct scene *s = *state;
    static const enum policy_event_kind kinds[] = {RUN_FORGET, RUN_CHANGED};

    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct agent *early;

        closed_run(s);
        early = scene_connect(s, true);
        knock(s, early);
        if (kinds[i] == RUN_CHANGED)
            scene_put(s, "", SENTINEL); /* a SET of some client */
        scene_event(s, kinds[i], NULL);
        assert_true(scene_has(s, POLICY_RESUME, early));
        assert_string_equal(knock(s, early), SENTINEL);
        scene_renew(s);
    }
}

static void an_agent_that_waits_may_leave(void **state)
{
    struct scene *s = *state;
    struct agent *early;

    closed_run(s);
    early = scene_connect(s, true);
    knock(s, early);
    scene_disconnect(s, early);
    assert_int_equal(s->run.held[HELD_REJOIN], 0);
    assert_true(TAILQ_EMPTY(&s->run.rejoining));
}

/* The agent waits for keys of its round, or trains: it would find the keys of the next run. */
static void an_agent_that_is_back_after_a_start_was_in_it(void **state)
{
    struct scene *s = *state;
    struct agent *back;

    closed_run(s);
    scene_restart(s, true);
    pass_ttl(s);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 0); /* it may still come */
    back = scene_return(s, &s->agents[0]);
    scene_step(s, (struct policy_event){.kind = AGENT_ASKED, .agent = back});
    scene_event(s, RUN_RETURNED, NULL);
    pass_ttl(s);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 0);
    scene_disconnect(s, back);
    pass_ttl(s);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
}

static void an_agent_that_waited_before_a_start_waits_on(void **state)
{
    struct scene *s = *state;
    struct agent *early;

    closed_run(s);
    assert_null(knock(s, scene_connect(s, true)));
    scene_restart(s, true);
    early = scene_return(s, &s->agents[1]);
    assert_null(knock(s, early));
    assert_int_equal(s->run.agent_count, 0);
    scene_event(s, RUN_RETURNED, NULL);
    pass_ttl(s);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
    assert_true(scene_has(s, POLICY_RESUME, early));
    assert_string_equal(knock(s, early), SENTINEL);
}

/* The last job has ended well, so a loss restarts none of its nodes. This does not hold for the
 * next job with this id, also not in the round of the same number. */
static void a_loss_in_the_next_run_is_told(void **state)
{
    struct scene *s = *state;
    static const char *const names[] = {"x", "y", "z"};

    for (int on_request = 0; on_request < 2; on_request++) {
        struct agent *early[3];

        closed_run(s);
        scene_step(s, (struct policy_event){
                          .kind = AGENT_ADD_ROUND_KEY,
                          .agent = &s->agents[0],
                          .round = 0,
                          .round_key = slice_str("torchelastic/agent/terminal_state/num_members")});
        for (size_t i = 0; i < 3; i++) {
            early[i] = scene_connect(s, true);
            assert_null(knock(s, early[i]));
        }
        if (on_request)
            scene_event(s, RUN_FORGET, NULL);
        scene_disconnect(s, &s->agents[0]);
        pass_ttl(s);
        for (size_t i = 0; i < 3; i++)
            assert_string_equal(knock(s, early[i]), SENTINEL);
        for (size_t i = 0; i < 3; i++) {
            const char *now = scene_get(s, "");

            scene_cas(s, early[i], now,
                      i < 2 ? scene_joined(s, now, names[i]) : scene_completed(s, now, names[i]));
        }
        assert_int_equal(scene_participants(s), 3);
        scene_disconnect(s, early[2]);
        assert_int_equal(scene_participants(s), 2);
        assert_non_null(scene_note(s, NOTE_NODES_RESTARTED));
        scene_renew(s);
    }
}

/* --- The job has ended well. Host "a" was in it without a part in the end; host "z" is new. --- */

static struct agent *come_late(struct scene *s)
{
    struct agent *late;

    s->now.ended_hosts = slice_str("\"b\",\"a\"");
    late = scene_connect(s, true);
    assert_string_equal(knock(s, late), SENTINEL);
    assert_null(scene_cas(s, late, SENTINEL, scene_joined(s, SENTINEL, "a")));
    assert_non_null(strstr(scene_note(s, NOTE_AGENTS_WAITING)->reason, "has ended well"));
    assert_int_equal(s->run.held[HELD_REJOIN], 1);
    assert_int_equal(s->run.agent_count, 0);
    return late;
}

static void a_host_of_an_ended_job_joins_when_another_host_has_joined(void **state)
{
    struct scene *s = *state;
    struct agent *late, *other;

    late = come_late(s);
    scene_pass(s, 5000);
    scene_event(s, RUN_TICK, NULL);
    assert_false(scene_has(s, POLICY_RESUME, late));
    other = scene_connect(s, true);
    assert_string_equal(knock(s, other), SENTINEL);
    assert_non_null(scene_cas(s, other, SENTINEL, scene_joined(s, SENTINEL, "z")));
    assert_true(scene_has(s, POLICY_RESUME, late));
    assert_int_equal(s->run.agent_count, 2);
    scene_cas(s, late, SENTINEL, scene_joined(s, SENTINEL, "a"));
    scene_cas(s, late, scene_poll(s, late), scene_joined(s, scene_poll(s, late), "a"));
    assert_int_equal(scene_participants(s), 2);
}

static void it_learns_that_the_job_has_ended_after_its_time(void **state)
{
    struct scene *s = *state;
    struct torch_state shown;
    struct agent *late;
    const char *answer;

    late = come_late(s);
    scene_pass(s, s->settings.closed_run_wait_ms);
    scene_event(s, RUN_TICK, NULL);
    assert_true(scene_has(s, POLICY_RESUME, late));
    assert_false(scene_note(s, NOTE_AGENTS_REJECTED)->closed);
    answer = scene_cas(s, late, SENTINEL, scene_joined(s, SENTINEL, "a"));
    shown = scene_state(answer);
    assert_true(shown.closed);
    torch_state_free(&shown);
    /* It closes the run before it ends: that is no run of its own. */
    assert_non_null(scene_cas(s, late, answer, scene_closing(s, answer)));
    assert_non_null(scene_cas(s, late, SENTINEL, scene_closing(s, SENTINEL)));
    assert_string_equal(scene_get(s, ""), SENTINEL);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 0);
    scene_disconnect(s, late);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_FORGET_RUN), 1);
}

static void a_host_of_an_ended_job_does_not_wait_when_the_time_is_0(void **state)
{
    struct scene *s = *state;
    struct torch_state shown;
    struct agent *late;

    s->settings.closed_run_wait_ms = 0;
    s->now.ended_hosts = slice_str("\"a\"");
    late = scene_connect(s, true);
    knock(s, late);
    shown = scene_state(scene_cas(s, late, SENTINEL, scene_joined(s, SENTINEL, "a")));
    assert_true(shown.closed);
    torch_state_free(&shown);
}

static void names_of_hosts_are_compared_whole(void **state)
{
    const struct slice hosts = slice_str("\"node-1\",\"b\\\"c\"");

    (void)state;
    assert_true(policy_names_host(hosts, slice_str("node-1")));
    assert_true(policy_names_host(hosts, slice_str("b\"c")));
    assert_false(policy_names_host(hosts, slice_str("node")));
    assert_false(policy_names_host(hosts, slice_str("ode-1")));
    assert_false(policy_names_host(hosts, slice_str("")));
    assert_false(policy_names_host((struct slice){0}, slice_str("node-1")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_agent_that_comes_for_it_waits_until_it_is_forgotten),
        TEST(an_agent_that_has_joined_nothing_waits_as_well),
        TEST(an_agent_that_has_joined_nothing_learns_it_after_its_time),
        TEST(an_agent_that_was_in_it_is_answered_at_once),
        TEST(a_request_that_comes_again_is_held_no_longer),
        TEST(it_learns_that_the_run_is_closed_after_its_time),
        TEST(no_agent_waits_when_the_time_is_0),
        TEST(agents_go_on_when_the_run_is_forgotten_on_request_or_gone),
        TEST(an_agent_that_waits_may_leave),
        TEST(an_agent_that_is_back_after_a_start_was_in_it),
        TEST(an_agent_that_waited_before_a_start_waits_on),
        TEST(a_loss_in_the_next_run_is_told),
        TEST(a_host_of_an_ended_job_joins_when_another_host_has_joined),
        TEST(it_learns_that_the_job_has_ended_after_its_time),
        TEST(a_host_of_an_ended_job_does_not_wait_when_the_time_is_0),
        TEST(names_of_hosts_are_compared_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
