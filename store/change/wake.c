/* The queue of a subscription. See wake.h for the contract. */
#include "store/change/wake.h"

#include <assert.h>

#include "store/tree/event_render.h"

/* A delivery of an event that is not done yet. */
struct render_wait {
    struct delivery delivery; /* the first member */
    TAILQ_ENTRY(render_wait) entry;
    struct subscription *subscription;
    bool waits; /* in render->waiting */
};

void subscription_init(struct subscription *s, void *owner)
{
    *s = (struct subscription){.wake = {.kind = WAKE_SUBSCRIPTION, .owner = owner}};
    STAILQ_INIT(&s->queue);
}

static bool has_room(const struct subscription *s, const struct reserve *reserve)
{
    return s->queued < SUBSCRIPTION_MAX && reserve_has_spare(reserve);
}

static void lose(struct ready_list *ready, struct subscription *s)
{
    s->ended = s->lost = true;
    wake_add(ready, &s->wake);
}

static void queue(struct subscription *s, struct delivery *d)
{
    STAILQ_INSERT_TAIL(&s->queue, d, entry);
    s->queued++;
}

void subscription_push(struct ready_list *ready, const struct reserve *reserve,
                       struct subscription *s, struct blob *bytes)
{
    struct delivery *d = NULL;

    ready->work++;
    if (s->ended)
        return;
    if (bytes != NULL && has_room(s, reserve))
        d = account_request(ACCOUNT_WATCHES, ACCOUNT_ORDINARY, sizeof *d);
    if (d == NULL) {
        lose(ready, s);
        return;
    }
    *d = (struct delivery){.bytes = blob_ref(bytes)};
    queue(s, d);
    wake_add(ready, &s->wake);
}

void subscription_push_render(struct ready_list *ready, const struct reserve *reserve,
                              struct subscription *s, struct event_render *r)
{
    struct render_wait *w = NULL;

    ready->work++;
    if (s->ended)
        return;
    if (r != NULL && has_room(s, reserve))
        w = account_request(ACCOUNT_WATCHES, ACCOUNT_ORDINARY, sizeof *w);
    if (w == NULL) {
        lose(ready, s);
        return;
    }
    *w = (struct render_wait){
        .delivery = {.render = event_render_ref(r)}, .subscription = s, .waits = !r->done};
    queue(s, &w->delivery);
    if (r->done) {
        wake_add(ready, &s->wake);
        return;
    }
    TAILQ_INSERT_TAIL(&r->waiting, w, entry);
    if (!r->listed)
        TAILQ_INSERT_TAIL(&ready->unfinished, r, entry);
    r->listed = true;
}

void subscriptions_wake(struct event_render *r)
{
    struct render_wait *w;

    while ((w = TAILQ_FIRST(&r->waiting)) != NULL) {
        TAILQ_REMOVE(&r->waiting, w, entry);
        w->waits = false;
        if (r->failed)
            lose(r->ready, w->subscription);
        else
            wake_add(r->ready, &w->subscription->wake);
    }
}

/* Takes the oldest off the queue. */
static void take(struct subscription *s, struct delivery *out)
{
    struct delivery *d = STAILQ_FIRST(&s->queue);
    struct render_wait *w = (struct render_wait *)d;

    STAILQ_REMOVE_HEAD(&s->queue, entry);
    s->queued--;
    *out = *d;
    if (d->render == NULL) {
        account_free(ACCOUNT_WATCHES, d, sizeof *d);
        return;
    }
    if (w->waits)
        TAILQ_REMOVE(&d->render->waiting, w, entry);
    account_free(ACCOUNT_WATCHES, w, sizeof *w);
}

bool subscription_has_next(const struct subscription *s)
{
    const struct delivery *d = STAILQ_FIRST(&s->queue);

    return d != NULL && (d->render == NULL || d->render->done);
}

bool subscription_take(struct subscription *s, struct delivery *out)
{
    if (!subscription_has_next(s))
        return false;
    take(s, out);
    return true;
}

struct blob *subscription_next(struct subscription *s)
{
    struct delivery d = {0};

    if (subscription_take(s, &d))
        assert(d.render == NULL);
    return d.bytes;
}

void delivery_drop(struct delivery *d)
{
    blob_unref(d->bytes);
    event_render_unref(d->render);
}

void subscription_clear(struct subscription *s)
{
    struct delivery d;

    while (!STAILQ_EMPTY(&s->queue)) {
        take(s, &d);
        delivery_drop(&d);
    }
}

void subscription_fini(struct ready_list *ready, struct subscription *s)
{
    subscription_clear(s);
    wake_remove(ready, &s->wake);
}
