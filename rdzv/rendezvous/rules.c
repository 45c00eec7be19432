/* The rules of a run about its failures: functions of its history. See history.h.
 *
 * A failure is the end of a complete round because a worker failed or a node was lost: all nodes
 * have left that round, or the run has failed with it. A round that ends for a new node, an order
 * or a start of rdzvd has not failed, nor has one whose lost node came back in time.
 *
 * With restart-budget=N/T, the failure after N failures within T closes the run. */
#include <stdio.h>

#include "proto/units.h"
#include "rdzv/rendezvous/history.h"
#include "store/memory/account.h"

/* `like`: only those that began as that one. */
static unsigned count_failures(const struct history *h, int64_t since_us,
                               const struct history_round *like)
{
    const struct history_round *r;
    unsigned count = 0;

    TAILQ_FOREACH(r, &h->rounds, entry)
        count += rules_is_failure(r) && r->ended_us > since_us &&
                 (like == NULL || (r->first_rank == like->first_rank &&
                                   slice_equal(history_first_host(r), history_first_host(like))));
    return count;
}

/* Adds the worker that failed first most often. */
static void say_first(const struct history *h, int64_t since_us, char text[HISTORY_TEXT_MAX])
{
    const struct history_round *r, *first = NULL;
    unsigned most = 0, same;
    size_t len = strlen(text);
    char rank[32] = "";

    TAILQ_FOREACH(r, &h->rounds, entry) {
        same = rules_is_failure(r) ? count_failures(h, since_us, r) : 0;
        if (same <= most || history_first_host(r).len == 0)
            continue;
        first = r;
        most = same;
    }
    if (first == NULL)
        return;
    if (first->first_at != NULL)
        snprintf(rank, sizeof rank, "rank %u on ", first->first_rank);
    snprintf(text + len, HISTORY_TEXT_MAX - len,
             ": first to fail was %snode %.*s in %u of %u rounds", rank,
             (int)history_first_host(first).len, (const char *)history_first_host(first).ptr, most,
             count_failures(h, since_us, NULL));
}

static void judge_budget(struct history *h, const struct rule_limit *budget, uint64_t before,
                         int64_t now_us)
{
    int64_t since_us = now_us - (int64_t)budget->ms * 1000;
    char text[HISTORY_TEXT_MAX], time[UNITS_TEXT_MAX];

    if (budget->ms == 0 || before + count_failures(h, since_us, NULL) <= budget->count)
        return;
    snprintf(text, sizeof text, "restart budget of %u in %s is used up", (unsigned)budget->count,
             units_format_duration(budget->ms, time));
    say_first(h, since_us, text);
    h->stop = account_heap_copy(ACCOUNT_RUNS, ACCOUNT_ORDINARY, text, strlen(text));
}

void rules_judge(struct history *h, const struct run_rules *rules, uint64_t before, int64_t now_us)
{
    h->is_unjudged = false;
    if (h->stop == NULL)
        judge_budget(h, &rules->restart_budget, before, now_us);
}
