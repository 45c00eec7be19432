/* Certificates, and files that change. See certificate.h for the contract. */
#include "rdzv/net/certificate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "rdzv/engine/log.h"

/* --- Files that change. --- */

/* Zero: it is not there. */
static struct file_state file_state_of(const char *path)
{
    struct stat st;

    if (path == NULL || stat(path, &st) < 0)
        return (struct file_state){0};
    return (struct file_state){.device = (uint64_t)st.st_dev,
                               .inode = (uint64_t)st.st_ino,
                               .size = (uint64_t)st.st_size,
                               .changed_ns = (uint64_t)st.st_ctim.tv_sec * 1000000000u +
                                             (uint64_t)st.st_ctim.tv_nsec};
}

void file_watch_begin(struct file_watch *w, const char *const paths[FILE_WATCH_MAX])
{
    *w = (struct file_watch){0};
    memcpy(w->paths, paths, sizeof w->paths);
    file_watch_poll(w);
    w->has_changed = false;
}

bool file_watch_poll(struct file_watch *w)
{
    struct file_state now[FILE_WATCH_MAX];
    bool had_changed = w->has_changed;

    for (size_t i = 0; i < FILE_WATCH_MAX; i++)
        now[i] = file_state_of(w->paths[i]);
    w->has_changed = memcmp(now, w->seen, sizeof now) != 0;
    memcpy(w->seen, now, sizeof now);
    return had_changed && !w->has_changed;
}

/* --- Certificates. --- */

struct certificate certificate_of_server(const struct config_tls *config)
{
    return (struct certificate){
        .files = {config->cert, config->key, config->client_ca, config->crl},
        .prefix = "--",
        .peer = "clients",
        .is_server = true,
        .optional = config->client_cert == CONFIG_CLIENT_CERT_OPTIONAL};
}

struct certificate certificate_of_client(const struct config_client_tls *config, const char *peer,
                                         const char *prefix)
{
    return (struct certificate){.files = {config->cert, config->key, config->ca, config->crl},
                                .prefix = prefix,
                                .peer = peer,
                                .server_name = config->name};
}

static SSL_CTX *certificate_read(const struct certificate *c, char why[TLS_WHY_MAX])
{
    return c->is_server ? tls_server_context(&c->files, c->optional, why)
                        : tls_client_context(&c->files, c->alpn, why);
}

static void certificate_note(struct certificate *c)
{
    const char *file = c->files.cert != NULL ? c->files.cert : c->files.ca;
    int64_t expires_s = tls_context_expires(c->context);
    int64_t left_s = expires_s == 0 ? 0 : expires_s - (int64_t)time(NULL);

    c->expires_s = expires_s > 0 ? (uint64_t)expires_s : 0;
    if (expires_s == 0 || left_s > 0)
        log_event(LOG_INFO, "certificate_loaded", log_str("file", file),
                  log_i64("expires_in_s", left_s));
    else
        log_event(LOG_WARN, "certificate_expired", log_str("file", file),
                  log_i64("expired_s_ago", -left_s),
                  log_str("hint", "the other side refuses it: put a new one into the files of the "
                                  "certificate and its key; rdzvd sees when they change"));
}

#define SETTING_MAX 40

/* Finds the setting whose file `why` names at its begin. If `why` names no file of a setting,
 * `text` keeps its value. */
static const char *certificate_find_setting(const struct certificate *c, const char *why,
                                            char text[SETTING_MAX])
{
    static const char *const names[] = {"cert", "key", "ca", "crl"};

    for (size_t i = 0; i < FILE_WATCH_MAX; i++) {
        const char *path = c->watch.paths[i];
        size_t len = path == NULL ? 0 : strlen(path);

        if (len == 0 || strncmp(why, path, len) != 0 || why[len] != ':')
            continue;
        snprintf(text, SETTING_MAX, "%s%s%s", i == 3 ? "--" : c->prefix,
                 i == 2 && c->is_server ? "client-" : "", names[i]);
        break;
    }
    return text;
}

int certificate_start(struct certificate *c)
{
    const char *const paths[FILE_WATCH_MAX] = {c->files.cert, c->files.key, c->files.ca,
                                               c->files.crl};
    char why[TLS_WHY_MAX], setting[SETTING_MAX] = "";

    if ((c->is_server ? c->files.cert : c->files.ca) == NULL)
        return 0;
    file_watch_begin(&c->watch, paths);
    c->context = certificate_read(c, why);
    if (c->context == NULL) {
        log_event(LOG_ERROR, "certificate_failed",
                  log_str("setting", certificate_find_setting(c, why, setting)),
                  log_str("reason", why),
                  log_str("hint", "name a readable PEM file; the key must belong to the "
                                  "certificate, and must have no password"));
        return -1;
    }
    if (c->is_server)
        certificate_note(c);
    return 0;
}

void certificate_fini(struct certificate *c)
{
    SSL_CTX_free(c->context);
    c->context = NULL;
}

void certificate_reload(struct certificate *c)
{
    char why[TLS_WHY_MAX];
    SSL_CTX *context = certificate_read(c, why);

    if (context == NULL) {
        log_event(LOG_ERROR, "certificate_kept", log_str("reason", why), log_str("peer", c->peer),
                  log_str("hint", "rdzvd still uses the earlier files, and tries again when the "
                                  "files change"));
        return;
    }
    SSL_CTX_free(c->context);
    c->context = context;
    certificate_note(c);
}

void certificate_tick(struct certificate *c)
{
    if (c->context != NULL && file_watch_poll(&c->watch))
        certificate_reload(c);
}

int certificate_connect(const struct certificate *c, int fd, const char *host, SSL **tls)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (*tls == NULL) {
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error != 0 || c->context == NULL)
            return -error;
        *tls = tls_client(c->context, fd, c->server_name != NULL ? c->server_name : host);
    }
    return *tls == NULL ? -ENOMEM : tls_handshake(*tls);
}
