/* The lease, and with it the leader's key. See journal_etcd_internal.h. */
#include "rdzv/engine/log.h"
#include "rdzv/etcd3/journal_etcd_internal.h"

#define BEAT_MS 800u

static journal_tell on_lease, on_election, on_beat;

/* --- Asking. --- */

static void ask_for_lease(struct journal_etcd *j)
{
    Etcd3__LeaseGrantRequest r = ETCD3__LEASE_GRANT_REQUEST__INIT;

    r.ttl = (int64_t)((j->options.config->lease_ms + 999) / 1000);
    j->lease.sent_ms = lease_now_ms();
    if (message_write(&j->step.request, &r.base))
        journal_send(j, &j->step, &etcd_grant, on_lease, TRY_MS);
}

static void stand_for_election(struct journal_etcd *j)
{
    const struct slice leader = slice_str(j->leader_key);
    struct txn t;

    txn_init(&t);
    txn_if_created(&t, leader, 0);
    txn_put(&t.yes, leader, slice_str(j->who), j->lease.id);
    txn_get(&t.no, leader, (struct slice){0}, 0);
    if (txn_write(&t, &j->step.request))
        journal_send(j, &j->step, &etcd_txn, on_election, TRY_MS);
}

static void lead_beat(struct journal_etcd *j)
{
    Etcd3__LeaseKeepAliveRequest r = ETCD3__LEASE_KEEP_ALIVE_REQUEST__INIT;

    if (grpc_is_under_way(&j->lease.beat.call) || journal_now_ms(j) < j->lease.beat_ms)
        return;
    r.id = j->lease.id;
    j->lease.sent_ms = lease_now_ms();
    if (message_write(&j->lease.beat.request, &r.base))
        journal_send(j, &j->lease.beat, &etcd_beat, on_beat, BEAT_MS);
}

void lead_pump(struct journal_etcd *j)
{
    if (j->state >= JOURNAL_STANDS && !j->lease.gives_back && j->log.restart_ms == 0)
        lead_beat(j);
    if (grpc_is_under_way(&j->step.call) || journal_now_ms(j) < j->step_ms)
        return;
    if (j->state == JOURNAL_ASKS)
        ask_for_lease(j);
    else if (j->state == JOURNAL_STANDS)
        stand_for_election(j);
}

/* --- Answers. --- */

/* Counted from when it was sent: etcd has begun to count later. */
static void renew_lease(struct journal_etcd *j, int64_t ttl_s)
{
    uint64_t ttl_ms = (uint64_t)ttl_s * 1000;
    uint64_t margin = ttl_ms / 2 < JOURNAL_MARGIN_MS ? ttl_ms / 2 : JOURNAL_MARGIN_MS;

    j->lease.valid_ms = j->lease.sent_ms + ttl_ms - margin;
    j->lease.beat_ms = journal_now_ms(j) + ttl_ms / 3;
}

static void follow_again(struct journal_etcd *j, uint64_t after_ms)
{
    journal_enter(j, JOURNAL_FOLLOWS);
    j->lease.id = 0;
    j->step_ms = journal_now_ms(j) + after_ms;
}

static void on_lease(struct journal_etcd *j, const struct grpc_answer *a, const void *answer)
{
    const Etcd3__LeaseResponse *r = answer;

    if (r != NULL && r->id != 0 && r->ttl > 0) {
        j->lease.id = r->id;
        renew_lease(j, r->ttl);
        journal_enter(j, JOURNAL_STANDS);
    } else { /* a lease that etcd has granted anyway ends by itself */
        if (r == NULL)
            journal_note_failure(j, a);
        follow_again(j, AGAIN_MS);
    }
}

static void begin_lease(struct journal_etcd *j, int64_t revision)
{
    j->lease.epoch = revision;
    journal_enter(j, JOURNAL_CATCHES_UP);
}

static void on_election(struct journal_etcd *j, const struct grpc_answer *a, const void *answer)
{
    const Etcd3__TxnResponse *t = answer;
    const Etcd3__KeyValue *kv = t == NULL ? NULL : txn_key(t, 0);

    if (t == NULL) {
        if (journal_note_failure(j, a)) /* the lease has ended, say */
            follow_again(j, LOOK_MS);
        else
            j->step_ms = journal_now_ms(j) + journal_pause_ms(a, false);
    } else if (t->succeeded && t->header != NULL) {
        begin_lease(j, t->header->revision);
    } else if (kv != NULL && kv->lease == j->lease.id && slice_is(slice_of_pb(kv->value), j->who)) {
        begin_lease(j, kv->create_revision); /* by a try whose answer was lost */
    } else {
        follow_again(j, 0);
    }
}

static void lose_lease(struct journal_etcd *j, const char *why)
{
    log_event(LOG_WARN, "lease_lost", log_str("journal", j->options.config->url),
              log_u64("index", j->log.at.index), log_str("reason", why),
              log_str("action", JOURNAL_RESTART));
    journal_end(j);
}

bool lead_is_ours(struct journal_etcd *j, const Etcd3__KeyValue *leader)
{
    if (leader != NULL && leader->create_revision == j->lease.epoch)
        return true;
    lose_lease(j, leader == NULL ? "the lease has ended" : "another replica leads");
    return false;
}

static void on_beat(struct journal_etcd *j, const struct grpc_answer *a, const void *answer)
{
    const Etcd3__LeaseResponse *r = answer;

    if (r == NULL) {
        j->lease.beat_ms = journal_now_ms(j) + journal_pause_ms(a, journal_note_failure(j, a));
    } else if (r->ttl > 0) {
        journal_note_clear(j);
        renew_lease(j, r->ttl);
    } else if (j->lease.epoch != 0 && !j->lease.gives_back) {
        lose_lease(j, "the lease has ended");
    }
}

/* --- The end. --- */

static void on_given_back(struct journal_etcd *j, const struct grpc_answer *a, const void *)
{
    j->lease.given_back = true;
    journal_enter(j, JOURNAL_ENDED);
    log_event(LOG_INFO, "leadership_ended", log_str("journal", j->options.config->url),
              log_u64("index", j->log.at.index), log_bool("given_back", a->code == 0));
}

void lead_give_back(struct journal_etcd *j)
{
    Etcd3__LeaseRevokeRequest r = ETCD3__LEASE_REVOKE_REQUEST__INIT;
    struct journal_call *call = &j->lease.beat; /* in the place of the next beat */

    if (j->lease.gives_back)
        return;
    grpc_cancel(&call->call);
    r.id = j->lease.id;
    if (message_write(&call->request, &r.base))
        journal_send(j, call, &etcd_revoke, on_given_back, TRY_MS);
    j->lease.gives_back = grpc_is_under_way(&call->call);
}
