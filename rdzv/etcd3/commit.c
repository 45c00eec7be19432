/* The leader's commits: one transaction at a time. See journal_etcd_internal.h. */
#include "rdzv/engine/log.h"
#include "rdzv/etcd3/journal_etcd_internal.h"
#include "rdzv/net/net.h"
#include "store/memory/account.h"

/* Clients do not notice that a transaction has waited this long for more changes. */
#define WAIT_MOST_NS UINT64_C(2000000)

/* After a wait in vain, this many transactions do not wait. */
#define RESTS 64u

static journal_tell on_commit;

/* --- Waiting for more changes. --- */

void coalesce_take(struct coalesce *c, uint64_t changes)
{
    c->taken += changes;
}

void coalesce_send(struct coalesce *c, bool all)
{
    c->last = all ? c->taken - c->sent : 0;
    c->sent = c->taken;
    c->wanted = 0;
}

/* A client that is the only one sends one change at a time: no further change follows it. */
void coalesce_answer(struct coalesce *c, uint64_t took_ns, uint64_t now_ns)
{
    uint64_t there = c->taken - c->sent;

    if (c->resting > 0)
        c->resting--;
    else if (c->last > 0 && c->last + there > 1)
        c->wanted = c->taken + c->last;
    c->until_ns = now_ns + (took_ns < WAIT_MOST_NS ? took_ns : WAIT_MOST_NS);
}

bool coalesce_waits(struct coalesce *c, uint64_t now_ns)
{
    if (c->wanted == 0)
        return false;
    if (c->taken < c->wanted && now_ns < c->until_ns)
        return true;
    if (c->taken < c->wanted)
        c->resting = RESTS;
    c->wanted = 0;
    return false;
}

/* --- Taking. --- */

uint64_t commit_take(void *arg, struct batch *batch)
{
    struct journal_etcd *j = arg;
    struct pending *p;

    if (j->state != JOURNAL_LEADS)
        return 0; /* it is over, and nobody is answered */
    coalesce_take(&j->commit.coalesce, j->engine->batch_changes);
    p = pending_new(&j->commit.spare, batch);
    TAILQ_INSERT_TAIL(&j->commit.pending, p, entry);
    j->stats.pending_batches++;
    j->stats.pending_bytes += p->bytes.len;
    if (j->commit.spare == NULL || j->stats.pending_bytes > ENTRY_MAX)
        journal_note_reason(j);
    commit_pump(j);
    return 0;
}

/* --- Making an entry. --- */

/* A piece of the stream of pending batches, from the first that is not committed. */
struct piece {
    uint8_t *out; /* NULL: it is only measured */
    size_t len, max;
    uint64_t batch; /* the last that ends in it; 0: none */
};

static void add_to_piece(struct piece *p, struct slice bytes, size_t *skip)
{
    size_t skipped = *skip < bytes.len ? *skip : bytes.len;
    size_t len = bytes.len - skipped < p->max - p->len ? bytes.len - skipped : p->max - p->len;

    *skip -= skipped;
    if (p->out != NULL)
        memcpy(p->out + p->len, bytes.ptr + skipped, len);
    p->len += len;
}

static void cut_piece(const struct journal_etcd *j, struct piece *p)
{
    uint64_t limit = snapshot_out_limit(j);
    size_t skip = j->commit.cut;

    TAILQ_EACH(const struct pending, pending, &j->commit.pending, entry) {
        uint8_t length[STREAM_LENGTH];
        size_t whole = STREAM_LENGTH + pending->bytes.len - skip, before = p->len;

        if (pending->number > limit || p->len == p->max)
            break;
        bytes_put_u32(length, (uint32_t)pending->bytes.len);
        add_to_piece(p, (struct slice){length, sizeof length}, &skip);
        add_to_piece(p, pending->bytes, &skip);
        if (p->len - before < whole)
            break;
        p->batch = pending->number;
    }
}

