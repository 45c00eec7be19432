/* TLS of a client. See secure.h for the contracts. */
#include "client/secure.h"

#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool copy_text(char **out, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return true;
    *out = strdup(text);
    return *out != NULL;
}

enum rdzv_status secure_init(struct secure *s, const struct rdzv_tls *given)
{
    *s = (struct secure){.is_on = given != NULL};
    if (given == NULL)
        return RDZV_OK;
    if (!copy_text(&s->ca, given->ca_file) || !copy_text(&s->cert, given->cert_file) ||
        !copy_text(&s->key, given->key_file) || !copy_text(&s->name, given->server_name))
        return RDZV_NO_MEMORY;
    return (s->cert == NULL) == (s->key == NULL) ? RDZV_OK : RDZV_INVALID;
}

void secure_fini(struct secure *s)
{
    free(s->ca);
    free(s->cert);
    free(s->key);
    free(s->name);
    *s = (struct secure){0};
}

enum rdzv_status secure_open(const struct secure *s, int fd, const char *host, SSL **out,
                             char why[SECURE_WHY_MAX])
{
    const struct tls_files files = {.cert = s->cert, .key = s->key, .ca = s->ca};
    SSL_CTX *context = tls_client_context(&files, NULL, why);

    if (context == NULL)
        return RDZV_TLS;
    *out = tls_client(context, fd, s->name != NULL ? s->name : host);
    SSL_CTX_free(context); /* the connection holds it */
    return *out == NULL ? RDZV_NO_MEMORY : RDZV_OK;
}

void secure_why(SSL *ssl, char why[SECURE_WHY_MAX])
{
    char text[TLS_WHY_MAX];
    const char *hint = tls_hint(tls_why(ssl, text))->text;

    snprintf(why, SECURE_WHY_MAX, "TLS: %s%s%s", text, hint == NULL ? "" : "; ",
             hint == NULL ? "" : hint);
}

static bool keep_first_name(const struct tls_name *name, void *arg)
{
    char *text = arg;
    size_t len = name->len < 100 ? name->len : 100;

    for (size_t i = 0; i < len; i++)
        text[i] = (char)(name->text[i] > ' ' && name->text[i] < 0x7f ? name->text[i] : '_');
    text[len] = '\0';
    return false;
}

void secure_peer(SSL *ssl, char text[SECURE_PEER_MAX])
{
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    char name[101] = "the store", date[16] = "?";
    struct tm end;

    if (certificate != NULL) {
        tls_each_name(certificate, keep_first_name, name);
        if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1)
            strftime(date, sizeof date, "%Y-%m-%d", &end);
    }
    snprintf(text, SECURE_PEER_MAX, "%s, the certificate of %s ends %s", SSL_get_version(ssl), name,
             date);
}

/* False: the socket is full or lost; errno says which. */
static bool secure_flush(SSL *ssl, struct secure_out *out)
{
    if (out->len > 0 && tls_send(ssl, out->bytes, out->len) < 0)
        return false;
    out->len = 0;
    return true;
}

ssize_t secure_send(SSL *ssl, struct secure_out *out, const struct iovec *pieces, size_t count)
{
    if (!secure_flush(ssl, out))
        return -1;
    for (size_t i = 0; i < count && out->len < sizeof out->bytes; i++) {
        size_t room = sizeof out->bytes - out->len;
        size_t len = pieces[i].iov_len < room ? pieces[i].iov_len : room;

        memcpy(out->bytes + out->len, pieces[i].iov_base, len);
        out->len += len;
    }
    count = out->len;
    secure_flush(ssl, out);
    return (ssize_t)count;
}
