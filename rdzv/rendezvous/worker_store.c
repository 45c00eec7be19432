/* Decides where the workers of a run find their store, and gives each round an empty one: rdzvd is
 * that store wherever the agents allow it.
 *
 * From torch 2.6 on, agent 0 starts a store in its first round and says where to all others, by the
 * keys MASTER_ADDR and MASTER_PORT of the round. No agent asks again in later rounds: an agent that
 * joins then waits for keys that no agent writes, and the workers of a new round find the keys of
 * the old one. So agents read this daemon's own address there, in every round, and each completed
 * round gets a worker store of its own. That is exact: an agent ends its workers before it leaves a
 * round, and a round completes only after its participants have joined.
 *
 * Workers use the agents' port, so no Service or NetworkPolicy needs a second one; the keys tell
 * agents and workers apart. A second run in the same space gets a port of its own while the first
 * lives, and with --worker-ports each run gets one. A run that all agents and workers have left
 * gives it back, and gets one again, the same if it is free, when its next round is complete.
 *
 * Two kinds of agents must be left alone. Those of torch 2.4 and before listen in worker 0, at a
 * new address each round: they do not send PING. Later ones with
 * TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 do the same and look like the others, but for one thing:
 * when they say where their store is, no process listens there yet. So the host of agent 0 is
 * asked. */
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"

#include <stdio.h>
#include <stdlib.h>

#define PORT_TEXT_MAX 6
#define FULL          "the space is full, see --space-limit"

enum { PLACE_ADDR, PLACE_PORT, PLACES };

static const char *const place_names[PLACES] = {"MASTER_ADDR", "MASTER_PORT"};

static void forget_proposal(struct worker_endpoint *e)
{
    for (int i = 0; i < PLACES; i++) {
        account_heap_free(ACCOUNT_RUNS, (void *)(uintptr_t)e->proposed[i].ptr);
        e->proposed[i] = (struct slice){0};
    }
}

void worker_store_fini(struct worker_endpoint *e)
{
    forget_proposal(e);
}

void worker_store_release(struct step *s)
{
    struct worker_endpoint *e = &s->run->endpoint;

    if (e->probing)
        step_emit(s, POLICY_CANCEL_PROBE);
    if (e->own_port != 0 || e->opening_port || s->now->share == PORT_IS_OURS)
        step_emit(s, POLICY_CLOSE_PORT);
    forget_proposal(e);
    e->probing = e->opening_port = e->pending_open = e->is_owed = false;
    e->own_port = e->last_port = 0;
    e->pending = WORKER_STORE_UNKNOWN;
}

/* --- What agents read. --- */

/* The keys of the round for the places that are not NULL; all or none. False: the space has no
 * room.
 */
static bool put_places(struct step *s, enum policy_output_kind kind, int64_t round,
                       const struct slice places[PLACES])
{
    const struct run_view *v = &s->run->view;
    size_t key_room = v->node.key.len + RUN_KEY_ROOM, cost = 0;
    struct slice keys[PLACES], values[PLACES];

    for (int i = 0; i < PLACES; i++) {
        uint8_t *key, *value;

        if (places[i].ptr == NULL)
            continue;
        key = step_alloc(s, key_room);
        value = step_alloc(s, places[i].len);
        if (key == NULL || value == NULL)
            return false;
        memcpy(value, places[i].ptr, places[i].len);
        keys[i].ptr = key;
        keys[i].len = run_view_round_key(v, round, place_names[i], key);
        values[i] = (struct slice){value, places[i].len};
        cost += s->now->key_cost + keys[i].len + values[i].len;
    }
    if (cost > s->room)
        return false;
    s->room -= s->room == SIZE_MAX ? 0 : cost;
    for (int i = 0; i < PLACES; i++) {
        struct policy_output *put;

        if (places[i].ptr == NULL)
            continue;
        put = step_emit(s, kind);
        put->key = keys[i];
        put->value = values[i];
    }
    return true;
}

/* The address and port of the record, as the keys of the last completed round. */
static bool put_record_places(struct step *s, const struct view_record *record)
{
    char port[PORT_TEXT_MAX];

    snprintf(port, sizeof port, "%u", record->port);
    return put_places(s, POLICY_PUT, s->run->view.last_completed.round,
                      (struct slice[PLACES]){record->address, slice_str(port)});
}

/* Returns the address as a text that lives as long as the outputs; NULL: no memory, no change. */
static const char *keep_record(struct step *s, const struct view_record *record)
{
    uint8_t *address = step_alloc(s, record->address.len + 1);
    struct policy_output *put;

    if (address == NULL)
        return NULL;
    if (record->address.len != 0) /* it may be that of the view's record */
        memcpy(address, record->address.ptr, record->address.len);
    address[record->address.len] = '\0';
    if (!run_view_set_record(&s->run->view, record))
        return NULL;
    put = step_emit(s, POLICY_PUT_RECORD);
    put->record = s->run->view.record;
    put->record.address.ptr = address;
    return (const char *)address;
}

