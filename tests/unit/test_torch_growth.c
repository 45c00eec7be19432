/* How long what is written of a rendezvous state may be, beside what was read: random pickles that
 * say much in few bytes, by referring again and again to the same nodes and addresses, or that have
 * many objects for what is equal. Pickles that refer to a time are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/base64.h"
#include "proto/torch/pickle.h"
#include "proto/torch/torch_state.h"
#include "proto/torch/torch_state_internal.h"
#include "tests/support/sanitized.h"

#define ROUNDS     SANITIZED_OR(600, 3000)
#define TEXTS_MAX  24  /* different addresses, and times */
#define COPIES_MAX 300 /* equal objects before a reference to one of them */
#define NODES_MAX  600
#define UNKNOWN    UINT32_MAX

static const char *const names[] = {
    "round",           "complete",        "deadline", "closed", "participants", "wait_list",
    "redundancy_list", "last_heartbeats", "addr",     "pid",    "local_id"};
enum { NAME_ADDR = 8, NAME_PID, NAME_LOCAL_ID, NAMES };

/* How this round's pickle is odd. */
struct shape {
    unsigned nodes, addresses, times; /* how many; no times: each heartbeat has one of its own */
    size_t addr_len;
    unsigned copies;    /* objects there are of each address */
    bool early;         /* the long address comes before all others, in the memo, not in order */
    bool named;         /* names of torch's serve as addresses too */
    bool deadline;      /* which makes the classes of times known early */
    unsigned lists;     /* 1 to 15: which of the lists there are nodes in */
    unsigned new_nodes; /* of a hundred: how many are a new object, in a list after the first */
};

/* A pickle in the making, and the numbers in its memo. */
struct odd {
    struct pickle_writer w;
    const struct shape *shape;
    uint32_t names[NAMES];
    uint32_t classes[TORCH_CLASSES];
    uint32_t modules[2];
    uint32_t utc;
    uint32_t addresses[TEXTS_MAX][COPIES_MAX];
    uint32_t times[TEXTS_MAX];
    uint32_t nodes[NODES_MAX];
};

static uint64_t seed;
static bool refers_to_time; /* the pickle that was made last */

/* 0 to n - 1. */
static unsigned chance(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)((seed >> 33) % n);
}

static void op(struct odd *o, enum pickle_op code)
{
    pickle_put_op(&o->w, code);
}

static void numbered(struct odd *o, enum pickle_op code)
{
    pickle_op(&o->w, code);
    pickle_number(&o->w);
}

static void put_string(struct odd *o, uint32_t *number, struct slice text)
{
    if (*number != UNKNOWN)
        pickle_reference(&o->w, *number);
    else
        *number = pickle_put_string(&o->w, text);
}

static void put_name(struct odd *o, unsigned name)
{
    put_string(o, &o->names[name], slice_str(names[name]));
}

static void put_class(struct odd *o, enum torch_class which)
{
    bool ours = which == TORCH_STATE_CLASS || which == TORCH_NODE_CLASS;
    uint32_t *module = &o->modules[ours], own = UNKNOWN;

    if (o->classes[which] != UNKNOWN) {
        pickle_reference(&o->w, o->classes[which]);
        return;
    }
    put_string(o, module, slice_str(torch_classes[which].module));
    put_string(o, which == TORCH_DATETIME_CLASS ? module : &own,
               slice_str(torch_classes[which].name));
    numbered(o, PICKLE_STACK_GLOBAL);
    o->classes[which] = o->w.memoed - 1;
}

static void start_object(struct odd *o, enum torch_class which)
{
    put_class(o, which);
    op(o, PICKLE_EMPTY_TUPLE);
    numbered(o, PICKLE_NEWOBJ);
    op(o, PICKLE_EMPTY_DICT);
    pickle_number(&o->w);
    pickle_op(&o->w, PICKLE_MARK);
}

