/* The queue of passwords that are to be hashed: in which order, and what becomes of jobs that are
 * cancelled or needless. The thread is the real one; what it computes waits for the test. */
#include "rdzv/etcd/hasher.h"

#include <arpa/inet.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "rdzv/engine/stats.h"

#define MOST 2048

static struct event_base *base;
static struct stats stats;
static struct hasher hasher;
static sem_t may_compute, began; /* one post, one hash */

struct item {
    struct hash_job job;
    bool needless;
    bool done, computed, freed;
};

static struct item items[MOST];
static struct item *order[MOST]; /* as they were done or freed */
static size_t ended;

static bool is_needed(const struct hash_job *job)
{
    return !((const struct item *)(const void *)job)->needless;
}

static void note_done(struct hash_job *job, bool computed)
{
    struct item *item = (struct item *)(void *)job;

    assert_false(item->done);
    item->done = true;
    item->computed = computed;
    order[ended++] = item;
}

static void note_freed(struct hash_job *job)
{
    struct item *item = (struct item *)(void *)job;

    assert_false(item->freed);
    item->freed = true;
    order[ended++] = item;
}

static const struct hash_owner owner = {is_needed, note_done, note_freed};

static void compute(const char *password, const char *setting, struct crypt_data *room,
                    char made[PASSWORD_HASH_MAX])
{
    (void)room;
    sem_post(&began);
    while (sem_wait(&may_compute) != 0)
        ;
    snprintf(made, PASSWORD_HASH_MAX, "%s of %s", setting, password);
}

static int set_up(void **state)
{
    (void)state;
    memset(items, 0, sizeof items);
    ended = 0;
    stats = (struct stats){0};
    sem_init(&may_compute, 0, 0);
    sem_init(&began, 0, 0);
    base = event_base_new();
    hasher_init(&hasher, base, &stats, 1);
    hasher.compute = compute;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hasher_fini(&hasher);
    event_base_free(base);
    assert_int_equal(account.bytes[ACCOUNT_SESSIONS], 0);
    assert_int_equal(stats.hashes_waiting, 0);
    return 0;
}

static struct peer peer_at(const char *text)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(text)};

    return peer_of((const struct sockaddr *)(const void *)&from);
}

static enum hasher_result add_as(struct item *item, const char *from, bool suspect)
{
    const struct peer peer = peer_at(from);

    item->job.owner = &owner;
    snprintf(item->job.password, sizeof item->job.password, "%zu", (size_t)(item - items));
    strcpy(item->job.setting, "hash");
    return hasher_add(&hasher, &item->job, &peer, suspect);
}

static enum hasher_result add(struct item *item, const char *from)
{
    return add_as(item, from, false);
}

/* The loop, until that many jobs have ended; the thread may compute as many as it has begun. */
static void run_until(size_t count)
{
    while (ended < count) {
        sem_post(&may_compute);
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    assert_int_equal(ended, count);
}

static void the_thread_begins(void)
{
    while (sem_wait(&began) != 0)
        ;
}

/* --- */

static void a_hash_comes_back_to_the_loop(void **state)
{
    (void)state;
    assert_false(hasher.worker.started);
    assert_int_equal(add(&items[7], "10.0.0.1"), HASHER_TAKEN);
    assert_true(hasher.worker.started);
    the_thread_begins();
    assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 0);
    assert_int_equal(ended, 0);
    run_until(1);
    assert_true(items[7].computed);
    assert_string_equal(items[7].job.made, "hash of 7");
    assert_int_equal(stats.hashes_computed, 1);
}

/* Whoever comes with one password waits for one of each address that was there. */
static void addresses_take_turns(void **state)
{
    size_t at[3] = {0};

    (void)state;
    for (size_t i = 0; i < 500; i++)
        assert_int_equal(add(&items[i], "10.0.0.1"), HASHER_TAKEN);
    for (size_t i = 500; i < 1000; i++)
        assert_int_equal(add(&items[i], "10.0.0.2"), HASHER_TAKEN);
    assert_int_equal(add(&items[1000], "10.0.0.3"), HASHER_TAKEN);
    assert_int_equal(stats.hashes_waiting, 999); /* two are with the thread */
    run_until(1001);
    for (size_t i = 0; i < 1001; i++) {
        size_t which = (size_t)(order[i] - items), who = which / 500;

        if (who == 2)
            assert_in_range(i, 2, 4);
        else
            assert_int_equal(which % 500, at[who]); /* in order of each */
        at[who]++;
    }
}

