/* Listening sockets, and accepting on them. See listen.h for the contract. */
#include "rdzv/net/listen.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/net/peer.h"
#include "rdzv/net/refusal.h"

#define ACCEPTS_MAX    256
#define ACCEPTS_BEHIND 32   /* while connected clients have unread requests */
#define ACCEPT_COST    5000 /* see iteration.h */
#define PROBATION_COST 32   /* of those: it is served at once */
#define RETRY_US       100000

/* A dead host reveals itself by nothing but this: c10d waits last for hours. */
#define KEEPALIVE_IDLE_S     60
#define KEEPALIVE_INTERVAL_S 15
#define KEEPALIVE_COUNT      4

static void pause_all(struct net *n)
{
    if (!net_set_timer(&n->retry_accept, RETRY_US))
        return; /* when nothing can end a pause there is none: the listeners go on trying */
    TAILQ_EACH(struct listener, l, &n->listeners, entry) {
        if (l->open)
            event_del(&l->event);
    }
}

static void on_retry_accept(evutil_socket_t, short, void *arg)
{
    struct net *n = arg;
    bool all = true;

    TAILQ_EACH(struct listener, l, &n->listeners, entry) {
        if (l->open)
            all = net_add_event(&l->event, NULL) && all;
    }
    if (!all && !net_set_timer(&n->retry_accept, RETRY_US))
        n->retry_needed = true; /* the tick tries again */
}

static bool peer_is_allowed(const struct net *n, const struct peer *peer)
{
    return n->allowed == NULL || n->allowed->count == 0 || peer_is_unix(peer) ||
           peer_is_loopback(peer) || cidr_list_has(n->allowed, peer->address);
}

/* Returns what that counts of ACCEPTS_MAX. */
static int admit_client(struct listener *l, int fd, const struct sockaddr *from)
{
    struct net *n = l->net;
    const struct admission_room room = {.descriptor = (uint64_t)fd,
                                        .descriptors_max = n->descriptors_max,
                                        .connections = n->conn_count - n->probation_count,
                                        .connections_max = n->limits->connections_max};
    const struct peer peer = peer_of(from);
    enum refusal_reason why = REFUSAL_DESCRIPTORS;
    enum admission admission = admission_of(&room, &peer, &why);

    if (!peer_is_allowed(n, &peer)) {
        refusal_note(&n->engine->stats, REFUSAL_ADDRESS, &peer, (struct slice){0});
        close(fd);
        return 1;
    }
    if (admission != ADMISSION_NONE) {
        l->accept(l, fd, from, admission, why);
        return admission == ADMISSION_FULL ? 1 : PROBATION_COST;
    }
    refusal_note(&n->engine->stats, why, &peer, (struct slice){0});
    close(fd);
    return 1;
}

static void on_accept(evutil_socket_t listening, short, void *arg)
{
    struct listener *l = arg;
    struct net *n = l->net;
    int taken = 0, most = n->cut_off > 0 ? ACCEPTS_BEHIND : ACCEPTS_MAX;

    while (taken < most) {
        union {
            struct sockaddr any;
            struct sockaddr_storage room;
        } peer;
        socklen_t len = sizeof peer;
        int fd = accept4(listening, &peer.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            taken += admit_client(l, fd, &peer.any);
            net_spend(n, ACCEPT_COST);
            if (n->budget.over)
                return;
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            log_limited(LOG_ERROR, "accept_failed", log_errno("error", errno),
                        log_u64("connections", n->conn_count),
                        log_str("hint", "raise the limit of open files (ulimit -n, LimitNOFILE)"));
            pause_all(n);
            return;
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return; /* EAGAIN: that was all */
        taken++;
    }
}

/* Accepted sockets inherit these options from the listening one, which saves four calls each. */
static void set_socket_options(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_REUSEADDR, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT},
    };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

static void listener_free(struct listener *l)
{
    socket_set_close(&l->sockets);
    account_free(ACCOUNT_SESSIONS, l, sizeof *l);
}

