/* Watches of the etcd tree by the rules of etcd 3.4.23 (v2store/watcher_hub.go, event_history.go):
 * which client gets which event, live and from the history. Changes are made through a real tree.
 */
#include "store/tree/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/exact.h"
#include "tests/unit/tree_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define SECOND INT64_C(1000000000)
#define NOW    (INT64_C(1800000000) * SECOND)

struct fixture {
    struct ready_list ready;
    struct reserve reserve;
    struct quota quota;
    struct tree t;
};

static void fixture_init(struct fixture *w)
{
    ready_list_init(&w->ready);
    reserve_init(&w->reserve);
    w->quota = (struct quota){0};
    tree_init(&w->t, &w->ready, &w->reserve, 7, &w->quota);
}

static void fixture_fini(struct fixture *w)
{
    assert_int_equal(w->t.hub.registered, 0);
    assert_int_equal(w->t.hub.points.count, 0);
    assert_true(TAILQ_EMPTY(&w->ready));
    tree_fini(&w->t);
    reserve_fini(&w->reserve);
}

/* "SET /path", "MKDIR /path", "DELETE /path", "RMDIR /path" (recursive), "UPDATE /path",
 * "REFRESH /path", "POST /path", "SETTTL /path" (a second),
 * "DIRTTL /path", "EXPIRE" (of what has such a TTL). */
static void make(struct fixture *w, const char *what)
{
    static const struct {
        const char *name;
        enum command_kind op;
        struct command change;
    } operations[] = {
        {"SET", COMMAND_TREE_SET, {.value = {(const uint8_t *)"v", 1}}},
        {"MKDIR", COMMAND_TREE_SET, {.dir = true}},
        {"DELETE", COMMAND_TREE_DELETE, {.dir = true}},
        {"RMDIR", COMMAND_TREE_DELETE, {.recursive = true}},
        {"UPDATE", COMMAND_TREE_UPDATE, {.dir = false}},
        {"REFRESH", COMMAND_TREE_UPDATE, {.refresh = true, .expires_ns = NOW + 9 * SECOND}},
        {"POST", COMMAND_TREE_CREATE_IN_ORDER, {.value = {(const uint8_t *)"v", 1}}},
        {"SETTTL",
         COMMAND_TREE_SET,
         {.value = {(const uint8_t *)"v", 1}, .expires_ns = NOW + SECOND}},
        {"DIRTTL", COMMAND_TREE_SET, {.dir = true, .expires_ns = NOW + SECOND}},
    };
    const char *path = strchr(what, ' ');
    size_t len = path == NULL ? strlen(what) : (size_t)(path - what);

    if (strcmp(what, "EXPIRE") == 0) {
        assert_true(tree_expire(&w->t, NOW + SECOND) > 0);
        return;
    }
    for (size_t i = 0; i < COUNT(operations); i++) {
        struct command c = operations[i].change;
        struct slice p;
        struct tree_result r;

        if (strlen(operations[i].name) != len || memcmp(what, operations[i].name, len) != 0)
            continue;
        p = exact(path + 1, strlen(path + 1));
        c.key = p;
        c.now_ns = NOW;
        c.kind = operations[i].op;
        tree_execute(&w->t, &c, &r);
        if (r.code != ETCD_OK)
            fail_msg("%s: code %d", what, (int)r.code);
        exact_free(p);
        return;
    }
    fail_msg("no such operation: %s", what);
}

static struct watch *watch(struct fixture *w, const char *path, bool recursive, bool stream,
                           uint64_t since)
{
    struct slice p = exact(path, strlen(path));
    struct watch *out = NULL;

    assert_int_equal(watch_open(&w->t.hub, p, recursive, stream, since, w, &out), ETCD_OK);
    assert_ptr_equal(out->subscription.wake.owner, w);
    exact_free(p);
    return out;
}

/* What the watch was told since, as "set /key 4\n…"; emptied. */
static const char *told(struct watch *watch)
{
    static char text[4096];
    struct blob *b;
    size_t len = 0;

    text[0] = '\0';
    while ((b = subscription_next(&watch->subscription)) != NULL) {
        char action[32] = "?", key[256] = "?", copy[2048];
        struct slice json = tree_chunk_json(b);
        const char *index;

        assert_in_range(json.len, 1, sizeof copy - 1);
        memcpy(copy, json.ptr, json.len);
        copy[json.len] = '\0';
        assert_int_equal(
            sscanf(copy, "{\"action\":\"%31[^\"]\",\"node\":{\"key\":\"%255[^\"]\"", action, key),
            2);
        index = strstr(copy, "\"modifiedIndex\":");
        assert_non_null(index);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s %s %d\n", action, key,
                                atoi(index + strlen("\"modifiedIndex\":")));
        blob_unref(b);
    }
    return text;
}

