/* The queue of what is still to be sent, over real sockets: order, partial sends, shared values,
 * and what it owns. */
#include "rdzv/net/outq.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define LARGE 5000 /* a value that is shared, not copied */

struct wire {
    int near, far;
    struct out_pool pool;
    struct outq q;
};

static void wire_open(struct wire *w)
{
    int ends[2], tiny = 1; /* the kernel makes it a few thousand bytes */

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &tiny, sizeof tiny), 0);
    w->near = ends[0];
    w->far = ends[1];
    out_pool_init(&w->pool);
    outq_init(&w->q);
}

static void wire_close(struct wire *w)
{
    outq_fini(&w->q, &w->pool);
    assert_int_equal(w->q.bytes, 0);
    assert_true(TAILQ_EMPTY(&w->q.parts));
    out_pool_fini(&w->pool);
    if (w->near >= 0)
        close(w->near);
    if (w->far >= 0)
        close(w->far);
}

static struct blob *value_of(size_t len, uint8_t fill)
{
    struct blob *b = blob_alloc(ACCOUNT_ANSWERS, len);

    assert_non_null(b);
    b->len = len;
    if (len != 0)
        memset(b->bytes, fill, len);
    return b;
}

/* What the peer has received by now. */
static size_t drain(const struct wire *w, uint8_t *out, size_t cap)
{
    size_t len = 0;

    for (;;) {
        ssize_t n = recv(w->far, out + len, cap - len, 0);

        if (n <= 0)
            return len;
        len += (size_t)n;
    }
}

static void queued_bytes_come_out_in_order(void **state)
{
    struct blob *b = value_of(LARGE, 'L'), *small = value_of(5, 's');
    uint8_t out[2 * LARGE];
    size_t len = 0;
    struct wire w;
    int result;

    (void)state;
    wire_open(&w);
    assert_int_equal(outq_send(&w.q, &w.pool, w.near, SIZE_MAX), 0); /* nothing to send */
    outq_put(&w.q, &w.pool, "abc", 3);
    memcpy(outq_reserve(&w.q, &w.pool, 4), "defg", 4);
    outq_put_blob(&w.q, &w.pool, b);
    outq_put_blob(&w.q, &w.pool, small);
    outq_put(&w.q, &w.pool, "end", 3);
    assert_int_equal(w.q.bytes, 3 + 4 + LARGE + 5 + 3);
    do {
        result = outq_send(&w.q, &w.pool, w.near, SIZE_MAX);
        len += drain(&w, out + len, sizeof out - len);
    } while (result == -EAGAIN);
    assert_int_equal(result, 0);
    assert_int_equal(len, 15 + LARGE);
    assert_memory_equal(out, "abcdefgLLL", 10);
    assert_memory_equal(out + 7 + LARGE, "sssssend", 8);
    blob_unref(b);
    blob_unref(small);
    wire_close(&w);
}

static void an_empty_queue_owns_nothing(void **state)
{
    uint8_t out[64];
    struct wire w;

    (void)state;
    wire_open(&w);
    outq_put(&w.q, &w.pool, "", 0);
    outq_put_blob(&w.q, &w.pool, NULL);
    assert_true(TAILQ_EMPTY(&w.q.parts));
    outq_put(&w.q, &w.pool, "abc", 3);
    assert_false(TAILQ_EMPTY(&w.q.parts));
    assert_int_equal(outq_send(&w.q, &w.pool, w.near, SIZE_MAX), 0);
    assert_int_equal(w.q.bytes, 0);
    assert_true(TAILQ_EMPTY(&w.q.parts));
    assert_int_equal(drain(&w, out, sizeof out), 3);
    wire_close(&w);
}

