/* Snapshots of stores that change meanwhile: one case each, and many keys at once. */
#include "tests/unit/snapshot_run.h"

/* --- One case each. --- */

/* Writes the rest of a snapshot, loads it, and expects `text`. */
static void expect_snapshot(struct store *s, struct snapshot *snapshot, char *text,
                            struct store *loaded)
{
    enum snapshot_state state = SNAPSHOT_GOES_ON;
    struct slices *l = calloc(1, sizeof *l);

    while (state == SNAPSHOT_GOES_ON)
        state = write_slice(snapshot, l, 1000);
    assert_int_equal(state, SNAPSHOT_DONE);
    snapshot_end(snapshot);
    assert_null(s->snapshot);
    open_store(loaded, 9);
    assert_true(load(loaded, l));
    expect_same_text(text, dump_snapshot_text(loaded), "one case", 0);
    slices_free(l);
    free(l);
}

/* Small and large values that are written over in place, by SET, by a part of it, by APPEND. */
static void a_value_may_be_written_over(void **state)
{
    static const size_t lengths[] = {1, 100, 5000, 50000};

    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct order o = {.command = {.kind = COMMAND_KEY_APPEND, .key = slice_str("a")}};
        struct slice value = {some_bytes, lengths[i]};
        struct store s, loaded;
        struct snapshot *snapshot;
        char *text;

        open_spaces(&s, 1);
        set(&s, "s", value);
        set(&s, "p", value);
        set(&s, "a", value);
        o.command.value = value;
        carry_out(&s, &o, NULL);
        text = dump_snapshot_text(&s);
        snapshot = snapshot_begin(&s);
        set(&s, "s", (struct slice){some_bytes + 1, lengths[i]});
        memcpy(o.changed, some_bytes, lengths[i]);
        o.changed[lengths[i] / 2] ^= 1;
        set(&s, "p", (struct slice){o.changed, lengths[i]});
        o.command.value = slice_str("x");
        carry_out(&s, &o, NULL);
        expect_snapshot(&s, snapshot, text, &loaded);
        store_fini(&s);
        store_fini(&loaded);
    }
}

static void queue(struct store *s, enum command_kind kind, const char *name)
{
    struct order o = {
        .command = {.kind = kind, .key = slice_str(name), .value = slice_str("element")}};
    struct store_result out = carry_out(s, &o, NULL);

    assert_int_equal(out.status, STORE_OK);
    blob_unref(kind == COMMAND_QUEUE_POP ? out.value : NULL);
}

/* The snapshot stands at a queue that has nothing of the moment any more, and that ends. */
static void a_queue_may_end_where_the_snapshot_stands(void **state)
{
    struct store s, loaded;
    struct snapshot *snapshot;
    char *text;

    (void)state;
    open_spaces(&s, 1);
    queue(&s, COMMAND_QUEUE_PUSH, "first");
    queue(&s, COMMAND_QUEUE_PUSH, "second");
    queue(&s, COMMAND_QUEUE_PUSH, "third");
    text = dump_snapshot_text(&s);
    snapshot = snapshot_begin(&s);
    queue(&s, COMMAND_QUEUE_PUSH, "second");
    queue(&s, COMMAND_QUEUE_POP, "second");
    queue(&s, COMMAND_QUEUE_POP, "first");
    queue(&s, COMMAND_QUEUE_POP, "second");
    queue(&s, COMMAND_QUEUE_PUSH, "second"); /* in the same memory, perhaps */
    expect_snapshot(&s, snapshot, text, &loaded);
    store_fini(&s);
    store_fini(&loaded);
}

