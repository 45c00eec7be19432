/* How a relay speaks TLS with its store: what it shows, whom it takes, and files that change. */
#pragma once

#include "rdzv/config/config.h"
#include "rdzv/net/file_watch.h"
#include "rdzv/net/tls.h"

struct store_tls {
    const struct config_upstream_tls *config;
    SSL_CTX *context; /* NULL: plain text is spoken */
    struct file_watch files;
};

/* Reads the files, if the settings name some. 0, or -1 after it logged why not. */
int store_tls_start(struct store_tls *t, const struct config_upstream_tls *config);
void store_tls_fini(struct store_tls *t);

/* Once a second: new files are for new connections. If they are of no use, the log says why, and
 * the old ones stay. */
void store_tls_tick(struct store_tls *t);

/* Of a socket that is connected to a store of that name; NULL: there is no memory. Not for plain
 * text. */
SSL *store_tls_open(const struct store_tls *t, int fd, const char *host);
