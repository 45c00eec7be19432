/* TLS of connections that the daemon makes. See client_tls.h for the contract. */
#include "rdzv/net/client_tls.h"

#include <stddef.h>

#include "proto/tls/tls_context.h"
#include "rdzv/engine/log.h"
#include "rdzv/net/tls.h"

static SSL_CTX *read_files(const struct client_tls *t, char why[TLS_WHY_MAX])
{
    const struct config_client_tls *c = t->config;
    const struct tls_files files = {.cert = c->cert, .key = c->key, .ca = c->ca, .crl = c->crl};

    return tls_client_context(&files, t->alpn, why);
}

int client_tls_start(struct client_tls *t, const struct config_client_tls *config, const char *alpn,
                     const struct client_tls_peer *peer)
{
    const char *const paths[FILE_WATCH_MAX] = {config->cert, config->key, config->ca, config->crl};
    char why[TLS_WHY_MAX];

    *t = (struct client_tls){.config = config, .alpn = alpn, .peer = peer->name};
    if (config->ca == NULL)
        return 0;
    file_watch_begin(&t->files, paths);
    t->context = read_files(t, why);
    if (t->context != NULL)
        return 0;
    certificate_files_failed(paths, peer->settings, why);
    return -1;
}

void client_tls_fini(struct client_tls *t)
{
    SSL_CTX_free(t->context);
    t->context = NULL;
}

void client_tls_tick(struct client_tls *t)
{
    char why[TLS_WHY_MAX];
    SSL_CTX *context;

    if (t->context == NULL || !file_watch_poll(&t->files))
        return;
    context = read_files(t, why);
    if (context == NULL) {
        log_event(LOG_ERROR, "certificate_kept", log_str("reason", why), log_str("peer", t->peer),
                  log_str("hint", "what was there before is still in use; rdzvd tries again when "
                                  "the files change"));
        return;
    }
    SSL_CTX_free(t->context);
    t->context = context;
    log_event(LOG_INFO, "certificate_loaded",
              log_str("file", t->config->cert != NULL ? t->config->cert : t->config->ca),
              log_i64("expires_in_s", tls_context_expires_in(context)));
}

SSL *client_tls_open(const struct client_tls *t, int fd, const char *host)
{
    return tls_client(t->context, fd, t->config->name != NULL ? t->config->name : host);
}
