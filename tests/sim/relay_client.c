/* See relay_client.h. */
#include "tests/sim/relay_client.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/c10d.h"

/* Modern opcodes. */
enum {
    OP_SET = 1,
    OP_CAS,
    OP_GET,
    OP_ADD,
    OP_CHECK,
    OP_WAIT,
    OP_DELETE = 8,
    OP_APPEND,
    OP_MULTI_GET,
    OP_MULTI_SET,
    OP_CANCEL,
    OP_PING,
    OP_PUSH,
    OP_POP,
    OP_BARRIER = 18,
};

static void tell(const struct scripted *c, const char *what, const struct request *r)
{
    static const char *const names[KINDS + 1] = {
        "ADD",           "APPEND",     "GET (log)",        "SET",
        "GET",           "MULTI_SET",  "MULTI_GET",        "COMPARE_SET",
        "QUEUE_PUSH",    "QUEUE_POP",  "SET (flag)",       "WAIT",
        "CHECK",         "SET (own)",  "DELETE",           "BARRIER",
        "GET (counter)", "GET (cell)", "what was canceled"};

    if (world_tells)
        fprintf(stderr, "%" PRIu64 " %.6f client %u of %d %s %s %u value %08x\n", world_step,
                (double)world_now_ns / 1e9, c->id, c->home, what, names[r->kind], r->which,
                r->value);
}

/* --- Bytes. --- */

static void put(struct scripted *c, const void *bytes, size_t len)
{
    if (c->out_len + len > OUT_MAX)
        world_fail("a client queues too much");
    memcpy(c->out + c->out_len, bytes, len);
    c->out_len += len;
}

static void put_u8(struct scripted *c, unsigned v)
{
    const uint8_t byte = (uint8_t)v;

    put(c, &byte, 1);
}

static void put_u64(struct scripted *c, uint64_t v)
{
    uint8_t bytes[8];

    bytes_put_u64(bytes, v);
    put(c, bytes, 8);
}

static void put_text(struct scripted *c, const char *text)
{
    put_u64(c, strlen(text));
    put(c, text, strlen(text));
}

static const char *name(char kind, unsigned which)
{
    static char texts[4][16];
    static unsigned turn;
    char *text = texts[turn++ % 4];

    snprintf(text, 16, "/%c%u", kind, which);
    return text;
}

static const char *number(const char *format, unsigned a, unsigned b)
{
    static char texts[2][24];
    static unsigned turn;
    char *text = texts[turn++ % 2];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, 24, format, a, b);
#pragma GCC diagnostic pop
    return text;
}

/* --- Requests. --- */

/* Some lists are so long that the store shares their work, and relays send them once. */
#define LONG_WAIT 250

/* How each is written: its opcode, the letters of its keys, and what comes behind a letter. */
enum whose { WHICH, MINE, OTHERS };
static const struct form {
    uint8_t op;
    char letter, second; /* of a list of two keys */
    enum whose whose;
} forms[KINDS] = {
    [DO_ADD] = {OP_ADD, 'c', 0, WHICH},         [DO_READ_COUNTER] = {OP_GET, 'c', 0, WHICH},
    [DO_APPEND] = {OP_APPEND, 'l', 0, WHICH},   [DO_READ_LOG] = {OP_GET, 'l', 0, WHICH},
    [DO_SET] = {OP_SET, 's', 0, MINE},          [DO_GET] = {OP_GET, 's', 0, OTHERS},
    [DO_PAIR] = {OP_MULTI_SET, 'm', 'n', MINE}, [DO_READ_PAIR] = {OP_MULTI_GET, 'm', 'n', OTHERS},
    [DO_CAS] = {OP_CAS, 'x', 0, WHICH},         [DO_READ_CELL] = {OP_GET, 'x', 0, WHICH},
    [DO_PUSH] = {OP_PUSH, 'q', 0, WHICH},       [DO_POP] = {OP_POP, 'q', 0, WHICH},
    [DO_FLAG] = {OP_SET, 'f', 0, WHICH},        [DO_WAIT] = {OP_WAIT, 'f', 'f', WHICH},
    [DO_CHECK] = {OP_CHECK, 'f', 'f', WHICH},   [DO_PUT] = {OP_SET, 'd', 0, MINE},
    [DO_DELETE] = {OP_DELETE, 'd', 0, MINE},    [DO_BARRIER] = {OP_BARRIER, 'b', 0, WHICH},
};

