/* The rounds of a run and why they ended. See history.h for the contract. */
#include "rdzv/rendezvous/history.h"

#include <stdarg.h>
#include <stdio.h>

#include "rdzv/rendezvous/explain.h"
#include "store/memory/account.h"

/* --- Texts and lists. --- */

void history_drop_text(char **text)
{
    account_heap_free(ACCOUNT_RUNS, *text);
    *text = NULL;
}

/* Replaces the text; when memory is short, the old text stays. */
static void history_replace_text(char **text, const char *next)
{
    char *made = account_heap_copy(ACCOUNT_RUNS, ACCOUNT_ORDINARY, next, strlen(next));

    if (made == NULL)
        return;
    history_drop_text(text);
    *text = made;
}

/* The caller frees the round or uses it again, and keeps h->count. */
static void take_out_round(struct history *h, struct history_round *r)
{
    TAILQ_REMOVE(&h->rounds, r, entry);
    history_drop_text(&r->why);
    history_drop_text(&r->left);
    history_drop_text(&r->failed);
    history_drop_text(&r->first_at);
    history_drop_text(&r->later_ends);
}

/* The newest round. If the list is full, or memory is short, the oldest one becomes the newest. */
static void add_round(struct history *h, int64_t round, int64_t now_us)
{
    struct history_round *r = NULL;

    if (h->count < HISTORY_ROUNDS)
        r = account_request(ACCOUNT_RUNS, ACCOUNT_ORDINARY, sizeof *r);
    if (r != NULL) {
        h->count++;
    } else if (h->count > 0) {
        r = TAILQ_LAST(&h->rounds, history_rounds);
        take_out_round(h, r);
    } else {
        return;
    }
    *r = (struct history_round){.round = round, .began_us = now_us};
    TAILQ_INSERT_HEAD(&h->rounds, r, entry);
}

static void drop_loss(struct history *h, struct history_loss *l)
{
    TAILQ_REMOVE(&h->losses, l, entry);
    h->loss_count--;
    account_heap_free(ACCOUNT_RUNS, l);
}

void history_fini(struct history *h)
{
    struct history_round *r;

    while ((r = TAILQ_FIRST(&h->rounds)) != NULL) {
        take_out_round(h, r);
        account_free(ACCOUNT_RUNS, r, sizeof *r);
    }
    while (h->loss_count > 0)
        drop_loss(h, TAILQ_FIRST(&h->losses));
    history_drop_text(&h->failed);
    history_drop_text(&h->dumped);
    history_drop_text(&h->stop);
    history_drop_text(&h->cordon);
    *h = (struct history){0};
}

/* --- Rounds. --- */

struct history_round *history_standing(const struct history *h)
{
    struct history_round *r = TAILQ_FIRST(&h->rounds);

    return r != NULL && r->completed_us != 0 && r->ended_us == 0 ? r : NULL;
}

/* Behind the reasons that the round has already. */
static void add_reason(struct history_round *r, const char *why)
{
    char text[HISTORY_TEXT_MAX];

    if (r->why == NULL)
        snprintf(text, sizeof text, "%s", why);
    else
        snprintf(text, sizeof text, "%s; %.*s", r->why, HISTORY_TEXT_MAX - 3, why);
    if (r->why == NULL || strlen(r->why) < sizeof text - 1)
        history_replace_text(&r->why, text);
    history_drop_text(&r->left);
}

void history_end(struct history *h, const char *why, int64_t now_us)
{
    struct history_round *r = TAILQ_FIRST(&h->rounds);

    if (r == NULL || r->ended_us != 0)
        return;
    if (r->completed_us != 0)
        r->cause = why == NULL ? h->goodput.now : h->failed != NULL ? GOODPUT_LEFT : GOODPUT_TRAINS;
    h->is_unjudged = h->is_unjudged || history_is_failure(r);
    if (why != NULL) {
        add_reason(r, why);
        h->fault_us = 0; /* no round is to follow */
        goodput_end(&h->goodput, now_us);
    }
    r->ended_us = now_us;
}

