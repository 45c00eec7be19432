/* Sessions of c10d as events of the policy: which are agents' or workers', and their requests. */
#include "rdzv/engine/log.h"
#include "rdzv/rendezvous/rendezvous.h"

/* The label and the address follow it. NULL: memory is short. */
static struct conn_agent *make_agent(struct conn *c)
{
    const struct topology_label *label = conn_is_relayed(c) ? c->backend->label : NULL;
    size_t label_size = label == NULL ? 0 : sizeof *label;
    char host[PEER_HOST_MAX] = "";
    struct peer local = {0};
    size_t host_size = conn_local(c, &local) ? strlen(peer_host(&local, host)) + 1 : 0;
    struct conn_agent *a = account_heap_request_zeroed(ACCOUNT_RUNS, ACCOUNT_SMALL,
                                                       sizeof *a + label_size + host_size);
    char *at = (char *)(a + 1);

    if (a == NULL)
        return NULL;
    a->conn = c;
    a->agent.pings = c10d_session(c)->pinged;
    a->agent.relayed = conn_is_relayed(c);
    a->agent.origin = c10d_session(c)->role == C10D_RESUMED ? ORIGIN_UNNAMED : ORIGIN_TOOL;
    a->agent.local_port = local.port;
    if (label != NULL)
        a->agent.label = memcpy(at, label, label_size);
    if (host_size != 0)
        a->agent.local_host = memcpy(at + label_size, host, host_size);
    return a;
}

/* The first key of the session tells that it is an agent's: binds it to the run of that key, which
 * is made if it is absent. `compared`: as for run_key_of(). */
static void bind_agent(struct rendezvous_space *home, struct conn *c, struct slice key,
                       bool compared)
{
    struct slice run_key = run_key_of(&home->runs, key, compared);
    struct live_run *run = driver_need_run(home, run_key);
    struct conn_agent *a = run == NULL ? NULL : make_agent(c);

    if (a == NULL)
        return; /* its keys stay plain, as the caller has them; a resumed session is asked again */
    a->run = run;
    c10d_session(c)->role = C10D_AGENT;
    c10d_session(c)->bound.agent = a;
    driver_step(run, (struct policy_event){.kind = AGENT_CONNECTED,
                                           .agent = &a->agent,
                                           .memo = a->agent.relayed ? c->backend->functions->hint(c)
                                                                    : (struct slice){0}});
}

static void bind_to(struct conn *c, struct worker_store *w)
{
    w->users++;
    c10d_session(c)->role = C10D_WORKER;
    c10d_session(c)->bound.worker_store = w->id;
}

/* A run that has workers here, beside the run of the agents' port. */
static const struct live_run *find_other_run(const struct rendezvous_space *home)
{
    TAILQ_EACH(struct run_view, v, &home->runs.list, order) {
        const struct live_run *run = live_run_of(v);

        if (run != home->shared && v->record.worker_store != 0 &&
            v->record.placement == WORKER_STORE_RDZVD &&
            (run->run.agent_count > 0 || run->run.start == START_AWAITED))
            return run;
    }
    return NULL;
}

/* The run whose agents use the relay of this session. Usually, the space has one run, and no agent
 * is looked at. NULL: no run has an agent there, or several have: the worker is dropped. */
static const struct live_run *run_of_relayed(const struct rendezvous_space *home, struct conn *c)
{
    const struct live_run *other = find_other_run(home), *run = NULL;
    size_t count = 0;

    if (other == NULL)
        return home->shared;
    run = effects_run_at_relay(home, c, NULL, &count);
    if (count > 1)
        conn_drop(c, DROP_RUN, "agents of several runs come through its relay, see --space",
                  (struct slice){0});
    else if (count == 0 && other->run.start == START_AWAITED)
        conn_drop(c, DROP_RUN, "its agent is not back since rdzvd was started, see --space",
                  (struct slice){0});
    return count == 1 ? run : NULL;
}

/* To the run that owns the port, or whose agents use the same relay, or else the run that has the
 * agents' port. Not if no agent of the run is here, nor may come back after a start, nor do its
 * workers go on: the agents' port has other clients as well. */
static void bind_worker(const struct rendezvous_space *home, struct conn *c)
{
    const struct live_run *run = c->listener->temporary ? c->listener->owner
                                 : conn_is_relayed(c)   ? run_of_relayed(home, c)
                                                        : home->shared;
    struct worker_store *w = run == NULL ? NULL : live_run_worker_store(run);

    if (w != NULL && (c->listener->temporary || run->run.agent_count > 0 ||
                      run->run.start == START_AWAITED || w->users > 0))
        bind_to(c, w);
}

static struct worker_store *find_worker_store(struct conn *c, uint64_t id)
{
    return worker_stores_find(&conn_space(c)->store->worker_stores, id);
}

/* Binds a session from before the start to its worker store, which then stays at least as long. */
static void rebind_session(void *, struct conn *c, uint64_t worker_store)
{
    struct worker_store *w = find_worker_store(c, worker_store);

    if (w != NULL)
        bind_to(c, w);
}

