/* Watches sockets. See sockets.h for the contract. */
#include "rdzv/net/sockets.h"

#include <unistd.h>

void sockets_init(struct sockets *s, sockets_serve_fn *serve)
{
    s->serve = serve;
    TAILQ_INIT(&s->waiting);
}

static void set_wait(struct socket_set *set, bool waits)
{
    if (waits && !set->waits)
        TAILQ_INSERT_TAIL(&set->all->waiting, set, entry);
    else if (!waits && set->waits)
        TAILQ_REMOVE(&set->all->waiting, set, entry);
    set->waits = waits;
}

/* The turn of the set that has waited longest. */
static void begin_turn(struct sockets *s)
{
    s->turn = TAILQ_FIRST(&s->waiting);
    set_wait(s->turn, false);
    s->at = 0;
    s->count = epoll_wait(s->turn->epoll, s->ready, SOCKETS_AT_A_TIME, 0);
    if (s->count < 0) /* EINTR */
        s->count = 0;
}

void sockets_go_on(struct sockets *s)
{
    bool goes_on = true;

    while (sockets_have_rest(s) && goes_on) {
        const struct epoll_event *e = &s->ready[s->at++];

        if (e->data.ptr != NULL)
            goes_on = s->serve(e->data.ptr, e->events & (EPOLLERR | EPOLLHUP)
                                                ? EPOLLIN | EPOLLOUT | EPOLLRDHUP
                                                : e->events);
    }
}

/* Gives a turn, or the rest of one, to the set that has waited longest, which may be another one. A
 * set comes here in each pass in which it is ready: a pass has time for as many turns as sets. */
static void set_on_ready(evutil_socket_t, short, void *arg)
{
    struct socket_set *set = arg;
    struct sockets *s = set->all;

    if (set != s->turn || !sockets_have_rest(s))
        set_wait(set, true);
    if (!sockets_have_rest(s))
        begin_turn(s);
    sockets_go_on(s);
}

bool socket_set_open(struct socket_set *set, struct sockets *s, struct event_base *base)
{
    *set = (struct socket_set){.all = s, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    if (set->epoll < 0)
        return false;
    event_assign(&set->event, base, set->epoll, EV_READ | EV_PERSIST, set_on_ready, set);
    return event_add(&set->event, NULL) == 0;
}

void socket_set_close(struct socket_set *set)
{
    if (set->epoll < 0)
        return;
    set_wait(set, false);
    if (set->all->turn == set)
        set->all->turn = NULL;
    event_del(&set->event);
    close(set->epoll);
}

/* It may be freed before its turn comes. */
static void sockets_forget(struct sockets *s, const void *owner)
{
    for (int i = s->at; i < s->count; i++)
        if (s->ready[i].data.ptr == owner)
            s->ready[i].data.ptr = NULL;
}

/* EPOLLRDHUP tells of a peer that ends behind its last bytes, which are one event together. */
bool socket_set_watch(struct socket_set *set, int fd, unsigned now, unsigned next, void *owner)
{
    struct epoll_event e = {.events = next | EPOLLET | (next & EPOLLIN ? EPOLLRDHUP : 0u),
                            .data.ptr = owner};
    int op = now == 0 ? EPOLL_CTL_ADD : next == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;

    if (next == 0)
        sockets_forget(set->all, owner);
    return (now | next) == 0 || epoll_ctl(set->epoll, op, fd, &e) == 0;
}
