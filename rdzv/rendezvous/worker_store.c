/* Decides where the workers of a run find their store, and gives each round an empty one: rdzvd is
 * that store wherever the agents allow it. README.md has the releases of torch and the ports.
 *
 * In every round, each agent reads in MASTER_ADDR and MASTER_PORT the address by which it has
 * reached this daemon, and each completed round gets a worker store of its own. That is exact: an
 * agent ends its workers before it leaves a round, and a round completes only after its
 * participants have joined.
 *
 * Agents that do not send PING (torch 2.4 and before) are left alone, and those for which no
 * process listens yet when agent 0 writes the address of its store: so the host of agent 0 is
 * asked. */
#include "rdzv/rendezvous/policy.h"
#include "rdzv/rendezvous/policy_internal.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>

enum { PLACE_ADDR, PLACE_PORT, PLACES };

static const char *const place_names[PLACES] = {"MASTER_ADDR", "MASTER_PORT"};

/* --- States. --- */

static void endpoint_enter(struct worker_endpoint *e, enum worker_endpoint_state next)
{
    static const unsigned legal[] = {
        [ENDPOINT_RESTS] = 1u << ENDPOINT_PROBES | 1u << ENDPOINT_OPENS_PORT |
                           1u << ENDPOINT_LACKS_RDZVD | 1u << ENDPOINT_LACKS_WORKER0,
        [ENDPOINT_PROBES] = 1u << ENDPOINT_RESTS,
        [ENDPOINT_OPENS_PORT] = 1u << ENDPOINT_RESTS,
        [ENDPOINT_LACKS_RDZVD] = 1u << ENDPOINT_RESTS | 1u << ENDPOINT_LACKS_WORKER0,
        [ENDPOINT_LACKS_WORKER0] = 1u << ENDPOINT_RESTS,
    };

    assert(e->state == next || legal[e->state] & 1u << next);
    e->state = next;
}

/* Drops the addresses that agents have proposed, and cancels the probe or port of them. */
static void endpoint_rest(struct step *s)
{
    struct worker_endpoint *e = &s->run->endpoint;

    if (e->state == ENDPOINT_PROBES)
        step_emit(s, POLICY_CANCEL_PROBE);
    worker_endpoint_forget(e);
    e->owed_round = ROUND_NONE;
    endpoint_enter(e, ENDPOINT_RESTS);
}

void worker_store_release(struct step *s)
{
    struct worker_endpoint *e = &s->run->endpoint;
    bool has_port =
        e->own_port != 0 || e->state == ENDPOINT_OPENS_PORT || s->now->share == PORT_IS_OURS;

    endpoint_rest(s);
    e->lacks_store = false;
    if (has_port)
        step_emit(s, POLICY_CLOSE_PORT);
    e->own_port = e->last_port = 0;
}

/* --- What agents read. --- */

/* The two keys of that round; both or none. False: the space has no room. */
static bool put_places(struct step *s, enum policy_output_kind kind, int64_t round,
                       const struct slice *places)
{
    size_t count = s->out->count, room = s->room;

    for (int i = 0; i < PLACES; i++) {
        if (step_put_round_key(s, kind, round, place_names[i], places[i]))
            continue;
        s->out->count = count;
        s->room = room;
        return false;
    }
    return true;
}

/* The same of the address and port of the record. */
static bool put_record_places(struct step *s, enum policy_output_kind kind, int64_t round,
                              const struct view_record *record)
{
    char port[PORT_TEXT_MAX];

    snprintf(port, sizeof port, "%u", record->port);
    return put_places(s, kind, round, (struct slice[PLACES]){record->address, slice_str(port)});
}

