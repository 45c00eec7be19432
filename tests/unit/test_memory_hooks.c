/* What libraries take of memory: it is counted, and what a client makes large is refused. */
#include "rdzv/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <event2/event.h>
#include <openssl/crypto.h>

#include "proto/torch/torch_state.h"
#include "store/memory/account.h"

#define NODES 1000

/* How many nodes there is memory for. */
static size_t add_nodes(struct torch_state *s)
{
    for (int64_t pid = 0; pid < NODES; pid++) {
        const struct torch_node node = {.addr = slice_str("a.node"), .pid = pid};
        struct torch_node *at;

        if (!torch_state_insert(s, &node, &at))
            break;
    }
    return s->count;
}

static void states_count_as_runs(void **state)
{
    struct torch_state s = {0};

    (void)state;
    assert_int_equal(add_nodes(&s), NODES);
    assert_in_range(account.bytes[ACCOUNT_RUNS], NODES * sizeof(struct torch_node), SIZE_MAX);
    torch_state_free(&s);
    assert_int_equal(account.bytes[ACCOUNT_RUNS], 0);
}

static void states_are_refused_over_the_limit(void **state)
{
    struct torch_state s = {0};

    (void)state;
    account_set_limit(2 * ACCOUNT_KEPT_MIN);
    account.total = 2 * ACCOUNT_KEPT_MIN - ACCOUNT_KEPT_MIN / 2 - 32 * NODES; /* others have it */
    assert_in_range(add_nodes(&s), 1, NODES - 1);
    torch_state_free(&s);
    assert_int_equal(account.total, 2 * ACCOUNT_KEPT_MIN - ACCOUNT_KEPT_MIN / 2 - 32 * NODES);
    account.total = 0;
}

static void trees_of_json_count_and_are_refused(void **state)
{
    static char text[1 << 16] = "[1";
    cJSON *tree;

    (void)state;
    for (size_t at = 2; at + 2 < sizeof text; at += 2)
        memcpy(text + at, ",1", 2);
    text[sizeof text - 2] = ']';
    tree = cJSON_Parse(text);
    assert_non_null(tree);
    assert_in_range(account.bytes[ACCOUNT_INPUT], sizeof text / 2 * sizeof(cJSON), SIZE_MAX);
    cJSON_Delete(tree);
    assert_int_equal(account.total, 0);
    account_set_limit(2 * ACCOUNT_KEPT_MIN);
    assert_null(cJSON_Parse(text));
    assert_int_equal(account.total, 0);
}

static void memory_of_libevent_is_counted(void **state)
{
    struct event_base *base = event_base_new();
    size_t before = account.bytes[ACCOUNT_LOOP];

    (void)state;
    assert_non_null(base);
    assert_in_range(before, 100, SIZE_MAX);
    event_base_free(base);
    assert_in_range(account.bytes[ACCOUNT_LOOP], 0, before / 2);
}

#define RECORD 16500

static void some_buffers_of_records_are_kept(void **state)
{
    void *records[6], *first, *small;
    size_t each;

    (void)state;
    assert_int_equal(account.bytes[ACCOUNT_TLS], 0);
    first = OPENSSL_malloc(RECORD);
    each = account.bytes[ACCOUNT_TLS];
    assert_in_range(each, RECORD, 2 * RECORD);
    OPENSSL_free(first);
    assert_int_equal(account.bytes[ACCOUNT_TLS], each); /* also for whatever else is asked for */
    small = OPENSSL_malloc(100);
    assert_ptr_not_equal(small, first);
    OPENSSL_free(small);
    assert_ptr_equal(OPENSSL_malloc(RECORD + 300), first);
    OPENSSL_free(first);
    for (size_t i = 0; i < 6; i++)
        memset(records[i] = OPENSSL_malloc(RECORD), 1, RECORD);
    assert_int_equal(account.bytes[ACCOUNT_TLS], 6 * each);
    for (size_t i = 0; i < 6; i++)
        OPENSSL_free(records[i]);
    assert_int_equal(account.bytes[ACCOUNT_TLS], 4 * each);
    OPENSSL_free(NULL);
    memory_hooks_give_back();
    assert_int_equal(account.bytes[ACCOUNT_TLS], 0);
}

static int set_up(void **state)
{
    (void)state;
    memory_hooks_set();
    account_set_limit(0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(states_count_as_runs, set_up),
        cmocka_unit_test_setup(states_are_refused_over_the_limit, set_up),
        cmocka_unit_test_setup(trees_of_json_count_and_are_refused, set_up),
        cmocka_unit_test_setup(memory_of_libevent_is_counted, set_up),
        cmocka_unit_test_setup(some_buffers_of_records_are_kept, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
