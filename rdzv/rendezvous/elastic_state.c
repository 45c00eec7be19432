/* What agents write into the state of a run, and heartbeats past each other. Whose turn it is to
 * write is decided in elastic_turn.c.
 *
 * Merging changes what a compare-and-set means: the store then holds a state that nobody sent. It
 * is done where nothing depends on it: a heartbeat goes into the newest state, whatever else has
 * changed; and heartbeats of others do not spoil the write of the one whose turn it is. The client
 * is answered the state that came of it, takes that for a refusal, and finds all it wanted done. */
#include "rdzv/rendezvous/elastic_internal.h"

#include <stdlib.h>

#include "proto/torch/torch_merge.h"

/* --- Who writes. --- */

static void remember(struct agent *a, const struct torch_node *node)
{
    uint8_t *addr = malloc(node->addr.len + 1);

    if (addr == NULL)
        return;
    if (node->addr.len != 0)
        memcpy(addr, node->addr.ptr, node->addr.len);
    free((void *)(uintptr_t)a->node.addr.ptr);
    a->node = *node;
    a->node.addr = (struct slice){addr, node->addr.len};
    a->has_node = true;
}

/* By how much the clock of whoever wrote this time, just now, is ahead of ours. */
static void compare_clocks(struct agent *a, int64_t heartbeat_us)
{
    if (__builtin_sub_overflow(heartbeat_us, engine_wall_ns(a->run->rdzv->engine) / 1000,
                               &a->ahead_us))
        a->ahead_us = 0;
}

/* Everybody who is in the round that has just been completed is in a world from now on. */
static void begin_world(struct elastic_run *er, const struct torch_state *state)
{
    uint64_t size = torch_state_participants(state);
    struct agent *a;

    TAILQ_FOREACH(a, &er->agents, entry) {
        const struct torch_node *node = a->has_node ? torch_state_find(state, &a->node) : NULL;

        if (node == NULL || !node->participant)
            continue;
        a->world = size;
        a->round = state->round;
    }
}

/* Torch completes a round when MAX have come, or when the last call after MIN is over. MAX is in no
 * message; that a deadline had passed tells that it was not reached. */
static bool is_full(const struct run *run, const struct agent *by)
{
    int64_t now_us;

    return !run->before.has_deadline ||
           (!__builtin_add_overflow(engine_wall_ns(by->run->rdzv->engine) / 1000, by->ahead_us,
                                    &now_us) &&
            now_us < run->before.deadline_us);
}

/* An agent has written the state. */
static void changed(struct elastic_run *er, struct run *run, struct agent *a)
{
    const struct torch_state *state = &run->state;
    const struct torch_node *node = torch_merge_writer(&run->before, state);

    if (node != NULL && (!a->has_node || torch_node_compare(node, &a->node) != 0))
        remember(a, node);
    if (node != NULL)
        compare_clocks(a, node->heartbeat_us);
    node = a->has_node ? torch_state_find(state, &a->node) : NULL;
    if (node == NULL || !node->participant || !state->complete)
        a->world = 0;
    elastic_log_change(er, run, a);
    if (state->closed) {
        er->rdzv->engine->stats.runs_closed += !run->before.closed;
        elastic_end_turns(er);
    }
    if (state->complete && !(run->before.complete && run->before.round == state->round)) {
        er->rdzv->engine->stats.rounds_completed++;
        er->full = is_full(run, a);
        begin_world(er, state);
        elastic_completed(er, a);
    }
}

/* --- Writing. --- */

bool elastic_write(struct elastic_run *er, const struct torch_state *next, struct store_result *out)
{
    struct engine_space *space = er->home->space;
    struct blob *now = blob_ref(keymap_get(&space->store->keys, er->key));
    struct command command = {
        .kind = COMMAND_KEY_COMPARE_SET, .key = er->key, .expected = blob_slice(now)};
    uint8_t *text;
    size_t len;
    bool ok = now != NULL && torch_state_write(next, &text, &len);

    if (ok) {
        command.value = (struct slice){text, len};
        engine_apply(er->rdzv->engine, space, &command, out);
        ok = out->status == STORE_OK;
        free(text);
    }
    blob_unref(now);
    return ok;
}

/* The two states of a request, and the store's view of the run; false: they are not states, or
 * nothing may be merged. Freed by the caller either way. */
static bool read_states(struct elastic_run *er, const struct c10d_request *req, struct run **run,
                        struct torch_state *expected, struct torch_state *desired)
{
    *run = elastic_store_run(er);
    *expected = *desired = (struct torch_state){0};
    return er->rdzv->config->elastic.merge_heartbeats && *run != NULL && (*run)->known &&
           torch_state_read(req->expected, expected) == TORCH_STATE_OK &&
           torch_state_read(req->value, desired) == TORCH_STATE_OK;
}

bool elastic_is_heartbeat(struct elastic_run *er, const struct c10d_request *req)
{
    struct torch_state expected, desired;
    struct torch_node *node;
    int64_t heartbeat_us;
    struct run *run;
    bool is = read_states(er, req, &run, &expected, &desired) &&
              torch_merge_heartbeat(&expected, &desired, &run->state, &node, &heartbeat_us);

    torch_state_free(&expected);
    torch_state_free(&desired);
    return is;
}

