/* An agent to which the others are but a number: when it is shown that, what becomes of what it
 * writes then, and that agents which follow torch's rules come to the same state as with the whole
 * one. */
#include "tests/sim/model_agent.h"
#include "tests/unit/rendezvous/scene.h"

#include <stdio.h>

#define SILENT_US (20 * SECOND)

static struct torch_node node_now(const struct scene *s, const char *name)
{
    const struct torch_node who = {.addr = slice_str(name), .pid = 100};
    struct torch_node *found = torch_state_find(&s->run.view.state, &who);

    return found == NULL ? (struct torch_node){0} : *found;
}

static bool names(const char *text, const char *name)
{
    const struct torch_node who = {.addr = slice_str(name), .pid = 100};
    struct torch_state st = scene_state(text);
    bool found = torch_state_find(&st, &who) != NULL;

    torch_state_free(&st);
    return found;
}

/* One that has joined as the next of those that it was shown. */
static const char *joining(struct scene *s, const char *seen, const char *name, bool complete)
{
    struct torch_state st = scene_state(seen);

    scene_node(&st, name)->participant = true;
    scene_beat(&st, name, scene_now_us(s));
    if (complete)
        scene_complete(&st);
    return scene_text(s, &st);
}

static void put_state(struct scene *s, struct torch_state *st)
{
    scene_put(s, "", scene_text(s, st));
    scene_step(s, (struct policy_event){.kind = RUN_CHANGED});
}

/* So many agents, who have introduced themselves; "a" and "b" have joined. */
static void begin_crowd(struct scene *s, size_t count)
{
    scene_init(s);
    s->settings.crowd_least = 2;
    for (size_t i = 0; i < count; i++)
        scene_cas(s, scene_connect(s, true), "", SENTINEL);
    scene_cas(s, &s->agents[0], SENTINEL, joining(s, SENTINEL, "a", false));
    scene_cas(s, &s->agents[1], scene_get(s, ""), scene_joined(s, scene_get(s, ""), "b"));
}

/* --- Who is shown a crowd. --- */

static bool is_shown_crowd(struct scene *s, size_t i)
{
    return !names(scene_look(s, &s->agents[i]), "a");
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

static void have_no_views(struct scene *s, struct torch_state *st)
{
    (void)st;
    s->settings.agent_views = false;
}

static void merge_nothing(struct scene *s, struct torch_state *st)
{
    (void)st;
    s->settings.merge_heartbeats = false;
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
        {change_nothing, true}, {stay_unknown, false},  {have_successor, false},
        {close_it, false},      {be_few, false},        {have_one_waiting, true},
        {be_silent, false},     {have_no_views, false}, {merge_nothing, false},
        {be_complete, false}, /* then it is to wait, and is no participant that looks for its rank
                               */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct torch_state st;
        struct scene s;

        begin_crowd(&s, 3);
        st = scene_state(scene_get(&s, ""));
        cases[i].change(&s, &st);
        put_state(&s, &st);
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
    begin_crowd(&s, 4);
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
              joining(&s, scene_look(&s, &s.agents[3]), "d", true));
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
    st = scene_state(scene_get(s, ""));
    scene_node(&st, "c")->waiting = true;
    scene_beat(&st, "c", scene_now_us(s));
    scene_cas(s, &s->agents[2], scene_get(s, ""), scene_text(s, &st));
    assert_true(s->agents[2].has_node);
    st = scene_state(scene_get(s, ""));
    st.round++;
    st.complete = false;
    for (size_t i = 0; i < 2; i++)
        scene_node(&st, scene_name(i))->participant = i < joined;
    scene_node(&st, "c")->waiting = place != IS_SPARE && place != HAS_JOINED;
    scene_node(&st, "c")->redundant = place == IS_SPARE || place == WAITS_AND_IS_SPARE;
    scene_node(&st, "c")->participant = place == HAS_JOINED || place == WAITS_AND_HAS_JOINED;
    scene_node(&st, "c")->has_heartbeat = place != HAS_NO_HEARTBEAT;
    put_state(s, &st);
}

