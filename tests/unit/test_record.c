/* Changes as bytes and back: every kind and field, and bytes that are no batch, which are refused
 * or change a store as any change would. */
#include "store/disk/record.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "proto/record.pb-c.h"
#include "store/store.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define BYTES(s)                            \
    {                                       \
        (const uint8_t *)(s), sizeof(s) - 1 \
    }

/* Two pairs: "/a" and "1", "" and "". */
#define PAIRS "\2\0\0\0\0\0\0\0/a\1\0\0\0\0\0\0\0001\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

static const struct change changes[] = {
    {.kind = CHANGE_KEY_PUT,
     .put = {.key = BYTES("/k\0\xff"), .value = BYTES("a value\0with a NUL")}},
    {.kind = CHANGE_KEY_PUT},
    {.kind = CHANGE_KEY_PUT,
     .put = {.key = BYTES("/k"), .value = BYTES("v")},
     .worker_store = UINT64_MAX},
    {.kind = CHANGE_KEY_PUT, .put = {.key = BYTES("/w"), .value = BYTES("v")}, .worker_store = 1},
    {.kind = CHANGE_KEY_PATCH,
     .patch = {.key = BYTES("/w"), .offset = 1, .removed = 0, .bytes = BYTES("more")},
     .worker_store = 1},
    {.kind = CHANGE_KEY_PATCH,
     .patch = {.key = BYTES("/k\0\xff"), .offset = 7, .removed = 5, .bytes = BYTES("\0")}},
    {.kind = CHANGE_KEY_PATCH,
     .patch = {.key = BYTES("/k"), .offset = UINT64_MAX, .removed = UINT64_MAX}},
    {.kind = CHANGE_KEY_APPEND, .append = {.key = BYTES("/k"), .bytes = BYTES("more")}},
    {.kind = CHANGE_KEY_DELETE, .delete = {.key = BYTES("/k")}},
    {.kind = CHANGE_KEY_PUT_ALL, .put_all = {.pairs = BYTES(PAIRS)}},
    {.kind = CHANGE_KEY_PUT_ALL},
    {.kind = CHANGE_QUEUE_PUSH, .push = {.queue = BYTES("/q"), .value = BYTES("")}},
    {.kind = CHANGE_QUEUE_POP, .pop = {.queue = BYTES("/q")}},
    {.kind = CHANGE_BARRIER_OPEN, .put = {.key = BYTES("/b"), .value = BYTES("2")}},
    {.kind = CHANGE_SESSION_DONE,
     .done = {.id = UINT64_MAX, .number = 1, .flags = RELAY_ANSWERED, .answer = BYTES("12345678")}},
    {.kind = CHANGE_SESSION_DONE,
     .done = {.id = 7, .number = 2, .flags = RELAY_ANSWERED, .answer = BYTES("\0\0\0\0\0\0\0\0")}},
    {.kind = CHANGE_SESSION_DONE,
     .done = {.id = 7,
              .number = 3,
              .flags = RELAY_ANSWERED,
              .popped = true,
              .answer = BYTES("\1\0\0\0\0\0\0\0")}},
    {.kind = CHANGE_SESSION_DONE,
     .done = {.id = 7, .number = UINT64_MAX - 1, .flags = RELAY_ANSWERED, .answer = BYTES("\0")}},
    {.kind = CHANGE_SESSION_DONE, .done = {.id = 7, .number = UINT64_MAX, .flags = RELAY_TOOK}},
    {.kind = CHANGE_SESSION_DONE,
     .done = {.id = 8, .number = 300, .flags = RELAY_ARRIVED, .answer = BYTES("/b")}},
    {.kind = CHANGE_SESSION_DONE,
     .done = {.id = 8, .number = 301, .flags = RELAY_ARRIVED, .answer = BYTES("barrier8")}},
    {.kind = CHANGE_SESSION_DONE, .done = {.id = 8, .number = 302}},
    {.kind = CHANGE_SESSION_BIND, .bind = {UINT64_MAX, true, UINT64_MAX}},
    {.kind = CHANGE_SESSION_BIND, .bind = {7, true, 1}},
    {.kind = CHANGE_SESSION_BIND, .bind = {1, false, 0}},
    {.kind = CHANGE_SESSION_MEMO, .memo = {7, BYTES("a memo")}},
    {.kind = CHANGE_SESSION_MEMO, .memo = {UINT64_MAX, BYTES("\0")}},
    {.kind = CHANGE_SESSION_MEMO, .memo = {7, {0}}},
    {.kind = CHANGE_SESSION_END, .session = 7},
    {.kind = CHANGE_SESSION_END, .session = UINT64_MAX},
    {.kind = CHANGE_SNAPSHOT_SESSION,
     .session_state = {.id = 9,
                       .number = UINT64_MAX,
                       .flags = RELAY_ANSWERED | RELAY_TOOK,
                       .is_worker = true,
                       .worker_store = 4,
                       .answer = BYTES("an answer"),
                       .memo = BYTES("another memo")}},
    {.kind = CHANGE_SNAPSHOT_HELD,
     .put = {.key = BYTES("\1\2\3\4\5\6\7\xff"), .value = BYTES("an element")}},
    {.kind = CHANGE_TREE_PUT,
     .tree_put = {.action = ETCD_SET,
                  .path = BYTES("/a/b"),
                  .value = BYTES("v"),
                  .expires_ns = INT64_MAX,
                  .now_ns = INT64_C(1800000000000000000)}},
    {.kind = CHANGE_TREE_PUT,
     .tree_put = {.action = ETCD_CREATE, .path = BYTES("/d"), .dir = true, .now_ns = -1}},
    {.kind = CHANGE_TREE_PUT,
     .tree_put = {.action = ETCD_UPDATE,
                  .path = BYTES("/a"),
                  .keep_value = true,
                  .refresh = true,
                  .expires_ns = INT64_MIN}},
    {.kind = CHANGE_TREE_PUT,
     .tree_put = {.action = ETCD_COMPARE_AND_SWAP, .path = BYTES("/a/b"), .value = BYTES("w")}},
    {.kind = CHANGE_TREE_REMOVE,
     .tree_remove = {.action = ETCD_DELETE, .path = BYTES("/d"), .now_ns = 1}},
    {.kind = CHANGE_TREE_REMOVE,
     .tree_remove = {.action = ETCD_COMPARE_AND_DELETE, .path = BYTES("/a/b")}},
    {.kind = CHANGE_TREE_REMOVE,
     .tree_remove = {.action = ETCD_EXPIRE, .path = BYTES("/a"), .now_ns = INT64_MAX}},
    {.kind = CHANGE_TREE_POSTPONE, .by_ns = 1},
    {.kind = CHANGE_TREE_POSTPONE, .by_ns = INT64_MAX},
    {.kind = CHANGE_WORKER_STORE_OPEN, .store_id = 2},
    {.kind = CHANGE_RUN_PUT,
     .run_put = {.key = BYTES("/torch.rendezvous.R"),
                 .placement = WORKER_STORE_WORKER0,
                 .address = BYTES("127.0.0.1"),
                 .port = UINT16_MAX,
                 .worker_store = 2,
                 .round = INT64_MIN}},
    {.kind = CHANGE_RUN_PUT},
    {.kind = CHANGE_RUN_DELETE, .name = BYTES("/torch.rendezvous.R")},
    {.kind = CHANGE_WORKER_STORE_DROP, .store_id = 2},
    {.kind = CHANGE_SPACE_FORGET},
    {.kind = CHANGE_SPACE_RESET, .now_ns = 1},
};