/* What a burst of answers took is kept for the next one, and goes when none comes. */
static void what_no_queue_uses_goes_bit_by_bit(void **state)
{
    enum { QUEUES = 100 };
    static struct outq queues[QUEUES];
    static uint8_t bytes[3000];
    size_t begun = account.bytes[ACCOUNT_ANSWERS], held;
    struct wire w;

    (void)state;
    wire_open(&w);
    for (size_t len = 100; len <= sizeof bytes; len += sizeof bytes - 100) {
        for (int i = 0; i < QUEUES; i++) {
            outq_init(&queues[i]);
            outq_put(&queues[i], &w.pool, bytes, len);
        }
        held = account.bytes[ACCOUNT_ANSWERS];
        for (int i = 0; i < QUEUES; i++)
            outq_fini(&queues[i], &w.pool);
        assert_int_equal(account.bytes[ACCOUNT_ANSWERS], held);
        out_pool_trim(&w.pool);
        assert_int_equal(account.bytes[ACCOUNT_ANSWERS] - begun, (held - begun) / 2);
        for (int i = 0; i < 8; i++)
            out_pool_trim(&w.pool);
        assert_int_equal(account.bytes[ACCOUNT_ANSWERS], begun);
    }
    wire_close(&w);
}

/* What a peer does not read is memory: over the limit the queue is broken, and takes no more; small
 * answers have a part of the limit for themselves. */
static void over_the_limit_a_queue_is_broken(void **state)
{
    static uint8_t bytes[LARGE];
    struct outq small;
    struct wire w;
    size_t held;

    (void)state;
    wire_open(&w);
    outq_init(&small);
    account_set_limit(account.total + (4u << 20));
    for (int i = 0; i < 10000 && !w.q.broken; i++)
        outq_put(&w.q, &w.pool, bytes, sizeof bytes);
    assert_true(w.q.broken);
    assert_true(account.total <= account.bound[ACCOUNT_ORDINARY]);
    held = account.total;
    memset(outq_reserve(&w.q, &w.pool, OUTQ_RESERVE_MAX), 1, OUTQ_RESERVE_MAX); /* goes nowhere */
    outq_put(&w.q, &w.pool, bytes, sizeof bytes);
    assert_int_equal(account.total, held);

    outq_put(&small, &w.pool, bytes, 100);
    assert_false(small.broken);
    outq_fini(&small, &w.pool);
    account_set_limit(0);
    wire_close(&w);
}

/* All peers that read a value share one copy, until the last peer has received it. */
static void large_values_are_shared(void **state)
{
    struct blob *b = value_of(LARGE, 'x');
    uint8_t out[2 * LARGE];
    struct outq other;
    struct wire w;

    (void)state;
    wire_open(&w);
    outq_init(&other);
    outq_put_blob(&w.q, &w.pool, b);
    outq_put_blob(&other, &w.pool, b);
    assert_int_equal(b->refs, 3);
    while (outq_send(&w.q, &w.pool, w.near, SIZE_MAX) == -EAGAIN)
        drain(&w, out, sizeof out);
    assert_int_equal(b->refs, 2);
    outq_fini(&other, &w.pool);
    assert_int_equal(b->refs, 1);
    outq_put_blob(&w.q, &w.pool, b);
    blob_unref(b); /* the queue has the last reference, and the value its bytes */
    assert_int_equal(w.q.bytes, LARGE);
    wire_close(&w);
}

/* A peer that does not read: what is sent counts down, what is not sent stays, and nothing is sent
 * twice. */
static void a_full_socket_is_left_and_taken_up_again(void **state)
{
    enum { TOTAL = 200000 };
    uint8_t *bytes = malloc(TOTAL), *out = malloc(TOTAL);
    size_t len = 0, before;
    struct wire w;
    int turns = 0;

    (void)state;
    assert_non_null(bytes);
    assert_non_null(out);
    for (size_t i = 0; i < TOTAL; i++)
        bytes[i] = (uint8_t)(i * 7 ^ i >> 8);
    wire_open(&w);
    outq_put(&w.q, &w.pool, bytes, TOTAL);
    while (w.q.bytes > 0) {
        int result = outq_send(&w.q, &w.pool, w.near, SIZE_MAX);

        assert_int_equal(result, w.q.bytes == 0 ? 0 : -EAGAIN);
        before = w.q.bytes;
        if (result == -EAGAIN) { /* at once again: the socket is still full */
            assert_int_equal(outq_send(&w.q, &w.pool, w.near, SIZE_MAX), -EAGAIN);
            assert_int_equal(w.q.bytes, before);
        }
        len += drain(&w, out + len, TOTAL - len);
        assert_int_equal(len, TOTAL - before);
        turns++;
    }
    assert_in_range(turns, 5, TOTAL);
    assert_memory_equal(out, bytes, TOTAL);
    free(bytes);
    free(out);
    wire_close(&w);
}

