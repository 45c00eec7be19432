/* Rendezvous states: reading a state, adding nodes, writing it; and over two thousand pickles that
 * are no states. (That torch agrees is for torch/run_state.py.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/base64.h"
#include "proto/torch/torch_state.h"
#include "tests/support/sanitized.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define BYTES(text)                               \
    {                                             \
        (const uint8_t *)(text), sizeof(text) - 1 \
    }

/* --- Memory: counted, and short when a test wants it so. --- */

static size_t allocated;          /* bytes, ever */
static size_t fail_at = SIZE_MAX; /* which allocation from now on gets none */

void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);

void *__wrap_malloc(size_t size)
{
    allocated += size;
    return fail_at-- == 0 ? NULL : __real_malloc(size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
    allocated += count * size;
    return fail_at-- == 0 ? NULL : __real_reallocarray(old, count, size);
}

/* --- A state in parts, of which a test exchanges one. The numbers are those of the memo. --- */

enum part {
    CLASS,
    OBJECT,
    ROUND,
    ROUND_VALUE,
    COMPLETE,
    COMPLETE_VALUE,
    DEADLINE,
    DEADLINE_VALUE,
    CLOSED,
    CLOSED_VALUE,
    PARTICIPANTS,
    PARTICIPANTS_DICT,
    NODE_CLASS,
    NODE_OBJECT,
    NODE_ADDR,
    NODE_ADDR_VALUE,
    NODE_PID,
    NODE_PID_VALUE,
    NODE_LOCAL_ID,
    NODE_LOCAL_ID_VALUE,
    NODE_BUILD,
    NODE_RANK,
    OTHER_OBJECT,
    OTHER_ADDR,
    OTHER_ADDR_VALUE,
    OTHER_PID,
    OTHER_PID_VALUE,
    OTHER_LOCAL_ID,
    OTHER_LOCAL_ID_VALUE,
    OTHER_BUILD,
    OTHER_RANK,
    PARTICIPANTS_END,
    WAIT_LIST,
    WAIT_LIST_SET,
    REDUNDANCY_LIST,
    REDUNDANCY_LIST_SET,
    LAST_HEARTBEATS,
    LAST_HEARTBEATS_DICT,
    BEAT_NODE,
    BEAT_CLASS,
    BEAT_TIME,
    BEAT_ZONE,
    BEAT_DELTA,
    BEAT_ZERO,
    BEAT_UTC,
    BEAT_BUILD,
    OTHER_BEAT_NODE,
    OTHER_BEAT_CLASS,
    OTHER_BEAT_TIME,
    OTHER_BEAT_ZONE,
    OTHER_BEAT_BUILD,
    LAST_HEARTBEATS_END,
    BUILD,
    STOP,
    PARTS,
};

#define MODULE "\x8c\x37torch.distributed.elastic.rendezvous.dynamic_rendezvous\x94"

static const struct slice parts[PARTS] = {
    [CLASS] = BYTES(MODULE "\x8c\x10_RendezvousState\x94\x93\x94"), /* 0, 1, 2 */
    [OBJECT] = BYTES(")\x81\x94}\x94("),                            /* 3, 4 */
    [ROUND] = BYTES("\x8c\x05round\x94"),                           /* 5 */
    [ROUND_VALUE] = BYTES("K\x03"),
    [COMPLETE] = BYTES("\x8c\x08"
                       "complete\x94"), /* 6 */
    [COMPLETE_VALUE] = BYTES("\x88"),
    [DEADLINE] = BYTES("\x8c\x08"
                       "deadline\x94"), /* 7 */
    [DEADLINE_VALUE] = BYTES("N"),
    [CLOSED] = BYTES("\x8c\x06"
                     "closed\x94"), /* 8 */
    [CLOSED_VALUE] = BYTES("\x89"),
    [PARTICIPANTS] = BYTES("\x8c\x0cparticipants\x94"),         /* 9 */
    [PARTICIPANTS_DICT] = BYTES("}\x94("),                      /* 10 */
    [NODE_CLASS] = BYTES("h\x00\x8c\x09_NodeDesc\x94\x93\x94"), /* 11, 12 */
    [NODE_OBJECT] = BYTES(")\x81\x94}\x94("),                   /* 13, 14 */
    [NODE_ADDR] = BYTES("\x8c\x04"
                        "addr\x94"),             /* 15 */
    [NODE_ADDR_VALUE] = BYTES("\x8c\x02n1\x94"), /* 16 */
    [NODE_PID] = BYTES("\x8c\x03pid\x94"),       /* 17 */
    [NODE_PID_VALUE] = BYTES("M\x00\x01"),
    [NODE_LOCAL_ID] = BYTES("\x8c\x08local_id\x94"), /* 18 */
    [NODE_LOCAL_ID_VALUE] = BYTES("K\x02"),
    [NODE_BUILD] = BYTES("ub"),
    [NODE_RANK] = BYTES("K\x00"),
    [OTHER_OBJECT] = BYTES("h\x0c)\x81\x94}\x94("), /* 19, 20 */
    [OTHER_ADDR] = BYTES("h\x0f"),
    [OTHER_ADDR_VALUE] = BYTES("\x8c\x02n2\x94"), /* 21 */
    [OTHER_PID] = BYTES("h\x11"),
    [OTHER_PID_VALUE] = BYTES("M\x00\x01"),
    [OTHER_LOCAL_ID] = BYTES("h\x12"),
    [OTHER_LOCAL_ID_VALUE] = BYTES("K\x02"),
    [OTHER_BUILD] = BYTES("ub"),
    [OTHER_RANK] = BYTES("K\x01"),
    [PARTICIPANTS_END] = BYTES("u"),
    [WAIT_LIST] = BYTES("\x8c\x09wait_list\x94"),             /* 22 */
    [WAIT_LIST_SET] = BYTES("\x8f\x94"),                      /* 23 */
    [REDUNDANCY_LIST] = BYTES("\x8c\x0fredundancy_list\x94"), /* 24 */
    [REDUNDANCY_LIST_SET] = BYTES("\x8f\x94"),                /* 25 */
    [LAST_HEARTBEATS] = BYTES("\x8c\x0flast_heartbeats\x94"), /* 26 */
    [LAST_HEARTBEATS_DICT] = BYTES("}\x94("),                 /* 27 */
    [BEAT_NODE] = BYTES("h\x0d"),
    [BEAT_CLASS] = BYTES("\x8c\x08"
                         "datetime\x94\x8c\x08"
                         "datetime\x94\x93\x94"),                             /* 28 to 30 */
    [BEAT_TIME] = BYTES("C\x0a\x07\xea\x0b\x15\x00\x0f\x18\x09\x1e\x85\x94"), /* 31 */
    [BEAT_ZONE] = BYTES("h\x1c\x8c\x08timezone\x94\x93\x94"),                 /* 32, 33 */
    [BEAT_DELTA] = BYTES("h\x1c\x8c\x09timedelta\x94\x93\x94"),               /* 34, 35 */
    [BEAT_ZERO] = BYTES("K\x00K\x00K\x00\x87\x94R\x94"),                      /* 36, 37 */
    [BEAT_UTC] = BYTES("\x85\x94R\x94"),                                      /* 38, 39 */
    [BEAT_BUILD] = BYTES("\x86\x94R\x94"),                                    /* 40, 41 */
    [OTHER_BEAT_NODE] = BYTES("h\x13"),
    [OTHER_BEAT_CLASS] = BYTES("h\x1e"),
    [OTHER_BEAT_TIME] = BYTES("C\x0a\x07\xea\x0b\x15\x00\x0f\x18\x09\x1e\x86\x94"), /* 42 */
    [OTHER_BEAT_ZONE] = BYTES("h\x27"),
    [OTHER_BEAT_BUILD] = BYTES("\x86\x94R\x94"), /* 43, 44 */
    [LAST_HEARTBEATS_END] = BYTES("u"),
    [BUILD] = BYTES("ub"),
    [STOP] = BYTES("."),
};

#define BEAT_US INT64_C(1795220124597637) /* 2026-11-21 00:15:24.597637 */

/* A pickle in the making. */
struct pickle {
    uint8_t *bytes;
    size_t len;
};

static void add(struct pickle *p, const void *bytes, size_t len)
{
    p->bytes = realloc(p->bytes, p->len + len + 1);
    assert_non_null(p->bytes);
    if (len > 0)
        memcpy(p->bytes + p->len, bytes, len);
    p->len += len;
}

/* Puts all from `start` into a frame. */
static void add_frame(struct pickle *p, size_t start)
{
    uint8_t header[9] = {0x95};
    size_t len = p->len - start;

    bytes_put_u64(header + 1, len);
    add(p, header, sizeof header);
    memmove(p->bytes + start + sizeof header, p->bytes + start, len);
    memcpy(p->bytes + start, header, sizeof header);
}

static void add_parts(struct pickle *p, int from, int to)
{
    for (int i = from; i < to; i++)
        add(p, parts[i].ptr, parts[i].len);
}

/* The state with `instead` in the place of the parts from `first` to `last`, of which there may be
 * none. */
static struct pickle exchanged(int first, int last, struct slice instead)
{
    struct pickle p = {0};

    add(&p, "\x80\x04", 2);
    add_parts(&p, 0, first);
    add(&p, instead.ptr, instead.len);
    add_parts(&p, last + 1, PARTS);
    add_frame(&p, 2);
    return p;
}

static struct pickle intact(void)
{
    return exchanged(0, -1, (struct slice){0});
}

/* --- Reading. --- */

static struct slice text_of(struct slice pickle)
{
    uint8_t *text = __real_malloc(base64_size(pickle.len) + 1);

    assert_non_null(text);
    base64_encode(pickle, text);
    return (struct slice){text, base64_size(pickle.len)};
}

/* Reads an exact copy, and looks that nothing is out of proportion. */
static enum torch_state_status read_text(struct slice text, struct torch_state *s)
{
    struct slice copy = exact(text.ptr, text.len);
    enum torch_state_status status;

    memset(s, 0x5a, sizeof *s); /* what is not the state's own nobody may use */
    allocated = 0;
    status = torch_state_read(copy, s);
    if (allocated > 12 * text.len + 2048)
        fail_msg("%zu bytes for a value of %zu", allocated, text.len);
    if (status != TORCH_STATE_OK && ((uint8_t *)s)[0] != 0x5a)
        fail_msg("the state is touched without success");
    exact_free(copy);
    return status;
}

static enum torch_state_status read_pickle(struct slice pickle, struct torch_state *s)
{
    struct slice text = text_of(pickle);
    enum torch_state_status status = read_text(text, s);

    exact_free(text);
    return status;
}

static void read_well(struct pickle *p, struct torch_state *s)
{
    enum torch_state_status status = read_pickle((struct slice){p->bytes, p->len}, s);

    free(p->bytes);
    assert_int_equal(status, TORCH_STATE_OK);
}

static bool is_state(struct slice pickle)
{
    struct torch_state s;
    enum torch_state_status status = read_pickle(pickle, &s);

    assert_int_not_equal(status, TORCH_STATE_NO_MEMORY);
    if (status == TORCH_STATE_OK)
        torch_state_free(&s);
    return status == TORCH_STATE_OK;
}

/* Fails when the pickle is taken for a state. Frees it. */
static void refuse(struct pickle p, const char *why, size_t n)
{
    bool taken = is_state((struct slice){p.bytes, p.len});

    if (taken)
        fail_msg("%s (%zu) is taken for a state", why, n);
    free(p.bytes);
}

static void a_state_is_read(void **state)
{
    struct torch_state s;
    struct pickle p = intact();

    (void)state;
    read_well(&p, &s);
    assert_int_equal(s.round, 3);
    assert_true(s.complete && !s.closed && !s.has_deadline);
    assert_true(!s.fqdn && s.aware && s.has_redundancy && s.protocol == 4);
    assert_int_equal(s.count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct torch_node *n = &s.nodes[i];

        assert_true(slice_is(n->addr, i == 0 ? "n1" : "n2"));
        assert_true(n->pid == 256 && n->local_id == 2);
        assert_true(n->participant && n->has_heartbeat && !n->waiting && !n->redundant);
        assert_int_equal(n->rank, i);
        assert_int_equal(n->heartbeat_us, BEAT_US + (int64_t)i);
    }
    torch_state_free(&s);
    assert_null(s.nodes);
}

/* --- What is none. --- */

/* Opcodes that torch never writes, or not where they are put here: before each part in turn. */
static const struct slice intruders[] = {
    BYTES("\x8c\x02os\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94"),
    BYTES("\x8c\x02os\x94\x8c\x06system\x94\x93"),
    BYTES("\x8c\x08"
          "builtins\x94\x8c\x04"
          "eval\x94\x93\x94\x8c\x01"
          "1\x94\x85\x94R0"),
    BYTES("cos\nsystem\n(Vtrue\ntR"),
    BYTES("cposix\nsystem\n"),
    BYTES("(Vtrue\nios\nsystem\n"),
    BYTES("(cos\nsystem\nVtrue\no"),
    BYTES("Pnobody\n"),
    BYTES("NQ"),
    BYTES("\x82\x01"),
    BYTES("\x83\x01\x00"),
    BYTES("\x84\x01\x00\x00\x00"),
    BYTES("F1.5\n"),
    BYTES("Fnan\n"),
    BYTES("G\x7f\xf8\x00\x00\x00\x00\x00\x00"),
    BYTES("I7\n"),
    BYTES("I01\n"),
    BYTES("L7L\n"),
    BYTES("\x8b\x01\x00\x00\x00\x07"),
    BYTES("\x8b\xff\xff\xff\x7f"),
    BYTES("S'text'\n"),
    BYTES("T\x01\x00\x00\x00x"),
    BYTES("T\xff\xff\xff\x7f"),
    BYTES("U\x01x"),
    BYTES("Vtext\n"),
    BYTES("X\xff\xff\xff\xff"),
    BYTES("\x8d\x01\x00\x00\x00\x00\x00\x00\x00x"),
    BYTES("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"),
    BYTES("B\x01\x00\x00\x00x"),
    BYTES("B\xff\xff\xff\xff"),
    BYTES("\x8e\x01\x00\x00\x00\x00\x00\x00\x00x"),
    BYTES("\x8e\xff\xff\xff\xff\xff\xff\xff\x7f"),
    BYTES("\x96\x01\x00\x00\x00\x00\x00\x00\x00x"),
    BYTES("\x96\xff\xff\xff\xff\xff\xff\xff\xff"),
    BYTES("\x97"),
    BYTES("\x97\x98"),
    BYTES("0"),
    BYTES("1"),
    BYTES("2"),
    BYTES("N0"),
    BYTES("(1"),
    BYTES("p0\n"),
    BYTES("q\x00"),
    BYTES("q\xff"),
    BYTES("r\xff\xff\xff\x7f"),
    BYTES("g0\n"),
    BYTES("gx\n"),
    BYTES("h\xff"),
    BYTES("j\xff\xff\xff\xff"),
    BYTES("j\x00\x00\x00\x00"),
    BYTES("]"),
    BYTES("](Ne"),
    BYTES("]Na"),
    BYTES("(l"),
    BYTES("(t"),
    BYTES("(d"),
    BYTES("(\x91"),
    BYTES(")}\x92"),
    BYTES("\x80\x04"),
    BYTES("\x80\x05"),
    BYTES("\x95\x04\x00\x00\x00\x00\x00\x00\x00"),
    BYTES("\x95\x00\x00\x00\x00\x00\x00\x00\x00"),
    BYTES("\x95\xff\xff\xff\xff\xff\xff\xff\xff"),
    BYTES("\x94"),
    BYTES("\x94\x94\x94\x94\x94\x94\x94\x94"),
    BYTES("("),
    BYTES(")"),
    BYTES("}"),
    BYTES("\x8f"),
    BYTES("N"),
    BYTES("K\x00"),
    BYTES("\x88"),
    BYTES("\x8c\x01x\x94"),
    BYTES("R"),
    BYTES("b"),
    BYTES("s"),
    BYTES("u"),
    BYTES("a"),
    BYTES("\x81"),
    BYTES("\x93"),
    BYTES("."),
    BYTES("\x00"),
    BYTES("\xff"),
};

static void intruders_are_refused_everywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(intruders); i++) {
        for (int part = 0; part < PARTS; part++)
            refuse(exchanged(part, part - 1, intruders[i]), "an intruder", i * 100 + (size_t)part);
        refuse(exchanged(PARTS, PARTS - 1, intruders[i]), "an intruder at the end", i);
    }
}

