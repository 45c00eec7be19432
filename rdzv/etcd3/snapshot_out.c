/* The leader's snapshots: chunks of the store's state, then the key that names them, then the
 * removal of what they make needless. See journal_etcd_internal.h.
 *
 * A snapshot ends with a batch, and so must an entry: the entry with the end of that batch takes no
 * later batch (snapshot_out_limit()). Each chunk is written under the leader's revision and has a
 * key of its own, so a late copy changes nothing; the key that names the chunks is compared with
 * its earlier value. */
#include "store/snapshot.h"

#include <inttypes.h>
#include <stdio.h>

#include "rdzv/engine/log.h"
#include "rdzv/etcd3/journal_etcd_internal.h"
#include "store/disk/crc32c.h"

#define CHUNK_SIZE ((size_t)256 << 10)
#define PART_SIZE  ((size_t)64 << 10)
#define WORK_NS    1000000u
#define NO_MEMORY  "memory is short"
#define DUE_MIN    ((uint64_t)16 << 20)

/* The pause after a failed snapshot; a snapshot has failed after so many refusals. */
#define LATER_MS     60000u
#define REFUSED_MOST 10u

static journal_tell on_answer;

uint64_t snapshot_out_limit(const struct journal_etcd *j)
{
    return j->out.snapshot != NULL && !j->out.bound ? j->out.pointer.batch : UINT64_MAX;
}

/* All batches up to the snapshot's are committed, and no later ones. */
void snapshot_out_note(struct journal_etcd *j)
{
    struct snapshot_out *o = &j->out;

    if (o->snapshot == NULL || o->bound || j->log.batch != o->pointer.batch || j->commit.cut != 0)
        return;
    o->pointer.at = j->log.at;
    o->pointer.chain = j->log.chain;
    o->bound = true;
    o->replaces = j->stats.bytes_behind;
}

/* --- Beginning and end. --- */

static void end_snapshot(struct journal_etcd *j)
{
    struct snapshot_out *o = &j->out;

    snapshot_end(o->snapshot);
    o->snapshot = NULL;
    stream_fini(&o->stream);
    batch_begin(&o->part, 0);
}

static void give_snapshot_up(struct journal_etcd *j, const char *why)
{
    log_event(LOG_WARN, "snapshot_failed", log_str("journal", j->options.config->url),
              log_str("reason", why), log_str("action", "the log stays until one is written"));
    j->out.after_ms = journal_now_ms(j) + LATER_MS;
    end_snapshot(j);
}

static void snapshot_out_begin(struct journal_etcd *j)
{
    struct snapshot_out *o = &j->out;

    if (j->state != JOURNAL_LEADS || j->stats.bytes_behind < DUE_MIN ||
        j->stats.bytes_behind < j->stats.snapshot_bytes || j->fault.reason[0] != '\0' ||
        j->engine->batch_changes != 0 || journal_now_ms(j) < o->after_ms)
        return;
    o->snapshot = snapshot_begin(&j->engine->store);
    if (o->snapshot == NULL) {
        give_snapshot_up(j, NO_MEMORY);
        return;
    }
    o->written = o->bound = false;
    o->step = SNAPSHOT_CHUNKS;
    o->sent = 0;
    o->again_ms = 0;
    o->refused = 0;
    o->lost = false;
    o->began_ns = clock_monotonic_ns(j->engine->options.clock);
    o->pointer = (struct snapshot_pointer){.version = ENTRY_VERSION_MAX,
                                           .batch = j->engine->batch.number - 1};
    snprintf(o->pointer.id, sizeof o->pointer.id, "%016" PRIx64 "%08" PRIx32,
             (uint64_t)j->lease.epoch, o->begun++);
    if (TAILQ_EMPTY(&j->commit.pending) && !j->commit.open)
        snapshot_out_note(j);
}

void snapshot_out_drop(struct journal_etcd *j)
{
    if (j->out.snapshot != NULL)
        end_snapshot(j);
    batch_fini(&j->out.part);
    message_fini(&j->out.call.request);
}

/* --- Writing. --- */

