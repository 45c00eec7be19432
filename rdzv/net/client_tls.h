/* How the daemon speaks TLS with servers that it connects to (a relay with its store, a store with
 * etcd): what it shows, whom it takes, and files that change. */
#pragma once

#include "proto/tls/tls.h"
#include "rdzv/config/config.h"
#include "rdzv/net/file_watch.h"

struct client_tls {
    const struct config_client_tls *config;
    const char *alpn;
    const char *peer;
    SSL_CTX *context; /* NULL: plain text is spoken */
    struct file_watch files;
};

/* What the log calls the other side, "the store", and the settings of the files: of certificate,
 * key, CA and CRL. Literals. */
struct client_tls_peer {
    const char *name;
    const char *settings[FILE_WATCH_MAX];
};

/* Reads the files, if the settings name some. `alpn` is the protocol that is asked for, a literal,
 * or NULL. 0, or -1 after it logged why not. */
int client_tls_start(struct client_tls *t, const struct config_client_tls *config, const char *alpn,
                     const struct client_tls_peer *peer);
void client_tls_fini(struct client_tls *t);

/* Once a second: new files are for new connections. If they are of no use, the log says why, and
 * the old ones stay. */
void client_tls_tick(struct client_tls *t);

/* Of a socket that is connected to a server of that name; NULL: there is no memory. Not for plain
 * text. */
SSL *client_tls_open(const struct client_tls *t, int fd, const char *host);