/* One change as a batch; the caller ends the batch. */
static struct slice encode(struct batch *b, const char *space, const struct change *c)
{
    batch_init(b);
    batch_begin(b, 0);
    assert_true(batch_add(b, space, c));
    return batch_bytes(b);
}

/* --- What there is comes back. --- */

/* What is written down is all that a change says, but for what is live. */
static void expect_same_bytes(const struct change *a, const struct change *b)
{
    struct batch x, y;

    assert_true(slice_equal(encode(&x, "s", a), encode(&y, "s", b)));
    batch_fini(&x);
    batch_fini(&y);
}

static void expect_same_tree_put(const struct tree_put *a, const struct tree_put *b)
{
    assert_int_equal(a->action, b->action);
    assert_true(slice_equal(a->path, b->path) && slice_equal(a->value, b->value));
    assert_true(a->expires_ns == b->expires_ns && a->now_ns == b->now_ns);
    assert_true(a->keep_value == b->keep_value && a->dir == b->dir && a->refresh == b->refresh);
}

static void expect_same_run(const struct run_put *a, const struct run_put *b)
{
    assert_true(slice_equal(a->key, b->key) && slice_equal(a->address, b->address));
    assert_int_equal(a->placement, b->placement);
    assert_true(a->port == b->port && a->worker_store == b->worker_store && a->round == b->round);
}

