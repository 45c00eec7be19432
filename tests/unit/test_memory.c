/* The store when memory is short: whatever is left, a command is refused and changes nothing, or it
 * is carried out whole. It never ends the process, and all goes on once there is memory again. */
#include "store/snapshot.h"
#include "store/store.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/sim/dump.h"
#include "tests/support/sanitized.h"
#include "tests/support/wrapped_memory.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define BYTES(s)                            \
    {                                       \
        (const uint8_t *)(s), sizeof(s) - 1 \
    }

/* --- A machine with so many bytes left. --- */

static bool limited;
static long left; /* bytes that may still be taken; what is freed can be taken again */

static bool has_room(size_t size)
{
    return !limited || (long)size + 16 <= left;
}

static void *taken(void *p)
{
    left -= p == NULL ? 0 : (long)malloc_usable_size(p) + 8;
    return p;
}

static void given_back(void *p)
{
    left += p == NULL ? 0 : (long)malloc_usable_size(p) + 8;
}

void *__wrap_malloc(size_t size)
{
    return has_room(size) ? taken(__real_malloc(size)) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return has_room(count * size) ? taken(__real_calloc(count, size)) : NULL;
}

/* As the real one may: with room for both, unless it gets shorter. */
void *__wrap_realloc(void *old, size_t size)
{
    if ((old == NULL || size > malloc_usable_size(old)) && !has_room(size))
        return NULL;
    given_back(old);
    return taken(__real_realloc(old, size));
}

void __wrap_free(void *p)
{
    given_back(p);
    __real_free(p);
}

/* --- Commands, small and large. --- */

enum { LARGE = 100000, PAIRS = 400, CHILDREN = 20 };

static uint8_t large[LARGE], patched[LARGE], pairs[PAIRS * (2 * 8 + 8 + 1)], deep[2 * 300];

/* What is held back for a large change has room for the heap's own steps, see reserve.c. */
#define HEAP_STEPS (512 << 10)

static const struct command commands[] = {
    {.kind = COMMAND_KEY_SET, .key = BYTES("/new"), .value = BYTES("v")},
    {.kind = COMMAND_KEY_SET, .key = BYTES("/new"), .value = {large, LARGE}},
    {.kind = COMMAND_KEY_SET, .key = BYTES("/large"), .value = {patched, LARGE}},
    {.kind = COMMAND_KEY_SET, .key = BYTES("/large"), .value = {patched, LARGE - 1}},
    {.kind = COMMAND_KEY_SET, .key = BYTES("/shared"), .value = {patched, LARGE}},
    {.kind = COMMAND_KEY_ADD, .key = BYTES("/new"), .number = 1},
    {.kind = COMMAND_KEY_ADD, .key = BYTES("/number"), .number = 1},
    {.kind = COMMAND_KEY_COMPARE_SET,
     .key = BYTES("/large"),
     .expected = {large, LARGE},
     .value = BYTES("v")},
    {.kind = COMMAND_KEY_COMPARE_SET, .key = BYTES("/new"), .value = {large, LARGE}},
    {.kind = COMMAND_KEY_APPEND, .key = BYTES("/large"), .value = {large, 100}},
    {.kind = COMMAND_KEY_APPEND, .key = BYTES("/new"), .value = {large, LARGE}},
    {.kind = COMMAND_KEY_DELETE, .key = BYTES("/large")},
    {.kind = COMMAND_KEY_MULTI_SET, .items = {pairs, sizeof pairs}},
    {.kind = COMMAND_QUEUE_PUSH, .key = BYTES("/queue"), .value = BYTES("v")},
    {.kind = COMMAND_QUEUE_PUSH, .key = BYTES("/queue"), .value = {large, LARGE}},
    {.kind = COMMAND_QUEUE_POP, .key = BYTES("/full")},
    {.kind = COMMAND_BARRIER, .key = BYTES("/barrier"), .number = 2},
    {.kind = COMMAND_TREE_SET, .key = BYTES("/t/new"), .value = BYTES("v"), .expires_ns = 1 << 30},
    {.kind = COMMAND_TREE_SET, .key = {deep, sizeof deep}, .value = {large, LARGE}},
    {.kind = COMMAND_TREE_CREATE, .key = BYTES("/x/y"), .dir = true, .expires_ns = INT64_MAX},
    {.kind = COMMAND_TREE_CREATE_IN_ORDER, .key = BYTES("/queue"), .value = BYTES("v")},
    {.kind = COMMAND_TREE_UPDATE, .key = BYTES("/t/k"), .value = {large, LARGE}},
    {.kind = COMMAND_TREE_COMPARE_AND_SWAP, .key = BYTES("/t/k"), .value = BYTES("w")},
    {.kind = COMMAND_TREE_DELETE, .key = BYTES("/t"), .recursive = true},
    {.kind = COMMAND_TREE_COMPARE_AND_DELETE, .key = BYTES("/t/k")},
    {.kind = COMMAND_TREE_EXPIRE, .now_ns = INT64_MAX},
    {.kind = COMMAND_SPACE_RESET},
    {.kind = COMMAND_SPACE_FORGET},
    {.kind = COMMAND_WORKER_STORE_OPEN},
    {.kind = COMMAND_WORKER_STORE_DROP, .worker_store = 1},
    {.kind = COMMAND_RUN_PUT, .key = BYTES("/run"), .value = {large, LARGE}, .worker_store = 1},
    {.kind = COMMAND_RUN_DELETE, .key = BYTES("/run")},
};

