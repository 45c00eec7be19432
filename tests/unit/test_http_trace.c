/* A watch that goes on after its store went, wherever that was: the client gets each event once and
 * whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/relay/http_text.h"

static const char *const events[] = {
    "{\"action\":\"set\",\"node\":{\"key\":\"/"
    "a\",\"value\":\"\\\"modifiedIndex\\\":99\",\"modifiedIndex\":"
    "12,\"createdIndex\":3},\"prevNode\":{\"key\":\"/a\",\"modifiedIndex\":3}}\n",
    "{\"\"modifiedIndex\":15}\n",
    "{\"modified\"modifiedIndex\":16,\"x\":\"\xe2\x80\xa8\"}\n",
};
enum { EVENTS = sizeof events / sizeof events[0] };
static const uint64_t indexes[EVENTS] = {12, 15, 16};

/* What a client has got. */
struct client {
    char text[1024];
    size_t len;
};

static bool show(struct watch_trace *t, struct client *c, const char *text, size_t len, size_t step)
{
    for (size_t at = 0; at < len; at += step) {
        size_t n = at + step < len ? step : len - at;
        uint8_t *copy = malloc(n);
        struct slice in = {copy, n}, out;
        bool whole, good = true;

        assert_non_null(copy);
        memcpy(copy, text + at, n);
        while (good && in.len > 0) {
            good = watch_trace_take(t, &in, &out, &whole);
            if (good) {
                assert_in_range(c->len + out.len, 0, sizeof c->text);
                if (out.len > 0)
                    memcpy(c->text + c->len, out.ptr, out.len);
                c->len += out.len;
            }
        }
        free(copy);
        if (!good)
            return false;
    }
    return true;
}

/* The store went after `first` bytes, and after `second` more of what came then. */
static void cut_twice(const char *all, size_t first, size_t second, size_t step)
{
    struct watch_trace t = {.from = 11};
    struct client c = {.len = 0};
    size_t stops[] = {first, second, strlen(all)};

    for (size_t run = 0; run < 3; run++) {
        uint64_t next = watch_trace_next(&t);
        size_t i = 0, sent = 0;

        for (; i < EVENTS && indexes[i] < next; i++)
            ;
        for (; i < EVENTS && sent < stops[run]; i++) {
            size_t n = strlen(events[i]);

            if (n > stops[run] - sent)
                n = stops[run] - sent;
            assert_true(show(&t, &c, events[i], n, step));
            sent += n;
        }
        watch_trace_restart(&t);
    }
    assert_int_equal(c.len, strlen(all));
    assert_memory_equal(c.text, all, c.len);
    assert_int_equal(t.last, indexes[EVENTS - 1]);
}

static void test_each_once(void **state)
{
    char all[1024] = "";

    (void)state;
    for (size_t i = 0; i < EVENTS; i++)
        strcat(all, events[i]);
    for (size_t first = 0; first <= strlen(all); first++) {
        for (size_t second = 0; second <= strlen(all); second += 1 + first % 3)
            cut_twice(all, first, second, 1 + (first + second) % 7);
    }
}

static void test_where_it_begins(void **state)
{
    struct watch_trace t = {.from = 7};

    (void)state;
    assert_int_equal(watch_trace_next(&t), 8);
    t.asked = 3;
    assert_int_equal(watch_trace_next(&t), 3);
    t.last = 9;
    assert_int_equal(watch_trace_next(&t), 10);
}

/* An event that was sent in part is not completed with the bytes of another event, or of a shorter
 * one. */
static void test_another_event(void **state)
{
    static const char *const others[] = {"{\"action\":\"sEt\",\"modifiedIndex\":12}\n",
                                         "{\"modifiedIndex\":12}\n", "\n"};

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct watch_trace t = {.from = 11};
        struct client c = {.len = 0};

        assert_true(show(&t, &c, events[0], 40, 9));
        watch_trace_restart(&t);
        assert_false(show(&t, &c, others[i], strlen(others[i]), 4));
        assert_int_equal(c.len, 40);
    }
}

/* A watch cannot resume after an event without an index. */
static void test_no_index(void **state)
{
    struct watch_trace t = {.from = 11};
    struct client c = {.len = 0};

    (void)state;
    assert_false(show(&t, &c, "{\"action\":\"set\"}\n", 17, 17));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_once),
        cmocka_unit_test(test_where_it_begins),
        cmocka_unit_test(test_another_event),
        cmocka_unit_test(test_no_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
