/* Clients that ask for the same list of keys share the work, and none of them notices: each random
 * command goes to a keymap where they share and to one where they do not. */
#include <stdio.h>

#include "proto/c10d.h"
#include "store/keymap/keymap_entry.h"
#include "tests/unit/keymap_fixture.h"

#define CLIENTS  12
#define SEEDS    16
#define COMMANDS 4000 /* with each */

/* "/q" is a queue, and in one list only: clients that wait for an element of a queue are woken in
 * the order in which their lists came. */
static const char *const lists[] = {"/a /b /c /q", "/b /c /d /a", "/d", "/e /a /a /d"};
static const char *const keys[] = {"/a", "/b", "/c", "/d", "/e"};

struct client {
    const char *list;              /* that it waits for; NULL: none */
    struct waiter *shared, *alone; /* NULL: fulfilled */
};

static struct {
    struct fixture shared, alone;
    struct client clients[CLIENTS];
    uint64_t random, joined, known;
} world;

static unsigned pick(unsigned count)
{
    world.random = world.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(world.random >> 33) % count;
}

/* --- WAIT. --- */

static void change_some(void);

/* In several slices, as long requests are executed; other clients change keys between them. */
static void begin_wait(struct client *c, const char *names)
{
    uint8_t buf[256];
    uint64_t count, wait_epoch = world.shared.m.wait_epoch;
    struct slice list = list_of(names, &count, buf, sizeof buf), rest = list, key;

    c->list = names;
    if (keymap_is_known(&world.shared.m, list, false)) {
        world.joined++;
        assert_int_equal(keymap_wait_join(&world.shared.m, c, &c->shared), STORE_OK);
        assert_int_equal(keymap_wait(&world.alone.m, list, count, c, &c->alone), STORE_OK);
        return;
    }
    for (; c10d_next_blob(&rest, &key); count--) {
        keymap_wait_add(&world.shared.m, &c->shared, count, c, key);
        keymap_wait_add(&world.alone.m, &c->alone, count, c, key);
        if (pick(4) == 0)
            change_some();
    }
    c->shared = keymap_wait_end(&world.shared.m, c->shared);
    c->alone = keymap_wait_end(&world.alone.m, c->alone);
    c->shared = keymap_wait_share(&world.shared.m, list, wait_epoch, c->shared);
}

static void end_wait(struct client *c)
{
    keymap_cancel(&world.shared.m, c->shared);
    keymap_cancel(&world.alone.m, c->alone);
    *c = (struct client){0};
}

/* Each key that the one waiter lacks is lacked by the other one. */
static void check_lacks(const struct client *c)
{
    const struct awaited *at, *other;
    uint64_t i = 0, k;

    while ((at = waiter_next_key(c->shared, &i)) != NULL) {
        k = 0;
        do {
            other = waiter_next_key(c->alone, &k);
            assert_non_null(other);
        } while (!slice_equal(awaited_key(at), awaited_key(other)));
    }
}

static void check_waits(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &world.clients[i];

        assert_int_equal(c->shared == NULL, c->alone == NULL);
        if (c->shared == NULL) {
            c->list = NULL;
            continue;
        }
        assert_ptr_equal(c->shared->wake.owner, c);
        assert_int_equal(c->shared->wake.ready, c->alone->wake.ready);
        if (c->shared->wake.ready)
            end_wait(c);
        else
            check_lacks(c);
    }
    assert_true(TAILQ_EMPTY(&world.shared.ready));
    assert_int_equal(world.shared.m.waiters, world.alone.m.waiters);
}

/* --- MULTI_GET. --- */

static void get_all(const char *names)
{
    uint8_t buf[256], text[1024];
    struct writer answer = {.ptr = text, .cap = sizeof text};
    struct keymap *m = &world.shared.m;
    uint64_t count;
    struct slice list = list_of(names, &count, buf, sizeof buf), rest = list, key;
    struct batch_lookup *lookup;
    struct blob *blob;

    while (c10d_next_blob(&rest, &key)) {
        struct slice value = blob_slice(keymap_get(&world.alone.m, key));
        uint8_t len[8];

        bytes_put_u64(len, value.len);
        writer_put(&answer, len, 8);
        writer_slice(&answer, value);
    }
    if (keymap_is_known(m, list, true)) {
        world.known++;
        blob = keymap_known_answer(m);
        assert_true(slice_equal(blob_slice(blob), (struct slice){answer.ptr, answer.len}));
        return;
    }
    lookup = batch_lookup_begin(m, count, true);
    for (rest = list; c10d_next_blob(&rest, &key);)
        assert_true(batch_lookup_add(lookup, key));
    batch_lookup_take_values(lookup);
    blob = blob_new(ACCOUNT_ANSWERS, (struct slice){answer.ptr, answer.len});
    if (pick(4) == 0)
        change_some();
    keymap_share_answer(m, list, lookup, blob);
    blob_unref(blob);
}