static void expect_same_done(const struct session_done *a, const struct session_done *b)
{
    assert_true(a->id == b->id && a->number == b->number && a->popped == b->popped);
    assert_int_equal(a->flags, b->flags);
    assert_true(slice_equal(a->answer, b->answer));
}

static void expect_same_session(const struct change *a, const struct change *b)
{
    const struct session_state *x = &a->session_state, *y = &b->session_state;

    if (a->kind == CHANGE_SESSION_DONE) {
        expect_same_done(&a->done, &b->done);
    } else if (a->kind == CHANGE_SESSION_BIND) {
        assert_true(a->bind.id == b->bind.id && a->bind.is_worker == b->bind.is_worker);
        assert_true(a->bind.worker_store == b->bind.worker_store);
    } else if (a->kind == CHANGE_SESSION_END) {
        assert_true(a->session == b->session);
    } else if (a->kind == CHANGE_SNAPSHOT_SESSION) {
        assert_true(x->id == y->id && x->number == y->number && x->flags == y->flags);
        assert_true(x->is_worker == y->is_worker && x->worker_store == y->worker_store);
        assert_true(slice_equal(x->answer, y->answer));
        assert_true(slice_equal(x->memo, y->memo));
    } else if (a->kind == CHANGE_SESSION_MEMO) {
        assert_true(a->memo.id == b->memo.id && slice_equal(a->memo.bytes, b->memo.bytes));
    } else {
        assert_true(slice_equal(a->put.key, b->put.key));
        assert_true(slice_equal(a->put.value, b->put.value));
    }
}

static void expect_same(const struct change *a, const struct change *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_true(a->worker_store == b->worker_store);
    if (a->kind == CHANGE_TREE_PUT) {
        expect_same_tree_put(&a->tree_put, &b->tree_put);
    } else if (a->kind == CHANGE_TREE_POSTPONE) {
        assert_true(a->by_ns == b->by_ns);
    } else if (a->kind == CHANGE_TREE_REMOVE) {
        assert_int_equal(a->tree_remove.action, b->tree_remove.action);
        assert_true(slice_equal(a->tree_remove.path, b->tree_remove.path));
        assert_true(a->tree_remove.now_ns == b->tree_remove.now_ns);
    } else if (a->kind == CHANGE_RUN_PUT) {
        expect_same_run(&a->run_put, &b->run_put);
    } else if (a->kind >= CHANGE_SPACE_RESET && a->kind <= CHANGE_WORKER_STORE_DROP) {
        assert_true(a->store_id == b->store_id); /* or now_ns, its neighbour in the union */
    } else if (change_part(a->kind) == PART_SESSION) {
        expect_same_session(a, b);
    } else {
        assert_true(slice_equal(a->put.key, b->put.key)); /* all the others begin with it */
    }
    if (a->kind == CHANGE_KEY_PATCH) {
        assert_true(a->patch.offset == b->patch.offset && a->patch.removed == b->patch.removed);
        assert_true(slice_equal(a->patch.bytes, b->patch.bytes));
    } else if (a->kind == CHANGE_KEY_PUT || a->kind == CHANGE_BARRIER_OPEN ||
               a->kind == CHANGE_KEY_APPEND || a->kind == CHANGE_QUEUE_PUSH) {
        assert_true(slice_equal(a->put.value, b->put.value));
    }
}

