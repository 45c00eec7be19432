/* Lets the clients of a process do a work: in lock step (closed loop), at a rate (open loop), or
 * once. See bench.h.
 *
 * Latency counts from the moment at which an exchange should have begun: at a rate, also while an
 * earlier one of the same client is late, so that a server that stalls hides nothing. */
#include "tests/bench/bench.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#define TURN_NS 20000000u

/* Sends an exchange that should begin at `since_ns`. False: the client is done. */
static bool begin(struct client *c, uint64_t since_ns)
{
    const struct work *w = bench.work;
    struct writer *out = &c->wire->out;
    size_t at = out->len;
    bool more = true;

    if (c->sent_ns != NULL)
        c->sent_ns[(c->oldest + c->due) % bench.options.depth] = since_ns;
    else
        c->since_ns = since_ns;
    if (c->same != NULL)
        ask_bytes(c, c->same, c->same_len);
    else
        more = w->next(c, (struct slice){0});
    if (c->same == NULL && w->flags & WORK_SAME && bench.options.relays == 0) {
        c->same_len = (uint32_t)(out->len - at);
        c->same = need(malloc(c->same_len));
        memcpy(c->same, out->ptr + at, c->same_len);
    }
    c->step++;
    c->due++;
    bench.begun++;
    return more;
}

static void note_exchange(struct client *c)
{
    uint64_t since = c->sent_ns != NULL ? c->sent_ns[c->oldest] : c->since_ns;

    if (c->due == 0)
        errx(1, "more answers than requests");
    if (c->sent_ns != NULL)
        c->oldest = (c->oldest + 1) % bench.options.depth;
    c->due--;
    if (bench.work->flags & WORK_PARKS)
        since = *bench.woken_ns;
    hist_add(&bench.result->latency, bench.now_ns - since);
    bench.result->exchanges++;
}

static bool is_open_loop(void)
{
    return bench.work->flags & WORK_RESTS ||
           (bench.work->flags & WORK_REPEATS && bench.options.rate > 0);
}

/* The time between two exchanges of one client. */
static uint64_t period_ns(void)
{
    return bench.work->flags & WORK_RESTS
               ? 1000000000
               : (uint64_t)(1e9 * bench.options.clients / bench.options.rate);
}

static void answered_repeat(struct client *c)
{
    note_exchange(c);
    if (is_open_loop()) {
        if (c->late > 0) {
            c->late--;
            begin(c, c->since_ns + period_ns());
        } else {
            bench.pending--;
        }
    } else if (bench.now_ns < bench.until_ns && bench.begun < bench.exchanges_max) {
        begin(c, bench.now_ns);
    } else if (c->due == 0) {
        bench.pending--;
    }
}

void client_answered(struct client *c, struct slice answer)
{
    if (c->agent != NULL) {
        agent_answered(c, answer);
        return;
    }
    if (c->work == NULL)
        errx(1, "an answer to no request");
    if (c->work->flags & (WORK_REPEATS | WORK_RESTS)) {
        answered_repeat(c);
        return;
    }
    if (c->work->next(c, answer)) {
        c->step++;
        return;
    }
    note_exchange(c);
    bench.pending--;
}

/* One exchange of each client, unless there are enough. */
static void start_clients(bool first)
{
    for (unsigned i = 0; i < bench.client_count && bench.begun < bench.exchanges_max; i++) {
        struct client *c = &bench.clients[i];

        bench.pending += first;
        if (!begin(c, bench.work->flags & WORK_REPEATS ? clock_ns() : bench.began_ns)) {
            note_exchange(c);
            bench.pending--;
        }
        if (i + 1 == bench.client_count || c->wire != bench.clients[i + 1].wire ||
            bench.begun == bench.exchanges_max)
            wire_flush(c->wire);
        if (i % 64 == 63 && bench.options.depth == 1)
            wires_turn(0);
    }
}

void drive_finish(void)
{
    while (bench.pending > 0)
        wires_turn(TURN_NS);
}

/* The client whose turn is the k-th: the clients of a relay follow each other, or (--scatter) each
 * of them acts at another time. */
static struct client *in_turn(uint64_t k)
{
    unsigned at = (unsigned)(k % bench.client_count);

    if (bench.options.scatter && bench.options.relays > 0)
        at = (unsigned)((uint64_t)at * bench.wires[0].count % bench.client_count +
                        (uint64_t)at * bench.wires[0].count / bench.client_count) %
             bench.client_count;
    return &bench.clients[at];
}

static void run_at_rate(void)
{
    double gap = (double)period_ns() / bench.client_count;
    struct wire *unsent = NULL;

    for (uint64_t k = 0;; k++) {
        uint64_t due = bench.began_ns + (uint64_t)(gap * (double)k);
        struct client *c = in_turn(k);

        if (unsent != NULL && (due > bench.now_ns || unsent != c->wire)) {
            wire_flush(unsent);
            unsent = NULL;
        }
        while (bench.now_ns < due)
            wires_turn(due - bench.now_ns < TURN_NS ? due - bench.now_ns : TURN_NS);
        if (due >= bench.until_ns || bench.begun >= bench.exchanges_max)
            break;
        if (c->due > 0) {
            c->late++;
            continue;
        }
        bench.pending++;
        begin(c, due);
        unsent = c->wire;
        if (k % 64 == 63)
            wires_turn(0);
    }
    if (unsent != NULL)
        wire_flush(unsent);
    drive_finish();
}

static void run_agents(uint64_t ns)
{
    const char *name = bench.work->name;

    if (strcmp(name, "join") == 0)
        agents_start();
    if (strcmp(name, "again") == 0)
        agents_again();
    if (strcmp(name, "steady") == 0)
        while (bench.now_ns < bench.began_ns + ns)
            wires_turn(TURN_NS);
    else
        while (!agents_train())
            wires_turn(TURN_NS / 4);
}

/* The exchanges of a client differ between two works. */
static void prepare_clients(void)
{
    for (unsigned i = 0; i < bench.client_count; i++) {
        struct client *c = &bench.clients[i];
        bool ring = bench.work->flags & WORK_REPEATS && bench.options.depth > 1;

        free(c->same);
        free(c->sent_ns);
        c->same = NULL;
        c->sent_ns = ring ? need(calloc(bench.options.depth, sizeof *c->sent_ns)) : NULL;
        c->work = bench.work;
        c->step = c->oldest = 0;
    }
}

void drive_run(uint64_t ns)
{
    bench.begun = bench.pending = 0;
    bench.now_ns = bench.began_ns = clock_ns();
    bench.until_ns = bench.began_ns + ns;
    if (bench.work->flags & WORK_AGENTS) {
        run_agents(ns);
        return;
    }
    prepare_clients();
    if (bench.client_count > 0 && is_open_loop())
        run_at_rate();
    else
        for (unsigned k = 0; k < (bench.work->flags & WORK_REPEATS ? bench.options.depth : 1); k++)
            start_clients(k == 0);
    if ((bench.work->flags & WORK_PARKS) == 0)
        drive_finish();
}