static void put_utc(struct odd *o)
{
    if (o->utc != UNKNOWN) {
        pickle_reference(&o->w, o->utc);
        return;
    }
    put_class(o, TORCH_TIMEZONE_CLASS);
    put_class(o, TORCH_TIMEDELTA_CLASS);
    for (int i = 0; i < 3; i++)
        pickle_put_int(&o->w, 0);
    numbered(o, PICKLE_TUPLE3);
    numbered(o, PICKLE_REDUCE);
    numbered(o, PICKLE_TUPLE1);
    numbered(o, PICKLE_REDUCE);
    o->utc = o->w.memoed - 1;
}

static void put_new_time(struct odd *o, int64_t us)
{
    uint8_t bytes[1 + TORCH_TIME_SIZE] = {TORCH_TIME_SIZE};

    torch_time_write(us, bytes + 1);
    put_class(o, TORCH_DATETIME_CLASS);
    op(o, PICKLE_SHORT_BINBYTES);
    writer_put(&o->w.out, bytes, sizeof bytes);
    pickle_number(&o->w);
    put_utc(o);
    numbered(o, PICKLE_TUPLE2);
    numbered(o, PICKLE_REDUCE);
}

/* Writes one of a few shared times, or a new time. */
static void put_time(struct odd *o, unsigned node)
{
    unsigned which;

    if (o->shape->times == 0) {
        put_new_time(o, INT64_C(1795220124597637) + node);
        return;
    }
    which = chance(o->shape->times);
    if (o->times[which] != UNKNOWN) {
        pickle_reference(&o->w, o->times[which]);
        refers_to_time = true;
        return;
    }
    put_new_time(o, INT64_C(1795220124597637) + which);
    o->times[which] = o->w.memoed - 1;
}

/* Address 0 is the long one, and the first or the last in the order of nodes. */
static void put_addr(struct odd *o)
{
    unsigned which = chance(4) != 0 ? 0 : chance(o->shape->addresses);
    uint8_t text[TORCH_ADDR_MAX];
    size_t len = which == 0 ? o->shape->addr_len : 1 + which % 3;

    if (o->shape->named && chance(3) == 0) {
        put_name(o, chance(NAMES));
        return;
    }
    memset(text, which != 0 ? 'b' + (int)which : o->shape->early ? 'z' : 'a', len);
    put_string(o, &o->addresses[which][chance(o->shape->copies)], (struct slice){text, len});
}

static void put_node(struct odd *o, unsigned i, bool anew)
{
    if (o->nodes[i] != UNKNOWN && !anew) {
        pickle_reference(&o->w, o->nodes[i]);
        return;
    }
    start_object(o, TORCH_NODE_CLASS);
    o->nodes[i] = o->w.memoed - 2;
    put_name(o, NAME_ADDR);
    put_addr(o);
    put_name(o, NAME_PID);
    pickle_put_int(&o->w, i & 255);
    put_name(o, NAME_LOCAL_ID);
    pickle_put_int(&o->w, i >> 8);
    pickle_op(&o->w, PICKLE_SETITEMS);
    pickle_op(&o->w, PICKLE_BUILD);
}

/* A list of nodes in an order of its own. The list names each node once. A node of several lists
 * may be a different object in each list, and through its address a different node. */
static void put_list(struct odd *o, unsigned list)
{
    bool dict = list == 0 || list == 3;
    unsigned count = o->shape->lists >> list & 1 ? o->shape->nodes : 0;
    unsigned stride = count == 0 ? 0 : 1 + 2 * chance(count);

    while (count != 0 && (stride % 2 == 0 || stride % 3 == 0 || stride % 5 == 0))
        stride++; /* counts are powers of 2, 3 and 5 multiplied */
    put_name(o, 4 + list);
    op(o, dict ? PICKLE_EMPTY_DICT : PICKLE_EMPTY_SET);
    pickle_number(&o->w);
    if (count == 0)
        return;
    pickle_op(&o->w, PICKLE_MARK);
    for (unsigned i = 0; i < count; i++) {
        unsigned node = (unsigned)((uint64_t)i * stride % count);

        put_node(o, node, chance(100) < o->shape->new_nodes);
        if (list == 0)
            pickle_put_int(&o->w, 0);
        else if (dict)
            put_time(o, node);
    }
    pickle_op(&o->w, dict ? PICKLE_SETITEMS : PICKLE_ADDITEMS);
}

