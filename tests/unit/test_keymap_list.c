/* The list of all keys: of one moment, however long it takes to write and whatever happens
 * meanwhile. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/key_list.h"
#include "tests/unit/keymap_fixture.h"

static void set_number(struct fixture *w, unsigned i)
{
    char name[32];

    snprintf(name, sizeof name, "/key/%06u", i);
    set(w, name, "v");
}

static bool delete_number(struct fixture *w, unsigned i)
{
    char name[32];

    snprintf(name, sizeof name, "/key/%06u", i);
    return keymap_delete(&w->m, s(name)) == STORE_OK;
}

static const struct key_list *make(struct fixture *w, uint64_t ticket, size_t max)
{
    const struct key_list *l;

    assert_int_equal(keymap_make_list(&w->m, ticket, max, &l), STORE_OK);
    return l;
}

/* --- Against a model, which copies the names that there are at each moment. --- */

enum { NAMES = 300, ROUNDS = 4000, ASKERS = 5 };

struct asker {
    uint64_t ticket; /* 0: does not ask */
    size_t since;    /* of moments: the first that would be right */
};

struct model {
    bool is_there[NAMES];
    size_t count; /* of moments */
    bool (*moments)[NAMES];
};

static void remember(struct model *model)
{
    memcpy(model->moments[model->count++], model->is_there, sizeof model->is_there);
}

/* The names that a list has; each once. */
static void read_names(const struct key_list *l, bool names[NAMES])
{
    static uint8_t bytes[NAMES * 32];
    struct writer out = {.ptr = bytes, .cap = sizeof bytes};

    memset(names, 0, NAMES);
    assert_true(key_list_copy(l, &out));
    assert_int_equal(out.len, l->size);
    assert_int_equal(out.len % (8 + 11), 0);
    assert_int_equal(out.len / (8 + 11), l->count);
    for (size_t at = 0; at < out.len; at += 8 + 11) {
        size_t i = strtoul((const char *)bytes + at + 8 + 5, NULL, 10);

        assert_int_equal(bytes_get_u64(bytes + at), 11);
        assert_in_range(i, 0, NAMES - 1);
        assert_false(names[i]);
        names[i] = true;
    }
}

static void check_list(const struct model *model, const struct asker *a, const struct key_list *l)
{
    bool names[NAMES];

    read_names(l, names);
    for (size_t i = a->since; i < model->count; i++) {
        if (memcmp(model->moments[i], names, sizeof names) == 0)
            return;
    }
    fail_msg("the list is of no moment since it was asked for");
}

static void change(struct fixture *w, struct model *model)
{
    unsigned i = (unsigned)rand() % NAMES;

    if (model->is_there[i])
        assert_true(delete_number(w, i));
    else
        set_number(w, i);
    model->is_there[i] = !model->is_there[i];
    if (rand() % 500 == 0) {
        keymap_clear(&w->m);
        memset(model->is_there, 0, sizeof model->is_there);
    }
    remember(model);
}

static void ask(struct fixture *w, struct model *model, struct asker *a)
{
    const struct key_list *l;

    if (a->ticket == 0)
        *a = (struct asker){keymap_ask_list(&w->m), model->count - 1};
    l = make(w, a->ticket, (size_t)rand() % 60);
    if (l != NULL)
        check_list(model, a, l);
    if (l != NULL || rand() % 100 == 0) { /* or it has no more patience */
        keymap_leave_list(&w->m, a->ticket);
        a->ticket = 0;
    }
}

static void a_list_is_of_one_moment_since_it_was_asked_for(void **state)
{
    struct model model = {.moments = calloc(ROUNDS + 1, NAMES)};
    struct asker askers[ASKERS] = {{0}};
    struct fixture w;
    size_t answered = 0;

    (void)state;
    srand(1);
    assert_non_null(model.moments);
    fixture_init(&w, 0);
    remember(&model);
    for (int i = 0; i < ROUNDS; i++) {
        struct asker *a = &askers[rand() % ASKERS];
        bool was_asking = a->ticket != 0;

        change(&w, &model);
        ask(&w, &model, a);
        answered += was_asking && a->ticket == 0;
        if (rand() % 50 == 0)
            keymap_trim(&w.m);
    }
    assert_in_range(answered, ROUNDS / 50, ROUNDS);
    for (int i = 0; i < ASKERS; i++) {
        if (askers[i].ticket != 0)
            keymap_leave_list(&w.m, askers[i].ticket);
    }
    assert_int_equal(w.m.list_askers, 0);
    fixture_fini(&w);
    free(model.moments);
}