/* The same when all there is lies in one part, of which the socket has room for a half. */
static void one_part_may_go_in_two(void **state)
{
    uint8_t bytes[4000], out[1 + sizeof bytes];
    struct wire w;
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 ^ i >> 8);
    wire_open(&w);
    assert_int_equal(send(w.near, "x", 1, 0), 1);
    outq_put(&w.q, &w.pool, bytes, sizeof bytes);
    assert_int_equal(outq_send(&w.q, &w.pool, w.near, SIZE_MAX), -EAGAIN);
    assert_in_range(w.q.bytes, 1, sizeof bytes - 1);
    len = drain(&w, out, sizeof out);
    assert_int_equal(len, sizeof out - w.q.bytes);
    assert_int_equal(outq_send(&w.q, &w.pool, w.near, SIZE_MAX), 0);
    assert_int_equal(drain(&w, out + len, sizeof out - len), sizeof out - len);
    assert_memory_equal(out + 1, bytes, sizeof bytes);
    wire_close(&w);
}

/* A turn sends at most the given number of bytes; the next turn may continue in the middle of a
 * value. */
static void a_turn_sends_no_more_than_it_may(void **state)
{
    static const size_t turns[] = {1, 4, 1000, 3, 7, 2000, 1};
    struct blob *b = value_of(LARGE, 'x');
    uint8_t out[2 * LARGE];
    struct wire w;

    (void)state;
    wire_open(&w);
    outq_put(&w.q, &w.pool, "abc", 3);
    outq_put_blob(&w.q, &w.pool, b);
    outq_put(&w.q, &w.pool, "def", 3);
    for (size_t i = 0; w.q.bytes > 0; i++) {
        size_t before = w.q.bytes, turn = turns[i % (sizeof turns / sizeof *turns)];

        assert_int_equal(outq_send(&w.q, &w.pool, w.near, turn), 0);
        assert_int_equal(before - w.q.bytes, turn < before ? turn : before);
        assert_int_equal(drain(&w, out, sizeof out), before - w.q.bytes);
    }
    blob_unref(b);
    wire_close(&w);
}

static void a_lost_peer_is_an_error_and_no_signal(void **state)
{
    struct wire w;

    (void)state;
    wire_open(&w);
    close(w.far);
    w.far = -1;
    outq_put(&w.q, &w.pool, "abc", 3);
    assert_int_equal(outq_send(&w.q, &w.pool, w.near, SIZE_MAX), -EPIPE);
    wire_close(&w);
}

/* Anything in any sizes, more parts than one system call takes, and a peer that reads as it likes.
 */