/* Returns the address as a text that lives as long as the outputs; NULL: no memory, no change. */
static const char *keep_record(struct step *s, const struct view_record *record)
{
    uint8_t *address = step_alloc(s, record->address.len + 1);
    struct policy_output *put;

    if (address == NULL)
        return NULL;
    slice_copy(address, record->address); /* it may be that of the view's record */
    address[record->address.len] = '\0';
    if (!run_view_set_record(&s->run->view, record))
        return NULL;
    put = step_emit(s, POLICY_PUT_RECORD);
    put->record = s->run->view.record;
    put->record.address.ptr = address;
    return (const char *)address;
}

/* --- The endpoint. --- */

/* The agent whose connection tells the address of rdzvd; NULL: none. Rather not by loopback, which
 * means nothing on another machine, nor by a relay, which does not have the run's own port. */
static struct agent *find_witness(const struct run *run, bool own_port)
{
    struct agent *found = NULL;
    int least = INT_MAX;

    AGENTS_FOREACH(a, &run->agents) {
        struct slice host = slice_str(a->local_host == NULL ? "" : a->local_host);
        bool loopback = slice_starts_with(host, slice_str("127.")) || slice_is(host, "::1");
        int doubts = (own_port && a->relayed ? 2 : 0) + (loopback ? 1 : 0);

        if (host.len == 0 || doubts >= least)
            continue;
        found = a;
        least = doubts;
    }
    return found;
}

/* Fills the endpoint into `record`, and says why it is that one; NULL: it is not known. */
static const char *find_endpoint(const struct run *run, struct view_record *record)
{
    const struct policy_settings *settings = run->settings;
    const char *host = settings->advertise_host;
    uint16_t own_port = run->endpoint.own_port;
    const struct agent *witness = find_witness(run, own_port != 0);

    if (host == NULL && witness != NULL)
        host = witness->local_host;
    record->placement = WORKER_STORE_RDZVD;
    record->port = own_port != 0                   ? own_port
                   : settings->advertise_port != 0 ? settings->advertise_port
                   : witness != NULL               ? witness->local_port
                                                   : 0;
    if (host == NULL || record->port == 0)
        return NULL;
    record->address = slice_str(host);
    return own_port != 0 && witness != NULL && witness->relayed
               ? "a relay of its agents passes its workers on"
           : own_port != 0 ? "a port of its own: --worker-ports, or another run has the agents'"
           : settings->advertise_host != NULL
               ? "--advertise says so"
               : "an agent reaches rdzvd by it; each agent reads its own, see --advertise";
}

/* Workers run beside their agent, so they reach rdzvd as it does. The keys of the round have the
 * endpoint of one agent, which may mean nothing on the machine of another. */
struct slice policy_agent_place(const struct run *run, const struct policy_event *event,
                                struct slice stored, char port[PORT_TEXT_MAX])
{
    const struct view_record *record = &run->view.record;
    bool is_port = slice_is(event->round_key, place_names[PLACE_PORT]);

    if (run->settings->advertise_host != NULL || event->agent->local_host == NULL ||
        (is_port && run->endpoint.own_port != 0 && !event->agent->relayed) ||
        (!is_port && !slice_is(event->round_key, place_names[PLACE_ADDR])))
        return stored;
    snprintf(port, PORT_TEXT_MAX, "%u", record->port);
    if (run->endpoint.owed_round != event->round &&
        (record->placement != WORKER_STORE_RDZVD ||
         !slice_equal(stored, is_port ? slice_str(port) : record->address)))
        return stored; /* an agent's own words */
    snprintf(port, PORT_TEXT_MAX, "%u", event->agent->local_port);
    return slice_str(is_port ? port : event->agent->local_host);
}

/* --- Deciding. --- */

/* The space has no room now: the tick tries again. */
static void note_full(struct step *s)
{
    explain_note(s, NOTE_WORKER_STORE_FAILED, 0, "the space is full, see --space-limit");
}

static void postpone(struct step *s, enum worker_endpoint_state next)
{
    struct worker_endpoint *e = &s->run->endpoint;

    if (e->state == ENDPOINT_RESTS)
        note_full(s);
    endpoint_enter(e, next);
}

