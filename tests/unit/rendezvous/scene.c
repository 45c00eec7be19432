/* A run, its agents and the space it is in, with a clock in hand. See scene.h. */
#include "tests/unit/rendezvous/scene.h"

#include <stdio.h>

#include "proto/base64.h"

#define KEY  "/torch.rendezvous.job"
#define SEED 7

const struct policy_settings scene_settings = {
    .crowd = 1000,
    .close_from_members = true,
    .end_failed_runs = true,
    .drop_disconnected = true,
    .end_last_call = true,
    .restart_on_loss = RESTART_WHEN_SILENT,
    .rank_order = RANKS_KEEP,
    .silent_restart_ms = 60000,
    .closed_run_ttl_ms = 5000,
    .closed_run_wait_ms = 45000,
};

static char *texts[4096]; /* of scene_text() */
static size_t text_count;

static void put_ranks(struct scene *s, struct slice ranks)
{
    free((void *)(uintptr_t)s->ranks.ptr);
    s->ranks = (struct slice){ranks.len == 0 ? NULL : malloc(ranks.len), ranks.len};
    if (ranks.len != 0)
        memcpy((void *)(uintptr_t)s->ranks.ptr, ranks.ptr, ranks.len);
}

void scene_init(struct scene *s)
{
    *s = (struct scene){.settings = scene_settings,
                        .now = {.ms = 3600 * 1000,
                                .lived_ms = 3600 * 1000,
                                .wall_ns = INT64_C(1790000000) * 1000000000},
                        .room = SIZE_MAX,
                        .next_worker_store = 1};
    run_init(&s->run, slice_str(KEY), &s->settings, SEED, s->now.ms);
    s->run.looks.since_ms = 1; /* MIN and MAX are measured in tests/elastic and tests/sim */
}

void scene_fini(struct scene *s)
{
    for (size_t i = 0; i < s->agent_count; i++)
        scene_disconnect(s, &s->agents[i]);
    policy_out_clear(&s->out);
    run_fini(&s->run);
    for (size_t i = 0; i < SCENE_KEYS; i++) {
        free(s->keys[i].key);
        free(s->keys[i].value);
    }
    free((void *)(uintptr_t)s->record.address.ptr);
    put_ranks(s, (struct slice){0});
    while (text_count > 0)
        free(texts[--text_count]);
}

void scene_renew(struct scene *s)
{
    scene_fini(s);
    scene_init(s);
}

int scene_set_up(void **state)
{
    struct scene *s = malloc(sizeof *s);

    assert_non_null(s);
    scene_init(s);
    *state = s;
    return 0;
}

int scene_tear_down(void **state)
{
    scene_fini(*state);
    free(*state);
    return 0;
}

void scene_pass(struct scene *s, uint64_t ms)
{
    s->now.ms += ms;
    s->now.lived_ms += ms;
    s->now.wall_ns += (int64_t)ms * 1000000;
}

void scene_stand_still(struct scene *s, uint64_t ms)
{
    s->now.ms += ms;
    s->now.wall_ns += (int64_t)ms * 1000000;
}

int64_t scene_now_us(const struct scene *s)
{
    return s->now.wall_ns / 1000;
}

/* --- Keys. --- */

static char *copy_text(struct slice s)
{
    char *text = malloc(s.len + 1);

    assert_non_null(text);
    if (s.len != 0)
        memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    return text;
}

static size_t slot_of(const struct scene *s, struct slice key)
{
    size_t unused = SCENE_KEYS;

    for (size_t i = 0; i < SCENE_KEYS; i++) {
        if (s->keys[i].key == NULL)
            unused = i;
        else if (slice_is(key, s->keys[i].key))
            return i;
    }
    return unused;
}

static void put(struct scene *s, struct slice key, struct slice value)
{
    size_t i = slot_of(s, key);

    assert_true(i < SCENE_KEYS);
    if (s->keys[i].key == NULL)
        s->keys[i].key = copy_text(key);
    free(s->keys[i].value);
    s->keys[i].value = copy_text(value);
}

const char *scene_get(const struct scene *s, const char *rest)
{
    char key[256];
    size_t i;

    snprintf(key, sizeof key, KEY "%s", rest);
    i = slot_of(s, slice_str(key));
    return i == SCENE_KEYS || s->keys[i].key == NULL ? NULL : s->keys[i].value;
}

void scene_put(struct scene *s, const char *rest, const char *value)
{
    char key[256];

    snprintf(key, sizeof key, KEY "%s", rest);
    put(s, slice_str(key), slice_str(value));
}