static void one_that_waits_sees_itself_among_them(void **state)
{
    struct scene s;
    const char *seen;
    struct torch_state st;

    (void)state;
    begin_with_waiting(&s, 2, IS_WAITING);
    seen = scene_look(&s, &s.agents[2]);
    assert_false(names(seen, "a"));
    st = scene_state(seen);
    assert_int_equal(torch_state_participants(&st), 2);
    assert_true(scene_node(&st, "c")->waiting && scene_node(&st, "c")->has_heartbeat);
    scene_node(&st, "c")->waiting = false;
    seen = scene_copy(seen);
    scene_cas(&s, &s.agents[2], seen, joining(&s, scene_text(&s, &st), "c", false));
    assert_true(node_now(&s, "c").participant);
    assert_false(node_now(&s, "c").waiting);
    assert_int_equal(torch_state_participants(&s.run.view.state), 3);
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
    st = scene_state(scene_get(&s, ""));
    for (size_t i = 0; i < 2; i++)
        scene_node(&st, scene_name(i))->waiting = true;
    put_state(&s, &st);
    seen = scene_look(&s, &s.agents[2]);
    st = scene_state(seen);
    assert_int_equal(st.count, 1);
    assert_true(scene_node(&st, "c")->waiting);
    scene_node(&st, "c")->waiting = false;
    scene_cas(&s, &s.agents[2], seen, joining(&s, scene_text(&s, &st), "c", false));
    assert_true(node_now(&s, "a").waiting && node_now(&s, "b").waiting);
    assert_true(node_now(&s, "c").participant && !node_now(&s, "c").waiting);
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
    assert_int_equal(scene_node(&st, "b")->heartbeat_us, node_now(&s, "b").heartbeat_us);
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
    st = scene_state(scene_get(&s, ""));
    have_one_waiting(&s, &st);
    put_state(&s, &st);
    st = ranked(&s, 1);
    assert_true(scene_node(&st, "d")->waiting && !scene_node(&st, "d")->has_heartbeat);
    assert_int_equal(torch_state_participants(&st), 3);
    torch_state_free(&st);
    st = scene_state(scene_get(&s, ""));
    scene_beat(&st, "d", scene_now_us(&s) - SILENT_US);
    put_state(&s, &st);
    assert_false(is_shown_crowd(&s, 1));
    scene_fini(&s);
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
    begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    assert_false(names(seen, "a"));
    scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "c", false));
    assert_int_equal(torch_state_participants(&s.run.view.state), 3);
    assert_true(node_now(&s, "a").participant && node_now(&s, "b").participant);
    assert_int_equal(node_now(&s, "c").heartbeat_us, scene_now_us(&s));
    assert_false(s.run.view.state.complete);
    scene_fini(&s);
}

/* MIN and MAX are for agents to know, so each has to have counted all before it. */
static void who_has_counted_too_few_is_refused(void **state)
{
    struct scene s;
    const char *seen, *again;

    (void)state;
    begin_crowd(&s, 4);
    seen = scene_look(&s, &s.agents[2]);
    assert_string_equal(scene_look(&s, &s.agents[3]), seen);
    scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "c", false));
    again = scene_cas(&s, &s.agents[3], seen, joining(&s, seen, "d", true));
    assert_int_equal(torch_state_participants(&s.run.view.state), 3);
    assert_false(s.run.view.state.complete);
    scene_cas(&s, &s.agents[3], again, joining(&s, again, "d", true));
    assert_int_equal(torch_state_participants(&s.run.view.state), 4);
    scene_fini(&s);
}