static void make_values(void)
{
    for (size_t i = 0; i < LARGE; i++)
        large[i] = patched[i] = (uint8_t)(i * 31 >> 3);
    patched[LARGE / 2] ^= 1;
    for (size_t i = 0; i < sizeof deep; i++)
        deep[i] = i % 2 == 0 ? '/' : 'd';
    for (size_t i = 0; i < PAIRS; i++) {
        uint8_t *at = pairs + i * (2 * 8 + 8 + 1);

        bytes_put_u64(at, 8);
        bytes_put_u64(at + 8, i);
        bytes_put_u64(at + 16, 1);
        at[24] = 'v';
    }
}

/* --- A store with every kind of content, and with waiters and watches. --- */

struct subject {
    struct store store;
    struct space *space;
    struct subscription subscription;
    struct key_watch *key_watch;
    struct watch *watch;
    struct blob *shared;
};

static void execute(struct subject *t, struct command c)
{
    struct store_result r;

    store_execute(&t->store, t->space, &c, NULL, &r);
    if (c.kind == COMMAND_QUEUE_POP && r.status == STORE_OK)
        blob_unref(r.value);
}

/* Each key is in two groups: what they take is to be held, too. */
static size_t two_groups(struct slice key, size_t lengths[KEY_GROUPS_MAX])
{
    lengths[0] = 0;
    lengths[1] = key.len;
    return key.len == 0 ? 1 : 2;
}

static const struct key_groups groups = {.name = two_groups};

static void open_subject(struct subject *t, uint64_t seed)
{
    static const struct command first[] = {
        {.kind = COMMAND_KEY_SET, .key = BYTES("/large"), .value = {large, LARGE}},
        {.kind = COMMAND_KEY_SET, .key = BYTES("/shared"), .value = {large, LARGE}},
        {.kind = COMMAND_KEY_SET, .key = BYTES("/number"), .value = BYTES("9")},
        {.kind = COMMAND_QUEUE_PUSH, .key = BYTES("/full"), .value = {large, LARGE}},
        {.kind = COMMAND_TREE_SET,
         .key = BYTES("/t/k"),
         .value = BYTES("v"),
         .expires_ns = INT64_MAX},
        {.kind = COMMAND_WORKER_STORE_OPEN},
    };
    const struct store_options options = {.seed = seed, .key_groups = &groups};

    store_init(&t->store, &options);
    t->space = store_space(&t->store, slice_str("s"));
    for (size_t i = 0; i < COUNT(first); i++)
        execute(t, first[i]);
    for (int i = 0; i < CHILDREN; i++)
        execute(t, (struct command){.kind = COMMAND_TREE_CREATE_IN_ORDER, .key = BYTES("/")});
    t->shared = blob_ref(keymap_get(&t->space->keys, slice_str("/shared")));
    subscription_init(&t->subscription, NULL);
    if (keymap_watch(&t->space->keys, slice_str("/new"), &t->subscription, &t->key_watch) !=
        STORE_OK)
        t->key_watch = NULL;
    assert_int_equal(
        watch_open(&t->space->tree.hub, slice_str("/"), true, true, 0, NULL, &t->watch), ETCD_OK);
}

static void close_subject(struct subject *t)
{
    keymap_unwatch(&t->space->keys, t->key_watch);
    subscription_fini(&t->store.ready, &t->subscription);
    watch_close(&t->space->tree.hub, t->watch);
    blob_unref(t->shared);
    store_fini(&t->store);
}