void history_reach(struct history *h, int64_t round, int64_t now_us)
{
    struct history_round *r = TAILQ_FIRST(&h->rounds);

    if (r != NULL && r->round == round && r->ended_us == 0)
        return;
    history_end(h, NULL, now_us);
    goodput_enter(&h->goodput, h->goodput.since_us == 0 ? GOODPUT_FIRST : GOODPUT_LEFT, now_us);
    h->had_last_call = false;
    add_round(h, round, now_us);
}

void history_last_call(struct history *h, uint64_t nodes)
{
    h->min = nodes;
    h->had_last_call = true;
}

/* Adds the round to the histograms: the time since its begin, and since a node was lost. */
static void count_round(struct history *h, const struct history_round *r)
{
    const int64_t from_us[] = {r->began_us, h->fault_us};
    struct durations *const into[] = {&h->stats->rounds, &h->stats->recoveries};

    for (int i = 0; i < 2; i++) {
        int64_t us = r->completed_us - from_us[i];

        if (from_us[i] != 0)
            durations_add(into[i], RECOVERY_FIRST_NS, us > 0 ? (uint64_t)us * 1000 : 0, 1);
    }
}

/* Torch begins a last call when MIN have joined, unless that completes the round. */
void history_complete(struct history *h, uint64_t nodes, bool reached_max, int64_t now_us)
{
    struct history_round *r = TAILQ_FIRST(&h->rounds);

    if (r == NULL)
        return;
    r->completed_us = now_us;
    r->nodes = nodes;
    if (h->stats != NULL)
        count_round(h, r);
    goodput_enter(&h->goodput, GOODPUT_TRAINS, now_us);
    h->fault_us = 0;
    history_drop_text(&h->dumped);
    h->was_complete = true;
    if (!reached_max)
        return;
    h->max = nodes;
    if (!h->had_last_call)
        h->min = nodes;
}

void history_resume(struct history *h, int64_t round, uint64_t nodes, int64_t now_us)
{
    struct history_round *r;

    add_round(h, round, 0);
    r = TAILQ_FIRST(&h->rounds);
    if (r == NULL)
        return;
    r->completed_us = now_us;
    r->nodes = nodes;
    h->was_complete = true;
}

void history_add_reason(struct history *h, enum history_reason which, const char *format, ...)
{
    struct history_round *r = history_standing(h);
    char text[HISTORY_TEXT_MAX];
    va_list args;

    if (r == NULL || (which == REASON_FIRST && r->why != NULL))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add_reason(r, text);
}

/* The first one counts, of those that the next complete round makes good. */
static void note_fault(struct history *h, int64_t now_us)
{
    const struct history_round *r = TAILQ_FIRST(&h->rounds);

    if (h->fault_us == 0 && r != NULL && r->ended_us == 0 && h->was_complete)
        h->fault_us = now_us;
}

void history_dump(struct history *h, const char *order)
{
    char text[HISTORY_TEXT_MAX];

    snprintf(text, sizeof text, "an operator has asked for flight records%.400s", order);
    history_replace_text(&h->dumped, text);
}

static void explain_dump(struct history *h)
{
    if (h->dumped != NULL)
        history_add_reason(h, REASON_FIRST, "%s", h->dumped);
}

/* --- The first failure: the kernel closes the connections of a process that ends. --- */

static bool may_be_first(const struct history_round *r, int64_t now_us)
{
    return r->why == NULL && (r->first_at == NULL || now_us - r->first_us >= HISTORY_FIRST_US);
}

static bool may_be_later(const struct history_round *r)
{
    return r->first_at != NULL &&
           (r->later_ends == NULL || strlen(r->later_ends) < HISTORY_TEXT_MAX);
}

bool history_takes_end(const struct history_round *r, int64_t now_us)
{
    return may_be_first(r, now_us) || may_be_later(r);
}

