/* All nodes of a complete round end their workers at the same moment: rdzvd holds the polls of the
 * participants until all of them poll, and shows no waiting node before that. */
#include "tests/unit/rendezvous/scene.h"

static void read_ranks(struct scene *s, size_t i, int64_t round)
{
    scene_set_role(s, i, round);
    scene_step(s, (struct policy_event){.kind = AGENT_GET_ROUND_KEY,
                                        .agent = &s->agents[i],
                                        .round = round,
                                        .round_key = slice_str("torchelastic/assigned_ranks/0")});
}

/* Agents of a complete round, who have read their ranks and look once a second. */
static void train(struct scene *s, size_t count)
{
    scene_meet(s, count);
    for (size_t i = 0; i < count; i++)
        read_ranks(s, i, 0);
    for (int second = 0; second < 3; second++) {
        scene_pass(s, 1000);
        for (size_t i = 0; i < count; i++)
            scene_poll(s, &s->agents[i]);
    }
}

static void beat(struct scene *s, size_t i)
{
    scene_say_node(s, &s->agents[i], scene_name(i));
}

/* One more agent waits for the next round. */
static struct agent *come(struct scene *s)
{
    size_t i = s->agent_count;
    struct agent *a = scene_connect(s, true);

    scene_event(s, RUN_READ, NULL); /* heartbeats are put into the value */
    scene_cas(s, a, scene_get(s, ""), scene_waiting(s, scene_get(s, ""), scene_name(i)));
    assert_true(scene_node_now(s, scene_name(i)).waiting);
    return a;
}

/* The agent looks. True: its look is held. */
static bool is_held(struct scene *s, size_t i)
{
    struct agent *a = &s->agents[i];

    if (policy_poll_again(&s->run, a, false, s->now.ms, s->now.lived_ms).ptr != NULL)
        return false;
    scene_event(s, AGENT_POLLED, a);
    return scene_has(s, POLICY_HOLD, a);
}

static bool is_waiting_in(const char *text)
{
    struct torch_state st = scene_state(text);
    bool waits = false;

    for (size_t i = 0; i < st.count; i++)
        waits = waits || st.nodes[i].waiting;
    torch_state_free(&st);
    return waits;
}

/* The agent looks, and is answered that a node waits. */
static bool is_called(struct scene *s, size_t i)
{
    return is_waiting_in(scene_poll(s, &s->agents[i])) && !scene_has(s, POLICY_HOLD, &s->agents[i]);
}

/* The last step has resumed the look of that agent, which is answered that a node waits. */
static bool is_released(struct scene *s, size_t i)
{
    return scene_has(s, POLICY_RESUME, &s->agents[i]) && is_called(s, i);
}

static void tick(struct scene *s, uint64_t ms)
{
    scene_pass(s, ms);
    scene_event(s, RUN_TICK, NULL);
}

/* Meanwhile the agent that waits looks each second. */
static void tick_each_second(struct scene *s, struct agent *new, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        tick(s, 1000);
        scene_poll(s, new);
    }
}

/* --- All look. --- */

static void all_are_answered_when_the_last_one_looks(void **state)
{
    struct scene *s = *state;
    const struct note *note;

    train(s, 3);
    come(s);
    assert_true(is_held(s, 0));
    scene_pass(s, 400);
    assert_true(is_held(s, 1));
    assert_int_equal(s->run.held[HELD_GATHERED], 2);
    scene_pass(s, 300);
    assert_true(is_called(s, 2)); /* it is not held: nothing would resume it */
    note = scene_note(s, NOTE_MEETING);
    assert_non_null(note);
    assert_int_equal(note->number, 3);
    assert_int_equal(note->late, 0);
    assert_int_equal(note->ms, 700);
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[0]));
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[1]));
    assert_int_equal(s->run.held[HELD_GATHERED], 0);
    assert_true(is_called(s, 0));
    assert_true(is_called(s, 1));
}

static void one_participant_is_answered_at_once(void **state)
{
    struct scene *s = *state;

    train(s, 1);
    come(s);
    assert_true(is_called(s, 0));
}

static void a_look_that_comes_again_stays_held(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    come(s);
    assert_true(is_held(s, 0));
    assert_true(is_held(s, 0));
    assert_int_equal(s->run.held[HELD_GATHERED], 1);
    assert_true(is_called(s, 1));
}

