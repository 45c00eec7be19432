/* Connections to the server under load, and the loop that keeps them busy.
 *
 * Whatever goes wrong (a refused or closed connection, an answer that is none, silence) ends the
 * program with a message: figures of a run that failed are worth nothing. */
#pragma once

#include "tests/bench/hist.h"
#include "tests/bench/work.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct drive;

struct drive_result {
    uint64_t exchanges;
    uint64_t ns;         /* from the first request to the last answer */
    struct hist latency; /* of an exchange, from its write to the read of its end */
};

/* Opens `connections`, says hello on them where the protocol has one, and keeps `depth` exchanges
 * under way on each while it runs. */
struct drive *drive_new(const struct sockaddr_in *to, const struct work *w, unsigned connections,
                        unsigned depth);
void drive_free(struct drive *d);

/* Keeps every connection busy until `ns` have passed or `exchanges` were begun, then takes the
 * answers that are still due: after that the server is idle. */
void drive_run(struct drive *d, uint64_t ns, uint64_t exchanges, struct drive_result *result);

/* Opens `count` c10d connections that have said hello and then say nothing; their descriptors go
 * to `fds`. */
void drive_open_idle(const struct sockaddr_in *to, unsigned count, int *fds);

uint64_t drive_now_ns(void);
