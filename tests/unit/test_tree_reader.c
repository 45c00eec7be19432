/* Readers of the etcd tree give what tree_write_get() would have given when they were opened,
 * whatever changes meanwhile. A twin of the tree, which gets the same changes and is never read in
 * slices, says what that is. */
#include "store/tree/tree_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "store/tree/tree_snapshot.h"
#include "tests/support/sanitized.h"
#include "tests/unit/tree_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define SECOND   INT64_C(1000000000)
#define NOW      (INT64_C(1800000000) * SECOND)

struct side {
    struct ready_list ready;
    struct reserve reserve;
    struct quota quota;
    struct lazy_free lazy_free;
    struct tree t;
};

struct twins {
    struct side read, twin;
    int64_t now_ns;
    unsigned seed;
};

static void side_init(struct side *s)
{
    ready_list_init(&s->ready);
    reserve_init(&s->reserve);
    lazy_free_init(&s->lazy_free);
    s->quota = (struct quota){0};
    tree_init(&s->t, &s->ready, &s->reserve, 7, &s->quota);
    s->t.lazy_free = &s->lazy_free;
}

static void side_fini(struct side *s)
{
    lazy_free_run(&s->lazy_free, SIZE_MAX);
    assert_false(s->t.keeps_past);
    assert_int_equal(s->t.cuts, 0);
    assert_int_equal(s->t.past_bytes, 0);
    tree_fini(&s->t);
    reserve_fini(&s->reserve);
}

static void twins_init(struct twins *w, unsigned seed)
{
    assert_int_equal(account.total, 0);
    *w = (struct twins){.now_ns = NOW, .seed = seed};
    side_init(&w->read);
    side_init(&w->twin);
}

static void twins_fini(struct twins *w)
{
    side_fini(&w->read);
    side_fini(&w->twin);
    assert_int_equal(account.total, 0);
}

static unsigned below(struct twins *w, unsigned n)
{
    return (unsigned)rand_r(&w->seed) % n;
}

static void change(struct twins *w, const struct command *c)
{
    struct tree_result one, other;

    tree_execute(&w->read.t, c, &one);
    tree_execute(&w->twin.t, c, &other);
    assert_int_equal(one.code, other.code);
    assert_int_equal(w->read.t.index, w->twin.t.index);
    assert_int_equal(w->read.t.bytes, w->twin.t.bytes);
    assert_int_equal(w->read.t.count, w->twin.t.count);
}

/* All that is due; to look for it takes the longer, the more is removed and not freed. */
static void expire(struct tree *t, int64_t now_ns)
{
    const struct command c = {.kind = COMMAND_TREE_EXPIRE, .now_ns = now_ns};
    struct tree_result result;
    int64_t at;

    while (tree_next_expiry(t, &at) && at <= now_ns)
        tree_execute(t, &c, &result);
}

static void must(struct twins *w, enum command_kind kind, const char *path, const char *value)
{
    uint64_t before = w->read.t.index;
    const struct command c = {.kind = kind,
                              .key = slice_str(path),
                              .value = slice_str(value),
                              .recursive = true,
                              .now_ns = w->now_ns};

    change(w, &c);
    assert_int_equal(w->read.t.index, before + 1);
}

/* --- What is read. --- */

struct reading {
    struct tree_reader *reader;
    uint8_t *expected;
    size_t len;
    size_t at; /* so much has been read, and was right */
};

static const struct node *find(struct tree *t, const char *path)
{
    const struct node *n;
    struct slice where;

    return tree_get(t, slice_str(path), &n, &where) == ETCD_OK ? n : NULL;
}

static void write_whole(struct tree *t, const struct node *n, bool recursive, bool sorted,
                        int64_t now_ns, struct reading *out)
{
    struct writer count = {0}, w;

    assert_true(tree_write_get(t, n, recursive, sorted, now_ns, &count));
    w = (struct writer){.ptr = malloc(count.len), .cap = count.len};
    assert_non_null(w.ptr);
    assert_true(tree_write_get(t, n, recursive, sorted, now_ns, &w));
    out->expected = w.ptr;
    out->len = w.len;
    out->at = 0;
}

