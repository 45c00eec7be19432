/* Sockets in an epoll of their own, which libevent watches as one descriptor. An event of libevent
 * would take 170 bytes for each, of the 450 of an idle connection. */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <sys/epoll.h>

/* So many sockets are served in one pass of libevent. The kernel looks at each ready one again when
 * it is asked the next time, and an iteration has time for some hundred: with 16,384 sockets ready
 * and 4,096 at a time, that was half of the daemon's CPU time. */
#define SOCKETS_AT_A_TIME 256

/* Serves a socket in libevent's pass: `what` is EPOLLIN, EPOLLOUT or both; both if the socket has
 * failed or has ended in both directions, since that shows in whatever is tried. False: the time of
 * the iteration is over, and the next pass goes on behind this socket. */
typedef bool sockets_serve_fn(void *owner, unsigned what);

struct sockets {
    int epoll;                                   /* -1: not open */
    struct event event;                          /* at least one socket is ready */
    struct epoll_event ready[SOCKETS_AT_A_TIME]; /* as the kernel has said */
    int at, count;                               /* those from `at` on are not served yet */
    sockets_serve_fn *serve;
};

/* False, with errno: too few descriptors or too little memory. */
bool sockets_open(struct sockets *s, struct event_base *base, sockets_serve_fn *serve);

/* After the last of them has closed; also if it was never opened. */
void sockets_close(struct sockets *s);

/* Changes the events of a socket, EPOLLIN, EPOLLOUT or both, from `now` to `next`. With 0, no event
 * serves the owner any more, so the caller may free it. False, with errno: the kernel cannot watch
 * one more socket, and the events are as before. */
bool sockets_watch(struct sockets *s, int fd, unsigned now, unsigned next, void *owner);