static void any_mixture_arrives_as_it_was_put(void **state)
{
    enum { CAP = 1 << 20 };
    static uint8_t sent[CAP], received[CAP];

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t random = seed;
        size_t put = 0, got = 0;
        struct wire w;

        wire_open(&w);
        for (int step = 0; step < 2000; step++) {
            uint8_t chunk[6000];
            size_t len;

            random = random * 6364136223846793005u + 1442695040888963407u;
            len = (random >> 33) % 8 == 0 ? (random >> 40) % sizeof chunk : (random >> 40) % 90;
            for (size_t i = 0; i < len; i++)
                chunk[i] = (uint8_t)(random >> (i % 40));
            if (len <= CAP - put) {
                struct blob *b;

                switch ((random >> 36) % 4) {
                case 0:
                    outq_put(&w.q, &w.pool, chunk, len);
                    break;
                case 1:
                    len = len < OUTQ_RESERVE_MAX ? len + 1 : OUTQ_RESERVE_MAX;
                    len = len < CAP - put ? len : CAP - put;
                    if (len != 0)
                        memcpy(outq_reserve(&w.q, &w.pool, len), chunk, len);
                    break;
                case 2:
                    b = blob_new(ACCOUNT_ANSWERS, (struct slice){chunk, len});
                    outq_put_blob(&w.q, &w.pool, b);
                    blob_unref(b);
                    break;
                default:
                    b = blob_new(ACCOUNT_ANSWERS, (struct slice){chunk, len});
                    outq_share(&w.q, &w.pool, b);
                    blob_unref(b);
                }
                memcpy(sent + put, chunk, len);
                put += len;
            }
            assert_int_equal(w.q.bytes, put - got);
            if ((random >> 50) % 300 == 0) { /* rarely, so that many parts gather */
                outq_send(&w.q, &w.pool, w.near, SIZE_MAX);
                got += drain(&w, received + got, CAP - got);
            }
        }
        while (got < put) {
            int result = outq_send(&w.q, &w.pool, w.near, SIZE_MAX);

            if (result != 0 && result != -EAGAIN)
                fail_msg("seed %d: %s", (int)seed, strerror(-result));
            got += drain(&w, received + got, CAP - got);
        }
        if (memcmp(sent, received, put) != 0)
            fail_msg("seed %d: other bytes arrived", (int)seed);
        assert_true(TAILQ_EMPTY(&w.q.parts));
        wire_close(&w);
    }
}

/* After a burst the pool keeps some memory for the next one, and not all of it. */
static void the_pool_is_bounded(void **state)
{
    struct blob *b = value_of(100, 'x');
    struct wire w;

    (void)state;
    wire_open(&w);
    for (int i = 0; i < 100000; i++)
        outq_put_blob(&w.q, &w.pool, b);
    outq_fini(&w.q, &w.pool);
    assert_in_range(w.pool.shelves[2].count, 1, 256);
    assert_in_range(w.pool.shelves[0].count, 0, 1024);
    for (int i = 0; i < 5000; i++) {
        struct outq q;

        outq_init(&q);
        outq_put(&q, &w.pool, "8 bytes.", 8);
        outq_fini(&q, &w.pool);
    }
    assert_in_range(w.pool.shelves[0].count, 1, 2); /* one that is used again and again */
    blob_unref(b);
    wire_close(&w);
}

/* A value and its length, by reference, whatever its size; cut anywhere. */
static void a_value_is_sent_with_its_length(void **state)
{
    struct blob *b = value_of(300, 'v'), *empty = value_of(0, 0);
    uint8_t out[2000], expected[2 * 308 + 8 + 300];
    size_t len = 0;
    struct wire w;

    (void)state;
    bytes_put_u64(expected, 300);
    memset(expected + 8, 'v', 300);
    memcpy(expected + 308, expected, 308);
    bytes_put_u64(expected + 616, 0);
    memset(expected + 624, 'v', 300);
    for (size_t turn = 1; turn < 900; turn += 6) {
        wire_open(&w);
        outq_share_counted(&w.q, &w.pool, b);
        outq_share_counted(&w.q, &w.pool, b);
        outq_share_counted(&w.q, &w.pool, empty);
        outq_share(&w.q, &w.pool, empty);
        outq_share(&w.q, &w.pool, b);
        assert_int_equal(w.q.bytes, sizeof expected);
        for (len = 0; w.q.bytes > 0;) {
            assert_int_equal(outq_send(&w.q, &w.pool, w.near, turn), 0);
            len += drain(&w, out + len, sizeof out - len);
        }
        assert_int_equal(len, sizeof expected);
        assert_memory_equal(out, expected, len);
        wire_close(&w);
    }
    assert_int_equal(b->refs, 1);
    blob_unref(b);
    blob_unref(empty);
}