/* One of them has joined in the meantime, and another one has left. */
static void who_has_counted_as_many_joins(void **state)
{
    struct scene s;
    const char *seen;
    struct torch_state st;

    (void)state;
    begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    st = scene_state(scene_get(&s, ""));
    scene_remove(&st, "a");
    scene_node(&st, "d")->participant = true;
    scene_beat(&st, "d", scene_now_us(&s));
    put_state(&s, &st);
    scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "c", false));
    assert_false(node_now(&s, "a").participant);
    assert_true(node_now(&s, "b").participant && node_now(&s, "c").participant &&
                node_now(&s, "d").participant);
    scene_fini(&s);
}

static void the_last_of_a_crowd_completes_the_round(void **state)
{
    struct scene s;
    const char *seen;
    struct torch_state st;

    (void)state;
    begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "aa", true));
    assert_true(s.run.view.state.complete && s.run.reached_max);
    assert_int_equal(node_now(&s, "a").rank, 0);
    assert_int_equal(node_now(&s, "aa").rank, 1);
    assert_int_equal(node_now(&s, "b").rank, 2);
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
    struct torch_state st;

    (void)state;
    begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    st = scene_state(scene_get(&s, ""));
    scene_beat(&st, "b", scene_now_us(&s) - SILENT_US);
    put_state(&s, &st);
    seen = scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "c", true));
    assert_true(names(seen, "b"));
    assert_false(s.run.view.state.complete);
    assert_int_equal(torch_state_participants(&s.run.view.state), 2);
    scene_fini(&s);
}

static struct torch_state with_deadline(struct torch_state st, int64_t us)
{
    st.has_deadline = true;
    st.deadline_us = us;
    return st;
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
        begin_crowd(&s, 3);
        before_us = scene_now_us(&s) + 7 * SECOND;
        us = scene_now_us(&s) + 30 * SECOND;
        st = with_deadline(scene_state(scene_get(&s, "")), before_us);
        put_state(&s, &st);
        seen = scene_look(&s, &s.agents[2]);
        st = scene_state(joining(&s, seen, "c", false));
        assert_false(st.has_deadline);
        if (has)
            st = with_deadline(st, us);
        scene_cas(&s, &s.agents[2], seen, scene_text(&s, &st));
        assert_int_equal(torch_state_participants(&s.run.view.state), 3);
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
    begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    seen = scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "b", true));
    assert_true(names(seen, "a") && names(seen, "b"));
    assert_false(s.run.view.state.complete);
    assert_int_equal(torch_state_participants(&s.run.view.state), 2);
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

        begin_crowd(&s, 3);
        before = scene_copy(scene_get(&s, ""));
        seen = scene_look(&s, &s.agents[2]);
        st = scene_state(joining(&s, seen, "c", false));
        says[i](&st);
        seen = scene_cas(&s, &s.agents[2], seen, scene_text(&s, &st));
        assert_true(names(seen, "a"));
        assert_string_equal(scene_get(&s, ""), before);
        assert_ptr_equal(s.run.slot.holder, &s.agents[2]);
        scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "c", false));
        assert_int_equal(torch_state_participants(&s.run.view.state), 3);
        scene_fini(&s);
    }
}

static void what_is_no_state_is_refused(void **state)
{
    const char *seen, *before;
    struct scene s;

    (void)state;
    begin_crowd(&s, 3);
    before = scene_copy(scene_get(&s, ""));
    seen = scene_look(&s, &s.agents[2]);
    assert_true(names(scene_cas(&s, &s.agents[2], seen, "no state"), "a"));
    assert_string_equal(scene_get(&s, ""), before);
    scene_fini(&s);
}

/* It says what it may say, but not that it was shown the crowd. */
static void what_expects_anything_else_is_refused(void **state)
{
    const char *seen;
    struct scene s;

    (void)state;
    begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    scene_cas(&s, &s.agents[2], joining(&s, seen, "d", false), joining(&s, seen, "c", false));
    assert_int_equal(torch_state_participants(&s.run.view.state), 2);
    scene_fini(&s);
}