static void add_later_end(struct history_round *r, const char *what, const char *how,
                          int64_t now_us)
{
    char text[HISTORY_WHY_MAX];

    if (r != NULL && r->why == NULL && now_us - r->first_us >= 4 * HISTORY_FIRST_US)
        history_drop_text(&r->first_at); /* that worker has ended well, before the others */
    if (r == NULL || !may_be_later(r))
        return;
    snprintf(text, sizeof text, "%s, %s%s after %lld ms",
             r->later_ends == NULL ? "" : r->later_ends, what, how,
             (long long)(now_us - r->first_us) / 1000);
    history_replace_text(&r->later_ends, text);
}

void history_end_worker(struct history *h, uint32_t rank, const char *at, int64_t now_us)
{
    struct history_round *r = history_standing(h);
    char text[HISTORY_TEXT_MAX];

    explain_dump(h);
    if (r != NULL && may_be_first(r, now_us)) {
        history_replace_text(&r->first_at, at);
        history_drop_text(&r->later_ends);
        r->first_rank = rank;
        r->first_us = now_us;
    } else if (r != NULL && rank != r->first_rank) {
        snprintf(text, sizeof text, "rank %u%.400s", rank, at);
        add_later_end(r, text, "", now_us);
    }
}

struct slice history_first_host(const struct history_round *r)
{
    const char *at = r->first_at == NULL ? NULL : strstr(r->first_at, " on ");
    const char *node = at != NULL ? at + 4 : r->failed != NULL ? r->failed : r->left;

    return node == NULL
               ? (struct slice){0}
               : (struct slice){(const uint8_t *)node, strcspn(node, at != NULL ? " " : "/")};
}

const char *history_why(const struct history_round *r, const char *why, char text[HISTORY_WHY_MAX])
{
    if (r == NULL || r->first_at == NULL)
        return why;
    snprintf(text, HISTORY_WHY_MAX, "rank %u%s ended first; %s%s%s", r->first_rank, r->first_at,
             why, r->later_ends == NULL ? "" : "; then",
             r->later_ends == NULL ? "" : r->later_ends + 1);
    return text;
}

/* --- Nodes. --- */

void history_leave(struct history *h, const char *node, int64_t now_us)
{
    struct history_round *r = history_standing(h);
    char words[NODE_TEXT_MAX];

    goodput_enter(&h->goodput, GOODPUT_LEFT, now_us);
    explain_dump(h);
    add_later_end(r, node_words(node, words), " left", now_us);
    if (r == NULL || r->why != NULL)
        return;
    history_add_reason(h, REASON_FIRST, "%s left the round by itself", node_words(node, words));
    note_fault(h, now_us);
    if (r->why != NULL)
        history_replace_text(&r->left, node);
}

/* Who leaves a round for no reason that was there before, and joins again, has workers that
 * failed: an agent does so after that, and when another node waits. */
static void tell_failure(struct history *h, const char *node)
{
    struct history_round *r = TAILQ_FIRST(&h->rounds);
    char text[HISTORY_TEXT_MAX], words[NODE_TEXT_MAX];

    for (int i = 0; i < 2 && r != NULL; i++, r = TAILQ_NEXT(r, entry)) {
        if (r->left == NULL || strcmp(r->left, node) != 0)
            continue;
        snprintf(text, sizeof text,
                 "a worker of %s failed: its agent left the round and joined again",
                 node_words(node, words));
        history_replace_text(&r->why, text);
        history_drop_text(&r->failed);
        r->failed = r->left;
        r->left = NULL;
    }
}

/* Who joins is lost no more. */
static void forget_losses(struct history *h, const char *node)
{
    TAILQ_EACH_SAFE(struct history_loss, l, &h->losses, entry) {
        if (strcmp(l->node, node) == 0)
            drop_loss(h, l);
    }
}

