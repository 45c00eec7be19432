/* The keys of torch's agents and workers: rounds, and the writers of well-known keys. */
#include "proto/torch/torch_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct row {
    const char *key, *what, *group;
    int64_t rank;
};

static void assert_writer(const struct row *row,
                          bool (*read)(struct slice key, struct torch_key_writer *out))
{
    struct torch_key_writer w;
    bool found = read(slice_str(row->key), &w);

    if (found != (row->what != NULL))
        fail_msg("%s: %s", row->key, found ? w.what : "has no writer");
    if (!found)
        return;
    assert_string_equal(w.what, row->what);
    assert_int_equal(w.rank, row->rank);
    assert_true(
        slice_equal(w.group, row->group == NULL ? (struct slice){0} : slice_str(row->group)));
}

/* Keys as workers of torch 1.13.1 and 2.13 write them. */
static void keys_of_workers_name_their_writer(void **state)
{
    static const struct row rows[] = {
        {"/default_pg/0//cpu//0/3", "gloo's address", "default_pg", 3},
        {"/default_pg/0//2//cpu//0/1", "gloo's address", "2", 1},
        {"/worker/attempt_0/default_pg/0/0/5", "gloo's address", "default_pg", 5},
        {"//worker/attempt_0/default_pg/0/0/5", "gloo's address", "default_pg", 5},
        {"/default_pg/0//cuda//0", "NCCL's id", "default_pg", 0},
        {"/default_pg/0//cuda//17", "NCCL's id", "default_pg", 0},
        {"/default_pg/0//mesh_dp//cuda//0", "NCCL's id", "mesh_dp", 0},
        {"/default_pg/0//cuda//2:7", "NCCL's id for a pair of ranks", "default_pg", 2},
        {"/default_pg/0//cuda//2:x", NULL, NULL, 0},
        {"/default_pg/0//cpu//1/3", NULL, NULL, 0},
        {"/default_pg/0//cpu//0/-1", NULL, NULL, 0},
        {"/default_pg/0//cpu//0/99999999999", NULL, NULL, 0},
        {"/mine/0/3", NULL, NULL, 0},
        {"/store_based_barrier_key:1", NULL, NULL, 0},
        {"init/", NULL, NULL, 0},
        {"/", NULL, NULL, 0},
        {"", NULL, NULL, 0},
        {"//cuda//", NULL, NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_writer(&rows[i], torch_key_writer_of_worker);
}

static void keys_of_a_round_name_their_writer(void **state)
{
    static const struct row rows[] = {
        {"MASTER_ADDR", "the address of the workers' store", NULL, 0},
        {"MASTER_PORT", "the address of the workers' store", NULL, 0},
        {"torchelastic/role_info/12", "the number of its workers", NULL, 12},
        {"torchelastic/role_info/x", NULL, NULL, 0},
        {"torchelastic/assigned_ranks/3", "the ranks of the workers", NULL, 0},
        {"torchelastic/agent/terminal_state/last_member", NULL, NULL, 0},
        {"", NULL, NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_writer(&rows[i], torch_key_writer_of_round);
}

static void keys_of_static_agents_name_their_writer(void **state)
{
    static const struct row rows[] = {
        {"/none/torchelastic/role_info/12", "the number of its workers", NULL, 12},
        {"/a/torchelastic/b/torchelastic/role_info/1", NULL, NULL, 0},
        {"/none/torchelastic/assigned_ranks/3", "the ranks of the workers", NULL, 0},
        {"/none/torchelastic/agent/terminal_state/last_member", NULL, NULL, 0},
        {"torchelastic/role_info/1", NULL, NULL, 0},
        {"/default_pg/0//cpu//0/1", NULL, NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_writer(&rows[i], torch_key_writer_of_static);
}

/* Agent 0 hangs while it looks its own name up, so who waits for its address reads that. */
static void an_unwritten_address_has_a_question_to_its_node(void **state)
{
    struct torch_key_writer writer;

    (void)state;
    assert_true(torch_key_writer_of_round(slice_str("MASTER_ADDR"), &writer));
    assert_non_null(strstr(writer.when, "does its own name resolve there (rdzvctl preflight)?"));
    assert_true(torch_key_writer_of_round(slice_str("torchelastic/role_info/0"), &writer));
    assert_string_equal(writer.when, "when the round is complete");
}

/* The ranks of new_group(use_local_synchronization=True) may wait for groups of different names. */
static void a_group_whose_name_is_a_hash_has_a_condition(void **state)
{
    static const char hash[] = "/default_pg/0//3dc4379ea45616caf0e9b9623ef0b53784fb4ef5//cpu//0/2";
    struct torch_key_writer writer;

    (void)state;
    assert_true(torch_key_writer_of_worker(slice_str(hash), &writer));
    assert_non_null(strstr(writer.when, "if all its ranks have made as many groups before"));
    assert_true(torch_key_writer_of_worker(slice_str("/default_pg/0//1//cpu//0/2"), &writer));
    assert_string_equal(writer.when, "in new_group()");
}

static void a_key_of_a_round_is_split_behind_its_run(void **state)
{
    const struct slice key = slice_str("/torch.rendezvous.job.1/x.7/torchelastic/role_info/2");
    size_t lengths[4];
    struct slice name;
    int64_t round;

    (void)state;
    assert_int_equal(torch_key_fronts(key, lengths, 4), 2);
    torch_key_split(key, lengths[0], &round, &name);
    assert_int_equal(round, 7);
    assert_true(slice_is(name, "torchelastic/role_info/2"));
    torch_key_split(key, lengths[1], &round, &name);
    assert_int_equal(round, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_workers_name_their_writer),
        cmocka_unit_test(keys_of_a_round_name_their_writer),
        cmocka_unit_test(keys_of_static_agents_name_their_writer),
        cmocka_unit_test(an_unwritten_address_has_a_question_to_its_node),
        cmocka_unit_test(a_group_whose_name_is_a_hash_has_a_condition),
        cmocka_unit_test(a_key_of_a_round_is_split_behind_its_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