/* The answer to a list of keys, or what a watcher missed: eight bytes for each value. */
static void many_shared_values_take_a_pointer_each(void **state)
{
    struct blob *b = value_of(100, 'v');
    struct wire w;

    (void)state;
    wire_open(&w);
    for (int i = 0; i < 5136; i++)
        outq_share_counted(&w.q, &w.pool, b);
    assert_int_equal(b->refs, 5137);
    outq_fini(&w.q, &w.pool);
    assert_int_equal(w.pool.shelves[0].count, 1);  /* 16 pointers */
    assert_int_equal(w.pool.shelves[1].count, 1);  /* 66 */
    assert_int_equal(w.pool.shelves[2].count, 10); /* 512 each */
    assert_int_equal(b->refs, 1);
    blob_unref(b);
    wire_close(&w);
}

/* What a peer that went did not read goes a piece at a time, some of it sent already. */
static void a_long_queue_is_dropped_in_pieces(void **state)
{
    enum { VALUES = 1000, AT_A_TIME = 10 };
    struct blob *value = value_of(LARGE, 'v');
    struct wire w;
    size_t calls = 1;

    (void)state;
    wire_open(&w);
    for (int i = 0; i < VALUES; i++) {
        outq_put(&w.q, &w.pool, "head", 4);
        outq_put_blob(&w.q, &w.pool, value);
    }
    assert_int_equal(outq_send(&w.q, &w.pool, w.near, SIZE_MAX), -EAGAIN);
    assert_in_range(value->refs, VALUES / 2, VALUES + 1);
    for (uint32_t before = value->refs; !outq_drop(&w.q, &w.pool, AT_A_TIME); calls++) {
        assert_in_range(before - value->refs, 1, AT_A_TIME);
        before = value->refs;
    }
    assert_in_range(calls, VALUES / AT_A_TIME / 2, 4 * VALUES / AT_A_TIME);
    assert_int_equal(value->refs, 1);
    blob_unref(value);
    wire_close(&w);
}

/* From a session's queue to its link's, in pieces of any length: what is large has one copy. */
static void what_moves_to_another_queue_is_the_same(void **state)
{
    struct blob *b = value_of(LARGE, 'v'), *small = value_of(5, 's');
    uint8_t expected[8 + LARGE + 3 + LARGE + 5 + 3 + LARGE], out[sizeof expected];

    (void)state;
    memset(expected, 'v', sizeof expected);
    bytes_put_u64(expected, LARGE);
    memcpy(expected + 8 + LARGE, "abc", 3);
    memcpy(expected + 8 + LARGE + 3 + LARGE, "sssssdef", 8);
    for (size_t piece = 1; piece < 2 * LARGE; piece += piece < 10 ? 1 : 733) {
        struct wire from, w;
        size_t len = 0, pieces = 0;

        wire_open(&from);
        wire_open(&w);
        outq_share_counted(&from.q, &w.pool, b);
        outq_put(&from.q, &w.pool, "abc", 3);
        outq_put_blob(&from.q, &w.pool, b);
        outq_put_blob(&from.q, &w.pool, small);
        outq_put(&from.q, &w.pool, "def", 3);
        outq_share(&from.q, &w.pool, b);
        for (size_t left = sizeof expected; left > 0; pieces++) {
            size_t some = piece < left ? piece : left;

            outq_move(&w.q, &from.q, &w.pool, some);
            left -= some;
            assert_int_equal(from.q.bytes, left);
            assert_int_equal(w.q.bytes, sizeof expected - left);
        }
        assert_true(TAILQ_EMPTY(&from.q.parts));
        if (piece > 1024)
            assert_in_range(b->refs, 2, 1 + 2 * pieces + 3);
        while (w.q.bytes > 0) {
            outq_send(&w.q, &w.pool, w.near, SIZE_MAX);
            len += drain(&w, out + len, sizeof out - len);
        }
        assert_int_equal(len, sizeof expected);
        assert_memory_equal(out, expected, len);
        assert_int_equal(b->refs, 1);
        wire_close(&w);
        wire_close(&from);
    }
    blob_unref(b);
    blob_unref(small);
}