/* A loss counts as a node that waits: the mark. */
static void so_do_the_survivors_of_a_loss(void **state)
{
    struct scene *s = *state;

    train(s, 3);
    scene_disconnect(s, &s->agents[1]);
    assert_true(is_held(s, 2));
    assert_true(is_called(s, 0));
    assert_true(is_called(s, 2));
}

/* One participant has seen the waiting node, so the others must still join the new round. */
static void the_node_that_waits_leaves_while_the_looks_are_answered(void **state)
{
    struct scene *s = *state;
    struct agent *new;

    train(s, 2);
    new = come(s);
    assert_true(is_held(s, 0));
    assert_true(is_called(s, 1));
    scene_disconnect(s, new);
    assert_true(is_called(s, 0));
}

/* The workers of the agent that has seen it have ended. */
static void the_run_is_closed_while_the_looks_are_answered(void **state)
{
    struct scene *s = *state;
    struct agent *new;

    s->settings.close_from_members = false;
    train(s, 2);
    new = come(s);
    assert_true(is_held(s, 0));
    assert_true(is_called(s, 1));
    scene_cas(s, new, scene_get(s, ""), scene_closing(s, scene_get(s, "")));
    assert_true(s->run.view.state.closed);
    assert_true(is_called(s, 0));
}

static void the_node_that_waits_leaves_before(void **state)
{
    struct scene *s = *state;
    struct agent *new;

    train(s, 2);
    new = come(s);
    assert_true(is_held(s, 0));
    scene_disconnect(s, new);
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[0]));
    assert_false(is_called(s, 0));
    assert_int_equal(scene_waiting_nodes(s), 0);
}

/* It is not known when the heartbeats of an agent come that was there before the start. */
static void after_a_start_the_first_look_is_not_held(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    scene_restart(s, true);
    for (size_t i = 0; i < 2; i++)
        scene_poll(s, scene_return(s, &s->agents[i]));
    scene_event(s, RUN_RETURNED, NULL);
    come(s);
    for (int second = 0; second < 2; second++) {
        scene_pass(s, 1000);
        assert_false(is_held(s, 2));
        assert_false(is_waiting_in(scene_poll(s, &s->agents[3])));
    }
    scene_say_node(s, &s->agents[2], "a");
    scene_pass(s, 1000);
    assert_true(is_held(s, 2)); /* no heartbeat is due */
    assert_true(is_held(s, 3)); /* this agent looks once a second */
    assert_false(scene_has(s, POLICY_RESUME, &s->agents[2]));
    tick(s, 1000);
    assert_true(is_released(s, 2));
    assert_true(is_called(s, 3));
}

static void the_next_round_has_its_own_meeting(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    s->run.max_nodes = 3;
    come(s);
    is_held(s, 0);
    assert_true(is_called(s, 1));
    scene_leave(s, 0);
    scene_leave(s, 1);
    scene_join(s, 0);
    scene_join(s, 1);
    scene_join(s, 2);
    if (!s->run.view.state.complete) /* the last call is over */
        scene_cas(s, &s->agents[0], scene_get(s, ""), scene_completed(s, scene_get(s, ""), "a"));
    assert_true(s->run.view.state.complete);
    assert_int_equal(s->run.view.state.round, 1);
    assert_int_equal(s->run.meeting.phase, MEETING_NONE);
    for (size_t i = 0; i < 3; i++) {
        scene_poll(s, &s->agents[i]); /* it sees the complete round */
        read_ranks(s, i, 1);
    }
    come(s);
    assert_true(is_held(s, 0));
    assert_true(is_held(s, 1));
    assert_true(is_called(s, 2));
}

/* --- Nobody sees it before. --- */

static void a_heartbeat_is_answered_without_the_node_that_waits(void **state)
{
    struct scene *s = *state;

    for (int shown = 0; shown < 2; shown++) { /* or the agent has read the whole state last */
        const char *seen, *answer;

        train(s, 2);
        seen = shown ? scene_copy(scene_poll(s, &s->agents[0])) : scene_copy(scene_get(s, ""));
        come(s);
        scene_pass(s, 100);
        answer = scene_cas(s, &s->agents[0], seen, scene_beating(s, seen, "a"));
        assert_non_null(answer);
        assert_false(is_waiting_in(answer));
        assert_true(is_held(s, 0));
        assert_true(is_called(s, 1));
        scene_renew(s);
    }
}