static bool has_proposal(const struct worker_endpoint *e)
{
    return e->proposed[PLACE_ADDR].ptr != NULL && e->proposed[PLACE_PORT].ptr != NULL;
}

static void decide_worker0(struct step *s, const char *reason)
{
    struct run_view *v = &s->run->view;
    struct worker_endpoint *e = &s->run->endpoint;
    const struct view_record record = {.placement = WORKER_STORE_WORKER0, .round = v->record.round};
    uint64_t worker_store = v->record.worker_store;

    if (v->has_completed && has_proposal(e) &&
        !put_places(s, POLICY_PUT, v->last_completed.round, e->proposed)) {
        e->why_worker0 = reason;
        postpone(s, ENDPOINT_LACKS_WORKER0);
        return;
    }
    if (keep_record(s, &record) == NULL)
        return;
    if (worker_store != 0)
        step_emit(s, POLICY_DROP_WORKER_STORE)->worker_store = worker_store;
    explain_note(s, NOTE_WORKER_STORE_EXTERNAL, 0, reason);
    worker_store_release(s);
}

static void decide_rdzvd(struct step *s)
{
    struct run_view *v = &s->run->view;
    struct view_record record = v->record;
    const char *reason = find_endpoint(s->run, &record), *address;

    if (reason == NULL) {
        decide_worker0(s, "rdzvd does not know its own address, see --advertise");
        return;
    }
    if (v->has_completed && !put_record_places(s, POLICY_PUT, v->last_completed.round, &record)) {
        postpone(s, ENDPOINT_LACKS_RDZVD);
        return;
    }
    address = keep_record(s, &record);
    if (address == NULL)
        return;
    endpoint_rest(s);
    explain_note(s, NOTE_WORKER_STORE_ASSIGNED, record.port, reason)->text = address;
}

/* --- Agent 0 is lost before it has said anything. ---
 *
 * The others wait for the two keys, and end when torch's minute is over. They get rdzvd's own
 * address. Agents of torch 2.6 and later keep that address for life, as decide_rdzvd() wants it;
 * those that host the store in worker 0 ask again in the next round. Which they are tells agent 0
 * of that one: its first keys are the address and the port, unless it knows them already. */

/* An agent that hosts the store in worker 0 has written its address by then. */
#define SAYS_MS 3000

static bool is_undecided(const struct run *run)
{
    return run->view.record.placement == WORKER_STORE_UNKNOWN &&
           run->view.record.worker_store != 0 && run->endpoint.state == ENDPOINT_RESTS;
}

void worker_store_owe_place(struct step *s)
{
    struct view_record record = s->run->view.record;
    int64_t round = s->run->view.last_completed.round;

    if (is_undecided(s->run) && find_endpoint(s->run, &record) != NULL &&
        put_record_places(s, POLICY_PUT, round, &record))
        s->run->endpoint.owed_round = round;
}

/* A proposal of agent 0 from before the start is lost, unless rdzvd had decided by then. Agent 0
 * does not write the keys again, and all agents wait for these keys. */
void worker_store_on_returned(struct step *s)
{
    const struct agent *a = TAILQ_FIRST(&s->run->agents);

    if (step_is_open(s) && s->run->view.state.complete && a != NULL && a->pings)
        worker_store_owe_place(s);
}

/* A later round is complete, and its agent 0 has not written both keys. */
static bool is_next_silent(const struct run *run)
{
    const struct torch_state *state = &run->view.state;

    return run->endpoint.owed_round != ROUND_NONE && is_undecided(run) && state->complete &&
           state->round > run->endpoint.owed_round;
}

/* Agent 0 of the newest round sets any other key of it. */
static void note_other_key(struct step *s, const struct policy_event *event)
{
    if (is_next_silent(s->run) && event->round == s->run->view.state.round &&
        run_takes_part(s->run, event->agent) && run_node_of(s->run, event->agent)->rank == 0)
        decide_rdzvd(s);
}