static void the_last_bytes_are_those_that_were_put_last(void **state)
{
    struct blob *b = value_of(LARGE, 'v');
    struct wire w;

    (void)state;
    wire_open(&w);
    assert_null(outq_tail(&w.q, 1).ptr);
    memcpy(outq_reserve(&w.q, &w.pool, 8), "12345678", 8);
    assert_memory_equal(outq_tail(&w.q, 8).ptr, "12345678", 8);
    assert_memory_equal(outq_tail(&w.q, 1).ptr, "8", 1);
    assert_null(outq_tail(&w.q, 9).ptr);
    outq_put_blob(&w.q, &w.pool, b);
    assert_null(outq_tail(&w.q, 1).ptr);
    blob_unref(b);
    wire_close(&w);
}

/* What TLS takes at a time: small parts in one piece, a large value where it lies, and after a call
 * that could not be finished the same bytes again, or more. */
static void the_front_is_given_in_one_piece(void **state)
{
    static uint8_t room[4096];
    struct wire w;
    struct blob *b = value_of(LARGE, 'v');
    struct slice front;

    (void)state;
    wire_open(&w);
    outq_put(&w.q, &w.pool, "head", 4);
    front = outq_front(&w.q, room, sizeof room);
    assert_int_equal(front.len, 4);
    assert_ptr_not_equal(front.ptr, room); /* where it lies */
    outq_put_blob(&w.q, &w.pool, b);
    outq_put(&w.q, &w.pool, "tail", 4);
    front = outq_front(&w.q, room, sizeof room);
    assert_int_equal(front.len, sizeof room);
    assert_ptr_equal(front.ptr, room);
    assert_memory_equal(front.ptr, "headvvvv", 8);
    assert_int_equal(w.q.bytes, LARGE + 8);

    outq_sent(&w.q, &w.pool, 6);
    front = outq_front(&w.q, room, sizeof room);
    assert_int_equal(front.len, sizeof room);
    assert_ptr_equal(front.ptr, blob_slice(b).ptr + 2);
    outq_sent(&w.q, &w.pool, LARGE - 4);
    front = outq_front(&w.q, room, sizeof room);
    assert_int_equal(front.len, 6);
    assert_memory_equal(front.ptr, "vvtail", 6);
    outq_sent(&w.q, &w.pool, 6);
    assert_int_equal(outq_front(&w.q, room, sizeof room).len, 0);
    blob_unref(b);
    wire_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queued_bytes_come_out_in_order),
        cmocka_unit_test(an_empty_queue_owns_nothing),
        cmocka_unit_test(over_the_limit_a_queue_is_broken),
        cmocka_unit_test(large_values_are_shared),
        cmocka_unit_test(a_full_socket_is_left_and_taken_up_again),
        cmocka_unit_test(one_part_may_go_in_two),
        cmocka_unit_test(a_turn_sends_no_more_than_it_may),
        cmocka_unit_test(a_lost_peer_is_an_error_and_no_signal),
        cmocka_unit_test(any_mixture_arrives_as_it_was_put),
        cmocka_unit_test(the_pool_is_bounded),
        cmocka_unit_test(what_no_queue_uses_goes_bit_by_bit),
        cmocka_unit_test(a_value_is_sent_with_its_length),
        cmocka_unit_test(many_shared_values_take_a_pointer_each),
        cmocka_unit_test(a_long_queue_is_dropped_in_pieces),
        cmocka_unit_test(what_moves_to_another_queue_is_the_same),
        cmocka_unit_test(the_last_bytes_are_those_that_were_put_last),
        cmocka_unit_test(the_front_is_given_in_one_piece),
    };

    return cmocka_run_group_tests_name("rdzv/outq", tests, NULL, NULL);
}