static void forget_keys(struct scene *s)
{
    for (size_t i = 0; i < SCENE_KEYS; i++) {
        free(s->keys[i].key);
        free(s->keys[i].value);
        s->keys[i].key = s->keys[i].value = NULL;
    }
    s->has_record = false;
    put_ranks(s, (struct slice){0});
}

static char *keep(char *text)
{
    assert_true(text_count < COUNT(texts));
    return texts[text_count++] = text;
}

const char *scene_copy(const char *text)
{
    return keep(copy_text(slice_str(text)));
}

/* --- Carrying out. --- */

static void put_record(struct scene *s, const struct view_record *record)
{
    free((void *)(uintptr_t)s->record.address.ptr);
    s->record = *record;
    s->record.address.ptr = (const uint8_t *)copy_text(record->address);
    s->has_record = true;
}

static void change_store(struct scene *s, uint64_t from, uint64_t to)
{
    for (size_t i = 0; i < SCENE_KEYS; i++) {
        if (s->open_stores[i] != from)
            continue;
        s->open_stores[i] = to;
        return;
    }
    fail_msg("no worker store %llu", (unsigned long long)from);
}

static void keep_memo(struct scene *s, const struct policy_output *o)
{
    struct scene_memo *memo = &s->memos[o->agent - s->agents];

    assert_true(o->agent->relayed && o->value.len <= sizeof memo->bytes);
    memcpy(memo->bytes, o->value.ptr, o->value.len);
    memo->len = o->value.len;
}

static void carry_out(struct scene *s, const struct policy_output *o)
{
    switch (o->kind) {
    case POLICY_PUT:
        put(s, o->key, o->value);
        break;
    case POLICY_PUT_IF_ABSENT:
        if (slot_of(s, o->key) == SCENE_KEYS || s->keys[slot_of(s, o->key)].key == NULL)
            put(s, o->key, o->value);
        break;
    case POLICY_PUT_RECORD:
        put_record(s, &o->record);
        break;
    case POLICY_PUT_RANKS:
        put_ranks(s, o->value);
        break;
    case POLICY_FORGET_RUN:
        forget_keys(s);
        break;
    case POLICY_DELETE_RECORD:
        assert_true(s->has_record || s->ranks.ptr != NULL);
        s->has_record = false;
        put_ranks(s, (struct slice){0});
        break;
    case POLICY_OPEN_WORKER_STORE:
        assert_int_equal(o->worker_store, s->next_worker_store);
        change_store(s, 0, s->next_worker_store++);
        break;
    case POLICY_DROP_WORKER_STORE:
        change_store(s, o->worker_store, 0);
        break;
    case POLICY_KEEP_MEMO:
        keep_memo(s, o);
        break;
    case POLICY_SHARE_PORT:
        s->share = PORT_IS_OURS;
        break;
    case POLICY_CLOSE_PORT:
        if (s->share == PORT_IS_OURS)
            s->share = PORT_IS_FREE;
        break;
    default:
        break;
    }
}

/* In `b` heartbeats may be newer with `beats`. */
static void same_states(const struct torch_state *a, const struct torch_state *b, bool beats)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->round, b->round);
    assert_int_equal(a->complete, b->complete);
    assert_int_equal(a->closed, b->closed);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(torch_node_compare(&a->nodes[i], &b->nodes[i]), 0);
        if (beats)
            assert_true(a->nodes[i].heartbeat_us <= b->nodes[i].heartbeat_us);
        else
            assert_int_equal(a->nodes[i].heartbeat_us, b->nodes[i].heartbeat_us);
        assert_int_equal(a->nodes[i].participant, b->nodes[i].participant);
    }
}

/* The view is what the keys and the record say. */
static void check_view(const struct scene *s)
{
    const char *value = scene_get(s, "");
    const struct run_view *v = &s->run.view;
    struct run_view fresh;

    if (v->late != 0) /* then the keys say less */
        return;
    run_view_init(&fresh, v->node.key);
    if (s->has_record)
        assert_true(run_view_set_record(&fresh, &s->record));
    run_view_update(&fresh, value == NULL ? (struct slice){0} : slice_str(value));
    assert_int_equal(fresh.exists, v->exists);
    assert_int_equal(fresh.is_state, v->is_state);
    same_states(&fresh.state, &v->state, v->is_ahead);
    assert_int_equal(fresh.record.placement, v->record.placement);
    assert_int_equal(fresh.record.worker_store, v->record.worker_store);
    assert_int_equal(fresh.record.port, v->record.port);
    assert_true(slice_equal(fresh.record.address, v->record.address));
    assert_true(slice_equal(s->ranks, v->ranks));
    run_view_fini(&fresh);
}