static const struct {
    const char *why;
    int first, last;
    struct slice instead;
} faults[] = {
    {"a deadline made by os.system", DEADLINE_VALUE, DEADLINE_VALUE,
     BYTES("\x8c\x02os\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94")},
    {"a time made by os.system", BEAT_CLASS, BEAT_CLASS,
     BYTES("\x8c\x02os\x94\x8c\x06system\x94\x93\x94")},
    {"a time made by datetime.date", BEAT_CLASS, BEAT_CLASS,
     BYTES("\x8c\x08"
           "datetime\x94\x8c\x04"
           "date\x94\x93\x94")},
    {"a time made by a class in a class", BEAT_CLASS, BEAT_CLASS,
     BYTES("\x8c\x08"
           "datetime\x94\x8c\x0c"
           "datetime.min\x94\x93\x94")},
    {"a time made by _NodeDesc", OTHER_BEAT_CLASS, OTHER_BEAT_CLASS, BYTES("h\x0c")},
    {"a time made by timezone", OTHER_BEAT_CLASS, OTHER_BEAT_CLASS, BYTES("h\x21")},
    {"a time made by a string", OTHER_BEAT_CLASS, OTHER_BEAT_CLASS, BYTES("h\x1c")},
    {"a zone made by os.system", BEAT_ZONE, BEAT_ZONE, BYTES("h\x1c\x8c\x06system\x94\x93\x94")},
    {"a zone made by datetime", BEAT_ZONE, BEAT_ZONE, BYTES("h\x1e")},
    {"a node made by another class", NODE_CLASS, NODE_CLASS,
     BYTES("h\x00\x8c\x06system\x94\x93\x94")},
    {"a node made by the state's class", NODE_CLASS, NODE_CLASS, BYTES("h\x02")},
    {"a state made by another class", CLASS, CLASS,
     BYTES(MODULE "\x8c\x14_RendezvousStateHold\x94\x93\x94")},
    {"a state of another module", CLASS, CLASS,
     BYTES("\x8c\x37xorch.distributed.elastic.rendezvous.dynamic_rendezvous\x94"
           "\x8c\x10_RendezvousState\x94\x93\x94")},
    {"a state made by os.system", CLASS, CLASS, BYTES("\x8c\x02os\x94\x8c\x06system\x94\x93\x94")},
    {"a state made by _NodeDesc", CLASS, CLASS, BYTES(MODULE "\x8c\x09_NodeDesc\x94\x93\x94")},
    {"REDUCE in the place of NEWOBJ", OBJECT, OBJECT, BYTES(")R\x94}\x94(")},
    {"NEWOBJ_EX in the place of NEWOBJ", OBJECT, OBJECT, BYTES(")}\x92\x94}\x94(")},
    {"a state made with an argument", OBJECT, OBJECT, BYTES("N\x85\x81\x94}\x94(")},
    {"a node made with an argument", NODE_OBJECT, NODE_OBJECT, BYTES("N\x85\x81\x94}\x94(")},
    {"a state with slots", OBJECT, OBJECT, BYTES(")\x81\x94N}\x94(")},
    {"attributes as a tuple", BUILD, BUILD,
     BYTES("u}\x86"
           "b")},
    {"attributes without BUILD", BUILD, BUILD, BYTES("u")},
    {"attributes with SETITEM", BUILD, BUILD, BYTES("sb")},
    {"a node without BUILD", NODE_BUILD, NODE_BUILD, BYTES("u")},
    {"a node built twice", NODE_BUILD, NODE_BUILD, BYTES("ub}b")},
    {"a node built of itself", NODE_BUILD, NODE_BUILD,
     BYTES("uh\x0d"
           "b")},
    {"a node within itself", NODE_ADDR_VALUE, NODE_ADDR_VALUE, BYTES("h\x0d")},
    {"a state within itself", DEADLINE_VALUE, DEADLINE_VALUE, BYTES("h\x03")},
    {"the state as a node", OTHER_OBJECT, OTHER_BUILD, BYTES("h\x03")},
    {"a dict within itself", NODE_RANK, NODE_RANK, BYTES("h\x0a")},
    {"a class as a node", OTHER_OBJECT, OTHER_BUILD, BYTES("h\x0c")},
    {"a time as a node", OTHER_BEAT_NODE, OTHER_BEAT_NODE, BYTES("h\x29")},
    {"a tuple as a node", OTHER_BEAT_NODE, OTHER_BEAT_NODE, BYTES("h\x28")},
    {"a string as a node", OTHER_BEAT_NODE, OTHER_BEAT_NODE, BYTES("h\x10")},
    {"a time from later on", DEADLINE_VALUE, DEADLINE_VALUE, BYTES("h\x29")},
    {"a reference behind the last", OTHER_BEAT_NODE, OTHER_BEAT_NODE, BYTES("h\x2d")},
    {"a long reference to what a short one reaches", OTHER_BEAT_NODE, OTHER_BEAT_NODE,
     BYTES("j\x13\x00\x00\x00")},
    {"a round that is missing", ROUND, ROUND_VALUE, BYTES("")},
    {"a round of text", ROUND_VALUE, ROUND_VALUE,
     BYTES("\x8c\x01"
           "1")},
    {"a round of None", ROUND_VALUE, ROUND_VALUE, BYTES("N")},
    {"a round of True", ROUND_VALUE, ROUND_VALUE, BYTES("\x88")},
    {"a round of NaN", ROUND_VALUE, ROUND_VALUE, BYTES("G\x7f\xf8\x00\x00\x00\x00\x00\x00")},
    {"a round of 65 bits", ROUND_VALUE, ROUND_VALUE,
     BYTES("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01")},
    {"a round of 2040 bits that are not there", ROUND_VALUE, ROUND_VALUE, BYTES("\x8a\xff\x01")},
    {"a round in no byte", ROUND_VALUE, ROUND_VALUE, BYTES("\x8a\x00")},
    {"a round in too many bytes", ROUND_VALUE, ROUND_VALUE,
     BYTES("\x8a\x06\x00\x00\x00\x00\x01\x00")},
    {"a negative round in too many bytes", ROUND_VALUE, ROUND_VALUE,
     BYTES("\x8a\x06\x00\x00\x00\x00\xff\xff")},
    {"a round that needs no LONG1", ROUND_VALUE, ROUND_VALUE, BYTES("\x8a\x01\x03")},
    {"a round that needs no LONG1 of four", ROUND_VALUE, ROUND_VALUE,
     BYTES("\x8a\x04\xff\xff\xff\x7f")},
    {"a round that needs no BININT2", ROUND_VALUE, ROUND_VALUE, BYTES("M\xff\x00")},
    {"a round that needs no BININT", ROUND_VALUE, ROUND_VALUE, BYTES("J\xff\xff\x00\x00")},
    {"complete as a number", COMPLETE_VALUE, COMPLETE_VALUE, BYTES("K\x01")},
    {"complete as protocol 0 has it", COMPLETE_VALUE, COMPLETE_VALUE, BYTES("I01\n")},
    {"closed as None", CLOSED_VALUE, CLOSED_VALUE, BYTES("N")},
    {"closed before deadline", DEADLINE, CLOSED_VALUE,
     BYTES("\x8c\x06"
           "closed\x94\x89\x8c\x08"
           "deadline\x94N")},
    {"round twice", COMPLETE, COMPLETE_VALUE, BYTES("h\x05K\x04")},
    {"an attribute more", CLOSED, CLOSED,
     BYTES("\x8c\x03one\x94N\x8c\x06"
           "closed\x94")},
    {"an attribute of another name", CLOSED, CLOSED,
     BYTES("\x8c\x06"
           "cloned\x94")},
    {"a name that is longer", CLOSED, CLOSED,
     BYTES("\x8c\x07"
           "closed\x00\x94")},
    {"a name in no memo", CLOSED, CLOSED,
     BYTES("\x8c\x06"
           "closed")},
    {"a name in bytes", CLOSED, CLOSED,
     BYTES("C\x06"
           "closed\x94")},
    {"a name that needs no BINUNICODE", CLOSED, CLOSED,
     BYTES("X\x06\x00\x00\x00"
           "closed\x94")},
    {"a deadline of a number", DEADLINE_VALUE, DEADLINE_VALUE, BYTES("K\x00")},
    {"a deadline of False", DEADLINE_VALUE, DEADLINE_VALUE, BYTES("\x89")},
    {"participants as a set", PARTICIPANTS_DICT, PARTICIPANTS_DICT, BYTES("\x8f\x94(")},
    {"participants as a list", PARTICIPANTS_DICT, PARTICIPANTS_DICT, BYTES("]\x94(")},
    {"participants as None", PARTICIPANTS_DICT, PARTICIPANTS_END, BYTES("N")},
    {"participants without an end", PARTICIPANTS_END, PARTICIPANTS_END, BYTES("")},
    {"participants that end as a set", PARTICIPANTS_END, PARTICIPANTS_END, BYTES("\x90")},
    {"participants that end as a list", PARTICIPANTS_END, PARTICIPANTS_END, BYTES("e")},
    {"a participant twice", OTHER_OBJECT, OTHER_BUILD, BYTES("h\x0d")},
    {"two objects that are one participant", OTHER_ADDR_VALUE, OTHER_ADDR_VALUE, BYTES("h\x10")},
    {"a node as text", OTHER_OBJECT, OTHER_BUILD, BYTES("\x8c\x02n2\x94")},
    {"a node as None", OTHER_OBJECT, OTHER_BUILD, BYTES("N")},
    {"a rank of None", NODE_RANK, NODE_RANK, BYTES("N")},
    {"a rank of text", NODE_RANK, NODE_RANK, BYTES("h\x10")},
    {"a rank of a float", NODE_RANK, NODE_RANK, BYTES("G\x3f\xf0\x00\x00\x00\x00\x00\x00")},
    {"no rank", NODE_RANK, NODE_RANK, BYTES("")},
    {"two ranks", NODE_RANK, NODE_RANK, BYTES("K\x00K\x00")},
    {"an address of a number", NODE_ADDR_VALUE, NODE_ADDR_VALUE, BYTES("K\x01")},
    {"an address of bytes", NODE_ADDR_VALUE, NODE_ADDR_VALUE, BYTES("C\x02n1\x94")},
    {"an address of None", NODE_ADDR_VALUE, NODE_ADDR_VALUE, BYTES("N")},
    {"an address that is no UTF-8", NODE_ADDR_VALUE, NODE_ADDR_VALUE,
     BYTES("\x8c\x02\xff\xfe\x94")},
    {"an address that is cut", NODE_ADDR_VALUE, NODE_ADDR_VALUE, BYTES("\x8c\x02n\xc3\x94")},
    {"an address that is overlong", NODE_ADDR_VALUE, NODE_ADDR_VALUE,
     BYTES("\x8c\x02\xc0\x80\x94")},
    {"an address of half a pair", NODE_ADDR_VALUE, NODE_ADDR_VALUE,
     BYTES("\x8c\x03\xed\xa0\x80\x94")},
    {"an address that is not there", NODE_ADDR_VALUE, NODE_ADDR_VALUE,
     BYTES("\x8c\xff"
           "n1\x94")},
    {"an address of 4 GB", NODE_ADDR_VALUE, NODE_ADDR_VALUE, BYTES("X\xff\xff\xff\xffn1\x94")},
    {"a pid of text", NODE_PID_VALUE, NODE_PID_VALUE, BYTES("h\x10")},
    {"a pid of False", NODE_PID_VALUE, NODE_PID_VALUE, BYTES("\x89")},
    {"a local id of None", NODE_LOCAL_ID_VALUE, NODE_LOCAL_ID_VALUE, BYTES("N")},
    {"a node without a local id", NODE_LOCAL_ID, NODE_LOCAL_ID_VALUE, BYTES("")},
    {"a node of one attribute more", NODE_BUILD, NODE_BUILD, BYTES("h\x05K\x01ub")},
    {"a node of another attribute", NODE_ADDR, NODE_ADDR, BYTES("\x8c\x04name\x94")},
    {"fqdn here and addr there", OTHER_ADDR, OTHER_ADDR,
     BYTES("\x8c\x04"
           "fqdn\x94")},
    {"a wait_list that is a dict", WAIT_LIST_SET, WAIT_LIST_SET, BYTES("}\x94")},
    {"a wait_list that is frozen", WAIT_LIST_SET, WAIT_LIST_SET, BYTES("(\x91\x94")},
    {"a wait_list of None", WAIT_LIST_SET, WAIT_LIST_SET, BYTES("N")},
    {"a wait_list of numbers", WAIT_LIST_SET, WAIT_LIST_SET, BYTES("\x8f\x94(K\x01\x90")},
    {"a wait_list that names a node twice", WAIT_LIST_SET, WAIT_LIST_SET,
     BYTES("\x8f\x94(h\x0dh\x0d\x90")},
    {"a wait_list that names a node in each batch", WAIT_LIST_SET, WAIT_LIST_SET,
     BYTES("\x8f\x94(h\x0d\x90(h\x0d\x90")},
    {"a wait_list that ends as a dict", WAIT_LIST_SET, WAIT_LIST_SET, BYTES("\x8f\x94(h\x0du")},
    {"a wait_list of a single item", WAIT_LIST_SET, WAIT_LIST_SET, BYTES("\x8f\x94h\x0ds")},
    {"wait_list twice", REDUNDANCY_LIST, REDUNDANCY_LIST, BYTES("h\x16")},
    {"a redundancy_list that is a list", REDUNDANCY_LIST_SET, REDUNDANCY_LIST_SET, BYTES("]\x94")},
    {"heartbeats as a set", LAST_HEARTBEATS_DICT, LAST_HEARTBEATS_DICT, BYTES("\x8f\x94(")},
    {"a heartbeat twice", OTHER_BEAT_NODE, OTHER_BEAT_NODE, BYTES("h\x0d")},
    {"a heartbeat of None", OTHER_BEAT_CLASS, OTHER_BEAT_BUILD, BYTES("N")},
    {"a heartbeat of a number", OTHER_BEAT_CLASS, OTHER_BEAT_BUILD, BYTES("K\x01")},
    {"a heartbeat without UTC", OTHER_BEAT_ZONE, OTHER_BEAT_BUILD, BYTES("\x85\x94R\x94")},
    {"a time of nine bytes", BEAT_TIME, BEAT_TIME,
     BYTES("C\x09\x07\xea\x0b\x15\x00\x0f\x18\x09\x1e\x94")},
    {"a time of eleven bytes", BEAT_TIME, BEAT_TIME,
     BYTES("C\x0b\x07\xea\x0b\x15\x00\x0f\x18\x09\x1e\x85\x00\x94")},
    {"a time of text", BEAT_TIME, BEAT_TIME,
     BYTES("\x8c\x0a\x07\x00\x0b\x15\x00\x0f\x18\x09\x1e\x05\x94")},
    {"a time of more bytes than there are", BEAT_TIME, BEAT_TIME, BYTES("C\xff\x07\xea\x0b\x94")},
    {"a year 0", BEAT_TIME, BEAT_TIME, BYTES("C\x0a\x00\x00\x0b\x15\x00\x0f\x18\x09\x1e\x85\x94")},
    {"a year 10000", BEAT_TIME, BEAT_TIME,
     BYTES("C\x0a\x27\x10\x0b\x15\x00\x0f\x18\x09\x1e\x85\x94")},
    {"a month 13", BEAT_TIME, BEAT_TIME,
     BYTES("C\x0a\x07\xea\x0d\x15\x00\x0f\x18\x09\x1e\x85\x94")},
    {"a folded month", BEAT_TIME, BEAT_TIME,
     BYTES("C\x0a\x07\xea\x8b\x15\x00\x0f\x18\x09\x1e\x85\x94")},
    {"a day 31 in November", BEAT_TIME, BEAT_TIME,
     BYTES("C\x0a\x07\xea\x0b\x1f\x00\x0f\x18\x09\x1e\x85\x94")},
    {"a 29 February 2026", BEAT_TIME, BEAT_TIME,
     BYTES("C\x0a\x07\xea\x02\x1d\x00\x0f\x18\x09\x1e\x85\x94")},
    {"an hour 24", BEAT_TIME, BEAT_TIME,
     BYTES("C\x0a\x07\xea\x0b\x15\x18\x0f\x18\x09\x1e\x85\x94")},
    {"a minute 60", BEAT_TIME, BEAT_TIME,
     BYTES("C\x0a\x07\xea\x0b\x15\x00\x3c\x18\x09\x1e\x85\x94")},
    {"a second 60", BEAT_TIME, BEAT_TIME,
     BYTES("C\x0a\x07\xea\x0b\x15\x00\x0f\x3c\x09\x1e\x85\x94")},
    {"a million microseconds", BEAT_TIME, BEAT_TIME,
     BYTES("C\x0a\x07\xea\x0b\x15\x00\x0f\x18\x0f\x42\x40\x94")},
    {"a zone of one hour", BEAT_ZERO, BEAT_ZERO, BYTES("K\x00M\x10\x0eK\x00\x87\x94R\x94")},
    {"a zone of a day", BEAT_ZERO, BEAT_ZERO, BYTES("K\x01K\x00K\x00\x87\x94R\x94")},
    {"a zone of two numbers", BEAT_ZERO, BEAT_ZERO, BYTES("K\x00K\x00\x86\x94R\x94")},
    {"a zone of floats", BEAT_ZERO, BEAT_ZERO,
     BYTES("G\x00\x00\x00\x00\x00\x00\x00\x00K\x00K\x00\x87\x94R\x94")},
    {"a zone with a name", BEAT_UTC, BEAT_UTC, BYTES("\x8c\x01Z\x94\x86\x94R\x94")},
    {"a zone that is a time", OTHER_BEAT_ZONE, OTHER_BEAT_ZONE, BYTES("h\x29")},
    {"a zone that is a timedelta", OTHER_BEAT_ZONE, OTHER_BEAT_ZONE, BYTES("h\x25")},
    {"UTC spelled again", OTHER_BEAT_ZONE, OTHER_BEAT_ZONE,
     BYTES("h\x21h\x23K\x00K\x00K\x00\x87\x94R\x94\x85\x94R\x94")},
    {"datetime spelled again", OTHER_BEAT_CLASS, OTHER_BEAT_CLASS, BYTES("h\x1ch\x1d\x93\x94")},
    {"a zone of None", OTHER_BEAT_ZONE, OTHER_BEAT_ZONE, BYTES("N")},
    {"a tuple that is none", OTHER_BEAT_BUILD, OTHER_BEAT_BUILD, BYTES("t\x94R\x94")},
    {"a time by NEWOBJ", OTHER_BEAT_BUILD, OTHER_BEAT_BUILD, BYTES("\x86\x94\x81\x94")},
    {"a time that is built", OTHER_BEAT_BUILD, OTHER_BEAT_BUILD, BYTES("\x86\x94R\x94}b")},
    {"no STOP", STOP, STOP, BYTES("")},
    {"two STOPs", STOP, STOP, BYTES("..")},
    {"bytes behind the end", STOP, STOP, BYTES(".N")},
    {"another pickle behind the end", STOP, STOP, BYTES(".\x80\x04N.")},
    {"a state in a tuple", STOP, STOP, BYTES("\x85.")},
    {"a state that is dropped", STOP, STOP, BYTES("0N.")},
    {"a state that is built on", STOP, STOP, BYTES("}b.")},
};

