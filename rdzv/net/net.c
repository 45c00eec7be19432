/* What all connections share. See net.h for the contract. */
#include "rdzv/net/net.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "store/memory/xalloc.h"

static uint64_t descriptors_max(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (uint64_t)limit.rlim_cur : UINT64_MAX;
}

void net_init(struct net *n, struct event_base *base, struct engine *engine,
              const struct config_limits *limits)
{
    *n = (struct net){.base = base, .engine = engine, .limits = limits};
    TAILQ_INIT(&n->listeners);
    TAILQ_INIT(&n->conns);
    TAILQ_INIT(&n->closed);
    TAILQ_INIT(&n->stalled);
    TAILQ_INIT(&n->queued);
    TAILQ_INIT(&n->notified);
    TAILQ_INIT(&n->bulk);
    TAILQ_INIT(&n->uncommitted);
    TAILQ_INIT(&n->deferred);
    TAILQ_INIT(&n->held);
    TAILQ_INIT(&n->slow);
    TAILQ_INIT(&n->unread);
    n->budget.clock = engine->options.clock;
    n->latency = (struct latency){.clock = engine->options.clock, .stats = &engine->stats};
    budget_begin_iteration(&n->budget, false);
    out_pool_init(&n->pool);
    n->recv_buf = xcalloc(1, NET_RECV_SIZE);
    n->descriptors_max = descriptors_max();
}

void net_fini(struct net *n)
{
    out_pool_fini(&n->pool);
    free(n->recv_buf);
    account_free(ACCOUNT_INPUT, n->scratch, n->scratch_cap);
}

uint8_t *net_scratch(struct net *n, size_t len)
{
    if (len <= n->scratch_cap)
        return n->scratch;
    net_drop_scratch(n);
    store_make_room(&n->engine->store, account_class_of(len), len);
    n->scratch = account_request(ACCOUNT_INPUT, account_class_of(len), len);
    n->scratch_cap = n->scratch == NULL ? 0 : len;
    return n->scratch;
}

void net_drop_scratch(struct net *n)
{
    account_free(ACCOUNT_INPUT, n->scratch, n->scratch_cap);
    n->scratch = NULL;
    n->scratch_cap = 0;
}

int net_fail(int fd, int error)
{
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

bool net_note_unwatched(void)
{
    int error = errno;

    log_limited(LOG_ERROR, "event_failed", log_errno("error", error),
                log_str("hint", error == ENOSPC ? "raise fs.epoll.max_user_watches (sysctl)"
                                                : "give the process more memory"));
    errno = error;
    return false;
}

bool net_add_event(struct event *event, const struct timeval *timeout)
{
    return event_add(event, timeout) == 0 || net_note_unwatched();
}

bool net_set_timer(struct event *timer, uint64_t us)
{
    return net_add_event(timer,
                         &(struct timeval){(time_t)(us / 1000000), (suseconds_t)(us % 1000000)});
}
