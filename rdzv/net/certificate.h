/* The certificate of one side of TLS connections, and the certificates that this side accepts: a
 * context made of files that may change while it is in use. Clients of rdzvd are one such side; the
 * store of a relay, and etcd, are servers that rdzvd connects to. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/tls/tls.h"
#include "rdzv/config/config.h"

/* --- Whether files have been replaced or written: by a rename, by a symbolic link that leads
 * elsewhere, as Kubernetes changes its secrets, or in place. --- */

#define FILE_WATCH_MAX 4

struct file_state {
    uint64_t device, inode, size, changed_ns;
};

struct file_watch {
    const char *paths[FILE_WATCH_MAX]; /* borrowed; NULL: none */
    struct file_state seen[FILE_WATCH_MAX];
    bool has_changed; /* as of the last poll */
};

/* They are what they are now. */
void file_watch_begin(struct file_watch *w, const char *const paths[FILE_WATCH_MAX]);

/* Called now and then. Returns true once per change, when nothing has changed since the last call:
 * several files, written one after the other, are one change. */
bool file_watch_poll(struct file_watch *w);

/* --- Certificates. The caller sets what is above the line, certificate_start() the rest. --- */

struct certificate {
    struct tls_files files;
    const char *prefix;      /* of the settings that name the files: "--", "--upstream-" */
    const char *peer;        /* the other side, as the log calls it: "the store" */
    bool is_server;          /* rdzvd is the server */
    bool optional;           /* of a server: clients may show no certificate */
    const char *alpn;        /* of a client: the protocol that it asks for, see tls.h; NULL: none */
    const char *server_name; /* of a client: in the server's certificate; NULL: the host */
    /* ------------------------------------------------------------------------------------------ */
    SSL_CTX *context;   /* NULL: the settings name no files, and plain text is spoken */
    uint64_t expires_s; /* the own certificate, since 1970; 0: there is none */
    struct file_watch watch;
};

/* That of a server, and of a client, with these settings. */
struct certificate certificate_of_server(const struct config_tls *config);
struct certificate certificate_of_client(const struct config_client_tls *config, const char *peer,
                                         const char *prefix);

/* Reads the files, if the settings name some. 0, or -1 after it logged why not. */
int certificate_start(struct certificate *c);
void certificate_fini(struct certificate *c);

/* Reads the files again, for new connections. If they are invalid, the old ones stay, logged. */
void certificate_reload(struct certificate *c);

/* Once a second: certificate_reload() if the files have changed. */
void certificate_tick(struct certificate *c);

/* The next step of a client's connection to the server `host`; *tls is NULL until its socket is
 * connected, and stays NULL in plain text. 0: the connection is ready. -EAGAIN: as
 * tls_handshake(). Another -errno: it has failed; for EPROTO with *tls, tls_why() says why. */
int certificate_connect(const struct certificate *c, int fd, const char *host, SSL **tls);