void scene_step(struct scene *s, struct policy_event event)
{
    const char *value = scene_get(s, "");

    s->now.value = value == NULL ? (struct slice){0} : slice_str(value);
    s->now.room = s->room;
    s->now.key_cost = 64;
    s->now.share = s->share;
    s->now.next_worker_store = s->next_worker_store;
    policy_out_clear(&s->out);
    policy_step(&s->run, &event, &s->now, &s->out);
    for (size_t i = 0; i < s->out.count; i++)
        carry_out(s, &s->out.items[i]);
    check_view(s);
}

void scene_event(struct scene *s, enum policy_event_kind kind, struct agent *a)
{
    scene_step(s, (struct policy_event){.kind = kind, .agent = a});
}

void scene_restart(struct scene *s, bool agents_return)
{
    for (size_t i = 0; i < s->agent_count; i++) {
        if (s->agents[i].local_port == 0)
            continue;
        scene_step(s, (struct policy_event){.kind = AGENT_DISCONNECTED,
                                            .agent = &s->agents[i],
                                            .daemon_drains = true});
        s->agents[i].local_port = 0;
    }
    policy_out_clear(&s->out);
    run_fini(&s->run);
    run_init(&s->run, slice_str(KEY), &s->settings, SEED, s->now.ms);
    s->run.looks.since_ms = 1;
    if (s->has_record)
        assert_true(run_view_set_record(&s->run.view, &s->record));
    if (s->ranks.ptr != NULL)
        assert_true(run_view_keep(&s->run.view.ranks, s->ranks));
    s->share = PORT_IS_FREE;
    scene_step(s, (struct policy_event){.kind = RUN_RESTORED, .agents_return = agents_return});
}

static struct agent *new_agent(struct scene *s, bool pings)
{
    struct agent *a = &s->agents[s->agent_count++];

    assert_true(s->agent_count <= SCENE_NAMES);
    *a = (struct agent){
        .pings = pings, .relayed = true, .local_host = "10.0.0.1", .local_port = 29400};
    return a;
}

struct agent *scene_return(struct scene *s, const struct agent *was)
{
    struct agent *a = new_agent(s, true);
    struct policy_event event = {.kind = AGENT_CONNECTED, .agent = a};

    a->origin = ORIGIN_UNNAMED;
    if (was != NULL)
        event.memo = (struct slice){s->memos[was - s->agents].bytes, s->memos[was - s->agents].len};
    scene_step(s, event);
    return a;
}

struct agent *scene_connect(struct scene *s, bool pings)
{
    struct agent *a = new_agent(s, pings);

    scene_event(s, AGENT_CONNECTED, a);
    return a;
}

void scene_disconnect(struct scene *s, struct agent *a)
{
    if (a->local_port == 0)
        return;
    scene_event(s, AGENT_DISCONNECTED, a);
    a->local_port = 0;
}

/* What the outputs answer; the agent is to be answered exactly once, held or closed. */
/* What the last step has answered the agent; NULL: nothing. */
static const char *answer_to(struct scene *s, const struct agent *a)
{
    const char *answer = NULL;
    size_t answers = 0;

    for (size_t i = 0; i < s->out.count; i++) {
        const struct policy_output *o = &s->out.items[i];
        bool holds = o->kind == POLICY_HOLD || o->kind == POLICY_NO_ROOM || o->kind == POLICY_CLOSE;

        if (o->agent != a ||
            (!holds && o->kind != POLICY_ANSWER_CURRENT && o->kind != POLICY_ANSWER_VALUE))
            continue;
        answers++;
        if (o->kind == POLICY_ANSWER_CURRENT)
            answer = scene_get(s, "");
        else if (o->kind == POLICY_ANSWER_VALUE)
            answer = keep(copy_text(o->value));
    }
    assert_int_equal(answers, 1);
    return answer == NULL ? NULL : scene_copy(answer);
}

static bool is_held_long(const struct scene *s, const struct agent *a)
{
    return !s->has_long_polls && (a->held == HELD_LONG || a->held == HELD_LONG_ANSWER) &&
           scene_has(s, POLICY_HOLD, a);
}