/* It may have been shown anything since; what it says counts for what it was shown last. */
static void who_was_shown_the_state_since_is_refused(void **state)
{
    const char *seen;
    struct scene s;

    (void)state;
    begin_crowd(&s, 3);
    seen = scene_look(&s, &s.agents[2]);
    s.settings.crowd_least = 3;
    scene_look(&s, &s.agents[2]);
    s.settings.crowd_least = 2;
    scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "c", true));
    assert_false(s.run.view.state.complete);
    assert_int_equal(torch_state_participants(&s.run.view.state), 2);
    scene_fini(&s);
}

/* As any write while another agent is about to write. */
static void it_waits_for_the_write_slot(void **state)
{
    const char *seen;
    struct scene s;

    (void)state;
    begin_crowd(&s, 4);
    scene_cas(&s, &s.agents[3], "of another run", joining(&s, SENTINEL, "d", false));
    assert_ptr_equal(s.run.slot.holder, &s.agents[3]);
    seen = scene_look(&s, &s.agents[2]);
    assert_null(scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "c", false)));
    assert_true(scene_has(&s, POLICY_HOLD, &s.agents[2]));
    scene_event(&s, AGENT_ASKED, &s.agents[3]);
    assert_true(scene_has(&s, POLICY_RESUME, &s.agents[2]));
    scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "c", false));
    assert_true(node_now(&s, "c").participant);
    assert_null(s.run.slot.holder);
    scene_fini(&s);
}

/* Then it tries with the state itself, and is told. */
static void a_full_space_takes_none(void **state)
{
    const char *seen;
    struct scene s;

    (void)state;
    begin_crowd(&s, 3);
    s.room = 0;
    seen = scene_look(&s, &s.agents[2]);
    seen = scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "c", false));
    assert_true(names(seen, "a"));
    assert_int_equal(torch_state_participants(&s.run.view.state), 2);
    assert_null(scene_cas(&s, &s.agents[2], seen, joining(&s, seen, "c", false)));
    assert_true(scene_has(&s, POLICY_NO_ROOM, &s.agents[2]));
    scene_fini(&s);
}

/* --- Whatever it writes. --- */

static uint64_t random_state;

static uint64_t draw(uint64_t n)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

static void garble_node(struct scene *s, struct torch_node *node)
{
    switch (draw(6)) {
    case 0:
        node->participant = !node->participant;
        break;
    case 1:
        node->waiting = !node->waiting;
        break;
    case 2:
        node->redundant = !node->redundant;
        break;
    case 3:
        node->rank = (int64_t)draw(9) - 4;
        break;
    default:
        node->has_heartbeat = !node->has_heartbeat;
        node->heartbeat_us = scene_now_us(s) - (int64_t)draw(100) * SECOND;
        break;
    }
}

static void garble(struct scene *s, struct torch_state *st)
{
    static const char *const others[] = {"a", "d", "rdzvd.a-node", "rdzvd.a-node-is-lost"};

    switch (draw(6)) {
    case 0:
        st->round += (int64_t)draw(3) - 1;
        break;
    case 1:
        st->complete = !st->complete;
        break;
    case 2:
        st->closed = !st->closed;
        break;
    case 3:
        *st = with_deadline(*st, scene_now_us(s) + (int64_t)draw(60) * SECOND);
        break;
    case 4:
        scene_node(st, others[draw(COUNT(others))])->participant = true;
        break;
    default:
        garble_node(s, &st->nodes[draw(st->count)]);
        break;
    }
}

