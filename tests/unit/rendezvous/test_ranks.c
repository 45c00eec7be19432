/* The ranks of a round, by --rank-order, --rank-zero and the table of domains. */
#include "rdzv/rendezvous/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rdzv/config/topology.h"
#include "store/memory/account.h"
#include "tests/unit/rendezvous/scene.h"

#define NODES_MAX 80

/* A run of complete rounds. */
struct run_ranks {
    struct policy_settings settings;
    struct torch_state round;
    struct slice kept; /* owned */
};

static void begin(struct run_ranks *r, enum rank_order order)
{
    *r = (struct run_ranks){.settings = {.rank_order = order}};
}

static void set_table(struct run_ranks *r, const char *text)
{
    char error[TOPOLOGY_ERROR_MAX] = "";

    r->settings.topology = topology_parse(slice_str(text), error);
    assert_string_equal(error, "");
}

static void end(struct run_ranks *r)
{
    topology_free((struct topology *)(uintptr_t)r->settings.topology);
    torch_state_free(&r->round);
    account_heap_free(ACCOUNT_RUNS, (void *)(uintptr_t)r->kept.ptr);
}

/* "a b b:2": nodes by name, with another pid behind the colon. */
static void read_nodes(struct torch_state *state, const char *nodes)
{
    while (*nodes != '\0') {
        size_t len = strcspn(nodes, " "), name = strcspn(nodes, " :");
        struct torch_node node = {.addr = {(const uint8_t *)nodes, name}, .pid = 1}, *at;

        if (name < len)
            node.pid = atoi(nodes + name + 1);
        node.participant = node.has_heartbeat = true;
        assert_true(torch_state_insert(state, &node, &at));
        nodes += len + (nodes[len] == ' ');
    }
}

static void complete(struct run_ranks *r, struct torch_state *next)
{
    torch_state_complete(next);
    ranks_assign(&r->settings, NULL, r->kept, next);
    ranks_keep(&r->kept, next, 0);
    torch_state_free(&r->round);
    r->round = *next;
}

static const struct torch_node *of_rank(const struct torch_state *s, int64_t rank)
{
    const struct torch_node *found = NULL;

    for (size_t i = 0; i < s->count; i++) {
        if (!s->nodes[i].participant || s->nodes[i].rank != rank)
            continue;
        assert_null(found);
        found = &s->nodes[i];
    }
    assert_non_null(found);
    return found;
}

/* The nodes of the next round, and the same in the order of their ranks. */
static void round_is(struct run_ranks *r, const char *nodes, const char *wanted)
{
    struct torch_state next = {0};
    char text[512] = "";

    read_nodes(&next, nodes);
    complete(r, &next);
    for (size_t i = 0; i < torch_state_participants(&r->round); i++) {
        const struct torch_node *node = of_rank(&r->round, (int64_t)i);
        size_t len = strlen(text);

        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s", i == 0 ? "" : " ",
                                (int)node->addr.len, (const char *)node->addr.ptr);
        if (node->pid != 1)
            snprintf(text + len, sizeof text - len, ":%d", (int)node->pid);
    }
    assert_string_equal(text, wanted);
}

/* --- Orders. --- */

