/* Clients that wait for something to happen in the store: who they are and what woke them.
 *
 * The store calls no function of theirs. A change moves the waiters that it wakes to the ready list
 * of the store, and the server takes them off it with store_next_ready() when its iteration is
 * over, in the order in which they were woken. */
#pragma once

#include "proto/queue.h"
#include "store/memory/reserve.h"

enum wake_kind {
    WAKE_WAITER,       /* a WAIT or BARRIER of c10d that is fulfilled */
    WAKE_ENDED,        /* a waiter whose client has left, until the lazy free frees it */
    WAKE_LIST,         /* a waiter whose owner is a list that several clients wait for */
    WAKE_SUBSCRIPTION, /* a watch (etcd's or legacy WATCH_KEY) with something in its queue */
};

/* Embedded in a waiter or a subscription. */
struct wake {
    TAILQ_ENTRY(wake) entry; /* in the ready list; of a waiter, or in a list of its keymap */
    enum wake_kind kind;
    bool ready;  /* is on the ready list */
    void *owner; /* the session it belongs to; the store does not look */
};

/* For ready_list.work: bytes that go back to the kernel, or are copied to new pages, in that time.
 */
#define READY_FREED_BYTES  1024u
#define READY_COPIED_BYTES 256u

/* For the macros of TAILQ. */
struct ready_list {
    struct wake *tqh_first;
    struct wake **tqh_last;
    uint64_t work; /* cost of the work that changes caused, in units of about 0.1 us: woken waiters,
                      and READY_… */
};

static inline void ready_list_init(struct ready_list *list)
{
    *list = (struct ready_list){0};
    TAILQ_INIT(list);
}

static inline void wake_add(struct ready_list *list, struct wake *w)
{
    if (w->ready)
        return;
    w->ready = true;
    TAILQ_INSERT_TAIL(list, w, entry);
}

static inline void wake_remove(struct ready_list *list, struct wake *w)
{
    if (!w->ready)
        return;
    w->ready = false;
    TAILQ_REMOVE(list, w, entry);
}

/* Deliveries that a subscription holds until the end of an iteration. If more events come in one
 * iteration, the subscription loses events and ends; etcd ends a watch after a hundred. A
 * connection can watch one key many thousand times while another client changes the key a thousand
 * times an iteration. */
#define SUBSCRIPTION_MAX 65536u

/* An event that a subscription has not sent yet. */
struct delivery {
    STAILQ_ENTRY(delivery) entry;
    struct blob *bytes;
};

/* A client that gets events; each event is rendered once, and all subscriptions share its bytes. */
struct subscription {
    struct wake wake;
    STAILQ_HEAD(, delivery) queue;
    unsigned queued;
    bool ended; /* nothing more will come; what is queued still counts */
    bool lost;  /* ended: more than SUBSCRIPTION_MAX events, or no memory */
};

/* A fresh subscription that is nowhere registered. */
void subscription_init(struct subscription *s, void *owner);

/* Queues one more reference to `bytes`. If the queue is full, the reserve has no memory to spare,
 * or `bytes` is NULL, the subscription is lost instead: an event for a watcher is not part of the
 * change, so its loss must not stop the change. After a lost event the subscription queues no more
 * events. */
void subscription_push(struct ready_list *ready, const struct reserve *reserve,
                       struct subscription *s, struct blob *bytes);

/* The oldest that is queued, whose reference passes to the caller; NULL: there is none. */
struct blob *subscription_next(struct subscription *s);

/* Empties the queue. */
void subscription_clear(struct subscription *s);

/* The same, and leaves the ready list. */
void subscription_fini(struct ready_list *ready, struct subscription *s);
