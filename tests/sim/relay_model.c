/* See relay_model.h. */
#include "tests/sim/relay_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/world.h"

#define TOKEN 8 /* "iissss;\n": client and number, in hexadecimal */

enum cas_state { CAS_OPEN, CAS_TOOK, CAS_REFUSED, CAS_LOST };

struct cas {
    uint32_t expected, wanted;
    enum cas_state state;
};

static struct {
    unsigned participants;
    struct {
        uint64_t sent, answered, lost, highest;
        bool seen[ADDS];
    } counters[COUNTERS];
    struct {
        uint8_t known[IDS * SEQ_MOST * TOKEN];
        size_t len;
        uint16_t sent[IDS], done[IDS];
    } logs[LOGS];
    struct {
        struct cas all[CAS_MOST];
        unsigned count;
        uint32_t last[IDS]; /* as that client knows it */
    } cells[CELLS];
    struct {
        uint16_t pushed[IDS], pushed_done[IDS], popped_last[IDS];
        bool popped[IDS][SEQ_MOST];
        unsigned pops_lost;
    } queues[QUEUES];
    struct {
        uint32_t sent[IDS], known[IDS];
    } values, pairs;
    struct {
        bool sent, known;
    } flags[FLAGS];
    uint8_t own[IDS]; /* PUT and DELETE of its own key: it is there */
    unsigned entered[ROUNDS];
    bool entered_by[ROUNDS][IDS];
    struct {
        uint16_t logs[LOGS], pushed[QUEUES];
        uint32_t value, pair;
        uint32_t flags;
    } silent[IDS]; /* sent, and done when the next answer of that client comes */
    struct {
        uint64_t counters[COUNTERS];
        uint32_t cells[CELLS]; /* that it wanted, and that took effect */
        uint32_t value, pair, flags;
    } told[IDS]; /* its own changes that were answered */
} m;

void model_reset(unsigned participants)
{
    memset(&m, 0, sizeof m);
    m.participants = participants;
}

bool model_flag_is_set(unsigned flag)
{
    return m.flags[flag].sent;
}

unsigned model_entered(unsigned round)
{
    return m.entered[round];
}

uint32_t model_seen(unsigned id, unsigned cell)
{
    return m.cells[cell].last[id];
}