static struct wake *next_ready(struct fixture *w)
{
    struct wake *wake = TAILQ_FIRST(&w->ready);

    if (wake != NULL)
        wake_remove(&w->ready, wake);
    return wake;
}

/* --- Live. --- */

/* A chunk of HTTP, rendered once however many watch; let go with the next event. */
static void all_watches_share_one_copy(void **state)
{
    struct watch *watches[3];
    struct blob *chunks[3];
    struct fixture w;
    char size[20];

    (void)state;
    fixture_init(&w);
    for (int i = 0; i < 3; i++)
        watches[i] = watch(&w, "/a", true, i > 0, 0);
    make(&w, "SET /a/b");
    for (int i = 0; i < 3; i++)
        chunks[i] = subscription_next(&watches[i]->subscription);
    assert_ptr_equal(chunks[0], chunks[1]);
    assert_ptr_equal(chunks[0], chunks[2]);
    snprintf(size, sizeof size, "%08zx\r\n{", tree_chunk_json(chunks[0]).len);
    assert_memory_equal(chunks[0]->bytes, size, strlen(size));
    assert_memory_equal(chunks[0]->bytes + chunks[0]->len - 4, "}\n\r\n", 4);
    make(&w, "SET /a/b");
    assert_int_equal(chunks[0]->refs, 3);
    for (int i = 0; i < 3; i++) {
        blob_unref(chunks[i]);
        watch_close(&w.t.hub, watches[i]);
    }
    fixture_fini(&w);
}