static void every_kind_comes_back_as_it_was(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct record_batch records;
        struct batch batch;
        struct slice bytes = encode(&batch, "a space", &changes[i]);
        struct slice copy = exact(bytes.ptr, bytes.len);

        print_message("  change %zu, kind %d\n", i, (int)changes[i].kind);
        batch_fini(&batch);
        assert_true(record_decode(copy, &records));
        exact_free(copy); /* what is decoded has its own memory */
        assert_int_equal(records.count, 1);
        assert_true(slice_is(records.records[0].space, "a space"));
        expect_same(&records.records[0].change, &changes[i]);
        expect_same_bytes(&records.records[0].change, &changes[i]);
        record_free(&records);
        assert_null(records.memory);
    }
}

/* Records are written in two ways; protobuf-c alone would write the same bytes. */
static void every_kind_is_written_as_protobuf_has_it(void **state)
{
    static const char *const names[] = {"", "s", "a space"};

    (void)state;
    for (size_t i = 0; i < COUNT(names) * COUNT(changes); i++) {
        struct batch batch;
        struct slice bytes = encode(&batch, names[i % COUNT(names)], &changes[i / COUNT(names)]);
        size_t number = bytes.ptr[1] == 0 ? 2 : 0; /* which protobuf leaves out if it is 0 */
        Rdzv__Batch *m = rdzv__batch__unpack(NULL, bytes.len, bytes.ptr);
        uint8_t *again = malloc(bytes.len);

        assert_non_null(m);
        assert_non_null(again);
        assert_int_equal(rdzv__batch__get_packed_size(m), bytes.len - number);
        assert_int_equal(rdzv__batch__pack(m, again), bytes.len - number);
        assert_memory_equal(again, bytes.ptr + number, bytes.len - number);
        rdzv__batch__free_unpacked(m, NULL);
        free(again);
        batch_fini(&batch);
    }
}

/* In its order, and in memory that is used again. */
static void a_batch_has_all_changes_of_its_iteration(void **state)
{
    struct batch batch;

    (void)state;
    batch_init(&batch);
    for (uint64_t number = 1; number < 200; number++) {
        struct record_batch records;
        size_t count = number % COUNT(changes);

        batch_begin(&batch, number << 56 | number);
        for (size_t i = 0; i < count; i++)
            assert_true(batch_add(&batch, i % 2 == 0 ? "a" : "", &changes[i]));
        assert_int_equal(batch.count, count);
        assert_true(record_decode(batch_bytes(&batch), &records));
        assert_int_equal(records.count, count);
        assert_true(records.number == (count == 0 ? 0 : batch.number));
        for (size_t i = 0; i < count; i++) {
            assert_true(slice_is(records.records[i].space, i % 2 == 0 ? "a" : ""));
            expect_same(&records.records[i].change, &changes[i]);
        }
        record_free(&records);
    }
    batch_fini(&batch);
}

/* What batch_end() writes comes back, with changes before it and without. */
static void a_batch_says_when_it_was_committed(void **state)
{
    static const int64_t times[] = {1, -1, INT64_MAX, INT64_MIN, 1800000000123456789};

    (void)state;
    for (size_t i = 0; i < COUNT(times); i++) {
        for (size_t count = 0; count < 3; count++) {
            struct record_batch records;
            struct batch batch;

            batch_init(&batch);
            batch_begin(&batch, 5);
            for (size_t k = 0; k < count; k++)
                assert_true(batch_add(&batch, "s", &changes[k]));
            assert_true(batch_end(&batch, times[i]));
            assert_true(record_decode(batch_bytes(&batch), &records));
            assert_true(records.time_ns == times[i] && records.number == 5);
            assert_int_equal(records.count, count);
            record_free(&records);
            batch_fini(&batch);
        }
    }
}

