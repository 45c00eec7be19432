/* Which changes of a state are one heartbeat and no more, and who wrote a state. */
#include "proto/torch/torch_merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Three in a complete round, one who waits and one who is spare; their heartbeats are 100 to 500.
 */
static struct torch_node *node(struct torch_state *s, const char *addr)
{
    struct torch_node who = {.addr = slice_str(addr), .pid = 7}, *at;

    assert_true(torch_state_insert(s, &who, &at));
    return at;
}

static struct torch_state sample(void)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct torch_state s = {.round = 3, .complete = true, .aware = true, .protocol = 4};

    for (size_t i = 0; i < COUNT(names); i++) {
        struct torch_node *n = node(&s, names[i]);

        n->participant = i < 3;
        n->rank = i < 3 ? (int64_t)i : 0;
        n->waiting = i == 3;
        n->redundant = i == 4;
        n->has_heartbeat = true;
        n->heartbeat_us = 100 * (int64_t)(i + 1);
    }
    return s;
}

static void beat(struct torch_state *s, const char *addr, int64_t at_us)
{
    struct torch_node *n = node(s, addr);

    n->has_heartbeat = true;
    n->heartbeat_us = at_us;
}

/* As an agent takes one out who is dead: nothing names it any more. */
static void take_out(struct torch_state *s, const char *addr)
{
    struct torch_node *n = node(s, addr);

    memmove(n, n + 1, (size_t)(s->nodes + s->count - (n + 1)) * sizeof *n);
    s->count--;
}

struct scene {
    struct torch_state expected, desired, now;
};

static void begin(struct scene *c)
{
    c->expected = sample();
    c->desired = sample();
    c->now = sample();
}

/* Merges, or not; the node and its time when it does. Nothing may have changed. */
static bool merge(struct scene *c, const char *addr, int64_t heartbeat_us)
{
    struct torch_node *found = NULL;
    int64_t at_us = -1;
    uint8_t *before, *after;
    size_t before_len, after_len;
    bool ok;

    assert_true(torch_state_write(&c->now, &before, &before_len));
    ok = torch_merge_heartbeat(&c->expected, &c->desired, &c->now, &found, &at_us);
    assert_true(torch_state_write(&c->now, &after, &after_len));
    assert_int_equal(after_len, before_len);
    assert_memory_equal(after, before, after_len);
    free(before);
    free(after);
    if (ok) {
        assert_ptr_equal(found, node(&c->now, addr));
        assert_int_equal(at_us, heartbeat_us);
    } else {
        assert_null(found); /* untouched */
        assert_int_equal(at_us, -1);
    }
    torch_state_free(&c->expected);
    torch_state_free(&c->desired);
    torch_state_free(&c->now);
    return ok;
}

static void a_newer_heartbeat_merges(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct scene c;

        begin(&c);
        beat(&c.desired, names[i], 1000);
        beat(&c.now, names[(i + 1) % COUNT(names)], 900);
        assert_true(merge(&c, names[i], 1000));
    }
}

/* Whatever others have done meanwhile stays: only the heartbeat is taken over. */
static void what_has_happened_meanwhile_does_not_matter(void **state)
{
    struct scene c;

    (void)state;
    begin(&c);
    beat(&c.desired, "b", 1000);
    c.now.round = 4;
    c.now.complete = false;
    c.now.closed = true;
    c.now.has_deadline = true;
    c.now.deadline_us = 77;
    node(&c.now, "b")->participant = false;
    node(&c.now, "b")->waiting = true;
    beat(&c.now, "new", 950);
    take_out(&c.now, "a");
    assert_true(merge(&c, "b", 1000));
}

static void the_newest_of_two_times_counts(void **state)
{
    struct scene c;

    (void)state;
    begin(&c);
    beat(&c.desired, "b", 1000);
    beat(&c.now, "b", 2000); /* the daemon has moved it on */
    assert_true(merge(&c, "b", 2000));
    begin(&c);
    beat(&c.desired, "b", 1000);
    beat(&c.now, "b", 1000);
    assert_true(merge(&c, "b", 1000));
}

static void no_heartbeat_is_none(void **state)
{
    struct scene c;

    (void)state;
    begin(&c);
    assert_false(merge(&c, "b", 0));
}

static void an_older_heartbeat_does_not_merge(void **state)
{
    struct scene c;

    (void)state;
    begin(&c);
    beat(&c.desired, "b", 199);
    assert_false(merge(&c, "b", 0));
    begin(&c); /* nor does it beside a newer one */
    beat(&c.desired, "b", 199);
    beat(&c.desired, "c", 1000);
    assert_false(merge(&c, "c", 0));
}

