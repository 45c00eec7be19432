/* Torch's rules of a rendezvous, for one agent. See model_agent.h; the names of functions are those
 * of dynamic_rendezvous.py. */
#include "tests/sim/model_agent.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SENTINEL        "Y2FuaW1hZGFt"
#define TERMINAL_STATE  "torchelastic/agent/terminal_state/"
#define INTERVAL_MS     5000 /* of heartbeats */
#define DEAD_US         15000000
#define CACHE_MS        1000
#define POLL_MS         1000
#define READ_MS         100
#define READ_TIMEOUT_MS 60000
#define JOIN_TIMEOUT_MS 600000

enum action {
    ACTION_FINISH,
    ACTION_SYNC,
    ACTION_KEEP_ALIVE,
    ACTION_ADD_TO_PARTICIPANTS,
    ACTION_ADD_TO_WAIT_LIST,
    ACTION_ADD_TO_REDUNDANCY_LIST,
    ACTION_REMOVE_FROM_REDUNDANCY_LIST,
    ACTION_REMOVE_FROM_PARTICIPANTS,
    ACTION_MARK_COMPLETE,
    ACTION_MARK_CLOSED,
    ACTION_FAIL,
};

static void enter(struct model_agent *a, enum model_phase phase, uint64_t now_ms)
{
    a->phase = phase;
    a->entered_ms = now_ms;
    a->next_ms = now_ms;
}

static void fail(struct model_agent *a, const char *why)
{
    a->phase = MODEL_FAILED;
    a->failure = why;
}

void model_agent_stop(struct model_agent *a)
{
    torch_state_free(&a->state);
    free(a->text);
    free(a->token);
    *a = (struct model_agent){0};
}

void model_agent_start(struct model_agent *a, const struct model_settings *settings,
                       const char *name, int64_t pid, int64_t skew_us, uint64_t now_ms)
{
    model_agent_stop(a);
    a->settings = settings;
    snprintf(a->name, sizeof a->name, "%s", name);
    a->pid = pid;
    a->skew_us = skew_us;
    enter(a, MODEL_INTRODUCING, now_ms);
}

/* --- Its copy of the state. --- */

static struct torch_node *own(struct model_agent *a)
{
    const struct torch_node who = {.addr = slice_str(a->name), .pid = a->pid};
    struct torch_node *node = torch_state_find(&a->state, &who);
    bool named = node != NULL &&
                 (node->participant || node->waiting || node->redundant || node->has_heartbeat);

    return named ? node : NULL;
}

static struct torch_node *make_own(struct model_agent *a)
{
    const struct torch_node who = {.addr = slice_str(a->name), .pid = a->pid};
    struct torch_node *node;

    if (!torch_state_insert(&a->state, &who, &node))
        abort();
    return node;
}

/* What the lists name; a node that is removed keeps its place in memory. */
static void unname(struct torch_node *node)
{
    node->participant = node->waiting = node->redundant = node->has_heartbeat = false;
}

size_t model_agent_sees_waiting(const struct model_agent *a)
{
    size_t n = 0;

    for (size_t i = 0; i < a->state.count; i++)
        n += a->state.nodes[i].waiting;
    return n;
}

static void remove_participant_epilogue(struct model_agent *a)
{
    struct torch_state *s = &a->state;
    size_t left = torch_state_participants(s);

    if (s->complete && left == 0) {
        s->complete = false;
        s->round++;
    } else if (!s->complete && left < a->settings->min_nodes) {
        s->has_deadline = false;
    }
}

static void sanitize(struct model_agent *a, int64_t now_us)
{
    bool participant_removed = false;

    for (size_t i = 0; i < a->state.count; i++) {
        struct torch_node *node = &a->state.nodes[i];

        if (!node->has_heartbeat || node->heartbeat_us >= now_us - DEAD_US)
            continue;
        participant_removed = participant_removed || node->participant;
        a->is_as_read = false;
        unname(node);
    }
    if (participant_removed)
        remove_participant_epilogue(a);
}