/* What stands behind a key. */
static void put_payload(struct scripted *c, const struct request *r, unsigned participants)
{
    if (r->kind == DO_ADD)
        put_u64(c, 1);
    else if (r->kind == DO_APPEND)
        put_text(c, number("%02x%04x;\n", c->id, r->value));
    else if (r->kind == DO_SET || r->kind == DO_PAIR)
        put_text(c, number("%u", r->value, 0));
    else if (r->kind == DO_PUSH)
        put_text(c, number("%08x", c->id << 16 | r->value, 0));
    else if (r->kind == DO_FLAG || r->kind == DO_PUT)
        put_text(c, "1");
    else if (r->kind == DO_BARRIER)
        put_u64(c, participants);
    if (r->kind != DO_CAS)
        return;
    put_text(c, r->expected == 0 ? "" : number("%08x", r->expected, 0));
    put_text(c, number("%08x", r->value, 0));
}

static void put_request(struct scripted *c, const struct request *r, unsigned participants)
{
    const struct form *f = &forms[r->kind];
    unsigned which = f->whose == WHICH ? r->which : f->whose == MINE ? c->id : r->other;
    unsigned times = r->kind == DO_WAIT && r->which > r->also ? LONG_WAIT : 1;

    put_u8(c, c->legacy && f->op <= OP_WAIT ? f->op - 1u : f->op);
    if (f->second != 0)
        put_u64(c, 2 * times);
    for (unsigned i = 0; i < times; i++) {
        put_text(c, name(f->letter, which));
        put_payload(c, r, participants);
        if (f->second == 0)
            return;
        put_text(c, name(f->second, f->whose == WHICH ? r->also : which));
        put_payload(c, r, participants);
    }
}

static bool is_silent(enum kind kind)
{
    return kind == DO_APPEND || kind == DO_SET || kind == DO_PAIR || kind == DO_PUSH ||
           kind == DO_FLAG || kind == DO_PUT;
}

static bool is_of_legacy(enum kind kind)
{
    return forms[kind].op <= OP_DELETE;
}

/* The first byte of its answer is not 0, so that the late end of a WAIT, which is, is told from it:
 * no counter gets as far as 256. */
static bool shows_late_end(enum kind kind)
{
    return kind == DO_ADD || kind == DO_CAS || is_silent(kind);
}

static bool may_ask(const struct scripted *c, enum kind kind)
{
    return !c->legacy || (is_of_legacy(kind) && (!c->is_late || shows_late_end(kind)));
}

static bool is_read(enum kind kind)
{
    return kind == DO_GET || kind == DO_READ_PAIR || kind == DO_READ_LOG ||
           kind == DO_READ_COUNTER || kind == DO_CHECK;
}

/* The next clients often ask what one has asked: a relay asks once for all of them. */
#define CLIENTS_OF_ECHO 9

static struct {
    struct request request;
    unsigned left;
    uint64_t step; /* in a new world, steps begin anew */
} echo;

static bool repeats_read(const struct scripted *c, struct request *r)
{
    if (world_step < echo.step)
        echo.left = 0;
    echo.step = world_step;
    if (echo.left == 0 || !may_ask(c, echo.request.kind))
        return false;
    echo.left--;
    *r = echo.request;
    return true;
}

