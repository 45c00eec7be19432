/* Looking a name up beside the loop. See resolve.h for the contract. */
#include "rdzv/net/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdzv/engine/thread.h"
#include "rdzv/net/net.h"

/* Of addresses alone; the libraries that getaddrinfo() loads need some, and sanitizers more. */
#define STACK_SIZE (1u << 20)

/* What thread and loop share. The thread has it until it has written `wake`; the last to let go
 * frees it. It is no part of the account, which is the loop's. */
struct lookup {
    char *host;
    char port[8];
    int wake; /* an eventfd */
    int held; /* by how many; atomic */
    int error;
    size_t count;
    union resolve_address addresses[RESOLVE_MAX];
};

struct resolve {
    struct lookup *lookup;
    struct event *event;
    void (*tell)(void *arg, const union resolve_address *addresses, size_t count, const char *why);
    void *arg;
};

socklen_t resolve_address_len(const union resolve_address *a)
{
    return a->any.sa_family == AF_INET6 ? sizeof a->in6 : sizeof a->in4;
}

static void lookup_let_go(struct lookup *l)
{
    if (__atomic_sub_fetch(&l->held, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (l->wake >= 0)
        close(l->wake);
    free(l->host);
    free(l);
}

/* --- The thread. --- */

static void lookup_keep(struct lookup *l, const struct addrinfo *found)
{
    const struct addrinfo *ai;

    for (ai = found; ai != NULL && l->count < RESOLVE_MAX; ai = ai->ai_next) {
        if (ai->ai_family == AF_INET || ai->ai_family == AF_INET6)
            memcpy(&l->addresses[l->count++], ai->ai_addr, ai->ai_addrlen);
    }
}

/* An address that this machine has no route to is tried like any other: AI_ADDRCONFIG would leave
 * out loopback on a machine that has nothing else yet. */
static void *lookup_run(void *arg)
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct lookup *l = arg;
    struct addrinfo *found = NULL;

    l->error = getaddrinfo(l->host, l->port, &hints, &found);
    if (l->error == 0) {
        lookup_keep(l, found);
        freeaddrinfo(found);
    }
    eventfd_write(l->wake, 1);
    lookup_let_go(l);
    return NULL;
}

/* --- The loop. --- */

void resolve_cancel(struct resolve *r)
{
    if (r == NULL)
        return;
    if (r->event != NULL)
        event_free(r->event);
    lookup_let_go(r->lookup);
    account_free(ACCOUNT_SESSIONS, r, sizeof *r);
}

static const char *lookup_fault(const struct lookup *l)
{
    if (l->count > 0)
        return NULL;
    return l->error == 0 ? "the name has no address" : gai_strerror(l->error);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct resolve *r = arg;
    struct lookup *l = r->lookup;
    eventfd_t count;

    (void)what;
    eventfd_read(fd, &count); /* from here on, what the thread wrote before is seen */
    event_free(r->event);
    r->event = NULL;
    r->tell(r->arg, l->addresses, l->count, lookup_fault(l));
    resolve_cancel(r);
}

static struct lookup *new_lookup(const char *host, uint16_t port)
{
    struct lookup *l = calloc(1, sizeof *l);

    if (l == NULL)
        return NULL;
    l->held = 1;
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->host = strdup(host);
    snprintf(l->port, sizeof l->port, "%u", port);
    if (l->wake >= 0 && l->host != NULL)
        return l;
    lookup_let_go(l);
    return NULL;
}

static bool resolve_begin(struct resolve *r, struct event_base *base)
{
    pthread_t thread;
    int error;

    r->event = event_new(base, r->lookup->wake, EV_READ, on_wake, r);
    if (r->event == NULL || !net_add_event(r->event, NULL))
        return false;
    r->lookup->held = 2;
    error = thread_start(&thread, STACK_SIZE, lookup_run, r->lookup);
    if (error == 0) {
        pthread_detach(thread);
        return true;
    }
    r->lookup->held = 1;
    errno = error;
    return false;
}

struct resolve *resolve_start(struct event_base *base, const char *host, uint16_t port,
                              void (*tell)(void *arg, const union resolve_address *addresses,
                                           size_t count, const char *why),
                              void *arg)
{
    struct lookup *l = new_lookup(host, port);
    struct resolve *r =
        l == NULL ? NULL : account_request_zeroed(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *r);
    int error;

    if (r == NULL) {
        if (l != NULL)
            lookup_let_go(l);
        return NULL;
    }
    *r = (struct resolve){.lookup = l, .tell = tell, .arg = arg};
    if (resolve_begin(r, base))
        return r;
    error = errno;
    resolve_cancel(r);
    errno = error;
    return NULL;
}