/* False: there is no such node. */
static bool open_reading(struct twins *w, const char *path, bool recursive, bool sorted,
                         struct reading *out)
{
    const struct node *n = find(&w->read.t, path), *twin = find(&w->twin.t, path);

    assert_true((n == NULL) == (twin == NULL));
    if (n == NULL)
        return false;
    write_whole(&w->twin.t, twin, recursive, sorted, w->now_ns, out);
    out->reader = tree_reader_open(&w->read.t, n, recursive, sorted, w->now_ns);
    assert_non_null(out->reader);
    return true;
}

static void close_reading(struct reading *r)
{
    tree_reader_close(r->reader);
    free(r->expected);
    *r = (struct reading){0};
}

static void check_piece(struct reading *r, struct blob *piece)
{
    struct slice part = blob_slice(piece);

    assert_in_range(part.len, 1, r->len - r->at);
    if (memcmp(r->expected + r->at, part.ptr, part.len) != 0)
        print_error("read:     %.*s\nexpected: %.*s\n", (int)part.len, (const char *)part.ptr,
                    (int)part.len, (const char *)r->expected + r->at);
    assert_memory_equal(r->expected + r->at, part.ptr, part.len);
    r->at += part.len;
    blob_unref(piece);
}

/* One slice; true when that was the last, and right. */
static bool run_reading(struct reading *r, int64_t work_ns)
{
    enum tree_read state = TREE_READ_MORE;
    struct blob *piece;

    while (work_ns > 0 && state == TREE_READ_MORE) {
        state = tree_reader_run(r->reader, &work_ns, &piece);
        assert_true(state != TREE_READ_FAILED);
        if (piece != NULL)
            check_piece(r, piece);
    }
    if (state == TREE_READ_DONE)
        assert_int_equal(r->at, r->len);
    return state == TREE_READ_DONE;
}

static size_t finish(struct reading *r, int64_t work_ns)
{
    size_t slices = 1;

    while (!run_reading(r, work_ns))
        slices++;
    close_reading(r);
    return slices;
}

/* --- Random changes. --- */

static void random_path(struct twins *w, char *out)
{
    static const char *const names[] = {"a",    "b",        "c", "_h",
                                        "e\"f", "\x01\x02", "z", "longer-name"};
    unsigned depth = 1 + below(w, 4);

    out[0] = '\0';
    for (unsigned i = 0; i < depth; i++) {
        strcat(out, "/");
        strcat(out, names[below(w, COUNT(names))]);
    }
}

static struct slice random_value(struct twins *w, uint8_t *room, size_t cap)
{
    static const uint8_t kinds[] = {'x', 1, '"', 0xff, '<'};
    size_t len = below(w, 20) == 0 ? cap : below(w, 30);

    memset(room, kinds[below(w, COUNT(kinds))], len);
    return (struct slice){room, len};
}