/* NULL with errno if memory is short or the socket cannot be watched; then `fd` is closed. */
static struct listener *listener_add(struct net *n, const struct listen_spec *spec, int fd,
                                     listen_accept_fn accept)
{
    struct listener *l = account_request(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *l);
    char text[CONFIG_ADDRESS_MAX];
    struct peer self;

    if (l == NULL) {
        net_fail(fd, ENOMEM);
        return NULL;
    }
    *l = (struct listener){.net = n, .spec = spec, .accept = accept, .open = true};
    l->space = engine_space(n->engine, slice_str(spec->space));
    l->loopback = peer_local(fd, &self) && peer_is_loopback(&self);
    set_socket_options(fd);
    evutil_make_socket_nonblocking(fd);
    event_assign(&l->event, n->base, fd, EV_READ | EV_PERSIST, on_accept, l);
    if ((!socket_set_open(&l->sockets, &n->sockets, n->base) && !net_note_unwatched()) ||
        !net_add_event(&l->event, NULL)) {
        net_fail(fd, errno);
        listener_free(l);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&n->listeners, l, entry);
    log_event(LOG_INFO, "listening",
              log_str("address", spec->path != NULL ? config_format_address(spec, text)
                                                    : listen_address(l, text)),
              log_str("space", spec->space));
    return l;
}

/* A bound, listening socket, or -1 with errno. */
static int bind_one(const struct addrinfo *ai, bool v6only)
{
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int only = v6only ? 1 : 0;

    if (fd < 0)
        return -1;
    set_socket_options(fd);
    if (ai->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    /* The kernel cuts the backlog to net.core.somaxconn: all it will give. */
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, 0x7fffffff) == 0)
        return fd;
    return net_fail(fd, errno);
}

static int log_listen_failed(const struct listen_spec *spec, const char *why, const char *hint)
{
    if (spec->optional) {
        log_event(LOG_DEBUG, "not_listening", log_str("address", CONFIG_ADDRESS(spec)),
                  log_str("reason", why));
        return 0;
    }
    log_event(LOG_ERROR, "listen_failed", log_str("address", CONFIG_ADDRESS(spec)),
              log_str("reason", why), log_str("hint", hint));
    return -1;
}

static const char *hint_for(const struct listen_spec *spec, int error)
{
    if (spec->path != NULL)
        return error == EEXIST
                   ? "the file at this path is no socket: remove it, or choose another path"
               : error == EADDRINUSE
                   ? "another process serves this socket: end it, or choose another path"
                   : "choose a path in a folder that rdzvd may write to";
    switch (error) {
    case EADDRINUSE:
        return "another process has this port: end it, or choose another with --listen";
    case EADDRNOTAVAIL:
        return "this machine lacks this address: choose an address of this machine, or *:PORT for "
               "all";
    case EACCES:
        return "ports below 1024 need a privilege: choose a higher one";
    default:
        return "choose another address with --listen";
    }
}

/* Opens every address of the host; the host "" means [::] for both families, or 0.0.0.0 on a
 * machine without IPv6. */
static int open_spec(struct net *n, const struct listen_spec *spec, listen_accept_fn accept)
{
    static const char *const anywhere[] = {"::", "0.0.0.0"};
    size_t tries = spec->host[0] == '\0' ? 2 : 1;
    char port[8];
    int opened = 0, error = 0;

    snprintf(port, sizeof port, "%u", spec->port);
    /* With these errors of socket() or bind(), IPv6 is missing or disabled. */
    for (size_t i = 0;
         i < tries && opened == 0 && (i == 0 || error == EAFNOSUPPORT || error == EADDRNOTAVAIL);
         i++) {
        const char *host = tries == 2 ? anywhere[i] : spec->host;
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
        struct addrinfo *found, *ai;
        int result = getaddrinfo(host, port, &hints, &found);

        if (result != 0)
            return log_listen_failed(spec, gai_strerror(result),
                                     "name an address of this machine, or *:PORT for all");
        for (ai = found; ai != NULL; ai = ai->ai_next) {
            int fd = bind_one(ai, tries == 1 && spec->ipv6_only);

            if (fd < 0 || listener_add(n, spec, fd, accept) == NULL)
                error = errno;
            else
                opened++;
        }
        freeaddrinfo(found);
    }
    return opened > 0 ? 0 : log_listen_failed(spec, strerror(error), hint_for(spec, error));
}