/* --- Bytes that are no batch. --- */

/* A store with something of everything in it. */
static void fill(struct store *s)
{
    static const struct command commands[] = {
        {.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .value = BYTES("a long value")},
        {.kind = COMMAND_KEY_SET, .key = BYTES("/k\0\xff"), .value = BYTES("a longer value")},
        {.kind = COMMAND_QUEUE_PUSH, .key = BYTES("/q"), .value = BYTES("e")},
        {.kind = COMMAND_TREE_SET, .key = BYTES("/a/b"), .expires_ns = INT64_MAX},
        {.kind = COMMAND_TREE_SET, .key = BYTES("/e"), .value = BYTES("v")},
        {.kind = COMMAND_WORKER_STORE_OPEN},
        {.kind = COMMAND_KEY_SET, .key = BYTES("/w"), .value = BYTES("v"), .worker_store = 1},
    };
    const struct store_options options = {.seed = 1};
    struct store_result result;
    struct space *space;

    store_init(s, &options);
    space = store_space(s, "s");
    for (size_t i = 0; i < COUNT(commands); i++)
        store_execute(s, space, &commands[i], NULL, &result);
}

static void list(struct space *space)
{
    const struct node *n;
    struct slice where;
    struct writer count = {0};

    assert_int_equal(tree_get(&space->tree, slice_str("/"), &n, &where), ETCD_OK);
    assert_true(tree_write_get(&space->tree, n, true, true, 0, &count));
}

/* Refused, or changes that a store takes as any other. Returns how many it took. */
static size_t try_bytes(struct store *s, struct slice bytes)
{
    struct slice copy = exact(bytes.ptr, bytes.len);
    struct space *space = store_space(s, "s");
    struct record_batch records;
    size_t taken = 0;

    if (record_decode(copy, &records)) {
        for (size_t i = 0; i < records.count; i++) {
            struct store_result result = {0};

            if (!store_can_apply(s, space, &records.records[i].change))
                continue;
            store_apply(s, space, &records.records[i].change, &result);
            blob_unref(result.value);
            taken++;
        }
        list(space);
        record_free(&records);
    }
    exact_free(copy);
    return taken;
}

/* Each of the changes finds what it needs when those before it have been applied. */
static void they_apply_in_their_order(void **state)
{
    struct store s;

    (void)state;
    fill(&s);
    for (size_t i = 0; i < COUNT(changes); i++) {
        bool absurd = changes[i].worker_store == UINT64_MAX ||
                      changes[i].kind == CHANGE_SNAPSHOT_SESSION ||
                      changes[i].kind == CHANGE_SNAPSHOT_HELD ||
                      (changes[i].kind == CHANGE_SESSION_BIND &&
                       changes[i].bind.worker_store == UINT64_MAX) ||
                      (changes[i].kind == CHANGE_KEY_PATCH && changes[i].patch.removed > 5);
        struct batch batch;

        print_message("  change %zu, kind %d\n", i, (int)changes[i].kind);
        assert_int_equal(try_bytes(&s, encode(&batch, "s", &changes[i])), absurd ? 0 : 1);
        batch_fini(&batch);
    }
    store_fini(&s);
}

static void a_part_of_a_record_does_no_harm(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct batch batch;
        struct slice bytes = encode(&batch, "s", &changes[i]);
        struct store s;

        fill(&s);
        for (size_t len = 0; len < bytes.len; len++)
            try_bytes(&s, (struct slice){bytes.ptr, len});
        store_fini(&s);
        batch_fini(&batch);
    }
}

