/* Views of runs: made from the value of a key and the record, and found by the keys of rounds. */
#include "tests/unit/rendezvous/scene.h"

#include <stdio.h>

static void a_value_makes_a_run_or_does_not(void **state)
{
    static const struct {
        const char *value;
        bool exists;
    } cases[] = {{SENTINEL, true}, {"non_base64", false}, {"", false}, {SENTINEL "\n", false}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct run_view v;

        run_view_init(&v, slice_str("/torch.rendezvous.job"));
        assert_true(slice_is(v.id, "job"));
        run_view_update(&v, slice_str(cases[i].value));
        assert_int_equal(v.exists, cases[i].exists);
        assert_false(v.is_state);
        run_view_update(&v, (struct slice){0});
        assert_false(v.exists);
        run_view_fini(&v);
    }
}

/* With a record a run stays one, whatever its key says. */
static void a_record_makes_a_run(void **state)
{
    struct run_view v;

    (void)state;
    run_view_init(&v, slice_str("/torch.rendezvous.job"));
    assert_false(run_view_has_record(&v));
    assert_true(run_view_set_record(&v, &(struct view_record){.placement = WORKER_STORE_RDZVD,
                                                              .address = slice_str("host"),
                                                              .port = 1}));
    assert_true(run_view_has_record(&v));
    run_view_update(&v, slice_str("non_base64"));
    assert_true(v.exists && !v.is_state);
    assert_true(slice_is(v.record.address, "host"));
    run_view_update(&v, (struct slice){0});
    assert_false(v.exists || run_view_has_record(&v));
    run_view_fini(&v);
}

static void it_keeps_the_state_before_and_the_last_completed_round(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    assert_true(s->run.view.has_completed);
    assert_int_equal(s->run.view.before.count, 1);
    scene_next_round(s, 1);
    assert_int_equal(s->run.view.last_completed.round, 1);
    assert_int_equal(torch_state_participants(&s->run.view.last_completed), 1);
}

/* By the hashes of its entry, a key is found as by its bytes. */
static void check_entry(const struct run_views *views, struct slice key)
{
    struct ready_list ready;
    struct reserve reserve;
    struct quota quota = {0};
    struct batch_lookup *p;
    struct keymap m;

    ready_list_init(&ready);
    reserve_init(&reserve);
    keymap_init(&m, ACCOUNT_KEYS, &ready, &reserve, views->table.seed, &quota);
    m.groups_of = &run_key_groups;
    p = batch_lookup_begin(&m, 1, false);
    assert_true(p != NULL && batch_lookup_add(p, key));
    assert_ptr_equal(run_views_find_entry(views, p->entries[0]), run_views_find(views, key));
    assert_ptr_equal(run_views_entry_owner(views, p->entries[0]), run_views_owner(views, key));
    batch_lookup_end(p);
    keymap_fini(&m);
    reserve_fini(&reserve);
}

static const char *const ids[] = {"j", "j.0", "j.0/x", "17", "", "a b"};

static void keys_of_rounds_belong_to_the_longest_run(void **state)
{
    static const struct {
        const char *key, *run, *rest;
        int64_t round;
    } cases[] = {
        {"/torch.rendezvous.j.3/MASTER_ADDR", "/torch.rendezvous.j", "MASTER_ADDR", 3},
        {"/torch.rendezvous.j.0.3/a/b", "/torch.rendezvous.j.0", "a/b", 3},
        {"/torch.rendezvous.j.0/x.1/k", "/torch.rendezvous.j.0/x", "k", 1},
        {"/torch.rendezvous.j.0/y", "/torch.rendezvous.j", "y", 0},
        {"/torch.rendezvous.17.2/k", "/torch.rendezvous.17", "k", 2},
        {"/torch.rendezvous..2/k", "/torch.rendezvous.", "k", 2},
        {"/torch.rendezvous.k.2/k", NULL, NULL, 0},
        {"/torch.rendezvous.j.x/k", NULL, NULL, 0},
        {"/torch.rendezvous.j./k", NULL, NULL, 0},
        {"/torch.rendezvous.j.99999999999999999999/k", NULL, NULL, 0},
        {"/torch.rendezvous.j", NULL, NULL, 0},
        {"init/", NULL, NULL, 0},
    };
    struct run_view all[COUNT(ids)];
    char keys[COUNT(ids)][64];
    struct run_views views;

    (void)state;
    run_views_init(&views, 3);
    for (size_t i = 0; i < COUNT(ids); i++) {
        snprintf(keys[i], sizeof keys[i], TORCH_RUN_PREFIX "%s", ids[i]);
        run_view_init(&all[i], slice_str(keys[i]));
        run_view_update(&all[i], slice_str(SENTINEL));
        run_views_add(&views, &all[i]);
    }
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t round = -1;
        struct slice rest;
        struct run_view *v = run_views_find_round(&views, slice_str(cases[i].key), &round, &rest);

        check_entry(&views, slice_str(cases[i].key));
        assert_int_equal(v != NULL, cases[i].run != NULL);
        if (v == NULL)
            continue;
        assert_true(slice_is(v->node.key, cases[i].run));
        assert_int_equal(round, cases[i].round);
        assert_true(slice_is(rest, cases[i].rest));
        assert_ptr_equal(run_views_owner(&views, slice_str(cases[i].key)), v);
        assert_true(slice_is(run_key_of(&views, slice_str(cases[i].key), true), cases[i].key));
        assert_true(slice_is(run_key_of(&views, slice_str(cases[i].key), false), cases[i].run));
    }
    /* Rather a run than the key of a round of another. */
    assert_ptr_equal(run_views_owner(&views, slice_str(keys[2])), &all[2]);
    run_view_update(&all[2], (struct slice){0});
    assert_ptr_equal(run_views_owner(&views, slice_str(keys[2])), &all[0]);
    check_entry(&views, slice_str(keys[2]));
    for (size_t i = 0; i < COUNT(ids); i++) {
        run_views_remove(&views, &all[i]);
        run_view_fini(&all[i]);
    }
    run_views_fini(&views);
}

