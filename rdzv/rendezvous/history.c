/* The rounds of a run and why they ended. See history.h for the contract. */
#include "rdzv/rendezvous/history.h"

#include <stdarg.h>
#include <stdio.h>

#include "rdzv/rendezvous/explain.h"
#include "store/memory/account.h"

/* --- Texts and lists. --- */

static char *history_copy_text(const char *text)
{
    return account_heap_copy(ACCOUNT_RUNS, ACCOUNT_ORDINARY, text, strlen(text));
}

static void history_drop_text(char **text)
{
    account_heap_free(ACCOUNT_RUNS, *text);
    *text = NULL;
}

/* In the place of what there was, which stays when memory is short. */
static void history_replace_text(char **text, const char *next)
{
    char *made = history_copy_text(next);

    if (made == NULL)
        return;
    history_drop_text(text);
    *text = made;
}

static void end_round(void *item)
{
    history_drop_text(&((struct history_round *)item)->why);
}

static void end_loss(void *item)
{
    struct history_loss *l = item;

    history_drop_text(&l->node);
    history_drop_text(&l->peer);
}

void history_fini(struct history *h)
{
    for (size_t i = 0; i < h->count; i++)
        end_round(&h->rounds[i]);
    for (size_t i = 0; i < h->loss_count; i++)
        end_loss(&h->losses[i]);
    account_heap_free(ACCOUNT_RUNS, h->rounds);
    account_heap_free(ACCOUNT_RUNS, h->losses);
    history_drop_text(&h->left);
    history_drop_text(&h->failed);
    *h = (struct history){0};
}

#define FIRST_ROOM 4

/* Makes room for one more item behind the last. A list that has `max` items, or gets no memory for
 * more, loses its first one, which `end` ends. Returns the list, which may have moved; *room 0: it
 * has no memory at all. */
static void *history_make_room(void *items, size_t *count, size_t *room, size_t size, size_t max,
                               void (*end)(void *item))
{
    size_t next = *room == 0 ? FIRST_ROOM : 2 * *room < max ? 2 * *room : max;
    void *wider = NULL;

    if (*count < *room)
        return items;
    if (next > *room)
        wider = account_heap_resize(ACCOUNT_RUNS, ACCOUNT_ORDINARY, items, next * size);
    if (wider != NULL) {
        *room = next;
        return wider;
    }
    if (*count > 0) {
        end(items);
        memmove(items, (char *)items + size, --*count * size);
    }
    return items;
}

/* A new last one, all zeros. NULL: memory is short. */
static struct history_round *add_round(struct history *h)
{
    h->rounds = history_make_room(h->rounds, &h->count, &h->room, sizeof *h->rounds, HISTORY_ROUNDS,
                                  end_round);
    if (h->room == 0)
        return NULL;
    h->rounds[h->count] = (struct history_round){0};
    return &h->rounds[h->count++];
}

static struct history_loss *add_loss(struct history *h)
{
    h->losses = history_make_room(h->losses, &h->loss_count, &h->loss_room, sizeof *h->losses,
                                  HISTORY_LOSSES, end_loss);
    if (h->loss_room == 0)
        return NULL;
    h->losses[h->loss_count] = (struct history_loss){0};
    return &h->losses[h->loss_count++];
}

/* --- Rounds. --- */

static struct history_round *newest(const struct history *h)
{
    return h->count == 0 ? NULL : &h->rounds[h->count - 1];
}

/* The newest one, if it is complete and goes on. */
static struct history_round *standing(const struct history *h)
{
    struct history_round *r = newest(h);

    return r != NULL && r->completed_us != 0 && r->ended_us == 0 ? r : NULL;
}

/* Behind the reasons that the round has already. */
static void add_reason(struct history_round *r, const char *why)
{
    char text[HISTORY_TEXT_MAX];

    if (r->why == NULL)
        snprintf(text, sizeof text, "%s", why);
    else
        snprintf(text, sizeof text, "%s; %s", r->why, why);
    if (r->why == NULL || strlen(r->why) < sizeof text - 1)
        history_replace_text(&r->why, text);
    r->left = false;
}

void history_end(struct history *h, const char *why, int64_t now_us)
{
    struct history_round *r = newest(h);

    if (r == NULL || r->ended_us != 0)
        return;
    if (why != NULL) {
        add_reason(r, why);
        h->fault_us = 0; /* no round is to follow */
    }
    r->ended_us = now_us;
}

