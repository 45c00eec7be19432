/* What agents are shown of a run, what becomes of what they write relative to that, and whose clock
 * is meant. */
#include "tests/unit/rendezvous/scene.h"

#include <stdio.h>

#define MINUTE (60 * SECOND)

static const char *look(struct scene *s, size_t i)
{
    return scene_look(s, &s->agents[i]);
}

static bool is_glance_enough(struct scene *s, size_t i)
{
    return policy_glance(&s->run, &s->agents[i], false, s->now.ms).ptr != NULL;
}

/* As each agent that has read its rank does, and then those of its workers. */
static void ask_for_round_key(struct scene *s, size_t i)
{
    char name[64];

    snprintf(name, sizeof name, "torchelastic/role_info%zu.FIN", i);
    scene_set(s, &s->agents[i], s->run.view.state.round, name, "x");
}

/* Agents of a complete round who have read their ranks. */
static void train(struct scene *s, size_t count)
{
    scene_init(s);
    scene_meet(s, count);
    for (size_t i = 0; i < count; i++) {
        ask_for_round_key(s, i);
        s->agents[i].pace.interval_ms = 1000; /* else its first look is held for a while */
    }
}

/* --- What is shown. --- */

static void is_whole_until_the_rank_is_read(void **state)
{
    struct scene s;
    struct torch_state st;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    assert_string_equal(look(&s, 1), scene_get(&s, ""));
    assert_string_equal(look(&s, 1), scene_get(&s, ""));
    ask_for_round_key(&s, 1);
    st = scene_state(look(&s, 1));
    assert_int_equal(st.count, 1);
    assert_true(slice_is(st.nodes[0].addr, "b") && st.nodes[0].participant);
    assert_int_equal(st.nodes[0].rank, 1);
    assert_int_equal(st.nodes[0].heartbeat_us, scene_node_now(&s, "b").heartbeat_us);
    assert_true(st.complete && !st.closed);
    torch_state_free(&st);
    assert_string_equal(look(&s, 0), scene_get(&s, ""));
    scene_fini(&s);
}

/* It may be frozen for some seconds before it counts them: all of them are dead then, or none. */
static void has_heartbeats_of_one_age_before_the_rank_is_read(void **state)
{
    struct torch_state st;
    const char *seen;
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_pass(&s, 3000);
    scene_cas(&s, &s.agents[1], look(&s, 1), scene_beating(&s, look(&s, 1), "b"));
    seen = look(&s, 0);
    st = scene_state(seen);
    assert_int_equal(torch_state_participants(&st), 2);
    assert_int_equal(scene_node(&st, "a")->heartbeat_us, scene_now_us(&s));
    assert_int_equal(scene_node(&st, "b")->heartbeat_us, scene_now_us(&s));
    torch_state_free(&st);
    assert_int_equal(scene_node_now(&s, "a").heartbeat_us, scene_now_us(&s) - 3 * SECOND);
    scene_pass(&s, 1000);
    scene_cas(&s, &s.agents[0], seen, scene_beating(&s, seen, "a"));
    assert_int_equal(scene_node_now(&s, "a").heartbeat_us, scene_now_us(&s));
    scene_pass(&s, 1000);
    st = scene_state(look(&s, 0)); /* it was shown once, and trains without a key of the round */
    assert_int_equal(st.count, 1);
    torch_state_free(&st);
    scene_fini(&s);
}

static void stays_the_same_bytes_and_needs_no_step(void **state)
{
    struct scene s;
    const char *first;

    (void)state;
    train(&s, 4);
    first = look(&s, 2);
    for (int i = 0; i < 4; i++) {
        scene_pass(&s, 1000);
        assert_true(is_glance_enough(&s, 2));
        assert_string_equal(look(&s, 2), first);
    }
    scene_cas(&s, &s.agents[3], look(&s, 3), scene_beating(&s, look(&s, 3), "d"));
    assert_true(is_glance_enough(&s, 2));
    assert_string_equal(look(&s, 2), first);
    scene_fini(&s);
}

/* Nobody presumes an agent dead by what it sees, and itself not either. */
static void an_own_heartbeat_that_is_old_is_renewed(void **state)
{
    struct scene s;
    struct torch_state st;

    (void)state;
    train(&s, 2);
    look(&s, 0);
    scene_pass(&s, 14000);
    st = scene_state(look(&s, 0));
    assert_true(st.nodes[0].heartbeat_us >= scene_now_us(&s) - 12 * SECOND);
    torch_state_free(&st);
    scene_fini(&s);
}

