/* Sockets of connections, in one epoll for each listener, which libevent watches as one descriptor.
 * An event of libevent would take 170 bytes for each socket, of the 450 of an idle connection.
 *
 * The listeners take turns: a turn serves at most SOCKETS_AT_A_TIME ready sockets of one listener.
 * If all requests were served in their order, the 8,000 workers of a job would delay the clients of
 * another listener, such as another job or Prometheus, for 50 ms. */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/queue.h>

/* The clients of other listeners wait for a turn and its answers, so it is short. With 32, a
 * request of 8,000 clients would take 3 % more CPU. */
#define SOCKETS_AT_A_TIME 64

/* Serves a socket in libevent's pass. `events` are some of EPOLLIN, EPOLLOUT and EPOLLRDHUP: the
 * peer sends no more; all of them if the socket has failed or has ended in both directions, since
 * that shows in whatever is tried. False: the time of the iteration is over, and the next pass goes
 * on behind this socket.
 *
 * An event comes once (EPOLLET), which saves the kernel a look at each served socket: 5 % of the
 * CPU of an ADD. So the owner reads until the socket is empty, or calls socket_set_watch() again.
 * Bytes, the end, or room that come later are a new event. */
typedef bool sockets_serve_fn(void *owner, unsigned events);

/* The sockets of one listener. */
struct socket_set {
    TAILQ_ENTRY(socket_set) entry;
    struct sockets *all;
    struct event event; /* at least one socket is ready */
    int epoll;
    bool waits; /* for its turn, in `all->waiting` */
};

/* All sets of a thread. */
struct sockets {
    TAILQ_HEAD(, socket_set) waiting;
    struct socket_set *turn;                     /* NULL: its listener has gone */
    struct epoll_event ready[SOCKETS_AT_A_TIME]; /* of that set */
    int at, count;                               /* those from `at` on are not served yet */
    sockets_serve_fn *serve;
};

void sockets_init(struct sockets *s, sockets_serve_fn *serve);

/* The time of an iteration has ended within a turn. The kernel reports its events no more, so the
 * next pass must not block, and sockets_go_on() serves the rest behind it. */
static inline bool sockets_have_rest(const struct sockets *s)
{
    return s->at < s->count;
}

void sockets_go_on(struct sockets *s);

/* False, with errno: too few descriptors or too little memory. `s` must outlive the set. */
bool socket_set_open(struct socket_set *set, struct sockets *s, struct event_base *base);

/* After the last of its sockets has closed; also of a set that could not be opened. */
void socket_set_close(struct socket_set *set);

/* Changes the events of a socket, EPOLLIN, EPOLLOUT or both, from `now` to `next`; they may be the
 * same. If the socket is ready for them, its owner is served again, after all that are ready now.
 * With 0, no event serves the owner any more, so the caller may free it. False, with errno: the
 * kernel cannot watch one more socket, and the events are as before. */
bool socket_set_watch(struct socket_set *set, int fd, unsigned now, unsigned next, void *owner);
