/* Passes the clients of this daemon on to the leading store, and the answers back. A relay passes
 * all clients on. A replica with --upstream passes on the clients that connect while another
 * replica leads; these clients stay relayed until they disconnect, even if the leader changes.
 *
 * Each space that a listener serves has its own forward: a link, its clients' sessions, its HTTP.
 * Other spaces have none, since links made them: a link is never passed on, so that two replicas
 * cannot pass requests to each other. A link may lead to this very process, through a listener. */
#pragma once

#include "rdzv/net/certificate.h"
#include "rdzv/relay/http_pass.h"
#include "rdzv/relay/upstream.h"

#define FORWARD_HOST_NAME_ROOM 256

/* Of one space. */
struct forward {
    const char *space;
    struct relay relay;
    struct upstream upstream;
    struct relay_http http;
    uint64_t link_number;            /* the link that `http` knows of; 0: none */
    struct protocol client_protocol; /* of its clients */
};

/* Of all that listeners serve. */
struct forwards {
    struct forward *list;
    size_t count; /* 0: this daemon passes nobody on */
    struct net *net;
    struct certificate tls;
    char host_name[FORWARD_HOST_NAME_ROOM];
    struct protocol protocol;
    struct restart restart; /* of a relay with --exit-on-restart */
};

/* --- c10d of clients: client.c cuts their bytes into requests, which the client's session keeps
 * and sends upstream (relay.h). VALIDATE and PING are answered there. --- */

/* What the sessions need of a client, which is a struct conn. */
extern const struct relay_calls relay_client_calls;

/* The table that connections get; `forward` outlives it. */
struct protocol relay_client_protocol(struct forward *forward);

/* --- All of it. --- */

/* `net` and `config` outlive it. `cluster_id` is what HTTP answers of this daemon itself say, and
 * becomes the store's; NULL: it stays what it is. */
void forwards_init(struct forwards *f, struct net *net, const struct config *config, uint64_t seed,
                   uint64_t *cluster_id);

/* Reads the files of TLS. 0, or -1 after it logged why not. */
int forwards_open(struct forwards *f, const struct config *config);

/* Begins to look for the store. False after it logged that memory is short. */
bool forwards_start(struct forwards *f);

/* All clients have gone. */
void forwards_fini(struct forwards *f);

/* Once a second. */
void forwards_tick(struct forwards *f);

/* The end of an iteration. True: work is left, so the loop must not sleep. */
bool forwards_flush(struct forwards *f);

/* The stores have received all requests of clients that have left. */
bool forwards_are_done(const struct forwards *f);

/* Called while the daemon stops: ends the clients that wait for an absent store. */
void forwards_stop_waiting(struct forwards *f);

/* The endpoint of all paths that are not the daemon's own; struct http's `forwards` is set. */
void forwards_http_handle(const struct http_request *r);

/* Every link is connected, or was so until a moment ago: its clients do not wait for long. */
bool forwards_are_linked(const struct forwards *f);

/* For /readyz: the state of the first unconnected link, or of the first link. */
const char *forwards_say(const struct forwards *f, char text[UPSTREAM_SAYS_MAX]);