static void two_heartbeats_do_not_merge(void **state)
{
    struct scene c;

    (void)state;
    begin(&c);
    beat(&c.desired, "a", 1000);
    beat(&c.desired, "e", 1000);
    assert_false(merge(&c, "a", 0));
}

/* Everything that a state says beside heartbeats, changed together with one. */
static void change_round(struct torch_state *s)
{
    s->round++;
}

static void change_complete(struct torch_state *s)
{
    s->complete = !s->complete;
}

static void change_closed(struct torch_state *s)
{
    s->closed = true;
}

static void set_deadline(struct torch_state *s)
{
    s->has_deadline = true;
    s->deadline_us = 5;
}

static void change_rank(struct torch_state *s)
{
    node(s, "c")->rank = 9;
}

static void leave(struct torch_state *s)
{
    node(s, "b")->participant = false;
}

static void enter(struct torch_state *s)
{
    node(s, "d")->participant = true;
}

static void stop_waiting(struct torch_state *s)
{
    node(s, "d")->waiting = false;
}

static void wait_too(struct torch_state *s)
{
    node(s, "b")->waiting = true;
}

static void be_spare(struct torch_state *s)
{
    node(s, "b")->redundant = true;
}

static void lose_heartbeat(struct torch_state *s)
{
    node(s, "c")->has_heartbeat = false;
}

static void come_first(struct torch_state *s)
{
    beat(s, "0", 1000);
}

static void come_last(struct torch_state *s)
{
    beat(s, "z", 1000);
}

static void come_between(struct torch_state *s)
{
    beat(s, "bb", 1000);
}

static void another_process(struct torch_state *s)
{
    struct torch_node who = {.addr = slice_str("b"), .pid = 8, .has_heartbeat = true}, *at;

    assert_true(torch_state_insert(s, &who, &at));
}

static void what_is_more_than_a_heartbeat_does_not_merge(void **state)
{
    static void (*const changes[])(struct torch_state *) = {
        change_round, change_complete, change_closed, set_deadline,   change_rank,
        leave,        enter,           stop_waiting,  wait_too,       be_spare,
        come_first,   come_last,       come_between,  lose_heartbeat, another_process,
    };

    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct scene c;

        for (int beats = 0; beats < 2; beats++) {
            begin(&c);
            changes[i](&c.desired);
            if (beats)
                beat(&c.desired, "b", 1000);
            if (merge(&c, "b", 1000))
                fail_msg("change %zu merges", i);
        }
    }
}

static void a_deadline_that_moves_or_goes_does_not_merge(void **state)
{
    struct scene c;

    (void)state;
    for (int goes = 0; goes < 2; goes++) {
        begin(&c);
        set_deadline(&c.expected);
        set_deadline(&c.desired);
        c.desired.deadline_us++;
        c.desired.has_deadline = !goes;
        beat(&c.desired, "b", 1000);
        assert_false(merge(&c, "b", 0));
    }
    begin(&c); /* the same one is no change */
    set_deadline(&c.expected);
    set_deadline(&c.desired);
    beat(&c.desired, "b", 1000);
    assert_true(merge(&c, "b", 1000));
}

/* An agent takes those out who are dead with its next write, and its heartbeat is that. If somebody
 * else has done so before, there is nothing else to do. */
static void dead_nodes_are_taken_out_by_the_first_who_sees_it(void **state)
{
    static const char *const names[] = {"a", "c", "e"};
    struct scene c;

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        begin(&c);
        take_out(&c.desired, names[i]);
        beat(&c.desired, "b", 1000);
        take_out(&c.now, names[i]);
        assert_true(merge(&c, "b", 1000));
        begin(&c);
        take_out(&c.desired, names[i]);
        beat(&c.desired, "b", 1000);
        assert_false(merge(&c, "b", 0)); /* it is in there: that has to be written */
    }
}

static void one_who_is_gone_does_not_merge(void **state)
{
    struct scene c;

    (void)state;
    begin(&c);
    beat(&c.desired, "b", 1000);
    take_out(&c.now, "b");
    assert_false(merge(&c, "b", 0));
    begin(&c);
    beat(&c.desired, "b", 1000);
    node(&c.now, "b")->has_heartbeat = false;
    assert_false(merge(&c, "b", 0));
}

static void states_without_nodes_do_not_merge(void **state)
{
    const struct torch_state empty = {0};
    struct torch_state now = {0};
    struct torch_node *found;
    int64_t at_us;

    (void)state;
    assert_false(torch_merge_heartbeat(&empty, &empty, &now, &found, &at_us));
}

/* --- Who wrote. --- */