/* --- The file of a Unix socket: made for its owner alone, never taken from a process that serves
 * it, and removed at the end. --- */

/* Only a socket without a listener refuses a connection. */
static bool is_left_over(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;

    if (fd < 0)
        return false;
    error = connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 ? 0 : errno;
    close(fd);
    return error == ECONNREFUSED;
}

static int bind_private(int fd, const struct sockaddr_un *at)
{
    mode_t before = umask(0177);
    int result = bind(fd, (const struct sockaddr *)at, sizeof *at);

    umask(before); /* which leaves errno as it is */
    return result;
}

/* 0, or an errno. */
static int bind_or_replace(int fd, const struct sockaddr_un *at)
{
    struct stat there;

    if (bind_private(fd, at) == 0)
        return 0;
    if (errno != EADDRINUSE)
        return errno;
    if (lstat(at->sun_path, &there) == 0 && !S_ISSOCK(there.st_mode))
        return EEXIST;
    if (!is_left_over(at))
        return EADDRINUSE;
    if (unlink(at->sun_path) < 0 && errno != ENOENT)
        return errno;
    return bind_private(fd, at) == 0 ? 0 : errno;
}

/* Opens a listening socket of mode 0600, which no other user can ever connect to; or -1 with errno:
 * EADDRINUSE if a process serves the path, EEXIST if the path is no socket. It replaces the socket
 * of a process that was killed. */
static int unix_socket_listen(const char *path, struct unix_socket_file *file)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat made;
    int fd, error;

    strcpy(at.sun_path, path); /* it fits: --listen takes no longer one */
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    error = bind_or_replace(fd, &at);
    if (error != 0)
        return net_fail(fd, error);
    if (lstat(path, &made) < 0 || listen(fd, 0x7fffffff) < 0)
        return net_fail(fd, errno);
    *file = (struct unix_socket_file){made.st_dev, made.st_ino};
    return fd;
}

/* Removes the file, unless another process has put its own file there. */
static void unix_socket_remove(const char *path, const struct unix_socket_file *file)
{
    struct stat there;

    if (lstat(path, &there) == 0 && there.st_dev == file->device && there.st_ino == file->inode)
        unlink(path);
}

static int open_unix(struct net *n, const struct listen_spec *spec, listen_accept_fn accept)
{
    struct unix_socket_file file;
    int fd = unix_socket_listen(spec->path, &file);
    struct listener *l = fd < 0 ? NULL : listener_add(n, spec, fd, accept);

    if (l == NULL) {
        int error = errno;

        if (fd >= 0)
            unix_socket_remove(spec->path, &file);
        return log_listen_failed(spec, strerror(error), hint_for(spec, error));
    }
    l->file = file;
    return 0;
}

/* --- All of them. --- */

/* Opens the listener of one setting, or takes over the inherited socket. */
static int open_any(struct net *n, const struct listen_spec *spec, listen_accept_fn accept)
{
    if (spec->fd >= 0)
        return listener_add(n, spec, spec->fd, accept) == NULL ? -1 : 0;
    return spec->path != NULL ? open_unix(n, spec, accept) : open_spec(n, spec, accept);
}

int listen_open_all(struct net *n, const struct config *config, listen_accept_fn accept)
{
    evtimer_assign(&n->retry_accept, n->base, on_retry_accept, n);
    for (size_t i = 0; i < config->listener_count; i++) {
        if (open_any(n, &config->listeners[i], accept) < 0)
            return -1;
    }
    if (!TAILQ_EMPTY(&n->listeners))
        return 0;
    log_event(LOG_ERROR, "listen_failed", log_str("reason", "no address could be opened"),
              log_str("hint", "name one with --listen"));
    return -1;
}

void listen_tick(struct net *n)
{
    if (!n->retry_needed)
        return;
    n->retry_needed = false;
    on_retry_accept(-1, 0, n);
}

static void close_listener(struct listener *l)
{
    struct listen_queue queue;

    if (!l->open)
        return;
    if (l->temporary && listen_queue(l, &queue))
        l->net->overflows_ended += queue.overflows;
    event_del(&l->event);
    close(event_get_fd(&l->event));
    if (l->spec->path != NULL)
        unix_socket_remove(l->spec->path, &l->file);
    l->open = false;
}