/* A key of the tree and the event that made it share the value, as they did. */
static void events_and_keys_share_their_values(void **state)
{
    struct order o = {.command = {.kind = COMMAND_TREE_SET, .key = slice_str("/k")}};
    struct store s, loaded;
    const struct tree *t;
    const struct node *n;
    struct slice where;
    size_t before;

    (void)state;
    open_spaces(&s, 1);
    for (size_t i = 0; i < 3; i++) {
        o.command.value = (struct slice){some_bytes + i, 1000};
        carry_out(&s, &o, NULL);
    }
    o.command.refresh = true;
    o.command.value = (struct slice){0};
    for (size_t i = 0; i < 3; i++) {
        o.command.expires_ns = (int64_t)(i + 1) * INT64_C(1000000000000);
        carry_out(&s, &o, NULL);
    }
    before = account.bytes[ACCOUNT_TREES] + account.bytes[ACCOUNT_HISTORY];
    expect_snapshot(&s, snapshot_begin(&s), dump_snapshot_text(&s), &loaded);
    t = &store_find_space(&loaded, slice_str(space_names[0]))->tree;
    assert_int_equal(tree_get((struct tree *)(uintptr_t)t, slice_str("/k"), &n, &where), ETCD_OK);
    assert_int_equal(n->value->refs, 8); /* the node's, its event's, two each of the refreshes */
    assert_int_equal(n->value->kind, ACCOUNT_TREES);
    assert_ptr_equal(t->hub.history[t->index]->prev_value, n->value);
    assert_int_equal(t->hub.history[t->index - 3]->prev_value->refs, 2);
    assert_int_equal(account.bytes[ACCOUNT_TREES] + account.bytes[ACCOUNT_HISTORY], 2 * before);
    store_fini(&s);
    store_fini(&loaded);
}

/* Loads a history with less memory than the store had when it kept the events. */
static void where_memory_is_short_the_history_begins_later(void **state)
{
    struct order o = {.command = {.kind = COMMAND_TREE_SET, .key = slice_str("/k")}};
    struct slices *l = calloc(1, sizeof *l);
    enum snapshot_state at = SNAPSHOT_GOES_ON;
    struct snapshot *snapshot;
    struct store s, loaded;
    const struct tree *t;

    (void)state;
    open_spaces(&s, 1);
    for (size_t i = 0; i < 100; i++) {
        o.command.value = (struct slice){some_bytes + i, 10000};
        carry_out(&s, &o, NULL);
    }
    snapshot = snapshot_begin(&s);
    while (at == SNAPSHOT_GOES_ON)
        at = write_slice(snapshot, l, 100000);
    snapshot_end(snapshot);
    assert_int_equal(at, SNAPSHOT_DONE);
    open_store(&loaded, 9);
    account_set_limit(account.total + ACCOUNT_KEPT_MIN + 500000);
    assert_true(load(&loaded, l));
    account_set_limit(0);
    t = &store_find_space(&loaded, slice_str(space_names[0]))->tree;
    assert_in_range(t->hub.oldest, t->index - 60, t->index + 1);
    o.command.value = (struct slice){some_bytes, 10};
    carry_out(&loaded, &o, NULL);
    assert_non_null(t->hub.history[t->index]);
    slices_free(l);
    free(l);
    store_fini(&s);
    store_fini(&loaded);
}

static void postpone(struct store *s)
{
    struct order o = {.command = {.kind = COMMAND_TREE_POSTPONE, .number = SECOND}};
    struct batch batch;

    batch_init(&batch);
    batch_begin(&batch, 1);
    carry_out(s, &o, &batch);
    assert_int_equal(batch.count, 1);
    batch_fini(&batch);
}

/* All deadlines of a tree move in one step. A snapshot that has already written the tree has the
 * old deadlines; any other snapshot fails, and reports that memory was not the cause. */
static void a_snapshot_has_the_deadlines_of_its_moment_or_fails(void **state)
{
    struct order o = {.command = {.kind = COMMAND_TREE_SET,
                                  .key = slice_str("/k"),
                                  .now_ns = START,
                                  .expires_ns = START + SECOND}};
    struct store s, loaded;
    struct snapshot *snapshot;
    struct batch out;
    char *text;

    (void)state;
    open_spaces(&s, 1);
    carry_out(&s, &o, NULL);
    set(&s, "key", slice_str("value"));
    batch_init(&out);
    snapshot = snapshot_begin(&s);
    postpone(&s);
    assert_int_equal(snapshot_write(snapshot, 100000, &out), SNAPSHOT_OVERTAKEN);
    snapshot_end(snapshot);

    open_store(&loaded, 1);
    text = dump_snapshot_text(&s);
    snapshot = snapshot_begin(&s);
    while (!TAILQ_EMPTY(&s.spaces.tqh_first->tree.snapshots)) {
        assert_int_equal(snapshot_write(snapshot, 1, &out), SNAPSHOT_GOES_ON);
        assert_true(snapshot_load(&loaded, batch_bytes(&out)));
    }
    postpone(&s);
    assert_int_equal(snapshot_write(snapshot, 100000, &out), SNAPSHOT_DONE);
    assert_true(snapshot_load(&loaded, batch_bytes(&out)));
    expect_same_text(text, dump_snapshot_text(&loaded), "deadlines", 0);
    snapshot_end(snapshot);
    batch_fini(&out);
    store_fini(&s);
    store_fini(&loaded);
}