/* One who has sent no wrong password does not wait for all who have; nor do they wait for ever. */
static void suspects_come_behind(void **state)
{
    size_t late = 0;

    (void)state;
    for (size_t i = 0; i < 200; i++) {
        char from[32];

        snprintf(from, sizeof from, "10.1.0.%zu", i + 1);
        assert_int_equal(add_as(&items[i], from, true), HASHER_TAKEN);
    }
    for (size_t i = 200; i < 230; i++)
        assert_int_equal(add(&items[i], "10.0.0.3"), HASHER_TAKEN);
    run_until(230);
    for (size_t i = 2; i < 42; i++) /* behind the two that were with the thread */
        late += order[i] < &items[200];
    assert_int_equal(late, 40 / HASHER_SUSPECTS);
    assert_ptr_equal(order[2], &items[200]);
}

static void one_address_has_a_limit(void **state)
{
    enum { GIVEN = 2 };

    (void)state;
    for (size_t i = 0; i < GIVEN + HASHER_WAITING_MAX; i++)
        assert_int_equal(add(&items[i], "10.0.0.1"), HASHER_TAKEN);
    assert_int_equal(add(&items[MOST - 1], "10.0.0.1"), HASHER_FULL);
    assert_int_equal(add(&items[MOST - 2], "10.0.0.2"), HASHER_TAKEN);
    hasher_cancel(&items[500].job);
    assert_int_equal(add(&items[MOST - 1], "10.0.0.1"), HASHER_TAKEN);
    run_until(GIVEN + HASHER_WAITING_MAX + 2);
    assert_true(items[500].freed && !items[500].done);
}

/* While it waits it goes at once; while it is computed when the thread has done with it. */
static void what_is_cancelled_is_not_done(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(add(&items[i], "10.0.0.1"), HASHER_TAKEN);
    the_thread_begins();
    hasher_cancel(&items[0].job);
    hasher_cancel(&items[1].job);
    hasher_cancel(&items[2].job);
    assert_false(items[0].freed);
    assert_false(items[1].freed);
    assert_true(items[2].freed);
    run_until(4);
    assert_true(items[0].freed && !items[0].done);
    assert_true(items[1].freed && !items[1].done);
    assert_true(items[3].done && !items[3].freed);
}

/* What was found out meanwhile needs no hash: these do not keep anybody waiting. */
static void needless_hashes_are_not_computed(void **state)
{
    enum { COUNT = 600 };

    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        items[i].needless = i >= 2 && i != COUNT - 1;
        assert_int_equal(add(&items[i], "10.0.0.1"), HASHER_TAKEN);
    }
    run_until(COUNT);
    assert_int_equal(stats.hashes_computed, 3);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(items[i].computed, !items[i].needless);
}

static void the_end_waits_for_the_thread_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(add(&items[i], "10.0.0.1"), HASHER_TAKEN);
    the_thread_begins();
    for (size_t i = 0; i < 3; i++)
        hasher_cancel(&items[i].job);
    for (size_t i = 0; i < 3; i++)
        sem_post(&may_compute);
    hasher_fini(&hasher);
    assert_int_equal(ended, 3);
    hasher_init(&hasher, base, &stats, 1);
}

/* Of IPv6, the networks; this machine's own address is none. */
static void one_host_is_one_address(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"2001:db8::1", "2001:db8::2", true},
        {"2001:db8::1", "2001:db8:0:1::1", false},
        {"::ffff:10.0.0.1", "::ffff:10.0.0.2", false},
        {"::1", "::", false}, /* a Unix socket's is all zero */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_in6 a = {.sin6_family = AF_INET6}, b = a;
        struct peer from[2];
        uint8_t networks[2][16];

        assert_int_equal(inet_pton(AF_INET6, cases[i].a, &a.sin6_addr), 1);
        assert_int_equal(inet_pton(AF_INET6, cases[i].b, &b.sin6_addr), 1);
        from[0] = peer_of((const struct sockaddr *)(const void *)&a);
        from[1] = peer_of((const struct sockaddr *)(const void *)&b);
        peer_network(&from[0], networks[0]);
        peer_network(&from[1], networks[1]);
        assert_int_equal(memcmp(networks[0], networks[1], 16) == 0, cases[i].same);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_hash_comes_back_to_the_loop),
        TEST(addresses_take_turns),
        TEST(suspects_come_behind),
        TEST(one_address_has_a_limit),
        TEST(what_is_cancelled_is_not_done),
        TEST(needless_hashes_are_not_computed),
        TEST(the_end_waits_for_the_thread_alone),
        cmocka_unit_test(one_host_is_one_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