static void set_presence(void *, struct conn *c, enum c10d_presence presence)
{
    static const enum policy_event_kind kinds[] = {
        [C10D_HERE] = AGENT_BACK, [C10D_AWAY] = AGENT_AWAY, [C10D_GONE] = AGENT_GONE};
    struct conn_agent *a = c10d_session(c)->bound.agent;

    driver_step(a->run, (struct policy_event){.kind = kinds[presence], .agent = &a->agent});
}

static void on_returned(void *arg, struct engine_space *space)
{
    driver_step_space(driver_space_of(arg, space), (struct policy_event){.kind = RUN_RETURNED});
}

/* Torch's agents begin with a compare-and-set of their run's key. A client that reads the key
 * first, such as rdzvctl watch, is no agent, unless a relay has brought it over a start. */
static bool only_reads(const struct rendezvous_space *home, struct conn *c, struct slice key,
                       enum c10d_op op)
{
    bool looks = op == C10D_GET || op == C10D_MULTI_GET || op == C10D_CHECK || op == C10D_WAIT ||
                 op == C10D_WATCH_KEY;
    struct slice name;
    int64_t round;

    return looks && c10d_session(c)->role != C10D_RESUMED &&
           run_views_find_round(&home->runs, key, &round, &name) == NULL;
}

/* Its next request may show that the session is an agent's. */
static void note_reader(struct rendezvous_space *home, struct conn *c, struct slice key)
{
    struct run_view *v = run_views_find(&home->runs, key);

    c10d_session(c)->role = C10D_UNBOUND;
    if (v != NULL && v->is_ahead)
        driver_step(live_run_of(v), (struct policy_event){.kind = RUN_READ});
}

/* A job without a rendezvous begins again, as each of its clients counts itself first. If all
 * clients of its last attempt have gone, so has torch's store with rank 0. If all ranks have gone,
 * agents of --rdzv-backend=static may be here: they read their own keys again. False: more of the
 * keys go with the next slice. */
static bool forget_attempt(const struct rendezvous_space *home, struct conn *c, struct slice key,
                           enum c10d_op op)
{
    struct engine_space *space = home->space;
    bool is_done = true;

    if (op != C10D_ADD || !slice_is(key, "init/") || space->sessions_missing > 0 ||
        !(space->has_ranks || space->store->keys.sweep.next != NULL) ||
        !TAILQ_EMPTY(&home->runs.list))
        return true;
    if (space->c10d_sessions == 1 && space->old_keys > 0) {
        engine_forget_keys(home->rdzv->engine, space, "all clients of a job have gone");
    } else if (space->ranks_here == 0) {
        is_done =
            conn_begin_slice(c) &&
            engine_forget_ranks(home->rdzv->engine, space, slice_str("/" TORCH_DEFAULT_GROUP "/"));
        conn_end_slice(c);
    }
    return is_done;
}

static bool bind_session(void *arg, struct conn *c, struct slice key, enum c10d_op op)
{
    struct rendezvous_space *home = driver_space_of(arg, conn_space(c));

    engine_note_alive(((struct rendezvous *)arg)->engine);
    if (torch_key_is_agents(key) && only_reads(home, c, key, op))
        note_reader(home, c, key);
    else if (torch_key_is_agents(key))
        bind_agent(home, c, key, op == C10D_COMPARE_SET);
    else if (c10d_session(c)->role != C10D_RESUMED) {
        if (!forget_attempt(home, c, key, op))
            return false;
        bind_worker(home, c);
    }
    return true;
}

static void unbind_session(void *arg, struct conn *c)
{
    struct rendezvous *r = arg;

    if (c10d_session(c)->role == C10D_WORKER) {
        struct worker_store *w = find_worker_store(c, c10d_session(c)->bound.worker_store);

        if (!r->net->draining)
            r->worker_ended(driver_space_of(r, conn_space(c)), c);
        w->users--;
        effects_drop_if_unused(driver_space_of(r, conn_space(c)), w);
    } else {
        struct conn_agent *a = c10d_session(c)->bound.agent;

        driver_step(a->run, (struct policy_event){.kind = AGENT_DISCONNECTED,
                                                  .agent = &a->agent,
                                                  .daemon_drains = r->net->draining});
        account_heap_free(ACCOUNT_RUNS, a);
    }
}

/* What follows of the request; nothing if the step has ended the connection. A step that holds the
 * request may also let it go on, or cause another step that does so: by the end of another agent.
 * The request is not parked yet, so it is shown again here: else it would stay held for ever. */
static enum c10d_verdict step_request(struct conn_agent *a, struct policy_event event)
{
    const struct conn *c = a->conn;
    enum c10d_verdict verdict;

    event.agent = &a->agent;
    do
        verdict = driver_step(a->run, event);
    while (verdict == C10D_HELD && conn_is_open(c) && a->agent.held >= HELD_RELEASED);
    return verdict == C10D_PROCEED && !conn_is_open(c) ? C10D_ANSWERED : verdict;
}