static uint32_t at_least(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* --- Sending. --- */

static bool send_cas(unsigned id, struct request *r)
{
    unsigned n = m.cells[r->which].count;

    if (n == CAS_MOST)
        return false;
    r->expected = m.cells[r->which].last[id];
    r->value = (id + 1) << 16 | (n + 1);
    m.cells[r->which].all[n] = (struct cas){r->expected, r->value, CAS_OPEN};
    m.cells[r->which].count++;
    return true;
}

static bool next_number(uint16_t *number, struct request *r)
{
    if (*number + 1 >= SEQ_MOST)
        return false;
    r->value = ++*number;
    return true;
}

bool model_send(unsigned id, struct request *r)
{
    switch (r->kind) {
    case DO_ADD:
        if (m.counters[r->which].sent + 1 >= ADDS)
            return false;
        m.counters[r->which].sent++;
        r->low = m.counters[r->which].highest;
        return true;
    case DO_READ_COUNTER:
        r->low = m.counters[r->which].highest;
        return true;
    case DO_APPEND:
        if (!next_number(&m.logs[r->which].sent[id], r))
            return false;
        m.silent[id].logs[r->which] = (uint16_t)r->value;
        return true;
    case DO_READ_LOG:
        r->low = m.logs[r->which].len;
        memcpy(r->lows, m.logs[r->which].done, sizeof r->lows);
        r->lows[id] = m.logs[r->which].sent[id];
        return true;
    case DO_SET:
        r->value = m.silent[id].value = ++m.values.sent[id];
        return true;
    case DO_GET:
        r->low = r->other == id ? m.values.sent[id] : m.values.known[r->other];
        return true;
    case DO_PAIR:
        r->value = m.silent[id].pair = ++m.pairs.sent[id];
        return true;
    case DO_READ_PAIR:
        r->low = r->other == id ? m.pairs.sent[id] : m.pairs.known[r->other];
        return true;
    case DO_CAS:
        return send_cas(id, r);
    case DO_PUSH:
        if (!next_number(&m.queues[r->which].pushed[id], r))
            return false;
        m.silent[id].pushed[r->which] = (uint16_t)r->value;
        return true;
    case DO_POP:
        memcpy(r->lows, m.queues[r->which].popped_last, sizeof r->lows);
        return true;
    case DO_FLAG:
        m.flags[r->which].sent = true;
        m.silent[id].flags |= 1u << r->which;
        return true;
    case DO_CHECK:
        r->is_there = m.flags[r->which].known && m.flags[r->also].known;
        return true;
    case DO_PUT:
        m.own[id] = 1;
        return true;
    case DO_DELETE:
        r->is_there = m.own[id] != 0;
        return true;
    case DO_BARRIER:
        if (m.entered_by[r->which][id])
            world_fail("the test enters a barrier twice");
        m.entered_by[r->which][id] = true;
        m.entered[r->which]++;
        return true;
    default:
        return true;
    }
}

/* --- What silent requests have come to. --- */

void model_done(unsigned id)
{
    for (unsigned i = 0; i < LOGS; i++)
        m.logs[i].done[id] = (uint16_t)at_least(m.logs[i].done[id], m.silent[id].logs[i]);
    for (unsigned i = 0; i < QUEUES; i++)
        m.queues[i].pushed_done[id] =
            (uint16_t)at_least(m.queues[i].pushed_done[id], m.silent[id].pushed[i]);
    m.values.known[id] = at_least(m.values.known[id], m.silent[id].value);
    m.pairs.known[id] = at_least(m.pairs.known[id], m.silent[id].pair);
    for (unsigned i = 0; i < FLAGS; i++)
        m.flags[i].known = m.flags[i].known || (m.silent[id].flags & 1u << i);
    m.told[id].value = m.silent[id].value;
    m.told[id].pair = m.silent[id].pair;
    m.told[id].flags = m.silent[id].flags;
}

/* --- Answers. --- */

static void take_count(const struct request *r, int64_t number, bool mine)
{
    uint64_t v = (uint64_t)number;

    if (number < 0 || v < r->low || v > m.counters[r->which].sent || (mine && v <= r->low))
        world_fail("counter %u: %lld was answered; it was %llu before, and %llu were added",
                   r->which, (long long)number, (unsigned long long)r->low,
                   (unsigned long long)m.counters[r->which].sent);
    if (mine && m.counters[r->which].seen[v])
        world_fail("counter %u: %lld was answered twice", r->which, (long long)number);
    if (mine) {
        m.counters[r->which].seen[v] = true;
        m.counters[r->which].answered++;
    }
    if (v > m.counters[r->which].highest)
        m.counters[r->which].highest = v;
}

static int64_t decimal(struct slice text)
{
    int64_t v = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            world_fail("a number is '%.*s'", (int)text.len, (const char *)text.ptr);
        v = v * 10 + text.ptr[i] - '0';
    }
    return v;
}

static void take_log(const struct request *r, struct slice text)
{
    size_t known = m.logs[r->which].len, least = known < text.len ? known : text.len;
    uint16_t last[IDS] = {0};

    if (text.len % TOKEN != 0 || text.len < r->low || text.len > sizeof m.logs[0].known)
        world_fail("log %u has %zu bytes; it had %llu before", r->which, text.len,
                   (unsigned long long)r->low);
    if (least > 0 && memcmp(text.ptr, m.logs[r->which].known, least) != 0)
        world_fail("log %u is not what it was", r->which);
    for (size_t at = 0; at < text.len; at += TOKEN) {
        unsigned id, number;
        char token[TOKEN + 1] = "";

        memcpy(token, text.ptr + at, TOKEN);
        if (sscanf(token, "%2x%4x;", &id, &number) != 2 || id >= IDS)
            world_fail("log %u has '%s'", r->which, token);
        if (number != last[id] + 1u || number > m.logs[r->which].sent[id])
            world_fail("log %u: element %u of client %u comes behind %u", r->which, number, id,
                       last[id]);
        last[id] = (uint16_t)number;
    }
    for (unsigned i = 0; i < IDS; i++) {
        if (last[i] < r->lows[i])
            world_fail("log %u: element %u of client %u is missing", r->which, last[i] + 1, i);
    }
    if (text.len > known) {
        memcpy(m.logs[r->which].known, text.ptr, text.len);
        m.logs[r->which].len = text.len;
    }
}

static void take_value(const struct request *r, struct slice text, const uint32_t *sent,
                       uint32_t *known, const char *what)
{
    int64_t v = decimal(text);

    if (v < (int64_t)r->low || v > (int64_t)sent[r->other])
        world_fail("%s of client %u is %lld; %llu was there before, %u is the last", what, r->other,
                   (long long)v, (unsigned long long)r->low, sent[r->other]);
    known[r->other] = at_least(known[r->other], (uint32_t)v);
}

