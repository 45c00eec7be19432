/* The journal on etcd as the engine knows it. See journal_etcd.h. */
#include "rdzv/etcd3/journal_etcd.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/etcd3/journal_etcd_internal.h"
#include "rdzv/net/net.h"
#include "store/memory/account.h"

#define TIMER_MS    100
#define ELECTION_MS 1000u

/* All that can be sent is sent. */
static void pump_all(struct journal_etcd *j)
{
    if (j->state == JOURNAL_ENDED || !connection_is_up(j))
        return;
    lead_pump(j);
    if (j->state < JOURNAL_BEGINS)
        follow_pump(j);
    else
        commit_pump(j);
    if (j->state == JOURNAL_LEADS)
        snapshot_out_pump(j);
}

static void journal_on_timer(evutil_socket_t, short, void *arg)
{
    struct journal_etcd *j = arg;

    connection_tick(j);
    pump_all(j);
    journal_note_reason(j);
    if (j->log.restart_ms != 0 && journal_now_ms(j) >= j->log.restart_ms)
        journal_end(j);
}

/* --- The table. --- */

/* True if this replica has read the log recently and has applied all of it. Also true during an
 * election, which is short. */
static bool stands_by(void *arg)
{
    const struct journal_etcd *j = arg;

    return j->state != JOURNAL_LEADS && j->state != JOURNAL_ENDED && j->log.whole_ms != 0 &&
           lease_now_ms() - j->log.whole_ms <= PATIENCE_MS;
}

/* The lease has ended, by any clock: an election has had its time. */
static bool is_cut_off(void *arg)
{
    const struct journal_etcd *j = arg;

    return j->state == JOURNAL_LEADS &&
           lease_now_ms() > j->lease.valid_ms + JOURNAL_MARGIN_MS + ELECTION_MS;
}

/* While the lease may have ended, another replica may lead: nothing is answered. */
static uint64_t vouch_for_lease(void *arg)
{
    const struct journal_etcd *j = arg;

    return j->state == JOURNAL_LEADS && lease_now_ms() <= j->lease.valid_ms ? j->log.batch : 0;
}

static void journal_tick(void *arg)
{
    struct journal_etcd *j = arg;

    certificate_tick(&j->connection.tls);
}

static void close_journal(void *arg)
{
    struct journal_etcd *j = arg;

    j->engine->options.journal = (struct engine_journal){0};
    j->engine->journal_etcd = NULL;
    if (j->stats.pending_batches > 0 && j->state == JOURNAL_LEADS)
        log_event(LOG_ERROR, "journal_failed", log_str("journal", j->options.config->url),
                  log_str("reason", "the last changes were not committed: no client was answered"),
                  log_str("action", "none"));
    if (event_initialized(&j->timer))
        event_del(&j->timer);
    snapshot_out_drop(j);
    connection_close(j);
    commit_end(j);
    stream_fini(&j->log.stream);
    message_fini(&j->step.request);
    message_fini(&j->lease.beat.request);
    account_free(ACCOUNT_JOURNAL, j, sizeof *j);
}

const struct journal_etcd_stats *journal_etcd_stats(const struct journal_etcd *j)
{
    return &j->stats;
}

bool journal_etcd_finish(struct journal_etcd *j)
{
    if (j->lease.epoch == 0 || j->state == JOURNAL_ENDED || j->lease.given_back)
        return true;
    if (j->stats.pending_batches == 0 && j->connection.up)
        lead_give_back(j);
    return false;
}

/* --- The beginning. --- */

static void name_keys(struct journal_etcd *j, uint64_t random)
{
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    snprintf(j->prefix, sizeof j->prefix, "/rdzvd/%s/", j->options.config->name);
    snprintf(j->leader_key, KEY_MAX, "%sleader", j->prefix);
    snprintf(j->head_key, KEY_MAX, "%shead", j->prefix);
    snprintf(j->pointer_key, KEY_MAX, "%ssnapshot", j->prefix);
    snprintf(j->who, sizeof j->who, "%s pid %ld %016" PRIx64, host, (long)getpid(), random);
}

int journal_etcd_open(struct journal_etcd **out, const struct journal_etcd_options *options,
                      struct engine *engine)
{
    struct journal_etcd *j = account_alloc(ACCOUNT_JOURNAL, sizeof *j);

    *out = j;
    if (j == NULL) {
        log_event(LOG_ERROR, "journal_failed", log_str("journal", options->config->url),
                  log_str("reason", "memory is short"), log_str("action", "none"));
        return -1;
    }
    *j = (struct journal_etcd){.options = *options, .engine = engine, .pump = pump_all};
    event_assign(&j->timer, options->base, -1, EV_PERSIST, journal_on_timer, j);
    name_keys(j, random_number());
    follow_begin(j);
    commit_begin(j);
    batch_init(&j->out.part);
    engine->options.journal = (struct engine_journal){.commit = commit_take,
                                                      .vouch = vouch_for_lease,
                                                      .stands_by = stands_by,
                                                      .is_cut_off = is_cut_off,
                                                      .fd = -1,
                                                      .tick = journal_tick,
                                                      .work = snapshot_out_work,
                                                      .close = close_journal,
                                                      .arg = j};
    engine->journal_etcd = j;
    journal_note_reason(j);
    /* engine_close_journal() frees the rest. */
    return connection_open(j, random_number()) < 0 || !net_set_timer(&j->timer, TIMER_MS * 1000)
               ? -1
               : 0;
}
