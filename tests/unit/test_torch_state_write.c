/* Rendezvous states: adding nodes, writing a state, and fronts, heartbeats and copies of it; all of
 * this without memory. */
#include "tests/unit/torch_state_pickle.h"

/* --- In memory. --- */

static struct torch_node named(const char *addr, int64_t pid, int64_t local_id)
{
    return (struct torch_node){.addr = slice_str(addr), .pid = pid, .local_id = local_id};
}

static void nodes_are_found_and_added_in_order(void **state)
{
    const struct torch_node nodes[] = {
        named("n2", 256, 2), named("node-10", 1, 0), named("node-2", 1, 0),    named("n1", 256, 1),
        named("n1", 255, 9), named("n1", 257, -1),   named("", -5, 0),         named("n1", 256, 3),
        named("n", 0, 0),    named("node-1", 1, 0),  named("n\xc3\xb6", 1, 1),
    };
    struct pickle p = pickle_intact();
    struct torch_state s;

    (void)state;
    pickle_read_well(&p, &s);
    for (size_t i = 0; i < COUNT(nodes); i++) {
        struct slice copy = exact(nodes[i].addr.ptr, nodes[i].addr.len);
        struct torch_node who = nodes[i], *at;

        who.addr = copy;
        assert_int_equal(torch_state_find(&s, &who) != NULL, i == 0);
        assert_true(torch_state_insert(&s, &who, &at));
        exact_free(copy);
        assert_ptr_equal(torch_state_find(&s, &nodes[i]), at);
        assert_int_equal(at->participant, i == 0); /* one that is there stays as it is */
    }
    assert_int_equal(s.count, 2 + COUNT(nodes) - 1);
    for (size_t i = 1; i < s.count; i++)
        assert_true(torch_node_compare(&s.nodes[i - 1], &s.nodes[i]) < 0);
    torch_state_free(&s);
    torch_state_free(&s); /* what is freed is empty */
}

static void assert_same(const struct torch_state *a, const struct torch_state *b)
{
    assert_true(a->round == b->round && a->complete == b->complete && a->closed == b->closed);
    assert_true(a->has_deadline == b->has_deadline && a->deadline_us == b->deadline_us);
    assert_true(a->fqdn == b->fqdn && a->aware == b->aware && a->protocol == b->protocol);
    assert_true(a->has_redundancy == b->has_redundancy && a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct torch_node *n = &a->nodes[i], *m = &b->nodes[i];

        assert_int_equal(torch_node_compare(n, m), 0);
        assert_true(n->participant == m->participant && n->rank == m->rank);
        assert_true(n->waiting == m->waiting && n->redundant == m->redundant);
        assert_true(n->has_heartbeat == m->has_heartbeat && n->heartbeat_us == m->heartbeat_us);
    }
}

/* Writes and reads again. */
static void write_well(const struct torch_state *s)
{
    struct torch_state again;
    uint8_t *text;
    size_t len;

    assert_true(torch_state_write(s, &text, &len));
    assert_int_equal(read_text((struct slice){text, len}, &again), TORCH_STATE_OK);
    assert_same(s, &again);
    torch_state_free(&again);
    free(text);
}

static void a_state_is_written_as_it_was_read_byte_for_byte(void **state)
{
    struct pickle p = pickle_intact();
    struct slice text = pickle_text((struct slice){p.bytes, p.len});
    struct torch_state s;
    uint8_t *written;
    size_t len;

    (void)state;
    pickle_read_well(&p, &s);
    assert_true(torch_state_write(&s, &written, &len));
    assert_true(slice_equal(text, (struct slice){written, len}));
    free(written);
    exact_free(text);
    torch_state_free(&s);
}

