/* What TLS connections are made of, of either side, from files: versions, ciphers, our certificate,
 * and whose we take. Sessions are resumed by tickets, whose keys are a context's own: a context
 * made anew, of other files, trusts nobody for what an older one has found. */
#pragma once

#include "proto/tls/tls.h"

struct tls_files {
    const char *cert; /* ours, and those between it and its CA, in PEM; NULL: none */
    const char *key;
    const char *ca;  /* whose certificates we take; NULL: see below; TLS_CA_SYSTEM */
    const char *crl; /* those that are taken no more, of each of these CAs; NULL: none */
};

#define TLS_CA_SYSTEM "system" /* the CAs that the machine trusts */

/* Of a server. Without a CA, clients are asked for no certificate; with one, all have to show one,
 * unless `optional`. NULL, and `why` names the file and what is wrong with it. */
SSL_CTX *tls_server_context(const struct tls_files *files, bool optional, char why[TLS_WHY_MAX]);

/* Of a client, which takes no server without a certificate of the CA (none: TLS_CA_SYSTEM). `alpn`
 * is the protocol that it asks for: "http/1.1", "h2"; NULL: none. */
SSL_CTX *tls_client_context(const struct tls_files *files, const char *alpn, char why[TLS_WHY_MAX]);

/* When its own certificate ends, in seconds since 1970; 0: it has none. */
int64_t tls_context_expires(SSL_CTX *context);