static void faults_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(faults); i++)
        refuse(exchanged(faults[i].first, faults[i].last, faults[i].instead), faults[i].why, i);
}

/* Whether one may stand for the other: two numbers, two truth values, or two that begin alike. */
static bool are_alike(struct slice a, struct slice b)
{
    static const char *const kinds[] = {"KM", "\x88\x89"};

    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (strchr(kinds[i], a.ptr[0]) != NULL && strchr(kinds[i], b.ptr[0]) != NULL)
            return true;
    }
    return a.ptr[0] == b.ptr[0];
}

/* Each part away, twice, and in another's place. */
static void parts_out_of_place_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < PARTS; i++) {
        refuse(exchanged(i, i, (struct slice){0}), "a part is missing", (size_t)i);
        refuse(exchanged(i, i - 1, parts[i]), "a part is there twice", (size_t)i);
        for (int j = 0; j < PARTS; j++) {
            if (!are_alike(parts[i], parts[j]))
                refuse(exchanged(i, i, parts[j]), "a part is in another's place",
                       (size_t)(i * 100 + j));
        }
    }
}

/* Cuts the pickle, with the old length of the frame and with a matching one. */
static void a_truncated_state_is_refused(void **state)
{
    struct pickle whole = intact();

    (void)state;
    for (size_t len = 0; len < whole.len; len++) {
        struct pickle cut = {0}, framed = {0};

        add(&cut, whole.bytes, len);
        refuse(cut, "cut", len);
        if (len <= 11)
            continue;
        add(&framed, "\x80\x04", 2);
        add(&framed, whole.bytes + 11, len - 11);
        add_frame(&framed, 2);
        refuse(framed, "cut, with a frame that fits", len);
    }
    free(whole.bytes);
}

