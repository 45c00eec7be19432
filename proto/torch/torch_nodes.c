/* Nodes of a run: their text, their role, and the absent nodes, without which the run goes on. See
 * torch_state.h for the contract. */
#include "proto/torch/torch_state.h"

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

const struct torch_node *node_of_rank(const struct torch_state *round, int64_t rank)
{
    return FIND(node, NODES_FOREACH(node, round), node->participant && node->rank == rank);
}

bool node_pairs_next(struct node_pairs *p, const struct torch_node **before,
                     const struct torch_node **now)
{
    const struct torch_state *s = p->before, *t = p->now;
    const struct torch_node *a = p->before_at < s->count ? &s->nodes[p->before_at] : NULL;
    const struct torch_node *b = p->now_at < t->count ? &t->nodes[p->now_at] : NULL;
    int order = a == NULL ? 1 : b == NULL ? -1 : torch_node_compare(a, b);

    *before = order <= 0 ? a : NULL;
    *now = order >= 0 ? b : NULL;
    p->before_at += *before != NULL;
    p->now_at += *now != NULL;
    return a != NULL || b != NULL;
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

/* The participants of `gone` and `then` that do not take part in `now`. False: no memory. */
static bool add_absent(struct torch_state *out, const struct torch_state *gone,
                       const struct torch_state *then, const struct torch_state *now)
{
    struct node_pairs pairs = {.before = gone, .now = then};
    struct cursor c = {now, 0};
    const struct torch_node *before, *node;
    struct torch_node *at;

    while (node_pairs_next(&pairs, &before, &node)) {
        if (node == NULL)
            node = before;
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