/* --- Changes. --- */

static void pop(struct keymap *m)
{
    struct blob *element;
    uint64_t len;

    if (keymap_queue_pop(m, s("/q"), &element, &len) == STORE_OK)
        blob_unref(element);
}

static void change_one(struct keymap *m, unsigned kind, const char *key, const char *value)
{
    if (kind < 8)
        assert_int_equal(keymap_set(m, s(key), s(value)), STORE_OK);
    else if (kind < 12)
        keymap_delete(m, s(key));
    else if (kind < 15)
        assert_int_equal(keymap_queue_push(m, s("/q"), s(value)), STORE_OK);
    else if (kind < 18)
        pop(m);
    else if (kind == 18)
        keymap_clear(m);
}

static void change_some(void)
{
    unsigned kind = pick(19), key = pick(sizeof keys / sizeof *keys);
    char value[8];

    snprintf(value, sizeof value, "%u", pick(1000));
    change_one(&world.shared.m, kind, keys[key], value);
    change_one(&world.alone.m, kind, keys[key], value);
}

static void run_command(void)
{
    struct client *c = &world.clients[pick(CLIENTS)];
    const char *names = lists[pick(sizeof lists / sizeof *lists)];

    switch (pick(8)) {
    case 0:
    case 1:
    case 2:
        if (c->list == NULL)
            begin_wait(c, names);
        break;
    case 3:
        end_wait(c);
        break;
    case 4:
    case 5:
        get_all(names);
        break;
    case 6:
        if (pick(8) == 0)
            keymap_trim(&world.shared.m);
        break;
    default:
        change_some();
    }
}

static void run_commands(uint64_t seed)
{
    print_message("seed %llu\n", (unsigned long long)seed);
    world.random = seed;
    fixture_init(&world.shared, 0);
    fixture_init(&world.alone, 0);
    for (int i = 0; i < COMMANDS; i++) {
        run_command();
        check_waits();
    }
    for (int i = 0; i < CLIENTS; i++)
        end_wait(&world.clients[i]);
    keymap_trim(&world.shared.m);
    fixture_fini(&world.shared);
    fixture_fini(&world.alone);
}

static void sharing_shows_nowhere(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_commands(seed);
    assert_true(world.joined > SEEDS * COMMANDS / 100 && world.known > SEEDS * COMMANDS / 100);
}

/* The list stands until its last client leaves, though another list was asked for since. */
static void a_list_lives_as_long_as_a_client_waits(void **state)
{
    struct client *c = world.clients;

    (void)state;
    fixture_init(&world.shared, 0);
    fixture_init(&world.alone, 0);
    begin_wait(&c[0], "/x /y");
    begin_wait(&c[1], "/x /y");
    begin_wait(&c[2], "/x /z");
    assert_int_equal(world.shared.m.waiters, 3);
    end_wait(&c[0]);
    set(&world.shared, "/x", "1");
    set(&world.alone, "/x", "1");
    check_waits();
    set(&world.shared, "/y", "1");
    set(&world.alone, "/y", "1");
    assert_true(c[1].shared->wake.ready);
    check_waits();
    end_wait(&c[2]);
    keymap_trim(&world.shared.m);
    fixture_fini(&world.shared);
    fixture_fini(&world.alone);
}

static void a_full_space_takes_no_list(void **state)
{
    struct client *c = world.clients;

    (void)state;
    fixture_init(&world.shared, 500); /* one waiter fits, and no copy of its list */
    fixture_init(&world.alone, 0);
    begin_wait(&c[0], "/a /b /c /d /e /f /g /h /i");
    assert_null(world.shared.m.asked);
    end_wait(&c[0]);
    fixture_fini(&world.shared);
    fixture_fini(&world.alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharing_shows_nowhere),
        cmocka_unit_test(a_list_lives_as_long_as_a_client_waits),
        cmocka_unit_test(a_full_space_takes_no_list),
    };

    return cmocka_run_group_tests_name("store/asked_list", tests, NULL, NULL);
}