/* --- Actions. --- */

static void keep_alive(struct model_agent *a, int64_t now_us)
{
    struct torch_node *node = make_own(a);

    node->has_heartbeat = true;
    node->heartbeat_us = now_us;
}

static void mark_complete(struct model_agent *a)
{
    int64_t rank = 0;

    a->state.complete = true;
    a->state.has_deadline = false;
    for (size_t i = 0; i < a->state.count; i++) {
        if (a->state.nodes[i].participant)
            a->state.nodes[i].rank = rank++;
    }
}

static void add_to_participants(struct model_agent *a, int64_t now_us)
{
    struct torch_node *node = make_own(a);
    size_t count;

    node->waiting = false;
    node->participant = true;
    node->rank = 0;
    keep_alive(a, now_us);
    count = torch_state_participants(&a->state);
    if (count == a->settings->min_nodes) {
        a->state.has_deadline = true;
        a->state.deadline_us = now_us + (int64_t)a->settings->last_call_ms * 1000;
    }
    if (count == a->settings->max_nodes)
        mark_complete(a);
}

static void apply(struct model_agent *a, enum action action, int64_t now_us)
{
    switch (action) {
    case ACTION_KEEP_ALIVE:
        keep_alive(a, now_us);
        break;
    case ACTION_ADD_TO_PARTICIPANTS:
        add_to_participants(a, now_us);
        break;
    case ACTION_ADD_TO_WAIT_LIST:
        make_own(a)->waiting = true;
        keep_alive(a, now_us);
        break;
    case ACTION_ADD_TO_REDUNDANCY_LIST:
        make_own(a)->redundant = true;
        keep_alive(a, now_us);
        break;
    case ACTION_REMOVE_FROM_REDUNDANCY_LIST:
        unname(own(a));
        break;
    case ACTION_REMOVE_FROM_PARTICIPANTS:
        unname(own(a));
        remove_participant_epilogue(a);
        break;
    case ACTION_MARK_COMPLETE:
        mark_complete(a);
        break;
    case ACTION_MARK_CLOSED:
        a->state.closed = true;
        break;
    case ACTION_FINISH:
    case ACTION_SYNC:
    case ACTION_FAIL:
        return;
    }
    a->dirty = true;
    a->is_as_read = false;
}

/* --- Operations: the state decides the agent's next action. --- */

static bool should_keep_alive(const struct torch_node *node, int64_t now_us)
{
    return node != NULL && node->has_heartbeat &&
           node->heartbeat_us <= now_us - (int64_t)INTERVAL_MS * 1000;
}

static enum action exit_op(struct model_agent *a)
{
    const struct torch_node *node = own(a);

    return node != NULL && node->participant ? ACTION_REMOVE_FROM_PARTICIPANTS : ACTION_FINISH;
}

static enum action join_complete(const struct model_agent *a, const struct torch_node *node)
{
    if (node != NULL && node->waiting)
        return ACTION_SYNC;
    return torch_state_participants(&a->state) < a->settings->max_nodes
               ? ACTION_ADD_TO_WAIT_LIST
               : ACTION_ADD_TO_REDUNDANCY_LIST;
}

static enum action join_op(struct model_agent *a, uint64_t now_ms, int64_t now_us)
{
    const struct torch_state *s = &a->state;
    const struct torch_node *node = own(a);
    enum action action = ACTION_SYNC;

