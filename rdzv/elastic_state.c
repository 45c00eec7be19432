/* Writing the state of a run: one agent after the other, and heartbeats past each other.
 *
 * Torch's agents rewrite the whole state with a compare-and-set and, when it fails, try again at
 * once from what the answer says: a thousand that join together fail a thousand times each. Here
 * the one who has just been told the newest state has the turn: all others' compare-and-sets wait,
 * unanswered, until it has written, or has had TURN_MS. Then the first in line is answered, which
 * tells it the newest state, and so on: each of them fails once and succeeds once.
 *
 * That is what a slow network could have done, so it changes no meaning. Merging heartbeats does:
 * the store then holds a state that nobody sent. See torch_merge.h for when, and design 8. */
#include "rdzv/elastic_internal.h"

#include <stdlib.h>

#include "proto/torch_merge.h"

#define TURN_MS 250

static void give_turn(struct elastic_run *er, struct agent *a)
{
    static const struct timeval patience = {.tv_usec = TURN_MS * 1000};

    er->turn = a;
    evtimer_add(&er->turn_ends, &patience);
}

static void pass_turn(struct elastic_run *er)
{
    struct agent *next = TAILQ_FIRST(&er->line);

    er->turn = NULL;
    evtimer_del(&er->turn_ends);
    if (next == NULL)
        return;
    TAILQ_REMOVE(&er->line, next, line);
    next->in_line = false;
    give_turn(er, next);
    conn_unpark(next->conn);
}

static void on_turn_ends(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    pass_turn(arg);
}

void elastic_turn_init(struct elastic_run *er)
{
    evtimer_assign(&er->turn_ends, er->server->base, on_turn_ends, er);
}

void elastic_leave_line(struct agent *a)
{
    struct elastic_run *er = a->run;

    if (a->in_line)
        TAILQ_REMOVE(&er->line, a, line);
    a->in_line = false;
    if (er->turn == a)
        pass_turn(er);
}

bool elastic_holds(struct conn *c, const struct c10d_request *req)
{
    struct agent *a = c->as.c10d.bound.agent;
    struct elastic_run *er = a->run;

    /* The one that makes the key expects nothing, and its failure makes nobody try again. */
    if (req->op != C10D_COMPARE_SET || req->expected.len == 0 || er->turn == NULL ||
        er->turn == a || !slice_equal(req->key, er->key))
        return false;
    if (!a->in_line)
        TAILQ_INSERT_TAIL(&er->line, a, line);
    a->in_line = true;
    return true;
}

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
    if (__builtin_sub_overflow(heartbeat_us, server_now_ns() / 1000, &a->ahead_us))
        a->ahead_us = 0;
}

uint64_t elastic_world_size(const struct torch_state *state)
{
    uint64_t n = 0;

    for (size_t i = 0; i < state->count; i++)
        n += state->nodes[i].participant ? 1 : 0;
    return n;
}

/* Everybody who is in the round that has just been completed is in a world from now on. */
static void begin_world(struct elastic_run *er, const struct torch_state *state)
{
    uint64_t size = elastic_world_size(state);
    struct agent *a;

    TAILQ_FOREACH(a, &er->agents, entry) {
        const struct torch_node *node = a->has_node ? torch_state_find(state, &a->node) : NULL;

        if (node == NULL || !node->participant)
            continue;
        a->world = size;
        a->round = state->round;
    }
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
    if (state->complete && !(run->before.complete && run->before.round == state->round)) {
        begin_world(er, state);
        elastic_completed(er, a);
    }
}

/* --- Writing. --- */