/* Every dialect, and lists of every size at which the writing changes. */
static void all_that_can_be_said_is_written_and_read(void **state)
{
    static const size_t counts[] = {0, 1, 2, 30, 130, 999, 1000, 1001, 2000, 2500};

    (void)state;
    for (unsigned dialect = 0; dialect < 16; dialect += SANITIZED_OR(5, 1)) {
        for (size_t c = 0; c < COUNT(counts); c++) {
            struct torch_state s = {.round = 1, .deadline_us = 7, .has_deadline = c % 2 == 1};

            s.has_redundancy = dialect & 1;
            s.fqdn = counts[c] > 0 ? (dialect & 2) != 0 : !s.has_redundancy;
            s.aware = counts[c] > 0 || s.has_deadline ? (dialect & 4) != 0 : s.has_redundancy;
            s.protocol = dialect & 8 ? 5 : 4;
            s.deadline_us = s.has_deadline ? -1 : 0;
            for (size_t i = 0; i < counts[c]; i++) {
                struct torch_node who = {.pid = (int64_t)(i * i * i) - 70000,
                                         .has_heartbeat = true};
                char addr[32];
                struct torch_node *at;

                snprintf(addr, sizeof addr, "%zu", i * 7919 % counts[c]);
                who.addr = slice_str(addr);
                who.heartbeat_us = (int64_t)i * 86399999999 - 1000000000;
                who.participant = i % 3 != 0;
                who.rank = who.participant ? (int64_t)i : 0;
                who.waiting = i % 3 == 0 || i % 7 == 0;
                who.redundant = s.has_redundancy && i % 5 == 0;
                assert_true(torch_state_insert(&s, &who, &at));
            }
            write_well(&s);
            torch_state_free(&s);
        }
    }
}

/* The text of a state with one participant, whose heartbeat is the only time. Freed by the caller.
 */
static struct slice text_of_beat(bool is_new, int64_t pid, int64_t us)
{
    struct torch_state s = {.aware = is_new, .has_redundancy = is_new, .protocol = 4};
    const struct torch_node who = {.addr = slice_str("node-7.training"),
                                   .pid = pid,
                                   .participant = true,
                                   .has_heartbeat = true,
                                   .heartbeat_us = us};
    struct torch_node *at;
    uint8_t *text;
    size_t len;

    s.complete = true;
    assert_true(torch_state_insert(&s, &who, &at));
    assert_true(torch_state_write(&s, &text, &len));
    torch_state_free(&s);
    return (struct slice){text, len};
}

static void a_heartbeat_is_read_by_the_difference(void **state)
{
    static const int64_t steps[] = {
        1, 255, 256, 65536, 5000000, 61000000, INT64_C(40) * 86400000000};
    int64_t us = INT64_C(1790000000) * 1000000, read;

    (void)state;
    for (size_t i = 0; i < SANITIZED_OR(1000, 4000); i++) {
        int64_t next = us + steps[i % COUNT(steps)];
        struct slice was = text_of_beat(i % 2 == 0, 100, us),
                     is = text_of_beat(i % 2 == 0, 100, next);
        struct slice other = text_of_beat(i % 2 == 0, 101, next);

        assert_true(torch_state_read_beat(was, is, &read));
        assert_int_equal(read, next);
        assert_false(torch_state_read_beat(was, other, &read));
        assert_false(torch_state_read_beat(is, other, &read));
        assert_false(torch_state_read_beat(is, is, &read));
        assert_false(torch_state_read_beat(was, (struct slice){is.ptr, is.len - 4}, &read));
        free((void *)(uintptr_t)was.ptr);
        free((void *)(uintptr_t)is.ptr);
        free((void *)(uintptr_t)other.ptr);
        us = next;
    }
}

static void who_is_in_no_list_is_left_out(void **state)
{
    struct pickle p = pickle_intact();
    struct torch_state s, again;
    uint8_t *text;
    size_t len;

    (void)state;
    pickle_read_well(&p, &s);
    s.nodes[0].participant = false;
    s.nodes[0].has_heartbeat = false;
    s.nodes[1].heartbeat_us = INT64_MAX; /* and that is the end of the year 9999 */
    assert_true(torch_state_write(&s, &text, &len));
    assert_int_equal(read_text((struct slice){text, len}, &again), TORCH_STATE_OK);
    assert_int_equal(again.count, 1);
    assert_true(slice_is(again.nodes[0].addr, "n2"));
    assert_int_equal(again.nodes[0].heartbeat_us, INT64_C(253402300799999999));
    torch_state_free(&again);
    torch_state_free(&s);
    free(text);
}

/* --- Fronts. --- */

#define OTHER "-other"

static struct torch_state make_dialect(bool is_new)
{
    return (struct torch_state){.round = 7,
                                .complete = is_new,
                                .fqdn = !is_new,
                                .aware = is_new,
                                .has_redundancy = is_new,
                                .protocol = is_new ? 5 : 4};
}

static void add_to(struct torch_state *s, struct torch_node who)
{
    struct torch_node *at;

    assert_true(torch_state_insert(s, &who, &at));
}

/* A state of `others` placeholder participants and of two nodes. Bits of `way`: 1: node one takes
 * part; 2: it waits; 4: node two waits. */
