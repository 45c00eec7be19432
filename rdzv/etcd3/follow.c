/* Reads the log and its snapshot while this replica does not lead. See journal_etcd_internal.h. */
#include <inttypes.h>
#include <stdio.h>

#include "rdzv/engine/log.h"
#include "rdzv/etcd3/journal_etcd_internal.h"
#include "store/disk/crc32c.h"

/* GRPC_ANSWER_MAX has room for so many entries of the log, however long. */
#define ENTRIES_LEAST 8u

/* While an answer is shorter than this, more entries are read at a time; the limit keeps etcd from
 * using much memory when entries suddenly get long. */
#define SHORT_ANSWER ((size_t)1 << 20)
#define ENTRIES_MOST 128u
/* The leader's clock is off if it differs by more than this at so many checks. */
#define CLOCK_OFF_MS INT64_C(10000)
#define CLOCK_LOOKS  3u
#define FRESH_MS     2000u
/* Chunks of a snapshot. */
#define CHUNKS_AT_A_TIME 16

static journal_tell on_log, on_chunks;

struct slice journal_log_key(const struct journal_etcd *j, uint64_t index, char text[KEY_MAX])
{
    snprintf(text, KEY_MAX, "%slog/%016" PRIx64, j->prefix, index);
    return slice_str(text);
}

struct slice journal_chunk_key(const struct journal_etcd *j, const char *id, uint32_t chunk,
                               char text[KEY_MAX])
{
    snprintf(text, KEY_MAX, "%ssnap/%s/%08" PRIx32, j->prefix, id, chunk);
    return slice_str(text);
}

/* --- Asking. --- */

/* The leader, the end of the log, the place of its snapshot, and the next entries, all at one
 * revision: a transaction without a condition. take_newest() reads the answers in this order. The
 * range ends before `log0`, since `0` comes behind `/`. If memory is short, follow_pump() asks
 * again. */
static void ask_for_log(struct journal_etcd *j)
{
    char from[KEY_MAX], to[KEY_MAX];
    struct txn t;

    txn_init(&t);
    txn_get(&t.yes, slice_str(j->leader_key), (struct slice){0}, 0);
    txn_get(&t.yes, slice_str(j->head_key), (struct slice){0}, 0);
    txn_get(&t.yes, slice_str(j->pointer_key), (struct slice){0}, 0);
    snprintf(to, sizeof to, "%slog0", j->prefix);
    txn_get(&t.yes, journal_log_key(j, j->log.at.index + 1, from), slice_str(to), j->log.entries);
    if (txn_write(&t, &j->step.request))
        journal_send(j, &j->step, &etcd_txn, on_log, TRY_MS * 5);
}

static void ask_for_chunks(struct journal_etcd *j)
{
    Etcd3__RangeRequest r = ETCD3__RANGE_REQUEST__INIT;
    char from[KEY_MAX], to[KEY_MAX];

    journal_chunk_key(j, j->log.pointer.id, j->log.chunk, from);
    journal_chunk_key(j, j->log.pointer.id, j->log.pointer.chunks, to);
    r.key = (ProtobufCBinaryData){strlen(from), (uint8_t *)from};
    r.range_end = (ProtobufCBinaryData){strlen(to), (uint8_t *)to};
    r.limit = CHUNKS_AT_A_TIME;
    if (message_write(&j->step.request, &r.base))
        journal_send(j, &j->step, &etcd_range, on_chunks, TRY_MS * 5);
}

void follow_pump(struct journal_etcd *j)
{
    if (grpc_is_under_way(&j->step.call) || j->log.restart_ms != 0 ||
        journal_now_ms(j) < j->step_ms)
        return;
    if (j->state == JOURNAL_LOADS)
        ask_for_chunks(j);
    else if (j->state == JOURNAL_FOLLOWS || j->state == JOURNAL_CATCHES_UP)
        ask_for_log(j);
}

/* This version cannot read the log in etcd, or the log is damaged: the replica uses nothing of it,
 * and repairs nothing. Some time later it starts again, in case a person has repaired the log. */
static bool refuse_log(struct journal_etcd *j, const char *why)
{
    log_event(LOG_ERROR, "journal_unreadable", log_str("journal", j->options.config->url),
              log_u64("index", j->log.at.index + 1), log_str("reason", why),
              log_str("detail", j->log.recovery.fault));
    journal_note_unusable(j, why);
    j->log.restart_ms = journal_now_ms(j) + AGAIN_MS * 5;
    return false;
}