    if (s->closed) {
        fail(a, "closed");
        return ACTION_FAIL;
    }
    if (node != NULL && node->redundant) {
        if (torch_state_participants(s) != a->settings->max_nodes)
            return ACTION_REMOVE_FROM_REDUNDANCY_LIST;
        return should_keep_alive(node, now_us) ? ACTION_KEEP_ALIVE : ACTION_SYNC;
    }
    if (s->complete && node != NULL && node->participant)
        return ACTION_FINISH;
    if (now_ms - a->entered_ms > JOIN_TIMEOUT_MS) {
        fail(a, "join timeout");
        return ACTION_FAIL;
    }
    if (s->complete) {
        action = join_complete(a, node);
    } else if (node == NULL || !node->participant) {
        return ACTION_ADD_TO_PARTICIPANTS;
    } else if (torch_state_participants(s) >= a->settings->min_nodes) {
        if (!s->has_deadline) {
            fail(a, "TypeError: the deadline is None");
            return ACTION_FAIL;
        }
        if (s->deadline_us < now_us)
            return ACTION_MARK_COMPLETE;
    }
    if (action != ACTION_SYNC)
        return action;
    return should_keep_alive(node, now_us) ? ACTION_KEEP_ALIVE : ACTION_SYNC;
}

static enum action next_action(struct model_agent *a, uint64_t now_ms, int64_t now_us)
{
    switch (a->phase) {
    case MODEL_LEAVING:
        return exit_op(a);
    case MODEL_JOINING:
        return join_op(a, now_ms, now_us);
    case MODEL_CLOSING:
        return a->state.closed ? ACTION_FINISH : ACTION_MARK_CLOSED;
    default: /* MODEL_TRAINING, its timer */
        return should_keep_alive(own(a), now_us) ? ACTION_KEEP_ALIVE : ACTION_FINISH;
    }
}

/* --- Phases. --- */

/* The timer of heartbeats began when the round was joined. */
static void begin_training(struct model_agent *a, uint64_t now_ms)
{
    enter(a, MODEL_TRAINING, now_ms);
    a->has_ranks = true;
    a->leaves = MODEL_STAYS;
    a->look_ms = now_ms + a->settings->monitor_ms;
}

/* The name of a key of the round that ends in a rank. */
static void name_key(struct model_agent *a, const char *name, int64_t rank)
{
    snprintf(a->key_text, sizeof a->key_text, "%s%" PRId64, name, rank);
    a->name_of_key = a->key_text;
}

/* _assign_worker_ranks() */
static void tell_role(struct model_agent *a, uint64_t now_ms)
{
    name_key(a, "torchelastic/role_info/", a->rank);
    enter(a, MODEL_TELLING, now_ms);
}

static void read_ranks(struct model_agent *a, uint64_t now_ms)
{
    name_key(a, "torchelastic/assigned_ranks/", a->rank);
    enter(a, MODEL_RANKED, now_ms);
}

static void joined(struct model_agent *a, uint64_t now_ms)
{
    bool asks = a->settings->sharing != SHARING_ONCE || !a->knows_address;

    a->rank = own(a)->rank;
    a->round = a->state.round;
    a->world_size = torch_state_participants(&a->state);
    a->has_joined = true;
    a->has_ranks = false;
    a->heartbeat_ms = now_ms + INTERVAL_MS;
    if (a->rank >=
        (int64_t)torch_state_participants(&a->state)) { /* _assign_worker_ranks(), 1.13 */
        fail(a, MODEL_RANK_TOO_HIGH);
        return;
    }
    if (!asks) {
        tell_role(a, now_ms);
        return;
    }
    a->knows_address = false;
    a->name_of_key = "MASTER_ADDR";
    enter(a, a->rank == 0 ? MODEL_SAYING : MODEL_READING, now_ms);
}

static void finished(struct model_agent *a, uint64_t now_ms)
{
    switch (a->phase) {
    case MODEL_LEAVING:
        enter(a, MODEL_JOINING, now_ms);
        break;
    case MODEL_JOINING:
        joined(a, now_ms);
        break;
    case MODEL_CLOSING:
        a->phase = MODEL_DONE;
        if (a->errs)
            fail(a, "an error of its own");
        else if (a->leaves == MODEL_LEAVES_FAILED)
            fail(a, MODEL_NO_RESTART);
        break;
    default:
        a->beating = false;
        a->heartbeat_ms = now_ms + INTERVAL_MS;
        break;
    }
}