/* Its frames tell: no client makes us read a long value for each few bytes that it appends. */
static void what_is_cut_or_longer_is_not_read(void **state)
{
    struct pickle whole = intact();

    (void)state;
    for (size_t len = 12; len < whole.len + 100; len++) {
        struct pickle p = {0};

        if (len >= whole.len && len < whole.len + 4)
            continue; /* a last piece may be too short for a frame */
        add(&p, whole.bytes, len < whole.len ? len : whole.len);
        while (p.len < len)
            add(&p, ".", 1);
        refuse(p, "cut or longer", len);
        assert_int_equal(allocated, 0);
    }
    free(whole.bytes);
}

/* A last piece of less than four bytes needs no frame. */
static void frames_that_do_not_fit_are_refused(void **state)
{
    struct pickle whole = intact();
    size_t content = whole.len - 11;

    (void)state;
    for (size_t len = 0; len < content + 300; len++) {
        struct pickle p = {0};

        if (len > content - 4 && len <= content)
            continue;
        add(&p, whole.bytes, whole.len);
        bytes_put_u64(p.bytes + 3, len);
        refuse(p, "a frame of another length", len);
    }
    for (unsigned version = 0; version < 256; version++) {
        struct pickle p = {0};

        if (version == 4 || version == 5)
            continue;
        add(&p, whole.bytes, whole.len);
        p.bytes[1] = (uint8_t)version;
        refuse(p, "another protocol", version);
    }
    free(whole.bytes);
}