/* GET or WAIT of the run's own key. */
static enum c10d_verdict on_poll(struct conn_agent *a, bool waits)
{
    const struct rendezvous *r = a->run->home->rdzv;
    struct slice shown = policy_poll_again(&a->run->run, &a->agent, waits, engine_now_ms(r->engine),
                                           driver_lived_ms(r));

    if (shown.ptr == NULL)
        return step_request(a, (struct policy_event){.kind = AGENT_POLLED, .waits = waits});
    if (waits)
        return C10D_PROCEED;
    c10d_reply_bytes(a->conn, shown);
    return C10D_ANSWERED;
}

/* Of the run's own key. */
static enum c10d_verdict on_compare_set(struct conn_agent *a, const struct c10d_request *req)
{
    struct rendezvous *r = a->run->home->rdzv;
    const struct policy_now now = {.ms = engine_now_ms(r->engine),
                                   .lived_ms = driver_lived_ms(r),
                                   .wall_ns = engine_wall_ns(r->engine)};
    struct slice shown = policy_heartbeat(&a->run->run, &a->agent, req->expected, req->value, &now);

    if (shown.ptr == NULL)
        return step_request(a, (struct policy_event){.kind = AGENT_COMPARE_SET,
                                                     .expected = req->expected,
                                                     .desired = req->value});
    r->engine->stats.jobs.writes_merged++;
    c10d_reply_bytes(a->conn, shown);
    return C10D_ANSWERED;
}

/* Workers of this agent do not find their store at the address that it has come to. */
static void note_elsewhere(const struct conn_agent *a)
{
    const struct run *run = &a->run->run;
    char node[NODE_TEXT_MAX];

    log_limited(
        LOG_WARN, "worker_store_elsewhere", log_str("space", a->run->home->space->store->name),
        log_bytes("run", run->view.id), log_str("node", node_text(&a->agent.node, node)),
        log_str("came_to", a->agent.local_host), log_bytes("address", run->view.record.address),
        log_u64("port", run->endpoint.own_port),
        log_str("hint", "give all nodes the same --rdzv-endpoint, and the run a space of "
                        "its own if agents use relays"));
}

/* GET of a key of the agent's own round. */
static enum c10d_verdict reply_round_key(struct conn_agent *a, const struct policy_event *event,
                                         struct slice key)
{
    struct slice stored = blob_slice(keymap_get(&a->run->home->space->store->keys, key));
    char port[PORT_TEXT_MAX];
    struct slice own = policy_agent_place(&a->run->run, event, stored, port);

    if (slice_equal(own, stored))
        return C10D_PROCEED;
    if (!effects_reaches_workers(a)) {
        if (slice_is(event->round_key, "MASTER_ADDR"))
            note_elsewhere(a);
        return C10D_PROCEED;
    }
    c10d_reply_bytes(a->conn, own);
    return C10D_ANSWERED;
}

/* Any other request. A GET of a key without a value waits, so it is no event of its own. */
static enum c10d_verdict on_other(struct conn_agent *a, const struct c10d_request *req,
                                  struct slice key)
{
    struct policy_event event = {.kind = AGENT_ASKED,
                                 .agent = &a->agent,
                                 .desired = req->value,
                                 .waits = req->op == C10D_WAIT};
    const struct rendezvous_space *home = a->run->home;
    enum c10d_verdict verdict;

    if (run_views_find_round(&home->runs, key, &event.round, &event.round_key) ==
        &a->run->run.view) {
        event.exists = keymap_get(&home->space->store->keys, key) != NULL;
        event.kind = req->op == C10D_SET                   ? AGENT_SET_ROUND_KEY
                     : req->op == C10D_ADD                 ? AGENT_ADD_ROUND_KEY
                     : req->op == C10D_GET && event.exists ? AGENT_GET_ROUND_KEY
                                                           : AGENT_ASKED;
    } else {
        event.round_key = (struct slice){0};
    }
    verdict = step_request(a, event);
    return verdict == C10D_PROCEED && event.kind == AGENT_GET_ROUND_KEY
               ? reply_round_key(a, &event, key)
               : verdict;
}

static enum c10d_verdict on_request(void *arg, struct conn *c, const struct c10d_request *req,
                                    struct slice key)
{
    struct conn_agent *a = c10d_session(c)->bound.agent;
    bool own = slice_equal(key, a->run->run.view.node.key);

    engine_note_alive(((struct rendezvous *)arg)->engine);
    if (req->op == C10D_COMPARE_SET)
        return own ? on_compare_set(a, req) : C10D_PROCEED;
    if (own && (req->op == C10D_GET || req->op == C10D_WAIT))
        return on_poll(a, req->op == C10D_WAIT);
    return on_other(a, req, key);
}

struct c10d_hooks rendezvous_hooks(struct rendezvous *r)
{
    if (!r->config->elastic.fixes)
        return (struct c10d_hooks){0};
    return (struct c10d_hooks){.bind = bind_session,
                               .unbind = unbind_session,
                               .rebind = rebind_session,
                               .set_presence = set_presence,
                               .returned = on_returned,
                               .on_request = on_request,
                               .arg = r};
}