/* --- The answer of agent 0's host. --- */

void worker_store_on_probed(struct step *s, const struct policy_event *event)
{
    struct run *run = s->run;

    if (run->endpoint.state != ENDPOINT_PROBES)
        return;
    endpoint_enter(&run->endpoint, ENDPOINT_RESTS);
    if (!run->view.exists || run->view.record.placement != WORKER_STORE_UNKNOWN)
        return;
    if (TAILQ_EMPTY(
            &run->agents)) /* no agent is left that could be probed, or could read the answer */
        worker_endpoint_forget(&run->endpoint);
    else if (event->refused && run->endpoint.asked != NULL)
        decide_worker0(s, "agent 0 hosts no store: worker 0 will "
                          "(TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1)");
    else
        decide_rdzvd(s); /* without a clear answer too: both sorts of agents can live with it */
}

void worker_store_on_restore(struct step *s)
{
    if (s->run->view.record.placement == WORKER_STORE_RDZVD && s->now->share == PORT_IS_FREE &&
        s->run->settings->worker_port_low == 0)
        step_emit(s, POLICY_SHARE_PORT);
}

/* --- A store for each round. --- */

/* Opens one for the last completed round. `moved`: the run may have another port than before. */
static void open_store(struct step *s, bool moved)
{
    struct worker_endpoint *e = &s->run->endpoint;
    struct run_view *v = &s->run->view;
    struct view_record record = v->record, next = v->record;
    const char *reason = NULL, *address;
    uint64_t old = v->record.worker_store;

    if (moved && record.placement == WORKER_STORE_RDZVD)
        reason = find_endpoint(s->run, &next);
    if (reason != NULL)
        record = next;
    if (record.placement == WORKER_STORE_RDZVD &&
        !put_record_places(s, POLICY_PUT, v->last_completed.round, &record)) {
        if (!e->lacks_store)
            note_full(s);
        e->lacks_store = true;
        return;
    }
    record.worker_store = s->now->next_worker_store;
    record.round = v->last_completed.round;
    step_emit(s, POLICY_OPEN_WORKER_STORE)->worker_store = record.worker_store;
    address = keep_record(s, &record);
    if (address == NULL)
        old = record.worker_store; /* no memory: the one before stays */
    e->lacks_store = address == NULL;
    if (old != 0)
        step_emit(s, POLICY_DROP_WORKER_STORE)->worker_store = old;
    if (address != NULL && reason != NULL)
        explain_note(s, NOTE_WORKER_STORE_ASSIGNED, record.port, reason)->text = address;
}

void worker_store_on_completed(struct step *s, struct agent *by)
{
    struct run *run = s->run;
    struct worker_endpoint *e = &run->endpoint;
    struct agent *witness;

    if (!by->pings || run->view.record.placement == WORKER_STORE_WORKER0 ||
        e->state == ENDPOINT_OPENS_PORT || e->state == ENDPOINT_LACKS_WORKER0)
        return;
    if (e->own_port != 0 || s->now->share == PORT_IS_OURS) {
        open_store(s, false);
    } else if (e->last_port == 0 && run->settings->worker_port_low == 0 &&
               s->now->share == PORT_IS_FREE) {
        step_emit(s, POLICY_SHARE_PORT);
        open_store(s, true);
    } else {
        endpoint_rest(s); /* if it had a port, all agents have left since */
        endpoint_enter(e, ENDPOINT_OPENS_PORT);
        witness = find_witness(run, true);
        by = witness == NULL || witness->relayed ? by : witness;
        step_agent(s, POLICY_OPEN_PORT, by)->port = e->last_port;
    }
}

