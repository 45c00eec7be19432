/* What a net knows of handshakes; handshake.h says how they go. */
#pragma once

#include <openssl/ssl.h>
#include <sys/queue.h>

#include "rdzv/config/config.h"
#include "rdzv/net/file_watch.h"

struct handshake;

TAILQ_HEAD(handshake_list, handshake);

/* Of a net. */
struct handshakes {
    SSL_CTX *context; /* NULL: there is no certificate, and all of this is not in use */
    const struct config_tls *config;
    struct file_watch files;
    struct handshake_list open; /* the oldest first */
    size_t count;
    uint64_t expires_s; /* the certificate, since 1970 */
    uint64_t done, resumed, failed;
};

/* What of a connection is settled. */
enum conn_wire {
    WIRE_KNOWN, /* all: it speaks plain text, or has conn.tls */
    WIRE_UNKNOWN,
    WIRE_HANDSHAKE,
};
