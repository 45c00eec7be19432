/* The relays of a run start and end together. See restart.h for the contract. */
#include "rdzv/relay/restart.h"

#include <inttypes.h>
#include <stdio.h>

#include "rdzv/engine/log.h"

#define NAMES_SHOWN    8u
#define NAME_SHOWN_MAX 60

/* --- Of a relay. --- */

struct relay_frame restart_frame(const struct restart *r, uint8_t room[RESTART_MESSAGE_MAX])
{
    struct slice name = slice_str(r->name);

    name.len = name.len < RESTART_NAME_MAX ? name.len : RESTART_NAME_MAX;
    bytes_put_u32(room, r->nodes);
    slice_copy(room + 4, name);
    return (struct relay_frame){.kind = RELAY_RESTART,
                                .flags = r->stage,
                                .number = r->generation,
                                .payload = {room, 4 + name.len}};
}

bool restart_receive(struct restart *r, const struct relay_frame *frame)
{
    struct slice says = frame->payload;

    if (r->stage == RESTART_RUNS) {
        r->is_due = r->is_due || frame->number > r->generation;
        return false;
    }
    if (frame->number != r->generation)
        r->stage = RESTART_WAITS;
    r->generation = frame->number;
    if (says.len != 0)
        snprintf(r->says, sizeof r->says, "%.*s", (int)says.len, (const char *)says.ptr);
    if (frame->flags == RESTART_ASKED || frame->flags == RESTART_RUNS)
        r->stage = frame->flags;
    if (r->stage == RESTART_RUNS) {
        snprintf(r->says, sizeof r->says, "generation %" PRIu64 " has started", r->generation);
        log_event(LOG_INFO, "restart_started", log_u64("generation", r->generation),
                  log_u64("nodes", r->nodes), log_str("node", r->name));
    }
    return frame->flags == RESTART_ASKED;
}

/* --- Of a store. --- */

struct restart_node {
    struct table_node by_name;
    TAILQ_ENTRY(restart_node) entry;
    struct relay_link *link; /* NULL: RESTART_AWAY */
    uint8_t stage;           /* enum restart_stage */
    uint8_t name[];
};

struct restart_run {
    struct table names;
    TAILQ_HEAD(, restart_node) nodes; /* one for each link, and up to N without a link */
    size_t counts[RESTART_STAGES];    /* nodes in each stage */
    uint64_t generation;
    uint32_t wanted; /* N, as the last relay has it */
    bool has_started;
    bool has_asked; /* all N relays, and none has come or gone since */
    bool is_news;   /* relays that wait must hear which nodes are missing */
};

static void enter_stage(struct restart_run *run, struct restart_node *n, enum restart_stage next)
{
    run->counts[n->stage]--;
    n->stage = (uint8_t)next;
    run->counts[next]++;
    run->is_news = true;
}

static size_t count_here(const struct restart_run *run)
{
    return run->counts[RESTART_WAITS] + run->counts[RESTART_ASKED];
}

#define NOTIFY_COST 128u /* a unit of engine.work, to the peer that causes it */

static void notify(const struct restart_run *run, struct relay_link *link, enum restart_stage stage,
                   const char *says)
{
    link->all->engine->work += NOTIFY_COST;
    relay_link_put(link, &(struct relay_frame){.kind = RELAY_RESTART,
                                               .flags = (uint8_t)stage,
                                               .number = run->generation,
                                               .payload = slice_str(says)});
}

static void forget_node(struct restart_run *run, struct restart_node *n)
{
    run->counts[n->stage]--;
    TAILQ_REMOVE(&run->nodes, n, entry);
    table_remove(&run->names, &n->by_name);
    account_free(ACCOUNT_SESSIONS, n, sizeof *n + n->by_name.key.len);
}

/* Relays that have answered wait again; or, with RESTART_RUNS, run, and no node is missing. */
static void notify_all(struct restart_run *run, enum restart_stage stage, const char *says)
{
    TAILQ_EACH_SAFE(struct restart_node, n, &run->nodes, entry) {
        if (n->link != NULL)
            notify(run, n->link, stage, says);
        if (n->link == NULL && stage == RESTART_RUNS)
            forget_node(run, n);
        else if (n->stage == RESTART_ASKED)
            enter_stage(run, n, stage == RESTART_RUNS ? RESTART_RUNS : RESTART_WAITS);
    }
}

/* The relays of earlier generations exit. `has_started`: before this store knew of it. */
static void begin_generation(struct restart_run *run, uint64_t generation, bool has_started)
{
    run->generation = generation;
    run->has_started = has_started;
    run->has_asked = false;
    notify_all(run, RESTART_WAITS, "");
}

static void go_on(struct restart_run *run)
{
    if (run->has_started && count_here(run) > 0)
        begin_generation(run, run->generation + 1, false);
    if (run->has_started || count_here(run) < run->wanted)
        return;
    if (run->has_asked && run->counts[RESTART_WAITS] == 0) {
        run->has_started = true;
        notify_all(run, RESTART_RUNS, "");
    } else if (!run->has_asked) {
        run->has_asked = true;
        notify_all(run, RESTART_ASKED, "");
    }
}

/* NULL: no memory. */
static struct restart_run *run_of(const struct relay_link *link)
{
    struct restart_run *run = link->space->restart;

    if (run != NULL)
        return run;
    run = account_request_zeroed(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *run);
    if (run == NULL)
        return NULL;
    table_init(&run->names, ACCOUNT_SESSIONS, link->all->engine->options.seed, NULL);
    TAILQ_INIT(&run->nodes);
    run->generation = 1;
    return link->space->restart = run;
}

/* NULL: no memory. */
static struct restart_node *node_of(struct restart_run *run, struct slice name)
{
    struct restart_node *n = (void *)table_find(&run->names, name);