/* That "c" has joined, and perhaps a deadline, and perhaps that the round is complete: no more. */
static void only_c_has_joined(const struct torch_state *before, const struct torch_state *after,
                              const struct torch_state *said)
{
    const struct torch_node who = {.addr = slice_str("c"), .pid = 100};
    const struct torch_node *c = torch_state_find(after, &who);

    assert_int_equal(after->count, before->count + 1);
    assert_non_null(c);
    assert_true(c->participant && c->has_heartbeat && !c->waiting && !c->redundant);
    assert_true(after->complete || c->rank == 0);
    for (size_t i = 0; i < before->count; i++) {
        const struct torch_node *was = &before->nodes[i], *is = torch_state_find(after, was);

        assert_non_null(is);
        assert_true(is->participant && !is->waiting && !is->redundant);
        assert_int_equal(is->heartbeat_us, was->heartbeat_us);
    }
    assert_int_equal(after->complete, said->complete);
    assert_int_equal(torch_state_participants(after), torch_state_participants(said));
    for (size_t i = 0; after->complete && i < after->count; i++)
        assert_int_equal(after->nodes[i].rank, i);
}

static void a_garbled_write_is_a_join_or_nothing(void **state)
{
    size_t joins = 0, refused = 0;

    (void)state;
    for (random_state = 1; joins + refused < 3000;) {
        struct torch_state before, after, said;
        const char *seen, *text;
        struct scene s;

        begin_crowd(&s, 3);
        before = scene_state(scene_get(&s, ""));
        seen = scene_look(&s, &s.agents[2]);
        said = scene_state(joining(&s, seen, "c", draw(2) == 0));
        for (uint64_t n = draw(4); n > 0; n--)
            garble(&s, &said);
        text = scene_text(&s, &said);
        scene_cas(&s, &s.agents[2], seen, text);
        after = scene_state(scene_get(&s, ""));
        said = scene_state(text);
        assert_false(after.closed);
        assert_int_equal(after.round, before.round);
        if (torch_state_participants(&after) > torch_state_participants(&before)) {
            only_c_has_joined(&before, &after, &said);
            joins++;
        } else {
            assert_int_equal(after.count, before.count);
            refused++;
        }
        torch_state_free(&before);
        torch_state_free(&after);
        torch_state_free(&said);
        scene_fini(&s);
    }
    assert_true(joins > 500 && refused > 500);
}

/* --- An agent that follows torch's rules comes to the same state with a crowd as without. --- */

#define NODES_MOST 24

/* The same run twice: in one of them an agent that joins is shown a crowd, in the other one never.
 */
struct side {
    struct scene scene;
    struct agent *agent;
    struct model_agent model;
    const char *change; /* the state is this when it writes; NULL: no other one */
    size_t crowds;      /* how often it was shown one */
};

struct pair {
    struct model_settings settings;
    struct side with, without;
};

static void serve(struct side *side)
{
    struct model_agent *m = &side->model;
    struct scene *s = &side->scene;
    const char *answer;

    if (m->request == REQUEST_LOOK) {
        answer = scene_look(s, side->agent);
    } else if (m->phase == MODEL_INTRODUCING) {
        answer = scene_cas(s, side->agent, "", SENTINEL);
    } else {
        struct slice token = {m->token, m->token_len}, text = {m->text, m->text_len};
        char expected[16384], desired[16384];

        assert_true(token.len < sizeof expected && text.len < sizeof desired);
        memcpy(expected, token.ptr, token.len);
        expected[token.len] = '\0';
        memcpy(desired, text.ptr, text.len);
        desired[text.len] = '\0';
        if (side->change != NULL) {
            scene_put(s, "", side->change);
            scene_step(s, (struct policy_event){.kind = RUN_CHANGED});
            side->change = NULL;
        }
        answer = scene_cas(s, side->agent, expected, desired);
    }
    assert_non_null(answer);
    side->crowds += side->agent->sees_crowd;
    model_agent_answer(m, slice_str(answer), s->now.ms, scene_now_us(s));
}

/* Until it is in a complete round, or for so long. */
static void run_side(struct side *side, uint64_t ms)
{
    struct scene *s = &side->scene;
    uint64_t end_ms = s->now.ms + ms;

    while (side->model.phase <= MODEL_JOINING && s->now.ms < end_ms) {
        model_agent_act(&side->model, s->now.ms, scene_now_us(s));
        if (side->model.request != REQUEST_NONE && side->model.phase <= MODEL_JOINING)
            serve(side);
        else
            scene_pass(s, 100);
    }
}

