/* How a relay speaks TLS with its store. See store_tls.h for the contract. */
#include "rdzv/relay/store_tls.h"

#include <stddef.h>

#include "rdzv/engine/log.h"
#include "rdzv/net/tls_context.h"

static SSL_CTX *read_files(const struct config_upstream_tls *c, char why[TLS_WHY_MAX])
{
    const struct tls_files files = {.cert = c->cert, .key = c->key, .ca = c->ca, .crl = c->crl};

    return tls_client_context(&files, NULL, why);
}

int store_tls_start(struct store_tls *t, const struct config_upstream_tls *config)
{
    const char *const paths[FILE_WATCH_MAX] = {config->cert, config->key, config->ca, config->crl};
    char why[TLS_WHY_MAX];

    *t = (struct store_tls){.config = config};
    if (config->ca == NULL)
        return 0;
    file_watch_begin(&t->files, paths);
    t->context = read_files(config, why);
    if (t->context != NULL)
        return 0;
    log_event(LOG_ERROR, "certificate_failed", log_str("reason", why));
    return -1;
}

void store_tls_fini(struct store_tls *t)
{
    SSL_CTX_free(t->context);
    t->context = NULL;
}

void store_tls_tick(struct store_tls *t)
{
    char why[TLS_WHY_MAX];
    SSL_CTX *context;

    if (t->context == NULL || !file_watch_poll(&t->files))
        return;
    context = read_files(t->config, why);
    if (context == NULL) {
        log_event(LOG_ERROR, "certificate_kept", log_str("reason", why),
                  log_str("hint", "what was there before is still used for the store; the relay "
                                  "tries again when the files change"));
        return;
    }
    SSL_CTX_free(t->context);
    t->context = context;
    log_event(LOG_INFO, "certificate_loaded",
              log_str("file", t->config->cert != NULL ? t->config->cert : t->config->ca),
              log_i64("expires_in_s", tls_context_expires_in(context)));
}

SSL *store_tls_open(const struct store_tls *t, int fd, const char *host)
{
    return tls_client(t->context, fd, t->config->name != NULL ? t->config->name : host);
}