void history_join(struct history *h, const char *node, bool waits, int64_t now_us)
{
    char words[NODE_TEXT_MAX];

    forget_losses(h, node);
    tell_failure(h, node);
    if (!waits)
        return;
    goodput_enter(&h->goodput, GOODPUT_NEWCOMER, now_us);
    history_add_reason(h, REASON_FIRST, "%s came, and the others meet again to admit it",
                       node_words(node, words));
}

void history_lose(struct history *h, const char *node, enum loss_kind kind, const char *peer,
                  int64_t now_us)
{
    size_t node_size = strlen(node) + 1, peer_size = peer == NULL ? 0 : strlen(peer) + 1;
    struct history_loss *l;

    if (kind != LOSS_LEFT)
        note_fault(h, now_us);
    if (h->loss_count == HISTORY_LOSSES)
        drop_loss(h, TAILQ_LAST(&h->losses, history_losses));
    l = account_heap_request(ACCOUNT_RUNS, ACCOUNT_ORDINARY, sizeof *l + node_size + peer_size);
    if (l == NULL)
        return;
    *l = (struct history_loss){.at_us = now_us, .kind = kind};
    memcpy(l->node, node, node_size);
    if (peer != NULL)
        l->peer = memcpy(l->node + node_size, peer, peer_size);
    TAILQ_INSERT_HEAD(&h->losses, l, entry);
    h->loss_count++;
}

const struct history_loss *history_find_loss(const struct history *h, const struct torch_node *who)
{
    char text[NODE_TEXT_MAX];

    node_text(who, text);
    return FIND(l, TAILQ_EACH(const struct history_loss, l, &h->losses, entry),
                strcmp(l->node, text) == 0);
}

/* --- Notes of the policy. --- */

/* False: a spare, or a node that waits: the round goes on without it. */
static bool history_is_of_round(const struct note *note)
{
    return strcmp(note->previous, "participant") == 0;
}

/* An agent that gets a signal ends its workers and then itself: none of them has failed, nor has a
 * worker of another node that ended after them. False: the worker that ended first is another's. */
static bool take_back_first(struct history_round *r, const char *node)
{
    const struct slice host = {(const uint8_t *)node, strcspn(node, "/")};

    if (r == NULL || r->first_at == NULL || !slice_equal(history_first_host(r), host))
        return false;
    history_drop_text(&r->first_at);
    history_drop_text(&r->failed);
    return true;
}

static void add_loss_reason(struct history *h, const struct note *note, int64_t now_us)
{
    char words[NODE_TEXT_MAX], by[NODE_TEXT_MAX];
    const char *node = node_words(note->node, words);

    add_later_end(history_standing(h), node, " was lost", now_us);
    switch (note->kind) {
    case NOTE_NODE_DISCONNECTED:
        history_add_reason(h, REASON_ALSO, "%s was lost: %s", node,
                           take_back_first(history_standing(h), note->node)
                               ? "its workers and its agent ended, as after a SIGTERM"
                               : "its connection ended");
        break;
    case NOTE_NODE_REPLACED:
        history_add_reason(h, REASON_ALSO, "%s was started again under the same name", node);
        break;
    case NOTE_NODE_SILENT:
        history_add_reason(h, REASON_ALSO, "%s was lost: nothing came of it for %lld s", node,
                           (long long)note->ms / 1000);
        break;
    default:
        history_add_reason(h, REASON_ALSO,
                           "%s was lost: its last heartbeat was %lld s old, and %s took it out",
                           node, (long long)note->ms / 1000, node_words(note->by_node, by));
        break;
    }
}