static void has_one_of_those_who_wait(void **state)
{
    struct scene s;
    struct torch_state st;

    (void)state;
    train(&s, 2);
    look(&s, 0);
    for (size_t i = 2; i < 4; i++) {
        scene_connect(&s, true);
        scene_cas(&s, &s.agents[i], scene_get(&s, ""),
                  scene_waiting(&s, scene_get(&s, ""), scene_name(i)));
    }
    assert_false(is_glance_enough(&s, 0));
    look(&s, 1); /* it is held: see test_meeting.c */
    st = scene_state(look(&s, 0));
    assert_int_equal(st.count, 2);
    assert_true(st.nodes[1].waiting && !st.nodes[1].has_heartbeat);
    torch_state_free(&st);
    st = scene_state(look(&s, 2)); /* one that waits sees itself */
    assert_int_equal(st.count, 1);
    assert_true(slice_is(st.nodes[0].addr, "c") && st.nodes[0].waiting && st.complete);
    torch_state_free(&st);
    scene_fini(&s);
}

static void has_the_mark_of_a_loss(void **state)
{
    struct scene s;
    struct torch_state st;

    (void)state;
    train(&s, 3);
    look(&s, 0);
    scene_disconnect(&s, &s.agents[1]);
    look(&s, 2);
    st = scene_state(look(&s, 0));
    assert_int_equal(st.count, 2);
    assert_true(loss_is_mark(&st.nodes[1]));
    torch_state_free(&st);
    scene_fini(&s);
}

/* One of those who wait presumes silent participants dead, so it sees them. */
static void one_who_waits_sees_the_silent(void **state)
{
    struct scene s;

    (void)state;
    train(&s, 2);
    for (size_t i = 2; i < 4; i++) {
        scene_connect(&s, true);
        scene_cas(&s, &s.agents[i], scene_get(&s, ""),
                  scene_waiting(&s, scene_get(&s, ""), scene_name(i)));
    }
    assert_string_not_equal(look(&s, 2), scene_get(&s, ""));
    scene_pass(&s, 16000);
    look(&s, 0);
    assert_string_equal(look(&s, 2), scene_get(&s, ""));
    assert_string_not_equal(look(&s, 3), scene_get(&s, ""));
    scene_pass(&s, 8000);
    assert_string_equal(look(&s, 3), scene_get(&s, "")); /* the first has had its time */
    assert_string_not_equal(look(&s, 2), scene_get(&s, ""));
    scene_fini(&s);
}

static void who_has_joined_sees_itself(void **state)
{
    struct scene s;
    struct torch_state st;
    const char *now;

    (void)state;
    scene_init(&s);
    for (size_t i = 0; i < 2; i++) {
        scene_connect(&s, true);
        scene_cas(&s, &s.agents[i], "", SENTINEL);
        scene_cas(&s, &s.agents[i], scene_get(&s, ""),
                  scene_joined(&s, scene_get(&s, ""), scene_name(i)));
    }
    st = scene_state(look(&s, 0));
    assert_int_equal(st.count, 1);
    assert_true(st.has_deadline && st.deadline_us > scene_now_us(&s) + 1000 * MINUTE);
    assert_false(st.complete);
    torch_state_free(&st);
    now = look(&s, 0);
    scene_pass(&s, 5000);
    scene_cas(&s, &s.agents[0], now, scene_beating(&s, now, "a"));
    assert_int_equal(scene_node_now(&s, "a").heartbeat_us, scene_now_us(&s));
    now = look(&s, 0);
    scene_cas(&s, &s.agents[0], now, scene_leaving(&s, now, "a"));
    assert_int_equal(scene_participants(&s), 1);
    assert_false(s.run.view.state.complete);
    assert_int_equal(s.run.view.state.round, 0);
    scene_fini(&s);
}

/* One after the other, so that they do not all write the whole state. */
static void one_completes_the_round(void **state)
{
    struct torch_state st;
    struct scene s;

    (void)state;
    scene_init(&s);
    s.settings.end_last_call = false;
    for (size_t i = 0; i < 3; i++) {
        scene_connect(&s, true);
        st = scene_state(scene_joined(&s, scene_get(&s, ""), scene_name(i)));
        if (i == 2) {
            st.has_deadline = true;
            st.deadline_us = scene_now_us(&s) + 3 * SECOND;
        }
        scene_cas(&s, &s.agents[i], i == 0 ? "" : scene_get(&s, ""), scene_text(&s, &st));
    }
    scene_cas(&s, &s.agents[0], scene_get(&s, ""), scene_beating(&s, scene_get(&s, ""), "a"));
    assert_string_not_equal(look(&s, 1), scene_get(&s, ""));
    scene_pass(&s, 3001);
    assert_string_equal(look(&s, 1), scene_get(&s, ""));
    assert_string_not_equal(look(&s, 2), scene_get(&s, ""));
    scene_pass(&s, 1000);
    assert_string_equal(look(&s, 1), scene_get(&s, ""));
    assert_string_not_equal(look(&s, 2), scene_get(&s, ""));
    scene_pass(&s, 1000);
    assert_string_equal(look(&s, 2), scene_get(&s, "")); /* the first has had its time */
    scene_disconnect(&s, &s.agents[2]);
    assert_string_equal(look(&s, 1), scene_get(&s, ""));
    scene_fini(&s);
}