static struct torch_state view_of(const struct torch_state *like, size_t others, size_t way)
{
    struct torch_state s = *like;

    for (size_t i = 0; i < others; i++)
        add_to(&s, (struct torch_node){
                       .addr = slice_str(OTHER), .pid = (int64_t)i, .participant = true});
    if (way & 3)
        add_to(&s, (struct torch_node){.addr = slice_str("one"),
                                       .pid = 70000,
                                       .participant = (way & 1) != 0,
                                       .waiting = (way & 2) != 0,
                                       .rank = way & 1 ? 5000 : 0,
                                       .has_heartbeat = true,
                                       .heartbeat_us = 1790000000000000});
    if (way & 4)
        add_to(&s, (struct torch_node){.addr = slice_str("two"), .waiting = true});
    return s;
}

static void check_front(const struct torch_front *f, const struct torch_state *like, size_t others,
                        size_t way)
{
    struct torch_state all = view_of(like, others, way), rest = view_of(like, 0, way), read;
    uint8_t *whole, *text;
    size_t whole_len, len;

    assert_true(torch_state_write(&all, &whole, &whole_len));
    assert_true(torch_front_write(f, others, &rest, &text, &len));
    if (others + (way & 1) > 1) /* a dict of one item has no mark */
        assert_true(slice_equal((struct slice){whole, whole_len}, (struct slice){text, len}));
    assert_int_equal(torch_state_read((struct slice){text, len}, &read), TORCH_STATE_OK);
    assert_same(&read, &all);
    torch_state_free(&read);
    assert_int_equal(torch_front_read(f, others, (struct slice){text, len}, &read), TORCH_STATE_OK);
    assert_int_equal(read.count, rest.count);
    if (rest.count != 0)
        assert_same(&read, &rest);
    torch_state_free(&read);
    if (others > 1)
        assert_int_equal(torch_front_read(f, others - 1, (struct slice){text, len}, &read),
                         TORCH_STATE_OK); /* the last placeholder is read as a node */
    assert_int_equal(read.count, others > 1 ? rest.count + 1 : 0);
    torch_state_free(&read);
    assert_int_equal(torch_front_read(f, others + 1, (struct slice){text, len}, &read),
                     TORCH_STATE_NOT_MINE);
    torch_state_free(&all);
    torch_state_free(&rest);
    free(whole);
    free(text);
}

/* The same bytes as without it, at each count at which the writing changes; a frame ends near 2620.
 */
static void a_front_changes_no_text(void **state)
{
    static const size_t ranges[][2] = {{1, 20},     {85, 95},     {120, 130},   {250, 260},
                                       {998, 1002}, {1999, 2001}, {2600, 2640}, {4998, 4999}};

    (void)state;
    for (size_t is_new = 0; is_new < 2; is_new++) {
        const struct torch_state like = make_dialect(is_new == 1);
        struct torch_front *f = torch_front_new(&like, slice_str(OTHER), 5000);

        assert_non_null(f);
        assert_true(torch_front_fits(f, &like, 5000));
        assert_false(torch_front_fits(f, &like, 5001));
        for (size_t i = 0; i < COUNT(ranges); i++) {
            for (size_t n = ranges[i][0]; n <= ranges[i][1]; n++)
                check_front(f, &like, n, (size_t[]){0, 1, 2, 4, 5, 6}[n % 6]);
        }
        torch_front_free(f);
    }
}

/* Whatever a text says that begins like a front, it is read as the same text without a front. */
static void a_text_behind_a_front_is_read_as_ever(void **state)
{
    const struct torch_state like = make_dialect(true);
    struct torch_front *f = torch_front_new(&like, slice_str(OTHER), 40);
    struct torch_state view = view_of(&like, 0, 5), whole, behind;
    uint8_t *text;
    size_t len, well = 0;

    (void)state;
    assert_true(torch_front_write(f, 40, &view, &text, &len));
    for (size_t i = 0; i < len; i++) {
        uint8_t was = text[i];

        text[i] = was == 'A' ? 'B' : was == '/' ? '+' : (uint8_t)(was ^ 1);
        if (torch_front_read(f, 40, (struct slice){text, len}, &behind) == TORCH_STATE_OK) {
            well++;
            assert_int_equal(torch_state_read((struct slice){text, len}, &whole), TORCH_STATE_OK);
            assert_int_equal(whole.count, behind.count + 40);
            for (size_t n = 0; n < behind.count; n++)
                assert_non_null(torch_state_find(&whole, &behind.nodes[n]));
            torch_state_free(&whole);
            torch_state_free(&behind);
        }
        text[i] = was;
    }
    assert_in_range(well, 10, 200); /* names, numbers and times */
    free(text);
    torch_state_free(&view);
    torch_front_free(f);
}