/* A key of 8 KB may look like one of a round at every third byte. */
static void no_more_than_a_few_fronts_of_a_key_are_looked_at(void **state)
{
    static const char key[] = TORCH_RUN_PREFIX "j.1/.2/.x/.3/.4/.5/k";
    size_t lengths[KEY_GROUPS_MAX], prefix = strlen(TORCH_RUN_PREFIX);
    struct run_view v;
    struct run_views views;
    struct slice rest;
    int64_t round = 0;

    (void)state;
    assert_int_equal(torch_key_fronts(slice_str(key), lengths, KEY_GROUPS_MAX), KEY_GROUPS_MAX);
    assert_int_equal(lengths[0], strlen(TORCH_RUN_PREFIX "j.1/.2/.x/.3/.4/"));
    assert_int_equal(lengths[3], strlen(TORCH_RUN_PREFIX "j.1/"));
    assert_int_equal(torch_key_fronts(slice_str("/torch.rendezvous.2/k"), lengths, KEY_GROUPS_MAX),
                     0);
    assert_int_equal(torch_key_fronts(slice_str("/torch.rendezvous..2/k"), lengths, KEY_GROUPS_MAX),
                     1);
    assert_int_equal(torch_key_fronts(slice_str("other.2/k"), lengths, KEY_GROUPS_MAX), 0);

    run_views_init(&views, 3);
    run_view_init(&v, (struct slice){(const uint8_t *)key, prefix + 1});
    run_view_update(&v, slice_str(SENTINEL));
    run_views_add(&views, &v);
    assert_null(run_views_find_round(&views, slice_str(key), &round, &rest));
    assert_ptr_equal(run_views_find_round(&views, slice_str(TORCH_RUN_PREFIX "j.1/.2/.x/.3/.4/k"),
                                          &round, &rest),
                     &v);
    assert_int_equal(round, 1);
    assert_true(slice_is(rest, ".2/.x/.3/.4/k"));
    run_views_remove(&views, &v);
    run_view_fini(&v);
    run_views_fini(&views);
}

static void the_key_of_a_round_is_written_as_torch_does(void **state)
{
    uint8_t out[64 + TORCH_KEY_ROOM];
    struct run_view v;
    size_t len;

    (void)state;
    run_view_init(&v, slice_str("/torch.rendezvous.job"));
    len = torch_key_write(v.node.key, INT64_MAX, "MASTER_PORT", out);
    assert_true(slice_is((struct slice){out, len},
                         "/torch.rendezvous.job.9223372036854775807/MASTER_PORT"));
    run_view_fini(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_makes_a_run_or_does_not),
        cmocka_unit_test(a_record_makes_a_run),
        TEST(it_keeps_the_state_before_and_the_last_completed_round),
        cmocka_unit_test(keys_of_rounds_belong_to_the_longest_run),
        cmocka_unit_test(no_more_than_a_few_fronts_of_a_key_are_looked_at),
        cmocka_unit_test(the_key_of_a_round_is_written_as_torch_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
