/* Looking a name up beside the loop. See resolve.h for the contract. */
#include "rdzv/net/resolve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/lookup.h"
#include "rdzv/net/net.h"

struct resolve {
    struct lookup *lookup; /* not in the account of memory, which only the loop may use */
    struct event event;
    resolve_tell_fn *tell;
    void *arg;
};

socklen_t resolve_address_len(const union resolve_address *a)
{
    return a->any.sa_family == AF_INET6 ? sizeof a->in6 : sizeof a->in4;
}

void resolve_cancel(struct resolve *r)
{
    if (r == NULL)
        return;
    event_del(&r->event);
    lookup_cancel(r->lookup);
    account_free(ACCOUNT_SESSIONS, r, sizeof *r);
}

static size_t copy_addresses(const struct addrinfo *list, union resolve_address out[RESOLVE_MAX])
{
    size_t count = 0;

    for (const struct addrinfo *ai = list; ai != NULL && count < RESOLVE_MAX; ai = ai->ai_next) {
        if (ai->ai_family == AF_INET || ai->ai_family == AF_INET6)
            memcpy(&out[count++], ai->ai_addr, ai->ai_addrlen);
    }
    return count;
}

static void resolve_on_found(evutil_socket_t, short, void *arg)
{
    union resolve_address addresses[RESOLVE_MAX];
    const char *why = "the name has no address";
    struct resolve *r = arg;
    struct addrinfo *list;
    size_t count;
    int error;

    event_del(&r->event);
    error = lookup_finish(r->lookup, &list);
    r->lookup = NULL;
    count = copy_addresses(list, addresses);
    if (list != NULL)
        freeaddrinfo(list);
    if (error != 0)
        why = gai_strerror(error);
    r->tell(r->arg, addresses, count, count > 0 ? NULL : why);
    resolve_cancel(r);
}

struct resolve *resolve_start(struct event_base *base, const char *host, uint16_t port,
                              resolve_tell_fn *tell, void *arg)
{
    struct resolve *r = account_request_zeroed(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *r);
    struct address address;
    int fd = -1, error;

    if (r == NULL)
        return NULL;
    r->tell = tell;
    r->arg = arg;
    snprintf(address.host, sizeof address.host, "%s", host);
    snprintf(address.port, sizeof address.port, "%u", port);
    r->lookup = lookup_start(&address, &fd);
    event_assign(&r->event, base, fd, EV_READ, resolve_on_found, r);
    if (r->lookup != NULL && net_add_event(&r->event, NULL))
        return r;
    error = errno;
    resolve_cancel(r);
    errno = error;
    return NULL;
}
