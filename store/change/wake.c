/* The queue of a subscription. See wake.h for the contract. */
#include "store/change/wake.h"

#include "store/memory/blob.h"

void subscription_init(struct subscription *s, void *owner)
{
    *s = (struct subscription){.wake = {.kind = WAKE_SUBSCRIPTION, .owner = owner}};
    STAILQ_INIT(&s->queue);
}

void subscription_push(struct ready_list *ready, const struct reserve *reserve,
                       struct subscription *s, struct blob *bytes)
{
    struct delivery *d = NULL;

    ready->work++;
    if (s->ended)
        return;
    if (bytes != NULL && s->queued < SUBSCRIPTION_MAX && reserve_has_spare(reserve))
        d = account_request(ACCOUNT_WATCHES, ACCOUNT_ORDINARY, sizeof *d);
    wake_add(ready, &s->wake);
    if (d == NULL) {
        s->ended = s->lost = true;
        return;
    }
    d->bytes = blob_ref(bytes);
    STAILQ_INSERT_TAIL(&s->queue, d, entry);
    s->queued++;
}

struct blob *subscription_next(struct subscription *s)
{
    struct delivery *d = STAILQ_FIRST(&s->queue);
    struct blob *bytes;

    if (d == NULL)
        return NULL;
    STAILQ_REMOVE_HEAD(&s->queue, entry);
    s->queued--;
    bytes = d->bytes;
    account_free(ACCOUNT_WATCHES, d, sizeof *d);
    return bytes;
}

void subscription_clear(struct subscription *s)
{
    struct blob *bytes;

    while ((bytes = subscription_next(s)) != NULL)
        blob_unref(bytes);
}

void subscription_fini(struct ready_list *ready, struct subscription *s)
{
    subscription_clear(s);
    wake_remove(ready, &s->wake);
}