static bool put_heartbeat(struct elastic_run *er, struct agent *a, struct torch_state *state,
                          struct torch_node *node, int64_t heartbeat_us, struct store_result *out)
{
    int64_t before = node->heartbeat_us;

    compare_clocks(a, heartbeat_us);
    node->heartbeat_us = heartbeat_us;
    if (elastic_write(er, state, out))
        return true;
    node->heartbeat_us = before;
    return false;
}

/* A compare-and-set has failed: true when it is done all the same. */
static bool merge(struct elastic_run *er, struct agent *a, const struct c10d_request *req,
                  struct store_result *result)
{
    struct torch_state expected, desired;
    struct store_result merged;
    struct torch_node *node;
    int64_t heartbeat_us;
    struct run *run;
    bool ok = false;

    if (read_states(er, req, &run, &expected, &desired)) {
        if (torch_merge_heartbeat(&expected, &desired, &run->state, &node, &heartbeat_us))
            ok = put_heartbeat(er, a, &run->state, node, heartbeat_us, &merged);
        else if (er->turn == a && torch_merge_rebase(&expected, &desired, &run->state))
            ok = elastic_write(er, &desired, &merged);
    }
    torch_state_free(&expected);
    torch_state_free(&desired);
    if (!ok)
        return false;
    *result = merged;
    er->rdzv->engine->stats.writes_merged++;
    return true;
}

/* With --close-needs-all: true when others are still in the run; *text is what was to be written,
 * but for the mark. */
static bool keeps_open(struct elastic_run *er, struct agent *a, const struct c10d_request *req,
                       uint8_t **text, size_t *len)
{
    struct run *run = elastic_store_run(er);
    struct torch_state desired = {0};
    bool others = false, ok;
    struct agent *b;

    if (!er->rdzv->config->elastic.close_needs_all || run == NULL || !run->known ||
        run->state.closed || torch_state_read(req->value, &desired) != TORCH_STATE_OK)
        return false;
    a->closes = a->closes || desired.closed;
    TAILQ_FOREACH(b, &er->agents, entry)
        others = others || (b != a && b->world != 0 && !b->closes);
    desired.closed = false;
    ok = a->closes && others && torch_state_write(&desired, text, len);
    torch_state_free(&desired);
    if (ok)
        log_event(LOG_INFO, "close_ignored", log_bytes("run", elastic_name(er)),
                  log_bytes("by", a->node.addr),
                  log_str("reason", "others are still in the run, see --close-needs-all"));
    return ok;
}

/* An agent is told that its state is old: it has the turn, if nobody else has. Of a run that is
 * closed nobody writes anything any more. */
static void refused(struct elastic_run *er, struct agent *a, const struct c10d_request *req)
{
    const struct run *run = elastic_store_run(er);

    if (run != NULL && run->known && run->state.closed)
        elastic_end_turns(er);
    else if (req->expected.len != 0 && (er->turn == NULL || er->turn == a))
        elastic_give_turn(er, a);
}

void elastic_compare_set(struct conn *c, const struct c10d_request *req,
                         struct store_result *result, struct slice *answer)
{
    struct agent *a = c10d_session(c)->bound.agent;
    struct elastic_run *er = a->run;
    struct command command = {.kind = COMMAND_KEY_COMPARE_SET,
                              .key = req->key,
                              .expected = req->expected,
                              .value = req->value};
    uint8_t *text = NULL;
    size_t len;

    *answer = (struct slice){0};
    if (!slice_equal(req->key, er->key)) {
        engine_apply(er->rdzv->engine, conn_space(c), &command, result);
        return;
    }
    elastic_make_up(er->rdzv);
    elastic_restore(a);
    if (!conn_is_open(c)) {
        *result = (struct store_result){.status = STORE_ABSENT};
        return;
    }
    if (keeps_open(er, a, req, &text, &len)) {
        command.value = (struct slice){text, len};
        *answer = req->value; /* what the client takes for success; its next read says more */
    }
    engine_apply(er->rdzv->engine, conn_space(c), &command, result);
    free(text);
    if (result->status == STORE_MISMATCH && !merge(er, a, req, result)) {
        *answer = (struct slice){0};
        refused(er, a, req);
        return;
    }
    if (result->status == STORE_OK && elastic_store_run(er) != NULL)
        changed(er, elastic_store_run(er), a);
    if (er->turn == a)
        elastic_pass_turn(er);
}

void elastic_before(struct conn *c, const struct c10d_request *req, struct slice key)
{
    struct agent *a = c10d_session(c)->bound.agent;
    struct elastic_run *er = a->run;

    if (req->op == C10D_COMPARE_SET)
        return;
    if (er->turn == a)
        elastic_pass_turn(er); /* it looks again before it writes */
    if (!slice_equal(key, er->key) || (req->op != C10D_GET && req->op != C10D_WAIT))
        return;
    elastic_make_up(er->rdzv);
    elastic_restore(a);
}
