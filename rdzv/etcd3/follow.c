/* Reading the log and its snapshot, while this replica does not lead. See journal_etcd_internal.h.
 */
#include <stdio.h>

#include "rdzv/engine/log.h"
#include "rdzv/etcd3/journal_etcd_internal.h"
#include "store/disk/crc32c.h"

/* More entries are read at a time while an answer is shorter than this; but no more than etcd has
 * memory for if they are long all of a sudden. */
#define SHORT_ANSWER ((size_t)1 << 20)
#define ENTRIES_MOST 128u
/* The leader's clock is off by more than this, in so many looks. */
#define CLOCK_OFF_MS INT64_C(10000)
#define CLOCK_LOOKS  3u
#define FRESH_MS     2000u
/* Chunks of a snapshot. */
#define CHUNKS_AT_A_TIME 16

static void on_look(void *arg, const struct grpc_answer *a);
static void on_chunks(void *arg, const struct grpc_answer *a);

/* --- Asking. --- */

/* Who leads, where the log ends, which snapshot there is, and the next entries: as they were at one
 * moment. */
static void look(struct journal_etcd *j)
{
    char from[KEY_MAX], to[KEY_MAX];
    struct txn t;

    txn_init(&t);
    txn_get(&t.yes, slice_str(j->leader_key), (struct slice){0}, 0);
    txn_get(&t.yes, slice_str(j->head_key), (struct slice){0}, 0);
    txn_get(&t.yes, slice_str(j->pointer_key), (struct slice){0}, 0);
    snprintf(to, sizeof to, "%slog0", j->prefix);
    txn_get(&t.yes, journal_log_key(j, j->at.index + 1, from), slice_str(to), j->entries);
    j->step_call.tell = on_look;
    j->step_call.arg = j;
    if (txn_write(&t, &j->step))
        journal_call(j, &j->step_call, TXN_PATH, &j->step, TRY_MS * 5);
}

static void ask_for_chunks(struct journal_etcd *j)
{
    Etcd3__RangeRequest r = ETCD3__RANGE_REQUEST__INIT;
    char from[KEY_MAX], to[KEY_MAX];

    journal_chunk_key(j, j->pointer.id, j->chunk, from);
    journal_chunk_key(j, j->pointer.id, j->pointer.chunks, to);
    r.key = (ProtobufCBinaryData){strlen(from), (uint8_t *)from};
    r.range_end = (ProtobufCBinaryData){strlen(to), (uint8_t *)to};
    r.limit = CHUNKS_AT_A_TIME;
    j->step_call.tell = on_chunks;
    j->step_call.arg = j;
    if (message_write(&j->step, &r.base))
        journal_call(j, &j->step_call, RANGE_PATH, &j->step, TRY_MS * 5);
}

void follow_pump(struct journal_etcd *j)
{
    if (grpc_is_under_way(&j->step_call) || j->anew_ms != 0 || journal_now_ms(j) < j->look_ms)
        return;
    if (j->state == JOURNAL_LOADS)
        ask_for_chunks(j);
    else if (j->state == JOURNAL_FOLLOWS || j->state == JOURNAL_CATCHES_UP)
        look(j);
}

/* What is there cannot be read, by this version or at all: nothing is made up, and nothing is done
 * with what was read of it. Some time later all begins anew, in case a person has seen to it. */
static bool refuse(struct journal_etcd *j, const char *why)
{
    log_event(LOG_ERROR, "journal_unreadable", log_str("journal", j->options.config->url),
              log_u64("index", j->at.index + 1), log_str("reason", why),
              log_str("detail", j->recovery.trouble));
    snprintf(j->trouble, sizeof j->trouble, "%s", why);
    j->hint[0] = '\0';
    j->anew_ms = journal_now_ms(j) + AGAIN_MS * 5;
    return false;
}

/* A replica of a newer release leads. What is here is right as far as it goes, and clients that are
 * passed on may stay: this replica waits to be replaced. */