static void begin_side(struct side *side, const struct pair *p, size_t crowd_least,
                       const char *name, const char *value)
{
    struct scene *s = &side->scene;

    *side = (struct side){0};
    scene_init(s);
    s->settings.crowd_least = crowd_least;
    scene_put(s, "", value);
    scene_step(s, (struct policy_event){.kind = RUN_CHANGED});
    side->agent = scene_connect(s, true);
    model_agent_start(&side->model, &p->settings, name, 100, 0, s->now.ms);
}

/* Silent nodes are looked for once a second. */
static void change_both(struct pair *p, const char *value)
{
    struct side *sides[] = {&p->with, &p->without};

    for (size_t i = 0; i < COUNT(sides); i++) {
        scene_put(&sides[i]->scene, "", value);
        scene_step(&sides[i]->scene, (struct policy_event){.kind = RUN_CHANGED});
        scene_pass(&sides[i]->scene, 1000);
    }
}

/* Nodes that are silent may be there or not: whoever sees the state presumes them dead. */
static bool counts(const struct scene *s, const struct torch_node *node)
{
    return explain_role(node) != NULL && node->heartbeat_us > scene_now_us(s) - 15 * SECOND;
}

static void includes(const struct side *a, const struct side *b)
{
    const struct torch_state *x = &a->scene.run.view.state, *y = &b->scene.run.view.state;

    for (size_t i = 0; i < x->count; i++) {
        const struct torch_node *is = torch_state_find(y, &x->nodes[i]);

        if (!counts(&a->scene, &x->nodes[i]))
            continue;
        assert_non_null(is);
        assert_int_equal(is->participant, x->nodes[i].participant);
        assert_int_equal(is->waiting, x->nodes[i].waiting);
        assert_int_equal(is->redundant, x->nodes[i].redundant);
        if (x->complete)
            assert_int_equal(is->rank, x->nodes[i].rank);
    }
}

static void same_outcome(const struct pair *p)
{
    const struct torch_state *x = &p->with.scene.run.view.state;
    const struct torch_state *y = &p->without.scene.run.view.state;

    assert_int_equal(x->round, y->round);
    assert_int_equal(x->complete, y->complete);
    assert_int_equal(x->closed, y->closed);
    assert_int_equal(x->has_deadline, y->has_deadline);
    if (x->has_deadline)
        assert_int_equal(x->deadline_us, y->deadline_us);
    includes(&p->with, &p->without);
    includes(&p->without, &p->with);
    assert_int_equal(p->with.model.phase, p->without.model.phase);
    if (p->with.model.phase <= MODEL_JOINING)
        return;
    assert_int_equal(p->with.model.rank, p->without.model.rank);
    assert_int_equal(torch_state_participants(&p->with.model.state),
                     torch_state_participants(&p->without.model.state));
}

static const char *node_name(uint64_t i)
{
    static char name[8];

    snprintf(name, sizeof name, "n%02u", (unsigned)(i % 100));
    return name;
}

/* So many participants, with even numbers. */
static struct torch_state any_state(struct scene *s, size_t nodes, int64_t round, bool has_silent)
{
    struct torch_state st = scene_state(NULL);

    st.round = round;
    for (size_t i = 0; i < nodes; i++) {
        int64_t ago_us = (int64_t)draw(7000) * 1000;

        scene_node(&st, node_name(2 * i))->participant = true;
        scene_beat(&st, node_name(2 * i),
                   scene_now_us(s) - (has_silent && draw(4) == 0 ? SILENT_US : ago_us));
    }
    if (draw(4) == 0) {
        scene_node(&st, node_name(90))->redundant = true;
        scene_beat(&st, node_name(90), scene_now_us(s));
    }
    for (uint64_t i = draw(3); i > 0; i--) {
        scene_node(&st, node_name(90 + i))->waiting = true;
        scene_beat(&st, node_name(90 + i), scene_now_us(s));
    }
    return st;
}