static void each_order_has_its_ranks(void **state)
{
    static const struct {
        enum rank_order order;
        const char *zero, *nodes, *wanted;
    } rows[] = {
        {RANKS_TORCH, NULL, "w-10 w-2 w-1", "w-1 w-10 w-2"},
        {RANKS_TORCH, "w-2", "w-10 w-2 w-1", "w-1 w-10 w-2"},
        {RANKS_NATURAL, NULL, "w-10 w-2 w-1", "w-1 w-2 w-10"},
        {RANKS_NATURAL, NULL, "w-10 w-010 w-9 w w- x", "w w- w-9 w-010 w-10 x"},
        {RANKS_NATURAL, NULL, "10.0.0.10 10.0.0.9 9.0.0.1", "9.0.0.1 10.0.0.9 10.0.0.10"},
        {RANKS_NATURAL, "w-*0", "w-10 w-2 w-1", "w-10 w-1 w-2"},
        {RANKS_KEEP, NULL, "w-10 w-2 w-1", "w-1 w-2 w-10"},
        {RANKS_KEEP, "w-2", "w-10 w-2 w-1", "w-2 w-1 w-10"},
        {RANKS_TABLE, NULL, "w-10 w-2 w-1", "w-1 w-2 w-10"},
        {RANKS_KEEP, NULL, "a:3 a:2 a:10", "a:2 a:3 a:10"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct run_ranks r;

        begin(&r, rows[i].order);
        r.settings.rank_zero = (char *)(uintptr_t)rows[i].zero;
        round_is(&r, rows[i].nodes, rows[i].wanted);
        end(&r);
    }
}

/* --- keep. --- */

static void a_newcomer_takes_the_vacated_rank(void **state)
{
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    round_is(&r, "w-1 w-2 w-10", "w-1 w-2 w-10");
    round_is(&r, "w-1 w-12 w-10", "w-1 w-12 w-10");
    round_is(&r, "w-11 w-12 w-10", "w-11 w-12 w-10");
    round_is(&r, "w-11 w-12 w-10 w-0", "w-11 w-12 w-10 w-0");
    end(&r);
}

/* Ranks have no gaps, so the nodes with the highest ranks move. */
static void a_smaller_round_moves_the_highest_ranks(void **state)
{
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    round_is(&r, "a b c d e", "a b c d e");
    round_is(&r, "a c d e", "a e c d");
    round_is(&r, "a b c d e", "a e c d b");
    end(&r);
}

/* A node that returns gets its old rank, unless a node of a newer round has it. */
static void a_node_that_was_away_gets_its_rank_back(void **state)
{
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    round_is(&r, "a b c d", "a b c d");
    round_is(&r, "a b c", "a b c");
    round_is(&r, "a b c e d", "a b c d e");
    round_is(&r, "a c d e", "a e c d");
    round_is(&r, "a b c d e", "a e c d b");
    end(&r);
}

/* Only the name of a node that was started again is the same. */
static void a_restarted_node_has_its_rank_by_its_name(void **state)
{
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    round_is(&r, "a b c", "a b c");
    round_is(&r, "a b:7 c", "a b:7 c");
    round_is(&r, "a:3 b:9 d", "a:3 b:9 d");
    end(&r);
}

static void two_agents_of_one_name_count_by_themselves(void **state)
{
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    round_is(&r, "h:5 h:9 i", "h:5 h:9 i");
    round_is(&r, "h:9 h:2 i", "h:2 h:9 i"); /* 9 keeps 1 */
    round_is(&r, "h:9 i j", "j h:9 i");     /* not 0 by the name of the other one */
    end(&r);
}

/* Torch 2.5 to 2.11 ends an agent that becomes rank 0 later than in its first round. */
static void rank_0_is_for_a_newcomer_or_for_one_that_had_it(void **state)
{
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    round_is(&r, "a b c d", "a b c d");
    round_is(&r, "c d e", "e d c"); /* d must move, and e has rank 0 */
    round_is(&r, "c d", "c d");     /* c must move, and no node is new */
    round_is(&r, "a:2 c d", "c d a:2");
    end(&r);

    begin(&r, RANKS_KEEP);
    round_is(&r, "a b c", "a b c");
    round_is(&r, "b c d", "d b c");
    round_is(&r, "a b c d", "d b c a"); /* a had rank 0 */
    round_is(&r, "a b c", "a b c");
    end(&r);
}

static void rank_zero_moves_no_node_while_rank_0_lives(void **state)
{
    char zero[] = "z*";
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    r.settings.rank_zero = zero;
    round_is(&r, "a b c", "a b c");
    round_is(&r, "a b c z", "a b c z");
    round_is(&r, "b c z", "z b c");           /* z must move */
    round_is(&r, "b c y", "y b c");           /* z is gone */
    round_is(&r, "b c z2", "z2 b c");         /* of two new nodes, it is that */
    round_is(&r, "b c x z z3", "z b c x z3"); /* z had rank 0 before */
    end(&r);
}

/* --- Domains. --- */

#define TABLE                                                \
    "a1 r1/a 1\na2 r1/a 0\na3 r1/a\nb[1-9] r1/b\nb10 r1/b\n" \
    "c* r2/c # a pattern\n\n# x\ta comment\n"

static void domains_are_blocks(void **state)
{
    struct run_ranks r;

    (void)state;
    for (enum rank_order order = RANKS_KEEP; order <= RANKS_TABLE; order++) {
        begin(&r, order);
        set_table(&r, TABLE);
        round_is(&r, "a1 a2 a3 b10 b2 c1 c2 x1", "a2 a1 a3 b2 b10 c1 c2 x1");
        end(&r);
    }
    begin(&r, RANKS_NATURAL);
    set_table(&r, TABLE);
    round_is(&r, "a1 a2 c1 b2", "a1 a2 b2 c1");
    end(&r);
}

static void the_domain_of_rank_zero_comes_first(void **state)
{
    char zero[] = "b10";
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    set_table(&r, TABLE);
    r.settings.rank_zero = zero;
    round_is(&r, "a1 a2 b10 b2 c1 c2", "b10 b2 a2 a1 c1 c2");
    end(&r);
}

static void newcomers_go_to_their_own_domain(void **state)
{
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    set_table(&r, TABLE);
    round_is(&r, "a1 a2 a3 b1 b2 b3 c1 c2", "a2 a1 a3 b1 b2 b3 c1 c2");
    round_is(&r, "a2 a3 b1 b3 c1 c2 b7 a1:2", "a2 a1:2 a3 b1 b7 b3 c1 c2");
    /* Two gaps, one in b and one between b and c: the node of c takes the second one. */
    round_is(&r, "a2 a1 a3 b1 b3 c2 c9 b8", "a2 a1 a3 b1 b8 b3 c9 c2");
    /* A whole domain is replaced by another one. */
    round_is(&r, "a2 a1 a3 c2 c9 x3 x2 x1", "a2 a1 a3 x1 x2 x3 c9 c2");
    end(&r);
}

/* --- 64 nodes in 4 racks. --- */

static uint64_t draw_state = 1;

static uint64_t draw(uint64_t below)
{
    draw_state = draw_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (draw_state >> 33) % below;
}

static uint8_t rack_of(const struct torch_node *node)
{
    return node->addr.ptr[1];
}

static size_t edges(const uint8_t *racks, size_t count)
{
    size_t crossing = 0;

    for (size_t i = 0; i < count; i++)
        crossing += racks[i] != racks[(i + 1) % count];
    return crossing;
}

/* The lowest number of edges between racks, over all orders of the nodes without a rank, whose
 * racks[] is 0. */
static size_t fewest(uint8_t *racks, size_t count, const uint8_t *free, size_t free_count)
{
    uint8_t rest[NODES_MAX];
    size_t at = 0, least = SIZE_MAX;

    while (at < count && racks[at] != 0)
        at++;
    if (at == count)
        return edges(racks, count);
    for (size_t i = 0; i < free_count; i++) {
        size_t found;

        if (memchr(free, free[i], i) != NULL)
            continue; /* tried */
        racks[at] = free[i];
        memcpy(rest, free, i);
        memcpy(rest + i, free + i + 1, free_count - i - 1);
        found = fewest(racks, count, rest, free_count - 1);
        least = found < least ? found : least;
        racks[at] = 0;
    }
    return least;
}

/* Checks that each node kept its rank if the round has that rank, and that the new nodes cost few
 * more edges between racks than the best order. `in_place`: each rack got a new node for each lost
 * one. */
static void check_round(const struct torch_state *before, const struct torch_state *now,
                        bool in_place)
{
    size_t count = torch_state_participants(now), free_count = 0;
    uint8_t racks[NODES_MAX] = {0}, is[NODES_MAX], free[NODES_MAX];

    for (size_t i = 0; i < count; i++)
        is[i] = rack_of(of_rank(now, (int64_t)i));
    for (size_t i = 0; i < now->count; i++) {
        const struct torch_node *node = &now->nodes[i], *was = torch_state_find(before, node);

        if (was != NULL && was->rank < (int64_t)count) {
            assert_int_equal(node->rank, was->rank);
            racks[node->rank] = rack_of(node);
        } else {
            free[free_count++] = rack_of(node);
        }
    }
    if (racks[0] == 0) { /* rank 0 goes to a newcomer first */
        uint8_t *taken = memchr(free, is[0], free_count);

        racks[0] = is[0];
        *taken = free[--free_count];
    }
    if (free_count < 9) /* else there are too many orders */
        assert_in_range(edges(is, count), 0, fewest(racks, count, free, free_count) + 1);
    if (in_place)
        assert_in_range(edges(is, count), 0, 4 + 1);
}

static void add_node(struct torch_state *state, uint8_t rack)
{
    struct torch_node node = {.participant = true, .has_heartbeat = true, .pid = 1}, *at;
    static unsigned names;
    char name[32];

    snprintf(name, sizeof name, "r%c-n%u", rack, names++);
    node.addr = slice_str(name);
    assert_true(torch_state_insert(state, &node, &at));
}

/* Removes `lost` nodes of the round, and notes their racks. */
static struct torch_state without(const struct torch_state *now, size_t lost, uint8_t *racks)
{
    struct torch_state next = {0};
    bool gone[NODES_MAX] = {false};
    struct torch_node *at;

    for (size_t i = 0; i < lost;) {
        size_t k = draw(now->count);

        if (gone[k])
            continue;
        gone[k] = true;
        racks[i++] = rack_of(&now->nodes[k]);
    }
    for (size_t i = 0; i < now->count; i++) {
        if (!gone[i])
            assert_true(torch_state_insert(&next, &now->nodes[i], &at));
    }
    return next;
}

static void begin_racks(struct run_ranks *r)
{
    struct torch_state next = {0};

    begin(r, RANKS_KEEP);
    set_table(r, "r1-* rack1\nr2-* rack2\nr3-* rack3\nr4-* rack4\n");
    for (int i = 0; i < 64; i++)
        add_node(&next, (uint8_t)('1' + i % 4));
    complete(r, &next);
    check_round(&(struct torch_state){0}, &r->round, true);
}

static void check_next(struct run_ranks *r, struct torch_state *next, bool in_place)
{
    struct torch_state before = {0};

    assert_true(torch_state_copy(&r->round, &before));
    complete(r, next);
    check_round(&before, &r->round, in_place);
    torch_state_free(&before);
}

/* A round loses up to 8 nodes, or a whole rack, and the same number of nodes joins in these racks.
 */
static void replaced_nodes_cross_no_more_racks(void **state)
{
    struct run_ranks r;

    (void)state;
    begin_racks(&r);
    for (int i = 0; i < 200; i++) {
        size_t lost = i % 10 == 0 ? 16 : 1 + draw(8);
        uint8_t racks[NODES_MAX];
        struct torch_state next = without(&r.round, lost, racks);

        for (size_t k = 0; k < lost; k++)
            add_node(&next, racks[k]);
        check_next(&r, &next, true);
    }
    end(&r);
}

/* One node is lost or joins in each round, in a random rack: only the highest rank may move. */
static void a_loss_or_a_join_moves_no_node_that_can_stay(void **state)
{
    struct run_ranks r;

    (void)state;
    begin_racks(&r);
    for (int i = 0; i < 200; i++) {
        bool joins = r.round.count < 48 || (r.round.count < NODES_MAX - 2 && draw(2) == 0);
        uint8_t racks[NODES_MAX];
        struct torch_state next = without(&r.round, !joins, racks);

        if (joins)
            add_node(&next, (uint8_t)('1' + draw(4)));
        check_next(&r, &next, false);
    }
    end(&r);
}

/* --- What is kept. --- */

static void the_list_is_bounded(void **state)
{
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    for (int i = 0; i < 1000; i++) {
        struct torch_state next = {0};
        char nodes[64];

        snprintf(nodes, sizeof nodes, "x%d y%d", i, i);
        read_nodes(&next, nodes);
        complete(&r, &next);
        assert_in_range(r.kept.len, 1, (2 + 64 + 2) * 48);
    }
    end(&r);
}

static void bytes_that_are_no_list_are_none(void **state)
{
    static const uint8_t bytes[] = {1, 2, 3, 4, 5};
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    round_is(&r, "a b c", "a b c");
    for (size_t len = 0; len < r.kept.len; len++) {
        struct torch_state next = {0};
        uint8_t *part = malloc(len + 1);

        assert_non_null(part);
        memcpy(part, r.kept.ptr, len);
        read_nodes(&next, "b c d");
        torch_state_complete(&next);
        ranks_assign(&r.settings, NULL, (struct slice){part, len}, &next);
        for (int i = 0; i < 3; i++)
            of_rank(&next, i);
        torch_state_free(&next);
        free(part);
    }
    account_heap_free(ACCOUNT_RUNS, (void *)(uintptr_t)r.kept.ptr);
    r.kept = (struct slice){account_heap_copy(ACCOUNT_RUNS, ACCOUNT_SMALL, bytes, sizeof bytes),
                            sizeof bytes};
    round_is(&r, "b c a", "a b c");
    end(&r);
}

/* --- In the policy. --- */

/* The view of an agent, the last complete round and the record of the store must have the same
 * ranks. */
static void a_start_keeps_the_ranks(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 3);
    assert_int_equal(scene_node_now(&s, "c").rank, 2);
    assert_non_null(s.ranks.ptr);
    scene_disconnect(&s, &s.agents[0]);
    scene_restart(&s, false);
    assert_non_null(s.run.view.ranks.ptr);
    scene_fini(&s);
}