/* It starts its workers with what it reads then, and looks a second later. */
static void a_round_is_shown_without_it_before_the_rank_is_read(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 3);
    come(s);
    assert_false(is_waiting_in(scene_poll(s, &s->agents[1])));
    assert_false(scene_has(s, POLICY_HOLD, &s->agents[1]));
}

static void it_stays_hidden_once_an_agent_has_finished(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    scene_finish(s, 1);
    come(s);
    assert_false(is_held(s, 0));
    assert_false(is_waiting_in(scene_poll(s, &s->agents[0])));
}

static void those_who_are_held_go_on_if_an_agent_finishes_meanwhile(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    come(s);
    assert_true(is_held(s, 0));
    scene_finish(s, 1);
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[0]));
    assert_false(is_waiting_in(scene_poll(s, &s->agents[0])));
}

/* --- An agent does not look. --- */

/* The usual time between two looks is 1 s: half of it and 2 s come on top. */
static void it_is_waited_for_as_long_as_it_usually_takes(void **state)
{
    struct scene *s = *state;

    train(s, 3);
    come(s);
    assert_true(is_held(s, 0));
    assert_true(is_held(s, 1));
    tick(s, 3499);
    assert_false(scene_has(s, POLICY_RESUME, &s->agents[0]));
    tick(s, 1);
    assert_int_equal(scene_note(s, NOTE_MEETING)->late, 1);
    assert_true(is_released(s, 0));
    assert_true(is_called(s, 1));
    assert_true(is_called(s, 2)); /* it sees it when it looks */
}

/* --monitor-interval=30: it looks when it wants to. */
static void a_slow_agent_gets_its_time(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    for (int i = 0; i < 2; i++) {
        scene_pass(s, 30000);
        scene_poll(s, &s->agents[1]);
    }
    tick_each_second(s, come(s), 1);
    beat(s, 0);
    assert_true(is_held(s, 0));
    tick_each_second(s, &s->agents[2], 29);
    assert_int_equal(s->run.held[HELD_GATHERED], 1);
    beat(s, 1);
    assert_true(is_called(s, 1));
}

/* The thread that sends it reads the state before, and another one looks at the workers meanwhile.
 */
static void what_may_be_the_get_of_a_heartbeat_counts_later(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    scene_pass(s, 1000);
    scene_poll(s, &s->agents[1]);
    beat(s, 0);
    scene_pass(s, 900); /* the heartbeat of "b" is due */
    come(s);
    assert_true(is_held(s, 1));
    assert_true(is_held(s, 0));
    tick(s, 999);
    assert_false(scene_has(s, POLICY_RESUME, &s->agents[0]));
    tick(s, 1);
    assert_int_equal(scene_note(s, NOTE_MEETING)->late, 0);
    assert_true(is_released(s, 0));
    assert_true(is_called(s, 1));
}

/* Agents whose looks hide behind their heartbeats: both come each 5 s. */
static void train_slowly(struct scene *s, size_t count, bool pings)
{
    scene_meet(s, count);
    for (size_t i = 0; i < count; i++) {
        read_ranks(s, i, 0);
        s->agents[i].pings = pings;
    }
}

static void a_look_behind_a_heartbeat_comes_within_a_second(void **state)
{
    struct scene *s = *state;

    train_slowly(s, 2, false);
    for (int second = 0; second < 20; second += 5) {
        scene_pass(s, 5000);
        beat(s, 0);
        beat(s, 1);
    }
    come(s);
    scene_pass(s, 5000);
    assert_true(is_held(s, 0));
    assert_true(is_held(s, 1));
    tick(s, 1499);
    assert_false(scene_has(s, POLICY_RESUME, &s->agents[0]));
    tick(s, 1);
    assert_int_equal(scene_note(s, NOTE_MEETING)->late, 0);
    assert_true(is_released(s, 0));
    assert_true(is_called(s, 1));
}

/* Its workers may have needed some time to start. */
static void the_first_look_of_a_round_comes_within_two_seconds(void **state)
{
    struct scene *s = *state;

    train_slowly(s, 2, false);
    come(s);
    scene_pass(s, 5000);
    assert_true(is_held(s, 0));
    assert_true(is_held(s, 1));
    tick(s, 1999);
    assert_false(scene_has(s, POLICY_RESUME, &s->agents[0]));
    tick(s, 1);
    assert_true(is_released(s, 0));
    assert_true(is_called(s, 1));
}