/* Its predecessor may not be heard of any more. */
static void one_with_a_successor_sees_the_state(void **state)
{
    struct scene s;

    (void)state;
    train(&s, 2);
    look(&s, 0);
    scene_connect(&s, true);
    scene_cas(&s, &s.agents[2], scene_get(&s, ""), scene_beating(&s, scene_get(&s, ""), "a"));
    scene_pass(&s, 1);
    scene_cas(&s, &s.agents[2], scene_get(&s, ""), scene_beating(&s, scene_get(&s, ""), "a"));
    assert_false(is_glance_enough(&s, 0));
    assert_string_equal(look(&s, 0), scene_get(&s, ""));
    scene_fini(&s);
}

/* --- What is written. --- */

static void heartbeats_are_put_together(void **state)
{
    struct scene s;
    const char *before, *seen;

    (void)state;
    train(&s, 3);
    before = scene_copy(scene_get(&s, ""));
    scene_pass(&s, 5000);
    for (size_t i = 0; i < 3; i++) {
        seen = look(&s, i);
        assert_string_equal(
            scene_cas(&s, &s.agents[i], seen, scene_beating(&s, seen, scene_name(i))),
            scene_beating(&s, seen, scene_name(i)));
        assert_int_equal(scene_count(&s, POLICY_PUT), 0);
        assert_int_equal(scene_node_now(&s, scene_name(i)).heartbeat_us, scene_now_us(&s));
    }
    assert_string_equal(scene_get(&s, ""), before);
    scene_event(&s, RUN_TICK, NULL);
    assert_string_equal(scene_get(&s, ""), before);
    scene_pass(&s, 5000);
    scene_event(&s, RUN_TICK, NULL);
    assert_string_not_equal(scene_get(&s, ""), before);
    assert_false(s.run.view.has_beats);
    scene_fini(&s);
}

/* Whoever is shown the value sees all of them. */
static void heartbeats_are_put_before_the_value_is_shown(void **state)
{
    struct scene s;
    struct torch_state st;
    const char *seen;

    (void)state;
    train(&s, 2);
    scene_pass(&s, 5000);
    seen = look(&s, 0);
    scene_cas(&s, &s.agents[0], seen, scene_beating(&s, seen, "a"));
    assert_true(s.run.view.has_beats);
    scene_connect(&s, true); /* a tool that asks for the key */
    st = scene_state(look(&s, 2));
    assert_int_equal(scene_node(&st, "a")->heartbeat_us, scene_now_us(&s));
    assert_int_equal(st.count, 2);
    torch_state_free(&st);
    scene_fini(&s);
}

/* And before another change is made of it. */
static void heartbeats_are_in_what_is_put_later(void **state)
{
    struct scene s;
    struct torch_state st;
    const char *seen;

    (void)state;
    train(&s, 3);
    scene_pass(&s, 5000);
    seen = look(&s, 0);
    scene_cas(&s, &s.agents[0], seen, scene_beating(&s, seen, "a"));
    scene_disconnect(&s, &s.agents[2]);
    st = scene_state_now(&s);
    assert_int_equal(scene_node(&st, "a")->heartbeat_us, scene_now_us(&s));
    torch_state_free(&st);
    assert_false(s.run.view.has_beats);
    scene_fini(&s);
}

static void one_leaves_and_waits(void **state)
{
    struct scene s;
    const char *seen;

    (void)state;
    train(&s, 3);
    seen = look(&s, 1);
    seen = scene_cas(&s, &s.agents[1], seen, scene_leaving(&s, seen, "b"));
    assert_int_equal(scene_participants(&s), 2);
    assert_true(s.run.view.state.complete);
    assert_int_equal(s.run.view.state.round, 0);
    assert_non_null(scene_note(&s, NOTE_NODE_LEFT));
    seen = scene_cas(&s, &s.agents[1], seen, scene_waiting(&s, seen, "b"));
    assert_true(scene_node_now(&s, "b").waiting);
    assert_false(scene_node_now(&s, "b").participant);
    assert_int_equal(scene_node_now(&s, "b").heartbeat_us, scene_now_us(&s));
    scene_pass(&s, 5000);
    seen = look(&s, 1);
    scene_cas(&s, &s.agents[1], seen, scene_beating(&s, seen, "b"));
    assert_int_equal(scene_node_now(&s, "b").heartbeat_us, scene_now_us(&s));
    seen = look(&s, 1);
    scene_cas(&s, &s.agents[1], seen, scene_leaving(&s, seen, "b"));
    assert_false(scene_node_now(&s, "b").waiting);
    assert_int_equal(scene_participants(&s), 2);
    scene_fini(&s);
}

