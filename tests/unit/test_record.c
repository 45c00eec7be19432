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
#include "tests/support/record_batch.h"
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
    {.kind = CHANGE_KEY_APPEND, .put = {.key = BYTES("/k"), .value = BYTES("more")}},
    {.kind = CHANGE_KEY_DELETE, .put = {.key = BYTES("/k")}},
    {.kind = CHANGE_KEY_PUT_ALL, .put_all = {.pairs = BYTES(PAIRS)}},
    {.kind = CHANGE_KEY_PUT_ALL},
    {.kind = CHANGE_QUEUE_PUSH, .put = {.key = BYTES("/q"), .value = BYTES("")}},
    {.kind = CHANGE_QUEUE_PUSH, .put = {.key = BYTES("/q"), .value = BYTES("an element")}},
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
    {.kind = CHANGE_SESSION_HINT, .hint = {7, BYTES("a hint")}},
    {.kind = CHANGE_SESSION_HINT, .hint = {UINT64_MAX, BYTES("\0")}},
    {.kind = CHANGE_SESSION_HINT, .hint = {7, {0}}},
    {.kind = CHANGE_SESSION_END, .session = 7},
    {.kind = CHANGE_SESSION_END, .session = UINT64_MAX},
    {.kind = CHANGE_SNAPSHOT_SESSION,
     .session_state = {.id = 9,
                       .number = UINT64_MAX,
                       .flags = RELAY_ANSWERED | RELAY_TOOK,
                       .is_worker = true,
                       .worker_store = 4,
                       .answer = BYTES("an answer"),
                       .hint = BYTES("another hint")}},
    {.kind = CHANGE_SNAPSHOT_HELD,
     .put = {.key = BYTES("\1\2\3\4\5\6\7\xff"), .value = BYTES("an element")}},
    {.kind = CHANGE_SNAPSHOT_SPACE,
     .space_state = {.last_worker_store = 1,
                     .tree_index = 2,
                     .oldest_event = 3,
                     .next_deadline = 4,
                     .expired = UINT64_MAX,
                     .succeeded = {11, 12, 13, 14, 15, 16, 17},
                     .failed = {21, 22, 23, 24, 25, 26, 27},
                     .nodes = 5}},
    {.kind = CHANGE_SNAPSHOT_NODE,
     .node_state = {.path = BYTES("/a"),
                    .value = BYTES("v"),
                    .created = 4,
                    .modified = 5,
                    .expires_ns = -1,
                    .deadline = 3}},
    {.kind = CHANGE_SNAPSHOT_NODE, .node_state = {.path = BYTES("/d"), .dir = true}},
    {.kind = CHANGE_SNAPSHOT_EVENT,
     .event_state = {.action = ETCD_COMPARE_AND_SWAP,
                     .refresh = true,
                     .has_prev = true,
                     .node = {.key = BYTES("/a"),
                              .value = BYTES("new"),
                              .has_value = true,
                              .modified = 9,
                              .created = 8},
                     .prev = {.value = BYTES("old"),
                              .has_value = true,
                              .has_expiration = true,
                              .expires_ns = 6,
                              .ttl_s = 60,
                              .modified = 8,
                              .created = 7}}},
    {.kind = CHANGE_SNAPSHOT_EVENT,
     .event_state = {.action = ETCD_DELETE,
                     .has_prev = true,
                     .node = {.key = BYTES("/d"), .dir = true},
                     .prev = {.dir = true, .has_expiration = true}}},
    {.kind = CHANGE_SNAPSHOT_EVENT,
     .event_state =
         {.action = ETCD_CREATE,
          .node = {.key = BYTES("/a"), .has_expiration = true, .expires_ns = 7, .ttl_s = -1}}},
    {.kind = CHANGE_SNAPSHOT_KEYS, .worker_store = 1, .records = 300},
    {.kind = CHANGE_SNAPSHOT_END, .records = UINT64_MAX},
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