/* Older daemons kept neither MAX nor how many nodes the newest round had. */
static void the_newest_round_and_max_are_known_again(void **state)
{
    struct torch_state round = {0};
    struct run_ranks r;

    (void)state;
    begin(&r, RANKS_KEEP);
    round_is(&r, "a b c", "a b c");
    round_is(&r, "d b", "d b");
    assert_int_equal(ranks_recall(r.kept, NULL), 0);
    ranks_keep(&r.kept, &r.round, 5);
    assert_int_equal(ranks_recall(r.kept, &round), 5);
    assert_int_equal(round.count, 2);
    assert_int_equal(torch_state_participants(&round), 2);
    assert_true(slice_is(round.nodes[0].addr, "b") && round.nodes[0].rank == 1);
    assert_true(slice_is(round.nodes[1].addr, "d") && round.nodes[1].rank == 0);
    torch_state_free(&round);
    assert_int_equal(ranks_recall(slice_from(r.kept, 32), &round), 0);
    assert_int_equal(round.count, 0);
    end(&r);
}

static void a_run_that_ends_forgets_its_ranks(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s);
    scene_meet(&s, 2);
    scene_event(&s, RUN_FORGET, NULL);
    assert_null(s.ranks.ptr);
    assert_null(s.run.view.ranks.ptr);
    scene_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_order_has_its_ranks),
        cmocka_unit_test(a_newcomer_takes_the_vacated_rank),
        cmocka_unit_test(a_smaller_round_moves_the_highest_ranks),
        cmocka_unit_test(a_node_that_was_away_gets_its_rank_back),
        cmocka_unit_test(a_restarted_node_has_its_rank_by_its_name),
        cmocka_unit_test(two_agents_of_one_name_count_by_themselves),
        cmocka_unit_test(rank_0_is_for_a_newcomer_or_for_one_that_had_it),
        cmocka_unit_test(rank_zero_moves_no_node_while_rank_0_lives),
        cmocka_unit_test(domains_are_blocks),
        cmocka_unit_test(the_domain_of_rank_zero_comes_first),
        cmocka_unit_test(newcomers_go_to_their_own_domain),
        cmocka_unit_test(replaced_nodes_cross_no_more_racks),
        cmocka_unit_test(a_loss_or_a_join_moves_no_node_that_can_stay),
        cmocka_unit_test(the_list_is_bounded),
        cmocka_unit_test(bytes_that_are_no_list_are_none),
        cmocka_unit_test(a_start_keeps_the_ranks),
        cmocka_unit_test(the_newest_round_and_max_are_known_again),
        cmocka_unit_test(a_run_that_ends_forgets_its_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