/* --- The endpoint. --- */

/* Without --advertise: the address by which agents have reached us, and rather one that is not
 * loopback, which means nothing on another machine. */
static const char *guess_host(const struct run *run)
{
    const char *found = NULL;
    const struct agent *a;

    TAILQ_FOREACH(a, &run->agents, entry) {
        bool loopback = strncmp(a->local_host, "127.", 4) == 0 || strcmp(a->local_host, "::1") == 0;

        if (a->local_host[0] == '\0' || (found != NULL && loopback))
            continue;
        found = a->local_host;
        if (!loopback)
            break;
    }
    return found;
}

/* Fills the endpoint into `record`, and says why it is that one; NULL: it is not known. */
static const char *find_endpoint(const struct run *run, struct view_record *record)
{
    const struct policy_settings *settings = run->settings;
    const struct worker_endpoint *e = &run->endpoint;
    const char *host =
        settings->advertise_host != NULL ? settings->advertise_host : guess_host(run);

    record->placement = WORKER_STORE_RDZVD;
    record->port = e->own_port != 0                ? e->own_port
                   : settings->advertise_port != 0 ? settings->advertise_port
                                                   : e->agents_port;
    if (host == NULL || record->port == 0)
        return NULL;
    record->address = slice_str(host);
    return e->own_port != 0 ? "a port of its own: --worker-ports, or another run has the agents'"
           : settings->advertise_host != NULL
               ? "--advertise says so"
               : "agents reach rdzvd by this address, see --advertise";
}

/* --- Deciding. --- */

static void postpone(struct step *s, enum worker_store_placement placement, const char *reason)
{
    struct worker_endpoint *e = &s->run->endpoint;

    if (e->pending == WORKER_STORE_UNKNOWN)
        explain_note(s, NOTE_WORKER_STORE_FAILED)->reason = FULL;
    e->pending = placement;
    e->pending_reason = reason;
}

static void note_assigned(struct step *s, const char *address, uint16_t port, const char *reason)
{
    struct note *note = explain_note(s, NOTE_WORKER_STORE_ASSIGNED);

    note->text = address;
    note->number = port;
    note->reason = reason;
}

static void decide_worker0(struct step *s, const char *reason)
{
    struct run_view *v = &s->run->view;
    struct worker_endpoint *e = &s->run->endpoint;
    const struct view_record record = {.placement = WORKER_STORE_WORKER0, .round = v->record.round};
    uint64_t worker_store = v->record.worker_store;

    if (v->has_completed && e->proposed[PLACE_ADDR].ptr != NULL &&
        e->proposed[PLACE_PORT].ptr != NULL &&
        !put_places(s, POLICY_PUT, v->last_completed.round, e->proposed)) {
        postpone(s, WORKER_STORE_WORKER0, reason);
        return;
    }
    if (keep_record(s, &record) == NULL)
        return;
    if (worker_store != 0)
        step_emit(s, POLICY_DROP_WORKER_STORE)->worker_store = worker_store;
    explain_note(s, NOTE_WORKER_STORE_EXTERNAL)->reason = reason;
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
    if (v->has_completed && !put_record_places(s, &record)) {
        postpone(s, WORKER_STORE_RDZVD, reason);
        return;
    }
    address = keep_record(s, &record);
    if (address == NULL)
        return;
    s->run->endpoint.pending = WORKER_STORE_UNKNOWN;
    s->run->endpoint.is_owed = false;
    forget_proposal(&s->run->endpoint);
    note_assigned(s, address, record.port, reason);
}

/* --- Agent 0 is lost before it has said anything. ---
 *
 * The others wait for the two keys, and end when torch's minute is over. They get rdzvd's own
 * address. Those of torch 2.6 and later keep it for life, which is what decide_rdzvd() wants; those
 * that host the store in worker 0 ask again in the next round. Which they are tells agent 0 of that
 * one: it says where before it does anything else, unless it knows that. */

/* An agent that hosts the store in worker 0 has said so by then. */
#define SAYS_MS 3000

static bool is_undecided(const struct run *run)
{
    const struct worker_endpoint *e = &run->endpoint;

    return run->view.record.placement == WORKER_STORE_UNKNOWN &&
           run->view.record.worker_store != 0 && !e->probing && e->pending == WORKER_STORE_UNKNOWN;
}