    if (n != NULL)
        return n;
    n = account_request_zeroed(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *n + name.len);
    if (n == NULL)
        return NULL;
    n->by_name.key = slice_copy(n->name, name);
    table_add(&run->names, &n->by_name);
    TAILQ_INSERT_TAIL(&run->nodes, n, entry);
    run->counts[RESTART_AWAY]++;
    return n;
}

/* Another link of that node may be there: of this process or of the one before, and about to end.
 * If it lives, its relay has the same name, and takes the place back within a second. */
static void take_place(struct restart_run *run, struct restart_node *n, struct relay_link *link)
{
    if (n->link != NULL)
        n->link->restart = NULL;
    else
        engine_use_began(link->all->engine);
    n->link = link;
    link->restart = n;
    run->has_asked = false;
    enter_stage(run, n, RESTART_WAITS);
}

static void take_stage(struct restart_run *run, struct relay_link *link, struct slice name,
                       const struct relay_frame *frame)
{
    bool is_same, runs = frame->flags == RESTART_RUNS;
    struct restart_node *n;

    if (frame->number > run->generation ||
        (runs && frame->number == run->generation && !run->has_started))
        begin_generation(run, frame->number, runs);
    is_same = frame->number == run->generation;
    if (runs && !is_same) {
        notify(run, link, RESTART_WAITS, "");
        return;
    }
    runs = runs || (is_same && frame->flags == RESTART_ASKED && run->has_started);
    if (!runs && run->has_started)
        begin_generation(run, run->generation + 1, false);
    n = node_of(run, name);
    if (n == NULL)
        return; /* the relay asks again */
    if (n->link != link)
        take_place(run, n, link);
    else if (is_same && frame->flags == RESTART_ASKED && run->has_asked)
        enter_stage(run, n, RESTART_ASKED);
    if (runs) {
        enter_stage(run, n, RESTART_RUNS);
        notify(run, link, RESTART_RUNS, "");
    }
    go_on(run);
}

const char *link_restart_take(struct relay_link *link, const struct relay_frame *frame)
{
    struct slice name = slice_from(frame->payload, frame->payload.len < 4 ? 0 : 4);
    struct restart_run *run;

    if (frame->payload.len <= 4 || name.len > RESTART_NAME_MAX || frame->number > INT64_MAX)
        return "a RESTART that no relay sends";
    if (link->restart != NULL && !slice_equal(link->restart->by_name.key, name))
        return "a RESTART with the name of a second node";
    run = run_of(link);
    if (run == NULL)
        return NULL;
    run->wanted = bytes_get_u32(frame->payload.ptr);
    take_stage(run, link, name, frame);
    return NULL;
}

void link_restart_leave(struct relay_link *link)
{
    struct restart_node *n = link->restart;
    struct restart_run *run;

    if (n == NULL)
        return;
    run = link->space->restart;
    link->restart = NULL;
    n->link = NULL;
    run->has_asked = false;
    enter_stage(run, n, RESTART_AWAY);
    engine_use_ended(link->all->engine);
    if (run->counts[RESTART_AWAY] > run->wanted || run->counts[RESTART_AWAY] > RELAY_CLIENTS_MAX)
        forget_node(run, n);
}

bool link_restart_order(struct engine_space *space)
{
    struct restart_run *run = space->restart;

    if (run == NULL || run->counts[RESTART_RUNS] == 0 || !run->has_started)
        return false;
    begin_generation(run, run->generation + 1, false);
    return true;
}

/* Names the missing nodes; if none is known, those that are here. */
static void say_missing(const struct restart_run *run, char says[RESTART_SAYS_MAX])
{
    size_t here = count_here(run), shown = 0;
    size_t missing = run->counts[RESTART_AWAY] + run->counts[RESTART_RUNS];
    int len = snprintf(says, RESTART_SAYS_MAX, "%zu of %" PRIu32 " relays of the run are here",
                       here, run->wanted);

    TAILQ_EACH(const struct restart_node, n, &run->nodes, entry) {
        bool is_here = n->stage == RESTART_WAITS || n->stage == RESTART_ASKED;
        size_t name_len = n->by_name.key.len < NAME_SHOWN_MAX ? n->by_name.key.len : NAME_SHOWN_MAX;

        if (is_here == (missing > 0) || shown++ >= NAMES_SHOWN)
            continue;
        len += snprintf(says + len, RESTART_SAYS_MAX - (size_t)len, "%s%.*s",
                        shown > 1     ? ", "
                        : missing > 0 ? "; missing: "
                                      : ": ",
                        (int)name_len, (const char *)n->name);
    }
    if (shown > NAMES_SHOWN)
        snprintf(says + len, RESTART_SAYS_MAX - (size_t)len, " and %zu more", shown - NAMES_SHOWN);
}

void link_restart_tick(const struct engine *e)
{
    char says[RESTART_SAYS_MAX];

    TAILQ_EACH(const struct engine_space, space, &e->spaces, entry) {
        struct restart_run *run = space->restart;

        if (run == NULL || run->has_started || run->has_asked || !run->is_news)
            continue;
        run->is_news = false;
        say_missing(run, says);
        notify_all(run, RESTART_WAITS, says);
    }
}

void link_restart_fini(const struct engine *e)
{
    TAILQ_EACH(const struct engine_space, space, &e->spaces, entry) {
        struct restart_run *run = space->restart;

        if (run == NULL)
            continue;
        while (!TAILQ_EMPTY(&run->nodes))
            forget_node(run, TAILQ_FIRST(&run->nodes));
        table_fini(&run->names);
        account_free(ACCOUNT_SESSIONS, run, sizeof *run);
    }
}
