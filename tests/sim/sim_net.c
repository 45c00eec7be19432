/* The sockets of a simulated world. Bytes that were sent are on their way until net_sim_move() lets
 * some arrive; calls take and give as little as they like; a connection may break at any byte. See
 * world.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "tests/sim/world.h"

#define FIRST_FD  400 /* even: who has dialed; odd: who was dialed */
#define WIRES     96
#define ROOM      8192
#define EVENT_FD  320
#define SIGNAL_FD 340 /* on which nothing comes */
#define EPOLL_FD  360

/* What goes one way. */
struct way {
    uint8_t bytes[ROOM];
    size_t len, arrived;
    bool ended, end_arrived; /* FIN */
    bool reset;              /* and whoever reads has heard of it */
};

struct end {
    int owner;
    bool open;
    struct epoll_event watched; /* by the owner's epoll */
    bool edge;                  /* something has come since the epoll told of this end */
    bool full;                  /* the last send() had more than there was room for */
};

struct wire {
    struct end ends[2];
    struct way ways[2]; /* from that end */
    bool used, connecting;
    int target; /* the process that is dialed */
    int error;  /* what came of dialing */
    bool accepted;
};

static struct wire wires[WIRES];
static bool listening[PROCESSES], parted[PROCESSES], has_event[PROCESSES];
static uint64_t event_count[PROCESSES];

static bool is_ours(int fd)
{
    return fd >= FIRST_FD && fd < FIRST_FD + 2 * WIRES;
}

static bool is_epoll(int fd)
{
    return fd >= EPOLL_FD && fd < EPOLL_FD + PROCESSES;
}

static struct wire *wire_of(int fd)
{
    return &wires[(fd - FIRST_FD) / 2];
}

static int side_of(int fd)
{
    return (fd - FIRST_FD) & 1;
}

static int fd_of(const struct wire *w, int side)
{
    return FIRST_FD + (int)(w - wires) * 2 + side;
}

void net_sim_reset(void)
{
    for (size_t i = 0; i < WIRES; i++)
        wires[i].used = false;
    for (int p = 0; p < PROCESSES; p++) {
        parted[p] = has_event[p] = false;
        listening[p] = false;
    }
}

size_t net_sim_count(void)
{
    size_t count = 0;

    for (size_t i = 0; i < WIRES; i++)
        count += wires[i].used;
    return count;
}

bool net_sim_listens(int process)
{
    return listening[process];
}

static void empty(struct way *y)
{
    y->len = y->arrived = 0;
    y->ended = y->end_arrived = y->reset = false;
}

static struct wire *new_wire(int owner)
{
    for (size_t i = 0; i < WIRES; i++) {
        struct wire *w = &wires[i];

        if (w->used)
            continue;
        w->used = true;
        w->connecting = w->accepted = false;
        w->error = 0;
        w->target = -1;
        w->ends[0] = (struct end){.owner = owner, .open = true};
        w->ends[1] = (struct end){.owner = OUTSIDE};
        empty(&w->ways[0]);
        empty(&w->ways[1]);
        return w;
    }
    world_fail("more than %d connections", WIRES);
}

static bool is_stuck(const struct wire *w)
{
    int relay = w->ends[0].owner;

    return relay != OUTSIDE && parted[relay];
}

/* --- Ends. --- */

/* What both ends are told of once. */
static void both_edges(struct wire *w)
{
    w->ends[0].edge = w->ends[1].edge = true;
}

static void end_side(struct wire *w, int side, bool reset)
{
    struct way *out = &w->ways[side], *in = &w->ways[1 - side];

    both_edges(w);
    w->ends[side].open = false;
    w->ends[side].watched.events = 0;
    if (reset) {
        out->reset = true;
        out->len = out->arrived +
                   (out->len > out->arrived ? (size_t)draw(out->len - out->arrived + 1) : 0);
    }
    out->ended = true;
    in->len = in->arrived = 0;
    if (!w->ends[0].open && !w->ends[1].open)
        w->used = false;
}

static void sim_close(int fd, bool reset)
{
    struct wire *w = wire_of(fd);
    int side = side_of(fd);

    if (!w->used || !w->ends[side].open)
        world_fail("socket %d is closed twice", fd);
    end_side(w, side, reset || w->ways[1 - side].arrived > 0);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    if (fd >= LISTENER_FD && fd < LISTENER_FD + PROCESSES) {
        listening[fd - LISTENER_FD] = false;
        for (size_t i = 0; i < WIRES; i++) { /* those that were not accepted */
            if (wires[i].used && wires[i].target == fd - LISTENER_FD && !wires[i].accepted &&
                wires[i].ends[1].open)
                end_side(&wires[i], 1, true);
        }
        return 0;
    }
    if (fd >= EVENT_FD && fd < EVENT_FD + PROCESSES) {
        has_event[fd - EVENT_FD] = false;
        return 0;
    }
    if (fd == SIGNAL_FD || is_epoll(fd))
        return 0;
    if (!is_ours(fd))
        return __real_close(fd);
    sim_close(fd, false);
    return 0;
}