/* Answers the long poll as if its time were over. The output of the step before stays. */
static void end_long_poll(struct scene *s, struct policy_event event, struct policy_out *before)
{
    *before = s->out;
    s->out = (struct policy_out){0};
    s->run.held[event.agent->held]--;
    TAILQ_REMOVE(&s->run.held_agents[event.agent->held], event.agent, held_entry);
    event.agent->held = event.agent->held == HELD_LONG ? HELD_RELEASED : HELD_RELEASED_ANSWER;
    TAILQ_INSERT_TAIL(&s->run.held_agents[event.agent->held], event.agent, held_entry);
    s->run.held[event.agent->held]++;
    scene_step(s, event);
}

static void put_back_outputs(struct scene *s, const struct policy_out *before)
{
    policy_out_clear(&s->out);
    s->out = *before;
}

const char *scene_cas(struct scene *s, struct agent *a, const char *expected, const char *desired)
{
    const struct policy_event event = {.kind = AGENT_COMPARE_SET,
                                       .agent = a,
                                       .expected = slice_str(expected),
                                       .desired = slice_str(desired)};
    struct policy_out before;
    const char *answer;
    struct slice shown = policy_heartbeat(&s->run, a, event.expected, event.desired, &s->now);

    if (shown.ptr != NULL) {
        policy_out_clear(&s->out);
        s->out.counters.writes_merged++;
        return keep(copy_text(shown));
    }
    scene_step(s, event);
    if (!is_held_long(s, a))
        return answer_to(s, a);
    end_long_poll(s, event, &before);
    answer = answer_to(s, a);
    put_back_outputs(s, &before);
    return answer;
}

const char *scene_poll(struct scene *s, struct agent *a)
{
    struct slice shown = policy_poll_again(&s->run, a, false, s->now.ms, s->now.lived_ms);
    const struct policy_output *o;
    struct policy_out before;

    if (shown.ptr == NULL) {
        scene_event(s, AGENT_POLLED, a);
        if (is_held_long(s, a)) {
            end_long_poll(s, (struct policy_event){.kind = AGENT_POLLED, .agent = a}, &before);
            policy_out_clear(&before);
        }
        if (a->held == HELD_REJOIN)
            return NULL;
        o = scene_output(s, POLICY_ANSWER_VALUE);
        shown = o == NULL ? slice_str(scene_get(s, "")) : o->value;
    }
    return keep(copy_text(shown));
}

bool scene_set(struct scene *s, struct agent *a, int64_t round, const char *name, const char *value)
{
    char rest[64];

    snprintf(rest, sizeof rest, ".%lld/%s", (long long)round, name);
    scene_step(s, (struct policy_event){.kind = AGENT_SET_ROUND_KEY,
                                        .agent = a,
                                        .round = round,
                                        .round_key = slice_str(name),
                                        .exists = scene_get(s, rest) != NULL,
                                        .desired = slice_str(value)});
    assert_int_equal(scene_count(s, POLICY_PASS) + scene_count(s, POLICY_SWALLOW), 1);
    if (scene_count(s, POLICY_PASS) == 1)
        scene_put(s, rest, value);
    return scene_count(s, POLICY_SWALLOW) == 1;
}

void scene_set_role(struct scene *s, size_t i, int64_t round)
{
    char name[64];

    snprintf(name, sizeof name, "torchelastic/role_info/%zu", i);
    scene_set(s, &s->agents[i], round, name, "{}");
}

/* --- What there is. --- */

void scene_change(struct scene *s, const char *value)
{
    scene_put(s, "", value);
    scene_event(s, RUN_CHANGED, NULL);
}

void scene_put_state(struct scene *s, struct torch_state *state)
{
    scene_change(s, scene_text(s, state));
}

struct torch_state scene_state_now(const struct scene *s)
{
    return scene_state(scene_get(s, ""));
}

size_t scene_participants(const struct scene *s)
{
    return torch_state_participants(&s->run.view.state);
}

size_t scene_waiting_nodes(const struct scene *s)
{
    const struct torch_state *state = &s->run.view.state;
    size_t count = 0;

    for (size_t i = 0; i < state->count; i++)
        count += state->nodes[i].waiting;
    return count;
}

struct torch_node scene_node_now(const struct scene *s, const char *name)
{
    const struct torch_node who = {.addr = slice_str(name), .pid = 100};
    struct torch_node *found = torch_state_find(&s->run.view.state, &who);

    return found == NULL ? (struct torch_node){0} : *found;
}