void worker_store_owe_place(struct step *s)
{
    struct worker_endpoint *e = &s->run->endpoint;
    struct view_record record = s->run->view.record;
    const struct agent *a = TAILQ_FIRST(&s->run->agents);

    if (e->agents_port == 0 && a != NULL)
        e->agents_port = a->local_port; /* the daemon was started since the round was complete */
    if (!is_undecided(s->run) || find_endpoint(s->run, &record) == NULL ||
        !put_record_places(s, &record))
        return;
    e->is_owed = true;
    e->owed_round = s->run->view.last_completed.round;
}

/* What agent 0 had said before the start is lost, unless it was decided then: it does not say it
 * again, and all agents wait for it. */
void worker_store_on_returned(struct step *s)
{
    const struct agent *a = TAILQ_FIRST(&s->run->agents);

    if (step_is_open(s) && s->run->view.state.complete && a != NULL && a->pings)
        worker_store_owe_place(s);
}

/* A later round is complete, and its agent 0 has not said all of it. */
static bool is_next_silent(const struct run *run)
{
    const struct torch_state *state = &run->view.state;

    return run->endpoint.is_owed && is_undecided(run) && state->complete &&
           state->round > run->endpoint.owed_round;
}

/* Agent 0 of the newest round sets any other key of it. */
static void note_other_key(struct step *s, const struct policy_event *event)
{
    const struct torch_node *node = run_node_of(s->run, event->agent);

    if (is_next_silent(s->run) && event->round == s->run->view.state.round && node != NULL &&
        node->participant && node->rank == 0)
        decide_rdzvd(s);
}

static void decide_if_silent(struct step *s)
{
    if (is_next_silent(s->run) && clock_elapsed_ms(s->run->completed_ms, s->now->ms) >= SAYS_MS)
        decide_rdzvd(s);
}

/* --- The answer of agent 0's host. --- */

void worker_store_on_probed(struct step *s, const struct policy_event *event)
{
    struct run *run = s->run;

    run->endpoint.probing = false;
    if (!run->view.exists || run->view.record.placement != WORKER_STORE_UNKNOWN)
        return;
    if (TAILQ_EMPTY(&run->agents)) /* none is left to ask, or to be answered */
        forget_proposal(&run->endpoint);
    else if (event->probed == PROBED_REFUSED && run->endpoint.asked != NULL)
        decide_worker0(s, "agent 0 hosts no store: worker 0 will "
                          "(TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1)");
    else
        decide_rdzvd(s); /* without a clear answer too: both sorts of agents can live with it */
}

void worker_store_on_restore(struct step *s)
{
    if (s->run->view.record.placement == WORKER_STORE_RDZVD && s->now->share == PORT_IS_FREE &&
        !s->run->settings->own_worker_ports)
        step_emit(s, POLICY_SHARE_PORT);
}

void worker_store_leave(struct step *s, const struct agent *a)
{
    if (s->run->endpoint.asked == a)
        s->run->endpoint.asked = NULL;
}

/* --- A store for each round. --- */

static void postpone_open(struct step *s)
{
    struct worker_endpoint *e = &s->run->endpoint;

    if (!e->pending_open)
        explain_note(s, NOTE_WORKER_STORE_FAILED)->reason = FULL;
    e->pending_open = true;
}

/* Opens one for the last completed round. `moved`: the run may have another port than before. */
static void open_store(struct step *s, bool moved)
{
    struct run_view *v = &s->run->view;
    struct view_record record = v->record, next = v->record;
    const char *reason = NULL, *address;
    uint64_t old = v->record.worker_store;

    if (moved && record.placement == WORKER_STORE_RDZVD)
        reason = find_endpoint(s->run, &next);
    if (reason != NULL)
        record = next;
    if (record.placement == WORKER_STORE_RDZVD && !put_record_places(s, &record)) {
        postpone_open(s);
        return;
    }
    record.worker_store = s->now->next_worker_store;
    record.round = v->last_completed.round;
    step_emit(s, POLICY_OPEN_WORKER_STORE)->worker_store = record.worker_store;
    address = keep_record(s, &record);
    if (address == NULL)
        old = record.worker_store; /* no memory: the one before stays */
    s->run->endpoint.pending_open = address == NULL;
    if (old != 0)
        step_emit(s, POLICY_DROP_WORKER_STORE)->worker_store = old;
    if (address != NULL && reason != NULL)
        note_assigned(s, address, record.port, reason);
}

