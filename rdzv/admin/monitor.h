/* /rdzv/v1/monitor: which requests are carried out just now, as server-sent events, for operators.
 *
 *     event: requests    a sample of the last requests, ten times a second: client, request, time;
 * and the number of all requests
 *
 * It shows names of keys and lengths of values, never the values. It samples: at most
 * MONITOR_SAMPLES of each tenth of a second, and MONITOR_AT_ONCE of the requests that one client
 * sent at once. Without a client of the monitor, and after the sample of the current tenth is full,
 * c10d's requests bypass the monitor: it replaces the protocol's function that reads them. */
#pragma once

#include "rdzv/admin/event_stream.h"

#define MONITOR_SAMPLES 50
#define MONITOR_AT_ONCE 8
#define MONITOR_CLIENTS 8
#define MONITOR_KEY_MAX 200 /* bytes of a key that are shown */

struct monitor {
    struct event_stream stream; /* the first member */
    struct protocol *c10d;
    struct request_watch *http;
    enum protocol_result (*read)(struct conn *c, uint8_t *in, size_t len,
                                 struct protocol_progress *progress); /* c10d's own */
    uint8_t *text; /* of the samples; NULL: there is no client */
    size_t len;
    unsigned left;                         /* so many more until the timer */
    uint64_t c10d_requests, http_requests; /* the counts at the latest event */
    uint64_t shown;                        /* since then */
};

/* All three outlive it. The c10d table is the connections' own; only the monitor changes it. */
void monitor_init(struct monitor *m, struct net *net, struct protocol *c10d,
                  struct request_watch *http);