/* Encoded changes have all fields of a change, except the live ones. */
static void expect_same_bytes(const struct change *a, const struct change *b)
{
    struct batch x, y;

    assert_true(slice_equal(encode(&x, "s", a), encode(&y, "s", b)));
    batch_fini(&x);
    batch_fini(&y);
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
        assert_int_equal(records.records[0].change.kind, changes[i].kind);
        expect_same_bytes(&records.records[0].change, &changes[i]);
        record_free(&records);
        assert_null(records.bytes);
    }
}

/* --- The same by protobuf-c, which knows proto/record.proto and not the table. --- */

/* The same as protobuf-c reads them. */
static const char *const texts[] = {
    "key_put={ key='/k<00><ff>' value='a value<00>with a NUL' }",
    "key_put={ }",
    "worker_store=18446744073709551615 key_put={ key='/k' value='v' }",
    "worker_store=1 key_put={ key='/w' value='v' }",
    "worker_store=1 key_patch={ key='/w' offset=1 bytes='more' }",
    "key_patch={ key='/k<00><ff>' offset=7 removed=5 bytes='<00>' }",
    "key_patch={ key='/k' offset=18446744073709551615 removed=18446744073709551615 }",
    "key_append={ key='/k' bytes='more' }",
    "key_delete={ name='/k' }",
    "key_put_all={ "
    "pairs='<02><00><00><00><00><00><00><00>/"
    "a<01><00><00><00><00><00><00><00>1<00><00><00><00><00><00><00><00><00><00><00><00><00><00><00>"
    "<00>' }",
    "key_put_all={ }",
    "queue_push={ queue='/q' }",
    "queue_push={ queue='/q' value='an element' }",
    "queue_pop={ name='/q' }",
    "barrier_open={ key='/b' value='2' }",
    "session_done={ id=18446744073709551615 number=1 flags=4 answer='12345678' }",
    "session_done={ id=7 number=2 flags=4 answer='<00><00><00><00><00><00><00><00>' }",
    "session_done={ id=7 number=3 flags=4 popped=1 answer='<01><00><00><00><00><00><00><00>' }",
    "session_done={ id=7 number=18446744073709551614 flags=4 answer='<00>' }",
    "session_done={ id=7 number=18446744073709551615 flags=8 }",
    "session_done={ id=8 number=300 flags=16 answer='/b' }",
    "session_done={ id=8 number=301 flags=16 answer='barrier8' }",
    "session_done={ id=8 number=302 }",
    "session_bind={ id=18446744073709551615 is_worker=1 worker_store=18446744073709551615 }",
    "session_bind={ id=7 is_worker=1 worker_store=1 }",
    "session_bind={ id=1 }",
    "session_hint={ id=7 bytes='a hint' }",
    "session_hint={ id=18446744073709551615 bytes='<00>' }",
    "session_hint={ id=7 }",
    "session_end={ id=7 }",
    "session_end={ id=18446744073709551615 }",
    "snapshot_session={ id=9 number=18446744073709551615 flags=12 is_worker=1 worker_store=4 "
    "answer='an answer' hint='another hint' }",
    "snapshot_held={ key='<01><02><03><04><05><06><07><ff>' value='an element' }",
    "snapshot_space={ last_worker_store=1 tree_index=2 oldest_event=3 next_deadline=4 nodes=5 "
    "expired=18446744073709551615 gets=11 failed_gets=21 sets=12 failed_sets=22 deletes=13 "
    "failed_deletes=23 updates=14 failed_updates=24 creates=15 failed_creates=25 swaps=16 "
    "failed_swaps=26 swap_deletes=17 failed_swap_deletes=27 }",
    "snapshot_node={ path='/a' value='v' created=4 modified=5 expires_ns=-1 deadline=3 }",
    "snapshot_node={ path='/d' dir=1 }",
    "snapshot_event={ action=COMPARE_AND_SWAP path='/a' refresh=1 value='new' has_value=1 "
    "modified=9 created=8 has_prev=1 prev_value='old' "
    "prev_has_value=1 prev_has_expiration=1 prev_expires_ns=6 prev_ttl_s=60 prev_modified=8 "
    "prev_created=7 }",
    "snapshot_event={ action=DELETE path='/d' dir=1 has_prev=1 prev_dir=1 prev_has_expiration=1 }",
    "snapshot_event={ action=CREATE path='/a' has_expiration=1 expires_ns=7 ttl_s=-1 }",
    "worker_store=1 snapshot_keys={ count=300 }",
    "snapshot_end={ count=18446744073709551615 }",
    "tree_put={ action=SET path='/a/b' value='v' expires_ns=9223372036854775807 "
    "now_ns=1800000000000000000 }",
    "tree_put={ action=CREATE path='/d' dir=1 now_ns=-1 }",
    "tree_put={ action=UPDATE path='/a' keep_value=1 refresh=1 expires_ns=-9223372036854775808 }",
    "tree_put={ action=COMPARE_AND_SWAP path='/a/b' value='w' }",
    "tree_remove={ action=DELETE path='/d' now_ns=1 }",
    "tree_remove={ action=COMPARE_AND_DELETE path='/a/b' }",
    "tree_remove={ action=EXPIRE path='/a' now_ns=9223372036854775807 }",
    "tree_postpone={ ns=1 }",
    "tree_postpone={ ns=9223372036854775807 }",
    "worker_store_open={ id=2 }",
    "run_put={ key='/torch.rendezvous.R' placement=WORKER0 address='127.0.0.1' port=65535 "
    "worker_store=2 round=-9223372036854775808 }",
    "run_put={ }",
    "run_delete={ name='/torch.rendezvous.R' }",
    "worker_store_drop={ id=2 }",
    "space_forget={ }",
    "space_reset={ ns=1 }",
};