void net_sim_leave(int fd, bool reset)
{
    sim_close(fd, reset);
}

void net_sim_kill(int process)
{
    listening[process] = has_event[process] = false;
    for (size_t i = 0; i < WIRES; i++) {
        for (int side = 0; side < 2; side++) {
            if (wires[i].used && wires[i].ends[side].open && wires[i].ends[side].owner == process)
                end_side(&wires[i], side, chance(2));
        }
    }
}

bool net_sim_break(int relay)
{
    for (size_t i = 0; i < WIRES; i++) {
        struct wire *w = &wires[i];

        if (!w->used || w->ends[0].owner != relay || !w->ends[0].open || !w->ends[1].open ||
            w->connecting)
            continue;
        for (int side = 0; side < 2; side++) {
            struct way *y = &w->ways[side];

            y->len = y->arrived + (size_t)draw(y->len - y->arrived + 1);
            y->ended = true;
            y->reset = chance(2);
        }
        both_edges(w);
        return true;
    }
    return false;
}

void net_sim_part(int relay, bool is_parted)
{
    parted[relay] = is_parted;
}

/* --- What a process asks for. --- */

int __wrap_socket(int family, int kind, int protocol);
int __wrap_socket(int family, int kind, int protocol)
{
    (void)family;
    (void)kind;
    (void)protocol;
    return fd_of(new_wire(world_current), 0);
}

static void dial(struct wire *w, int target)
{
    w->target = target;
    w->connecting = true;
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)to;

    (void)len;
    dial(wire_of(fd), ntohs(in->sin_port) - PORT);
    errno = EINPROGRESS;
    return -1;
}

int net_sim_dial(int process)
{
    struct wire *w;

    if (!listening[process])
        return -1;
    w = new_wire(OUTSIDE);
    dial(w, process);
    return fd_of(w, 0);
}

/* Whether the one who is dialed listens is seen when the call arrives. */
static void arrive(struct wire *w)
{
    w->connecting = false;
    if (!listening[w->target]) {
        w->error = ECONNREFUSED;
        w->ways[1].reset = w->ways[1].ended = true;
        return;
    }
    w->ends[1] = (struct end){.owner = w->target, .open = true};
}

static void address_of(const struct wire *w, int side, struct sockaddr *out, socklen_t *len)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    bool dialed = side == 1;
    int owner = dialed ? w->target : w->ends[0].owner;

    in.sin_port = htons((uint16_t)(dialed ? PORT + owner : 40000 + (int)(w - wires)));
    in.sin_addr.s_addr = htonl(0x0a000001u + (uint32_t)owner);
    if (*len < sizeof in)
        world_fail("no room for an address");
    memcpy(out, &in, sizeof in);
    *len = sizeof in;
}

int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *len, int flags)
{
    int process = fd - LISTENER_FD;

    (void)flags;
    for (size_t i = 0; i < WIRES && !world_is_over[process]; i++) {
        struct wire *w = &wires[i];

        if (!w->used || w->accepted || w->connecting || w->target != process || !w->ends[1].open)
            continue;
        w->accepted = true;
        address_of(w, 0, peer, len);
        return fd_of(w, 1);
    }
    errno = EAGAIN;
    return -1;
}

int __wrap_getsockname(int fd, struct sockaddr *out, socklen_t *len);
int __wrap_getsockname(int fd, struct sockaddr *out, socklen_t *len)
{
    struct wire own = {.target = fd - LISTENER_FD};

    if (is_ours(fd))
        address_of(wire_of(fd), side_of(fd), out, len);
    else
        address_of(&own, 1, out, len);
    return 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *out, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *out, socklen_t *len)
{
    (void)level;
    (void)name;
    memcpy(out, &wire_of(fd)->error, *len);
    return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *to, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *to, socklen_t len)
{
    (void)level;
    (void)name;
    (void)to;
    (void)len;
    if (fd >= LISTENER_FD && fd < LISTENER_FD + PROCESSES)
        listening[fd - LISTENER_FD] = true;
    return 0;
}

int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how)
{
    (void)how;
    wire_of(fd)->ways[side_of(fd)].ended = true;
    return 0;
}

