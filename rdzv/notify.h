/* What systemd and a service agree on, without libsystemd: readiness messages to $NOTIFY_SOCKET,
 * and listening sockets handed over as $LISTEN_FDS. The environment is passed in. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Sends `state` ("READY=1\nSTATUS=serving", "STOPPING=1") to the datagram socket that `address`
 * names: a path, or @name for an abstract one. Returns 0 or -errno; also 0 if `address` is NULL or
 * empty, because systemd does not wait for a notification then. Waits a second at most. */
int notify_send(const char *address, const char *state);

#define NOTIFY_FIRST_FD 3

struct notify_env {
    const char *listen_pid;     /* $LISTEN_PID, or NULL */
    const char *listen_fds;     /* $LISTEN_FDS, or NULL */
    const char *listen_fdnames; /* $LISTEN_FDNAMES, or NULL */
    pid_t self;                 /* getpid() */
    int first_fd;               /* NOTIFY_FIRST_FD, except in tests */
};

/* One inherited listening TCP socket; now close-on-exec and non-blocking. */
struct notify_socket {
    int fd;
    char host[64]; /* numeric, without brackets; "" when bound to every address */
    uint16_t port;
    char name[256]; /* FileDescriptorName=, or "" where systemd made it up */
};

/* The sockets that systemd passed to this very process. 0 with *count 0 if systemd passed no
 * sockets or meant another process. -errno if a socket is no listening TCP socket; then *bad_fd
 * names this socket. The caller frees *sockets with free(). */
int notify_take_sockets(const struct notify_env *env, struct notify_socket **sockets, size_t *count,
                        int *bad_fd);
