/* The rules of a run about its nodes, nodes-multiple, grow-interval and group, and a hold that ends
 * when so many nodes are there. */
#include "rdzv/config/topology.h"
#include "tests/unit/rendezvous/scene.h"

#define MIN   2
#define TURNS 40 /* of one agent in a second: it must not write for ever */

/* torchrun's MAX. */
static size_t max_nodes = 4;
static int64_t call_us; /* its last call */

static size_t count(const struct torch_state *st, bool waiting)
{
    size_t nodes = 0;

    for (size_t i = 0; i < st->count; i++)
        nodes += waiting ? st->nodes[i].waiting : st->nodes[i].participant;
    return nodes;
}

static void join(const struct scene *s, struct torch_state *st, const char *name)
{
    size_t nodes = count(st, false) + 1;

    scene_node(st, name)->waiting = false;
    scene_node(st, name)->participant = true;
    if (nodes == MIN && !st->has_deadline) {
        st->has_deadline = true;
        st->deadline_us = scene_now_us(s) + call_us;
    }
    if (nodes == max_nodes)
        scene_complete(st);
}

/* What torch's agent does that sees that state. False: nothing. */
static bool decide(const struct scene *s, struct torch_state *st, const char *name)
{
    struct torch_node own = *scene_node(st, name);
    size_t nodes = count(st, false);

    scene_beat(st, name, scene_now_us(s));
    if (own.redundant && nodes == max_nodes)
        return false;
    if (own.redundant || (st->complete && own.participant && count(st, true) > 0)) {
        scene_remove(st, name);
        if (own.participant && count(st, false) == 0) {
            st->complete = false;
            st->round++;
        }
    } else if (st->complete) {
        if (own.participant || own.waiting)
            return false;
        scene_node(st, name)->waiting = nodes < max_nodes;
        scene_node(st, name)->redundant = nodes >= max_nodes;
    } else if (!own.participant) {
        join(s, st, name);
    } else if (nodes >= MIN && st->has_deadline && st->deadline_us < scene_now_us(s)) {
        scene_complete(st);
    } else {
        return false;
    }
    return true;
}

/* One poll, and perhaps one write. False: it has nothing to do until the next second. */
static bool turn(struct scene *s, size_t i)
{
    struct agent *a = &s->agents[i];
    const char *seen = scene_poll(s, a);
    struct torch_state st;

    if (agent_is_held(a))
        return false;
    st = scene_state(seen);
    if (decide(s, &st, scene_name(i)))
        return scene_cas(s, a, seen, scene_text(s, &st)) != NULL;
    torch_state_free(&st);
    if (s->now.ms / 1000 % 5 == 0)
        scene_say_node(s, a, scene_name(i));
    return false;
}

static void pass(struct scene *s, int seconds)
{
    for (; seconds > 0; seconds--) {
        for (size_t i = 0; i < s->agent_count; i++) {
            int turns = 0;

            while (s->agents[i].local_port != 0 && turn(s, i))
                assert_true(++turns < TURNS);
        }
        scene_event(s, RUN_TICK, NULL);
        scene_pass(s, 1000);
    }
}

static void come(struct scene *s)
{
    scene_cas(s, scene_connect(s, true), "", SENTINEL);
}

static void begin(struct scene *s, struct run_rules rules, size_t nodes)
{
    s->run.rules = rules;
    max_nodes = 4;
    call_us = 2 * SECOND;
    for (size_t i = 0; i < nodes; i++)
        come(s);
}

static void order(struct scene *s)
{
    scene_step(
        s, (struct policy_event){.kind = RUN_ORDERED, .order = RUN_ORDER_KEEP_OUT, .evicts = "*"});
}

static size_t spares(const struct scene *s)
{
    struct torch_state st = scene_state_now(s);
    size_t nodes = 0;

    for (size_t i = 0; i < st.count; i++)
        nodes += st.nodes[i].redundant;
    torch_state_free(&st);
    return nodes;
}

static void assert_nodes(const struct scene *s, size_t participants, size_t more, uint64_t rounds)
{
    assert_int_equal(scene_participants(s), participants);
    assert_int_equal(spares(s), more);
    assert_int_equal(s->run.view.completions, rounds);
    assert_int_equal(scene_waiting_nodes(s), 0);
}

static void a_round_has_a_multiple_of_nodes(void **state)
{
    struct scene *s = *state;

    begin(s, (struct run_rules){.nodes_multiple = 2}, 3);
    pass(s, 10);
    assert_nodes(s, 2, 1, 1);
    come(s);
    pass(s, 10); /* all of them meet once */
    assert_nodes(s, 4, 0, 2);
    scene_disconnect(s, &s->agents[0]);
    pass(s, 10);
    assert_nodes(s, 2, 1, 3);
    assert_int_equal(scene_node_now(s, "b").rank, 1);
    come(s);
    pass(s, 10);
    assert_nodes(s, 4, 0, 4);
    assert_int_equal(scene_node_now(s, "b").rank, 1);
}