static void the_last_to_leave_begins_the_next_round(void **state)
{
    struct scene s;
    const char *answer = NULL;

    (void)state;
    train(&s, 3);
    for (size_t i = 0; i < 3; i++) {
        const char *seen = look(&s, i);

        answer = scene_cas(&s, &s.agents[i], seen, scene_leaving(&s, seen, scene_name(i)));
    }
    assert_false(s.run.view.state.complete);
    assert_int_equal(s.run.view.state.round, 1);
    assert_string_equal(answer, scene_get(&s, ""));
    scene_fini(&s);
}

/* Who has not seen the complete round yet sees it as it was completed, so that its rank is below
 * the number of nodes; and then that one is lost. */
static void a_rank_is_read_in_the_round_as_it_was_completed(void **state)
{
    struct torch_state st;
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 4);
    scene_disconnect(&s, &s.agents[0]);
    assert_int_equal(scene_participants(&s), 3);
    st = scene_state(look(&s, 2));
    assert_true(st.complete);
    assert_int_equal(torch_state_participants(&st), 4);
    assert_int_equal(st.round, 0);
    torch_state_free(&st);
    scene_pass(&s, 1100);
    st = scene_state(look(&s, 2));
    assert_int_equal(torch_state_participants(&st), 3);
    torch_state_free(&st);
    scene_fini(&s);
}

/* The same of an agent that was frozen since before the round was complete, or before it could use
 * what it was shown of that: it sends a heartbeat first, or what else it meant, and reads its rank
 * in the answer. */
static void a_rank_is_read_in_the_answer_to_a_write(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        const char *seen, *answer;
        struct torch_state st;
        struct scene s;

        scene_init(&s);
        scene_meet(&s, 4);
        st = scene_state_now(&s);
        st.complete = false;
        seen = scene_text(&s, &st);
        if (how & 2)
            look(&s, 2);
        scene_pass(&s, 12000);
        scene_disconnect(&s, &s.agents[0]);
        answer = scene_cas(&s, &s.agents[2], seen,
                           how & 1 ? scene_beating(&s, seen, "c") : scene_leaving(&s, seen, "c"));
        st = scene_state(answer);
        assert_true(st.complete);
        assert_int_equal(torch_state_participants(&st), 4);
        assert_int_equal(scene_node(&st, "c")->rank, 2);
        assert_int_equal(scene_node(&st, "c")->heartbeat_us, scene_now_us(&s));
        torch_state_free(&st);
        st = scene_state(scene_cas(&s, &s.agents[2], seen, scene_beating(&s, seen, "c")));
        assert_int_equal(torch_state_participants(&st), 3);
        torch_state_free(&st);
        scene_fini(&s);
    }
}

static void one_closes_the_run(void **state)
{
    struct scene s;
    struct torch_state st;
    const char *seen;

    (void)state;
    train(&s, 3);
    seen = look(&s, 2);
    scene_cas(&s, &s.agents[2], seen, scene_closing(&s, seen));
    assert_true(s.run.view.state.closed);
    assert_int_equal(scene_participants(&s), 3);
    st = scene_state(look(&s, 0));
    assert_true(st.closed);
    assert_int_equal(st.count, 2); /* the mark makes it look: its workers have failed */
    torch_state_free(&st);
    scene_fini(&s);
}

static void one_may_not_close_it_alone(void **state)
{
    struct scene s;
    const char *seen, *wanted;

    (void)state;
    train(&s, 2);
    s.settings.close_needs_all = true;
    seen = look(&s, 0);
    wanted = scene_closing(&s, seen);
    assert_string_equal(scene_cas(&s, &s.agents[0], seen, wanted), wanted);
    assert_false(s.run.view.state.closed);
    assert_non_null(scene_note(&s, NOTE_CLOSE_IGNORED));
    seen = look(&s, 1);
    scene_cas(&s, &s.agents[1], seen, scene_closing(&s, seen));
    assert_true(s.run.view.state.closed);
    scene_fini(&s);
}

/* Whatever it means, it is not about the others. */
static void what_is_not_understood_is_refused(void **state)
{
    struct scene s;

    (void)state;
    for (int what = 0; what < 6; what++) {
        const char *seen, *before;
        struct torch_state st;

        train(&s, 2);
        before = scene_copy(scene_get(&s, ""));
        seen = look(&s, 0);
        st = scene_state(seen);
        scene_beat(&st, "a", scene_now_us(&s) + 1);
        if (what == 0)
            st.round++;
        else if (what == 1)
            scene_node(&st, "x")->participant = true;
        else if (what == 2)
            scene_node(&st, "a")->rank = 5;
        else if (what == 3)
            scene_beat(&st, "b", scene_now_us(&s));
        else if (what == 4)
            st.complete = false;
        else
            scene_beat(&st, "a", scene_now_us(&s) - 100 * SECOND);
        assert_string_equal(scene_cas(&s, &s.agents[0], seen, scene_text(&s, &st)), before);
        assert_string_equal(scene_get(&s, ""), before);
        assert_null(s.agents[0].shown.ptr); /* the next attempt is relative to the state */
        scene_fini(&s);
    }
}

