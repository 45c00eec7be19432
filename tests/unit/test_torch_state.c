/* Rendezvous states: reading a state, and over two thousand pickles that are no states. (That torch
 * agrees is for torch/run_state.py.) */
#include "tests/unit/torch_state_pickle.h"

static void a_state_is_read(void **state)
{
    struct torch_state s;
    struct pickle p = pickle_intact();

    (void)state;
    pickle_read_well(&p, &s);
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
            pickle_refuse(pickle_exchanged(part, part - 1, intruders[i]), "an intruder",
                          i * 100 + (size_t)part);
        pickle_refuse(pickle_exchanged(PARTS, PARTS - 1, intruders[i]), "an intruder at the end",
                      i);
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
        pickle_refuse(pickle_exchanged(faults[i].first, faults[i].last, faults[i].instead),
                      faults[i].why, i);
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
        pickle_refuse(pickle_exchanged(i, i, (struct slice){0}), "a part is missing", (size_t)i);
        pickle_refuse(pickle_exchanged(i, i - 1, parts[i]), "a part is there twice", (size_t)i);
        for (int j = 0; j < PARTS; j++) {
            if (!are_alike(parts[i], parts[j]))
                pickle_refuse(pickle_exchanged(i, i, parts[j]), "a part is in another's place",
                              (size_t)(i * 100 + j));
        }
    }
}

/* Cuts the pickle, with the old length of the frame and with a matching one. */
static void a_truncated_state_is_refused(void **state)
{
    struct pickle whole = pickle_intact();

    (void)state;
    for (size_t len = 0; len < whole.len; len++) {
        struct pickle cut = {0}, framed = {0};

        pickle_add(&cut, whole.bytes, len);
        pickle_refuse(cut, "cut", len);
        if (len <= 11)
            continue;
        pickle_add(&framed, "\x80\x04", 2);
        pickle_add(&framed, whole.bytes + 11, len - 11);
        pickle_add_frame(&framed, 2);
        pickle_refuse(framed, "cut, with a frame that fits", len);
    }
    free(whole.bytes);
}

/* Its frames tell: no client makes us read a long value for each few bytes that it appends. */
static void what_is_cut_or_longer_is_not_read(void **state)
{
    struct pickle whole = pickle_intact();

    (void)state;
    for (size_t len = 12; len < whole.len + 100; len++) {
        struct pickle p = {0};

        if (len >= whole.len && len < whole.len + 4)
            continue; /* a last piece may be too short for a frame */
        pickle_add(&p, whole.bytes, len < whole.len ? len : whole.len);
        while (p.len < len)
            pickle_add(&p, ".", 1);
        pickle_refuse(p, "cut or longer", len);
        assert_int_equal(allocated, 0);
    }
    free(whole.bytes);
}

/* A last piece of less than four bytes needs no frame. */
static void frames_that_do_not_fit_are_refused(void **state)
{
    struct pickle whole = pickle_intact();
    size_t content = whole.len - 11;

    (void)state;
    for (size_t len = 0; len < content + 300; len++) {
        struct pickle p = {0};

        if (len > content - 4 && len <= content)
            continue;
        pickle_add(&p, whole.bytes, whole.len);
        bytes_put_u64(p.bytes + 3, len);
        pickle_refuse(p, "a frame of another length", len);
    }
    for (unsigned version = 0; version < 256; version++) {
        struct pickle p = {0};

        if (version == 4 || version == 5)
            continue;
        pickle_add(&p, whole.bytes, whole.len);
        p.bytes[1] = (uint8_t)version;
        pickle_refuse(p, "another protocol", version);
    }
    free(whole.bytes);
}

/* The pickle cut into frames at `first`, if that is between two opcodes. */
static void frames_may_end_between_opcodes_only(void **state)
{
    struct pickle whole = pickle_intact();
    size_t end = 0, split = 0, states = 0;
    int part = 0;

    (void)state;
    for (size_t at = 4; at + 4 < whole.len - 11; at++) {
        struct pickle p = {0};
        bool between;

        while (end < at) /* where parts begin, opcodes do */
            end += parts[part++].len;
        between = end == at;
        pickle_add(&p, "\x80\x04", 2);
        pickle_add(&p, whole.bytes + 11, at);
        pickle_add_frame(&p, 2);
        split = p.len;
        pickle_add(&p, whole.bytes + 11 + at, whole.len - 11 - at);
        pickle_add_frame(&p, split);
        if (pickle_is_state((struct slice){p.bytes, p.len}))
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
    struct pickle whole = pickle_intact();
    size_t states = 0;

    (void)state;
    for (size_t at = 0; at < whole.len; at++) {
        for (unsigned value = 0; value < 256; value++) {
            uint8_t was = whole.bytes[at];
            struct torch_state s;

            whole.bytes[at] = (uint8_t)value;
            if (pickle_read((struct slice){whole.bytes, whole.len}, &s) == TORCH_STATE_OK) {
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

        pickle_add(&before, "", 0);
        pickle_add_parts(&before, 0, bombs[i].part);
        pickle_refuse(repeated((struct slice){before.bytes, before.len}, bombs[i].again, 200000,
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
    pickle_add(&p, "\x80\x05\x95........", start);
    pickle_add_parts(&p, 0, NODE_ADDR_VALUE);
    pickle_add(&p, addr, sizeof addr);
    pickle_add_parts(&p, NODE_PID, OTHER_OBJECT);
    p.bytes = realloc(p.bytes, p.len + NODES * 32);
    assert_non_null(p.bytes);
    for (uint32_t i = 0; i < NODES; i++) {
        static const uint8_t node[] = "h\x0c)\x81\x94}\x94(h\x0fh\x10h\x11J....h\x12K\x00ubK\x00";

        memcpy(p.bytes + p.len, node, sizeof node - 1);
        bytes_put_u32(p.bytes + p.len + 15, 70000 + (i * 7919) % NODES);
        p.len += sizeof node - 1;
    }
    pickle_add(&p, end, sizeof end - 1);
    bytes_put_u64(p.bytes + 3, p.len - start);
    before = p.len;
    pickle_read_well(&p, &s);
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
        struct pickle p = pickle_exchanged(cases[i].first, cases[i].last, cases[i].instead);

        if (pickle_is_state((struct slice){p.bytes, p.len}) != cases[i].good)
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
        p = pickle_exchanged(NODE_ADDR_VALUE, NODE_ADDR_VALUE, (struct slice){addr, 5 + len + 1});
        assert_int_equal(pickle_is_state((struct slice){p.bytes, p.len}), len <= TORCH_ADDR_MAX);
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

        p = pickle_exchanged(NODE_ADDR_VALUE, NODE_ADDR_VALUE, addresses[pad]);
        text = pickle_text((struct slice){p.bytes, p.len});
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
