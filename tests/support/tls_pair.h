/* Two ends of TLS over a socket pair, in one process: for tests of what TLS does with bytes. */
#pragma once

#include <openssl/ssl.h>

struct tls_pair {
    SSL *client, *server;
    int fds[2]; /* theirs; neither blocks */
};

/* Both ends have shaken hands in that version (TLS1_3_VERSION). The server's certificate is its
 * own, "store", which the client does not check. */
void tls_pair_begin(struct tls_pair *p, int version);
void tls_pair_end(struct tls_pair *p);