static uint32_t hexadecimal(struct slice text)
{
    char room[9] = "";

    if (text.len != 8 && text.len != 0)
        world_fail("a cell has %zu bytes", text.len);
    if (text.len > 0)
        memcpy(room, text.ptr, text.len);
    return (uint32_t)strtoul(room, NULL, 16);
}

static struct cas *find_cas(unsigned cell, uint32_t wanted)
{
    for (unsigned i = 0; i < m.cells[cell].count; i++) {
        if (m.cells[cell].all[i].wanted == wanted)
            return &m.cells[cell].all[i];
    }
    return NULL;
}

static void take_cas(unsigned id, const struct request *r, struct slice text)
{
    uint32_t now = hexadecimal(text);

    if (find_cas(r->which, now) == NULL)
        world_fail("cell %u is %08x, which nobody wanted", r->which, now);
    if (now == r->expected)
        world_fail("cell %u: %08x was refused, and is there", r->which, now);
    if (find_cas(r->which, now)->state == CAS_REFUSED)
        world_fail("cell %u is %08x, which was refused", r->which, now);
    find_cas(r->which, r->value)->state = now == r->value ? CAS_TOOK : CAS_REFUSED;
    m.cells[r->which].last[id] = now;
    if (now == r->value)
        m.told[id].cells[r->which] = now;
}

static void take_element(const struct request *r, int64_t before, struct slice text)
{
    uint32_t element;
    unsigned id, number;

    if (before == 0)
        return;
    element = hexadecimal(text);
    id = element >> 16;
    number = element & 0xffff;
    if (id >= IDS || number == 0 || number > m.queues[r->which].pushed[id])
        world_fail("queue %u: element %08x was pushed by nobody", r->which, element);
    if (m.queues[r->which].popped[id][number])
        world_fail("queue %u: element %08x was popped twice", r->which, element);
    if (number <= r->lows[id])
        world_fail("queue %u: element %08x comes behind %u", r->which, element, r->lows[id]);
    m.queues[r->which].popped[id][number] = true;
    m.queues[r->which].popped_last[id] =
        (uint16_t)at_least(m.queues[r->which].popped_last[id], number);
}

static void take_check(const struct request *r, int64_t number)
{
    bool both = m.flags[r->which].sent && m.flags[r->also].sent;

    if (number == 0 && !both)
        world_fail("keys %u and %u are said to be there, and were never set", r->which, r->also);
    if (number != 0 && r->is_there)
        world_fail("keys %u and %u are said not to be there", r->which, r->also);
    if (number == 0)
        m.flags[r->which].known = m.flags[r->also].known = true;
}

void model_waited(const struct request *r)
{
    if (!m.flags[r->which].sent || !m.flags[r->also].sent)
        world_fail("a WAIT for %u and %u has ended before they are there", r->which, r->also);
    m.flags[r->which].known = m.flags[r->also].known = true;
}

void model_answer(unsigned id, const struct request *r, struct slice first, struct slice second,
                  int64_t number)
{
    model_done(id);
    switch (r->kind) {
    case DO_ADD:
        take_count(r, number, true);
        m.told[id].counters[r->which] = (uint64_t)number;
        break;
    case DO_READ_COUNTER:
        take_count(r, decimal(first), false);
        break;
    case DO_READ_LOG:
        take_log(r, first);
        break;
    case DO_GET:
        take_value(r, first, m.values.sent, m.values.known, "the value");
        break;
    case DO_READ_PAIR:
        if (!slice_equal(first, second))
            world_fail("a pair of client %u is half set", r->other);
        take_value(r, first, m.pairs.sent, m.pairs.known, "the pair");
        break;
    case DO_CAS:
        take_cas(id, r, first);
        break;
    case DO_READ_CELL:
        m.cells[r->which].last[id] = hexadecimal(first);
        break;
    case DO_POP:
        take_element(r, number, first);
        break;
    case DO_WAIT:
        model_waited(r);
        break;
    case DO_CHECK:
        take_check(r, number);
        break;
    case DO_DELETE:
        if (number != r->is_there)
            world_fail("client %u: DELETE is answered %lld", id, (long long)number);
        m.own[id] = 0;
        break;
    case DO_BARRIER:
        if (m.entered[r->which] < m.participants)
            world_fail("barrier %u opens with %u of %u", r->which, m.entered[r->which],
                       m.participants);
        break;
    default:
        world_fail("the test expects no answer to %d", (int)r->kind);
    }
}

void model_lost(unsigned id, const struct request *r)
{
    (void)id;
    if (r->kind == DO_ADD)
        m.counters[r->which].lost++;
    else if (r->kind == DO_CAS)
        find_cas(r->which, r->value)->state = CAS_LOST;
    else if (r->kind == DO_POP)
        m.queues[r->which].pops_lost++;
}

