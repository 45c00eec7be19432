/* Large events: their JSON is that of tree_event_json(), written in slices, once for all who are
 * told; those wait for it, and for nothing else. */
#include "store/tree/event_render.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/tree_fixture.h"

#define LARGE (200u << 10)

struct fixture {
    struct ready_list ready;
    struct reserve reserve;
    struct quota quota;
    struct tree t;
    char *value;
};

static void fixture_init(struct fixture *w)
{
    assert_int_equal(account.total, 0);
    *w = (struct fixture){.value = malloc(LARGE + 1)};
    assert_non_null(w->value);
    memset(w->value, 1, LARGE);
    memcpy(w->value, "\xe2\x82\xac<plain>", 10);
    w->value[LARGE] = '\0';
    ready_list_init(&w->ready);
    reserve_init(&w->reserve);
    tree_init(&w->t, &w->ready, &w->reserve, 7, &w->quota);
}

static void fixture_fini(struct fixture *w)
{
    assert_true(TAILQ_EMPTY(&w->ready.unfinished));
    tree_fini(&w->t);
    reserve_fini(&w->reserve);
    free(w->value);
    assert_int_equal(account.total, 0);
}

static struct tree_event *set(struct fixture *w, const char *key, const char *value)
{
    const struct command c = {
        .kind = COMMAND_TREE_SET, .key = slice_str(key), .value = slice_str(value), .now_ns = 1};
    struct tree_result r;

    tree_execute(&w->t, &c, &r);
    assert_int_equal(r.code, ETCD_OK);
    return r.event;
}

static struct watch *watch(struct fixture *w, const char *key, bool stream)
{
    struct watch *watch;

    assert_int_equal(tree_watch(&w->t, slice_str(key), true, stream, 0, w, &watch), ETCD_OK);
    return watch;
}

static size_t finish(struct event_render *r, int64_t work_ns)
{
    size_t slices = 1;

    while (!event_render_run(r, work_ns))
        slices++;
    return slices;
}

static void expect_json(const struct event_render *r, struct tree_event *e)
{
    struct slice json = blob_slice(tree_event_json(e));
    size_t at = 0;

    assert_true(r->done && !r->failed);
    assert_int_equal(blob_list_len(&r->out), json.len);
    for (size_t i = 0; i < r->out.count; i++) {
        assert_memory_equal(json.ptr + at, r->out.items[i]->bytes, r->out.items[i]->len);
        at += r->out.items[i]->len;
    }
    assert_int_equal(at, json.len);
}

/* The next of a watch is that event, which is done; or, NULL, a small one with this value. */
static void expect_next(struct watch *watch, const struct event_render *r, const char *value)
{
    struct delivery d;

    assert_true(subscription_take(&watch->subscription, &d));
    assert_ptr_equal(d.render, r);
    if (r == NULL) {
        char text[64];

        snprintf(text, sizeof text, "\"value\":\"%s\"", value);
        assert_non_null(memmem(d.bytes->bytes, d.bytes->len, text, strlen(text)));
    }
    blob_unref(d.bytes);
    event_render_unref(d.render);
}

static void the_json_is_the_same_in_slices(void **state)
{
    struct event_render *r;
    struct tree_event *e;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    for (int i = 0; i < 4; i++) { /* new; both large; the old one; none */
        e = set(&w, "/a/<key>", i < 2 ? w.value : "small");
        assert_true(tree_event_is_large(e) == (i < 3));
        r = event_render_of(e, &w.ready);
        assert_non_null(r);
        assert_true(finish(r, 20000) > (i < 3 ? 5 : 0));
        expect_json(r, e);
        event_render_unref(r);
    }
    fixture_fini(&w);
}