/* A replica of a newer release leads. The state of this replica is valid up to its last entry, and
 * relayed clients may stay: this replica waits for its upgrade. */
static bool wait_for_upgrade(struct journal_etcd *j)
{
    static const char why[] = "a newer rdzvd writes the log: upgrade this replica";

    if (!j->log.is_outdated)
        log_event(LOG_ERROR, "journal_unreadable", log_str("journal", j->options.config->url),
                  log_u64("index", j->log.at.index + 1), log_str("reason", why));
    j->log.is_outdated = true;
    journal_note_unusable(j, why);
    j->step_ms = journal_now_ms(j) + AGAIN_MS * 5;
    return false;
}

/* Refuses a value of the log. `none` is the reason if the value fits no version at all. */
static bool refuse_log_value(struct journal_etcd *j, enum log_fault fault, const char *none)
{
    return fault == LOG_IS_NEWER ? wait_for_upgrade(j) : refuse_log(j, none);
}

/* --- Entries. --- */

void follow_note_entry(struct journal_etcd *j, uint64_t epoch, uint32_t chain, uint64_t batch,
                       size_t bytes)
{
    j->log.at = (struct log_head){j->log.at.index + 1, epoch};
    j->log.chain = chain;
    j->log.batch = batch;
    j->stats.index = j->log.at.index;
    j->stats.bytes_behind += bytes;
}

static bool take_entry(struct journal_etcd *j, const Etcd3__KeyValue *kv)
{
    struct log_entry entry;
    enum log_fault fault = entry_decode(slice_of_pb(kv->value), &entry);
    struct slice batch;
    uint32_t chain;

    if (fault != LOG_IS_FINE)
        return refuse_log_value(j, fault, "an entry of the log is none");
    chain = entry_chain(j->log.chain, &entry);
    if (chain != entry.chain || entry.epoch < j->log.at.epoch)
        return refuse_log(j, "an entry of the log does not follow on the one before");
    if (entry.begins)
        stream_drop(&j->log.stream, j->log.stream.len);
    if (!stream_put(&j->log.stream, entry.bytes))
        return refuse_log(j, "memory is short");
    while (stream_next(&j->log.stream, &batch)) {
        if (!recovery_take_batch(&j->log.recovery, j->log.batch + 1, batch))
            return refuse_log(j, "a batch of the log cannot be applied");
        j->log.batch++;
    }
    follow_note_entry(j, entry.epoch, chain, j->log.batch, kv->value.len);
    return true;
}

/* False: reading further is useless now. */
static bool take_entries(struct journal_etcd *j, const Etcd3__RangeResponse *r)
{
    for (size_t i = 0; i < r->n_kvs; i++) {
        char key[KEY_MAX];

        if (!slice_equal(slice_of_pb(r->kvs[i]->key), journal_log_key(j, j->log.at.index + 1, key)))
            return refuse_log(j, "an entry of the log is missing");
        if (!take_entry(j, r->kvs[i]))
            return false;
    }
    return true;
}

/* --- What was seen. --- */

static void note_leader(struct journal_etcd *j, const Etcd3__KeyValue *leader)
{
    char who[WHO_MAX] = "";

    if (leader != NULL)
        snprintf(who, sizeof who, "%.*s", (int)(leader->value.len < 300 ? leader->value.len : 300),
                 (const char *)leader->value.data);
    if (strcmp(who, j->log.leader) == 0)
        return;
    memcpy(j->log.leader, who, sizeof who);
    journal_note_reason(j);
    if (who[0] == '\0' || j->state != JOURNAL_FOLLOWS)
        return;
    log_event(LOG_INFO, "standing_by", log_str("journal", j->options.config->url),
              log_str("leader", who), log_u64("index", j->log.at.index));
    if (j->options.follows != NULL)
        j->options.follows(j->options.arg, who);
}

/* The entries after our position have been removed: start again from the snapshot. */
static void end_overtaken(struct journal_etcd *j, const char *why)
{
    log_event(LOG_WARN, "journal_overtaken", log_str("journal", j->options.config->url),
              log_u64("index", j->log.at.index), log_str("reason", why),
              log_str("action", JOURNAL_RESTART));
    journal_end(j);
}

/* True if a snapshot must be loaded first. A replica that has read entries needs no snapshot as
 * long as the next entry still exists. */