static void draw_request(struct scripted *c, struct request *r)
{
    static const enum kind often[] = {
        DO_ADD,  DO_ADD,   DO_APPEND, DO_APPEND, DO_CAS,    DO_CAS,       DO_PUSH,        DO_PUSH,
        DO_POP,  DO_POP,   DO_SET,    DO_GET,    DO_PAIR,   DO_READ_PAIR, DO_FLAG,        DO_WAIT,
        DO_WAIT, DO_CHECK, DO_PUT,    DO_DELETE, DO_DELETE, DO_READ_LOG,  DO_READ_COUNTER};
    static const unsigned whiches[KINDS] = {[DO_ADD] = COUNTERS, [DO_READ_COUNTER] = COUNTERS,
                                            [DO_APPEND] = LOGS,  [DO_READ_LOG] = LOGS,
                                            [DO_CAS] = CELLS,    [DO_PUSH] = QUEUES,
                                            [DO_POP] = QUEUES,   [DO_FLAG] = FLAGS,
                                            [DO_WAIT] = FLAGS,   [DO_CHECK] = FLAGS};

    if (repeats_read(c, r))
        return;
    do
        *r = (struct request){.kind = often[draw(sizeof often / sizeof *often)]};
    while (!may_ask(c, r->kind));
    r->which = whiches[r->kind] == 0 ? 0 : (unsigned)draw(whiches[r->kind]);
    r->also = (unsigned)draw(FLAGS);
    r->other = chance(2) ? c->id : (unsigned)draw(IDS - 1);
    if (!is_read(r->kind) || !chance(2))
        return;
    echo.request = *r;
    echo.left = CLIENTS_OF_ECHO;
}

/* What the auditor asks for, one after the other: everything. */
static bool next_of_audit(struct scripted *c, struct request *r)
{
    unsigned at = c->rounds++;

    *r = (struct request){0};
    if (at < FLAGS)
        return r->kind = DO_FLAG, r->which = at, true;
    at -= FLAGS;
    if (at < COUNTERS)
        return r->kind = DO_READ_COUNTER, r->which = at, true;
    at -= COUNTERS;
    if (at < LOGS)
        return r->kind = DO_READ_LOG, r->which = at, true;
    at -= LOGS;
    if (at < CELLS)
        return r->kind = DO_READ_CELL, r->which = at, true;
    at -= CELLS;
    if (at < c->audits)
        return r->kind = DO_GET, r->other = at, true;
    at -= c->audits;
    if (at < c->audits)
        return r->kind = DO_READ_PAIR, r->other = at, true;
    at -= c->audits;
    r->kind = DO_POP;
    r->which = at;
    return at < QUEUES;
}

static void ask(struct scripted *c, unsigned participants)
{
    struct request r;

    if (c->audits != 0) {
        if (!next_of_audit(c, &r)) {
            c->state = CLIENT_DONE;
            return;
        }
    } else if (c->steady && c->rounds < ROUNDS && (c->left == 0 || chance(12))) {
        r = (struct request){.kind = DO_BARRIER, .which = c->rounds++};
    } else if (c->left == 0) {
        c->state = CLIENT_DONE;
        return;
    } else {
        draw_request(c, &r);
        c->left--;
    }
    if (!model_send(c->id, &r))
        return;
    tell(c, "sends", &r);
    put_request(c, &r, participants);
    if (is_silent(r.kind))
        return;
    c->asked = r;
    c->canceled = false;
    c->state = CLIENT_ASKED;
}

/* --- Answers. --- */

static void consume(struct scripted *c, size_t n)
{
    memmove(c->in, c->in + n, c->in_len - n);
    c->in_len -= n;
}

static void answered(struct scripted *c, size_t used, struct slice first, struct slice second,
                     int64_t value)
{
    tell(c, "is answered", &c->asked);
    model_answer(c->id, &c->asked, first, second, value);
    consume(c, used);
    c->is_late = false;
    c->state = CLIENT_IDLE;
}

/* A length and so many bytes, at *at. */
static bool take_text(const struct scripted *c, size_t *at, struct slice *out)
{
    uint64_t len;

    if (c->in_len < *at + 8)
        return false;
    len = bytes_get_u64(c->in + *at);
    if (len > IN_MAX)
        world_fail("an answer of %llu bytes", (unsigned long long)len);
    if (c->in_len < *at + 8 + len)
        return false;
    *out = (struct slice){c->in + *at + 8, (size_t)len};
    *at += 8 + (size_t)len;
    return true;
}

