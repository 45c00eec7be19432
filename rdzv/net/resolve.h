/* Finds a name's addresses without stopping the loop: getaddrinfo() runs in its own thread. So the
 * answer follows /etc/hosts, the search list of resolv.conf, and nsswitch.conf, as in all other
 * programs of the machine. */
#pragma once

#include <event2/event.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define RESOLVE_MAX 16u

union resolve_address {
    struct sockaddr any;
    struct sockaddr_in in4;
    struct sockaddr_in6 in6;
};

struct resolve;

/* Each address has the port that was asked for. Without addresses, `why` is the reason, a static
 * text. */
typedef void resolve_tell_fn(void *arg, const union resolve_address *addresses, size_t count,
                             const char *why);

/* Looks a name up, and calls `tell` once from the loop, after this has returned. NULL with errno if
 * a thread or its resources are missing. */
struct resolve *resolve_start(struct event_base *base, const char *host, uint16_t port,
                              resolve_tell_fn *tell, void *arg);

/* Cancels a lookup before its `tell`. After `tell`, the lookup has ended by itself. Takes NULL. Its
 * thread ends with the system's answer. */
void resolve_cancel(struct resolve *r);

/* The length that connect() wants. */
socklen_t resolve_address_len(const union resolve_address *a);