_Static_assert(COUNT(texts) == COUNT(changes), "each change has one");

static const ProtobufCFieldDescriptor *seen[200]; /* fields that were not left out */
static size_t seen_count;

static bool was_seen(const ProtobufCFieldDescriptor *f)
{
    for (size_t i = 0; i < seen_count; i++) {
        if (seen[i] == f)
            return true;
    }
    return false;
}

static bool is_left_out(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *at = (const uint8_t *)m + f->offset;

    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(const void *)((const uint8_t *)m + f->quantifier_offset) !=
               f->id;
    switch (f->type) {
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)at)->len == 0;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return *(const uint64_t *)at == 0;
    default:
        return *(const uint32_t *)at == 0;
    }
}

static void show_bytes(FILE *out, const ProtobufCBinaryData *b)
{
    fputc('\'', out);
    for (size_t i = 0; i < b->len; i++)
        fprintf(out, b->data[i] < ' ' || b->data[i] > '~' ? "<%02x>" : "%c", b->data[i]);
    fputc('\'', out);
}

static void show_message(FILE *out, const ProtobufCMessage *m);

static void show_field(FILE *out, const ProtobufCFieldDescriptor *f, const void *at)
{
    fprintf(out, " %s=", f->name);
    switch (f->type) {
    case PROTOBUF_C_TYPE_BYTES:
        show_bytes(out, at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        show_message(out, *(const ProtobufCMessage *const *)at);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        fputs(protobuf_c_enum_descriptor_get_value(f->descriptor, *(const int *)at)->name, out);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        fprintf(out, "%" PRIu64, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_SFIXED64:
        fprintf(out, "%" PRId64, *(const int64_t *)at);
        break;
    default: /* uint32 and bool */
        fprintf(out, "%" PRIu32, *(const uint32_t *)at);
    }
}

static void show_message(FILE *out, const ProtobufCMessage *m)
{
    assert_int_equal(m->n_unknown_fields, 0);
    fputc('{', out);
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];

        if (is_left_out(m, f))
            continue;
        show_field(out, f, (const uint8_t *)m + f->offset);
        if (!was_seen(f))
            seen[seen_count++] = f;
    }
    fputs(" }", out);
}