static void a_record_with_any_bit_wrong_does_no_harm(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct batch batch;
        struct slice bytes = encode(&batch, "s", &changes[i]);
        uint8_t *wrong = malloc(bytes.len);
        struct store s;

        assert_non_null(wrong);
        fill(&s);
        for (size_t bit = 0; bit < 8 * bytes.len; bit++) {
            memcpy(wrong, bytes.ptr, bytes.len);
            wrong[bit / 8] = (uint8_t)(wrong[bit / 8] ^ 1u << bit % 8);
            try_bytes(&s, (struct slice){wrong, bytes.len});
        }
        store_fini(&s);
        free(wrong);
        batch_fini(&batch);
    }
}

/* An empty record, one of a newer version, and one with a field more must not be taken for
 * something else. */
static void what_is_not_known_is_refused(void **state)
{
    static const struct {
        struct slice record;
        bool good;
    } rows[] = {
        {BYTES(""), false},                            /* no change at all */
        {BYTES("\n\1s"), false},                       /* a space alone */
        {BYTES("\372\7\0"), false},                    /* kind 127 */
        {BYTES("\310\2\1"), true},                     /* space_forget */
        {BYTES("\310\2\0"), false},                    /* false */
        {BYTES("\310\2\1\20\1"), false},               /* in a worker store */
        {BYTES("\310\2\1\30\1"), false},               /* with a field 3 of the record */
        {BYTES("R\3\n\1k"), true},                     /* key_put */
        {BYTES("R\3\n\1k\20\1"), true},                /* in a worker store */
        {BYTES("R\5\n\1k\30\1"), false},               /* with a field 3 */
        {BYTES("\242\1\6\10\1\22\2/a"), true},         /* tree_put of SET */
        {BYTES("\242\1\4\22\2/a"), false},             /* without an action */
        {BYTES("\242\1\6\10\5\22\2/a"), false},        /* of DELETE */
        {BYTES("\252\1\6\10\5\22\2/a"), true},         /* tree_remove of DELETE */
        {BYTES("\252\1\6\10\1\22\2/a"), false},        /* of SET */
        {BYTES("\342\3\2\20\2"), true},                /* run_put with placement 2 */
        {BYTES("\342\3\2\20\3"), false},               /* 3 */
        {BYTES("\342\3\4\40\377\377\3"), true},        /* with port 65535 */
        {BYTES("\342\3\4\40\200\200\4"), false},       /* 65536 */
        {BYTES("\202\5\2\30\10"), true},               /* session_done with RELAY_TOOK */
        {BYTES("\202\5\2\30\4"), false},               /* RELAY_ANSWERED, which the answer says */
        {BYTES("\202\5\2\30\2"), false},               /* RELAY_KNOWN */
        {BYTES("\202\5\3\30\210\2"), false},           /* RELAY_TOOK and a flag of no meaning */
        {BYTES("\202\5\2\70\1"), false},               /* with a field 7 */
        {BYTES("\20\1\202\5\2\30\10"), false},         /* in a worker store */
        {BYTES("\212\5\0"), false},                    /* a session of which nothing is said */
        {BYTES("\212\5\11\21\1\0\0\0\0\0\0\0"), true}, /* its end */
        {BYTES("\212\5\13\21\1\0\0\0\0\0\0\0\50\1"), false}, /* with a field 5 */
        {BYTES("\212\5\2\12\0"), true},                      /* bound to the space's own keys */
        {BYTES("\212\5\4\12\2\40\1"), false},                /* with a field 4 */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t bytes[64] = {0x12, (uint8_t)rows[i].record.len};
        struct record_batch records;

        memcpy(bytes + 2, rows[i].record.ptr, rows[i].record.len);
        if (record_decode((struct slice){bytes, rows[i].record.len + 2}, &records) != rows[i].good)
            fail_msg("row %zu", i);
        if (rows[i].good)
            record_free(&records);
    }
}