void worker_store_on_completed(struct step *s, struct agent *by)
{
    struct run *run = s->run;
    struct worker_endpoint *e = &run->endpoint;

    if (!by->pings || run->view.record.placement == WORKER_STORE_WORKER0 || e->opening_port)
        return;
    if (e->agents_port == 0)
        e->agents_port = by->local_port;
    if (e->own_port != 0 || s->now->share == PORT_IS_OURS) {
        open_store(s, false);
    } else if (e->last_port == 0 && !run->settings->own_worker_ports &&
               s->now->share == PORT_IS_FREE) {
        step_emit(s, POLICY_SHARE_PORT);
        open_store(s, true);
    } else {
        e->opening_port = true;
        step_agent(s, POLICY_OPEN_PORT, by)->port = e->last_port;
    }
}

void worker_store_on_port_opened(struct step *s, const struct policy_event *event)
{
    struct worker_endpoint *e = &s->run->endpoint;

    if (!e->opening_port) { /* the run has ended since */
        if (event->port != 0)
            step_emit(s, POLICY_CLOSE_PORT);
        return;
    }
    e->opening_port = false;
    e->own_port = event->port;
    e->last_port = 0;
    if (e->own_port != 0) {
        open_store(s, true);
        return;
    }
    decide_worker0(s, "there is no port for them, see --worker-ports");
}

/* It would else hold a descriptor until the run is forgotten. */
static void give_port_back(struct step *s)
{
    struct worker_endpoint *e = &s->run->endpoint;

    if (e->own_port == 0 || s->now->own_port_in_use || run_keeps_port(s->run))
        return;
    step_emit(s, POLICY_CLOSE_PORT);
    e->last_port = e->own_port;
    e->own_port = 0;
}

void worker_store_on_tick(struct step *s)
{
    struct run *run = s->run;
    struct worker_endpoint *e = &run->endpoint;

    give_port_back(s);
    if (!run->view.exists || TAILQ_EMPTY(&run->agents))
        return;
    if (e->pending == WORKER_STORE_RDZVD)
        decide_rdzvd(s);
    else if (e->pending == WORKER_STORE_WORKER0)
        decide_worker0(s, e->pending_reason);
    if (e->pending_open)
        open_store(s, true);
    decide_if_silent(s);
}

/* --- What agent 0 says. --- */

/* Which of the two keys of a round an agent sets; PLACES: another key, or an agent or a run that is
 * left alone. Of older rounds once it is decided that the store is here: an agent that was away
 * would else keep a place that is half ours and half its own, for as long as it lives. */
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

static bool propose(struct worker_endpoint *e, int place, struct slice value)
{
    uint8_t *copy = account_heap_copy(ACCOUNT_RUNS, ACCOUNT_SMALL, value.ptr, value.len);

    if (copy == NULL)
        return false;
    account_heap_free(ACCOUNT_RUNS, (void *)(uintptr_t)e->proposed[place].ptr);
    e->proposed[place] = (struct slice){copy, value.len};
    return true;
}

/* Asks the host of agent 0 whether a process listens where it says that the store is. */
static void ask(struct step *s, struct agent *agent0)
{
    struct worker_endpoint *e = &s->run->endpoint;
    struct policy_output *probe;
    uint64_t port;

    e->agents_port = agent0->local_port;
    if (!slice_to_u64(e->proposed[PLACE_PORT], UINT16_MAX, &port) || port == 0) {
        decide_worker0(s, "MASTER_PORT is no port");
        return;
    }
    e->probing = true;
    e->asked = agent0;
    probe = step_agent(s, POLICY_PROBE, agent0);
    probe->port = (uint16_t)port;
}

/* An older round may be without its keys. False: the space has no room. */
static bool put_older_place(struct step *s, int64_t round, int place)
{
    const struct view_record *record = &s->run->view.record;
    struct slice places[PLACES] = {{0}};
    char port[PORT_TEXT_MAX];

    snprintf(port, sizeof port, "%u", record->port);
    places[place] = place == PLACE_ADDR ? record->address : slice_str(port);
    return put_places(s, POLICY_PUT_IF_ABSENT, round, places);
}

void worker_store_intercept_set(struct step *s, const struct policy_event *event)
{
    struct worker_endpoint *e = &s->run->endpoint;
    int place = place_set_by(&s->run->view, event);

    if (place == PLACES)
        note_other_key(s, event);
    if (place != PLACES && event->round < s->run->view.last_completed.round &&
        !put_older_place(s, event->round, place))
        place = PLACES;
    if (place == PLACES || (s->run->view.record.placement == WORKER_STORE_UNKNOWN &&
                            !propose(e, place, event->desired))) {
        step_emit(s, POLICY_PASS);
        return;
    }
    step_emit(s, POLICY_SWALLOW);
    if (s->run->view.record.placement == WORKER_STORE_UNKNOWN &&
        e->pending == WORKER_STORE_UNKNOWN && !e->probing && e->proposed[PLACE_ADDR].ptr != NULL &&
        e->proposed[PLACE_PORT].ptr != NULL)
        ask(s, event->agent);
}