/* _DistributedRendezvousOpExecutor.run(), from behind a sync: true when it goes on at once. */
static bool step(struct model_agent *a, uint64_t now_ms, int64_t now_us)
{
    enum action action = next_action(a, now_ms, now_us);

    apply(a, action, now_us);
    if (action == ACTION_FINISH)
        finished(a, now_ms);
    else if (action == ACTION_SYNC)
        a->next_ms = now_ms + POLL_MS;
    return action != ACTION_SYNC && action != ACTION_FAIL;
}

static bool names_address(const struct model_agent *a)
{
    return a->name_of_key[7] == 'A';
}

/* _BackendRendezvousStateHolder.sync(). True: from its cache; false: there is a request. */
static bool sync_state(struct model_agent *a, uint64_t now_ms)
{
    if (!a->dirty && a->has_synced && now_ms - a->synced_ms < CACHE_MS)
        return true;
    a->request = a->dirty ? REQUEST_COMPARE_SET : REQUEST_LOOK;
    free(a->text);
    a->text = NULL;
    if (a->dirty && !torch_state_write(&a->state, &a->text, &a->text_len))
        abort();
    return false;
}

/* A look before the state in the cache is too old shows nothing new. So that costs no event of the
 * simulation, though agents look each 100 ms. 0: each look counts. */
static uint64_t idle_until_ms(const struct model_agent *a)
{
    if (a->polling || a->beating || a->leaves != MODEL_STAYS || !a->has_synced ||
        model_agent_sees_waiting(a) != 0)
        return 0;
    return a->synced_ms + CACHE_MS;
}

/* The first look at `from_ms` or later. */
static uint64_t look_at_or_after(const struct model_agent *a, uint64_t from_ms)
{
    uint64_t each_ms = a->settings->monitor_ms;

    if (a->look_ms >= from_ms)
        return a->look_ms;
    return a->look_ms + (from_ms - a->look_ms + each_ms - 1) / each_ms * each_ms;
}

static uint64_t next_look_ms(const struct model_agent *a)
{
    if (a->workers_failed || a->workers_done)
        return a->look_ms;
    return look_at_or_after(a, idle_until_ms(a));
}

static void skip_idle_looks(struct model_agent *a, uint64_t now_ms)
{
    uint64_t until_ms = idle_until_ms(a);

    a->look_ms = look_at_or_after(a, until_ms < now_ms ? until_ms : now_ms);
}

/* SimpleElasticAgent._invoke_run(): it looks at its workers, and then, if they run, at the state.
 */
static void look_at_workers(struct model_agent *a, uint64_t now_ms)
{
    if (a->polling || a->leaves != MODEL_STAYS || a->look_ms > now_ms)
        return;
    if (a->workers_done) {
        a->leaves = MODEL_LEAVES_DONE;
    } else if (a->workers_failed) {
        a->leaves = MODEL_LEAVES_FAILED;
        a->failures++;
    } else {
        a->polling = true;
    }
}

static void end_training(struct model_agent *a, uint64_t now_ms)
{
    a->workers_failed = a->workers_done = a->polling = false;
    if (a->leaves == MODEL_LEAVES_DONE)
        enter(a, MODEL_ARRIVING, now_ms);
    else if (a->leaves == MODEL_LEAVES_FAILED && a->failures > a->settings->max_restarts)
        enter(a, MODEL_CLOSING, now_ms);
    else
        enter(a, MODEL_LEAVING, now_ms);
}

/* The lock is free. */
static void train(struct model_agent *a, uint64_t now_ms)
{
    look_at_workers(a, now_ms);
    if (a->leaves != MODEL_STAYS) {
        end_training(a, now_ms);
    } else if (a->polling) {
        if (!sync_state(a, now_ms))
            return;
        a->polling = false;
        a->look_ms = now_ms + a->settings->monitor_ms;
        if (model_agent_sees_waiting(a) > 0)
            a->leaves = MODEL_LEAVES_TO_MEET;
    } else if (now_ms >= a->heartbeat_ms) {
        a->beating = true;
    }
}

