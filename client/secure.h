/* A client's TLS: its files, its handshake with the store, and the reason if a handshake fails. For
 * client.c and link.c. */
#pragma once

#include <sys/uio.h>

#include "client/rdzv_client.h"
#include "proto/tls/tls.h"

#define SECURE_WHY_MAX (TLS_WHY_MAX + 200)

/* What the caller asked for; `is_on`: TLS is spoken. */
struct secure {
    bool is_on;
    char *ca, *cert, *key, *name; /* NULL: not given */
};

/* Copies what was given; NULL: plain text. RDZV_INVALID: a certificate without its key, or the
 * other way round. RDZV_NO_MEMORY. The caller must call secure_fini() in each case. */
enum rdzv_status secure_init(struct secure *s, const struct rdzv_tls *given);
void secure_fini(struct secure *s);

/* TLS on a socket that is connected to `host`. The files are read each time: a certificate that was
 * renewed is taken. Not for plain text. */
enum rdzv_status secure_open(const struct secure *s, int fd, const char *host, SSL **out,
                             char why[SECURE_WHY_MAX]);

/* After a call of tls.h failed: what, and what to do. */
void secure_why(SSL *ssl, char why[SECURE_WHY_MAX]);

/* "TLSv1.3, the certificate of store.example ends 2027-01-31": of a connection that has TLS. */
#define SECURE_PEER_MAX 200
void secure_peer(SSL *ssl, char text[SECURE_PEER_MAX]);

/* Bytes on their way into TLS, which takes a whole record, or must get the same bytes again. */
struct secure_out {
    size_t len; /* that are here still; 0: none */
    uint8_t bytes[TLS_RECORD_MAX];
};

/* Sends the bytes in `out`, then as many bytes of `pieces` as fit into one record. Returns how many
 * bytes of `pieces` were taken, which are on their way though the socket may not have taken them
 * yet. -1 with errno: none were; EAGAIN: when the socket takes more. */
ssize_t secure_send(SSL *ssl, struct secure_out *out, const struct iovec *pieces, size_t count);