static void the_writer_is_the_one_with_another_heartbeat(void **state)
{
    struct torch_state before = sample(), after = sample();
    const struct torch_state empty = {0};

    (void)state;
    assert_null(torch_merge_writer(&before, &after)); /* nobody */
    beat(&after, "c", 301);
    assert_ptr_equal(torch_merge_writer(&before, &after), node(&after, "c"));
    assert_ptr_equal(torch_merge_writer(&after, &before), node(&before, "c"));
    node(&after, "b")->has_heartbeat = false; /* taken out as dead */
    assert_ptr_equal(torch_merge_writer(&before, &after), node(&after, "c"));
    node(&after, "b")->has_heartbeat = true;
    beat(&after, "a", 1000);
    assert_null(torch_merge_writer(&before, &after)); /* two */
    assert_null(torch_merge_writer(&empty, &after));
    assert_null(torch_merge_writer(&before, &empty));
    torch_state_free(&after);

    after = sample();
    beat(&after, "new", 1);
    assert_ptr_equal(torch_merge_writer(&before, &after), node(&after, "new"));
    node(&after, "new")->has_heartbeat = false; /* named, without a sign of life */
    assert_null(torch_merge_writer(&before, &after));
    node(&before, "b")->has_heartbeat = false;
    assert_ptr_equal(torch_merge_writer(&before, &after), node(&after, "b"));
    torch_state_free(&before);
    torch_state_free(&after);
}

/* --- Another's heartbeats under a change. --- */

static bool rebase(struct scene *c)
{
    return torch_merge_rebase(&c->expected, &c->desired, &c->now);
}

static void drop_scene(struct scene *c)
{
    torch_state_free(&c->expected);
    torch_state_free(&c->desired);
    torch_state_free(&c->now);
}

static void newer_heartbeats_go_under_a_change(void **state)
{
    struct scene c;

    (void)state;
    begin(&c);
    node(&c.desired, "f")->waiting = true;
    beat(&c.desired, "f", 900);
    beat(&c.now, "a", 700);
    beat(&c.now, "d", 800);
    assert_true(rebase(&c));
    assert_int_equal(node(&c.desired, "a")->heartbeat_us, 700);
    assert_int_equal(node(&c.desired, "b")->heartbeat_us, 200);
    assert_int_equal(node(&c.desired, "d")->heartbeat_us, 800);
    assert_int_equal(node(&c.desired, "f")->heartbeat_us, 900);
    assert_true(node(&c.desired, "f")->waiting);
    drop_scene(&c);
}

static void ones_own_newer_heartbeat_stays(void **state)
{
    struct scene c;

    (void)state;
    begin(&c);
    beat(&c.desired, "a", 950);
    beat(&c.now, "a", 700);
    assert_true(rebase(&c));
    assert_int_equal(node(&c.desired, "a")->heartbeat_us, 950);
    drop_scene(&c);
}

static void the_dead_may_be_taken_out_and_the_living_not(void **state)
{
    struct scene c;

    (void)state;
    begin(&c);
    take_out(&c.desired, "b");
    beat(&c.now, "a", 700);
    assert_true(rebase(&c));
    drop_scene(&c);

    begin(&c);
    take_out(&c.desired, "b");
    beat(&c.now, "b", 700);
    assert_false(rebase(&c));
    drop_scene(&c);
}

static void more_than_heartbeats_is_not_gone_under(void **state)
{
    static void (*const changes[])(struct torch_state *) = {
        change_round,   change_complete, change_closed, set_deadline, change_rank,
        leave,          enter,           stop_waiting,  wait_too,     be_spare,
        lose_heartbeat, come_first,      come_last,     come_between, another_process,
    };

    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct scene c;

        begin(&c);
        changes[i](&c.now);
        assert_false(rebase(&c));
        drop_scene(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newer_heartbeats_go_under_a_change),
        cmocka_unit_test(ones_own_newer_heartbeat_stays),
        cmocka_unit_test(the_dead_may_be_taken_out_and_the_living_not),
        cmocka_unit_test(more_than_heartbeats_is_not_gone_under),
        cmocka_unit_test(a_newer_heartbeat_merges),
        cmocka_unit_test(what_has_happened_meanwhile_does_not_matter),
        cmocka_unit_test(the_newest_of_two_times_counts),
        cmocka_unit_test(no_heartbeat_is_none),
        cmocka_unit_test(an_older_heartbeat_does_not_merge),
        cmocka_unit_test(two_heartbeats_do_not_merge),
        cmocka_unit_test(what_is_more_than_a_heartbeat_does_not_merge),
        cmocka_unit_test(a_deadline_that_moves_or_goes_does_not_merge),
        cmocka_unit_test(dead_nodes_are_taken_out_by_the_first_who_sees_it),
        cmocka_unit_test(one_who_is_gone_does_not_merge),
        cmocka_unit_test(states_without_nodes_do_not_merge),
        cmocka_unit_test(the_writer_is_the_one_with_another_heartbeat),
    };

    return cmocka_run_group_tests_name("proto/torch_merge", tests, NULL, NULL);
}
