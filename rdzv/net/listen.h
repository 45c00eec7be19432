/* Listening sockets: from a checked listen_spec to one that accepts. */
#pragma once

#include "rdzv/net/net.h"
#include "rdzv/net/refusal.h"

/* Identifies the file of a Unix socket: another process may have replaced it by its own. */
struct unix_socket_file {
    dev_t device;
    ino_t inode;
};

/* Takes over an accepted connection. `why` names the resource that is short, unless `admission` is
 * ADMISSION_FULL. */
struct listener;
typedef void (*listen_accept_fn)(struct listener *l, int fd, const struct sockaddr *peer,
                                 enum admission admission, enum refusal_reason why);

/* A listening socket. Lives as long as the net. A temporary listener lives while it is open, has an
 * owner, or has connections, which refer to it. */
struct listener {
    TAILQ_ENTRY(listener) entry;
    struct event event;
    struct socket_set sockets; /* of its connections */
    struct net *net;
    const struct listen_spec *spec;
    struct engine_space *space;
    listen_accept_fn accept;
    size_t conns; /* of those alone */
    bool open;
    struct unix_socket_file file; /* of a Unix socket */
    bool loopback;                /* only this machine reaches it */
    bool temporary;               /* listen_open_like() */
    void *owner; /* of a temporary one: what it was opened for; NULL: that has gone */
};

/* Opens the listeners of the configuration, or takes over inherited sockets, and logs each address.
 * Returns -1 after it logged the reason and a hint. */
int listen_open_all(struct net *n, const struct config *config, listen_accept_fn accept);

/* Once a second: retries to watch the listeners that the kernel refused to watch. */
void listen_tick(struct net *n);

/* Stops accepting; the listeners themselves stay, as connections point to them. */
void listen_close_all(struct net *n);
void listen_free_all(struct net *n);

/* Opens a listener on the address of `like`, with the first free port from `low` to `high`; 0 and
 * 0: any port. NULL with errno if no port is free. */
struct listener *listen_open_like(struct listener *like, uint16_t low, uint16_t high, void *owner);

/* True if both are bound to the same address, with any ports. */
bool listen_same_address(const struct listener *a, const struct listener *b);

/* Ends one of those; freed with its last connection. */
void listen_close_one(struct listener *l);
void listen_conn_gone(struct listener *l);

/* The kernel's counters of a listening TCP socket: clients turned away because the queue was full,
 * and clients in the queue. False if the socket is closed or is a Unix socket. */
struct listen_queue {
    uint64_t overflows;
    uint32_t length;
};
bool listen_queue(const struct listener *l, struct listen_queue *out);

/* The bound address as a text such as "[::]:29400". */
#define LISTEN_ADDRESS_MAX 80
const char *listen_address(const struct listener *l, char text[LISTEN_ADDRESS_MAX]);

/* The port it is bound to; 0 when it is closed. */
uint16_t listen_port(const struct listener *l);