/* The workers of the others hang or have failed. */
static void after_a_loss_an_unknown_interval_is_that_of_heartbeats(void **state)
{
    struct scene *s = *state;

    train_slowly(s, 3, true);
    scene_disconnect(s, &s->agents[2]);
    scene_pass(s, 5000);
    assert_true(is_held(s, 0));
    assert_true(is_held(s, 1));
    tick(s, 2000);
    assert_true(is_released(s, 0));
    assert_true(is_called(s, 1));
    scene_leave(s, 0); /* so it has looked since it started its workers */
    assert_int_equal(s->agents[0].pace.interval_ms, 7000);
}

/* No other workers can fail, so its heartbeat may show it the node that waits. */
static void a_node_that_is_left_alone_is_answered_at_once(void **state)
{
    struct scene *s = *state;

    for (int may_return = 0; may_return < 2; may_return++) {
        train_slowly(s, 2, true);
        scene_event(s, AGENT_AWAY, &s->agents[1]);
        scene_event(s, AGENT_GONE, &s->agents[1]);
        if (!may_return)
            scene_disconnect(s, &s->agents[1]);
        assert_int_equal(scene_participants(s), 1);
        scene_pass(s, 5000);
        if (may_return)
            assert_true(is_held(s, 0));
        else
            assert_true(is_called(s, 0));
        scene_renew(s);
    }
}

/* What 75 s without a look have shown: two heartbeats were put off meanwhile. */
static void the_next_round_knows_the_interval(void **state)
{
    struct scene *s = *state;

    train_slowly(s, 1, true);
    for (int beats = 0; beats < 17; beats++) {
        scene_pass(s, 5000);
        if (is_held(s, 0)) {
            tick(s, 1100);
            scene_poll(s, &s->agents[0]);
        }
        beat(s, 0);
    }
    come(s);
    scene_pass(s, 5000);
    assert_true(is_called(s, 0));
    assert_int_equal(s->agents[0].pace.interval_ms, 5000);
}

/* A heartbeat each 5 s makes no look of every 5 s. */
static void a_get_that_a_heartbeat_follows_is_no_look(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    for (int second = 0; second < 30; second += 5) {
        scene_pass(s, 5000);
        scene_poll(s, &s->agents[1]);
        beat(s, 1);
    }
    assert_int_equal(s->agents[1].pace.interval_ms, 1000);
}

/* An agent that leaves the round a second after its heartbeat does not send one each second. */
static void one_short_time_between_two_writes_is_no_interval(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    for (int i = 0; i < 3; i++) {
        scene_pass(s, 5000);
        beat(s, 1);
    }
    scene_pass(s, 1100);
    beat(s, 1);
    assert_int_equal(s->agents[1].pace.beat_ms, 0);
    scene_pass(s, 5000);
    beat(s, 1);
    assert_int_equal(s->agents[1].pace.beat_ms, 0);
}

/* keep_alive_interval=2 */
static void two_short_times_in_a_row_are_the_interval(void **state)
{
    struct scene *s = *state;

    train(s, 2);
    beat(s, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(s->agents[1].pace.beat_ms, 0);
        scene_pass(s, 2000 + 10 * (uint64_t)i);
        beat(s, 1);
    }
    assert_int_equal(s->agents[1].pace.beat_ms, 2010);
}

static void one_of_which_nothing_is_known_gets_the_longest(void **state)
{
    struct scene *s = *state;

    s->settings.silent_node_ms = 60000;
    scene_meet(s, 2);
    for (size_t i = 0; i < 2; i++)
        read_ranks(s, i, 0);
    come(s);
    assert_true(is_held(s, 0));
    tick_each_second(s, &s->agents[2], 39);
    assert_int_equal(s->run.held[HELD_GATHERED], 1);
    tick(s, 1000);
    assert_true(is_released(s, 0));
}