size_t scene_count(const struct scene *s, enum policy_output_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < s->out.count; i++)
        n += s->out.items[i].kind == kind;
    return n;
}

const struct policy_output *scene_output(const struct scene *s, enum policy_output_kind kind)
{
    for (size_t i = 0; i < s->out.count; i++) {
        if (s->out.items[i].kind == kind)
            return &s->out.items[i];
    }
    return NULL;
}

const struct note *scene_note(const struct scene *s, enum note_kind kind)
{
    for (size_t i = 0; i < s->out.count; i++) {
        if (s->out.items[i].kind == POLICY_NOTE && s->out.items[i].note->kind == kind)
            return s->out.items[i].note;
    }
    return NULL;
}

bool scene_has(const struct scene *s, enum policy_output_kind kind, const struct agent *a)
{
    for (size_t i = 0; i < s->out.count; i++) {
        if (s->out.items[i].kind == kind && s->out.items[i].agent == a)
            return true;
    }
    return false;
}

/* --- States. --- */

struct torch_state scene_state(const char *text)
{
    struct torch_state state = {.aware = true, .has_redundancy = true, .protocol = 4};

    if (text != NULL && strcmp(text, SENTINEL) != 0)
        assert_int_equal(torch_state_read(slice_str(text), &state), TORCH_STATE_OK);
    return state;
}

const char *scene_text(struct scene *s, struct torch_state *state)
{
    uint8_t *text;
    char *copy;
    size_t len;

    (void)s;
    assert_true(torch_state_write(state, &text, &len));
    torch_state_free(state);
    copy = keep(copy_text((struct slice){text, len}));
    free(text);
    return copy;
}