/* A last call begins with the MIN-th and is over soon, or late. */
static const char *any_text(struct pair *p, size_t nodes, int64_t round, bool has_silent)
{
    struct scene *s = &p->with.scene;
    struct torch_state st = any_state(s, nodes, round, has_silent);

    if (nodes >= p->settings.min_nodes)
        st = with_deadline(st, scene_now_us(s) + (int64_t)draw(5000) * 1000 + 2 * SECOND);
    if (nodes == p->settings.max_nodes)
        scene_complete(&st);
    return scene_text(s, &st);
}

/* `name` waits for the round after this one, which has the nodes of the next. */
static void wait_first(struct pair *p, size_t nodes)
{
    const char *name = p->with.model.name;
    struct torch_state st;

    run_side(&p->with, 2000);
    run_side(&p->without, 2000);
    assert_true(p->with.agent->has_node && p->without.agent->has_node);
    st = scene_state(any_text(p, nodes, p->with.scene.run.view.state.round + 1, draw(8) == 0));
    scene_node(&st, name)->waiting = true;
    scene_beat(&st, name, node_now(&p->with.scene, name).heartbeat_us);
    change_both(p, scene_text(&p->with.scene, &st));
}

static void draw_settings(struct model_settings *settings, size_t nodes)
{
    size_t next;

    settings->min_nodes = 1 + draw(nodes + 3);
    settings->last_call_ms = 3000;
    next = nodes + 1 > settings->min_nodes ? nodes + 1 : settings->min_nodes;
    settings->max_nodes = next + draw(3);
}

/* What the two begin with. */
static const char *first_text(struct pair *p, struct scene *clock, size_t nodes, bool complete)
{
    struct torch_state st = any_state(clock, nodes, (int64_t)draw(3), draw(8) == 0);

    if (complete)
        scene_complete(&st);
    else if (nodes >= p->settings.min_nodes)
        st = with_deadline(st, scene_now_us(clock) + (int64_t)draw(5000) * 1000 + SECOND);
    return scene_text(clock, &st);
}

static void begin_pair(struct pair *p, struct scene *clock)
{
    size_t nodes = 1 + draw(NODES_MOST - 2);
    bool waits = draw(3) == 0;
    const char *value, *name;

    draw_settings(&p->settings, nodes);
    value = first_text(p, clock, nodes, waits);
    name = scene_copy(node_name(2 * draw(nodes + 1) + 1)); /* any place among them */
    begin_side(&p->with, p, 2, name, value);
    begin_side(&p->without, p, SIZE_MAX, name, value);
    if (waits)
        wait_first(p, nodes);
    if (draw(2) == 0)
        p->with.change = p->without.change =
            any_text(p, nodes + draw(3) - 1, p->with.scene.run.view.state.round, false);
}

/* True: it was shown a crowd. */
static bool run_pair(uint64_t seed)
{
    struct scene clock;
    struct pair p;

    random_state = seed;
    scene_init(&clock);
    begin_pair(&p, &clock);
    for (int i = 0; i < 4; i++) {
        run_side(&p.with, 2000);
        run_side(&p.without, 2000);
        same_outcome(&p);
    }
    assert_int_equal(p.without.crowds, 0);
    model_agent_stop(&p.with.model);
    model_agent_stop(&p.without.model);
    scene_fini(&p.with.scene);
    scene_fini(&p.without.scene);
    scene_fini(&clock);
    return p.with.crowds > 0;
}

static void it_comes_to_the_same_with_a_crowd_as_without(void **state)
{
    size_t crowds = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++)
        crowds += run_pair(seed);
    assert_true(crowds > 200);
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
        cmocka_unit_test(a_garbled_write_is_a_join_or_nothing),
        cmocka_unit_test(it_comes_to_the_same_with_a_crowd_as_without),
    };

    return cmocka_run_group_tests_name("crowd", tests, NULL, NULL);
}