static void a_round_that_shrinks_below_the_multiple_waits(void **state)
{
    struct scene *s = *state;

    begin(s, (struct run_rules){.nodes_multiple = 3}, 2);
    pass(s, 100);
    assert_nodes(s, 0, 2, 0);
    come(s);
    pass(s, 10);
    assert_nodes(s, 3, 0, 1);
    scene_disconnect(s, &s->agents[1]);
    pass(s, 40);
    assert_nodes(s, 0, 2, 1);
    come(s);
    pass(s, 10);
    assert_nodes(s, 3, 0, 2);
}

static void a_job_of_fewer_nodes_is_free_of_the_rule(void **state)
{
    struct scene *s = *state;

    begin(s, (struct run_rules){.nodes_multiple = 3}, 2);
    max_nodes = 2;
    pass(s, 10);
    assert_nodes(s, 2, 0, 1);
    come(s);
    pass(s, 10);
    assert_nodes(s, 2, 1, 1);
}

/* Three nodes more than a multiple allows, and MAX is no multiple. */
static void max_bounds_the_growth(void **state)
{
    struct scene *s = *state;

    begin(s, (struct run_rules){.nodes_multiple = 3}, 4);
    pass(s, 10);
    assert_int_equal(scene_participants(s), 3);
    come(s);
    come(s);
    pass(s, 30);
    assert_nodes(s, 3, 3, 1);
}

static void a_round_grows_after_the_interval_or_with_a_loss(void **state)
{
    struct scene *s = *state;

    begin(s, (struct run_rules){.grow_interval_ms = 60000}, 2);
    pass(s, 40);
    come(s);
    pass(s, 15);
    assert_nodes(s, 2, 1, 1);
    pass(s, 15);
    assert_nodes(s, 3, 0, 2);
    come(s);
    pass(s, 10);
    assert_nodes(s, 3, 1, 2);
    scene_disconnect(s, &s->agents[0]);
    pass(s, 10);
    assert_nodes(s, 3, 0, 3);
}

/* After a start, rdzvd does not know when the nodes have met. */
static void a_start_begins_the_interval_anew(void **state)
{
    struct scene *s = *state;

    begin(s, (struct run_rules){.grow_interval_ms = 60000}, 2);
    pass(s, 100);
    scene_event(s, RUN_RESTORED, NULL);
    come(s);
    pass(s, 50);
    assert_nodes(s, 2, 1, 1);
    pass(s, 20);
    assert_nodes(s, 3, 0, 2);
}

static void a_hold_ends_when_so_many_nodes_are_there(void **state)
{
    struct scene *s = *state;

    begin(s, (struct run_rules){0}, 2);
    pass(s, 10);
    s->run.orders.word = ORDER_HOLD;
    s->run.orders.until = 3;
    order(s);
    pass(s, 20);
    assert_nodes(s, 0, 2, 1);
    come(s);
    pass(s, 10);
    assert_nodes(s, 3, 0, 2);
    assert_true(s->run.orders.word == ORDER_NONE);
    s->run.orders.word = ORDER_HOLD;
    order(s); /* they are there: no node meets */
    pass(s, 10);
    assert_nodes(s, 3, 0, 2);
}

static void a_hold_ends_at_its_time(void **state)
{
    struct scene *s = *state;

    begin(s, (struct run_rules){0}, 2);
    pass(s, 10);
    s->run.orders.word = ORDER_HOLD;
    s->run.orders.until = 3;
    s->run.orders.ends_us = scene_now_us(s) + 30 * SECOND;
    order(s);
    pass(s, 20);
    assert_nodes(s, 0, 2, 1);
    s->now.refuses = true;
    pass(s, 20);
    assert_true(s->run.orders.word == ORDER_HOLD);
    s->now.refuses = false;
    pass(s, 10);
    assert_nodes(s, 2, 0, 2);
    assert_true(s->run.orders.word == ORDER_NONE && s->run.orders.until == 0);

    s->run.orders.word = ORDER_HOLD; /* the time of the order is over when it comes */
    order(s);
    pass(s, 10);
    assert_nodes(s, 2, 0, 2);
}