static const struct slice nothing;

static bool take_texts(struct scripted *c, unsigned count)
{
    struct slice texts[2] = {{0}};
    size_t at = 0;

    for (unsigned i = 0; i < count; i++) {
        if (!take_text(c, &at, &texts[i]))
            return false;
    }
    answered(c, at, texts[0], texts[1], 0);
    return true;
}

static bool take_pop(struct scripted *c)
{
    struct slice element = {0};
    size_t at = 8;
    uint64_t before;

    if (c->in_len < 8)
        return false;
    before = bytes_get_u64(c->in);
    if (before != 0 && !take_text(c, &at, &element))
        return false;
    if (c->audits != 0 && before > 1)
        c->rounds--; /* there is more */
    answered(c, at, element, nothing, (int64_t)before);
    return true;
}

/* Answers of WAIT and BARRIER: 0 at the end, 1 after a cancellation; if the end and the
 * cancellation cross, 0 and then 1. */
static bool take_stop(struct scripted *c)
{
    uint8_t byte;

    if (c->in_len == 0)
        return false;
    byte = c->in[0];
    if (byte == C10D_STOP_WAITING && c->canceled) {
        if (c->asked.kind != KINDS)
            model_answer(c->id, &c->asked, nothing, nothing, 0);
        else
            world_fail("a WAIT ends twice");
        c->asked.kind = KINDS;
        consume(c, 1);
    } else if (byte == C10D_STOP_WAITING) {
        answered(c, 1, nothing, nothing, 0);
    } else if (byte == C10D_WAIT_CANCELED && c->canceled) { /* which a relay may say by itself */
        consume(c, 1);
        c->state = CLIENT_IDLE;
    } else {
        world_fail("client %u: a WAIT is answered %u", c->id, byte);
    }
    return true;
}

/* What it had given up was on its way, so it comes before the next answer, or never. */
static bool take_late_end(struct scripted *c)
{
    if (!c->is_late || c->in_len == 0 || c->in[0] != C10D_STOP_WAITING)
        return false;
    tell(c, "hears late of", &c->given_up);
    model_waited(&c->given_up);
    consume(c, 1);
    c->is_late = false;
    return true;
}

static bool take_byte(struct scripted *c)
{
    if (c->in_len == 0)
        return false;
    answered(c, 1, nothing, nothing, c->in[0]);
    return true;
}

static bool take_number(struct scripted *c)
{
    if (c->in_len < 8)
        return false;
    answered(c, 8, nothing, nothing, (int64_t)bytes_get_u64(c->in));
    return true;
}

static bool take_ping(struct scripted *c)
{
    if (c->in_len < 4)
        return false;
    if (memcmp(c->in, "pong", 4) != 0)
        world_fail("a PING is answered by something else");
    consume(c, 4);
    c->state = CLIENT_IDLE;
    return true;
}

static bool take_answer(struct scripted *c)
{
    if (c->state == CLIENT_GREETS)
        return take_ping(c);
    if (take_late_end(c))
        return true;
    if (c->state != CLIENT_ASKED && c->in_len > 0)
        world_fail("client %u gets an answer to nothing", c->id);
    if (c->state != CLIENT_ASKED)
        return false;
    switch (c->asked.kind) {
    case DO_ADD:
    case DO_DELETE:
        return take_number(c);
    case DO_POP:
        return take_pop(c);
    case DO_CHECK:
        return take_byte(c);
    case DO_WAIT:
    case DO_BARRIER:
    case KINDS:
        return take_stop(c);
    case DO_READ_PAIR:
        return take_texts(c, 2);
    default:
        return take_texts(c, 1);
    }
}

/* --- Steps. --- */

static bool begin(struct scripted *c, unsigned id, int home, unsigned requests)
{
    c->fd = net_sim_dial(home);
    c->second = -1;
    c->state = CLIENT_NONE;
    if (c->fd < 0)
        return false;
    c->id = id;
    c->home = home;
    c->missing = NULL;
    c->audits = 0;
    c->steady = c->legacy = c->is_late = c->canceled = false;
    c->left = requests;
    c->rounds = 0;
    c->out_len = c->in_len = 0;
    return true;
}