void worker_store_on_port_opened(struct step *s, const struct policy_event *event)
{
    struct worker_endpoint *e = &s->run->endpoint;

    if (e->state != ENDPOINT_OPENS_PORT) { /* the run has ended since */
        if (event->port != 0)
            step_emit(s, POLICY_CLOSE_PORT);
        return;
    }
    endpoint_enter(e, ENDPOINT_RESTS);
    e->own_port = event->port;
    e->last_port = 0;
    if (e->own_port != 0)
        open_store(s, true);
    else
        decide_worker0(s, "there is no port for them, see --worker-ports");
}

/* It would else hold a descriptor until the run is forgotten. */
static void give_port_back(struct step *s)
{
    struct worker_endpoint *e = &s->run->endpoint;

    if (e->own_port == 0 || s->now->own_port_in_use || run_keeps_port(s->run))
        return;
    endpoint_rest(s);
    step_emit(s, POLICY_CLOSE_PORT);
    e->last_port = e->own_port;
    e->own_port = 0;
}

void worker_store_on_tick(struct step *s)
{
    struct run *run = s->run;

    give_port_back(s);
    if (!run->view.exists || TAILQ_EMPTY(&run->agents))
        return;
    if (run->endpoint.state == ENDPOINT_LACKS_RDZVD)
        decide_rdzvd(s);
    else if (run->endpoint.state == ENDPOINT_LACKS_WORKER0)
        decide_worker0(s, run->endpoint.why_worker0);
    if (run->endpoint.lacks_store)
        open_store(s, true);
    if (is_next_silent(run) && clock_elapsed_ms(run->completed_ms, s->now->lived_ms) >= SAYS_MS)
        decide_rdzvd(s);
}

/* --- What agent 0 says. --- */

/* Which of the two keys of a round an agent sets; PLACES: another key, or an agent or a run that is
 * left alone. Of older rounds once it is decided that the store is here: otherwise an agent that
 * was away would for life keep an address of rdzvd with a port of another store, or the reverse. */
static int place_set_by(const struct run_view *v, const struct policy_event *event)
{
    bool is_older =
        event->round < v->last_completed.round && v->record.placement == WORKER_STORE_RDZVD;

    if (!event->agent->pings || v->record.placement == WORKER_STORE_WORKER0 ||
        v->record.worker_store == 0 || !v->has_completed ||
        (event->round != v->last_completed.round && !is_older))
        return PLACES;
    for (int i = 0; i < PLACES; i++) {
        if (slice_is(event->round_key, place_names[i]))
            return i;
    }
    return PLACES;
}

/* Asks the host of agent 0 whether a process listens where it says that the store is. */
static void ask(struct step *s, struct agent *agent0)
{
    struct worker_endpoint *e = &s->run->endpoint;
    struct policy_output *probe;
    uint64_t port;

    if (!slice_to_u64(e->proposed[PLACE_PORT], UINT16_MAX, &port) || port == 0) {
        decide_worker0(s, "MASTER_PORT is no port");
        return;
    }
    endpoint_enter(e, ENDPOINT_PROBES);
    e->asked = agent0;
    probe = step_agent(s, POLICY_PROBE, agent0);
    probe->port = (uint16_t)port;
}

void worker_store_intercept_set(struct step *s, const struct policy_event *event)
{
    const struct run_view *v = &s->run->view;
    struct worker_endpoint *e = &s->run->endpoint;
    int place = place_set_by(v, event);

    if (place == PLACES)
        note_other_key(s, event);
    if (place == PLACES ||
        (event->round < v->last_completed.round && /* which may be without its keys */
         !put_record_places(s, POLICY_PUT_IF_ABSENT, event->round, &v->record)) ||
        (v->record.placement == WORKER_STORE_UNKNOWN &&
         !run_view_keep(&e->proposed[place], event->desired))) {
        step_emit(s, POLICY_PASS);
        return;
    }
    step_emit(s, POLICY_SWALLOW);
    if (is_undecided(s->run) && has_proposal(e))
        ask(s, event->agent);
}
