/* An agent to which the others are but a number: when it is shown that, and what becomes of what it
 * writes then. Whatever it writes: test_crowd_any.c. */
#include "tests/unit/rendezvous/scene.h"

#define SILENT_US (20 * SECOND)

static void silence(struct scene *s, const char *name)
{
    struct torch_state st = scene_state_now(s);

    scene_beat(&st, name, scene_now_us(s) - SILENT_US);
    scene_put_state(s, &st);
}

/* --- Who is shown a crowd. --- */

static bool is_shown_crowd(struct scene *s, size_t i)
{
    return !scene_names(scene_look(s, &s->agents[i]), "a");
}

static void change_nothing(struct scene *s, struct torch_state *st)
{
    (void)s;
    (void)st;
}

static void stay_unknown(struct scene *s, struct torch_state *st)
{
    (void)st;
    s->agents[2].is_introduced = false; /* as a tool, which asks for no key to be made */
}

static void have_successor(struct scene *s, struct torch_state *st)
{
    scene_node(st, "c")->waiting = true;
    scene_beat(st, "c", scene_now_us(s));
    s->agents[2].has_node = true;
    s->agents[2].node = (struct torch_node){.addr = slice_str("c"), .pid = 100};
}

static void close_it(struct scene *s, struct torch_state *st)
{
    (void)s;
    st->closed = true;
}

static void be_few(struct scene *s, struct torch_state *st)
{
    (void)st;
    s->settings.crowd_least = 3;
}

static void have_one_waiting(struct scene *s, struct torch_state *st)
{
    scene_node(st, "d")->waiting = true;
    scene_beat(st, "d", scene_now_us(s));
}

static void be_silent(struct scene *s, struct torch_state *st)
{
    scene_beat(st, "b", scene_now_us(s) - SILENT_US);
}

static void be_complete(struct scene *s, struct torch_state *st)
{
    (void)s;
    scene_complete(st);
}

/* "c" is about to join "a" and "b". */
static void one_that_joins_is_shown_it_unless(void **state)
{
    static const struct {
        void (*change)(struct scene *s, struct torch_state *st);
        bool is_crowd;
    } cases[] = {
        {change_nothing, true}, {stay_unknown, false}, {have_successor, false},
        {close_it, false},      {be_few, false},       {have_one_waiting, true},
        {be_silent, false},     {be_complete, false}, /* then it is to wait, and is no participant
                                                       * that looks for its rank
                                                       */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct torch_state st;
        struct scene s;

        scene_begin_crowd(&s, 3);
        st = scene_state_now(&s);
        cases[i].change(&s, &st);
        scene_put_state(&s, &st);
        assert_int_equal(is_shown_crowd(&s, 2), cases[i].is_crowd);
        s.agents[2].has_node = false;
        scene_fini(&s);
    }
}

/* It is written once for all of them, and anew when anything has changed. */
static void all_who_join_are_shown_the_same(void **state)
{
    struct scene s;
    const uint8_t *kept;

    (void)state;
    scene_begin_crowd(&s, 4);
    scene_look(&s, &s.agents[2]);
    kept = s.run.crowd.text.ptr;
    assert_non_null(kept);
    scene_look(&s, &s.agents[3]);
    assert_ptr_equal(s.run.crowd.text.ptr, kept);
    scene_disconnect(&s, &s.agents[1]);
    assert_int_equal(s.run.view.participants, 1);
    s.settings.crowd_least = 1;
    scene_look(&s, &s.agents[3]);
    assert_int_equal(s.run.crowd.changes, s.run.view.changes);
    scene_cas(&s, &s.agents[3], scene_look(&s, &s.agents[3]),
              scene_completed(&s, scene_look(&s, &s.agents[3]), "d"));
    assert_true(s.run.view.state.complete);
    assert_null(s.run.crowd.text.ptr);
    scene_fini(&s);
}

/* --- One that waits, when the round that it waits for has begun. --- */

enum place {
    IS_WAITING,
    IS_SPARE,
    HAS_JOINED,
    HAS_NO_HEARTBEAT,
    WAITS_AND_IS_SPARE, /* torch writes neither of these */
    WAITS_AND_HAS_JOINED,
};