/* The pickle cut into frames at `first`, if that is between two opcodes. */
static void frames_may_end_between_opcodes_only(void **state)
{
    struct pickle whole = intact();
    size_t end = 0, split = 0, states = 0;
    int part = 0;

    (void)state;
    for (size_t at = 4; at + 4 < whole.len - 11; at++) {
        struct pickle p = {0};
        bool between;

        while (end < at) /* where parts begin, opcodes do */
            end += parts[part++].len;
        between = end == at;
        add(&p, "\x80\x04", 2);
        add(&p, whole.bytes + 11, at);
        add_frame(&p, 2);
        split = p.len;
        add(&p, whole.bytes + 11 + at, whole.len - 11 - at);
        add_frame(&p, split);
        if (is_state((struct slice){p.bytes, p.len}))
            states++;
        else if (between)
            fail_msg("two frames that meet at %zu are refused", at);
        free(p.bytes);
    }
    assert_in_range(states, PARTS - 3, whole.len / 2); /* most of the bytes are in strings */
    free(whole.bytes);
}

/* Changes one byte: if the text is still a state, writing and reading it returns the same state. */
static void other_bytes_are_refused_or_read_well(void **state)
{
    struct pickle whole = intact();
    size_t states = 0;

    (void)state;
    for (size_t at = 0; at < whole.len; at++) {
        for (unsigned value = 0; value < 256; value++) {
            uint8_t was = whole.bytes[at];
            struct torch_state s;

            whole.bytes[at] = (uint8_t)value;
            if (read_pickle((struct slice){whole.bytes, whole.len}, &s) == TORCH_STATE_OK) {
                states++;
                for (size_t i = 1; i < s.count; i++)
                    assert_true(torch_node_compare(&s.nodes[i - 1], &s.nodes[i]) < 0);
                torch_state_free(&s);
            }
            whole.bytes[at] = was;
        }
    }
    assert_in_range(states, whole.len, whole.len * 16); /* numbers, addresses, times */
    free(whole.bytes);
}

