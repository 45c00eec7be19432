/* The queue of passwords that are to be hashed. See hasher.h for the contract. */
#include "rdzv/etcd/hasher.h"

#include <crypt.h>
#include <stdlib.h>

#include "rdzv/engine/stats.h"

/* So many are with the worker: it goes on with the next while the loop takes the last one back. */
#define GIVEN_MAX 2

/* So many needless jobs are passed over before the next iteration. */
#define NEEDLESS_AT_A_TIME 64

/* The jobs of one address. */
struct hash_lane {
    struct table_node node;
    uint8_t who[17]; /* peer_network(), and whether it is a suspect; the node's key */
    TAILQ_ENTRY(hash_lane) entry;
    TAILQ_HEAD(, hash_job) jobs;
    size_t count;
};

/* --- Lanes. --- */

static struct hash_lanes *order_of(struct hasher *h, const struct hash_lane *lane)
{
    return &h->order[lane->who[16]];
}

static struct hash_lane *lane_of(struct hasher *h, const struct peer *peer, bool suspect)
{
    uint8_t who[17] = {[16] = suspect};
    struct table_node *node;
    struct hash_lane *lane;

    peer_network(peer, who);
    node = table_find(&h->lanes, (struct slice){who, sizeof who});
    if (node != NULL)
        return (struct hash_lane *)(void *)node;
    lane = account_request_zeroed(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *lane);
    if (lane == NULL)
        return NULL;
    memcpy(lane->who, who, sizeof who);
    lane->node.key = (struct slice){lane->who, sizeof lane->who};
    TAILQ_INIT(&lane->jobs);
    table_add(&h->lanes, &lane->node);
    TAILQ_INSERT_TAIL(order_of(h, lane), lane, entry);
    return lane;
}

static enum hasher_result wait_in_lane(struct hasher *h, struct hash_job *job,
                                       const struct peer *peer, bool suspect)
{
    struct hash_lane *lane = lane_of(h, peer, suspect);

    if (lane == NULL)
        return HASHER_NO_MEMORY;
    if (lane->count == HASHER_WAITING_MAX)
        return HASHER_FULL;
    TAILQ_INSERT_TAIL(&lane->jobs, job, entry);
    lane->count++;
    h->stats->hashes_waiting++;
    job->lane = lane;
    job->state = HASH_WAITING;
    return HASHER_TAKEN;
}

static void leave_lane(struct hash_job *job)
{
    struct hash_lane *lane = job->lane;
    struct hasher *h = job->hasher;

    TAILQ_REMOVE(&lane->jobs, job, entry);
    h->stats->hashes_waiting--;
    job->lane = NULL;
    job->state = HASH_IDLE;
    if (--lane->count > 0)
        return;
    TAILQ_REMOVE(order_of(h, lane), lane, entry);
    table_remove(&h->lanes, &lane->node);
    account_free(ACCOUNT_SESSIONS, lane, sizeof *lane);
}

/* The next job of the address whose turn it is; the address goes to the end. */
static struct hash_job *next_job(struct hasher *h)
{
    bool suspects = h->passed >= HASHER_SUSPECTS - 1 || TAILQ_EMPTY(&h->order[0]);
    struct hash_lanes *order = &h->order[suspects && !TAILQ_EMPTY(&h->order[1])];
    struct hash_lane *lane = TAILQ_FIRST(order);
    struct hash_job *job;

    if (lane == NULL)
        return NULL;
    job = TAILQ_FIRST(&lane->jobs);
    TAILQ_REMOVE(order, lane, entry);
    TAILQ_INSERT_TAIL(order, lane, entry);
    leave_lane(job);
    h->passed = order == &h->order[1] ? 0 : h->passed + 1;
    return job;
}

/* --- The worker. --- */

static struct hash_job *job_of(struct worker_job *work)
{
    return (struct hash_job *)(void *)((char *)work - offsetof(struct hash_job, work));
}

static void run(struct worker_job *work)
{
    struct hash_job *job = job_of(work);
    struct hasher *h = job->hasher;

    h->compute(job->password, job->setting, h->room, job->made);
}

static void done(struct worker_job *work)
{
    struct hash_job *job = job_of(work);
    bool cancelled = job->state == HASH_CANCELLED;

    job->hasher->stats->hashes_computed++;
    job->state = HASH_IDLE;
    if (cancelled)
        job->owner->free(job);
    else
        job->owner->done(job, true);
}

static void give(struct hasher *h, struct hash_job *job)
{
    job->work = (struct worker_job){.run = run, .done = done};
    job->state = HASH_COMPUTED;
    worker_give(&h->worker, &job->work);
}

static void give_more(void *arg)
{
    struct hasher *h = arg;
    struct hash_job *job;

    for (int passed = 0; h->worker.given < GIVEN_MAX; passed++) {
        if (passed == NEEDLESS_AT_A_TIME) {
            worker_poke(&h->worker);
            return;
        }
        job = next_job(h);
        if (job == NULL)
            return;
        if (job->owner->is_needed(job))
            give(h, job);
        else
            job->owner->done(job, false);
    }
}

/* --- From outside. --- */

void hasher_init(struct hasher *h, struct event_base *base, struct stats *stats, uint64_t seed)
{
    *h = (struct hasher){.stats = stats, .compute = password_hash};
    worker_init(&h->worker, base, give_more, h);
    table_init(&h->lanes, ACCOUNT_SESSIONS, seed, NULL);
    TAILQ_INIT(&h->order[0]);
    TAILQ_INIT(&h->order[1]);
}

void hasher_fini(struct hasher *h)
{
    worker_fini(&h->worker);
    table_fini(&h->lanes);
    free(h->room);
}

static bool start(struct hasher *h)
{
    if (h->room == NULL)
        h->room = calloc(1, sizeof *h->room);
    return h->room != NULL && worker_start(&h->worker);
}

/* Whoever waits is behind those who are given, so a new one has nobody before it when there is room
 * for it. */
enum hasher_result hasher_add(struct hasher *h, struct hash_job *job, const struct peer *peer,
                              bool suspect)
{
    if (!start(h))
        return HASHER_NO_MEMORY;
    job->hasher = h;
    job->made[0] = '\0';
    if (h->worker.given == GIVEN_MAX || h->lanes.count > 0)
        return wait_in_lane(h, job, peer, suspect);
    give(h, job);
    return HASHER_TAKEN;
}

void hasher_cancel(struct hash_job *job)
{
    if (job->state == HASH_COMPUTED) {
        job->state = HASH_CANCELLED;
        return;
    }
    if (job->state == HASH_WAITING)
        leave_lane(job);
    job->owner->free(job);
}