/* It was frozen, and the others have met without it. */
static void what_has_passed_is_refused(void **state)
{
    static const char *(*const texts[])(struct scene *, const char *, const char *) = {
        scene_beating,
        scene_leaving,
    };

    (void)state;
    for (size_t what = 0; what < COUNT(texts); what++) {
        const char *seen, *answer;
        struct scene s;

        train(&s, 2);
        seen = look(&s, 0);
        scene_pass(&s, 1000);
        scene_next_round(&s, 2);
        answer = scene_cas(&s, &s.agents[0], seen, texts[what](&s, seen, "a"));
        assert_string_equal(answer, scene_get(&s, ""));
        assert_int_equal(s.run.view.state.round, 1);
        assert_int_equal(scene_participants(&s), 2);
        scene_fini(&s);
    }
}

/* The others presumed it dead meanwhile: it is put back, and its heartbeat counts. */
static void one_that_was_pruned_is_put_back(void **state)
{
    struct scene s;
    const char *seen, *now;
    struct torch_state st;

    (void)state;
    train(&s, 3);
    seen = look(&s, 0);
    scene_pass(&s, 20000);
    look(&s, 1);
    look(&s, 2);
    now = scene_get(&s, "");
    st = scene_state(now);
    scene_remove(&st, "a");
    scene_beat(&st, "b", scene_now_us(&s));
    scene_cas(&s, &s.agents[1], now, scene_text(&s, &st));
    assert_int_equal(scene_participants(&s), 2);
    scene_cas(&s, &s.agents[0], seen, scene_beating(&s, seen, "a"));
    assert_true(scene_node_now(&s, "a").participant);
    assert_int_equal(scene_node_now(&s, "a").heartbeat_us, scene_now_us(&s));
    scene_fini(&s);
}

/* Its write that completed the round was answered when it was frozen. So by its own clock all are
 * silent, itself too, and it begins anew. */
static void a_frozen_one_reads_its_rank_among_the_silent(void **state)
{
    const char *seen, *next;
    struct torch_state st;
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    seen = scene_copy(scene_get(&s, ""));
    scene_pass(&s, 19000);
    st = scene_state(NULL);
    st.round = 1;
    scene_beat(&st, "b", scene_now_us(&s));
    scene_node(&st, "b")->participant = true;
    next = scene_text(&s, &st);
    st = scene_state(scene_cas(&s, &s.agents[1], seen, next));
    assert_true(st.complete && st.round == 0);
    assert_int_equal(torch_state_participants(&st), 3);
    assert_int_equal(scene_node(&st, "b")->rank, 1);
    for (size_t i = 0; i < st.count; i++)
        assert_true(!st.nodes[i].has_heartbeat ||
                    st.nodes[i].heartbeat_us > scene_now_us(&s) - 15 * SECOND);
    torch_state_free(&st);
    next = scene_cas(&s, &s.agents[1], seen, next);
    assert_string_equal(next, scene_get(&s, ""));
    scene_fini(&s);
}

/* It was shown the round as it was completed, since "a" was lost, and was frozen before it could
 * read that: all are dead to its mind, and it begins anew. A little later it knows its rank, and
 * what it writes means something else. */
static void what_a_frozen_one_was_shown_of_its_rank_does_not_count(void **state)
{
    (void)state;
    for (int frozen = 0; frozen < 2; frozen++) {
        const char *seen;
        struct torch_state st;
        struct scene s;

        scene_init(&s);
        scene_meet(&s, 3);
        scene_disconnect(&s, &s.agents[0]);
        seen = look(&s, 1);
        scene_pass(&s, frozen ? 16000 : 8000);
        st = scene_state(NULL);
        st.round = 1;
        scene_beat(&st, "b", scene_now_us(&s));
        scene_node(&st, "b")->participant = true;
        st = scene_state(scene_cas(&s, &s.agents[1], seen, scene_text(&s, &st)));
        assert_true(st.complete && st.round == 0);
        assert_int_equal(torch_state_participants(&st), frozen ? 3 : 2);
        assert_int_equal(scene_node(&st, "b")->rank, 1);
        torch_state_free(&st);
        scene_fini(&s);
    }
}

/* "a" lives by the clocks here, and is dead by that of the agent that gets the answer, or as soon
 * as it comes. */