static void set_text(struct model_agent *a, const char *text)
{
    free(a->text);
    a->text = (uint8_t *)strdup(text);
    if (a->text == NULL)
        abort();
    a->text_len = strlen(text);
}

/* A request for a key of the round. */
static void ask_for_key(struct model_agent *a, uint64_t now_ms)
{
    static const enum model_request_kind kinds[] = {
        [MODEL_SAYING] = REQUEST_SET,   [MODEL_READING] = REQUEST_READ,
        [MODEL_TELLING] = REQUEST_SET,  [MODEL_GATHERING] = REQUEST_GATHER,
        [MODEL_RANKING] = REQUEST_RANK, [MODEL_RANKED] = REQUEST_READ,
        [MODEL_ARRIVING] = REQUEST_ADD, [MODEL_LAST] = REQUEST_SET,
        [MODEL_BARRIER] = REQUEST_WAIT,
    };

    if (model_agent_starts_workers(a) && now_ms - a->entered_ms > READ_TIMEOUT_MS + READ_MS) {
        fail(a, a->phase <= MODEL_READING ? MODEL_NO_ADDRESS : MODEL_NO_RANKS);
        return;
    }
    if (a->phase == MODEL_ARRIVING)
        a->name_of_key = TERMINAL_STATE "num_members";
    else if (a->phase > MODEL_ARRIVING)
        a->name_of_key = TERMINAL_STATE "last_member";
    a->request = kinds[a->phase];
    if (a->phase == MODEL_SAYING)
        set_text(a, names_address(a) ? "agent-0" : "1234");
    else if (a->request == REQUEST_SET)
        set_text(a, "<val_ignored>");
}

static bool asks_for_key(const struct model_agent *a)
{
    return model_agent_starts_workers(a) ||
           (a->phase >= MODEL_ARRIVING && a->phase <= MODEL_BARRIER);
}

static bool is_to_err(const struct model_agent *a)
{
    return a->errs && a->phase != MODEL_INTRODUCING && a->phase != MODEL_CLOSING;
}

uint64_t model_agent_next_ms(const struct model_agent *a)
{
    bool watches = a->phase == MODEL_TRAINING && !a->polling && a->leaves == MODEL_STAYS;
    uint64_t look_ms;

    if (!model_agent_is_alive(a))
        return UINT64_MAX;
    if (a->request != REQUEST_NONE)
        return watches ? next_look_ms(a) : UINT64_MAX;
    if (is_to_err(a) || (a->phase == MODEL_TRAINING && (a->beating || !watches)))
        return 1;
    if (a->phase != MODEL_TRAINING)
        return a->next_ms;
    look_ms = next_look_ms(a);
    return look_ms < a->heartbeat_ms ? look_ms : a->heartbeat_ms;
}

void model_agent_act(struct model_agent *a, uint64_t now_ms, int64_t wall_us)
{
    if (a->phase == MODEL_TRAINING) {
        skip_idle_looks(a, now_ms);
        look_at_workers(a, now_ms);
    }
    while (a->request == REQUEST_NONE && model_agent_next_ms(a) <= now_ms) {
        if (is_to_err(a))
            enter(a, MODEL_CLOSING, now_ms);
        if (a->phase == MODEL_INTRODUCING) {
            a->request = REQUEST_COMPARE_SET;
            set_text(a, SENTINEL);
        } else if (asks_for_key(a)) {
            ask_for_key(a, now_ms);
        } else if (a->phase == MODEL_TRAINING && !a->beating) {
            train(a, now_ms);
        } else if (sync_state(a, now_ms)) {
            step(a, now_ms, wall_us + a->skew_us);
        }
    }
}

/* --- Answers. --- */