/* So many nodes are there at the begin, so no last call waits for more. */
static void a_first_round_begins_when_its_hold_ends(void **state)
{
    struct scene *s = *state;

    s->run.orders.word = ORDER_HOLD;
    s->run.orders.until = 3;
    begin(s, (struct run_rules){0}, 2);
    call_us = 30 * SECOND;
    pass(s, 5);
    come(s);
    pass(s, 10);
    assert_nodes(s, 3, 0, 1);
}

/* Two nodes are more than have a place. */
static void begin_full(struct scene *s, size_t nodes)
{
    begin(s, (struct run_rules){0}, nodes);
    max_nodes = 3;
    pass(s, 5);
    come(s);
    come(s);
    pass(s, 5);
    assert_nodes(s, 3, nodes - 1, 1);
}

static void assert_trains(const struct scene *s, const char *names)
{
    for (; *names != 0; names++)
        assert_true(scene_node_now(s, (char[]){*names, 0}).participant);
}

/* The agent of "c" ends its workers later than the spares poll, and later than it was known. */
static void nodes_of_the_last_round_keep_their_places(void **state)
{
    struct scene *s = *state;
    uint16_t port;

    for (uint64_t known = 0; known < 2; known++) {
        begin_full(s, 3);
        s->run.max_nodes *= known; /* as after a start: a spare says it */
        pass(s, 6);
        assert_int_equal(s->run.max_nodes, 3);
        scene_step(s, (struct policy_event){.kind = RUN_ORDERED, .order = RUN_ORDER_RESTART});
        port = s->agents[2].local_port;
        s->agents[2].local_port = 0;
        pass(s, 3);
        s->agents[2].local_port = port;
        pass(s, 8);
        assert_nodes(s, 3, 2, 2);
        assert_trains(s, "abc");
        scene_renew(s);
    }
}

/* "d" has come first, and "e" is in the block of the lost node. */
static void a_lost_node_leaves_its_place_to_a_spare_of_its_domain(void **state)
{
    struct scene *s = *state;
    const struct {
        const char *lost, *d, *e, *train;
    } cases[] = {
        {"", "", "", "acd"},
        {"", "row1/rack2", "row1/rack1", "acd"},
        {"row1/rack2", "row1/rack1", "row1/rack2", "ace"},
        {"row1/rack2", "row2/rack2", "row1/rack3", "ace"},
        {"row1", "row11", "row1/rack3", "ace"},
        {"row1/rack2", "row1/rack1", "row1", "acd"},
    };
    struct topology_label labels[3] = {0};

    for (size_t i = 0; i < 2 * COUNT(cases); i++) { /* or the node is kept out */
        char *host = (char[]){"b"};
        struct cordons cordons = {1, &host};

        begin_full(s, 3);
        strcpy(labels[0].domain, cases[i / 2].lost);
        strcpy(labels[1].domain, cases[i / 2].d);
        strcpy(labels[2].domain, cases[i / 2].e);
        s->agents[1].label = &labels[0];
        s->agents[3].label = &labels[1];
        s->agents[4].label = &labels[2];
        if (i % 2 == 0) {
            scene_disconnect(s, &s->agents[1]);
        } else {
            s->run.orders.cordons = &cordons;
            order(s);
        }
        pass(s, 6);
        assert_nodes(s, 3, 1 + i % 2, 2);
        assert_trains(s, cases[i / 2].train);
        s->run.orders.cordons = NULL;
        scene_renew(s);
    }
}

/* Nothing comes of the one that has been chosen. */
static void a_silent_spare_leaves_the_place_to_another_one(void **state)
{
    struct scene *s = *state;
    uint16_t port;

    begin_full(s, 3);
    port = s->agents[3].local_port;
    s->agents[3].local_port = 0;
    pass(s, 6);
    scene_disconnect(s, &s->agents[1]);
    pass(s, 8);
    s->agents[3].local_port = port;
    assert_int_equal(s->run.view.completions, 2);
    assert_trains(s, "ace");
}

/* A round of two of three: one of two new nodes joins. */
static void a_place_that_no_node_has_had_is_for_a_new_node(void **state)
{
    struct scene *s = *state;

    begin(s, (struct run_rules){0}, 2);
    max_nodes = 3;
    pass(s, 10);
    assert_nodes(s, 2, 0, 1);
    s->run.max_nodes = 3;
    come(s);
    come(s);
    pass(s, 10);
    assert_nodes(s, 3, 1, 2);
    assert_trains(s, "ab");
}

/* Another table, as after SIGHUP. */
static void read_table(struct scene *s, const char *text)
{
    char error[TOPOLOGY_ERROR_MAX];

    topology_free((struct topology *)(uintptr_t)s->settings.topology);
    s->settings.topology = text == NULL ? NULL : topology_parse(slice_str(text), error);
    assert_true(text == NULL || s->settings.topology != NULL);
}