/* --- Bytes. --- */

/* As much as there is, or less. */
static size_t some(size_t most)
{
    return most > 1 && chance(4) ? 1 + (size_t)draw(most) : most;
}

static size_t put(struct wire *w, int side, const uint8_t *bytes, size_t len)
{
    struct way *y = &w->ways[side];
    size_t n = ROOM - y->len < len ? ROOM - y->len : len;

    memcpy(y->bytes + y->len, bytes, n);
    y->len += n;
    return n;
}

static ssize_t take(struct wire *w, int side, uint8_t *to, size_t len)
{
    struct way *y = &w->ways[1 - side];
    size_t n = some(y->arrived < len ? y->arrived : len);

    if (n == 0 && y->reset && y->len == 0) {
        errno = ECONNRESET;
        return -1;
    }
    if (n == 0 && y->end_arrived)
        return 0;
    if (n == 0) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(to, y->bytes, n);
    memmove(y->bytes, y->bytes + n, y->len - n);
    y->len -= n;
    y->arrived -= n;
    if (w->ends[1 - side].full)
        w->ends[1 - side].edge = true;
    w->ends[1 - side].full = false;
    if ((n < len && y->arrived > 0) || (y->len == 0 && y->reset))
        w->ends[side].edge = true; /* as if that came behind this recv() */
    return (ssize_t)n;
}

/* Whether there is something, as recv() would say of one byte. */
static ssize_t peek(const struct wire *w, int side)
{
    const struct way *y = &w->ways[1 - side];

    if (y->arrived > 0)
        return 1;
    errno = y->reset && y->len == 0 ? ECONNRESET : EAGAIN;
    return y->end_arrived && errno == EAGAIN ? 0 : -1;
}

ssize_t __wrap_recv(int fd, void *to, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t len, int flags)
{
    if (world_is_over[world_current]) {
        errno = EAGAIN;
        return -1;
    }
    if (flags & MSG_PEEK)
        return peek(wire_of(fd), side_of(fd));
    return take(wire_of(fd), side_of(fd), to, len);
}

static bool is_broken(const struct wire *w, int side)
{
    return w->ways[1 - side].reset || w->ways[side].ended || !w->ends[1 - side].open;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
    struct wire *w = wire_of(fd);
    size_t all = 0, left, sent = 0;

    (void)flags;
    for (size_t i = 0; i < m->msg_iovlen; i++)
        all += m->msg_iov[i].iov_len;
    if (world_is_over[world_current])
        return (ssize_t)all;
    if (is_broken(w, side_of(fd))) {
        errno = ECONNRESET;
        return -1;
    }
    left = some(all);
    for (size_t i = 0; i < m->msg_iovlen && left > 0; i++) {
        size_t len = m->msg_iov[i].iov_len < left ? m->msg_iov[i].iov_len : left;
        size_t n = put(w, side_of(fd), m->msg_iov[i].iov_base, len);

        sent += n;
        left -= n;
        if (n < len)
            break;
    }
    w->ends[side_of(fd)].full = sent < all;
    if (sent < all && w->ways[side_of(fd)].len < ROOM)
        w->ends[side_of(fd)].edge = true; /* as if there was room behind this send() */
    if (sent == 0 && all > 0) {
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t)sent;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    struct iovec part = {(void *)(uintptr_t)bytes, len};
    const struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

    return __wrap_sendmsg(fd, &m, flags);
}

size_t net_sim_send(int fd, const void *bytes, size_t len)
{
    struct wire *w = wire_of(fd);

    return w->connecting || is_broken(w, 0) ? 0 : put(w, 0, bytes, some(len));
}

ssize_t net_sim_recv(int fd, void *to, size_t len)
{
    struct wire *w = wire_of(fd);
    ssize_t n = w->connecting ? 0 : take(w, 0, to, len);

    if (n > 0 || w->connecting)
        return n;
    return n < 0 && errno == EAGAIN ? 0 : -1;
}

/* For what the process watches it. */
static uint32_t watched_ready(int fd, int process)
{
    const struct end *e = &wire_of(fd)->ends[side_of(fd)];
    const struct way *in = &wire_of(fd)->ways[1 - side_of(fd)];
    int ready = e->owner == process && e->watched.events != 0 ? net_sim_ready(fd) : 0;

    if (!e->edge && e->watched.events & EPOLLET)
        return 0;
    return e->watched.events &
           ((ready & EV_READ ? EPOLLIN : 0u) | (ready & EV_WRITE ? EPOLLOUT : 0u) |
            (ready & EV_READ && (in->end_arrived || in->reset) ? EPOLLRDHUP : 0u));
}