/* --- Pickles that would be expensive to read as states. --- */

static struct pickle repeated(struct slice before, struct slice again, size_t count,
                              struct slice after)
{
    struct pickle p = {0};

    p.bytes = malloc(64 + before.len + again.len * count + after.len);
    assert_non_null(p.bytes);
    memcpy(p.bytes, "\x80\x04\x95", 3);
    p.len = 11;
    memcpy(p.bytes + p.len, before.ptr, before.len);
    p.len += before.len;
    for (size_t i = 0; i < count; i++, p.len += again.len)
        memcpy(p.bytes + p.len, again.ptr, again.len);
    memcpy(p.bytes + p.len, after.ptr, after.len);
    p.len += after.len;
    bytes_put_u64(p.bytes + 3, p.len - 11);
    return p;
}

static const struct {
    const char *why;
    int part; /* before which it is; the rest of the state is left out */
    struct slice again, after;
} bombs[] = {
    {"marks", 0, BYTES("("), BYTES(".")},
    {"dicts", 0, BYTES("}"), BYTES(".")},
    {"nested tuples", DEADLINE_VALUE, BYTES("\x85"), BYTES(".")},
    {"tuples of two that are doubled", DEADLINE_VALUE, BYTES("2\x86"), BYTES(".")},
    {"lists within lists", DEADLINE_VALUE, BYTES("](]e"), BYTES(".")},
    {"numbers of the memo", ROUND, BYTES("\x94"), BYTES(".")},
    {"frames", 0, BYTES("\x95\x09\x00\x00\x00\x00\x00\x00\x00"), BYTES(".")},
    {"empty frames", 0, BYTES("\x95\x00\x00\x00\x00\x00\x00\x00\x00"), BYTES(".")},
    {"references", NODE_RANK, BYTES("h\x0a"), BYTES(".")},
    {"long numbers", ROUND_VALUE, BYTES("\x8a\xff"), BYTES(".")},
    {"nodes within nodes", NODE_ADDR_VALUE, BYTES("h\x0c)\x81\x94}\x94(h\x0f"), BYTES(".")},
    {"nodes without end", OTHER_OBJECT,
     BYTES("h\x0c)\x81\x94}\x94(h\x0fh\x10h\x11K\x00h\x12K\x00ubK\x00"), BYTES("")},
    {"batches of nothing", OTHER_OBJECT, BYTES("u("), BYTES(".")},
    {"strings", CLOSED, BYTES("\x8c\x00\x94"), BYTES(".")},
};