void history_reach(struct history *h, int64_t round, int64_t now_us)
{
    struct history_round *r = newest(h);

    if (r != NULL && r->round == round && r->ended_us == 0)
        return;
    history_end(h, NULL, now_us);
    r = add_round(h);
    if (r == NULL)
        return;
    r->round = round;
    r->began_us = now_us;
    h->had_last_call = false;
}

void history_last_call(struct history *h, uint64_t nodes)
{
    h->min = nodes;
    h->had_last_call = true;
}

/* Torch begins a last call when MIN have joined, unless that completes the round. */
void history_complete(struct history *h, uint64_t nodes, bool reached_max, int64_t now_us)
{
    struct history_round *r = newest(h);

    if (r == NULL)
        return;
    r->completed_us = now_us;
    r->nodes = nodes;
    h->is_uncounted = true;
    if (!reached_max)
        return;
    h->max = nodes;
    if (!h->had_last_call)
        h->min = nodes;
}

__attribute__((format(printf, 3, 0))) static void add_reason_text(struct history *h, bool is_only,
                                                                  const char *format, va_list args)
{
    struct history_round *r = standing(h);
    char text[HISTORY_TEXT_MAX];

    if (r == NULL || (is_only && r->why != NULL))
        return;
    vsnprintf(text, sizeof text, format, args);
    add_reason(r, text);
}

void history_blame(struct history *h, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_reason_text(h, true, format, args);
    va_end(args);
}

void history_add(struct history *h, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_reason_text(h, false, format, args);
    va_end(args);
}

/* --- Counting. --- */

static bool has_been_complete(const struct history *h)
{
    for (size_t i = h->count; i-- > 0;) {
        if (h->rounds[i].completed_us != 0)
            return true;
    }
    return false;
}

/* The first one counts, of those that the next complete round makes good. */
static void note_fault(struct history *h, int64_t now_us)
{
    const struct history_round *r = newest(h);

    if (h->fault_us == 0 && r != NULL && r->ended_us == 0 && has_been_complete(h))
        h->fault_us = now_us;
}

static uint64_t ns_between(int64_t from_us, int64_t to_us)
{
    return to_us > from_us ? (uint64_t)(to_us - from_us) * 1000 : 0;
}

void history_count(struct history *h, struct stats *stats)
{
    const struct history_round *r = newest(h);

    if (!h->is_uncounted)
        return;
    durations_add(&stats->rounds, RECOVERY_FIRST_NS, ns_between(r->began_us, r->completed_us), 1);
    if (h->fault_us != 0)
        durations_add(&stats->recoveries, RECOVERY_FIRST_NS,
                      ns_between(h->fault_us, r->completed_us), 1);
    h->fault_us = 0;
    h->is_uncounted = false;
}

/* --- Nodes. --- */

void history_leave(struct history *h, const char *node, int64_t now_us)
{
    struct history_round *r = standing(h);
    char words[NODE_TEXT_MAX];

    if (r == NULL || r->why != NULL)
        return;
    history_blame(h, "%s left the round by itself", node_words(node, words));
    note_fault(h, now_us);
    history_replace_text(&h->left, node);
    r->left = r->why != NULL && h->left != NULL;
}

/* Who leaves a round for no reason that was there before, and joins again, has workers that
 * failed: an agent does so after that, and when another node waits. */
static void tell_failure(struct history *h, const char *node)
{
    char text[HISTORY_TEXT_MAX], words[NODE_TEXT_MAX];

    for (size_t i = h->count < 2 ? 0 : h->count - 2; i < h->count; i++) {
        struct history_round *r = &h->rounds[i];

        if (!r->left || h->left == NULL || strcmp(h->left, node) != 0)
            continue;
        snprintf(text, sizeof text,
                 "a worker of %s failed: its agent left the round and joined again",
                 node_words(node, words));
        history_replace_text(&r->why, text);
        r->left = false;
    }
}

/* Who joins is lost no more. */
static void forget_losses(struct history *h, const char *node)
{
    for (size_t i = 0; i < h->loss_count; i++) {
        if (h->losses[i].node != NULL && strcmp(h->losses[i].node, node) == 0)
            end_loss(&h->losses[i]);
    }
}

void history_join(struct history *h, const char *node, bool waits)
{
    char words[NODE_TEXT_MAX];

    forget_losses(h, node);
    tell_failure(h, node);
    if (waits)
        history_blame(h, "%s came, and the others meet again to let it in",
                      node_words(node, words));
}