static bool wait_for_upgrade(struct journal_etcd *j)
{
    static const char why[] = "a newer rdzvd writes the log: upgrade this replica";

    if (!j->is_outdated)
        log_event(LOG_ERROR, "journal_unreadable", log_str("journal", j->options.config->url),
                  log_u64("index", j->at.index + 1), log_str("reason", why));
    j->is_outdated = true;
    snprintf(j->trouble, sizeof j->trouble, "%s", why);
    j->hint[0] = '\0';
    j->look_ms = journal_now_ms(j) + AGAIN_MS * 5;
    return false;
}

/* `none` says what is wrong if it is no version's. */
static bool refuse_value(struct journal_etcd *j, enum log_fault fault, const char *none)
{
    if (fault == LOG_IS_NEWER)
        return wait_for_upgrade(j);
    return refuse(j, fault == LOG_IS_OLDER
                         ? "an older rdzvd wrote the log, which this one does not read: write "
                           "another name in --journal, or delete the log's keys in etcd"
                         : none);
}

/* --- Entries. --- */

static bool take_entry(struct journal_etcd *j, const Etcd3__KeyValue *kv)
{
    struct log_entry entry;
    struct slice batch;
    uint32_t chain;

    if (!entry_decode(slice_of_pb(kv->value), &entry))
        return refuse_value(j, entry_fault(slice_of_pb(kv->value)), "an entry of the log is none");
    chain = entry_chain(j->chain, &entry);
    if (chain != entry.chain || entry.epoch < j->at.epoch)
        return refuse(j, "an entry of the log does not follow on the one before");
    if (entry.begins)
        stream_drop(&j->stream, j->stream.len);
    if (!stream_put(&j->stream, entry.bytes))
        return refuse(j, "memory is short");
    while (stream_next(&j->stream, &batch)) {
        if (!recovery_take_batch(&j->recovery, batch))
            return refuse(j, "a batch of the log cannot be applied");
        j->batch++;
    }
    j->chain = chain;
    j->at.index++;
    j->at.epoch = entry.epoch;
    j->stats.index = j->at.index;
    j->stats.bytes_behind += kv->value.len;
    return true;
}