static void who_completes_a_round_reads_its_rank_among_the_almost_silent(void **state)
{
    const char *now, *next;
    struct torch_state st;
    struct scene s;

    (void)state;
    scene_init(&s);
    for (size_t i = 0; i < 2; i++)
        scene_cas(&s, scene_connect(&s, true), "", SENTINEL);
    scene_cas(&s, &s.agents[0], SENTINEL, scene_joined(&s, SENTINEL, "a"));
    scene_pass(&s, 14900);
    now = scene_copy(scene_get(&s, ""));
    next = scene_completed(&s, now, "b");
    st = scene_state(scene_cas(&s, &s.agents[1], now, next));
    assert_true(s.run.view.state.complete);
    assert_int_equal(torch_state_participants(&st), 2);
    assert_int_equal(scene_node(&st, "b")->rank, 1);
    assert_int_equal(scene_node(&st, "a")->heartbeat_us, scene_now_us(&s));
    torch_state_free(&st);
    scene_fini(&s);
}

static void one_that_takes_others_out_is_answered_what_it_wrote(void **state)
{
    const char *now, *next;
    struct torch_state st;
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    now = scene_copy(scene_get(&s, ""));
    st = scene_state(now);
    scene_remove(&st, "a");
    scene_beat(&st, "c", scene_now_us(&s));
    next = scene_text(&s, &st);
    assert_string_equal(scene_cas(&s, &s.agents[2], now, next), next);
    scene_fini(&s);
}

/* --- Clocks. --- */

/* Joins by its own clock, from what it is shown. */
static const char *join_by_clock(struct scene *s, size_t i, int64_t ahead_us, bool completes)
{
    const char *seen = look(s, i);
    struct torch_state st = scene_state(seen);

    for (size_t k = 0; k < st.count; k++) /* it would presume these dead */
        assert_true(!st.nodes[k].has_heartbeat ||
                    st.nodes[k].heartbeat_us > scene_now_us(s) + ahead_us - 15 * SECOND);
    scene_beat(&st, scene_name(i), scene_now_us(s) + ahead_us);
    scene_node(&st, scene_name(i))->participant = true;
    if (completes)
        scene_complete(&st);
    return scene_cas(s, &s->agents[i], seen, scene_text(s, &st));
}

static void meet_by_clock(struct scene *s, const int64_t *ahead_us, size_t count)
{
    scene_init(s);
    for (size_t i = 0; i < count; i++) {
        scene_connect(s, true);
        scene_cas(s, &s->agents[i], "", SENTINEL);
    }
    for (size_t i = 0; i < count; i++)
        join_by_clock(s, i, ahead_us[i], i + 1 == count);
}

static void clocks_may_be_wrong(void **state)
{
    static const int64_t ahead_us[] = {0, 2 * MINUTE, -2 * MINUTE, SECOND};
    struct scene s;

    (void)state;
    meet_by_clock(&s, ahead_us, 4);
    assert_true(s.run.view.state.complete);
    assert_int_equal(scene_participants(&s), 4);
    for (size_t i = 0; i < 4; i++) {
        struct torch_state st = scene_state(look(&s, i));

        assert_int_equal(st.count, 4);
        assert_int_equal(scene_node_now(&s, scene_name(i)).heartbeat_us,
                         scene_now_us(&s) + ahead_us[i]);
        for (size_t k = 0; k < 4; k++)
            assert_in_range(st.nodes[k].heartbeat_us, scene_now_us(&s) + ahead_us[i] - 2 * SECOND,
                            scene_now_us(&s) + ahead_us[i] + 2 * SECOND);
        torch_state_free(&st);
    }
    scene_fini(&s);
}

/* What it makes of the times that it sees is put as the others have written it. */
static void times_are_moved_back(void **state)
{
    static const int64_t ahead_us[] = {0, 2 * MINUTE};
    struct torch_state st;
    const char *seen;
    int64_t a_us;
    struct scene s;

    (void)state;
    meet_by_clock(&s, ahead_us, 2);
    a_us = scene_node_now(&s, "a").heartbeat_us;
    seen = look(&s, 1);
    st = scene_state(seen);
    st.round++;
    st.complete = false;
    st.has_deadline = true;
    st.deadline_us = scene_now_us(&s) + 2 * MINUTE + 30 * SECOND;
    scene_cas(&s, &s.agents[1], seen, scene_text(&s, &st));
    assert_int_equal(s.run.view.state.round, 1);
    assert_int_equal(scene_node_now(&s, "a").heartbeat_us, a_us);
    scene_fini(&s);
}