static const char *lacks(const struct scene *s, size_t i)
{
    return s->agents[i].lacks_group == NULL ? "" : s->agents[i].lacks_group;
}

static void groups_take_part_as_a_whole(void **state)
{
    struct scene *s = *state;

    read_table(s, "a r1/x\nb r1/y\nc r1-b\nd r1-b\n? r1");
    begin(s, (struct run_rules){.group = 1}, 1);
    pass(s, 10);
    assert_nodes(s, 0, 1, 0);
    come(s);
    pass(s, 10);
    assert_nodes(s, 2, 0, 1);
    come(s);
    pass(s, 20);
    assert_nodes(s, 2, 1, 1); /* no node has met for a part of a group */
    assert_string_equal(lacks(s, 2), "its group is not whole");
    come(s);
    pass(s, 10);
    assert_nodes(s, 4, 0, 2);
    scene_disconnect(s, &s->agents[1]);
    pass(s, 10);
    assert_nodes(s, 2, 1, 3);
    assert_true(scene_node_now(s, "a").redundant);
    read_table(s, "a r1\ne r1\nc r2\nd r2");
    come(s);
    pass(s, 10);
    assert_nodes(s, 4, 0, 4);
    read_table(s, "a r1\ne r1\nb r1\nc r2\nd r2");
    pass(s, 10);
    assert_nodes(s, 4, 0, 4); /* no table changes a round */
    read_table(s, NULL);
}

static void max_bounds_the_groups(void **state)
{
    struct scene *s = *state;
    uint64_t rounds;

    read_table(s, "a r1\nb r1\nc r2\nd r2\ne r3\nf r3\ng r3");
    begin(s, (struct run_rules){.group = 1}, 7);
    max_nodes = 5;
    pass(s, 20);
    assert_int_equal(scene_participants(s), 4);
    assert_int_equal(spares(s), 3);
    assert_string_equal(lacks(s, 4), "its group has no place");
    assert_true(s->run.view.completions <= 2); /* MAX was not known before the first round */
    rounds = s->run.view.completions;
    pass(s, 60);
    assert_nodes(s, 4, 3, rounds);
    scene_disconnect(s, &s->agents[2]);
    pass(s, 20);
    assert_nodes(s, 5, 1, rounds + 1);
    assert_true(scene_node_now(s, "d").redundant);
    read_table(s, NULL);
}

static void an_order_takes_the_whole_group_out(void **state)
{
    static char *b[] = {(char *)(uintptr_t) "b"};
    static const struct cordons cordons = {.count = 1, .patterns = b};
    struct scene *s = *state;

    read_table(s, "a r1\nb r1\nc r2\nd r2");
    begin(s, (struct run_rules){.group = 1}, 4);
    pass(s, 10);
    assert_int_equal(scene_participants(s), 4);
    s->run.orders.cordons = &cordons;
    scene_step(s, (struct policy_event){.kind = RUN_ORDERED, .order = RUN_ORDER_KEEP_OUT});
    pass(s, 10);
    assert_int_equal(scene_participants(s), 4); /* until they meet */
    order(s);
    pass(s, 4);
    assert_int_equal(scene_participants(s), 2);
    assert_true(scene_node_now(s, "a").redundant && scene_node_now(s, "b").redundant);
    pass(s, 100);
    assert_int_equal(scene_participants(s), 2);
    s->run.orders.cordons = NULL;
    scene_step(s, (struct policy_event){.kind = RUN_ORDERED, .order = RUN_ORDER_KEEP_OUT});
    pass(s, 4);
    assert_int_equal(scene_participants(s), 4);
    read_table(s, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_round_has_a_multiple_of_nodes),
        TEST(a_round_that_shrinks_below_the_multiple_waits),
        TEST(a_job_of_fewer_nodes_is_free_of_the_rule),
        TEST(max_bounds_the_growth),
        TEST(a_round_grows_after_the_interval_or_with_a_loss),
        TEST(a_start_begins_the_interval_anew),
        TEST(nodes_of_the_last_round_keep_their_places),
        TEST(a_lost_node_leaves_its_place_to_a_spare_of_its_domain),
        TEST(a_silent_spare_leaves_the_place_to_another_one),
        TEST(a_place_that_no_node_has_had_is_for_a_new_node),
        TEST(a_hold_ends_when_so_many_nodes_are_there),
        TEST(a_hold_ends_at_its_time),
        TEST(a_first_round_begins_when_its_hold_ends),
        TEST(groups_take_part_as_a_whole),
        TEST(max_bounds_the_groups),
        TEST(an_order_takes_the_whole_group_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