/* --- One by one. --- */

/* What the next two share: ten keys, of which the list has written three. */
static uint64_t begin(struct fixture *w)
{
    uint64_t ticket;

    fixture_init(w, 0);
    for (unsigned i = 0; i < 10; i++)
        set_number(w, i);
    ticket = keymap_ask_list(&w->m);
    assert_null(make(w, ticket, 3));
    return ticket;
}

static void check_numbers(const struct key_list *l, const char *digits)
{
    uint8_t bytes[1024];
    struct writer out = {.ptr = bytes, .cap = sizeof bytes};

    assert_non_null(l);
    assert_true(key_list_copy(l, &out));
    assert_int_equal(l->count, strlen(digits));
    assert_int_equal(out.len, l->count * (8 + 11));
    for (size_t i = 0; i < l->count; i++)
        assert_int_equal(bytes[(i + 1) * (8 + 11) - 1], digits[i]);
}

static void keys_that_go_meanwhile_are_there_and_those_that_come_are_not(void **state)
{
    struct fixture w;
    uint64_t ticket = begin(&w);

    (void)state;
    assert_true(delete_number(&w, 1)); /* written */
    assert_true(delete_number(&w, 3)); /* the next */
    assert_true(delete_number(&w, 9)); /* the last */
    set_number(&w, 3);
    assert_true(delete_number(&w, 3)); /* of no concern: it came later */
    set_number(&w, 9);
    check_numbers(make(&w, ticket, 1000), "0123945678");
    keymap_leave_list(&w.m, ticket);
    ticket = keymap_ask_list(&w.m);
    check_numbers(make(&w, ticket, 1000), "02456789");
    keymap_leave_list(&w.m, ticket);
    fixture_fini(&w);
}

/* Who asked before the moment of a list gets it; who asked later waits for the next one, and that
 * begins when all the first ones have theirs. */
static void who_asks_later_waits_for_the_next_list(void **state)
{
    struct fixture w;
    uint64_t first = begin(&w), same = keymap_ask_list(&w.m), later;
    const struct key_list *l;

    (void)state;
    set_number(&w, 10);
    later = keymap_ask_list(&w.m);
    assert_null(make(&w, later, 1000)); /* it has helped to write the first one */
    l = make(&w, first, 0);
    check_numbers(l, "0123456789");
    keymap_leave_list(&w.m, first);
    assert_null(make(&w, later, 1000));
    assert_ptr_equal(make(&w, same, 0), l);
    keymap_leave_list(&w.m, same);
    l = make(&w, later, 1000);
    assert_non_null(l);
    assert_int_equal(l->count, 11);
    keymap_leave_list(&w.m, later);
    fixture_fini(&w);
}

/* A list without readers is freed. A complete list stays until keymap_trim() or until a key is
 * added. */
static void a_list_is_kept_for_as_long_as_it_is_of_use(void **state)
{
    struct fixture w;
    uint64_t ticket = begin(&w);
    struct blob *held;

    (void)state;
    keymap_leave_list(&w.m, ticket);
    assert_null(w.m.list);
    ticket = keymap_ask_list(&w.m);
    held = blob_ref(make(&w, ticket, 1000)->chunks[0]);
    keymap_leave_list(&w.m, ticket);
    assert_non_null(w.m.list);
    keymap_trim(&w.m);
    assert_non_null(w.m.list); /* somebody reads it */
    blob_unref(held);
    set_number(&w, 1); /* it has a value already */
    assert_non_null(w.m.list);
    keymap_trim(&w.m);
    assert_null(w.m.list);
    ticket = keymap_ask_list(&w.m);
    assert_non_null(make(&w, ticket, 1000));
    keymap_leave_list(&w.m, ticket);
    set_number(&w, 10);
    assert_null(w.m.list);
    assert_int_equal(account.bytes[ACCOUNT_ANSWERS], 0);
    fixture_fini(&w);
}