static void a_watch_is_told_of_what_it_watches(void **state)
{
    static const struct {
        const char *before, *watched;
        bool recursive;
        const char *change, *told;
    } rows[] = {
        {NULL, "/foo", false, "SET /foo", "set /foo 4\n"},
        {NULL, "/foo", true, "SET /foo", "set /foo 4\n"},
        {NULL, "/foo", false, "SET /foo/bar", ""},
        {NULL, "/foo", true, "SET /foo/bar", "set /foo/bar 4\n"},
        {NULL, "/foo", true, "SET /foo/a/b/c", "set /foo/a/b/c 4\n"},
        {NULL, "/foo", true, "SET /foobar", ""},
        {NULL, "/foo/bar", true, "SET /foo", ""},
        {NULL, "/foo", true, "SET /fo", ""},
        {NULL, "/", true, "SET /foo", "set /foo 4\n"},
        {NULL, "/", false, "SET /foo", ""},
        {NULL, "/q", true, "POST /q", "create /q/00000000000000000004 4\n"},
        {NULL, "/", true, "POST /", "create /00000000000000000004 4\n"},
        {"MKDIR /d", "/d", false, "UPDATE /d", "update /d 5\n"},
        {"MKDIR /d", "/", true, "UPDATE /d", "update /d 5\n"},
        {"SET /k", "/k", false, "DELETE /k", "delete /k 5\n"},
        {"SET /k", "/k", false, "REFRESH /k", ""},
        {"SET /k", "/", true, "REFRESH /k", ""},
        {"SETTTL /k", "/k", false, "EXPIRE", "expire /k 5\n"},
        /* Hidden names count from below the watched path on. */
        {NULL, "/", true, "SET /_h", ""},
        {NULL, "/", true, "SET /a/_h/b", ""},
        {NULL, "/a", true, "SET /a/_h", ""},
        {NULL, "/a", true, "SET /a/b_/c", "set /a/b_/c 4\n"},
        {NULL, "/_h", false, "SET /_h", "set /_h 4\n"},
        {NULL, "/_h", true, "SET /_h/b", "set /_h/b 4\n"},
        {NULL, "/_h", true, "SET /_h/_b", ""},
        {NULL, "/_h/_b", true, "SET /_h/_b/c", "set /_h/_b/c 4\n"},
        /* A directory that goes takes what is below it along, and the event names the directory. */
        {"SET /d/s/k", "/d/s/k", false, "RMDIR /d", "delete /d 5\n"},
        {"SET /d/s/k", "/d/s/k", true, "RMDIR /d", "delete /d 5\n"},
        {"SET /d/s/k", "/d/s", false, "RMDIR /d", "delete /d 5\n"},
        {"SET /d/s/k", "/d", false, "RMDIR /d", "delete /d 5\n"},
        {"SET /d/s/k", "/d/none", false, "RMDIR /d", ""},
        {"SET /d/s/k", "/d/none", true, "RMDIR /d", ""},
        {"SET /d/_s/_k", "/d/_s/_k", false, "RMDIR /d", "delete /d 5\n"},
        {"SET /_d/k", "/_d/k", false, "RMDIR /_d", "delete /_d 5\n"},
        {"SET /_d/k", "/", true, "RMDIR /_d", ""},
        {"SET /d/s/k", "/d/s", true, "DELETE /d/s/k", "delete /d/s/k 5\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct watch *watching;
        const char *text;
        struct fixture w;

        fixture_init(&w);
        if (rows[i].before != NULL)
            make(&w, rows[i].before);
        watching = watch(&w, rows[i].watched, rows[i].recursive, false, 0);
        assert_int_equal(w.t.hub.registered, 1);
        make(&w, rows[i].change);
        assert_ptr_equal(next_ready(&w), rows[i].told[0] ? &watching->subscription.wake : NULL);
        /* A long poll gets one event, is over then, and is not registered any more. */
        assert_int_equal(watching->subscription.ended, rows[i].told[0] != '\0');
        assert_int_equal(w.t.hub.registered, rows[i].told[0] == '\0');
        text = told(watching);
        if (strcmp(text, rows[i].told) != 0)
            fail_msg("row %zu: %s, then %s on %s: was told %s", i,
                     rows[i].before == NULL ? "nothing" : rows[i].before, rows[i].change,
                     rows[i].watched, text);
        watch_close(&w.t.hub, watching);
        fixture_fini(&w);
    }
}

static void a_long_poll_gets_one_event(void **state)
{
    struct watch *watching;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    watching = watch(&w, "/", true, false, 0);
    make(&w, "SET /a");
    make(&w, "SET /b");
    assert_ptr_equal(next_ready(&w), &watching->subscription.wake);
    assert_string_equal(told(watching), "set /a 4\n");
    watch_close(&w.t.hub, watching);
    fixture_fini(&w);
}

static void a_stream_gets_all_in_order(void **state)
{
    struct watch *watching;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    watching = watch(&w, "/", true, true, 0);
    make(&w, "SET /a");
    make(&w, "REFRESH /a");
    make(&w, "SET /b/_h");
    make(&w, "REFRESH /a");
    make(&w, "SET /b/c");
    make(&w, "RMDIR /b");
    assert_ptr_equal(next_ready(&w), &watching->subscription.wake);
    assert_null(next_ready(&w)); /* once, however many events */
    assert_string_equal(told(watching), "set /a 4\nset /b/c 8\ndelete /b 9\n");
    make(&w, "SET /c");
    assert_ptr_equal(next_ready(&w), &watching->subscription.wake);
    assert_string_equal(told(watching), "set /c 10\n");
    assert_false(watching->subscription.ended);
    watch_close(&w.t.hub, watching);
    fixture_fini(&w);
}

/* etcd's quirk: a stream exactly on what goes hears of it twice, one above it once. */
static void a_stream_on_a_removed_node_hears_it_twice(void **state)
{
    static const struct {
        const char *before, *change, *watched, *told;
        bool recursive;
    } rows[] = {
        {"SET /d/k", "DELETE /d/k", "/d/k", "delete /d/k 5\ndelete /d/k 5\n", false},
        {"SET /d/k", "DELETE /d/k", "/d", "delete /d/k 5\n", true},
        {"SET /d/k", "RMDIR /d", "/d", "delete /d 5\ndelete /d 5\n", false},
        {"SET /d/k", "RMDIR /d", "/d/k", "delete /d 5\n", false},
        {"SETTTL /k", "EXPIRE", "/k", "expire /k 5\nexpire /k 5\n", false},
        {"SETTTL /k", "EXPIRE", "/", "expire /k 5\n", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct watch *watching;
        struct fixture w;

        print_message("  row %zu\n", i);
        fixture_init(&w);
        make(&w, rows[i].before);
        watching = watch(&w, rows[i].watched, rows[i].recursive, true, 0);
        make(&w, rows[i].change);
        assert_string_equal(told(watching), rows[i].told);
        watch_close(&w.t.hub, watching);
        fixture_fini(&w);
    }
}

static void an_expired_directory_tells_those_who_watch_inside(void **state)
{
    struct watch *inside, *above, *late;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    make(&w, "DIRTTL /d");
    make(&w, "SET /d/k");
    inside = watch(&w, "/d/k", false, false, 0);
    above = watch(&w, "/", true, true, 0);
    late = watch(&w, "/d/none", false, false, 0);
    make(&w, "EXPIRE");
    assert_string_equal(told(inside), "expire /d 6\n");
    assert_string_equal(told(above), "expire /d 6\n");
    assert_string_equal(told(late), "");
    watch_close(&w.t.hub, inside);
    watch_close(&w.t.hub, above);
    watch_close(&w.t.hub, late);
    fixture_fini(&w);
}

static void those_who_watch_the_same_are_woken_in_their_order(void **state)
{
    struct watch *watches[5];
    struct blob *first;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    for (size_t i = 0; i < COUNT(watches); i++)
        watches[i] = watch(&w, "/k", false, i % 2 == 0, 0);
    assert_int_equal(w.t.hub.points.count, 1);
    make(&w, "SET /k");
    first = STAILQ_FIRST(&watches[0]->subscription.queue)->bytes;
    for (size_t i = 0; i < COUNT(watches); i++) {
        assert_ptr_equal(next_ready(&w), &watches[i]->subscription.wake);
        /* However many are told, there is one copy of the event. */
        assert_ptr_equal(STAILQ_FIRST(&watches[i]->subscription.queue)->bytes, first);
    }
    make(&w, "SET /other");
    assert_int_equal(first->refs, COUNT(watches)); /* the history holds it no more */
    for (size_t i = 0; i < COUNT(watches); i++) {
        assert_string_equal(told(watches[i]), "set /k 4\n");
        watch_close(&w.t.hub, watches[i]);
    }
    fixture_fini(&w);
}

static void watches_that_are_closed_hear_nothing(void **state)
{
    struct watch *one, *two, *three;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    one = watch(&w, "/k", false, true, 0);
    two = watch(&w, "/k", false, true, 0);
    three = watch(&w, "/k", true, true, 0);
    make(&w, "SET /k");
    watch_close(&w.t.hub, two); /* while it is on the ready list */
    make(&w, "SET /k");
    assert_ptr_equal(next_ready(&w), &one->subscription.wake);
    assert_ptr_equal(next_ready(&w), &three->subscription.wake);
    assert_null(next_ready(&w));
    assert_string_equal(told(one), "set /k 4\nset /k 5\n");
    watch_close(&w.t.hub, one);
    watch_close(&w.t.hub, three); /* with two events in its queue */
    watch_close(&w.t.hub, NULL);
    make(&w, "SET /k");
    fixture_fini(&w);
}

static void a_watch_from_the_future_waits_for_it(void **state)
{
    struct watch *watching;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    watching = watch(&w, "/k", false, false, 6);
    make(&w, "SET /k");
    make(&w, "SET /k");
    assert_string_equal(told(watching), "");
    make(&w, "SET /k");
    assert_string_equal(told(watching), "set /k 6\n");
    watch_close(&w.t.hub, watching);
    watching = watch(&w, "/k", false, false, UINT64_MAX);
    make(&w, "SET /k");
    assert_string_equal(told(watching), "");
    watch_close(&w.t.hub, watching);
    fixture_fini(&w);
}

/* --- The past. --- */

static void the_past_answers_with_its_first_match(void **state)
{
    static const struct {
        const char *watched;
        bool recursive;
        uint64_t since;
        const char *told; /* "": nothing matches, and it waits */
    } rows[] = {
        {"/a", false, 1, "set /a 4\n"},
        {"/a", false, 4, "set /a 4\n"},
        {"/a", false, 5, "set /a 7\n"},
        {"/a", false, 8, ""},
        {"/", true, 5, "set /b/c 5\n"},
        {"/", false, 1, ""},
        {"/b", false, 1, "delete /b 9\n"},
        {"/b", true, 1, "set /b/c 5\n"},
        {"/bb", true, 1, "delete /b 9\n"},      /* plain text, as etcd compares here */
        {"/b/none", false, 1, "delete /b 9\n"}, /* never existed */
        {"/_h", false, 1, "set /_h 6\n"},
        {"/", true, 6, "set /_h 6\n"}, /* hidden, and told of all the same */
        {"/a", true, 8, ""},           /* 8 was a refresh, of which nobody ever hears */
        {"/c", true, 10, "set /c 11\n"},
        {"/c", false, 12, "expire /c 12\n"},
        {"/c", false, 13, ""},
        {"/", true, 10, "set /c 11\n"}, /* 10 is no event of a watch */
        {"/d", true, 1, ""},
        {"/p", false, 15, "delete /p 15\n"},
        {"/px", false, 14, ""}, /* a key that goes takes nothing along, whatever its name */
    };
    struct fixture w;

    (void)state;
    fixture_init(&w);
    make(&w, "SET /a");       /* 4 */
    make(&w, "SET /b/c");     /* 5 */
    make(&w, "SET /_h");      /* 6 */
    make(&w, "SET /a");       /* 7 */
    make(&w, "REFRESH /a");   /* 8 */
    make(&w, "RMDIR /b");     /* 9 */
    make(&w, "REFRESH /a");   /* 10 */
    make(&w, "SETTTL /c");    /* 11 */
    make(&w, "EXPIRE");       /* 12 */
    make(&w, "MKDIR /e/f/g"); /* 13 */
    make(&w, "SET /p");       /* 14 */
    make(&w, "DELETE /p");    /* 15 */
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct watch *watching =
            watch(&w, rows[i].watched, rows[i].recursive, false, rows[i].since);
        bool tells = rows[i].told[0] != '\0';
        const char *text;

        assert_int_equal(watching->subscription.ended, tells);
        assert_int_equal(w.t.hub.registered, !tells);
        assert_ptr_equal(next_ready(&w), tells ? &watching->subscription.wake : NULL);
        text = told(watching);
        if (strcmp(text, rows[i].told) != 0)
            fail_msg("row %zu: %s from %d: was told %s", i, rows[i].watched, (int)rows[i].since,
                     text);
        watch_close(&w.t.hub, watching);
    }
    fixture_fini(&w);
}

static void a_stream_from_the_past_gets_one_event_and_then_silence(void **state)
{
    struct watch *watching;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    make(&w, "SET /k");
    make(&w, "SET /k");
    watching = watch(&w, "/k", false, true, 4);
    assert_ptr_equal(next_ready(&w), &watching->subscription.wake);
    assert_string_equal(told(watching), "set /k 4\n");
    assert_false(watching->subscription.ended);
    make(&w, "SET /k");
    assert_null(next_ready(&w));
    assert_string_equal(told(watching), "");
    watch_close(&w.t.hub, watching);
    fixture_fini(&w);
}

static void the_last_thousand_events_are_kept(void **state)
{
    struct watch *watching;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    assert_int_equal(w.t.hub.oldest, 1);
    make(&w, "SET /first"); /* 4 */
    while (w.t.index < 1000)
        make(&w, "SET /k");
    assert_int_equal(w.t.hub.oldest, 1);
    watching = watch(&w, "/first", false, false, 1);
    assert_string_equal(told(watching), "set /first 4\n");
    watch_close(&w.t.hub, watching);

    while (w.t.index < 1003)
        make(&w, "SET /k");
    assert_int_equal(w.t.hub.oldest, 4);
    watching = watch(&w, "/first", false, false, 4);
    assert_string_equal(told(watching), "set /first 4\n");
    watch_close(&w.t.hub, watching);
    watching = NULL;
    assert_int_equal(watch_open(&w.t.hub, slice_str("/first"), false, false, 3, NULL, &watching),
                     ETCD_INDEX_CLEARED);
    assert_null(watching);

    make(&w, "SET /k"); /* 1004 */
    assert_int_equal(w.t.hub.oldest, 5);
    assert_int_equal(watch_open(&w.t.hub, slice_str("/first"), false, false, 4, NULL, &watching),
                     ETCD_INDEX_CLEARED);
    watching = watch(&w, "/first", false, false, 5);
    assert_string_equal(told(watching), "");
    watch_close(&w.t.hub, watching);
    watching = watch(&w, "/k", false, false, 0); /* 0: from now on */
    assert_string_equal(told(watching), "");
    make(&w, "SET /k");
    assert_string_equal(told(watching), "set /k 1005\n");
    watch_close(&w.t.hub, watching);
    for (int i = 0; i < 2500; i++)
        make(&w, "SET /k");
    assert_int_equal(w.t.hub.oldest, 3505 - 999);
    fixture_fini(&w);
}

/* Large values push the oldest events out before there are a thousand; the newest always stays. */
static void the_history_is_bounded_in_bytes(void **state)
{
    const size_t len = HISTORY_BYTES_MAX / 8;
    uint8_t *large = calloc(1, len);
    struct command c = {
        .kind = COMMAND_TREE_SET, .key = slice_str("/k"), .value = {large, len}, .now_ns = NOW};
    struct watch *watching = NULL;
    struct tree_result r;
    struct fixture w;

    (void)state;
    assert_non_null(large);
    fixture_init(&w);
    make(&w, "SET /first"); /* 4 */
    for (int i = 0; i < 40; i++) {
        tree_execute(&w.t, &c, &r);
        assert_int_equal(r.code, ETCD_OK);
        assert_in_range(w.t.hub.bytes, len, HISTORY_BYTES_MAX);
    }
    /* Each event holds its value and the previous one. */
    assert_int_equal(w.t.hub.oldest, w.t.index - 2);
    assert_int_equal(watch_open(&w.t.hub, slice_str("/k"), false, false, 4, NULL, &watching),
                     ETCD_INDEX_CLEARED);
    for (int i = 0; i < 2000; i++)
        make(&w, "SET /k");
    assert_int_equal(w.t.hub.oldest, w.t.index - 999);
    fixture_fini(&w);
    free(large);
}

/* An event outlives its place in the history for as long as somebody has it to send. */
static void a_queued_event_outlives_the_history(void **state)
{
    struct watch *watching;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    make(&w, "SET /k");
    watching = watch(&w, "/k", false, false, 4);
    for (int i = 0; i < 1500; i++)
        make(&w, "SET /k");
    assert_string_equal(told(watching), "set /k 4\n");
    watch_close(&w.t.hub, watching);
    while (next_ready(&w) != NULL)
        continue;
    fixture_fini(&w);
}

/* Removal walks the tree while those who watch it end: deep, wide, and watched everywhere. */
static void a_watched_tree_goes_at_once(void **state)
{
    enum { WIDE = 50, DEEP = 200 };
    struct watch *watches[WIDE + DEEP];
    char command[8 + 2 * DEEP + 1] = "MKDIR /d";
    size_t count = 0;
    struct fixture w;

    (void)state;
    fixture_init(&w);
    for (int i = 0; i < DEEP; i++)
        strcat(command, "/e");
    make(&w, command);
    for (size_t len = strlen("MKDIR /d/e"); len <= strlen("MKDIR /d") + 2 * DEEP; len += 2) {
        char path[sizeof command];

        snprintf(path, sizeof path, "%.*s", (int)len, command);
        watches[count] = watch(&w, strchr(path, '/'), count % 2 == 0, count % 3 == 0, 0);
        count++;
    }
    for (int i = 0; i < WIDE; i++) {
        char child[32];

        snprintf(child, sizeof child, "SET /d/%d", i);
        make(&w, child);
        watches[count++] = watch(&w, strchr(child, '/'), i % 2 == 0, i % 3 == 0, 0);
    }
    assert_int_equal(count, COUNT(watches));
    assert_null(next_ready(&w));
    make(&w, "RMDIR /d");
    assert_int_equal(w.t.nodes.count, 1);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(told(watches[i]), "delete /d 55\n");
        watch_close(&w.t.hub, watches[i]);
    }
    fixture_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_watches_share_one_copy),
        cmocka_unit_test(a_watch_is_told_of_what_it_watches),
        cmocka_unit_test(a_long_poll_gets_one_event),
        cmocka_unit_test(a_stream_gets_all_in_order),
        cmocka_unit_test(a_stream_on_a_removed_node_hears_it_twice),
        cmocka_unit_test(an_expired_directory_tells_those_who_watch_inside),
        cmocka_unit_test(those_who_watch_the_same_are_woken_in_their_order),
        cmocka_unit_test(watches_that_are_closed_hear_nothing),
        cmocka_unit_test(a_watch_from_the_future_waits_for_it),
        cmocka_unit_test(the_past_answers_with_its_first_match),
        cmocka_unit_test(a_stream_from_the_past_gets_one_event_and_then_silence),
        cmocka_unit_test(the_last_thousand_events_are_kept),
        cmocka_unit_test(the_history_is_bounded_in_bytes),
        cmocka_unit_test(a_queued_event_outlives_the_history),
        cmocka_unit_test(a_watched_tree_goes_at_once),
    };

    return cmocka_run_group_tests_name("store/watch", tests, NULL, NULL);
}