/* "a" joins by a clock that is two minutes ahead, and sets a deadline in 30 s. */
static void join_and_set_deadline(struct scene *s)
{
    struct torch_state st;
    const char *seen;

    scene_cas(s, scene_connect(s, true), "", SENTINEL);
    join_by_clock(s, 0, 2 * MINUTE, false);
    st = scene_state_now(s);
    seen = scene_copy(scene_get(s, ""));
    st.has_deadline = true;
    st.deadline_us = scene_now_us(s) + 2 * MINUTE + 30 * SECOND;
    scene_cas(s, &s->agents[0], seen, scene_text(s, &st));
}

static int64_t deadline_seen(struct scene *s, size_t i)
{
    struct torch_state st = scene_state(look(s, i));
    int64_t us = st.deadline_us - scene_now_us(s);

    assert_true(st.has_deadline);
    torch_state_free(&st);
    return us;
}

static void a_deadline_is_seen_by_each_clock(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    join_and_set_deadline(&s);
    scene_cas(&s, scene_connect(&s, true), "", SENTINEL);
    assert_int_equal(deadline_seen(&s, 1), 30 * SECOND); /* has not joined, so it sees all */
    scene_pass(&s, 31000);
    assert_int_equal(deadline_seen(&s, 0), 2 * MINUTE - SECOND); /* is to complete the round */
    scene_fini(&s);
}

/* The daemon has forgotten whose clock it was. */
static void a_deadline_stays_what_it_is_after_a_start(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    s.settings.drop_disconnected = false;
    join_and_set_deadline(&s);
    scene_disconnect(&s, &s.agents[0]);
    scene_event(&s, RUN_RESTORED, NULL);
    scene_cas(&s, scene_connect(&s, true), "", SENTINEL);
    assert_int_equal(deadline_seen(&s, 1), 30 * SECOND);
    scene_fini(&s);
}

/* A request that was long under way says nothing about a clock. */
static void a_late_heartbeat_is_no_wrong_clock(void **state)
{
    struct scene s;
    const char *seen, *late;

    (void)state;
    train(&s, 2);
    seen = look(&s, 0);
    scene_pass(&s, 5000);
    late = scene_beating(&s, seen, "a");
    scene_pass(&s, 8000);
    scene_cas(&s, &s.agents[0], seen, late);
    assert_int_equal(s.agents[0].skew_us, 0);
    assert_int_equal(s.run.skewed, 0);
    assert_int_equal(s.agents[0].clock_ahead_us, 0); /* else what is put for it would be old */
    scene_fini(&s);
}

/* "a" was shown the heartbeat of "b" when the clock of that one was taken for wrong, and writes
 * when it has turned out to be right. */
static void the_moved_heartbeat_of_another_one_names_no_writer(void **state)
{
    static const int64_t ahead_us[] = {0, -2 * MINUTE};
    struct torch_state st;
    const char *seen;
    struct scene s;

    (void)state;
    meet_by_clock(&s, ahead_us, 2);
    seen = scene_joined(&s, SENTINEL, "a");
    seen = scene_cas(&s, &s.agents[0], seen, scene_leaving(&s, seen, "a")); /* it writes next */
    st = scene_state(look(&s, 1));
    scene_beat(&st, "b", scene_now_us(&s) - SECOND);
    scene_cas(&s, &s.agents[1], look(&s, 1), scene_text(&s, &st));
    assert_int_equal(s.run.skewed, 0);
    scene_cas(&s, &s.agents[0], seen, scene_leaving(&s, seen, "a"));
    assert_int_equal(scene_participants(&s), 1);
    assert_int_equal(scene_node_now(&s, "b").heartbeat_us, scene_now_us(&s));
    assert_true(s.agents[0].is_listed && slice_is(s.agents[0].node.addr, "a"));
    assert_true(s.agents[1].is_listed && slice_is(s.agents[1].node.addr, "b"));
    scene_fini(&s);
}

/* No agent of torch does that. */
static void one_that_writes_the_heartbeat_of_another_stays_who_it_is(void **state)
{
    struct scene s;
    const char *seen;

    (void)state;
    train(&s, 2);
    seen = scene_copy(scene_get(&s, ""));
    scene_pass(&s, 1000);
    scene_cas(&s, &s.agents[0], seen, scene_beating(&s, seen, "b"));
    assert_int_equal(scene_node_now(&s, "b").heartbeat_us, scene_now_us(&s));
    assert_true(s.agents[0].is_listed && slice_is(s.agents[0].node.addr, "a"));
    assert_true(s.agents[1].is_listed && slice_is(s.agents[1].node.addr, "b"));
    scene_fini(&s);
}