static void random_change(struct twins *w)
{
    static const enum command_kind kinds[] = {
        COMMAND_TREE_SET,
        COMMAND_TREE_SET,
        COMMAND_TREE_SET,
        COMMAND_TREE_CREATE,
        COMMAND_TREE_CREATE,
        COMMAND_TREE_CREATE_IN_ORDER,
        COMMAND_TREE_UPDATE,
        COMMAND_TREE_UPDATE,
        COMMAND_TREE_COMPARE_AND_SWAP,
        COMMAND_TREE_DELETE,
        COMMAND_TREE_COMPARE_AND_DELETE,
        COMMAND_TREE_EXPIRE,
    };
    static uint8_t value[20000];
    char path[128];
    struct command c = {.kind = kinds[below(w, COUNT(kinds))], .now_ns = w->now_ns};
    const struct node *n;

    random_path(w, path);
    c.key = slice_str(path);
    c.value = random_value(w, value, sizeof value);
    c.dir = below(w, 6) == 0;
    c.recursive = below(w, 3) == 0;
    c.refresh = below(w, 4) == 0;
    if (below(w, 2) == 0)
        c.expires_ns = w->now_ns + (int64_t)below(w, 30) * SECOND;
    n = find(&w->read.t, path);
    find(&w->twin.t, path);
    if (c.kind == COMMAND_TREE_COMPARE_AND_SWAP || c.kind == COMMAND_TREE_COMPARE_AND_DELETE)
        c.prev_index = n == NULL ? 1 : n->modified;
    if (c.kind == COMMAND_TREE_DELETE && c.recursive && below(w, 3) == 0)
        c.key = slice_from(c.key, 0), c.key.len = 2; /* much at once */
    if (c.dir)
        c.value.len = 0;
    if (c.kind == COMMAND_TREE_EXPIRE) {
        w->now_ns += (int64_t)below(w, 10) * SECOND;
        expire(&w->read.t, w->now_ns);
        expire(&w->twin.t, w->now_ns);
        return;
    }
    change(w, &c);
    if (below(w, 400) == 0) {
        tree_clear(&w->read.t, w->now_ns);
        tree_clear(&w->twin.t, w->now_ns);
    }
}

/* Both trees are equal as clients see them. */
static void compare(struct twins *w)
{
    struct reading one, other;

    write_whole(&w->read.t, w->read.t.root, true, false, w->now_ns, &one);
    write_whole(&w->twin.t, w->twin.t.root, true, false, w->now_ns, &other);
    assert_int_equal(one.len, other.len);
    assert_memory_equal(one.expected, other.expected, one.len);
    free(one.expected);
    free(other.expected);
}

static void take_random_steps(struct twins *w, size_t steps, size_t *read)
{
    enum { READERS = 6 };
    struct reading readings[READERS] = {0};
    char path[128];

    for (size_t i = 0; i < steps; i++) {
        struct reading *r = &readings[below(w, READERS)];

        random_change(w);
        if (r->reader == NULL && below(w, 3) == 0) {
            random_path(w, path);
            path[below(w, 3) == 0 ? 1 : 2 * (1 + below(w, 2))] = '\0';
            open_reading(w, path, below(w, 3) != 0, below(w, 2) == 0, r);
        } else if (r->reader != NULL && run_reading(r, 1 + below(w, 3000))) {
            close_reading(r);
            ++*read;
        } else if (r->reader != NULL && below(w, 60) == 0) {
            close_reading(r);
        }
        if (below(w, 2) == 0)
            lazy_free_run(&w->read.lazy_free, 1 + below(w, 5));
        if (below(w, 50) == 0)
            compare(w);
    }
    for (size_t i = 0; i < READERS; i++) {
        if (readings[i].reader != NULL)
            finish(&readings[i], 500);
    }
    compare(w);
}

static void a_reader_sees_one_moment_whatever_changes(void **state)
{
    size_t read = 0;

    (void)state;
    for (unsigned seed = 1; seed <= SANITIZED_OR(12, 60); seed++) {
        struct twins w;

        print_message("seed %u\n", seed);
        twins_init(&w, seed);
        if (seed % 3 == 0)
            w.read.t.lazy_free = NULL; /* what goes is freed at once */
        if (seed % 2 == 0)
            w.read.t.cut_from = 3;
        take_random_steps(&w, 3000, &read);
        twins_fini(&w);
    }
    assert_true(read > SANITIZED_OR(1000, 5000));
}

/* --- Each kind of change, by itself. --- */

static void set_many(struct twins *w, const char *dir, int count)
{
    char path[64];

    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%d", dir, i * 7919 % count);
        must(w, COMMAND_TREE_SET, path, "v");
    }
}

static void delete_many(struct twins *w, const char *dir, int count)
{
    char path[64];

    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%d", dir, i);
        must(w, COMMAND_TREE_DELETE, path, "");
    }
}

/* Thousands of children: collected into a heap, or in the order of their creation.
 */