/* False: there is no use in going on now. */
static bool take_entries(struct journal_etcd *j, const Etcd3__RangeResponse *r)
{
    for (size_t i = 0; i < r->n_kvs; i++) {
        char key[KEY_MAX];

        if (!slice_is(slice_of_pb(r->kvs[i]->key),
                      (const char *)journal_log_key(j, j->at.index + 1, key).ptr))
            return refuse(j, "an entry of the log is missing");
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
    if (strcmp(who, j->leader) == 0)
        return;
    memcpy(j->leader, who, sizeof who);
    journal_note_reason(j);
    if (who[0] == '\0' || j->state != JOURNAL_FOLLOWS)
        return;
    log_event(LOG_INFO, "standing_by", log_str("journal", j->options.config->url),
              log_str("leader", who), log_u64("index", j->at.index));
    if (j->options.follows != NULL)
        j->options.follows(j->options.arg, who);
}

/* What was read is behind by more than is there to be read. */
static void end_overtaken(struct journal_etcd *j, const char *why)
{
    log_event(LOG_WARN, "journal_overtaken", log_str("journal", j->options.config->url),
              log_u64("index", j->at.index), log_str("reason", why),
              log_str("action", JOURNAL_ANEW));
    journal_end(j);
}

/* A snapshot has to be loaded first: true. Who has read entries goes on to read them, as long as
 * the next one is there. */
static bool begins_to_load(struct journal_etcd *j, const Etcd3__RangeResponse *entries)
{
    char next[KEY_MAX];

    if (j->pointer.at.index <= j->at.index)
        return false;
    if (j->at.index > 0) {
        journal_log_key(j, j->at.index + 1, next);
        if (entries->n_kvs > 0 && slice_is(slice_of_pb(entries->kvs[0]->key), next))
            return false;
        end_overtaken(j, "the log that comes next was replaced by a snapshot");
        return true;
    }
    j->state = JOURNAL_LOADS;
    j->chunk = j->chunks_checksum = 0;
    j->chunk_bytes = 0;
    return true;
}

static bool take_pointer(struct journal_etcd *j, const Etcd3__KeyValue *kv)
{
    size_t len = kv == NULL ? 0 : kv->value.len;

    j->pointer = (struct snapshot_pointer){0};
    j->pointer_text[0] = '\0';
    if (kv == NULL)
        return true;
    if (len >= sizeof j->pointer_text || !pointer_decode(slice_of_pb(kv->value), &j->pointer))
        return refuse_value(j, pointer_fault(slice_of_pb(kv->value)),
                            "the snapshot's key says nothing that this version knows");
    memcpy(j->pointer_text, kv->value.data, len);
    j->pointer_text[len] = '\0';
    j->stats.snapshot_bytes = j->pointer.bytes;
    return true;
}

/* Where all was here a moment ago, batches that come were made since then, by the leader's clock. A
 * member of etcd that was slow may have kept some back, but not those of each look. */
static void note_batches(struct journal_etcd *j)
{
    uint64_t now_ms = lease_now_ms();
    int64_t wall_ms = engine_wall_ns(j->engine) / 1000000;
    int64_t made_ms = j->recovery.last_ns / 1000000, ahead_ms = 0;

    if (j->whole_ms == 0 || now_ms - j->whole_ms > FRESH_MS) {
        j->batch_seen_ms = 0;
        return;
    }
    j->batch_seen_ms = now_ms;
    if (made_ms - wall_ms > CLOCK_OFF_MS)
        ahead_ms = made_ms - wall_ms;
    else if (j->whole_wall_ms - made_ms > CLOCK_OFF_MS)
        ahead_ms = made_ms - j->whole_wall_ms;
    j->clock_off_looks = ahead_ms == 0 ? 0 : j->clock_off_looks + 1;
    if (j->clock_off_looks == CLOCK_LOOKS)
        log_event(LOG_WARN, "clock_differs", log_str("journal", j->options.config->url),
                  log_str("leader", j->leader), log_i64("ahead_ms", ahead_ms),
                  log_str("hint", "set the clocks of all replicas, by NTP say: TTLs end by the "
                                  "clock of the one that leads"));
}

/* All that was committed when the answer was made is here. */
static void caught_up(struct journal_etcd *j, const Etcd3__KeyValue *leader)
{
    j->whole_ms = lease_now_ms();
    j->whole_wall_ms = engine_wall_ns(j->engine) / 1000000;
    if (j->state == JOURNAL_CATCHES_UP) {
        if (!lead_is_ours(j, leader))
            return;
        j->state = JOURNAL_BEGINS;
    } else if (leader == NULL) {
        j->state = JOURNAL_ASKS;
    } else {
        j->look_ms = journal_now_ms(j) + LOOK_MS;
    }
}

static void take_look(struct journal_etcd *j, const Etcd3__TxnResponse *t)
{
    const Etcd3__KeyValue *leader = txn_key(t, 0), *head = txn_key(t, 1);
    const Etcd3__RangeResponse *entries = txn_range(t, 3);
    struct log_head end = {0};
    uint64_t batch = j->batch;

    if (entries == NULL || (head != NULL && !head_decode(slice_of_pb(head->value), &end))) {
        refuse(j, "the key of the log's head says nothing that this version knows");
        return;
    }
    if (t->header != NULL)
        j->stats.cluster = t->header->cluster_id;
    note_leader(j, leader);
    if (end.index < j->at.index) {
        log_event(LOG_ERROR, "journal_went_back", log_str("journal", j->options.config->url),
                  log_u64("index", j->at.index),
                  log_str("reason", "the log in etcd ends before what was read of it: etcd was "
                                    "restored, or its keys were removed"),
                  log_str("action", JOURNAL_ANEW));
        journal_end(j);
        return;
    }
    if (!take_pointer(j, txn_key(t, 2)) || begins_to_load(j, entries) || !take_entries(j, entries))
        return;
    if (j->batch != batch)
        note_batches(j);
    if (j->at.index == end.index && j->at.epoch == end.epoch)
        caught_up(j, leader);
    else if (entries->n_kvs == 0)
        refuse(j, "an entry of the log is missing, and no snapshot has it");
}

/* More, as long as there are more and they are short. */
static void adapt_entries(struct journal_etcd *j, const struct grpc_answer *a,
                          const Etcd3__TxnResponse *t)
{
    const Etcd3__RangeResponse *entries = t == NULL ? NULL : txn_range(t, 3);

    if (entries == NULL || entries->n_kvs < j->entries || a->message.len > SHORT_ANSWER)
        j->entries = ENTRIES_LEAST;
    else if (j->entries < ENTRIES_MOST)
        j->entries *= 2;
}

static void on_look(void *arg, const struct grpc_answer *a)
{
    struct journal_etcd *j = arg;
    Etcd3__TxnResponse *t = a->code == 0 ? message_txn(a->message) : NULL;

    adapt_entries(j, a, t);
    if (j->state == JOURNAL_ENDED)
        ;
    else if (a->code != 0) {
        j->look_ms = journal_now_ms(j) + journal_pause_ms(a, journal_note_failure(j, a));
        journal_note_reason(j);
    } else if (t == NULL) {
        refuse(j, "an answer of etcd cannot be read, or memory is short");
    } else {
        journal_note_success(j);
        take_look(j, t);
    }
    message_free(t);
    journal_pump(j);
}

/* --- The snapshot. --- */

static bool take_chunk(struct journal_etcd *j, const Etcd3__KeyValue *kv)
{
    const struct slice bytes = slice_of_pb(kv->value);
    char key[KEY_MAX];
    struct slice part;

    if (!slice_is(slice_of_pb(kv->key),
                  (const char *)journal_chunk_key(j, j->pointer.id, j->chunk, key).ptr))
        return refuse(j, "a chunk of the snapshot is missing");
    if (!stream_put(&j->stream, bytes))
        return refuse(j, "memory is short");
    while (stream_next(&j->stream, &part)) {
        if (!recovery_take_snapshot(&j->recovery, part))
            return refuse(j, "a part of the snapshot cannot be loaded");
    }
    j->chunk++;
    j->chunk_bytes += bytes.len;
    j->chunks_checksum = crc32c(j->chunks_checksum, bytes.ptr, bytes.len);
    return true;
}

static void end_of_snapshot(struct journal_etcd *j)
{
    const struct snapshot_pointer *p = &j->pointer;

    if (j->chunk < p->chunks)
        return;
    if (j->chunk_bytes != p->bytes || j->chunks_checksum != p->checksum || j->stream.len != 0) {
        refuse(j, "the snapshot is damaged");
        return;
    }
    j->at = p->at;
    j->chain = p->chain;
    j->batch = p->batch;
    j->stats.index = p->at.index;
    j->state = JOURNAL_FOLLOWS;
}

static void on_chunks(void *arg, const struct grpc_answer *a)
{
    struct journal_etcd *j = arg;
    Etcd3__RangeResponse *r = a->code == 0 ? message_range(a->message) : NULL;
    bool ok = r != NULL;

    if (j->state == JOURNAL_ENDED)
        ;
    else if (a->code != 0) {
        j->look_ms = journal_now_ms(j) + journal_pause_ms(a, journal_note_failure(j, a));
    } else if (r == NULL) {
        refuse(j, "an answer of etcd cannot be read, or memory is short");
    } else if (r->n_kvs == 0) {
        end_overtaken(j, "the snapshot was replaced by another one while it was read");
    } else {
        journal_note_success(j);
        for (size_t i = 0; ok && i < r->n_kvs; i++)
            ok = take_chunk(j, r->kvs[i]);
        if (ok)
            end_of_snapshot(j);
    }
    message_free(r);
    journal_pump(j);
}