static void every_kind_is_written_as_protobuf_has_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct batch batch;
        struct slice bytes = encode(&batch, "s", &changes[i]);
        size_t number = bytes.ptr[1] == 0 ? 2 : 0; /* which protobuf leaves out if it is 0 */
        Rdzv__Batch *m = rdzv__batch__unpack(NULL, bytes.len, bytes.ptr);
        uint8_t *again = malloc(bytes.len);
        char text[600], expected[600];
        FILE *out = fmemopen(text, sizeof text, "w");

        assert_non_null(m);
        assert_non_null(again);
        assert_int_equal(m->base.n_unknown_fields, 0);
        show_message(out, &m->records[0]->base);
        fclose(out);
        snprintf(expected, sizeof expected, "{ space='s' %s }", texts[i]);
        assert_string_equal(text, expected);
        assert_int_equal(rdzv__batch__pack(m, again), bytes.len - number);
        assert_memory_equal(again, bytes.ptr + number, bytes.len - number);
        rdzv__batch__free_unpacked(m, NULL);
        free(again);
        batch_fini(&batch);
    }
}

/* So none is in proto/record.proto that the table lacks. Runs behind the test above. */
static void every_field_was_written(void **state)
{
    const ProtobufCMessageDescriptor *record = &rdzv__record__descriptor;

    (void)state;
    for (unsigned i = 0; i < record->n_fields; i++) {
        const ProtobufCMessageDescriptor *message = record->fields[i].descriptor;

        if (!was_seen(&record->fields[i]))
            fail_msg("no change was written as %s", record->fields[i].name);
        if (record->fields[i].type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        for (unsigned k = 0; k < message->n_fields; k++) {
            if (!was_seen(&message->fields[k]))
                fail_msg("%s.%s was never written", message->name, message->fields[k].name);
        }
    }
}

/* --- Batches. --- */

/* The batch keeps the order of the changes, and reuses its memory. */
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
            assert_true(batch_add(&batch, i % 3 == 0 ? "a" : "b", &changes[i]));
        assert_int_equal(batch.count, count);
        assert_true(record_decode(batch_bytes(&batch), &records));
        assert_int_equal(records.count, count);
        assert_true(records.number == (count == 0 ? 0 : batch.number));
        for (size_t i = 0; i < count; i++) {
            assert_true(slice_is(records.records[i].space, i % 3 == 0 ? "a" : "b"));
            expect_same_bytes(&records.records[i].change, &changes[i]);
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
    space = store_space(s, slice_str("s"));
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
    struct space *space = store_space(s, slice_str("s"));
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

/* Each change needs the changes before it, so they must be applied in order. */
static void they_apply_in_their_order(void **state)
{
    struct store s;

    (void)state;
    fill(&s);
    for (size_t i = 0; i < COUNT(changes); i++) {
        bool absurd =
            changes[i].worker_store == UINT64_MAX ||
            (changes[i].kind >= CHANGE_SNAPSHOT_SPACE && changes[i].kind <= CHANGE_SNAPSHOT_KEYS) ||
            changes[i].kind == CHANGE_SNAPSHOT_SESSION || changes[i].kind == CHANGE_SNAPSHOT_HELD ||
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
        {BYTES("\212\5\0"), false},                    /* kind 81 */
        {BYTES("\312\2\0"), true},                     /* space_forget */
        {BYTES("\310\2\1"), false},                    /* a number */
        {BYTES("\20\1\312\2\0"), false},               /* in a worker store */
        {BYTES("\30\1\312\2\0"), false},               /* with a field 3 of the record */
        {BYTES("\312\2\0\312\2\0"), false},            /* twice */
        {BYTES("R\3\n\1k"), true},                     /* key_put */
        {BYTES("\20\1R\3\n\1k"), true},                /* in a worker store */
        {BYTES("R\5\n\1k\30\1"), false},               /* with a field 3 */
        {BYTES("R\6\n\1k\n\1k"), false},               /* with two keys */
        {BYTES("R\6\22\1v\n\1k"), false},              /* the value first */
        {BYTES("R\2\10\1"), false},                    /* the key is a number */
        {BYTES("R\3\2\1k"), false},                    /* a field 0 */
        {BYTES("R\2\n\1"), false},                     /* the key is missing */
        {BYTES("\242\1\6\10\1\22\2/a"), true},         /* tree_put of SET */
        {BYTES("\242\1\4\22\2/a"), false},             /* without an action */
        {BYTES("\242\1\6\10\5\22\2/a"), false},        /* of DELETE */
        {BYTES("\242\1\4\10\1\40\2"), false},          /* keep_value is 2 */
        {BYTES("\252\1\6\10\5\22\2/a"), true},         /* tree_remove of DELETE */
        {BYTES("\252\1\6\10\1\22\2/a"), false},        /* of SET */
        {BYTES("\262\1\11\11\1\0\0\0\0\0\0\0"), true}, /* tree_postpone */
        {BYTES("\262\1\0"), false},                    /* by nothing */
        {BYTES("\342\3\2\20\2"), true},                /* run_put with placement 2 */
        {BYTES("\342\3\2\20\3"), false},               /* 3 */
        {BYTES("\342\3\4\40\377\377\3"), true},        /* with port 65535 */
        {BYTES("\342\3\4\40\200\200\4"), false},       /* 65536 */
        {BYTES("\272\4\2\30\1"), true},                /* snapshot_node: a directory */
        {BYTES("\272\4\5\22\1v\30\1"), false},         /* with a value */
        {BYTES("\302\4\2\10\2"), true},                /* snapshot_event of CREATE */
        {BYTES("\302\4\5\10\2\42\1v"), false},         /* with a value and not has_value */
        {BYTES("\202\5\2\30\10"), true},               /* session_done with RELAY_TOOK */
        {BYTES("\202\5\3\30\200\2"), false},           /* with flags of 256 */
        {BYTES("\202\5\2\70\1"), false},               /* with a field 7 */
        {BYTES("\20\1\202\5\2\30\10"), false},         /* in a worker store */
        {BYTES("\222\5\0"), true},                     /* session_bind: to the space's own keys */
        {BYTES("\222\5\2\40\1"), false},               /* with a field 4 */
        {BYTES("\252\5\12\n\010abcdefgh"), true},      /* snapshot_held */
        {BYTES("\252\5\3\n\1k"), false},               /* of no session's id */
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
        {.kind = CHANGE_KEY_DELETE, .put = {.key = BYTES("/none")}},
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
        {.kind = CHANGE_SESSION_DONE, .done = {.number = 1, .flags = RELAY_KNOWN}},
        {.kind = CHANGE_SESSION_DONE, .done = {.number = 1, .flags = RELAY_ANSWERED}},
        {.kind = CHANGE_SESSION_DONE, .done = {.number = 1, .answer = BYTES("12345678")}},
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
        {.kind = CHANGE_SESSION_HINT, .hint = {1, BYTES("of no session")}},
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
static void random_bytes_do_no_harm(void **state)
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
        cmocka_unit_test(every_field_was_written),
        cmocka_unit_test(they_apply_in_their_order),
        cmocka_unit_test(a_part_of_a_record_does_no_harm),
        cmocka_unit_test(a_record_with_any_bit_wrong_does_no_harm),
        cmocka_unit_test(what_is_not_known_is_refused),
        cmocka_unit_test(paths_that_no_request_can_have_are_refused),
        cmocka_unit_test(what_finds_nothing_to_change_is_refused),
        cmocka_unit_test(items_that_are_no_pairs_are_refused),
        cmocka_unit_test(random_bytes_do_no_harm),
    };

    return cmocka_run_group_tests_name("store/record", tests, NULL, NULL);
}