/* --- What is gone. --- */

static struct slice read_numbered(model_read_fn *read, char kind, unsigned which)
{
    char key[16];

    snprintf(key, sizeof key, "/%c%u", kind, which);
    return read(key);
}

static bool is_older(model_read_fn *read, char kind, unsigned which, uint64_t told)
{
    return (uint64_t)decimal(read_numbered(read, kind, which)) < told;
}

/* Of the client's elements, so many were told. */
static bool log_is_short(model_read_fn *read, unsigned log, unsigned id)
{
    struct slice text = read_numbered(read, 'l', log);
    unsigned count = 0;

    for (size_t at = 0; at + TOKEN <= text.len; at += TOKEN) {
        unsigned whose;
        char token[3] = {(char)text.ptr[at], (char)text.ptr[at + 1]};

        count += sscanf(token, "%2x", &whose) == 1 && whose == id;
    }
    return count < m.logs[log].done[id];
}

/* True if `told` is missing in the chain of values that leads to the present one. */
static bool cell_is_older(model_read_fn *read, unsigned cell, uint32_t told)
{
    uint32_t at = hexadecimal(read_numbered(read, 'x', cell));

    for (unsigned steps = 0; at != 0 && at != told && steps < CAS_MOST; steps++) {
        const struct cas *c = find_cas(cell, at);

        if (c == NULL)
            world_fail("cell %u is %08x, which nobody wanted", cell, at);
        at = c->expected;
    }
    return at != told;
}

const char *model_missing(unsigned id, model_read_fn *read)
{
    if (is_older(read, 's', id, m.told[id].value))
        return "a SET";
    if (is_older(read, 'm', id, m.told[id].pair))
        return "a MULTI_SET";
    for (unsigned i = 0; i < COUNTERS; i++) {
        if (is_older(read, 'c', i, m.told[id].counters[i]))
            return "an ADD";
    }
    for (unsigned i = 0; i < LOGS; i++) {
        if (log_is_short(read, i, id))
            return "an APPEND";
    }
    for (unsigned i = 0; i < CELLS; i++) {
        if (m.told[id].cells[i] != 0 && cell_is_older(read, i, m.told[id].cells[i]))
            return "a COMPARE_SET";
    }
    for (unsigned i = 0; i < FLAGS; i++) {
        if (m.told[id].flags & 1u << i && read_numbered(read, 'f', i).len == 0)
            return "a SET of a key that is waited for";
    }
    return NULL;
}

/* --- The end. --- */

static void judge_counter(unsigned i)
{
    uint64_t unseen = m.counters[i].highest - m.counters[i].answered;

    if (m.counters[i].answered + m.counters[i].lost != m.counters[i].sent)
        world_fail("the test has lost count of counter %u", i);
    if (m.counters[i].highest < m.counters[i].answered || unseen > m.counters[i].lost)
        world_fail("counter %u is %llu; %llu were answered, of %llu nobody knows", i,
                   (unsigned long long)m.counters[i].highest,
                   (unsigned long long)m.counters[i].answered,
                   (unsigned long long)m.counters[i].lost);
}

/* All that took effect stand in one chain, from what the auditor has read back to nothing. */
static void judge_cell(unsigned i)
{
    unsigned took = 0, steps = 0;
    uint32_t at = m.cells[i].last[IDS - 1];

    while (at != 0) {
        const struct cas *c = find_cas(i, at);

        if (c == NULL || c->state == CAS_REFUSED || ++steps > CAS_MOST)
            world_fail("cell %u was %08x, which was refused", i, at);
        took += c->state == CAS_TOOK;
        at = c->expected;
    }
    for (unsigned k = 0; k < m.cells[i].count; k++)
        took -= m.cells[i].all[k].state == CAS_TOOK;
    if (took != 0)
        world_fail("cell %u: what took effect stands in no one order", i);
}

static void judge_queue(unsigned i)
{
    unsigned missing = 0;

    for (unsigned id = 0; id < IDS; id++) {
        for (unsigned n = 1; n <= m.queues[i].pushed_done[id]; n++)
            missing += !m.queues[i].popped[id][n];
    }
    if (missing > m.queues[i].pops_lost)
        world_fail("queue %u: %u elements are missing, and %u pops were lost", i, missing,
                   m.queues[i].pops_lost);
}

void model_judge(void)
{
    for (unsigned i = 0; i < COUNTERS; i++)
        judge_counter(i);
    for (unsigned i = 0; i < CELLS; i++)
        judge_cell(i);
    for (unsigned i = 0; i < QUEUES; i++)
        judge_queue(i);
}