/* One that has been started again has the heartbeat of its predecessor, and leaves its place. */
static void a_new_agent_is_not_dead_by_its_own_clock(void **state)
{
    struct scene s;
    struct torch_state st;
    const char *seen;

    (void)state;
    train(&s, 2);
    s.settings.drop_disconnected = false;
    scene_disconnect(&s, &s.agents[0]);
    scene_pass(&s, 3000);
    scene_connect(&s, true);
    scene_cas(&s, &s.agents[2], "", SENTINEL);
    seen = look(&s, 2);
    st = scene_state(seen);
    assert_int_equal(st.count, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(st.nodes[i].heartbeat_us > scene_now_us(&s) + 1000 * MINUTE);
    torch_state_free(&st);
    scene_cas(&s, &s.agents[2], seen, scene_leaving(&s, seen, "a"));
    assert_int_equal(scene_participants(&s), 1);
    assert_true(scene_node_now(&s, "b").has_heartbeat);
    assert_true(scene_node_now(&s, "b").heartbeat_us < scene_now_us(&s));
    scene_fini(&s);
}

/* Its first heartbeat tells its clock: else it would learn only then that it has joined one that is
 * silent. */
static void a_new_agent_takes_the_silent_for_dead_by_any_clock(void **state)
{
    struct scene s;
    struct torch_state st;
    const char *seen;

    (void)state;
    train(&s, 2);
    s.settings.drop_disconnected = false;
    scene_pass(&s, 20000);
    look(&s, 1);
    scene_cas(&s, scene_connect(&s, true), "", SENTINEL);
    seen = look(&s, 2);
    st = scene_state(seen);
    assert_true(scene_node(&st, "a")->heartbeat_us < scene_now_us(&s) - 1000 * MINUTE);
    assert_true(scene_node(&st, "b")->heartbeat_us > scene_now_us(&s) + 1000 * MINUTE);
    torch_state_free(&st);
    st = scene_state(seen);
    scene_remove(&st, "a");
    scene_node(&st, "c")->waiting = true;
    scene_beat(&st, "c", scene_now_us(&s) - 2 * MINUTE);
    scene_cas(&s, &s.agents[2], seen, scene_text(&s, &st));
    assert_false(scene_node_now(&s, "a").has_heartbeat);
    assert_true(scene_node_now(&s, "c").waiting);
    assert_in_range(scene_node_now(&s, "b").heartbeat_us, scene_now_us(&s) - SECOND,
                    scene_now_us(&s));
    scene_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_whole_until_the_rank_is_read),
        cmocka_unit_test(has_heartbeats_of_one_age_before_the_rank_is_read),
        cmocka_unit_test(stays_the_same_bytes_and_needs_no_step),
        cmocka_unit_test(an_own_heartbeat_that_is_old_is_renewed),
        cmocka_unit_test(has_one_of_those_who_wait),
        cmocka_unit_test(has_the_mark_of_a_loss),
        cmocka_unit_test(one_who_waits_sees_the_silent),
        cmocka_unit_test(who_has_joined_sees_itself),
        cmocka_unit_test(one_completes_the_round),
        cmocka_unit_test(one_with_a_successor_sees_the_state),
        cmocka_unit_test(heartbeats_are_put_together),
        cmocka_unit_test(heartbeats_are_put_before_the_value_is_shown),
        cmocka_unit_test(heartbeats_are_in_what_is_put_later),
        cmocka_unit_test(one_leaves_and_waits),
        cmocka_unit_test(the_last_to_leave_begins_the_next_round),
        cmocka_unit_test(a_rank_is_read_in_the_round_as_it_was_completed),
        cmocka_unit_test(a_rank_is_read_in_the_answer_to_a_write),
        cmocka_unit_test(one_closes_the_run),
        cmocka_unit_test(one_may_not_close_it_alone),
        cmocka_unit_test(what_is_not_understood_is_refused),
        cmocka_unit_test(what_has_passed_is_refused),
        cmocka_unit_test(one_that_was_pruned_is_put_back),
        cmocka_unit_test(a_frozen_one_reads_its_rank_among_the_silent),
        cmocka_unit_test(what_a_frozen_one_was_shown_of_its_rank_does_not_count),
        cmocka_unit_test(who_completes_a_round_reads_its_rank_among_the_almost_silent),
        cmocka_unit_test(one_that_takes_others_out_is_answered_what_it_wrote),
        cmocka_unit_test(clocks_may_be_wrong),
        cmocka_unit_test(times_are_moved_back),
        cmocka_unit_test(a_deadline_is_seen_by_each_clock),
        cmocka_unit_test(a_deadline_stays_what_it_is_after_a_start),
        cmocka_unit_test(a_late_heartbeat_is_no_wrong_clock),
        cmocka_unit_test(the_moved_heartbeat_of_another_one_names_no_writer),
        cmocka_unit_test(one_that_writes_the_heartbeat_of_another_stays_who_it_is),
        cmocka_unit_test(a_new_agent_is_not_dead_by_its_own_clock),
        cmocka_unit_test(a_new_agent_takes_the_silent_for_dead_by_any_clock),
    };

    return cmocka_run_group_tests_name("shown", tests, NULL, NULL);
}