static void a_front_needs_memory(void **state)
{
    const struct torch_state like = make_dialect(true);
    struct torch_state view = view_of(&like, 0, 1), read;
    enum torch_state_status status = TORCH_STATE_NO_MEMORY;
    struct torch_front *f = NULL;
    uint8_t *text = NULL;
    size_t len, lacks;

    (void)state;
    for (lacks = 0; f == NULL; lacks++) {
        fail_at = lacks;
        f = torch_front_new(&like, slice_str(OTHER), 5);
        fail_at = SIZE_MAX;
    }
    assert_in_range(lacks, 7, 20);
    for (lacks = 0; text == NULL; lacks++) {
        fail_at = lacks;
        torch_front_write(f, 5, &view, &text, &len);
        fail_at = SIZE_MAX;
    }
    assert_int_equal(lacks, 4); /* of the numbers, of the pickle, of the text */
    for (lacks = 0; status == TORCH_STATE_NO_MEMORY; lacks++) {
        fail_at = lacks;
        status = torch_front_read(f, 5, (struct slice){text, len}, &read);
        fail_at = SIZE_MAX;
    }
    assert_int_equal(status, TORCH_STATE_OK);
    assert_int_equal(lacks, 4); /* of the bytes, of the memo, of the nodes */
    torch_state_free(&read);
    free(text);
    torch_state_free(&view);
    torch_front_free(f);
}

/* --- Without memory. --- */

static void every_lack_of_memory_is_told(void **state)
{
    struct pickle p = pickle_intact();
    struct slice value = pickle_text((struct slice){p.bytes, p.len});
    const struct torch_node who = named("new", 1, 1);
    enum torch_state_status status = TORCH_STATE_NO_MEMORY;
    struct torch_state s;
    struct torch_node *at;
    uint8_t *text;
    size_t len, lacks;
    bool done = false;

    (void)state;
    for (lacks = 0; status == TORCH_STATE_NO_MEMORY; lacks++) {
        fail_at = lacks;
        status = torch_state_read(value, &s);
        fail_at = SIZE_MAX;
    }
    assert_int_equal(status, TORCH_STATE_OK);
    assert_int_equal(lacks, 4); /* the bytes, the memo, the nodes: then all is there */

    for (s.cap = s.count, lacks = 0; !done; lacks++) {
        fail_at = lacks;
        done = torch_state_insert(&s, &who, &at);
        fail_at = SIZE_MAX;
        assert_int_equal(s.count, done ? 3 : 2);
    }
    assert_int_equal(lacks, 3); /* of room, of the address */

    for (done = false, lacks = 0; !done; lacks++) {
        fail_at = lacks;
        done = torch_state_write(&s, &text, &len);
        fail_at = SIZE_MAX;
    }
    assert_int_equal(lacks, 4); /* of the pickle, of the numbers, of the text */
    free(text);
    torch_state_free(&s);
    exact_free(value);
    free(p.bytes);
}

/* Two nodes, of which one is a participant. */
static struct torch_state small_state(void)
{
    struct torch_state s = {.aware = true, .has_redundancy = true, .protocol = 4};
    struct torch_node *at;

    for (int i = 0; i < 2; i++) {
        const struct torch_node who = {.addr = slice_str(i == 0 ? "one" : "two"),
                                       .pid = i,
                                       .participant = i == 0,
                                       .waiting = i == 1,
                                       .has_heartbeat = true,
                                       .heartbeat_us = 1790000000000000};

        assert_true(torch_state_insert(&s, &who, &at));
    }
    return s;
}

static void a_copy_lives_and_changes_by_itself(void **state)
{
    const struct torch_node who = {.addr = slice_str("three"), .waiting = true};
    struct torch_state s = small_state(), copy, second;
    struct torch_node *at;

    (void)state;
    assert_true(torch_state_copy(&s, &copy));
    assert_same(&s, &copy);
    assert_true(torch_state_insert(&copy, &who, &at));
    assert_true(torch_state_copy(&copy, &second));
    copy.nodes[0].waiting = !copy.nodes[0].waiting;
    assert_int_equal(s.count, 2);
    assert_null(torch_state_find(&s, &who));
    torch_state_free(&s);
    torch_state_free(&copy);
    assert_int_equal(second.count, 3);
    assert_true(slice_is(second.nodes[0].addr, "one") && slice_is(second.nodes[2].addr, "two"));
    assert_true(torch_state_find(&second, &who)->waiting);
    torch_state_free(&second);
}

