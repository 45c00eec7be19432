/* Watches sockets. See sockets.h for the contract. */
#include "rdzv/net/sockets.h"

#include <unistd.h>

static void sockets_on_ready(evutil_socket_t, short, void *arg)
{
    struct sockets *s = arg;
    bool goes_on = true;

    if (s->at == s->count) {
        s->at = 0;
        s->count = epoll_wait(s->epoll, s->ready, SOCKETS_AT_A_TIME, 0);
        if (s->count < 0) /* EINTR */
            s->count = 0;
    }
    while (s->at < s->count && goes_on) {
        const struct epoll_event *e = &s->ready[s->at++];

        if (e->data.ptr != NULL)
            goes_on = s->serve(e->data.ptr,
                               e->events & (EPOLLERR | EPOLLHUP) ? EPOLLIN | EPOLLOUT : e->events);
    }
}

bool sockets_open(struct sockets *s, struct event_base *base, sockets_serve_fn *serve)
{
    s->serve = serve;
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll < 0)
        return false;
    event_assign(&s->event, base, s->epoll, EV_READ | EV_PERSIST, sockets_on_ready, s);
    return event_add(&s->event, NULL) == 0;
}

void sockets_close(struct sockets *s)
{
    if (s->epoll < 0)
        return;
    event_del(&s->event);
    close(s->epoll);
    s->epoll = -1;
}

/* It may be freed before its turn comes. */
static void sockets_forget(struct sockets *s, const void *owner)
{
    for (int i = s->at; i < s->count; i++)
        if (s->ready[i].data.ptr == owner)
            s->ready[i].data.ptr = NULL;
}

bool sockets_watch(struct sockets *s, int fd, unsigned now, unsigned next, void *owner)
{
    struct epoll_event e = {.events = next, .data.ptr = owner};
    int op = now == 0 ? EPOLL_CTL_ADD : next == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;

    if (next == 0)
        sockets_forget(s, owner);
    return now == next || epoll_ctl(s->epoll, op, fd, &e) == 0;
}
