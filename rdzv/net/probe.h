/* One question to a peer's host: does anybody listen on this port? */
#pragma once

#include <event2/event.h>
#include <stdint.h>

enum probe_answer {
    PROBE_LISTENS, /* the server accepted the connection and closed it again at once */
    PROBE_REFUSED, /* the host answered that no process listens */
    PROBE_UNKNOWN, /* no answer in time, or no conclusive one */
};

struct probe;

/* Starts to connect, and calls `tell` once from the loop, never before this returns. The address is
 * IPv6, or IPv4 mapped into IPv6. NULL if no descriptor or no memory is left. */
struct probe *probe_start(struct event_base *base, const uint8_t address[16], uint16_t port,
                          uint32_t patience_ms, void (*tell)(void *arg, enum probe_answer),
                          void *arg);

/* Cancels a probe before its `tell`. After `tell`, the probe has ended by itself. Takes NULL. */
void probe_cancel(struct probe *p);