static bool begins_to_load(struct journal_etcd *j, const Etcd3__RangeResponse *entries)
{
    char next[KEY_MAX];

    if (j->log.pointer.at.index <= j->log.at.index)
        return false;
    if (j->log.at.index > 0) {
        if (entries->n_kvs > 0 && slice_equal(slice_of_pb(entries->kvs[0]->key),
                                              journal_log_key(j, j->log.at.index + 1, next)))
            return false;
        end_overtaken(j, "the log that comes next was replaced by a snapshot");
        return true;
    }
    journal_enter(j, JOURNAL_LOADS);
    j->log.chunk = j->log.chunks_checksum = 0;
    j->log.chunk_bytes = 0;
    return true;
}

void follow_note_snapshot(struct journal_etcd *j, const struct snapshot_pointer *pointer)
{
    j->log.pointer = *pointer;
    j->stats.snapshot_bytes = pointer->bytes;
}

static bool take_pointer(struct journal_etcd *j, const Etcd3__KeyValue *kv)
{
    struct snapshot_pointer pointer = {0};
    enum log_fault fault =
        kv == NULL ? LOG_IS_FINE : pointer_decode(slice_of_pb(kv->value), &pointer);

    if (fault != LOG_IS_FINE)
        return refuse_log_value(j, fault,
                                "the snapshot's key says nothing that this version knows");
    follow_note_snapshot(j, &pointer);
    return true;
}

/* Estimates how far the leader's clock is ahead. If this replica had the whole log a moment ago,
 * new batches were made since then, and each has the leader's time. A slow member of etcd may
 * return a batch late now and then, but not in every read. */
static void note_batches(struct journal_etcd *j)
{
    uint64_t now_ms = lease_now_ms();
    int64_t wall_ms = engine_wall_ns(j->engine) / 1000000;
    int64_t made_ms = j->log.recovery.last_ns / 1000000, ahead_ms = 0;

    if (j->log.whole_ms == 0 || now_ms - j->log.whole_ms > FRESH_MS) {
        j->log.batch_seen_ms = 0;
        return;
    }
    j->log.batch_seen_ms = now_ms;
    if (made_ms - wall_ms > CLOCK_OFF_MS)
        ahead_ms = made_ms - wall_ms;
    else if (j->log.whole_wall_ms - made_ms > CLOCK_OFF_MS)
        ahead_ms = made_ms - j->log.whole_wall_ms;
    j->log.clock_off_looks = ahead_ms == 0 ? 0 : j->log.clock_off_looks + 1;
    if (j->log.clock_off_looks == CLOCK_LOOKS)
        log_event(LOG_WARN, "clock_differs", log_str("journal", j->options.config->url),
                  log_str("leader", j->log.leader), log_i64("ahead_ms", ahead_ms),
                  log_str("hint", "set the clocks of all replicas, by NTP say: TTLs end by the "
                                  "clock of the one that leads"));
}

/* This replica has applied everything that was committed at the time of the answer. */
static void caught_up(struct journal_etcd *j, const Etcd3__KeyValue *leader)
{
    j->log.whole_ms = lease_now_ms();
    j->log.whole_wall_ms = engine_wall_ns(j->engine) / 1000000;
    if (j->state == JOURNAL_CATCHES_UP) {
        if (!lead_is_ours(j, leader))
            return;
        journal_enter(j, JOURNAL_BEGINS);
    } else if (leader == NULL) {
        journal_enter(j, JOURNAL_ASKS);
    } else {
        j->step_ms = journal_now_ms(j) + LOOK_MS;
    }
}

static void take_newest(struct journal_etcd *j, const Etcd3__TxnResponse *t)
{
    const Etcd3__KeyValue *leader = txn_key(t, 0), *head = txn_key(t, 1);
    const Etcd3__RangeResponse *entries = txn_range(t, 3);
    struct log_head end = {0};
    uint64_t batch = j->log.batch;

    if (entries == NULL || (head != NULL && !head_decode(slice_of_pb(head->value), &end))) {
        refuse_log(j, "the key of the log's head says nothing that this version knows");
        return;
    }
    if (t->header != NULL)
        j->stats.cluster = t->header->cluster_id;
    note_leader(j, leader);
    if (end.index < j->log.at.index) {
        log_event(
            LOG_ERROR, "journal_went_back", log_str("journal", j->options.config->url),
            log_u64("index", j->log.at.index),
            log_str(
                "reason",
                "the log in etcd is shorter than before: etcd was restored, or keys were removed"),
            log_str("action", JOURNAL_RESTART));
        journal_end(j);
        return;
    }
    if (!take_pointer(j, txn_key(t, 2)) || begins_to_load(j, entries) || !take_entries(j, entries))
        return;
    if (j->log.batch != batch)
        note_batches(j);
    if (j->log.at.index == end.index && j->log.at.epoch == end.epoch)
        caught_up(j, leader);
    else if (entries->n_kvs == 0)
        refuse_log(j, "an entry of the log is missing, and no snapshot has it");
}