static void a_store_without_spaces_has_a_snapshot(void **state)
{
    struct store s, loaded;

    (void)state;
    open_store(&s, 1);
    expect_snapshot(&s, snapshot_begin(&s), dump_snapshot_text(&s), &loaded);
    assert_true(TAILQ_EMPTY(&loaded.spaces));
    store_fini(&s);
    store_fini(&loaded);
}

/* --- Many keys at once. --- */

enum { MANY = 20000 };

static struct batch_lookup *look_many_up(struct keymap *m, int from)
{
    struct batch_lookup *p = batch_lookup_begin(m, MANY, true);
    char key[20];

    for (int i = from; i < from + MANY; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_true(batch_lookup_add_value(p, slice_str(key), slice_str(key)));
    }
    return p;
}

static void set_many(struct store *s, uint64_t worker_store, int from)
{
    struct order o = {.command = {.kind = COMMAND_KEY_MULTI_SET, .worker_store = worker_store}};

    o.command.lookup = look_many_up(space_keys(space_of(s, &o), worker_store), from);
    assert_int_equal(carry_out(s, &o, NULL).status, STORE_OK);
    batch_lookup_end(o.command.lookup);
}

/* Half of the keys are written again while the snapshot is open; then the worker store goes, or all
 * keys, or nothing. */
static void many_keys_may_change_at_once(void **state)
{
    static const enum command_kind kinds[] = {COMMAND_NONE, COMMAND_SPACE_FORGET,
                                              COMMAND_WORKER_STORE_DROP};

    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        enum snapshot_state result = SNAPSHOT_GOES_ON;
        struct slices *l = calloc(1, sizeof *l);
        struct order o = {.command = {.kind = COMMAND_WORKER_STORE_OPEN}};
        struct store s, loaded;
        struct snapshot *snapshot;
        char *text;

        open_spaces(&s, 1);
        carry_out(&s, &o, NULL);
        set_many(&s, 1, 0);
        text = dump_snapshot_text(&s);
        snapshot = snapshot_begin(&s);
        set_many(&s, 1, MANY / 2);
        assert_in_range(account.bytes[ACCOUNT_SNAPSHOT], 1, 500000); /* a few bytes beside each */
        o.command = (struct command){.kind = kinds[i], .worker_store = 1};
        if (kinds[i] != COMMAND_NONE)
            carry_out(&s, &o, NULL);
        while (result == SNAPSHOT_GOES_ON)
            result = write_slice(snapshot, l, 20000);
        snapshot_end(snapshot);
        open_store(&loaded, 2);
        assert_true(load(&loaded, l));
        expect_same_text(text, dump_snapshot_text(&loaded), "many keys", i);
        store_fini(&loaded);
        store_fini(&s);
        slices_free(l);
        free(l);
    }
    assert_true(account.bytes[ACCOUNT_SNAPSHOT] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_may_be_written_over),
        cmocka_unit_test(a_queue_may_end_where_the_snapshot_stands),
        cmocka_unit_test(events_and_keys_share_their_values),
        cmocka_unit_test(where_memory_is_short_the_history_begins_later),
        cmocka_unit_test(a_snapshot_has_the_deadlines_of_its_moment_or_fails),
        cmocka_unit_test(a_store_without_spaces_has_a_snapshot),
        cmocka_unit_test(many_keys_may_change_at_once),
    };

    return cmocka_run_group_tests_name("store/snapshot, cases", tests, fill_bytes, NULL);
}