/* "c" waits, and all but it have left the round; so many of them have joined the next one. */
static void begin_with_waiting(struct scene *s, size_t joined, enum place place)
{
    struct torch_state st;

    scene_init(s);
    s->settings.crowd_least = 2;
    scene_meet(s, 2);
    scene_cas(s, scene_connect(s, true), "", SENTINEL);
    st = scene_state_now(s);
    scene_node(&st, "c")->waiting = true;
    scene_beat(&st, "c", scene_now_us(s));
    scene_cas(s, &s->agents[2], scene_get(s, ""), scene_text(s, &st));
    assert_true(s->agents[2].has_node);
    st = scene_state_now(s);
    st.round++;
    st.complete = false;
    for (size_t i = 0; i < 2; i++)
        scene_node(&st, scene_name(i))->participant = i < joined;
    scene_node(&st, "c")->waiting = place != IS_SPARE && place != HAS_JOINED;
    scene_node(&st, "c")->redundant = place == IS_SPARE || place == WAITS_AND_IS_SPARE;
    scene_node(&st, "c")->participant = place == HAS_JOINED || place == WAITS_AND_HAS_JOINED;
    scene_node(&st, "c")->has_heartbeat = place != HAS_NO_HEARTBEAT;
    scene_put_state(s, &st);
}

static void one_that_waits_sees_itself_among_them(void **state)
{
    struct scene s;
    const char *seen;
    struct torch_state st;

    (void)state;
    begin_with_waiting(&s, 2, IS_WAITING);
    seen = scene_look(&s, &s.agents[2]);
    assert_false(scene_names(seen, "a"));
    st = scene_state(seen);
    assert_int_equal(torch_state_participants(&st), 2);
    assert_true(scene_node(&st, "c")->waiting && scene_node(&st, "c")->has_heartbeat);
    scene_node(&st, "c")->waiting = false;
    seen = scene_copy(seen);
    scene_cas(&s, &s.agents[2], seen, scene_joined(&s, scene_text(&s, &st), "c"));
    assert_true(scene_node_now(&s, "c").participant);
    assert_false(scene_node_now(&s, "c").waiting);
    assert_int_equal(scene_participants(&s), 3);
    scene_fini(&s);
}

/* All have left the round, and wait: then none of them is shown all the others. */
static void one_that_is_to_be_the_first_sees_itself_alone(void **state)
{
    struct scene s;
    const char *seen;
    struct torch_state st;

    (void)state;
    begin_with_waiting(&s, 0, IS_WAITING);
    st = scene_state_now(&s);
    for (size_t i = 0; i < 2; i++)
        scene_node(&st, scene_name(i))->waiting = true;
    scene_put_state(&s, &st);
    seen = scene_look(&s, &s.agents[2]);
    st = scene_state(seen);
    assert_int_equal(st.count, 1);
    assert_true(scene_node(&st, "c")->waiting);
    scene_node(&st, "c")->waiting = false;
    scene_cas(&s, &s.agents[2], seen, scene_joined(&s, scene_text(&s, &st), "c"));
    assert_true(scene_node_now(&s, "a").waiting && scene_node_now(&s, "b").waiting);
    assert_true(scene_node_now(&s, "c").participant && !scene_node_now(&s, "c").waiting);
    scene_fini(&s);
}

static void one_in_another_place_sees_the_state(void **state)
{
    static const enum place places[] = {IS_SPARE, HAS_NO_HEARTBEAT, WAITS_AND_IS_SPARE,
                                        WAITS_AND_HAS_JOINED};

    (void)state;
    for (size_t i = 0; i < COUNT(places); i++) {
        struct scene s;

        begin_with_waiting(&s, 2, places[i]);
        assert_false(is_shown_crowd(&s, 2));
        scene_fini(&s);
    }
}

/* That is what shown.c has for it: itself. */
static void one_that_has_joined_sees_no_crowd(void **state)
{
    struct scene s;
    struct torch_state st;

    (void)state;
    begin_with_waiting(&s, 2, HAS_JOINED);
    st = scene_state(scene_look(&s, &s.agents[2]));
    assert_int_equal(st.count, 1);
    torch_state_free(&st);
    scene_fini(&s);
}

/* --- One that looks for its rank. --- */

static struct torch_state ranked(struct scene *s, size_t i)
{
    return scene_state(scene_look(s, &s->agents[i]));
}

