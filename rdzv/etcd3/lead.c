/* The lease, and with it the leader's key. See journal_etcd_internal.h. */
#include <stdio.h>

#include "rdzv/engine/log.h"
#include "rdzv/etcd3/journal_etcd_internal.h"

static void on_lease(void *arg, const struct grpc_answer *a);
static void on_election(void *arg, const struct grpc_answer *a);
static void on_beat(void *arg, const struct grpc_answer *a);

/* --- Asking. --- */

static void ask_for_lease(struct journal_etcd *j)
{
    Etcd3__LeaseGrantRequest r = ETCD3__LEASE_GRANT_REQUEST__INIT;

    r.ttl = (int64_t)((j->options.config->lease_ms + 999) / 1000);
    j->step_call.tell = on_lease;
    j->step_call.arg = j;
    j->sent_ms = lease_now_ms();
    if (message_write(&j->step, &r.base))
        journal_call(j, &j->step_call, GRANT_PATH, &j->step, TRY_MS);
}

static void stand(struct journal_etcd *j)
{
    const struct slice leader = slice_str(j->leader_key);
    struct txn t;

    txn_init(&t);
    txn_if_created(&t, leader, 0);
    txn_put(&t.yes, leader, slice_str(j->who), j->lease);
    txn_get(&t.no, leader, (struct slice){0}, 0);
    j->step_call.tell = on_election;
    j->step_call.arg = j;
    if (txn_write(&t, &j->step))
        journal_call(j, &j->step_call, TXN_PATH, &j->step, TRY_MS);
}

static void beat(struct journal_etcd *j)
{
    Etcd3__LeaseKeepAliveRequest r = ETCD3__LEASE_KEEP_ALIVE_REQUEST__INIT;

    if (grpc_is_under_way(&j->beat_call) || journal_now_ms(j) < j->beat_ms)
        return;
    r.id = j->lease;
    j->beat_call.tell = on_beat;
    j->beat_call.arg = j;
    j->sent_ms = lease_now_ms();
    if (message_write(&j->beat, &r.base))
        journal_call(j, &j->beat_call, BEAT_PATH, &j->beat, BEAT_MS);
}

void lead_pump(struct journal_etcd *j)
{
    if (j->state >= JOURNAL_STANDS && !j->gives_back && j->anew_ms == 0)
        beat(j);
    if (grpc_is_under_way(&j->step_call) || journal_now_ms(j) < j->look_ms)
        return;
    if (j->state == JOURNAL_ASKS)
        ask_for_lease(j);
    else if (j->state == JOURNAL_STANDS)
        stand(j);
}

/* --- Answers. --- */

/* Counted from when it was sent: etcd has begun to count later. */
static void renew(struct journal_etcd *j, int64_t ttl_s)
{
    uint64_t ttl_ms = (uint64_t)ttl_s * 1000;
    uint64_t margin = ttl_ms / 2 < JOURNAL_MARGIN_MS ? ttl_ms / 2 : JOURNAL_MARGIN_MS;

    j->valid_ms = j->sent_ms + ttl_ms - margin;
    j->beat_ms = journal_now_ms(j) + ttl_ms / 3;
}

static void follow_again(struct journal_etcd *j, uint64_t after_ms)
{
    j->state = JOURNAL_FOLLOWS;
    j->lease = 0;
    j->look_ms = journal_now_ms(j) + after_ms;
}

static void on_lease(void *arg, const struct grpc_answer *a)
{
    struct journal_etcd *j = arg;
    Etcd3__LeaseResponse *r = a->code == 0 ? message_lease(a->message) : NULL;

    if (j->state == JOURNAL_ENDED)
        ;
    else if (r != NULL && r->id != 0 && r->ttl > 0) {
        j->lease = r->id;
        renew(j, r->ttl);
        j->state = JOURNAL_STANDS;
    } else { /* one that was granted all the same ends by itself */
        if (a->code != 0)
            journal_note_failure(j, a);
        follow_again(j, AGAIN_MS);
        journal_note_reason(j);
    }
    message_free(r);
    journal_pump(j);
}

static void won(struct journal_etcd *j, int64_t revision)
{
    j->epoch = revision;
    j->state = JOURNAL_CATCHES_UP;
}

static void on_election(void *arg, const struct grpc_answer *a)
{
    struct journal_etcd *j = arg;
    Etcd3__TxnResponse *t = a->code == 0 ? message_txn(a->message) : NULL;
    const Etcd3__KeyValue *kv = t == NULL ? NULL : txn_key(t, 0);

    if (j->state == JOURNAL_ENDED)
        ;
    else if (t == NULL) {
        if (a->code != 0 && journal_note_failure(j, a)) /* the lease has ended, say */
            follow_again(j, LOOK_MS);
        else
            j->look_ms = journal_now_ms(j) + journal_pause_ms(a, false);
    } else if (t->succeeded && t->header != NULL) {
        won(j, t->header->revision);
    } else if (kv != NULL && kv->lease == j->lease && slice_is(slice_of_pb(kv->value), j->who)) {
        won(j, kv->create_revision); /* by a try whose answer was lost */
    } else {
        follow_again(j, 0);
    }
    message_free(t);
    journal_pump(j);
}

static void depose(struct journal_etcd *j, const char *why)
{
    log_event(LOG_WARN, "deposed", log_str("journal", j->options.config->url),
              log_u64("index", j->at.index), log_str("reason", why),
              log_str("action", JOURNAL_ANEW));
    journal_end(j);
}

bool lead_is_ours(struct journal_etcd *j, const Etcd3__KeyValue *leader)
{
    if (leader != NULL && leader->create_revision == j->epoch)
        return true;
    depose(j, leader == NULL ? "the lease has ended" : "another replica leads");
    return false;
}

static void on_beat(void *arg, const struct grpc_answer *a)
{
    struct journal_etcd *j = arg;
    Etcd3__LeaseResponse *r = a->code == 0 ? message_lease(a->message) : NULL;

    if (j->state == JOURNAL_ENDED)
        ;
    else if (r != NULL && r->ttl > 0) {
        j->unclear = 0;
        renew(j, r->ttl);
    } else if (r != NULL && j->epoch != 0 && !j->gives_back)
        depose(j, "the lease has ended");
    else if (a->code != 0)
        j->beat_ms = journal_now_ms(j) + journal_pause_ms(a, journal_note_failure(j, a));
    message_free(r);
    journal_pump(j);
}

/* --- The end. --- */

static void on_given_back(void *arg, const struct grpc_answer *a)
{
    struct journal_etcd *j = arg;

    j->given_back = true;
    j->state = JOURNAL_ENDED;
    j->stats.leads = false;
    log_event(LOG_INFO, "leadership_ended", log_str("journal", j->options.config->url),
              log_u64("index", j->at.index), log_bool("given_back", a->code == 0));
}

void lead_give_back(struct journal_etcd *j)
{
    Etcd3__LeaseRevokeRequest r = ETCD3__LEASE_REVOKE_REQUEST__INIT;

    if (j->gives_back)
        return;
    grpc_cancel(&j->beat_call);
    r.id = j->lease;
    j->beat_call.tell = on_given_back;
    j->beat_call.arg = j;
    j->gives_back =
        message_write(&j->beat, &r.base) &&
        grpc_start(j->grpc, &j->beat_call, REVOKE_PATH, message_bytes(&j->beat), TRY_MS);
}
