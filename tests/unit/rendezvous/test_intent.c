/* What an agent wants, as its two texts tell: torch_intent.c. */
#include "proto/torch/torch_intent.h"
#include "tests/unit/rendezvous/scene.h"

#define NOW INT64_C(1790000000000000)

/* One letter a node, "a:P" a participant; "w" waits, "s" is a spare, "-" is in no list. A capital
 * letter "P", "W", "S": with a heartbeat; "B": the same, a newer one of a participant. */
static struct torch_state make(const char *text)
{
    struct torch_state st = scene_state(NULL);

    for (; *text != '\0'; text++) {
        char name[2] = {text[0], '\0'};
        struct torch_node *node;

        if (*text == ' ')
            continue;
        if (*text == '!') {
            st.complete = true;
            continue;
        }
        if (*text == '+') {
            st.round++;
            continue;
        }
        if (*text == 'X') {
            st.closed = true;
            continue;
        }
        if (*text == 'D') {
            st = scene_with_deadline(st, NOW + 30 * SECOND);
            continue;
        }
        node = scene_node(&st, name);
        assert_int_equal(text[1], ':');
        text += 2;
        node->participant = strchr("pPB", *text) != NULL;
        node->waiting = strchr("wWV", *text) != NULL;
        node->redundant = strchr("sS", *text) != NULL;
        node->has_heartbeat = strchr("PWSBV-", *text) != NULL;
        node->heartbeat_us = NOW + (*text == 'B' || *text == 'V' ? SECOND : 0);
    }
    return st;
}

static const struct row {
    const char *shown, *wanted; /* NULL: torch's text for none */
    enum intent_kind kind;
    uint64_t number;
} rows[] = {
    {NULL, "a:B", INTENT_JOIN, 1},
    {NULL, "a:B D", INTENT_JOIN, 1},
    {NULL, "a:B !", INTENT_JOIN, 1},
    {NULL, "X", INTENT_CLOSE, 0},
    {NULL, "a:B X", INTENT_UNKNOWN, 0},
    {NULL, "a:B b:p", INTENT_UNKNOWN, 0},
    {"x:p y:p", "x:p y:p a:B", INTENT_JOIN, 3},
    {"x:p y:p", "x:p y:p a:B !", INTENT_JOIN, 3},
    {"x:p y:p", "x:p a:B", INTENT_UNKNOWN, 0},
    {"x:p y:p", "x:p y:w a:B", INTENT_UNKNOWN, 0},
    {"x:P y:P", "x:P y:B a:B", INTENT_UNKNOWN, 0}, /* two writers */
    {"x:p y:p", "x:p y:p a:p", INTENT_UNKNOWN, 0}, /* no heartbeat */
    {"x:p !", "x:p a:B !", INTENT_UNKNOWN, 0},
    {"x:p", "x:p a:B +", INTENT_UNKNOWN, 0},
    {"x:p a:W", "x:p a:B", INTENT_JOIN, 2},
    {"x:p a:W", "x:p a:W", INTENT_HEARTBEAT, 0},
    {"x:p a:W", "x:p a:V", INTENT_HEARTBEAT, 0},
    {"x:p a:V", "x:p a:W", INTENT_HEARTBEAT, 0}, /* its clock was set back */
    {"x:p a:W", "x:p", INTENT_LEAVE, 0},
    {"x:p a:W", "x:p +", INTENT_UNKNOWN, 0},
    {"a:P D", "a:B D", INTENT_HEARTBEAT, 0},
    {"a:P D", "", INTENT_LEAVE, 0}, /* as torch does with less than MIN */
    {"x:p a:P D", "x:p a:P !", INTENT_COMPLETE, 0},
    {"x:p a:P D", "x:p a:B !", INTENT_COMPLETE, 0},
    {"x:p a:P D", "x:p a:P X D", INTENT_CLOSE, 0},
    {"x:p X", "x:p a:B X", INTENT_JOIN, 2}, /* compare_set.c refuses it */
    {"x:p a:P X", "x:p a:P", INTENT_UNKNOWN, 0},
    {"a:P !", "a:B !", INTENT_HEARTBEAT, 0},
    {"a:P !", "a:P X !", INTENT_CLOSE, 0},
    {"a:P !", "+", INTENT_LEAVE, 0},
    {"a:P !", "X +", INTENT_CLOSE, 0}, /* it takes itself for dead */
    {"x:p a:P !", "x:p X !", INTENT_CLOSE, 0},
    {"x:P a:P !", "a:P X !", INTENT_CLOSE, 0}, /* it takes another node for dead */
    {"x:P a:W !", "a:W X +", INTENT_CLOSE, 0}, /* the same of the last participant */
    {"x:P a:P !", "a:P X +", INTENT_UNKNOWN, 0},
    {"x:P a:P !", "x:W a:P X !", INTENT_UNKNOWN, 0},
    {"a:P !", "!", INTENT_LEAVE, 0},
    {"a:P m:w !", "m:w +", INTENT_LEAVE, 0},
    {"a:P m:w !", "+", INTENT_UNKNOWN, 0},
    {"a:P x:p !", "x:p a:W !", INTENT_UNKNOWN, 0}, /* it takes itself for dead */
    {"!", "a:W !", INTENT_WAIT, 0},
    {"x:p !", "x:p a:W !", INTENT_WAIT, 0},
    {"x:p !", "x:p a:w !", INTENT_UNKNOWN, 0},
    {"x:p !", "x:p a:S !", INTENT_SPARE, 0},
    {"x:p a:S !", "x:p a:- !", INTENT_LEAVE, 0},
    {"x:p a:- !", "x:p a:W !", INTENT_WAIT, 0},
    {"x:p a:S !", "x:p a:W !", INTENT_UNKNOWN, 0},
    {"x:P !", "x:P !", INTENT_HEARTBEAT, 0}, /* of "x", which that agent is then */
};