static void paths_that_no_request_can_have_are_refused(void **state)
{
    static const struct {
        struct slice path;
        bool good;
    } rows[] = {
        {BYTES("/a"), true},    {BYTES("/a/c"), true},   {BYTES("/a\0b"), true},
        {BYTES("/ /."), true},  {BYTES("/"), false},     {BYTES(""), false},
        {BYTES("a"), false},    {BYTES("/a/"), false},   {BYTES("//"), false},
        {BYTES("//a"), false},  {BYTES("/a//b"), false}, {BYTES("a/b"), false},
        {BYTES("/e/x"), false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct change c = {.kind = CHANGE_TREE_PUT,
                           .tree_put = {.action = ETCD_SET, .path = rows[i].path}};
        struct batch batch;
        struct store s;

        if (slice_is(rows[i].path, "/a")) /* a directory, which can only go */
            c = (struct change){.kind = CHANGE_TREE_REMOVE,
                                .tree_remove = {.action = ETCD_DELETE, .path = rows[i].path}};
        fill(&s);
        if (try_bytes(&s, encode(&batch, "s", &c)) != rows[i].good)
            fail_msg("path %zu", i);
        store_fini(&s);
        batch_fini(&batch);
    }
}

#define LONG "sixteen bytes...sixteen bytes...sixteen bytes...sixteen bytes..."

/* What a change takes for granted is looked for before it is applied. */
static void what_finds_nothing_to_change_is_refused(void **state)
{
    static const struct change rows[] = {
        {.kind = CHANGE_KEY_DELETE, .delete = {.key = BYTES("/none")}},
        {.kind = CHANGE_KEY_PATCH, .patch = {.key = BYTES("/none")}},
        {.kind = CHANGE_KEY_PATCH, .patch = {.key = BYTES("/k"), .offset = 13}},
        {.kind = CHANGE_KEY_PATCH, .patch = {.key = BYTES("/k"), .offset = 1, .removed = 12}},
        {.kind = CHANGE_QUEUE_POP, .pop = {.queue = BYTES("/k")}},
        {.kind = CHANGE_KEY_PUT, .worker_store = 2},
        {.kind = CHANGE_TREE_REMOVE, .tree_remove = {.action = ETCD_EXPIRE, .path = BYTES("/z")}},
        {.kind = CHANGE_TREE_PUT, .tree_put = {.action = ETCD_SET, .path = BYTES("/a")}},
        {.kind = CHANGE_TREE_PUT, .tree_put = {.action = ETCD_CREATE, .path = BYTES("/e")}},
        {.kind = CHANGE_TREE_PUT, .tree_put = {.action = ETCD_UPDATE, .path = BYTES("/z")}},
        {.kind = CHANGE_TREE_PUT, .tree_put = {.action = ETCD_UPDATE, .path = BYTES("/a")}},
        {.kind = CHANGE_TREE_PUT,
         .tree_put = {.action = ETCD_UPDATE, .path = BYTES("/e"), .dir = true}},
        {.kind = CHANGE_TREE_PUT,
         .tree_put = {.action = ETCD_SET, .path = BYTES("/z"), .keep_value = true}},
        {.kind = CHANGE_WORKER_STORE_OPEN, .store_id = 1},
        {.kind = CHANGE_WORKER_STORE_DROP, .store_id = 2},
        {.kind = CHANGE_RUN_PUT, .run_put = {.worker_store = 2}},
        {.kind = CHANGE_RUN_DELETE},
        {.kind = CHANGE_SESSION_DONE}, /* number 0 */
        {.kind = CHANGE_SESSION_DONE,
         .done = {.number = 1,
                  .flags = RELAY_ANSWERED,
                  .popped = true, /* nothing was */
                  .answer = BYTES("12345678")}},
        {.kind = CHANGE_SESSION_DONE,
         .done = {.number = 1, .flags = RELAY_ANSWERED, .answer = BYTES(LONG "x")}},
        {.kind = CHANGE_SESSION_DONE,
         .done = {.number = 1, .flags = RELAY_ARRIVED | RELAY_TOOK, .answer = BYTES("/b")}},
        {.kind = CHANGE_SESSION_BIND, .bind = {1, true, 2}},
        {.kind = CHANGE_SESSION_END, .session = 1},
        {.kind = CHANGE_SESSION_MEMO, .memo = {1, BYTES("of no session")}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct batch batch;
        struct store s;

        fill(&s);
        if (try_bytes(&s, encode(&batch, "s", &rows[i])) != 0)
            fail_msg("row %zu is taken", i);
        store_fini(&s);
        batch_fini(&batch);
    }
}

static void items_that_are_no_pairs_are_refused(void **state)
{
    static const struct {
        struct slice items;
        bool good;
    } rows[] = {
        {BYTES(""), true},
        {BYTES(PAIRS), true},
        {BYTES("\0"), false},
        {BYTES("\1\0\0\0\0\0\0\0a"), false},                   /* a key alone */
        {BYTES("\1\0\0\0\0\0\0\0a\1\0\0\0\0\0\0\0"), false},   /* its value is missing */
        {BYTES("\1\0\0\0\0\0\0\0a\1\0\0\0\0\0\0\0bx"), false}, /* something behind */
        {BYTES("\1\0\0\0\0\0\0\0a\377\377\377\377\377\377\377\377b"), false},
        {BYTES("\377\377\377\377\377\377\377\377a"), false},
        {BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), true},
        {BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), false}, /* three */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct change c = {.kind = CHANGE_KEY_PUT_ALL, .put_all = {.pairs = rows[i].items}};
        struct batch batch;
        struct store s;

        fill(&s);
        if (try_bytes(&s, encode(&batch, "s", &c)) != rows[i].good)
            fail_msg("row %zu", i);
        store_fini(&s);
        batch_fini(&batch);
    }
}