/* All share one; nobody is woken before it is done, and nobody writes it twice. */
static void those_who_are_told_wait_until_it_is_done(void **state)
{
    enum { WATCHES = 5 };
    struct watch *watches[WATCHES];
    struct event_render *r;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    for (int i = 0; i < WATCHES; i++)
        watches[i] = watch(&w, "/a", i % 2 == 0);
    set(&w, "/a/k", w.value);
    r = TAILQ_FIRST(&w.ready.unfinished);
    assert_non_null(r);
    assert_null(TAILQ_NEXT(r, entry));
    assert_null(TAILQ_FIRST(&w.ready));
    assert_false(event_render_run(r, 1000));
    set(&w, "/a/l", "small"); /* goes to the streams, behind the other one */
    for (int i = 0; i < WATCHES; i++) {
        assert_false(subscription_has_next(&watches[i]->subscription));
        assert_int_equal(watches[i]->subscription.queued, i % 2 == 0 ? 2 : 1);
    }
    event_render_ref(r);
    finish(r, 100000);
    assert_true(TAILQ_EMPTY(&w.ready.unfinished));
    for (int i = 0; i < WATCHES; i++) {
        assert_true(watches[i]->subscription.wake.ready);
        assert_true(watches[i]->subscription.ended == (i % 2 != 0));
        expect_next(watches[i], r, NULL);
        if (i % 2 == 0)
            expect_next(watches[i], NULL, "small");
        assert_false(subscription_has_next(&watches[i]->subscription));
        watch_close(&w.t.hub, watches[i]);
    }
    assert_int_equal(r->refs, 1);
    event_render_unref(r);
    fixture_fini(&w);
}

/* Whoever goes away does not take it along for the others; with the last one it goes. */
static void it_lives_as_long_as_somebody_waits(void **state)
{
    struct watch *first, *second;
    struct event_render *r;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    first = watch(&w, "/k", true);
    second = watch(&w, "/k", true);
    r = event_render_of(set(&w, "/k", w.value), &w.ready);
    event_render_run(r, 1000);
    event_render_unref(r); /* who made the change is gone */
    watch_close(&w.t.hub, first);
    assert_ptr_equal(TAILQ_FIRST(&w.ready.unfinished), r);
    event_render_ref(r);
    finish(r, 10000);
    event_render_unref(r);
    expect_next(second, r, NULL);
    set(&w, "/k", w.value);
    assert_false(TAILQ_EMPTY(&w.ready.unfinished));
    event_render_run(TAILQ_FIRST(&w.ready.unfinished), 1000);
    watch_close(&w.t.hub, second);
    assert_true(TAILQ_EMPTY(&w.ready.unfinished));
    fixture_fini(&w);
}

/* A watch from the past gets it too, though it was let go of. */
static void a_past_event_is_written_again(void **state)
{
    struct event_render *r;
    struct watch *late;
    struct tree_event *e;
    struct fixture w;
    uint64_t index;

    (void)state;
    fixture_init(&w);
    e = set(&w, "/k", w.value);
    index = w.t.index;
    set(&w, "/other", "v");
    assert_int_equal(tree_watch(&w.t, slice_str("/k"), false, false, index, &w, &late), ETCD_OK);
    assert_false(subscription_has_next(&late->subscription));
    r = event_render_ref(TAILQ_FIRST(&w.ready.unfinished));
    finish(r, 10000);
    expect_json(r, e);
    expect_next(late, r, NULL);
    event_render_unref(r);
    watch_close(&w.t.hub, late);
    fixture_fini(&w);
}

/* Memory is short: the watch has missed an event, and ends. */
static void without_memory_watches_are_lost(void **state)
{
    struct watch *lost;
    struct event_render *r;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    lost = watch(&w, "/k", true);
    set(&w, "/k", w.value);
    r = TAILQ_FIRST(&w.ready.unfinished);
    assert_false(event_render_run(r, 1000));
    account_set_limit(account.total);
    finish(r, 1000);
    account_set_limit(0);
    assert_true(r->failed);
    assert_true(lost->subscription.lost && lost->subscription.ended);
    assert_true(lost->subscription.wake.ready);
    expect_next(lost, r, NULL);
    watch_close(&w.t.hub, lost);
    fixture_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_json_is_the_same_in_slices),
        cmocka_unit_test(those_who_are_told_wait_until_it_is_done),
        cmocka_unit_test(it_lives_as_long_as_somebody_waits),
        cmocka_unit_test(a_past_event_is_written_again),
        cmocka_unit_test(without_memory_watches_are_lost),
    };

    return cmocka_run_group_tests_name("store/event_render", tests, NULL, NULL);
}