static enum intent_kind read_row(const struct row *row, const struct torch_node *known,
                                 uint64_t *number)
{
    struct torch_state shown = make(row->shown == NULL ? "" : row->shown);
    struct torch_state wanted = make(row->wanted);
    struct scene s; /* only for its texts */
    struct intent in;
    const char *from, *to;

    scene_init(&s);
    to = scene_text(&s, &wanted);
    from = scene_text(&s, &shown);
    intent_read(NULL, 0, known, slice_str(row->shown == NULL ? SENTINEL : from), slice_str(to),
                &in);
    *number = in.number;
    intent_free(&in);
    scene_fini(&s);
    return in.kind;
}

static void a_write_tells_what_it_is_for(void **state)
{
    static const char *const own[] = {"a", "x"};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *name = own[strstr(rows[i].wanted, "a:") == NULL && rows[i].shown != NULL &&
                               strstr(rows[i].shown, "a:") == NULL];
        const struct torch_node known = {.addr = slice_str(name), .pid = 100};
        uint64_t number;
        enum intent_kind kind = read_row(&rows[i], &known, &number);

        if (kind != rows[i].kind || number != rows[i].number)
            fail_msg("\"%s\" to \"%s\": %d, number %u", rows[i].shown, rows[i].wanted, (int)kind,
                     (unsigned)number);
    }
}

/* Its node is the one with another heartbeat. */
static void an_agent_need_not_be_known(void **state)
{
    uint64_t number;

    (void)state;
    assert_int_equal(read_row(&(struct row){.shown = "x:p", .wanted = "x:p a:B"}, NULL, &number),
                     INTENT_JOIN);
    assert_int_equal(number, 2);
    assert_int_equal(
        read_row(&(struct row){.shown = "x:P a:P !", .wanted = "x:P a:B !"}, NULL, &number),
        INTENT_HEARTBEAT);
    assert_int_equal(
        read_row(&(struct row){.shown = "x:P a:P !", .wanted = "x:P a:P !"}, NULL, &number),
        INTENT_UNKNOWN);
}

static void other_texts_are_unknown(void **state)
{
    struct intent in;

    (void)state;
    intent_read(NULL, 0, NULL, slice_str("x"), slice_str("y"), &in);
    assert_int_equal(in.kind, INTENT_UNKNOWN);
    intent_free(&in);
    intent_read(NULL, 0, NULL, slice_str(SENTINEL), slice_str("y"), &in);
    assert_int_equal(in.kind, INTENT_UNKNOWN);
    intent_free(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_tells_what_it_is_for),
        cmocka_unit_test(an_agent_need_not_be_known),
        cmocka_unit_test(other_texts_are_unknown),
    };

    return cmocka_run_group_tests_name("intent", tests, NULL, NULL);
}