bool scripted_begin(struct scripted *c, unsigned id, int home, unsigned requests, bool steady)
{
    static const uint8_t hello[] = {0, 0xce, 0xf7, 0x85, 0x3c, OP_PING, 'p', 'o', 'n', 'g'};

    if (!begin(c, id, home, requests))
        return false;
    c->steady = steady;
    c->state = CLIENT_GREETS;
    put(c, hello, sizeof hello);
    return true;
}

bool scripted_begin_legacy(struct scripted *c, unsigned id, int home, unsigned requests)
{
    if (!begin(c, id, home, requests))
        return false;
    c->second = net_sim_dial(home);
    c->legacy = true;
    c->state = CLIENT_IDLE;
    return true;
}

void scripted_audit(struct scripted *c, unsigned id, int home, unsigned ids)
{
    if (scripted_begin(c, id, home, 0, false))
        c->audits = ids + 1;
}

static void note_lost(struct scripted *c)
{
    if (c->state == CLIENT_ASKED && c->asked.kind != KINDS)
        model_lost(c->id, &c->asked);
}

static void hang_up(struct scripted *c, bool reset)
{
    net_sim_leave(c->fd, reset);
    if (c->second >= 0)
        net_sim_leave(c->second, false);
}

void scripted_leave(struct scripted *c)
{
    note_lost(c);
    hang_up(c, chance(2));
    c->state = CLIENT_NONE;
}

/* True if the client's second, silent connection has ended, which must outlive the first one. */
static bool second_has_ended(const struct scripted *c)
{
    uint8_t byte;
    ssize_t n = c->second < 0 ? 0 : net_sim_recv(c->second, &byte, 1);

    if (n > 0)
        world_fail("client %u gets a byte where it has said nothing", c->id);
    return n < 0;
}

static bool receive(struct scripted *c)
{
    ssize_t n = net_sim_recv(c->fd, c->in + c->in_len, IN_MAX - c->in_len);

    if (n < 0 || second_has_ended(c)) {
        tell(c, "is ended at", &c->asked);
        note_lost(c);
        hang_up(c, false);
        c->state = CLIENT_ENDED;
        return true;
    }
    c->in_len += (size_t)n;
    return n > 0;
}

static bool flush(struct scripted *c)
{
    size_t n = c->out_len == 0 ? 0 : net_sim_send(c->fd, c->out, c->out_len);

    memmove(c->out, c->out + n, c->out_len - n);
    c->out_len -= n;
    return n > 0;
}

/* A legacy client says nothing when it gives a WAIT up: its next request does. */
static bool maybe_give_up(struct scripted *c)
{
    if (c->state != CLIENT_ASKED || c->asked.kind != DO_WAIT || !chance(30))
        return false;
    tell(c, "gives up", &c->asked);
    c->given_up = c->asked;
    c->is_late = true;
    c->state = CLIENT_IDLE;
    return true;
}

/* Now and then a client gives up what it waits for. */
static bool maybe_cancel(struct scripted *c)
{
    if (c->legacy)
        return maybe_give_up(c);
    if (c->state != CLIENT_ASKED || c->canceled ||
        !((c->asked.kind == DO_WAIT && chance(60)) || (c->asked.kind == DO_BARRIER && chance(600))))
        return false;
    put_u8(c, OP_CANCEL);
    c->canceled = true;
    return true;
}

bool scripted_step(struct scripted *c, unsigned participants)
{
    bool moved = false;

    if (c->state == CLIENT_NONE || c->state == CLIENT_ENDED)
        return false;
    moved = receive(c);
    while (c->state != CLIENT_ENDED && take_answer(c))
        moved = true;
    if (c->state == CLIENT_ENDED)
        return true;
    if (c->missing != NULL)
        return flush(c) || moved;
    moved = maybe_cancel(c) || moved;
    if (c->state == CLIENT_IDLE && c->out_len < 1000) {
        ask(c, participants);
        moved = true;
    }
    return flush(c) || moved;
}