/* Writes the transaction of the next entry. False: memory is short; the caller tries again. */
static bool write_commit(struct journal_etcd *j, struct slice value, uint64_t index)
{
    const struct log_head next = {index, (uint64_t)j->lease.epoch};
    char before[HEAD_TEXT], after[HEAD_TEXT], key[KEY_MAX];
    const struct slice leader = slice_str(j->leader_key), head = slice_str(j->head_key);
    struct txn t;

    head_encode(&j->log.at, before);
    head_encode(&next, after);
    txn_init(&t);
    txn_if_created(&t, leader, j->lease.epoch);
    if (j->log.at.index == 0)
        txn_if_created(&t, head, 0);
    else
        txn_if_value(&t, head, slice_str(before));
    txn_put(&t.yes, journal_log_key(j, index, key), value, 0);
    txn_put(&t.yes, head, slice_str(after), 0);
    txn_get(&t.no, leader, (struct slice){0}, 0);
    txn_get(&t.no, head, (struct slice){0}, 0);
    return txn_write(&t, &j->commit.call.request);
}

/* True: there is an entry to be sent. */
static bool make_entry(struct journal_etcd *j)
{
    struct log_entry entry = {.version = ENTRY_VERSION_MAX,
                              .epoch = (uint64_t)j->lease.epoch,
                              .begins = j->state == JOURNAL_BEGINS};
    struct piece piece = {.max = j->fault.entry_max};
    uint8_t *value;
    bool ok;

    cut_piece(j, &piece);
    if (piece.len == 0 && !entry.begins)
        return false;
    value = account_alloc(ACCOUNT_JOURNAL, ENTRY_HEADER + piece.len);
    if (value == NULL)
        return false;
    piece = (struct piece){.out = value + ENTRY_HEADER, .max = piece.len};
    cut_piece(j, &piece);
    entry.bytes = (struct slice){value + ENTRY_HEADER, piece.len};
    entry.chain = entry_chain(j->log.chain, &entry);
    entry_encode(&entry, value);
    ok = write_commit(j, (struct slice){value, ENTRY_HEADER + piece.len}, j->log.at.index + 1);
    account_free(ACCOUNT_JOURNAL, value, ENTRY_HEADER + piece.max);
    j->commit.chain = entry.chain;
    j->commit.bytes = piece.len;
    j->commit.batch = piece.batch;
    if (ok)
        coalesce_send(&j->commit.coalesce,
                      TAILQ_EMPTY(&j->commit.pending) ||
                          TAILQ_LAST(&j->commit.pending, pending_list)->number == piece.batch);
    return ok;
}

/* The next entry waits for more changes, up to its time limit: if its timer cannot be set, the
 * journal's own timer ends the wait. */
static bool waits_for_more(struct journal_etcd *j)
{
    uint64_t now_ns = clock_monotonic_ns(j->engine->options.clock);

    if (j->state != JOURNAL_LEADS || !coalesce_waits(&j->commit.coalesce, now_ns))
        return false;
    if (!TAILQ_EMPTY(&j->commit.pending) && !evtimer_pending(&j->commit.coalesced, NULL))
        net_set_timer(&j->commit.coalesced, (j->commit.coalesce.until_ns - now_ns) / 1000 + 1);
    return true;
}

void commit_pump(struct journal_etcd *j)
{
    struct journal_commit *c = &j->commit;

    if (grpc_is_under_way(&c->call.call) || journal_now_ms(j) < c->again_ms || !j->connection.up)
        return;
    if (!c->open) {
        if (waits_for_more(j))
            return;
        c->open = make_entry(j);
        if (!c->open)
            return;
        c->tries = c->lost = 0;
        c->began_ms = journal_now_ms(j);
        c->began_ns = clock_monotonic_ns(j->engine->options.clock);
    }
    journal_send(j, &c->call, &etcd_txn, on_commit, TRY_MS);
    if (!grpc_is_under_way(&c->call.call))
        return;
    j->stats.repeats += c->tries > 0;
    c->tries++;
}

/* --- What came of it. --- */

/* Those that end in what was committed. */
static void drop_pending(struct journal_etcd *j)
{
    struct pending *p;

    j->commit.cut += j->commit.bytes;
    while ((p = TAILQ_FIRST(&j->commit.pending)) != NULL && p->number <= j->commit.batch) {
        TAILQ_REMOVE(&j->commit.pending, p, entry);
        j->commit.cut -= STREAM_LENGTH + p->bytes.len;
        j->stats.pending_batches--;
        j->stats.pending_bytes -= p->bytes.len;
        j->stats.batches++;
        j->stats.bytes += p->bytes.len;
        pending_free(p);
    }
}

