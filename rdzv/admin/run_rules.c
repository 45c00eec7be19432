/* The rules of a run about its failures: functions of its history. See status.h for the contract.
 *
 * A failure is the end of a complete round because a worker failed or a node was lost: all nodes
 * have left that round, or the run has failed with it. A round that ends for a new node, an order
 * or a start of rdzvd has not failed, nor has one whose lost node came back in time.
 *
 * With restart-budget=N/T, the failure after N failures within T closes the run. With
 * no-progress=N/T, the run is closed after N failures in a row, unless a round of them took T or
 * workers have set rdzvd/progress to a higher number than before. With cordon-after=N/T, a host is
 * cordoned whose workers failed first in N of them. */
#include <stdio.h>
#include <stdlib.h>

#include "proto/units.h"
#include "rdzv/admin/status.h"

/* `like`: only those that began as that one. */
static unsigned count_failures(const struct history *h, int64_t since_us,
                               const struct history_round *like)
{
    unsigned count = 0;

    TAILQ_EACH(const struct history_round, r, &h->rounds, entry)
        count += history_is_failure(r) && r->ended_us > since_us &&
                 (like == NULL || (r->first_rank == like->first_rank &&
                                   slice_equal(history_first_host(r), history_first_host(like))));
    return count;
}

/* The reason names the worker that failed first most often, if one is known. */
static void judge_budget(struct history *h, const struct rule_limit *budget, uint64_t before,
                         int64_t now_us)
{
    int64_t since_us = now_us - (int64_t)budget->ms * 1000;
    unsigned all = count_failures(h, since_us, NULL), most = 0, same;
    char text[HISTORY_TEXT_MAX], time[UNITS_TEXT_MAX], rank[32] = "";
    struct slice host = slice_str("");

    if (budget->ms == 0 || before + all <= budget->count)
        return;
    TAILQ_EACH(const struct history_round, r, &h->rounds, entry) {
        same = count_failures(h, since_us, r);
        if (!history_is_failure(r) || same <= most || history_first_host(r).len == 0)
            continue;
        most = same;
        host = history_first_host(r);
        snprintf(rank, sizeof rank, "rank %u on ", r->first_rank);
        rank[r->first_at == NULL ? 0 : strlen(rank)] = '\0';
    }
    snprintf(text, sizeof text,
             "restart budget of %u in %s is used up: first to fail was %snode %.*s in %u of %u "
             "rounds",
             (unsigned)budget->count, units_format_duration(budget->ms, time), rank, (int)host.len,
             (const char *)host.ptr, most, all);
    if (most == 0)
        text[strcspn(text, ":")] = '\0';
    h->stop = account_heap_copy(ACCOUNT_RUNS, ACCOUNT_ORDINARY, text, strlen(text));
}

/* The host whose worker failed last. */
static struct slice newest_host(const struct history *h)
{
    const struct history_round *r;

    TAILQ_FOREACH(r, &h->rounds, entry) {
        if (history_is_failure(r))
            break;
    }
    return r != NULL && r->cause == GOODPUT_LEFT ? history_first_host(r) : (struct slice){0};
}

static void judge_host(struct history *h, const struct rule_limit *limit, uint64_t strikes,
                       int64_t now_us)
{
    int64_t since_us = now_us - (int64_t)limit->ms * 1000;
    struct slice host = newest_host(h);

    TAILQ_EACH(const struct history_round, r, &h->rounds, entry)
        strikes += r->cause == GOODPUT_LEFT && r->ended_us > since_us &&
                   r->ended_us > h->struck_us && slice_equal(host, history_first_host(r));
    if (limit->ms == 0 || host.len == 0 || strikes < limit->count)
        return;
    h->struck_us = now_us;
    h->cordon = account_heap_copy(ACCOUNT_RUNS, ACCOUNT_ORDINARY, host.ptr, host.len);
}

static void judge_progress(struct history *h, const struct rule_limit *limit,
                           const struct run_past *past)
{
    char text[HISTORY_TEXT_MAX], time[UNITS_TEXT_MAX];
    const struct history_round *r;

    h->vain = past->vain;
    if (h->progress < past->progress)
        h->progress = past->progress;
    TAILQ_FOREACH_REVERSE(r, &h->rounds, history_rounds, entry)
    {
        if (r->progress > past->progress ||
            (r->cause != GOODPUT_TRAINS &&
             r->ended_us - r->completed_us >= (int64_t)limit->ms * 1000))
            h->vain = 0;
        else
            h->vain += history_is_failure(r);
    }
    if (limit->ms == 0 || h->vain < limit->count)
        return;
    snprintf(text, sizeof text,
             "no progress: each of the last %u rounds failed within %s, none raised rdzvd/progress",
             (unsigned)h->vain, units_format_duration(limit->ms, time));
    h->stop = account_heap_copy(ACCOUNT_RUNS, ACCOUNT_ORDINARY, text, strlen(text));
}

void run_rules_judge(struct history *h, const struct run_rules *rules, const struct run_past *past,
                     int64_t now_us)
{
    h->is_unjudged = false;
    if (h->stop == NULL)
        judge_budget(h, &rules->restart_budget, past->runs, now_us);
    if (h->stop == NULL)
        judge_progress(h, &rules->no_progress, past);
    if (h->cordon == NULL)
        judge_host(h, &rules->cordon_after, past->of_host, now_us);
}

/* Runs before, by their reports, as ended.c writes them. */
void status_judge(struct live_run *run, int64_t now_us)
{
    static const char progress[] = "\"failed\",\"progress\":";
    const struct run_rules *rules = &run->run.rules;
    int64_t budget_us = now_us - (int64_t)rules->restart_budget.ms * 1000;
    int64_t cordon_us = now_us - (int64_t)rules->cordon_after.ms * 1000;
    char report[RUN_ID_MAX + 16], node[TORCH_ADDR_MAX + 16];
    struct slice id = run->run.view.id, host = newest_host(&run->history), end;
    struct run_past past = {0};

    snprintf(report, sizeof report, "{\"id\":\"%.*s\",\"end\":", (int)id.len, (const char *)id.ptr);
    snprintf(node, sizeof node, "\"node\":\"%.*s/", (int)host.len, (const char *)host.ptr);
    TAILQ_EACH(const struct run_record, record, &run->home->space->store->runs.list, order) {
        if (!run_record_is_ended(record) || !slice_starts_with(record->address, slice_str(report)))
            continue;
        end = slice_from(record->address, strlen(report));
        past.runs += record->round > budget_us;
        past.of_host +=
            record->round > cordon_us && memmem(end.ptr, end.len, node, strlen(node)) != NULL;
        past.vain = record->port;
        if (slice_starts_with(end, slice_str(progress))) /* a comma follows the number */
            past.progress = strtoull((const char *)end.ptr + strlen(progress), NULL, 10);
        if (!slice_starts_with(end, slice_str("\"failed\"")))
            past = (struct run_past){0};
    }
    run_rules_judge(&run->history, rules, &past, now_us);
}