bool elastic_write(struct elastic_run *er, const struct torch_state *next, struct store_result *out)
{
    struct space *space = er->home->space;
    struct blob *now = blob_ref(keymap_get(&space->keys, er->key));
    struct command command = {
        .kind = COMMAND_KEY_COMPARE_SET, .key = er->key, .expected = blob_slice(now)};
    uint8_t *text;
    size_t len;
    bool ok = now != NULL && torch_state_write(next, &text, &len);

    if (ok) {
        command.value = (struct slice){text, len};
        server_apply(er->server, space, &command, out);
        ok = out->status == STORE_OK;
        free(text);
    }
    blob_unref(now);
    return ok;
}

/* A compare-and-set has failed: if all it wanted was to beat its heart, that is done. */
static bool merge(struct elastic_run *er, struct agent *a, const struct c10d_request *req,
                  struct store_result *result)
{
    struct run *run = elastic_store_run(er);
    struct torch_state expected = {0}, desired = {0};
    struct torch_node *node;
    struct store_result merged;
    int64_t heartbeat_us, before;
    bool ok = false;

    if (!er->server->config->elastic.merge_heartbeats || run == NULL || !run->known)
        return false;
    if (torch_state_read(req->expected, &expected) == TORCH_STATE_OK &&
        torch_state_read(req->value, &desired) == TORCH_STATE_OK &&
        torch_merge_heartbeat(&expected, &desired, &run->state, &node, &heartbeat_us)) {
        before = node->heartbeat_us;
        node->heartbeat_us = heartbeat_us;
        compare_clocks(a, heartbeat_us);
        ok = elastic_write(er, &run->state, &merged);
        if (ok) {
            *result = merged;
            er->server->stats.heartbeats_merged++;
        } else {
            node->heartbeat_us = before;
        }
    }
    torch_state_free(&expected);
    torch_state_free(&desired);
    return ok;
}

/* With --ignore-close: true when others are still in the run; *text is what was to be written, but
 * for the mark. */
static bool keeps_open(struct elastic_run *er, struct agent *a, const struct c10d_request *req,
                       uint8_t **text, size_t *len)
{
    struct run *run = elastic_store_run(er);
    struct torch_state desired = {0};
    bool others = false, ok;
    struct agent *b;

    if (!er->server->config->elastic.ignore_close || run == NULL || !run->known ||
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
                  log_str("reason", "others are still in the run, see --ignore-close"));
    return ok;
}

void elastic_compare_set(struct conn *c, const struct c10d_request *req,
                         struct store_result *result, struct slice *answer)
{
    struct agent *a = c->as.c10d.bound.agent;
    struct elastic_run *er = a->run;
    struct command command = {.kind = COMMAND_KEY_COMPARE_SET,
                              .key = req->key,
                              .expected = req->expected,
                              .value = req->value};
    uint8_t *text = NULL;
    size_t len;

    *answer = (struct slice){0};
    if (!slice_equal(req->key, er->key)) {
        server_apply(er->server, c->space, &command, result);
        return;
    }
    elastic_make_up(er->server);
    elastic_restore(a);
    if (c->state != CONN_OPEN) {
        *result = (struct store_result){.status = STORE_ABSENT};
        return;
    }
    if (keeps_open(er, a, req, &text, &len)) {
        command.value = (struct slice){text, len};
        *answer = req->value; /* what the client takes for success; its next read says more */
    }
    server_apply(er->server, c->space, &command, result);
    free(text);
    if (result->status == STORE_OK && result->run != NULL) {
        changed(er, result->run, a);
    } else if (result->status == STORE_MISMATCH && !merge(er, a, req, result)) {
        *answer = (struct slice){0};
        if (req->expected.len != 0 && (er->turn == NULL || er->turn == a))
            give_turn(er, a);
        return;
    }
    if (er->turn == a)
        pass_turn(er);
}

void elastic_before_read(struct conn *c, struct slice key)
{
    struct agent *a = c->as.c10d.bound.agent;
    struct elastic_run *er = a->run;

    if (!slice_equal(key, er->key))
        return;
    elastic_make_up(er->server);
    elastic_restore(a);
    if (er->turn == a)
        pass_turn(er); /* it looks again before it writes */
}