void history_note(struct history *h, const struct run *run, const struct note *note,
                  const char *peer, int64_t now_us)
{
    char words[NODE_TEXT_MAX];
    struct history_loss *l;

    switch (note->kind) {
    case NOTE_RUN_STARTED:
        h->began_us = now_us;
        history_reach(h, note->round, now_us);
        break;
    case NOTE_NODE_JOINED:
        history_reach(h, note->round, now_us);
        history_join(h, note->node, strcmp(note->role, "waiting") == 0, now_us);
        if (run->view.state.complete && run->view.waiting == 0)
            goodput_enter(&h->goodput, GOODPUT_TRAINS, now_us); /* a lost node is back */
        break;
    case NOTE_NODE_LEFT:
        if (history_is_of_round(note))
            history_leave(h, note->node, now_us);
        history_reach(h, note->round, now_us);
        break;
    case NOTE_NODE_SET_ASIDE:
        if (!history_is_of_round(note))
            break;
        goodput_enter(&h->goodput, GOODPUT_ORDER, now_us);
        if (run->orders.word != ORDER_HOLD) /* which takes out all of them */
            history_add_reason(h, REASON_ALSO, "%s is set aside: %s", node_words(note->node, words),
                               note->reason);
        break;
    case NOTE_NODE_DISCONNECTED:
    case NOTE_NODE_SILENT:
    case NOTE_NODE_PRESUMED_DEAD:
    case NOTE_NODE_REPLACED:
        if (history_is_of_round(note)) {
            goodput_enter(&h->goodput, GOODPUT_LOST, now_us);
            add_loss_reason(h, note, now_us);
        }
        history_lose(h, note->node,
                     note->kind == NOTE_NODE_DISCONNECTED ? LOSS_DISCONNECTED
                     : note->kind == NOTE_NODE_REPLACED   ? LOSS_REPLACED
                                                          : LOSS_SILENT,
                     peer, now_us);
        if (note->kind == NOTE_NODE_SILENT && (l = TAILQ_FIRST(&h->losses)) != NULL &&
            l->at_us == now_us)
            l->silent_us = note->ms * 1000;
        history_reach(h, note->round, now_us);
        break;
    case NOTE_NODES_RESTARTED:
        goodput_enter(&h->goodput, run->meets_on_order ? GOODPUT_ORDER : GOODPUT_LEFT, now_us);
        history_add_reason(h, REASON_ALSO, "%s (%llu) %s%s",
                           run->orders.word == ORDER_HOLD
                               ? "an operator holds the run, and its nodes"
                           : run->meets_on_order ? "an operator makes the nodes"
                                                 : "rdzvd makes the other nodes",
                           (unsigned long long)note->number,
                           run->orders.word == ORDER_HOLD ? "wait" : "meet again",
                           note->order == NULL ? "" : note->order);
        break;
    case NOTE_NODES_LOST:
        goodput_enter(&h->goodput, GOODPUT_STORE, now_us);
        history_add_reason(h, REASON_ALSO,
                           "nodes that did not come back after rdzvd was started again: %llu",
                           (unsigned long long)note->number);
        break;
    case NOTE_SIZE_KNOWN:
        h->min = note->number;
        h->max = note->max;
        break;
    case NOTE_LAST_CALL:
        history_reach(h, note->round, now_us);
        history_last_call(h, note->number);
        break;
    case NOTE_ROUND_COMPLETE:
        history_reach(h, note->round, now_us);
        history_complete(h, note->number, run->fill == FILL_MAX, now_us);
        break;
    case NOTE_RUN_ENDED:
        if (run->failed && run->orders.word != ORDER_CLOSE)
            history_replace_text(&h->failed, note->by_node);
        if (h->failed != NULL && h->count > 0)
            history_replace_text(&TAILQ_FIRST(&h->rounds)->failed, note->by_node);
        if (strcmp(note->end, "done") == 0 && h->count > 0)
            history_drop_text(&TAILQ_FIRST(&h->rounds)->first_at);
        history_end(h, h->stop != NULL ? h->stop : note->reason, now_us);
        break;
    case NOTE_RUN_FORGOTTEN:
        TAILQ_EACH(struct history_round, r, &h->rounds, entry)
            r->cause = GOODPUT_TRAINS; /* the next run of this id has no failures */
        h->is_unjudged = false;
        history_drop_text(&h->failed);
        history_end(h, note->reason, now_us);
        break;
    default:
        break;
    }
}