/* Another node keeps this node waiting for its ranks, until the other node is lost. */
static void one_that_has_no_ranks_yet_gets_more(void **state)
{
    struct scene *s = *state;

    s->settings.silent_node_ms = 60000;
    scene_meet(s, 2);
    read_ranks(s, 0, 0);
    come(s);
    scene_poll(s, &s->agents[0]);
    assert_true(is_held(s, 0));
    tick_each_second(s, &s->agents[2], 44);
    assert_int_equal(s->run.held[HELD_GATHERED], 1);
    tick(s, 1000);
    assert_true(is_released(s, 0));
}

static void one_that_leaves_or_is_lost_or_away_is_not_waited_for(void **state)
{
    struct scene *s = *state;

    for (int how = 0; how < 3; how++) {
        train(s, 3);
        come(s);
        assert_true(is_held(s, 0));
        assert_true(is_held(s, 1));
        if (how == 0)
            scene_leave(s, 2); /* its workers have failed */
        else if (how == 1)
            scene_disconnect(s, &s->agents[2]);
        else
            scene_event(s, AGENT_AWAY, &s->agents[2]);
        assert_true(scene_has(s, POLICY_RESUME, &s->agents[0]));
        assert_true(is_released(s, 1));
        scene_renew(s);
    }
}

static void one_that_is_held_may_leave(void **state)
{
    struct scene *s = *state;

    train(s, 3);
    come(s);
    assert_true(is_held(s, 0));
    scene_disconnect(s, &s->agents[0]);
    assert_int_equal(s->run.held[HELD_GATHERED], 0);
    assert_true(is_held(s, 1));
    assert_true(is_called(s, 2));
}

/* --- The node that waits goes. --- */

static void those_who_are_held_go_on_if_it_leaves(void **state)
{
    struct scene *s = *state;
    struct agent *new;

    train(s, 2);
    new = come(s);
    assert_true(is_held(s, 0));
    scene_disconnect(s, new);
    assert_true(scene_has(s, POLICY_RESUME, &s->agents[0]));
    assert_false(is_waiting_in(scene_poll(s, &s->agents[0])));
    assert_int_equal(s->run.meeting.phase, MEETING_NONE);
}

/* A node that comes and goes does not hold a look for ever. */
static void a_look_is_held_once(void **state)
{
    struct scene *s = *state;
    struct agent *new;

    train(s, 2);
    new = come(s);
    assert_true(is_held(s, 0));
    scene_disconnect(s, new);
    come(s);
    assert_false(is_held(s, 0));
    assert_true(is_held(s, 0)); /* the next one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_are_answered_when_the_last_one_looks),
        TEST(one_participant_is_answered_at_once),
        TEST(a_look_that_comes_again_stays_held),
        TEST(so_do_the_survivors_of_a_loss),
        TEST(the_node_that_waits_leaves_while_the_looks_are_answered),
        TEST(the_run_is_closed_while_the_looks_are_answered),
        TEST(the_node_that_waits_leaves_before),
        TEST(after_a_start_the_first_look_is_not_held),
        TEST(the_next_round_has_its_own_meeting),
        TEST(a_heartbeat_is_answered_without_the_node_that_waits),
        TEST(a_round_is_shown_without_it_before_the_rank_is_read),
        TEST(it_stays_hidden_once_an_agent_has_finished),
        TEST(those_who_are_held_go_on_if_an_agent_finishes_meanwhile),
        TEST(it_is_waited_for_as_long_as_it_usually_takes),
        TEST(a_slow_agent_gets_its_time),
        TEST(what_may_be_the_get_of_a_heartbeat_counts_later),
        TEST(a_look_behind_a_heartbeat_comes_within_a_second),
        TEST(the_first_look_of_a_round_comes_within_two_seconds),
        TEST(after_a_loss_an_unknown_interval_is_that_of_heartbeats),
        TEST(a_node_that_is_left_alone_is_answered_at_once),
        TEST(the_next_round_knows_the_interval),
        TEST(a_get_that_a_heartbeat_follows_is_no_look),
        TEST(one_short_time_between_two_writes_is_no_interval),
        TEST(two_short_times_in_a_row_are_the_interval),
        TEST(one_of_which_nothing_is_known_gets_the_longest),
        TEST(one_that_has_no_ranks_yet_gets_more),
        TEST(one_that_leaves_or_is_lost_or_away_is_not_waited_for),
        TEST(one_that_is_held_may_leave),
        TEST(those_who_are_held_go_on_if_it_leaves),
        TEST(a_look_is_held_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