static void one_that_looks_for_its_rank_sees_itself_among_them(void **state)
{
    struct scene s;
    struct torch_state st;

    (void)state;
    scene_init(&s);
    s.settings.crowd_least = 2;
    scene_meet(&s, 3);
    st = ranked(&s, 1);
    assert_true(st.complete);
    assert_int_equal(torch_state_participants(&st), 3);
    assert_int_equal(scene_node(&st, "b")->rank, 1);
    assert_int_equal(scene_node(&st, "b")->heartbeat_us, scene_node_now(&s, "b").heartbeat_us);
    assert_int_equal(st.count, 3);
    torch_state_free(&st);
    scene_set(&s, &s.agents[1], 0, "torchelastic/role_info/1", "x"); /* it has it */
    st = ranked(&s, 1);
    assert_int_equal(st.count, 1);
    torch_state_free(&st);
    scene_fini(&s);
}

static void it_sees_one_of_those_who_wait_while_that_one_lives(void **state)
{
    struct scene s;
    struct torch_state st;

    (void)state;
    scene_init(&s);
    s.settings.crowd_least = 2;
    scene_meet(&s, 3);
    st = scene_state_now(&s);
    have_one_waiting(&s, &st);
    scene_put_state(&s, &st);
    st = ranked(&s, 1);
    assert_false(scene_node(&st, "d")->waiting); /* the others do not see it yet */
    torch_state_free(&st);
    s.run.meeting.phase = MEETING_OPEN;
    st = ranked(&s, 1);
    assert_true(scene_node(&st, "d")->waiting && !scene_node(&st, "d")->has_heartbeat);
    assert_int_equal(torch_state_participants(&st), 3);
    torch_state_free(&st);
    silence(&s, "d");
    st = ranked(&s, 1);
    assert_false(scene_node(&st, "d")->waiting);
    torch_state_free(&st);
    scene_fini(&s);
}

static void have_one_waiting_in_vain(struct scene *s, struct torch_state *st)
{
    scene_node(st, "d")->waiting = true;
    scene_beat(st, "d", scene_now_us(s) - SILENT_US);
}

/* One that it presumed dead would make its rank too high. It sees the crowd, or the round as that
 * was completed. */
static void it_sees_nobody_who_is_silent(void **state)
{
    static void (*const changes[])(struct scene *, struct torch_state *) = {
        change_nothing, have_one_waiting, have_one_waiting_in_vain};

    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct torch_state st;
        struct scene s;

        scene_init(&s);
        s.settings.crowd_least = 2;
        scene_meet(&s, 3);
        st = scene_state_now(&s);
        scene_beat(&st, "a", scene_now_us(&s) - SILENT_US);
        changes[i](&s, &st);
        scene_put_state(&s, &st);
        st = ranked(&s, 1);
        assert_true(st.complete);
        assert_int_equal(torch_state_participants(&st), 3);
        assert_int_equal(scene_node(&st, "b")->rank, 1);
        for (size_t k = 0; k < st.count; k++)
            assert_true(!st.nodes[k].has_heartbeat ||
                        st.nodes[k].heartbeat_us > scene_now_us(&s) - 15 * SECOND);
        torch_state_free(&st);
        scene_fini(&s);
    }
}

static void of_few_it_sees_the_state(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    s.settings.crowd_least = 4;
    scene_meet(&s, 3);
    assert_false(is_shown_crowd(&s, 1));
    scene_fini(&s);
}

/* --- What is taken of what it writes. --- */

static void one_joins_a_crowd(void **state)
{
    struct scene s;
    const char *seen;

    (void)state;
    scene_begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    assert_false(scene_names(seen, "a"));
    scene_cas(&s, &s.agents[2], seen, scene_joined(&s, seen, "c"));
    assert_int_equal(scene_participants(&s), 3);
    assert_true(scene_node_now(&s, "a").participant && scene_node_now(&s, "b").participant);
    assert_int_equal(scene_node_now(&s, "c").heartbeat_us, scene_now_us(&s));
    assert_false(s.run.view.state.complete);
    scene_fini(&s);
}