/* --- The tests. --- */

static bool same(struct subject *a, struct subject *b)
{
    char *x = dump_text(&a->store), *y = dump_text(&b->store);
    bool is = strcmp(x, y) == 0;

    __real_free(x); /* they come from open_memstream() */
    __real_free(y);
    return is;
}

/* Repeats one command while `bytes` bytes are left for all of them, with an open snapshot or
 * without. Returns the number of successful commands. */
static size_t try_with(const struct command *c, long bytes, bool with_snapshot)
{
    enum { TIMES = 2 };
    struct subject subject, before, after;
    struct snapshot *snapshot;
    size_t done = 0;

    open_subject(&subject, 1);
    open_subject(&before, 2);
    open_subject(&after, 3);
    snapshot = with_snapshot ? snapshot_begin(&subject.store) : NULL;
    left = bytes;
    for (int i = 0; i < TIMES; i++) {
        long here;

        limited = true;
        execute(&subject, *c);
        limited = false;
        here = left; /* the other two stand on another machine */
        execute(&after, *c);
        if (same(&subject, &after)) {
            execute(&before, *c);
            left = here;
            done++;
            continue;
        }
        if (!same(&subject, &before))
            fail_msg("kind %d with %ld bytes left: something else was changed", (int)c->kind,
                     bytes);
        break;
    }
    if (done < TIMES) { /* and now there is memory again */
        execute(&subject, *c);
        if (!same(&subject, &after))
            fail_msg("kind %d after %ld bytes were left: does not work", (int)c->kind, bytes);
    }
    snapshot_end(snapshot);
    close_subject(&subject);
    close_subject(&before);
    close_subject(&after);
    return done;
}

static void with_any_memory_left_a_command_is_whole_or_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(commands); i++) {
        size_t least = 2, most = 0;

        for (long bytes = (long)i % ALLOCATION_STEP * 24; bytes < 5 * LARGE + HEAP_STEPS;
             bytes += ALLOCATION_STEP * (24 + bytes / 5)) {
            for (int with = 0; with < 2; with++) {
                size_t done = try_with(&commands[i], bytes, with != 0);

                least = done < least ? done : least;
                most = done > most ? done : most;
            }
        }
        print_message("  command %zu, kind %d: %zu to %zu of 2 times\n", i, (int)commands[i].kind,
                      least, most);
        assert_in_range(most, 1, 2);
    }
}

/* ADD on an existing key allocates no memory. */
static void add_goes_on_without_memory(void **state)
{
    const struct command c = {.kind = COMMAND_KEY_ADD, .key = BYTES("/number"), .number = 7};
    struct subject t;

    (void)state;
    open_subject(&t, 1);
    left = 0;
    limited = true;
    for (int i = 0; i < 1000; i++)
        execute(&t, c);
    limited = false;
    assert_true(slice_is(blob_slice(keymap_get(&t.space->keys, c.key)), "7009"));
    assert_int_equal(left, 0);
    close_subject(&t);
}

static enum etcd_code change_key(struct subject *t, enum command_kind kind, int i)
{
    struct command c = {.kind = kind, .value = BYTES("value")};
    struct store_result r;
    char key[32];

    snprintf(key, sizeof key, "/u/%d", i);
    c.key = slice_str(key);
    store_execute(&t->store, t->space, &c, NULL, &r);
    return r.tree.code;
}

/* A deletion is never refused: if memory is short, the history gives up old events for it. */
static void deletions_go_on_without_memory(void **state)
{
    struct subject t;
    int count = 0;

    (void)state;
    open_subject(&t, 1);
    watch_close(&t.space->tree.hub, t.watch); /* nobody is told, which would take memory */
    t.watch = NULL;
    left = 1 << 20;
    limited = true;
    while (change_key(&t, COMMAND_TREE_SET, count) == ETCD_OK)
        count++;
    assert_in_range(count, HISTORY_EVENTS, 1 << 20);
    for (int i = 0; i < count; i++)
        assert_int_equal(change_key(&t, COMMAND_TREE_DELETE, i), ETCD_OK);
    limited = false;
    close_subject(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_any_memory_left_a_command_is_whole_or_nothing),
        cmocka_unit_test(add_goes_on_without_memory),
        cmocka_unit_test(deletions_go_on_without_memory),
    };

    make_values();
    return cmocka_run_group_tests_name("store/memory", tests, NULL, NULL);
}