/* One part more in the stream. NULL, or why there is none. */
static const char *write_snapshot_part(struct journal_etcd *j)
{
    struct snapshot_out *o = &j->out;
    uint8_t length[STREAM_LENGTH];
    enum snapshot_state state = snapshot_write(o->snapshot, PART_SIZE, &o->part);

    if (state == SNAPSHOT_OVERTAKEN)
        return "all TTLs of etcd's keys were extended during the write";
    if (state == SNAPSHOT_FAILED || !batch_end(&o->part, engine_wall_ns(j->engine)))
        return NO_MEMORY;
    o->written = state == SNAPSHOT_DONE;
    bytes_put_u32(length, (uint32_t)o->part.len);
    if (!stream_put(&o->stream, (struct slice){length, sizeof length}) ||
        !stream_put(&o->stream, batch_bytes(&o->part)))
        return NO_MEMORY;
    batch_begin(&o->part, 0);
    return NULL;
}

static bool wants_parts(const struct snapshot_out *o)
{
    return o->snapshot != NULL && o->step == SNAPSHOT_CHUNKS && !o->written &&
           o->stream.len < 2 * CHUNK_SIZE;
}

bool snapshot_out_work(void *arg)
{
    struct journal_etcd *j = arg;
    const struct clock *clock = j->engine->options.clock;
    struct snapshot_out *o = &j->out;
    uint64_t until_ns;

    if (o->snapshot == NULL)
        snapshot_out_begin(j);
    if (!wants_parts(o))
        return false;
    until_ns = clock_monotonic_ns(clock) + WORK_NS;
    while (wants_parts(o) && clock_monotonic_ns(clock) < until_ns) {
        const char *why = write_snapshot_part(j);

        if (why != NULL) {
            grpc_cancel(&o->call.call);
            give_snapshot_up(j, why);
            return false;
        }
    }
    snapshot_out_pump(j);
    return wants_parts(o);
}

/* --- Sending. --- */

static bool request_chunk(struct journal_etcd *j, struct txn *t)
{
    struct snapshot_out *o = &j->out;
    struct slice bytes = stream_bytes(&o->stream);
    char key[KEY_MAX];

    if (bytes.len > CHUNK_SIZE)
        bytes.len = CHUNK_SIZE;
    if (bytes.len > j->fault.entry_max)
        bytes.len = j->fault.entry_max;
    o->sent = bytes.len;
    txn_put(&t->yes, journal_chunk_key(j, o->pointer.id, o->pointer.chunks, key), bytes, 0);
    return txn_write(t, &o->call.request);
}

static bool request_pointer(struct journal_etcd *j, struct txn *t)
{
    const struct slice key = slice_str(j->pointer_key);
    char text[POINTER_TEXT], before[POINTER_TEXT];

    pointer_encode(&j->out.pointer, text);
    pointer_encode(&j->log.pointer, before);
    if (j->log.pointer.at.index == 0)
        txn_if_created(t, key, 0);
    else
        txn_if_value(t, key, slice_str(before));
    txn_put(&t->yes, key, slice_str(text), 0);
    txn_get(&t->no, key, (struct slice){0}, 0);
    return txn_write(t, &j->out.call.request);
}

/* Removes the log before the previous snapshot, since replicas that read the log may be behind; and
 * the chunks of all earlier snapshots: later snapshots have higher ids, so a late copy of this
 * request removes none of their chunks. */
static bool request_removal(struct journal_etcd *j, struct txn *t)
{
    const struct snapshot_out *o = &j->out;
    char from[KEY_MAX], to[KEY_MAX], low[KEY_MAX], mine[KEY_MAX];

    snprintf(low, sizeof low, "%ssnap/", j->prefix);
    snprintf(mine, sizeof mine, "%ssnap/%s/", j->prefix, o->pointer.id);
    txn_delete(&t->yes, journal_log_key(j, 0, from), journal_log_key(j, o->before + 1, to));
    txn_delete(&t->yes, slice_str(low), slice_str(mine));
    return txn_write(t, &j->out.call.request);
}

static bool may_send(const struct snapshot_out *o)
{
    return o->step == SNAPSHOT_CHUNKS
               ? o->stream.len >= CHUNK_SIZE || (o->written && o->stream.len > 0)
               : o->step != SNAPSHOT_POINTS || o->bound;
}