/* The text with another of its strings, which the writer had put first, in the place of the one. */
static const char *with_string(const char *text, const char *from, const char *to)
{
    struct slice in = slice_str(text);
    uint8_t *pickle = malloc(in.len), *at;
    char *copy;
    size_t len;

    assert_non_null(pickle);
    assert_true(base64_decode(in, true, pickle, &len));
    at = memmem(pickle, len, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    assert_int_equal(base64_size(len), in.len);
    copy = keep(copy_text(in));
    base64_encode((struct slice){pickle, len}, (uint8_t *)copy);
    free(pickle);
    return copy;
}

const char *scene_terse(struct scene *s, size_t nodes)
{
    struct torch_state state = scene_state(scene_get(s, ""));

    for (size_t i = 0; i < 200 + nodes; i++) {
        char name[8] = "!!!";
        struct torch_node who = {.pid = (int64_t)i, .participant = true}, *at;

        if (i < 200)
            snprintf(name, sizeof name, "m%zu", i);
        who.addr = slice_str(name);
        assert_true(torch_state_insert(&state, &who, &at));
    }
    return with_string(scene_text(s, &state), "!!!", "~~~");
}

struct torch_node *scene_node(struct torch_state *state, const char *name)
{
    const struct torch_node who = {.addr = slice_str(name), .pid = 100};
    struct torch_node *at;

    assert_true(torch_state_insert(state, &who, &at));
    return at;
}

void scene_beat(struct torch_state *state, const char *name, int64_t at_us)
{
    struct torch_node *node = scene_node(state, name);

    node->has_heartbeat = true;
    node->heartbeat_us = at_us;
}

void scene_say_node(struct scene *s, struct agent *a, const char *name)
{
    const char *now = scene_get(s, "");
    struct torch_state state = scene_state(now);

    scene_beat(&state, name, scene_now_us(s) + 1);
    scene_cas(s, a, now, scene_text(s, &state));
    assert_true(agent_has_node(a));
}

void scene_remove(struct torch_state *state, const char *name)
{
    struct torch_node *node = scene_node(state, name);

    node->participant = node->waiting = node->redundant = node->has_heartbeat = false;
}

void scene_complete(struct torch_state *state)
{
    int64_t rank = 0;

    state->complete = true;
    state->has_deadline = false;
    for (size_t i = 0; i < state->count; i++) {
        if (state->nodes[i].participant)
            state->nodes[i].rank = rank++;
    }
}

struct torch_state scene_with_deadline(struct torch_state state, int64_t us)
{
    state.has_deadline = true;
    state.deadline_us = us;
    return state;
}

bool scene_names(const char *text, const char *name)
{
    const struct torch_node who = {.addr = slice_str(name), .pid = 100};
    struct torch_state state = scene_state(text);
    bool found = torch_state_find(&state, &who) != NULL;

    torch_state_free(&state);
    return found;
}

/* --- What an agent writes. --- */

static struct torch_state joined(struct scene *s, const char *value, const char *name)
{
    struct torch_state state = scene_state(value);

    scene_beat(&state, name, scene_now_us(s));
    scene_node(&state, name)->participant = true;
    return state;
}

const char *scene_joined(struct scene *s, const char *value, const char *name)
{
    struct torch_state state = joined(s, value, name);

    return scene_text(s, &state);
}

const char *scene_completed(struct scene *s, const char *value, const char *name)
{
    struct torch_state state = joined(s, value, name);

    scene_complete(&state);
    return scene_text(s, &state);
}

const char *scene_waiting(struct scene *s, const char *value, const char *name)
{
    struct torch_state state = scene_state(value);

    scene_beat(&state, name, scene_now_us(s));
    scene_node(&state, name)->waiting = true;
    return scene_text(s, &state);
}

const char *scene_beating(struct scene *s, const char *value, const char *name)
{
    struct torch_state state = scene_state(value);

    scene_beat(&state, name, scene_now_us(s));
    return scene_text(s, &state);
}

const char *scene_leaving(struct scene *s, const char *value, const char *name)
{
    struct torch_state state = scene_state(value);
    bool was_in = scene_node(&state, name)->participant;

    scene_remove(&state, name);
    if (was_in && state.complete && torch_state_participants(&state) == 0) {
        state.complete = false;
        state.round++;
    }
    return scene_text(s, &state);
}

const char *scene_closing(struct scene *s, const char *value)
{
    struct torch_state state = scene_state(value);

    state.closed = true;
    return scene_text(s, &state);
}

/* --- Rounds. --- */

void scene_leave(struct scene *s, size_t i)
{
    const char *now = scene_get(s, "");

    scene_cas(s, &s->agents[i], now, scene_leaving(s, now, scene_name(i)));
}

const char *scene_join(struct scene *s, size_t i)
{
    const char *now = scene_get(s, "");
    struct torch_state st = scene_state(scene_joined(s, now, scene_name(i)));

    scene_node(&st, scene_name(i))->waiting = false;
    if (torch_state_participants(&st) == 1) {
        st.has_deadline = true;
        st.deadline_us = scene_now_us(s) + SCENE_CALL;
    }
    return scene_cas(s, &s->agents[i], now, scene_text(s, &st));
}

const char *scene_name(size_t i)
{
    static char names[SCENE_NAMES][32];

    assert_true(i < SCENE_NAMES);
    if (i < 8)
        snprintf(names[i], sizeof names[i], "%c", (char)('a' + i));
    else
        snprintf(names[i], sizeof names[i], "worker-%03zu", i);
    return names[i];
}

static void join_all(struct scene *s, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *now = scene_get(s, "");
        const char *next = i == count - 1 ? scene_completed(s, now, scene_name(i))
                                          : scene_joined(s, now, scene_name(i));

        assert_non_null(scene_cas(s, &s->agents[i], now, next));
    }
}

void scene_meet(struct scene *s, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_non_null(scene_cas(s, scene_connect(s, true), "", SENTINEL));
    join_all(s, count);
}

void scene_next_round(struct scene *s, size_t count)
{
    struct torch_state state = scene_state(scene_get(s, ""));
    const char *now = scene_get(s, "");

    state.round++;
    state.complete = false;
    for (size_t i = 0; i < state.count; i++)
        state.nodes[i].participant = state.nodes[i].waiting = false;
    scene_beat(&state, scene_name(0), scene_now_us(s));
    scene_cas(s, &s->agents[0], now, scene_text(s, &state));
    join_all(s, count);
}

void scene_begin_crowd(struct scene *s, size_t count)
{
    for (size_t i = 0; i < count; i++)
        scene_cas(s, scene_connect(s, true), "", SENTINEL);
    scene_cas(s, &s->agents[0], SENTINEL, scene_joined(s, SENTINEL, "a"));
    scene_cas(s, &s->agents[1], scene_get(s, ""), scene_joined(s, scene_get(s, ""), "b"));
}

void scene_finish(struct scene *s, size_t i)
{
    scene_step(s, (struct policy_event){
                      .kind = AGENT_ADD_ROUND_KEY,
                      .agent = &s->agents[i],
                      .round = s->run.view.state.round,
                      .round_key = slice_str("torchelastic/agent/terminal_state/num_members")});
}
