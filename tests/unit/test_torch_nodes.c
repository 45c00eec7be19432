/* Nodes that rounds go on without: who makes up for whom. */
#include "proto/torch/torch_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* "a1 b2": the nodes with pid 1 at address a and pid 2 at address b, with ranks as in a round. */
static struct torch_state state_of(const char *text)
{
    struct torch_state state = {.complete = true};

    for (int64_t rank = 0; *text != '\0'; text += 2, rank++) {
        struct torch_node node = {.participant = true, .rank = rank}, *at;

        text += *text == ' ';
        node.addr = (struct slice){(const uint8_t *)text, 1};
        node.pid = text[1] - '0';
        assert_true(torch_state_insert(&state, &node, &at));
    }
    return state;
}

static const char *text_of(const struct torch_state *state, char text[128])
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < state->count; i++) {
        assert_true(state->nodes[i].participant);
        len += (size_t)snprintf(text + len, 128 - len, "%s%c%d", i == 0 ? "" : " ",
                                state->nodes[i].addr.ptr[0], (int)state->nodes[i].pid);
    }
    return text;
}

static const struct {
    const char *gone, *then, *now, *next;
} cases[] = {
    /* nobody */
    {"", "a1 b1", "a1 b1", ""},
    {"", "", "a1", ""},
    {"", "a1", "a1 b1", ""},
    /* lost, and lost still */
    {"", "a1 b1 c1", "a1 b1", "c1"},
    {"c1", "a1 b1", "a1 b1", "c1"},
    {"c1", "a1 b1", "a1", "b1 c1"},
    {"", "a1 b1 c1", "", "a1 b1 c1"},
    /* it is back */
    {"c1", "a1 b1", "a1 b1 c1", ""},
    {"b1 c1", "a1", "a1 c1", "b1"},
    /* started again at the same address, in the next round and later */
    {"", "a1 b1 c1", "a1 b1 c2", ""},
    {"c1", "a1 b1", "a1 b1 c2", ""},
    {"b1 c1", "a1", "a1 c2", "b1"},
    {"c1 d1", "a1 b1", "a1 b1 d2", "c1"},
    /* one at another address makes up for one, first for who is gone for longer */
    {"c1", "a1 b1", "a1 b1 d1", ""},
    {"d1", "a1 b1 c1", "a1 b1 e1", "c1"},
    {"", "a1 b1 c1", "d1 e1 f1", ""},
    {"", "a1 b1 c1", "d1", "b1 c1"},
    /* several of one address */
    {"", "a1 a2 a3", "a1 a3", "a2"},
    {"a2", "a1 a3", "a1 a3 a4", ""},
    {"", "a1 a2 a3 b1", "a4 b1", "a2 a3"},
    {"", "a1 a2 b1 b2", "a1 a3 a4", "b2"},
};

static void who_comes_makes_up_for_who_is_gone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct torch_state gone = state_of(cases[i].gone), then = state_of(cases[i].then);
        struct torch_state now = state_of(cases[i].now), next;
        char text[128];

        assert_true(absent_nodes_next(&gone, &then, &now, &next));
        if (strcmp(text_of(&next, text), cases[i].next) != 0)
            fail_msg("gone %s, then %s, now %s: gone %s", cases[i].gone, cases[i].then,
                     cases[i].now, text);
        torch_state_free(&gone);
        torch_state_free(&then);
        torch_state_free(&now);
        torch_state_free(&next);
    }
}

/* A node that only waits was in no round, and enters none. */
static void only_participants_count(void **state)
{
    struct torch_state gone = {0}, then = state_of("a1 b1 c1 d1"), now = state_of("a1 c1 e1");
    struct torch_state next;
    char text[128];

    (void)state;
    then.nodes[3].participant = false; /* d1 */
    now.nodes[1].participant = false;  /* c1 */
    now.nodes[2].participant = false;  /* e1 */
    assert_true(absent_nodes_next(&gone, &then, &now, &next));
    assert_string_equal(text_of(&next, text), "b1 c1");
    assert_int_equal(next.nodes[1].rank, 2);
    torch_state_free(&then);
    torch_state_free(&now);
    torch_state_free(&next);
}

static size_t blocks_left;

static void *alloc(size_t len)
{
    return blocks_left-- > 0 ? malloc(len) : NULL;
}

static void *grow(void *old, size_t count, size_t size)
{
    return blocks_left-- > 0 ? reallocarray(old, count, size) : NULL;
}

/* Each allocation fails once. */
static void without_memory_nothing_changes(void **state)
{
    static const struct torch_memory failing = {.alloc = alloc, .grow = grow, .free = free};
    static const struct torch_memory ordinary = {
        .alloc = malloc, .grow = reallocarray, .free = free};
    struct torch_state gone = state_of("c1"), then = state_of("a1 b1"), now = state_of("a1");
    struct torch_state next = {.round = 77};
    size_t room = 0;
    char text[128];

    (void)state;
    torch_state_set_memory(&failing);
    while (blocks_left = room, !absent_nodes_next(&gone, &then, &now, &next)) {
        assert_int_equal(next.round, 77);
        room++;
    }
    torch_state_set_memory(&ordinary);
    assert_true(room > 4);
    assert_string_equal(text_of(&next, text), "b1 c1");
    torch_state_free(&gone);
    torch_state_free(&then);
    torch_state_free(&now);
    torch_state_free(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_makes_up_for_who_is_gone),
        cmocka_unit_test(only_participants_count),
        cmocka_unit_test(without_memory_nothing_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