static void put_state(struct odd *o)
{
    pickle_start(&o->w, 4);
    start_object(o, TORCH_STATE_CLASS);
    put_name(o, 0);
    pickle_put_int(&o->w, 1);
    put_name(o, 1);
    op(o, PICKLE_NEWTRUE);
    put_name(o, 2);
    if (o->shape->deadline)
        put_time(o, 0);
    else
        op(o, PICKLE_NONE);
    put_name(o, 3);
    op(o, PICKLE_NEWFALSE);
    for (unsigned list = 0; list < 4; list++)
        put_list(o, list);
    pickle_op(&o->w, PICKLE_SETITEMS);
    pickle_op(&o->w, PICKLE_BUILD);
    pickle_stop(&o->w);
}

/* The text of such a state, to be freed. */
static struct slice odd_text(const struct shape *shape)
{
    size_t cap = NODES_MAX * 4 * (TORCH_ADDR_MAX + 100) + 2000;
    struct odd *o = malloc(sizeof *o);
    uint8_t *pickle = malloc(cap), *text;
    size_t len;

    assert_true(o != NULL && pickle != NULL);
    memset(o, 0xff, sizeof *o);
    o->w = (struct pickle_writer){.out = {.ptr = pickle, .cap = cap}};
    o->shape = shape;
    refers_to_time = false;
    put_state(o);
    len = o->w.out.len;
    assert_in_range(len, 0, cap);
    text = malloc(base64_size(len));
    assert_non_null(text);
    base64_encode((struct slice){pickle, len}, text);
    free(pickle);
    free(o);
    return (struct slice){text, base64_size(len)};
}

static struct shape random_shape(void)
{
    static const unsigned counts[] = {1, 2, 3, 10, 60, 100, 120, 128, 240, 500, NODES_MAX};
    static const size_t lengths[] = {0, 1, 2, 60, 255, 256, TORCH_ADDR_MAX};
    static const unsigned copies[] = {1, 1, 2, 3, COPIES_MAX};

    return (struct shape){
        .nodes = counts[chance(11)],
        .addresses = 1 + chance(TEXTS_MAX),
        .times = chance(8) == 0 ? 1 + chance(TEXTS_MAX) : 0,
        .addr_len = lengths[chance(7)],
        .copies = copies[chance(5)],
        .early = chance(2) == 1,
        .named = chance(4) == 0,
        .deadline = chance(2) == 1,
        .lists = 1 + chance(15),
        .new_nodes = chance(2) * chance(101),
    };
}

static size_t written_len(const struct torch_state *s)
{
    struct torch_state again;
    uint8_t *text, *same;
    size_t len, same_len;

    assert_true(torch_state_write(s, &text, &len));
    assert_int_equal(torch_state_read((struct slice){text, len}, &again), TORCH_STATE_OK);
    assert_int_equal(again.count, s->count);
    assert_true(torch_state_write(&again, &same, &same_len));
    assert_true(slice_equal((struct slice){text, len}, (struct slice){same, same_len}));
    torch_state_free(&again);
    free(text);
    free(same);
    return len;
}

static void try_shape(const struct shape *shape, double *most)
{
    struct slice text = odd_text(shape);
    struct torch_state s;
    size_t len;

    if (refers_to_time) {
        assert_int_equal(torch_state_read(text, &s), TORCH_STATE_NOT_MINE);
        free((void *)(uintptr_t)text.ptr);
        return;
    }
    assert_int_equal(torch_state_read(text, &s), TORCH_STATE_OK);
    len = written_len(&s);
    if (len > TORCH_STATE_GROWTH(text.len))
        fail_msg("%zu bytes become %zu", text.len, len);
    if (text.len > 8192 && (double)len / (double)text.len > *most)
        *most = (double)len / (double)text.len;
    torch_state_free(&s);
    free((void *)(uintptr_t)text.ptr);
}

static void what_is_written_is_not_much_longer_than_what_was_read(void **state)
{
    double most = 0;

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct shape shape;

        seed = round;
        chance(1);
        shape = random_shape();
        try_shape(&shape, &most);
    }
    print_message("the longest, beside what was read: %.2f\n", most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_not_much_longer_than_what_was_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