static void a_copy_needs_memory(void **state)
{
    struct torch_state s = small_state(), copy = {.round = 7};

    (void)state;
    fail_at = 0;
    assert_false(torch_state_copy(&s, &copy));
    fail_at = SIZE_MAX;
    assert_int_equal(copy.round, 7);
    assert_true(torch_state_copy(&s, &copy));
    torch_state_free(&s);
    torch_state_free(&copy);
}

/* State number `i`: its bits set the flags of the state and of its nodes. torch_state_write()
 * leaves out a field whose flag is not set, such as the rank of a node that does not take part. */
static struct torch_state unsettled(unsigned i)
{
    struct torch_state s = small_state();

    s.nodes[0].participant = i & 1;
    s.nodes[0].rank = 5;
    s.nodes[0].has_heartbeat = i & 2;
    s.nodes[1].waiting = i & 4;
    s.nodes[1].has_heartbeat = i & 8;
    s.has_deadline = i & 16;
    s.deadline_us = i & 32 ? INT64_MAX : 1790000000000001;
    s.fqdn = i & 128;
    s.has_redundancy = s.aware = !s.fqdn;
    return s;
}

static void a_settled_state_is_what_is_read_of_its_text(void **state)
{
    unsigned settled = 0;

    (void)state;
    for (unsigned i = 0; i < 256; i++) {
        struct torch_state s = unsettled(i), copy;

        assert_true(torch_state_copy(&s, &copy));
        if (torch_state_settle(&copy, 0, copy.count)) {
            struct torch_state again;
            uint8_t *text;
            size_t len;

            assert_true(torch_state_write(&s, &text, &len));
            assert_int_equal(read_text((struct slice){text, len}, &again), TORCH_STATE_OK);
            assert_same(&copy, &again);
            torch_state_free(&again);
            free(text);
            settled++;
        }
        torch_state_free(&copy);
        torch_state_free(&s);
    }
    assert_in_range(settled, 100, 255);
}

/* Each node by itself, the last one first, since the number of nodes may fall. */
static void settled_node_by_node_it_is_the_same(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 256; i++) {
        struct torch_state s = unsettled(i), all;
        bool ok = true;

        assert_true(torch_state_copy(&s, &all));
        for (size_t n = s.count; n-- > 0;)
            ok = torch_state_settle(&s, n, n + 1);
        assert_int_equal(torch_state_settle(&all, 0, all.count), ok);
        if (ok)
            assert_same(&all, &s);
        torch_state_free(&all);
        torch_state_free(&s);
    }
}

/* Nodes come and go for weeks, and no address stays for ever. */
static void one_that_has_had_many_nodes_is_to_be_read(void **state)
{
    struct torch_state s = small_state();
    size_t changes = 0;

    (void)state;
    while (torch_state_settle(&s, 0, s.count)) {
        struct torch_node who = {.addr = slice_str("three"), .pid = (int64_t)changes++}, *at;

        assert_true(torch_state_insert(&s, &who, &at));
    }
    assert_in_range(changes, 50, 100);
    torch_state_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_found_and_added_in_order),
        cmocka_unit_test(a_state_is_written_as_it_was_read_byte_for_byte),
        cmocka_unit_test(all_that_can_be_said_is_written_and_read),
        cmocka_unit_test(a_heartbeat_is_read_by_the_difference),
        cmocka_unit_test(who_is_in_no_list_is_left_out),
        cmocka_unit_test(a_front_changes_no_text),
        cmocka_unit_test(a_text_behind_a_front_is_read_as_ever),
        cmocka_unit_test(a_front_needs_memory),
        cmocka_unit_test(every_lack_of_memory_is_told),
        cmocka_unit_test(a_copy_lives_and_changes_by_itself),
        cmocka_unit_test(a_copy_needs_memory),
        cmocka_unit_test(a_settled_state_is_what_is_read_of_its_text),
        cmocka_unit_test(settled_node_by_node_it_is_the_same),
        cmocka_unit_test(one_that_has_had_many_nodes_is_to_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