/* MIN and MAX are for agents to know, so each has to have counted all before it. */
static void who_has_counted_too_few_is_refused(void **state)
{
    struct scene s;
    const char *seen, *again;

    (void)state;
    scene_begin_crowd(&s, 4);
    seen = scene_look(&s, &s.agents[2]);
    assert_string_equal(scene_look(&s, &s.agents[3]), seen);
    scene_cas(&s, &s.agents[2], seen, scene_joined(&s, seen, "c"));
    again = scene_cas(&s, &s.agents[3], seen, scene_completed(&s, seen, "d"));
    assert_int_equal(scene_participants(&s), 3);
    assert_false(s.run.view.state.complete);
    scene_cas(&s, &s.agents[3], again, scene_completed(&s, again, "d"));
    assert_int_equal(scene_participants(&s), 4);
    scene_fini(&s);
}

/* One of them has joined in the meantime, and another one has left. */
static void who_has_counted_as_many_joins(void **state)
{
    struct scene s;
    const char *seen;
    struct torch_state st;

    (void)state;
    scene_begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    st = scene_state_now(&s);
    scene_remove(&st, "a");
    scene_node(&st, "d")->participant = true;
    scene_beat(&st, "d", scene_now_us(&s));
    scene_put_state(&s, &st);
    scene_cas(&s, &s.agents[2], seen, scene_joined(&s, seen, "c"));
    assert_false(scene_node_now(&s, "a").participant);
    assert_true(scene_node_now(&s, "b").participant && scene_node_now(&s, "c").participant &&
                scene_node_now(&s, "d").participant);
    scene_fini(&s);
}

static void the_last_of_a_crowd_completes_the_round(void **state)
{
    struct scene s;
    const char *seen;
    struct torch_state st;

    (void)state;
    scene_begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    scene_cas(&s, &s.agents[2], seen, scene_completed(&s, seen, "aa"));
    assert_true(s.run.view.state.complete && s.run.reached_max);
    assert_int_equal(scene_node_now(&s, "a").rank, 0);
    assert_int_equal(scene_node_now(&s, "aa").rank, 1);
    assert_int_equal(scene_node_now(&s, "b").rank, 2);
    st = ranked(&s, 1);
    assert_int_equal(torch_state_participants(&st), 3);
    assert_int_equal(scene_node(&st, "b")->rank, 2);
    assert_false(scene_node(&st, "a")->participant);
    torch_state_free(&st);
    scene_fini(&s);
}

/* In the second since the others were looked at. */
static void no_round_is_completed_with_one_that_is_silent(void **state)
{
    struct scene s;
    const char *seen;

    (void)state;
    scene_begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    silence(&s, "b");
    seen = scene_cas(&s, &s.agents[2], seen, scene_completed(&s, seen, "c"));
    assert_true(scene_names(seen, "b"));
    assert_false(s.run.view.state.complete);
    assert_int_equal(scene_participants(&s), 2);
    scene_fini(&s);
}

/* With the MIN-th it begins; that one alone knows when that is. */
static void a_deadline_is_taken_and_another_one_stays(void **state)
{
    for (int has = 0; has < 2; has++) {
        struct scene s;
        const char *seen;
        struct torch_state st;
        int64_t before_us, us;

        (void)state;
        scene_begin_crowd(&s, 3);
        before_us = scene_now_us(&s) + 7 * SECOND;
        us = scene_now_us(&s) + 30 * SECOND;
        st = scene_with_deadline(scene_state_now(&s), before_us);
        scene_put_state(&s, &st);
        seen = scene_look(&s, &s.agents[2]);
        st = scene_state(scene_joined(&s, seen, "c"));
        assert_false(st.has_deadline);
        if (has)
            st = scene_with_deadline(st, us);
        scene_cas(&s, &s.agents[2], seen, scene_text(&s, &st));
        assert_int_equal(scene_participants(&s), 3);
        assert_int_equal(s.run.view.state.deadline_us, has ? us : before_us);
        scene_fini(&s);
    }
}

/* It has counted its predecessor, whose connection has not ended yet. */
static void one_with_a_predecessor_in_the_crowd_sees_the_state(void **state)
{
    struct scene s;
    const char *seen;

    (void)state;
    scene_begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    seen = scene_cas(&s, &s.agents[2], seen, scene_completed(&s, seen, "b"));
    assert_true(scene_names(seen, "a") && scene_names(seen, "b"));
    assert_false(s.run.view.state.complete);
    assert_int_equal(scene_participants(&s), 2);
    scene_fini(&s);
}