/* Random bytes, and records cut, joined and changed at random. */
static void whatever_bytes_do_no_harm(void **state)
{
    uint64_t random = 9;
    size_t taken = 0;

    (void)state;
    for (int round = 0; round < 40; round++) {
        struct store s;

        fill(&s);
        for (int step = 0; step < 500; step++) {
            uint8_t bytes[512];
            size_t len = 0;

            for (int part = 0; part < 3; part++) {
                struct slice record;
                struct batch batch;
                size_t from, n;

                random = random * 6364136223846793005u + 1442695040888963407u;
                record = encode(&batch, "s", &changes[(random >> 33) % COUNT(changes)]);
                from = (random >> 20) % 2 == 0 ? 0 : (random >> 40) % (record.len + 1);
                n = (random >> 21) % 2 == 0 ? record.len - from
                                            : (random >> 50) % (record.len - from + 1);
                if (n <= sizeof bytes - len) {
                    memcpy(bytes + len, record.ptr + from, n);
                    len += n;
                }
                if (len != 0 && (random >> 22) % 4 == 0)
                    bytes[(random >> 30) % len] = (uint8_t)(random >> 55);
                batch_fini(&batch);
            }
            taken += try_bytes(&s, (struct slice){bytes, len});
        }
        store_fini(&s);
    }
    assert_in_range(taken, 500, 40 * 1500); /* enough of them were changes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back_as_it_was),
        cmocka_unit_test(a_batch_has_all_changes_of_its_iteration),
        cmocka_unit_test(a_batch_says_when_it_was_committed),
        cmocka_unit_test(every_kind_is_written_as_protobuf_has_it),
        cmocka_unit_test(they_apply_in_their_order),
        cmocka_unit_test(a_part_of_a_record_does_no_harm),
        cmocka_unit_test(a_record_with_any_bit_wrong_does_no_harm),
        cmocka_unit_test(what_is_not_known_is_refused),
        cmocka_unit_test(paths_that_no_request_can_have_are_refused),
        cmocka_unit_test(what_finds_nothing_to_change_is_refused),
        cmocka_unit_test(items_that_are_no_pairs_are_refused),
        cmocka_unit_test(whatever_bytes_do_no_harm),
    };

    return cmocka_run_group_tests_name("store/record", tests, NULL, NULL);
}
