/* Nodes of a run: their text, their role, and the absent nodes, without which the run goes on. See
 * torch_nodes.h for the contract. */
#include "proto/torch/torch_nodes.h"

#include <stdio.h>
#include <string.h>

const char *node_text(const struct torch_node *node, char text[NODE_TEXT_MAX])
{
    snprintf(text, NODE_TEXT_MAX, "%.*s/%lld/%lld",
             (int)(node->addr.len < 255 ? node->addr.len : 255), (const char *)node->addr.ptr,
             (long long)node->pid, (long long)node->local_id);
    return text;
}

const char *node_words(const char *node, char words[NODE_TEXT_MAX])
{
    const char *last = strrchr(node, '/');
    const char *pid = last == NULL ? NULL : memrchr(node, '/', (size_t)(last - node));

    if (pid == NULL)
        snprintf(words, NODE_TEXT_MAX, "%.300s", node);
    else
        snprintf(words, NODE_TEXT_MAX, "%.*s (pid %.*s)", (int)(pid - node), node,
                 (int)(last - pid - 1), pid + 1);
    return words;
}

const char *node_role(const struct torch_node *node)
{
    return node == NULL        ? NULL
           : node->participant ? "participant"
           : node->waiting     ? "waiting"
           : node->redundant   ? "spare"
                               : NULL;
}

const char *node_role_text(const struct torch_node *node)
{
    const char *role = node_role(node);

    return role == NULL ? "none" : role;
}

/* --- Nodes that a run goes on without. Everything is read in the order of nodes, each state once.
 * --- */

struct cursor {
    const struct torch_state *state;
    size_t at;
};

/* Nodes are asked for in their order. */
static bool takes_part(struct cursor *c, const struct torch_node *node)
{
    const struct torch_state *s = c->state;

    while (c->at < s->count && torch_node_compare(&s->nodes[c->at], node) < 0)
        c->at++;
    return c->at < s->count && s->nodes[c->at].participant &&
           torch_node_compare(&s->nodes[c->at], node) == 0;
}

/* The next node of two states, from `b` if both have it; NULL: there is none. */
static const struct torch_node *next_of(struct cursor *a, struct cursor *b)
{
    const struct torch_node *x = a->at < a->state->count ? &a->state->nodes[a->at] : NULL;
    const struct torch_node *y = b->at < b->state->count ? &b->state->nodes[b->at] : NULL;
    int order = x == NULL ? 1 : y == NULL ? -1 : torch_node_compare(x, y);

    a->at += x != NULL && order <= 0;
    b->at += y != NULL && order >= 0;
    return order < 0 ? x : y;
}

/* The participants of `gone` and `then` that do not take part in `now`. False: no memory. */
static bool add_absent(struct torch_state *out, const struct torch_state *gone,
                       const struct torch_state *then, const struct torch_state *now)
{
    struct cursor a = {gone, 0}, b = {then, 0}, c = {now, 0};
    const struct torch_node *node;
    struct torch_node *at;

    while ((node = next_of(&a, &b)) != NULL) {
        if (node->participant && !takes_part(&c, node) && !torch_state_insert(out, node, &at))
            return false;
    }
    return true;
}

/* --- Who has come makes up for who is gone: that one takes no part any more. --- */

/* Returns how many came to addresses at which not as many are gone. */
static size_t make_up_by_address(struct torch_state *out, const struct torch_state *gone,
                                 const struct torch_state *then, const struct torch_state *now)
{
    struct cursor away = {gone, 0}, before = {then, 0};
    size_t elsewhere = 0, at = 0;

    for (size_t i = 0; i < now->count;) {
        struct slice addr = now->nodes[i].addr;
        size_t newcomers = 0;

        for (; i < now->count && slice_equal(now->nodes[i].addr, addr); i++)
            newcomers += now->nodes[i].participant && !takes_part(&before, &now->nodes[i]) &&
                         !takes_part(&away, &now->nodes[i]);
        while (at < out->count && slice_compare(out->nodes[at].addr, addr) < 0)
            at++;
        for (; at < out->count && slice_equal(out->nodes[at].addr, addr) && newcomers > 0; at++) {
            out->nodes[at].participant = false;
            newcomers--;
        }
        elsewhere += newcomers;
    }
    return elsewhere;
}

static void make_up_elsewhere(struct torch_state *out, const struct torch_state *gone, size_t count)
{
    struct cursor before = {gone, 0};

    for (size_t i = 0; i < out->count && count > 0; i++) {
        struct torch_node *node = &out->nodes[i];

        if (!node->participant || !takes_part(&before, node))
            continue;
        node->participant = false;
        count--;
    }
    for (size_t i = 0; i < out->count && count > 0; i++) {
        count -= out->nodes[i].participant;
        out->nodes[i].participant = false;
    }
}

bool absent_nodes_next(const struct torch_state *gone, const struct torch_state *then,
                       const struct torch_state *now, struct torch_state *out)
{
    const struct torch_state none = {0};
    struct torch_state candidates = {0}, next = {0};
    bool ok = add_absent(&candidates, gone, then, now);

    if (ok && candidates.count > 0) {
        make_up_elsewhere(&candidates, gone, make_up_by_address(&candidates, gone, then, now));
        ok = add_absent(&next, &candidates, &none, now);
    }
    torch_state_free(&candidates);
    if (ok)
        *out = next;
    else
        torch_state_free(&next);
    return ok;
}

bool absent_nodes_keep(const struct torch_state *now, bool had, struct torch_state *last,
                       struct torch_state *gone)
{
    struct torch_state completed, next = {0};

    if (!torch_state_copy(now, &completed))
        return false;
    if (had && !absent_nodes_next(gone, last, now, &next)) {
        torch_state_free(&completed);
        return false;
    }
    torch_state_free(gone);
    torch_state_free(last);
    *gone = next;
    *last = completed;
    return true;
}