static void another_round(struct torch_state *st)
{
    st->round++;
}

static void a_close(struct torch_state *st)
{
    st->closed = true;
}

static void two_who_join(struct torch_state *st)
{
    scene_node(st, "d")->participant = true;
    scene_beat(st, "d", 1);
}

static void two_who_join_for_one_of_the_crowd(struct torch_state *st)
{
    st->nodes[st->count - 1].participant = false; /* "c" is the first */
    two_who_join(st);
}

static void another_of_the_crowd(struct torch_state *st)
{
    struct torch_node who = st->nodes[st->count - 1], *at;

    who.pid = 77;
    assert_true(torch_state_insert(st, &who, &at));
}

static void one_of_the_crowd_less(struct torch_state *st)
{
    for (size_t i = 0; i < st->count; i++) {
        if (slice_is(st->nodes[i].addr, "c"))
            continue;
        st->nodes[i].participant = false;
        return;
    }
}

static void one_of_the_crowd_that_lives(struct torch_state *st)
{
    for (size_t i = 0; i < st->count; i++) {
        st->nodes[i].has_heartbeat = true;
        st->nodes[i].heartbeat_us = 1;
    }
}

static void itself_without_a_heartbeat(struct torch_state *st)
{
    scene_node(st, "c")->has_heartbeat = false;
}

static void itself_as_one_that_waits(struct torch_state *st)
{
    scene_node(st, "c")->participant = false;
    scene_node(st, "c")->waiting = true;
}

static void itself_in_two_lists(struct torch_state *st)
{
    scene_node(st, "c")->waiting = true;
}

static void itself_as_a_spare_too(struct torch_state *st)
{
    scene_node(st, "c")->redundant = true;
}

static void itself_as_one_of_the_crowd(struct torch_state *st)
{
    struct torch_node who = st->nodes[st->count - 1], *at;

    scene_remove(st, "c");
    who.pid = 78;
    who.has_heartbeat = true;
    who.heartbeat_us = 1;
    assert_true(torch_state_insert(st, &who, &at));
}

/* Refused with the state itself, and the next write counts, which is made of that. */
static void what_else_it_says_is_refused(void **state)
{
    static void (*const says[])(struct torch_state * st) = {
        another_round,
        a_close,
        two_who_join,
        two_who_join_for_one_of_the_crowd,
        another_of_the_crowd,
        one_of_the_crowd_less,
        one_of_the_crowd_that_lives,
        itself_without_a_heartbeat,
        itself_as_one_that_waits,
        itself_in_two_lists,
        itself_as_a_spare_too,
        itself_as_one_of_the_crowd,
    };

    (void)state;
    for (size_t i = 0; i < COUNT(says); i++) {
        const char *before, *seen;
        struct torch_state st;
        struct scene s;

        scene_begin_crowd(&s, 3);
        before = scene_copy(scene_get(&s, ""));
        seen = scene_look(&s, &s.agents[2]);
        st = scene_state(scene_joined(&s, seen, "c"));
        says[i](&st);
        seen = scene_cas(&s, &s.agents[2], seen, scene_text(&s, &st));
        assert_true(scene_names(seen, "a"));
        assert_string_equal(scene_get(&s, ""), before);
        assert_ptr_equal(s.run.slot.holder, &s.agents[2]);
        scene_cas(&s, &s.agents[2], seen, scene_joined(&s, seen, "c"));
        assert_int_equal(scene_participants(&s), 3);
        scene_fini(&s);
    }
}

static void what_is_no_state_is_refused(void **state)
{
    const char *seen, *before;
    struct scene s;

    (void)state;
    scene_begin_crowd(&s, 3);
    before = scene_copy(scene_get(&s, ""));
    seen = scene_look(&s, &s.agents[2]);
    assert_true(scene_names(scene_cas(&s, &s.agents[2], seen, "no state"), "a"));
    assert_string_equal(scene_get(&s, ""), before);
    scene_fini(&s);
}