/* Reads the value, unless it is the one that its copy of the state was made of. */
static bool read_state(struct model_agent *a, struct slice value)
{
    if (a->is_as_read && slice_equal(value, (struct slice){a->token, a->token_len}))
        return true;
    torch_state_free(&a->state);
    if (a->token_len < value.len || a->token == NULL) {
        free(a->token);
        a->token = malloc(value.len + 1);
    }
    if (a->token == NULL)
        abort();
    memcpy(a->token, value.ptr, value.len);
    a->token_len = value.len;
    a->state = (struct torch_state){.aware = true, .has_redundancy = true, .protocol = 4};
    return slice_is(value, SENTINEL) || torch_state_read_view(value, &a->state) == TORCH_STATE_OK;
}

static void take_state(struct model_agent *a, struct slice value, uint64_t now_ms, int64_t now_us)
{
    if (!read_state(a, value)) {
        fail(a, "the state is corrupt");
        return;
    }
    a->is_as_read = true;
    a->dirty = false;
    a->has_synced = true;
    a->synced_ms = now_ms;
    sanitize(a, now_us);
}

static void take_address(struct model_agent *a, struct slice value, uint64_t now_ms)
{
    bool addr = names_address(a);
    char *out = addr ? a->address : a->port;
    size_t size = addr ? sizeof a->address : sizeof a->port;

    if (a->phase == MODEL_READING)
        snprintf(out, size, "%.*s", (int)value.len, (const char *)value.ptr);
    if (addr) {
        a->name_of_key = "MASTER_PORT";
        a->next_ms = now_ms;
    } else if (a->phase == MODEL_SAYING) { /* agent 0 reads them as well */
        a->name_of_key = "MASTER_ADDR";
        enter(a, MODEL_READING, now_ms);
    } else {
        a->knows_address = true;
        tell_role(a, now_ms);
    }
}

static void arrived(struct model_agent *a, struct slice value, uint64_t now_ms)
{
    size_t sum = 0;

    for (size_t i = 0; i < value.len; i++)
        sum = sum * 10 + (size_t)(value.ptr[i] - '0');
    enter(a, sum == a->world_size ? MODEL_LAST : MODEL_BARRIER, now_ms);
}

/* The answer to ask_for_key(). */
static void take_key(struct model_agent *a, struct slice value, uint64_t now_ms)
{
    if (value.ptr == NULL && model_agent_starts_workers(a)) {
        a->next_ms = now_ms + READ_MS;
        return;
    }
    switch (a->phase) {
    case MODEL_TELLING:
        if (a->rank == 0)
            enter(a, MODEL_GATHERING, now_ms);
        else
            read_ranks(a, now_ms);
        break;
    case MODEL_GATHERING:
        enter(a, MODEL_RANKING, now_ms);
        break;
    case MODEL_RANKING:
        read_ranks(a, now_ms);
        break;
    case MODEL_RANKED:
        begin_training(a, now_ms);
        break;
    case MODEL_ARRIVING:
        arrived(a, value, now_ms);
        break;
    case MODEL_LAST:
        enter(a, MODEL_BARRIER, now_ms);
        break;
    case MODEL_BARRIER:
        enter(a, MODEL_CLOSING, now_ms);
        break;
    default:
        take_address(a, value, now_ms);
        break;
    }
}

void model_agent_answer(struct model_agent *a, struct slice value, uint64_t now_ms, int64_t wall_us)
{
    enum model_request_kind request = a->request;
    int64_t now_us = wall_us + a->skew_us;

    a->request = REQUEST_NONE;
    if (request != REQUEST_COMPARE_SET && request != REQUEST_LOOK) {
        take_key(a, value, now_ms);
        return;
    }
    if (a->phase == MODEL_INTRODUCING) {
        enter(a, MODEL_LEAVING, now_ms);
        return;
    }
    if (value.ptr == NULL || value.len == 0) {
        fail(a, "the state is gone");
        return;
    }
    take_state(a, value, now_ms, now_us);
    if (a->phase == MODEL_FAILED)
        return;
    if (a->phase == MODEL_TRAINING && !a->beating)
        return; /* train() looks at the wait list, from the cache */
    step(a, now_ms, now_us);
}