static void an_expensive_pickle_is_refused_in_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bombs); i++) {
        struct pickle before = {0};

        add(&before, "", 0);
        add_parts(&before, 0, bombs[i].part);
        refuse(repeated((struct slice){before.bytes, before.len}, bombs[i].again, 200000,
                        bombs[i].after),
               bombs[i].why, i);
        free(before.bytes);
    }
}

/* Many nodes that share one long address, in the worst order: no more is compared, allocated or
 * written than the value is long. */
static void a_shared_address_does_not_multiply(void **state)
{
    enum { NODES = 20000, LONG = 1000 };
    static const char end[] = "u\x8c\x09wait_list\x94\x8f\x94\x8c\x0flast_heartbeats\x94}\x94ub.";
    struct pickle p = {0};
    struct torch_state s;
    uint8_t addr[5 + LONG + 1], *text;
    size_t start = 11, len, before;

    (void)state;
    memset(addr, 'x', sizeof addr);
    addr[0] = 'X';
    bytes_put_u32(addr + 1, LONG);
    addr[5 + LONG] = 0x94;
    add(&p, "\x80\x05\x95........", start);
    add_parts(&p, 0, NODE_ADDR_VALUE);
    add(&p, addr, sizeof addr);
    add_parts(&p, NODE_PID, OTHER_OBJECT);
    p.bytes = realloc(p.bytes, p.len + NODES * 32);
    assert_non_null(p.bytes);
    for (uint32_t i = 0; i < NODES; i++) {
        static const uint8_t node[] = "h\x0c)\x81\x94}\x94(h\x0fh\x10h\x11J....h\x12K\x00ubK\x00";

        memcpy(p.bytes + p.len, node, sizeof node - 1);
        bytes_put_u32(p.bytes + p.len + 15, 70000 + (i * 7919) % NODES);
        p.len += sizeof node - 1;
    }
    add(&p, end, sizeof end - 1);
    bytes_put_u64(p.bytes + 3, p.len - start);
    before = p.len;
    read_well(&p, &s);
    assert_int_equal(s.count, NODES + 1);
    assert_true(!s.has_redundancy && !s.fqdn && s.protocol == 5);

    assert_true(torch_state_write(&s, &text, &len));
    assert_in_range(len, 0, before * 4 / 3 + before / 8);
    free(text);
    torch_state_free(&s);
}

/* Equal objects name the same node: two lists may both have it, but one list may not have it twice.
 */
#define NODE(name) "h\x0c)\x81\x94}\x94(h\x0f\x8c\x02" name "\x94h\x11M\x00\x01h\x12K\x02ub"
#define LISTS(waiting, redundant)                                                  \
    BYTES("\x8f\x94(" waiting "\x90\x8c\x0fredundancy_list\x94\x8f\x94(" redundant \
          "\x90\x8c\x0flast_heartbeats\x94}\x94")