void listen_close_all(struct net *n)
{
    TAILQ_EACH(struct listener, l, &n->listeners, entry)
        close_listener(l);
    if (event_initialized(&n->retry_accept))
        event_del(&n->retry_accept);
}

/* --- What is asked of them. --- */

bool listen_queue(const struct listener *l, struct listen_queue *out)
{
    uint32_t meminfo[SK_MEMINFO_VARS] = {0};
    struct tcp_info info = {0};
    socklen_t meminfo_len = sizeof meminfo, info_len = sizeof info;
    int fd = event_get_fd(&l->event);

    if (!l->open || l->spec->path != NULL ||
        getsockopt(fd, SOL_SOCKET, SO_MEMINFO, meminfo, &meminfo_len) < 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_len) < 0)
        return false;
    /* Of a socket that listens, the latter is so: tcp_get_info() in the kernel's net/ipv4/tcp.c. */
    *out =
        (struct listen_queue){.overflows = meminfo[SK_MEMINFO_DROPS], .length = info.tcpi_unacked};
    return true;
}

const char *listen_address(const struct listener *l, char text[LISTEN_ADDRESS_MAX])
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE] = "?", port[8] = "?";
    bool v6;

    if (getsockname(event_get_fd(&l->event), (struct sockaddr *)&at, &len) == 0)
        getnameinfo((struct sockaddr *)&at, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    v6 = strchr(host, ':') != NULL;
    snprintf(text, LISTEN_ADDRESS_MAX, "%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
    return text;
}

/* --- Temporary listeners. --- */

uint16_t listen_port(const struct listener *l)
{
    struct peer self;

    return l->open && peer_local(event_get_fd(&l->event), &self) ? self.port : 0;
}

bool listen_same_address(const struct listener *a, const struct listener *b)
{
    struct peer self, other;

    return a->open && b->open && peer_local(event_get_fd(&a->event), &self) &&
           peer_local(event_get_fd(&b->event), &other) &&
           memcmp(self.address, other.address, sizeof self.address) == 0;
}

/* Binds to the address of `like` with another port; -1 with errno. */
static int bind_like(const struct listener *like, uint16_t port)
{
    struct sockaddr_storage at;
    struct addrinfo ai = {.ai_addr = (struct sockaddr *)&at, .ai_addrlen = sizeof at};

    if (getsockname(event_get_fd(&like->event), ai.ai_addr, &ai.ai_addrlen) < 0)
        return -1;
    ai.ai_family = at.ss_family;
    if (at.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)&at)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)(void *)&at)->sin_port = htons(port);
    return bind_one(&ai, like->spec->ipv6_only);
}

struct listener *listen_open_like(struct listener *like, uint16_t low, uint16_t high, void *owner)
{
    struct listener *l;
    int fd = -1;

    if (!like->open) { /* its descriptor may be another's by now */
        errno = ESHUTDOWN;
        return NULL;
    }
    for (unsigned port = low; port <= high && fd < 0; port++)
        fd = bind_like(like, (uint16_t)port);
    l = fd < 0 ? NULL : listener_add(like->net, like->spec, fd, like->accept);
    if (l == NULL)
        return NULL;
    l->temporary = true;
    l->owner = owner;
    return l;
}

/* While it is owned the owner ends it, even one that a draining daemon has closed. */
static void free_if_done(struct listener *l)
{
    if (!l->temporary || l->owner != NULL || l->open || l->conns != 0)
        return;
    TAILQ_REMOVE(&l->net->listeners, l, entry);
    listener_free(l);
}

void listen_close_one(struct listener *l)
{
    close_listener(l);
    l->owner = NULL;
    free_if_done(l);
}

void listen_conn_gone(struct listener *l)
{
    l->conns--;
    free_if_done(l);
}

void listen_free_all(struct net *n)
{
    struct listener *l;

    listen_close_all(n);
    while ((l = TAILQ_FIRST(&n->listeners)) != NULL) {
        TAILQ_REMOVE(&n->listeners, l, entry);
        listener_free(l);
    }
}