void history_lose(struct history *h, const char *node, enum loss_kind kind, const char *peer,
                  int64_t now_us)
{
    struct history_loss *l = add_loss(h);

    if (kind != LOSS_LEFT)
        note_fault(h, now_us);
    if (l == NULL)
        return;
    l->node = history_copy_text(node);
    l->peer = peer == NULL ? NULL : history_copy_text(peer);
    l->kind = kind;
    l->at_us = now_us;
}

const struct history_loss *history_find_loss(const struct history *h, const struct torch_node *who)
{
    char text[NODE_TEXT_MAX];

    node_text(who, text);
    for (size_t i = h->loss_count; i-- > 0;) {
        if (h->losses[i].node != NULL && strcmp(h->losses[i].node, text) == 0)
            return &h->losses[i];
    }
    return NULL;
}

/* --- Notes of the policy. --- */

static void history_note_lost(struct history *h, const struct note *note, const char *peer,
                              int64_t now_us)
{
    char words[NODE_TEXT_MAX], by[NODE_TEXT_MAX];
    const char *node = node_words(note->node, words);
    enum loss_kind kind = LOSS_SILENT;

    switch (note->kind) {
    case NOTE_NODE_DISCONNECTED:
        history_add(h, "%s was lost: its connection ended", node);
        kind = LOSS_DISCONNECTED;
        break;
    case NOTE_NODE_REPLACED:
        history_add(h, "%s was started again under the same name", node);
        kind = LOSS_REPLACED;
        break;
    case NOTE_NODE_SILENT:
        history_add(h, "%s was lost: nothing came of it for %lld s", node,
                    (long long)note->ms / 1000);
        break;
    default:
        history_add(h, "%s was lost: its last heartbeat was %lld s old, and %s took it out", node,
                    (long long)note->ms / 1000, node_words(note->by_node, by));
        break;
    }
    history_lose(h, note->node, kind, peer, now_us);
}

static void history_note_closed(struct history *h, const struct run *run, const struct note *note,
                                int64_t now_us)
{
    char words[NODE_TEXT_MAX], why[HISTORY_TEXT_MAX];
    const char *node = node_words(note->by_node, words);

    if (run->failed)
        history_replace_text(&h->failed, note->by_node);
    if (run->failed)
        snprintf(why, sizeof why, "workers of %s failed, and its agent had no restart left", node);
    else
        snprintf(why, sizeof why, "%s closed the run%s", node,
                 run->finishing.round == note->round ? ": its workers have ended well" : "");
    history_end(h, why, now_us);
}

static void history_note_forgotten(struct history *h, const struct note *note, int64_t now_us)
{
    char why[HISTORY_TEXT_MAX];

    history_drop_text(&h->failed);
    snprintf(why, sizeof why, "the run was forgotten: %s", note->reason);
    history_end(h, why, now_us);
}

void history_note(struct history *h, const struct run *run, const struct note *note,
                  const char *peer, int64_t now_us)
{
    switch (note->kind) {
    case NOTE_RUN_STARTED:
        history_reach(h, note->round, now_us);
        break;
    case NOTE_NODE_JOINED:
        history_reach(h, note->round, now_us);
        history_join(h, note->node, strcmp(note->role, "waiting") == 0);
        break;
    case NOTE_NODE_LEFT:
        history_leave(h, note->node, now_us);
        history_reach(h, note->round, now_us);
        break;
    case NOTE_NODE_DISCONNECTED:
    case NOTE_NODE_SILENT:
    case NOTE_NODE_PRESUMED_DEAD:
    case NOTE_NODE_REPLACED:
        history_note_lost(h, note, peer, now_us);
        history_reach(h, note->round, now_us);
        break;
    case NOTE_NODES_RESTARTED:
        history_add(h, "rdzvd told the other nodes (%llu) to meet again",
                    (unsigned long long)note->number);
        break;
    case NOTE_NODES_LOST:
        history_add(h, "%llu nodes did not come back after rdzvd was started again",
                    (unsigned long long)note->number);
        break;
    case NOTE_LAST_CALL:
        history_reach(h, note->round, now_us);
        history_last_call(h, note->number);
        break;
    case NOTE_ROUND_COMPLETE:
        history_reach(h, note->round, now_us);
        history_complete(h, note->number, run->fill == FILL_MAX, now_us);
        break;
    case NOTE_RUN_CLOSED:
    case NOTE_RUN_FAILED:
        history_note_closed(h, run, note, now_us);
        break;
    case NOTE_RUN_FORGOTTEN:
        history_note_forgotten(h, note, now_us);
        break;
    default:
        break;
    }
}
