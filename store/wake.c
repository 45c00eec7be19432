/* The queue of a subscription. See wake.h for the contract. */
#include "store/wake.h"

void subscription_init(struct subscription *s, void *owner)
{
    *s = (struct subscription){.wake = {.kind = WAKE_SUBSCRIPTION, .owner = owner}};
    STAILQ_INIT(&s->queue);
}

void subscription_push(struct ready_list *ready, const struct reserve *reserve,
                       struct subscription *s, struct blob *bytes)
{
    struct delivery *d = NULL;

    if (bytes != NULL && s->queued < SUBSCRIPTION_MAX && reserve_has_spare(reserve))
        d = account_request(ACCOUNT_WATCHES, ACCOUNT_ORDINARY, sizeof *d);
    if (d == NULL) {
        s->ended = s->lost = true;
    } else {
        d->bytes = blob_ref(bytes);
        STAILQ_INSERT_TAIL(&s->queue, d, entry);
        s->queued++;
    }
    ready->told++;
    wake_add(ready, &s->wake);
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

void subscription_fini(struct ready_list *ready, struct subscription *s)
{
    struct blob *bytes;

    while ((bytes = subscription_next(s)) != NULL)
        blob_unref(bytes);
    wake_remove(ready, &s->wake);
}
