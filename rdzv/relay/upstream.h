/* The link of a relay: one connection to its store. Finds the store, says HELLO, moves the frames
 * of all sessions, notices when the store has gone, and comes back. */
#pragma once

#include "rdzv/net/certificate.h"
#include "rdzv/net/net.h"
#include "rdzv/net/resolve.h"
#include "rdzv/relay/hello.h"
#include "rdzv/relay/relay.h"
#include "rdzv/relay/restart.h"

/* What a link waits for, in milliseconds. */
struct upstream_times {
    uint32_t ping;    /* nothing has come for so long: the store is asked */
    uint32_t silent;  /* and for so long: it has gone */
    uint32_t connect; /* that long for one address */
};

/* The only address: there is no other to try. */
#define UPSTREAM_ALONE ((struct upstream_times){5000, 15000, 5000})
/* With several, another replica leads some 5 s after the one that does was stopped; a lost SYN is
 * repeated after 1 s. */
#define UPSTREAM_ONE_OF ((struct upstream_times){1500, 5000, 1500})

enum upstream_state {
    UPSTREAM_WAITS,     /* for the next try */
    UPSTREAM_LOOKS_UP,  /* a name */
    UPSTREAM_CONNECTS,  /* to one of its addresses */
    UPSTREAM_SECURES,   /* the handshake of TLS is under way */
    UPSTREAM_HELLO,     /* HELLO has been sent */
    UPSTREAM_CONNECTED, /* welcomed */
};

#define UPSTREAM_TEXT_MAX   320 /* "[address]:port", or "host:port" */
#define UPSTREAM_REASON_MAX 480 /* why it cannot be reached; what is longer is cut */

struct upstream_note {
    char text[UPSTREAM_REASON_MAX]; /* empty: there is none */
    char of[UPSTREAM_TEXT_MAX];     /* whose address it was */
    uint64_t ms;                    /* and when */
};

struct upstream {
    struct net *net;
    struct relay *relay;
    struct restart *restart; /* NULL: there is no --exit-on-restart */
    const struct config *config;
    const char *space; /* of its clients, at the store */
    const struct certificate *tls_options;
    uint8_t state; /* enum upstream_state */
    struct event timer;
    struct event event; /* of the socket */
    int fd;             /* -1: none */
    SSL *tls;           /* of it; NULL: plain text, or no handshake has begun */
    uint32_t sockets;   /* begun so far: frames of one are read no further if another was begun */
    bool wants_to_send; /* the socket takes no more for now */
    struct resolve *resolve;
    size_t target; /* of config->upstreams */
    union resolve_address addresses[RESOLVE_MAX];
    size_t count, at;  /* of those */
    size_t tried;      /* targets since the last wait */
    uint32_t failures; /* rounds of tries in a row */
    uint32_t jitter;   /* a random number */
    bool refused;      /* in this round */
    bool waits;        /* the next replica may keep the relay waiting: none leads that was asked */
    struct outq out;
    uint8_t *in; /* received bytes that are not handled yet */
    size_t in_len;
    uint64_t heard_ms; /* engine_lived_ms() of the last byte */
    uint64_t since_ms; /* when the state began, by the same clock */
    uint64_t pings;
    char where[UPSTREAM_TEXT_MAX];
    struct hello_journal journal;    /* ours, if this is a replica; else that of the last store */
    char release[HELLO_RELEASE_MAX]; /* the release of the store that has sent WELCOME last */
    uint32_t version;                /* of the frames; the same */
    struct upstream_note said;       /* the last failure that was logged */
    struct upstream_note refusal;    /* what the store said that refuses the relay */
    uint64_t reconnects;             /* links but the first */
};

/* All of them outlive it. */
void upstream_init(struct upstream *u, struct net *net, struct relay *relay,
                   const struct config *config, const char *space, const struct certificate *tls,
                   uint32_t jitter);

/* Connects a socket to the link's present address; -1 with errno. A host that has vanished does not
 * even reset the connection: the kernel finds out. */
int upstream_dial(const struct upstream *u);

/* certificate_connect() for a socket of upstream_dial(), as struct relay_http_options wants it. */
int upstream_secure(void *upstream, int fd, SSL **tls);

/* How long a relay waits before it tries to reach its store again, after so many failures in a row:
 * not at all after none; 50 ms after the first round of tries, doubling to a second. A quarter more
 * or less by `random`, so that a thousand relays do not all come in the same millisecond. */
#define UPSTREAM_RETRY_FIRST_MS 50u
#define UPSTREAM_RETRY_MOST_MS  1000u
uint32_t upstream_retry_ms(uint32_t failures, uint32_t random);

/* Begins the first try to connect. False after it logged that memory is short. */
bool upstream_start(struct upstream *u);

/* Nothing is sent any more. */
void upstream_fini(struct upstream *u);

/* The end of an iteration: what the sessions have to say goes out, in one call. True: there is
 * more, for the next iteration. */
bool upstream_flush(struct upstream *u);

/* Once a second. */
void upstream_tick(struct upstream *u);

/* All that was queued has been sent. */
bool upstream_is_idle(const struct upstream *u);

/* For /readyz: "connected to 10.0.0.1:29400", "away for 12 s: connection refused". */
#define UPSTREAM_SAYS_MAX 900
const char *upstream_says(const struct upstream *u, char text[UPSTREAM_SAYS_MAX]);