/* It says what it may say, but not that it was shown the crowd. */
static void what_expects_anything_else_is_refused(void **state)
{
    const char *seen;
    struct scene s;

    (void)state;
    scene_begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    scene_cas(&s, &s.agents[2], scene_joined(&s, seen, "d"), scene_joined(&s, seen, "c"));
    assert_int_equal(scene_participants(&s), 2);
    scene_fini(&s);
}

/* It may have been shown anything since; what it says counts for what it was shown last. */
static void who_was_shown_the_state_since_is_refused(void **state)
{
    const char *seen;
    struct scene s;

    (void)state;
    scene_begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    s.settings.crowd_least = 3;
    scene_look(&s, &s.agents[2]);
    s.settings.crowd_least = 2;
    scene_cas(&s, &s.agents[2], seen, scene_completed(&s, seen, "c"));
    assert_false(s.run.view.state.complete);
    assert_int_equal(scene_participants(&s), 2);
    scene_fini(&s);
}

/* As any write while another agent is about to write. */
static void it_waits_for_the_write_slot(void **state)
{
    const char *seen;
    struct scene s;

    (void)state;
    scene_begin_crowd(&s, 4);
    scene_cas(&s, &s.agents[3], "of another run", scene_joined(&s, SENTINEL, "d"));
    assert_ptr_equal(s.run.slot.holder, &s.agents[3]);
    seen = scene_look(&s, &s.agents[2]);
    assert_null(scene_cas(&s, &s.agents[2], seen, scene_joined(&s, seen, "c")));
    assert_true(scene_has(&s, POLICY_HOLD, &s.agents[2]));
    scene_event(&s, AGENT_ASKED, &s.agents[3]);
    assert_true(scene_has(&s, POLICY_RESUME, &s.agents[2]));
    scene_cas(&s, &s.agents[2], seen, scene_joined(&s, seen, "c"));
    assert_true(scene_node_now(&s, "c").participant);
    assert_null(s.run.slot.holder);
    scene_fini(&s);
}

/* Then it tries with the state itself, and is told. */
static void a_full_space_takes_none(void **state)
{
    const char *seen;
    struct scene s;

    (void)state;
    scene_begin_crowd(&s, 3);
    s.room = 0;
    seen = scene_look(&s, &s.agents[2]);
    seen = scene_cas(&s, &s.agents[2], seen, scene_joined(&s, seen, "c"));
    assert_true(scene_names(seen, "a"));
    assert_int_equal(scene_participants(&s), 2);
    assert_null(scene_cas(&s, &s.agents[2], seen, scene_joined(&s, seen, "c")));
    assert_true(scene_has(&s, POLICY_NO_ROOM, &s.agents[2]));
    scene_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_joins_is_shown_it_unless),
        cmocka_unit_test(all_who_join_are_shown_the_same),
        cmocka_unit_test(one_that_waits_sees_itself_among_them),
        cmocka_unit_test(one_that_is_to_be_the_first_sees_itself_alone),
        cmocka_unit_test(one_in_another_place_sees_the_state),
        cmocka_unit_test(one_that_has_joined_sees_no_crowd),
        cmocka_unit_test(one_that_looks_for_its_rank_sees_itself_among_them),
        cmocka_unit_test(it_sees_one_of_those_who_wait_while_that_one_lives),
        cmocka_unit_test(it_sees_nobody_who_is_silent),
        cmocka_unit_test(of_few_it_sees_the_state),
        cmocka_unit_test(one_joins_a_crowd),
        cmocka_unit_test(who_has_counted_too_few_is_refused),
        cmocka_unit_test(who_has_counted_as_many_joins),
        cmocka_unit_test(the_last_of_a_crowd_completes_the_round),
        cmocka_unit_test(no_round_is_completed_with_one_that_is_silent),
        cmocka_unit_test(a_deadline_is_taken_and_another_one_stays),
        cmocka_unit_test(one_with_a_predecessor_in_the_crowd_sees_the_state),
        cmocka_unit_test(what_else_it_says_is_refused),
        cmocka_unit_test(what_is_no_state_is_refused),
        cmocka_unit_test(what_expects_anything_else_is_refused),
        cmocka_unit_test(who_was_shown_the_state_since_is_refused),
        cmocka_unit_test(it_waits_for_the_write_slot),
        cmocka_unit_test(a_full_space_takes_none),
    };

    return cmocka_run_group_tests_name("crowd", tests, NULL, NULL);
}