/* Reads more entries at a time while answers are full and short. */
static void adapt_entries(struct journal_etcd *j, const struct grpc_answer *a,
                          const Etcd3__TxnResponse *t)
{
    const Etcd3__RangeResponse *entries = t == NULL ? NULL : txn_range(t, 3);

    if (entries == NULL || entries->n_kvs < j->log.entries || a->message.len > SHORT_ANSWER)
        j->log.entries = ENTRIES_LEAST;
    else if (j->log.entries < ENTRIES_MOST)
        j->log.entries *= 2;
}

static void on_log(struct journal_etcd *j, const struct grpc_answer *a, const void *answer)
{
    adapt_entries(j, a, answer);
    if (answer == NULL) {
        j->step_ms = journal_now_ms(j) + journal_pause_ms(a, journal_note_failure(j, a));
        return;
    }
    journal_note_success(j);
    take_newest(j, answer);
}

/* --- The snapshot. --- */

static bool take_chunk(struct journal_etcd *j, const Etcd3__KeyValue *kv)
{
    const struct slice bytes = slice_of_pb(kv->value);
    char key[KEY_MAX];
    struct slice part;

    if (!slice_equal(slice_of_pb(kv->key),
                     journal_chunk_key(j, j->log.pointer.id, j->log.chunk, key)))
        return refuse_log(j, "a chunk of the snapshot is missing");
    if (!stream_put(&j->log.stream, bytes))
        return refuse_log(j, "memory is short");
    while (stream_next(&j->log.stream, &part)) {
        if (!recovery_take_snapshot(&j->log.recovery, part))
            return refuse_log(j, "a part of the snapshot cannot be loaded");
    }
    j->log.chunk++;
    j->log.chunk_bytes += bytes.len;
    j->log.chunks_checksum = crc32c(j->log.chunks_checksum, bytes.ptr, bytes.len);
    return true;
}

static void end_of_snapshot(struct journal_etcd *j)
{
    const struct snapshot_pointer *p = &j->log.pointer;

    if (j->log.chunk < p->chunks)
        return;
    if (j->log.chunk_bytes != p->bytes || j->log.chunks_checksum != p->checksum ||
        j->log.stream.len != 0) {
        refuse_log(j, "the snapshot is damaged");
        return;
    }
    j->log.at = p->at;
    j->log.chain = p->chain;
    j->log.batch = p->batch;
    j->stats.index = p->at.index;
    journal_enter(j, JOURNAL_FOLLOWS);
}

static void on_chunks(struct journal_etcd *j, const struct grpc_answer *a, const void *answer)
{
    const Etcd3__RangeResponse *r = answer;

    if (r == NULL) {
        j->step_ms = journal_now_ms(j) + journal_pause_ms(a, journal_note_failure(j, a));
        return;
    }
    if (r->n_kvs == 0) {
        end_overtaken(j, "the snapshot was replaced during the read");
        return;
    }
    journal_note_success(j);
    for (size_t i = 0; i < r->n_kvs; i++) {
        if (!take_chunk(j, r->kvs[i]))
            return;
    }
    end_of_snapshot(j);
}

/* --- Beginning and end. --- */

void follow_begin(struct journal_etcd *j)
{
    j->log.entries = ENTRIES_LEAST;
    recovery_begin(&j->log.recovery, j->engine);
}

/* Since the last batch came, where that was seen: this replica's wall clock may not be that of the
 * leader before. */
static uint64_t since_last_batch_ms(const struct journal_log *log)
{
    return log->batch_seen_ms != 0 ? lease_now_ms() - log->batch_seen_ms
                                   : recovery_away_ms(&log->recovery);
}

void follow_note_leading(struct journal_etcd *j)
{
    struct journal_log *log = &j->log;

    stream_drop(&log->stream, log->stream.len);
    recovery_end(&log->recovery, log->batch);
    j->engine->found = (struct engine_found){.any = log->batch != 0,
                                             .away_ms = since_last_batch_ms(log),
                                             .away_by_wall_ms = recovery_away_ms(&log->recovery)};
    memcpy(log->leader, j->who, sizeof log->leader);
}