/* Names that are longer than a chunk, and the empty one. */
static void long_names_take_several_chunks(void **state)
{
    enum { LEN = 200000 };
    static uint8_t name[LEN], bytes[3 * (LEN + 8)];
    struct writer out = {.ptr = bytes, .cap = sizeof bytes};
    const struct key_list *l;
    struct fixture w;
    uint64_t ticket;

    (void)state;
    fixture_init(&w, 0);
    memset(name, 'n', sizeof name);
    ticket = keymap_ask_list(&w.m);
    l = make(&w, ticket, 1);
    assert_int_equal(l->count + l->size, 0);
    keymap_leave_list(&w.m, ticket);
    assert_int_equal(keymap_set(&w.m, (struct slice){name, LEN}, s("v")), STORE_OK);
    set(&w, "", "v");
    assert_int_equal(keymap_set(&w.m, (struct slice){name, LEN - 1}, s("v")), STORE_OK);
    ticket = keymap_ask_list(&w.m);
    assert_null(make(&w, ticket, 1000)); /* so many bytes are one slice */
    assert_null(w.m.list->chunks[4]);
    while ((l = make(&w, ticket, 1)) == NULL)
        ;
    assert_in_range(l->chunk_count, 6, 7);
    assert_true(key_list_copy(l, &out));
    assert_int_equal(out.len, 3 * 8 + LEN + LEN - 1);
    assert_int_equal(bytes_get_u64(bytes), LEN);
    assert_memory_equal(bytes + 8, name, LEN);
    assert_int_equal(bytes_get_u64(bytes + 8 + LEN), 0);
    assert_int_equal(bytes_get_u64(bytes + 16 + LEN), LEN - 1);
    assert_memory_equal(bytes + 24 + LEN, name, LEN - 1);
    keymap_leave_list(&w.m, ticket);
    fixture_fini(&w);
}

static void without_memory_there_is_no_list(void **state)
{
    const struct key_list *l;
    struct fixture w;
    uint64_t ticket = begin(&w);

    (void)state;
    account_set_limit(1);
    set_number(&w, 10);
    delete_number(&w, 7); /* it is in the chunk that there is */
    assert_non_null(make(&w, ticket, 1000));
    keymap_leave_list(&w.m, ticket);
    ticket = keymap_ask_list(&w.m);
    assert_int_equal(keymap_make_list(&w.m, ticket, 1000, &l), STORE_NO_MEMORY);
    account_set_limit(0);
    assert_non_null(make(&w, ticket, 1000));
    keymap_leave_list(&w.m, ticket);
    fixture_fini(&w);
}

/* Keys go while it stands before them, at them, and behind them; one comes again. */
static void a_sweep_shows_the_keys_that_stay(void **state)
{
    static const char *const shown[] = {"/key/000000", "/key/000002", "/key/000003", "/key/000005"};
    const struct entry *e;
    struct fixture w;

    (void)state;
    fixture_init(&w, SIZE_MAX);
    for (unsigned i = 0; i < 10; i++)
        set_number(&w, i);
    keymap_sweep(&w.m);
    for (unsigned i = 0; i < 4; i++) {
        e = keymap_sweep_next(&w.m);
        assert_non_null(e);
        assert_true(slice_is(entry_key(e), shown[i]));
        if (i == 0)
            delete_number(&w, 1); /* the next one */
        if (i == 1)
            delete_number(&w, 2); /* the present one */
        if (i == 2)
            assert_true(delete_number(&w, 4) && delete_number(&w, 7));
    }
    set_number(&w, 7); /* it came later */
    for (unsigned i = 6; i < 10; i += i == 6 ? 2 : 1)
        assert_true(delete_number(&w, i));
    assert_null(keymap_sweep_next(&w.m));
    keymap_sweep(&w.m);
    keymap_clear(&w.m);
    assert_null(keymap_sweep_next(&w.m));
    fixture_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_shows_the_keys_that_stay),
        cmocka_unit_test(a_list_is_of_one_moment_since_it_was_asked_for),
        cmocka_unit_test(keys_that_go_meanwhile_are_there_and_those_that_come_are_not),
        cmocka_unit_test(who_asks_later_waits_for_the_next_list),
        cmocka_unit_test(a_list_is_kept_for_as_long_as_it_is_of_use),
        cmocka_unit_test(long_names_take_several_chunks),
        cmocka_unit_test(without_memory_there_is_no_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