static void begin_to_lead(struct journal_etcd *j)
{
    journal_enter(j, JOURNAL_LEADS);
    follow_note_leading(j);
    log_event(LOG_INFO, "leading", log_str("journal", j->options.config->url),
              log_u64("index", j->log.at.index), log_u64("epoch", (uint64_t)j->lease.epoch),
              log_u64("batches", j->log.recovery.batches),
              log_u64("away_ms", j->engine->found.away_ms));
    journal_note_reason(j);
    j->options.leads(j->options.arg);
    if (j->log.batch ==
        0) /* what shows batch 0 could be told without a lease: see vouch_for_lease() */
        engine_commit_time(j->engine);
}

static void note_committed(struct journal_etcd *j)
{
    struct journal_commit *c = &j->commit;
    uint64_t took_ns = clock_monotonic_ns(j->engine->options.clock) - c->began_ns;

    drop_pending(j);
    follow_note_entry(j, (uint64_t)j->lease.epoch, c->chain,
                      c->batch != 0 ? c->batch : j->log.batch, c->bytes);
    j->stats.commits++;
    if (took_ns > j->stats.slowest_ns)
        j->stats.slowest_ns = took_ns;
    coalesce_answer(&j->commit.coalesce, took_ns, c->began_ns + took_ns);
    c->open = c->refused = false;
    c->again_ms = 0;
    journal_note_success(j);
    snapshot_out_note(j);
    if (j->state == JOURNAL_BEGINS)
        begin_to_lead(j);
}

static void report_conflict(struct journal_etcd *j)
{
    log_event(
        LOG_ERROR, "journal_conflict", log_str("journal", j->options.config->url),
        log_u64("index", j->log.at.index),
        log_str("reason", "a process that does not lead has written to the journal's keys in etcd"),
        log_str("action", JOURNAL_RESTART));
    journal_end(j);
}

/* The comparisons did not hold: an earlier copy has done it, or we are not the leader. */
static void commit_refused(struct journal_etcd *j, const Etcd3__TxnResponse *t)
{
    const Etcd3__KeyValue *leader = txn_key(t, 0), *head = txn_key(t, 1);
    struct log_head now = {0};

    if (!lead_is_ours(j, leader))
        return;
    if (head != NULL && head_decode(slice_of_pb(head->value), &now) && j->commit.tries > 1 &&
        now.index == j->log.at.index + 1 && now.epoch == (uint64_t)j->lease.epoch)
        note_committed(j);
    else
        report_conflict(j);
}

static void commit_failed(struct journal_etcd *j, const struct grpc_answer *a)
{
    struct journal_commit *c = &j->commit;

    if (!journal_note_failure(j, a)) {
        c->lost++;
        c->again_ms = journal_now_ms(j) + (c->lost > 1 ? BUSY_MS : 0);
    } else if (c->lost == 0 && journal_shrink(j, a, c->bytes)) {
        /* Etcd takes less than this entry, so it is made again, smaller. If a copy may have been
         * taken, it is sent as it is. */
        c->open = false;
    } else {
        bool is_busy = a->code == 2 || a->code == 16 || strstr(a->text, "auth store") != NULL;

        c->refused = c->refused || !is_busy;
        c->again_ms = journal_now_ms(j) + (is_busy ? BUSY_MS : AGAIN_MS);
    }
}

static void on_commit(struct journal_etcd *j, const struct grpc_answer *a, const void *answer)
{
    const Etcd3__TxnResponse *t = answer;

    if (t == NULL)
        commit_failed(j, a);
    else if (t->succeeded)
        note_committed(j);
    else
        commit_refused(j, t);
}

/* --- Beginning and end. --- */

static void on_coalesced(evutil_socket_t, short, void *arg)
{
    commit_pump(arg);
}

void commit_begin(struct journal_etcd *j)
{
    TAILQ_INIT(&j->commit.pending);
    evtimer_assign(&j->commit.coalesced, j->options.base, on_coalesced, j);
}

void commit_end(struct journal_etcd *j)
{
    evtimer_del(&j->commit.coalesced);
    pending_free_all(&j->commit.pending);
    account_free(ACCOUNT_JOURNAL, j->commit.spare, sizeof *j->commit.spare);
    message_fini(&j->commit.call.request);
}