void snapshot_out_pump(struct journal_etcd *j)
{
    static bool (*const requests[])(struct journal_etcd *,
                                    struct txn *) = {[SNAPSHOT_CHUNKS] = request_chunk,
                                                     [SNAPSHOT_POINTS] = request_pointer,
                                                     [SNAPSHOT_REMOVES] = request_removal};
    struct snapshot_out *o = &j->out;
    struct txn t;

    if (o->snapshot == NULL || grpc_is_under_way(&o->call.call) || !may_send(o) ||
        journal_now_ms(j) < o->again_ms)
        return;
    txn_init(&t);
    txn_if_created(&t, slice_str(j->leader_key), j->lease.epoch);
    if (requests[o->step](j, &t))
        journal_send(j, &o->call, &etcd_txn, on_answer, TRY_MS);
}

/* --- Answers. --- */

static void chunk_done(struct journal_etcd *j)
{
    struct snapshot_out *o = &j->out;
    const struct slice bytes = {stream_bytes(&o->stream).ptr, o->sent};

    o->pointer.checksum = crc32c(o->pointer.checksum, bytes.ptr, bytes.len);
    o->pointer.bytes += bytes.len;
    o->pointer.chunks++;
    o->refused = 0;
    o->lost = false;
    stream_drop(&o->stream, o->sent);
    if (o->written && o->stream.len == 0)
        o->step = SNAPSHOT_POINTS;
}

static void all_done(struct journal_etcd *j)
{
    const struct snapshot_out *o = &j->out;
    uint64_t took_ns = clock_monotonic_ns(j->engine->options.clock) - o->began_ns;

    j->stats.snapshots++;
    log_event(LOG_INFO, "snapshot_written", log_str("journal", j->options.config->url),
              log_u64("batch", o->pointer.batch), log_u64("bytes", o->pointer.bytes),
              log_u64("took_ms", took_ns / 1000000));
    end_snapshot(j);
}

static void step_done(struct journal_etcd *j)
{
    struct snapshot_out *o = &j->out;

    switch (o->step) {
    case SNAPSHOT_CHUNKS:
        chunk_done(j);
        break;
    case SNAPSHOT_POINTS:
        o->before = j->log.pointer.at.index;
        follow_note_snapshot(j, &o->pointer);
        j->stats.bytes_behind -= o->replaces;
        o->step = SNAPSHOT_REMOVES;
        break;
    case SNAPSHOT_REMOVES:
        all_done(j);
        break;
    }
}

/* True: the key names this snapshot already, by an earlier copy of the transaction. */
static bool names_this_snapshot(const struct journal_etcd *j, const Etcd3__TxnResponse *t)
{
    const Etcd3__KeyValue *kv = txn_key(t, 0);
    char text[POINTER_TEXT];

    pointer_encode(&j->out.pointer, text);
    return j->out.step == SNAPSHOT_POINTS && kv != NULL && slice_is(slice_of_pb(kv->value), text);
}

/* A lost or refused try is made again: the commits and the lease find out whether this replica
 * leads. Refusals have a limit: an etcd without space takes entries again before it takes this. */
static void snapshot_step_failed(struct journal_etcd *j, const struct grpc_answer *a)
{
    struct snapshot_out *o = &j->out;
    bool clear = journal_is_refusal(a);

    j->stats.failures++;
    o->again_ms = journal_now_ms(j) + AGAIN_MS;
    o->lost = o->lost || !clear;
    o->refused += clear;
    if (o->step == SNAPSHOT_CHUNKS && !o->lost && journal_shrink(j, a, o->sent))
        o->again_ms = 0;
    else if (o->refused >= REFUSED_MOST)
        give_snapshot_up(j, a->text);
}

static void on_answer(struct journal_etcd *j, const struct grpc_answer *a, const void *answer)
{
    const Etcd3__TxnResponse *t = answer;

    if (t == NULL)
        snapshot_step_failed(j, a);
    else if (j->state == JOURNAL_LEADS && (t->succeeded || names_this_snapshot(j, t)))
        step_done(j);
    else
        j->out.again_ms = journal_now_ms(j) + AGAIN_MS;
}