static void a_large_directory_is_read_in_slices(void **state)
{
    enum { CHILDREN = 3000 };
    struct reading r;
    struct twins w;

    (void)state;
    for (int sorted = 0; sorted < 2; sorted++) {
        twins_init(&w, 1);
        set_many(&w, "/d", CHILDREN);
        assert_true(open_reading(&w, "/d", false, sorted != 0, &r));
        assert_false(run_reading(&r, 20000));
        delete_many(&w, "/d", CHILDREN);
        must(&w, COMMAND_TREE_DELETE, "/d", "");
        set_many(&w, "/d", 10);
        assert_in_range(finish(&r, 20000), CHILDREN * 400 / 20000 / 2, CHILDREN);
        twins_fini(&w);
    }
}

/* A reader that begins behind what another one holds passes it, however slowly it goes, and while
 * that is freed. */
static void what_was_removed_before_is_passed_in_slices(void **state)
{
    enum { CHILDREN = 500 };
    struct reading first, second;
    struct twins w;

    (void)state;
    for (int sorted = 0; sorted < 2; sorted++) {
        twins_init(&w, 1);
        set_many(&w, "/d", CHILDREN);
        assert_true(open_reading(&w, "/d", true, true, &first));
        delete_many(&w, "/d", CHILDREN);
        must(&w, COMMAND_TREE_SET, "/d/last", "v");
        assert_false(tree_is_small(&w.read.t, find(&w.read.t, "/d")));
        find(&w.twin.t, "/d");
        assert_true(open_reading(&w, "/d", true, sorted != 0, &second));
        for (int i = 0; i < 3; i++)
            assert_false(run_reading(&second, 1000));
        finish(&first, 100000);
        for (int i = 0; i < 5; i++) {
            assert_false(run_reading(&second, 100));
            lazy_free_run(&w.read.lazy_free, 30);
        }
        finish(&second, 1000);
        lazy_free_run(&w.read.lazy_free, SIZE_MAX);
        assert_true(tree_is_small(&w.read.t, find(&w.read.t, "/d")));
        find(&w.twin.t, "/d");
        twins_fini(&w);
    }
}

/* While a reader is open, a key that is set again and again takes no more memory than once. */
static void what_no_reader_sees_is_not_kept(void **state)
{
    struct reading r;
    struct twins w;
    size_t before;

    (void)state;
    twins_init(&w, 1);
    must(&w, COMMAND_TREE_SET, "/d/k", "v");
    must(&w, COMMAND_TREE_SET, "/d/l", "v");
    assert_true(open_reading(&w, "/d", true, true, &r));
    must(&w, COMMAND_TREE_SET, "/d/k", "w");
    must(&w, COMMAND_TREE_UPDATE, "/d/l", "w");
    before = account.bytes[ACCOUNT_TREES];
    for (int i = 0; i < 1000; i++) {
        must(&w, COMMAND_TREE_SET, "/d/k", "w");
        must(&w, COMMAND_TREE_UPDATE, "/d/l", "w");
        must(&w, COMMAND_TREE_CREATE, "/d/n", "w");
        must(&w, COMMAND_TREE_DELETE, "/d/n", "");
    }
    assert_int_equal(account.bytes[ACCOUNT_TREES], before);
    finish(&r, 100);
    twins_fini(&w);
}

/* The longest text of a byte: each takes six. */
static void set_long(struct twins *w, const char *path, size_t len)
{
    char *value = malloc(len + 1);

    assert_non_null(value);
    memset(value, 1, len);
    value[len] = '\0';
    must(w, COMMAND_TREE_SET, path, value);
    free(value);
}

/* Of a value that is longer than a slice. */
static void a_long_value_is_read_in_slices(void **state)
{
    struct reading r;
    struct twins w;

    (void)state;
    twins_init(&w, 1);
    set_long(&w, "/a/k", 1 << 20);
    assert_true(open_reading(&w, "/a/k", false, false, &r));
    assert_false(run_reading(&r, 20000));
    must(&w, COMMAND_TREE_UPDATE, "/a/k", "other");
    must(&w, COMMAND_TREE_DELETE, "/a", "");
    assert_in_range(finish(&r, 20000), 5, 200);
    twins_fini(&w);
}