static void equal_nodes_are_one(void **state)
{
    static const struct {
        int first, last;
        struct slice instead;
        bool good;
    } cases[] = {
        {OTHER_ADDR_VALUE, OTHER_ADDR_VALUE, BYTES("\x8c\x02n3\x94"), true},
        {OTHER_ADDR_VALUE, OTHER_ADDR_VALUE, BYTES("\x8c\x02n1\x94"), false},
        {OTHER_BEAT_NODE, OTHER_BEAT_NODE, BYTES(NODE("n2")), true},
        {OTHER_BEAT_NODE, OTHER_BEAT_NODE, BYTES(NODE("n1")), false},
        {WAIT_LIST_SET, LAST_HEARTBEATS_END, LISTS(NODE("n1"), NODE("n1")), true},
        {WAIT_LIST_SET, LAST_HEARTBEATS_END, LISTS(NODE("n1") NODE("n2"), NODE("n2")), true},
        {WAIT_LIST_SET, LAST_HEARTBEATS_END, LISTS(NODE("n1") NODE("n1"), NODE("n2")), false},
        {WAIT_LIST_SET, LAST_HEARTBEATS_END, LISTS(NODE("n3"), NODE("n4") NODE("n4")), false},
        {WAIT_LIST_SET, LAST_HEARTBEATS_END, LISTS(NODE("n3") NODE("n3"), NODE("n4")), false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pickle p = exchanged(cases[i].first, cases[i].last, cases[i].instead);

        if (is_state((struct slice){p.bytes, p.len}) != cases[i].good)
            fail_msg("case %zu", i);
        free(p.bytes);
    }
}

static void addresses_have_a_limit(void **state)
{
    (void)state;
    for (uint32_t len = TORCH_ADDR_MAX - 1; len <= TORCH_ADDR_MAX + 1; len++) {
        uint8_t addr[5 + TORCH_ADDR_MAX + 2];
        struct pickle p;

        memset(addr, 'x', sizeof addr);
        addr[0] = 'X';
        bytes_put_u32(addr + 1, len);
        addr[5 + len] = 0x94;
        p = exchanged(NODE_ADDR_VALUE, NODE_ADDR_VALUE, (struct slice){addr, 5 + len + 1});
        assert_int_equal(is_state((struct slice){p.bytes, p.len}), len <= TORCH_ADDR_MAX);
        free(p.bytes);
    }
}

/* --- Base64 around it. --- */

static void only_what_python_encodes_is_decoded(void **state)
{
    static const char *const edits[] = {
        "\n", " ", "\r\n", "=", "====", "-", "_", "\x80", "A", "AA"};
    struct pickle p = {0};
    struct slice text;
    struct torch_state s;
    size_t padded = 0;

    (void)state;
    for (int pad = 0; pad < 3; pad++) { /* three lengths, and so all paddings */
        static const struct slice addresses[] = {BYTES("\x8c\x02n0\x94"), BYTES("\x8c\x03n00\x94"),
                                                 BYTES("\x8c\x04n000\x94")};

        p = exchanged(NODE_ADDR_VALUE, NODE_ADDR_VALUE, addresses[pad]);
        text = text_of((struct slice){p.bytes, p.len});
        assert_int_equal(read_text(text, &s), TORCH_STATE_OK);
        torch_state_free(&s);
        for (size_t i = 0; i < COUNT(edits); i++) {
            size_t len = strlen(edits[i]), places[] = {0, 4, text.len / 2, text.len - 1, text.len};

            for (size_t j = 0; j < COUNT(places); j++) {
                struct slice other = {malloc(text.len + len), text.len + len};
                uint8_t *to = (uint8_t *)(uintptr_t)other.ptr;

                memcpy(to, text.ptr, places[j]);
                memcpy(to + places[j], edits[i], len);
                memcpy(to + places[j] + len, text.ptr + places[j], text.len - places[j]);
                assert_int_equal(read_text(other, &s), TORCH_STATE_NOT_MINE);
                exact_free(other);
            }
        }
        if (text.ptr[text.len - 1] == '=') { /* the unused bits must be 0 */
            size_t last = text.len - (text.ptr[text.len - 2] == '=' ? 3 : 2);

            padded++;
            ((uint8_t *)(uintptr_t)text.ptr)[last]++;
            assert_int_equal(read_text(text, &s), TORCH_STATE_NOT_MINE);
        }
        exact_free(text);
        free(p.bytes);
    }
    assert_int_equal(padded, 2);
}

static void other_values_are_refused(void **state)
{
    static const char *const values[] = {
        "",         "Y2FuaW1hZGFt", "non_base64",           "gASV",           "gAWV", "g",
        "gASVAAAA", "gAROLg==",     "gASVBAAAAAAAAABOMC4u", "{\"status\": 1}"};
    struct torch_state s;

    (void)state;
    for (size_t i = 0; i < COUNT(values); i++)
        assert_int_equal(read_text(slice_str(values[i]), &s), TORCH_STATE_NOT_MINE);
}

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
    struct pickle p = intact();
    struct torch_state s;

    (void)state;
    read_well(&p, &s);
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
    struct pickle p = intact();
    struct slice text = text_of((struct slice){p.bytes, p.len});
    struct torch_state s;
    uint8_t *written;
    size_t len;

    (void)state;
    read_well(&p, &s);
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
    struct pickle p = intact();
    struct torch_state s, again;
    uint8_t *text;
    size_t len;

    (void)state;
    read_well(&p, &s);
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

/* A state of so many participants that are no nodes, and of a node or two. `way` has a bit each for
 * who they are. */
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
                         TORCH_STATE_OK); /* the last one of them is a node as any other */
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
    struct pickle p = intact();
    struct slice value = text_of((struct slice){p.bytes, p.len});
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

/* Makes the state number `i`: each has some fields or nodes that its text does not keep. */
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
        if (torch_state_settle(&copy)) {
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

/* Nodes come and go for weeks, and no address stays for ever. */
static void one_that_has_had_many_nodes_is_to_be_read(void **state)
{
    struct torch_state s = small_state();
    size_t changes = 0;

    (void)state;
    while (torch_state_settle(&s)) {
        struct torch_node who = {.addr = slice_str("three"), .pid = (int64_t)changes++}, *at;

        assert_true(torch_state_insert(&s, &who, &at));
    }
    assert_in_range(changes, 50, 100);
    torch_state_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_is_read),
        cmocka_unit_test(intruders_are_refused_everywhere),
        cmocka_unit_test(faults_are_refused),
        cmocka_unit_test(parts_out_of_place_are_refused),
        cmocka_unit_test(a_truncated_state_is_refused),
        cmocka_unit_test(what_is_cut_or_longer_is_not_read),
        cmocka_unit_test(frames_that_do_not_fit_are_refused),
        cmocka_unit_test(frames_may_end_between_opcodes_only),
        cmocka_unit_test(other_bytes_are_refused_or_read_well),
        cmocka_unit_test(an_expensive_pickle_is_refused_in_time),
        cmocka_unit_test(a_shared_address_does_not_multiply),
        cmocka_unit_test(equal_nodes_are_one),
        cmocka_unit_test(addresses_have_a_limit),
        cmocka_unit_test(only_what_python_encodes_is_decoded),
        cmocka_unit_test(other_values_are_refused),
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
        cmocka_unit_test(one_that_has_had_many_nodes_is_to_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
