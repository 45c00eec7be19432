/* Writing the state of a run: one agent after the other.
 *
 * Torch's agents rewrite the whole state with a compare-and-set and, when it fails, try again at
 * once from what the answer says: a thousand that join together fail a thousand times each. Here
 * the one who has just been told the newest state has the turn: all others' compare-and-sets wait,
 * unanswered, until it has written or asks for something else, or for as long as agents of this
 * run usually need, four times over. Then the first in line is answered, which tells it the newest
 * state, and so on: each of them fails once and succeeds once. That is what a slow network could
 * have done, so it changes no meaning.
 *
 * Whoever stands in line lives and cannot say so: its heartbeat is kept fresh. And a heartbeat
 * that can be merged (elastic_state.c) does not have to stand in line. */
#include "rdzv/rendezvous/elastic_internal.h"

#define TURN_LEAST_US 20000
#define TURN_MOST_US  250000
#define TURN_FIRST_US 62500 /* what agents are thought to need before any has shown it */
#define REFRESH_MS    1000  /* how often the line is looked through */
#define REFRESH_FROM_US                                                       \
    4000000 /* younger heartbeats are good as they are: torch's come each 5 s \
             */

void elastic_turn_init(struct elastic_run *er)
{
    er->turn_usual_us = TURN_FIRST_US;
}

static void on_turn_ends(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    elastic_pass_turn(arg);
}

void elastic_give_turn(struct elastic_run *er, struct agent *a)
{
    uint64_t us = er->turn_usual_us * 4;
    struct timeval patience = {0};

    us = us < TURN_LEAST_US ? TURN_LEAST_US : us > TURN_MOST_US ? TURN_MOST_US : us;
    patience.tv_usec = (suseconds_t)us;
    if (er->turn == NULL)
        evtimer_assign(&er->turn_ends, er->rdzv->net->base, on_turn_ends, er);
    er->turn = a;
    er->turn_began_ns = engine_wall_ns(er->rdzv->engine);
    evtimer_add(&er->turn_ends, &patience);
}

/* How long a turn takes, in the mean of the last few; one that was cut short counts as if it had
 * ended just then, so the time grows when all of them are. */
static void learn(struct elastic_run *er)
{
    int64_t took = (engine_wall_ns(er->rdzv->engine) - er->turn_began_ns) / 1000;

    if (took < 0 || took > TURN_MOST_US)
        took = TURN_MOST_US; /* the clock was set */
    er->turn_usual_us = (er->turn_usual_us * 7 + (uint64_t)took) / 8;
}

static void refresh_line(struct elastic_run *er)
{
    struct run *run = elastic_store_run(er);
    uint64_t now_ms = engine_now_ms(er->rdzv->engine);
    int64_t now_us = engine_wall_ns(er->rdzv->engine) / 1000;
    struct store_result result;
    struct agent *a;
    bool any = false;

    if (!er->rdzv->config->elastic.merge_heartbeats || run == NULL || !run->known ||
        run->state.closed || now_ms - er->refreshed_ms < REFRESH_MS)
        return;
    er->refreshed_ms = now_ms;
    TAILQ_FOREACH(a, &er->line, line) {
        struct torch_node *node = a->has_node ? torch_state_find(&run->state, &a->node) : NULL;
        int64_t now;

        if (node == NULL || !node->has_heartbeat ||
            __builtin_add_overflow(now_us, a->ahead_us, &now) ||
            node->heartbeat_us >= now - REFRESH_FROM_US)
            continue;
        node->heartbeat_us = now;
        any = true;
    }
    if (any)
        elastic_write(er, &run->state, &result);
}

void elastic_pass_turn(struct elastic_run *er)
{
    struct agent *next;

    if (er->turn != NULL) {
        learn(er);
        evtimer_del(&er->turn_ends);
    }
    er->turn = NULL;
    refresh_line(er);
    next = TAILQ_FIRST(&er->line);
    if (next == NULL)
        return;
    TAILQ_REMOVE(&er->line, next, line);
    next->in_line = false;
    elastic_give_turn(er, next);
    input_unpark(next->conn);
}

void elastic_end_turns(struct elastic_run *er)
{
    struct agent *a;

    if (er->turn != NULL)
        evtimer_del(&er->turn_ends);
    er->turn = NULL;
    while ((a = TAILQ_FIRST(&er->line)) != NULL) {
        TAILQ_REMOVE(&er->line, a, line);
        a->in_line = false;
        input_unpark(a->conn);
    }
}

void elastic_leave_line(struct agent *a)
{
    struct elastic_run *er = a->run;

    if (a->in_line)
        TAILQ_REMOVE(&er->line, a, line);
    a->in_line = false;
    if (er->turn == a)
        elastic_pass_turn(er);
}

bool elastic_holds(struct conn *c, const struct c10d_request *req)
{
    struct agent *a = c10d_session(c)->bound.agent;
    struct elastic_run *er = a->run;

    if (elastic_is_held(a, req))
        return true;
    /* The one that makes the key expects nothing, and its failure makes nobody try again. */
    if (req->op != C10D_COMPARE_SET || req->expected.len == 0 || er->turn == NULL ||
        er->turn == a || !slice_equal(req->key, er->key) || elastic_is_heartbeat(er, req))
        return false;
    if (!a->in_line)
        TAILQ_INSERT_TAIL(&er->line, a, line);
    a->in_line = true;
    return true;
}