/* Memory is short: the reader ends, and changes are carried out. */
static void when_memory_is_short_readers_end_and_changes_do_not(void **state)
{
    struct reading r, other;
    int64_t work_ns = 1000;
    struct blob *piece;
    struct twins w;

    (void)state;
    twins_init(&w, 1);
    set_many(&w, "/d", 1000);
    assert_true(open_reading(&w, "/d", true, true, &r));
    assert_true(open_reading(&w, "/d", true, false, &other));
    assert_false(run_reading(&r, 1000));
    assert_false(run_reading(&other, 1000));
    account_set_limit(account.total + 100);
    delete_many(&w, "/d", 1000);
    must(&w, COMMAND_TREE_SET, "/d/1", "v");
    account_set_limit(0);
    assert_int_equal(tree_reader_run(r.reader, &work_ns, &piece), TREE_READ_FAILED);
    assert_int_equal(tree_reader_run(other.reader, &work_ns, &piece), TREE_READ_FAILED);
    close_reading(&r);
    close_reading(&other);
    compare(&w);
    twins_fini(&w);
}

/* What the change leaves behind stays, although the snapshots for which it did have just been
 * closed. */
static void what_was_removed_when_memory_was_short_goes_once(void **state)
{
    struct tree_snapshot snapshot;
    struct twins w;

    (void)state;
    twins_init(&w, 1);
    set_many(&w, "/d", 2);
    tree_snapshot_open(&snapshot, &w.read.t);
    account_set_limit(account.total + 100);
    must(&w, COMMAND_TREE_DELETE, "/d/1", "");
    must(&w, COMMAND_TREE_DELETE, "/d", "");
    account_set_limit(0);
    assert_true(snapshot.closed);
    compare(&w);
    twins_fini(&w);
}

/* Wherever there is no memory for the reader itself. */
static void a_reader_without_memory_fails_and_frees_all(void **state)
{
    enum { ROOM = 8000 };
    bool done = false;
    struct twins w;

    (void)state;
    twins_init(&w, 1);
    set_many(&w, "/d", 1000);
    for (size_t room = 0; !done; room += ROOM) {
        const struct node *n = find(&w.read.t, "/d");
        size_t before = account.total;
        struct tree_reader *r;
        enum tree_read state_now = TREE_READ_MORE;

        find(&w.twin.t, "/d");
        account_set_limit(20 * (before + room) / 19 + ACCOUNT_KEPT_MIN);
        r = tree_reader_open(&w.read.t, n, true, true, w.now_ns);
        while (r != NULL && state_now == TREE_READ_MORE) {
            int64_t work_ns = 10000;
            struct blob *piece;

            state_now = tree_reader_run(r, &work_ns, &piece);
            blob_unref(piece);
        }
        done = state_now == TREE_READ_DONE;
        tree_reader_close(r);
        lazy_free_run(&w.read.lazy_free, SIZE_MAX);
        assert_int_equal(account.total, before);
        assert_in_range(room, 0, 2000000);
    }
    account_set_limit(0);
    twins_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_sees_one_moment_whatever_changes),
        cmocka_unit_test(a_large_directory_is_read_in_slices),
        cmocka_unit_test(what_was_removed_before_is_passed_in_slices),
        cmocka_unit_test(what_no_reader_sees_is_not_kept),
        cmocka_unit_test(a_long_value_is_read_in_slices),
        cmocka_unit_test(when_memory_is_short_readers_end_and_changes_do_not),
        cmocka_unit_test(what_was_removed_when_memory_was_short_goes_once),
        cmocka_unit_test(a_reader_without_memory_fails_and_frees_all),
    };

    return cmocka_run_group_tests_name("store/tree_reader", tests, NULL, NULL);
}