int net_sim_ready(int fd)
{
    const struct wire *w;
    const struct way *in, *out;
    int watched = FIRST_FD;

    if (fd == SIGNAL_FD)
        return 0;
    if (is_epoll(fd)) {
        while (is_ours(watched) && watched_ready(watched, fd - EPOLL_FD) == 0)
            watched++;
        return is_ours(watched) ? EV_READ : 0;
    }
    if (fd >= EVENT_FD && fd < EVENT_FD + PROCESSES)
        return event_count[fd - EVENT_FD] > 0 ? EV_READ : 0;
    if (fd >= LISTENER_FD && fd < LISTENER_FD + PROCESSES) {
        for (size_t i = 0; i < WIRES; i++) {
            w = &wires[i];
            if (w->used && !w->accepted && !w->connecting && w->target == fd - LISTENER_FD &&
                w->ends[1].open)
                return EV_READ;
        }
        return 0;
    }
    w = wire_of(fd);
    in = &w->ways[1 - side_of(fd)];
    out = &w->ways[side_of(fd)];
    if (w->connecting)
        return 0;
    return (in->arrived > 0 || in->end_arrived || (in->reset && in->len == 0) ? EV_READ : 0) |
           (out->len < ROOM || in->reset ? EV_WRITE : 0);
}

static bool can_move(const struct way *y)
{
    return y->arrived < y->len || (y->ended && !y->end_arrived);
}

static bool move(struct way *y)
{
    if (y->arrived < y->len)
        y->arrived += chance(3) ? 1 + (size_t)draw(y->len - y->arrived) : y->len - y->arrived;
    else if (y->ended && !y->end_arrived)
        y->end_arrived = true;
    else
        return false;
    return true;
}

bool net_sim_move(void)
{
    size_t from = (size_t)draw(WIRES);
    int side = (int)draw(2);

    for (size_t i = 0; i < WIRES; i++) {
        struct wire *w = &wires[(from + i) % WIRES];

        if (!w->used || is_stuck(w))
            continue;
        if (w->connecting) {
            arrive(w);
            return true;
        }
        if (!can_move(&w->ways[side]))
            side = 1 - side;
        if (move(&w->ways[side])) {
            w->ends[1 - side].edge = true;
            return true;
        }
    }
    return false;
}

int __wrap_signalfd(int fd, const sigset_t *set, int flags);
int __wrap_signalfd(int fd, const sigset_t *set, int flags)
{
    (void)fd;
    (void)set;
    (void)flags;
    return SIGNAL_FD;
}

/* The signals that end a simulation are not kept for its servers. */
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *before);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
    (void)how;
    (void)set;
    (void)before;
    return 0;
}

/* --- Sockets in an epoll. --- */

int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags)
{
    (void)flags;
    return EPOLL_FD + world_current;
}

int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *e);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *e)
{
    struct end *end = &wire_of(fd)->ends[side_of(fd)];

    if (!is_ours(fd) || !end->open || end->owner != epoll - EPOLL_FD)
        world_fail("a process watches a socket %d that is not its own", fd);
    if ((op == EPOLL_CTL_ADD) != (end->watched.events == 0))
        world_fail("a process has lost count of whether it watches socket %d", fd);
    end->watched = *e;
    end->edge = true;
    if (op == EPOLL_CTL_DEL)
        end->watched.events = 0;
    return 0;
}

/* In any order; and some are left to the next call. */
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout)
{
    int n = 0;

    (void)timeout;
    for (int fd = FIRST_FD; is_ours(fd) && n < count; fd++) {
        uint32_t ready = watched_ready(fd, epoll - EPOLL_FD);
        int at = ready == 0 ? 0 : (int)draw((uint64_t)n + 1);

        if (ready == 0 || chance(8))
            continue;
        events[n++] = events[at];
        events[at] = wire_of(fd)->ends[side_of(fd)].watched;
        events[at].events = ready;
        wire_of(fd)->ends[side_of(fd)].edge = false;
    }
    return n;
}

/* --- What the journal's thread rings. --- */

int __wrap_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags)
{
    (void)flags;
    event_count[world_current] = count;
    has_event[world_current] = true;
    return EVENT_FD + world_current;
}

int __wrap_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_write(int fd, eventfd_t value)
{
    event_count[fd - EVENT_FD] += value;
    return 0;
}

int __wrap_eventfd_read(int fd, eventfd_t *value);
int __wrap_eventfd_read(int fd, eventfd_t *value)
{
    *value = event_count[fd - EVENT_FD];
    event_count[fd - EVENT_FD] = 0;
    return 0;
}
