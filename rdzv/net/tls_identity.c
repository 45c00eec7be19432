/* Who a peer is. See tls_identity.h for the contract. */
#include "rdzv/net/tls_identity.h"

#include <string.h>
#include <strings.h>

#include "proto/tls/tls_names.h"

/* NULL: the peer has shown none, or no authority of --client-ca has signed it. */
static X509 *verified_certificate(SSL *ssl)
{
    return SSL_get_verify_result(ssl) == X509_V_OK ? SSL_get0_peer_certificate(ssl) : NULL;
}

struct search {
    const struct string_list *names;
    bool found;
};

static bool look_for(const struct tls_name *name, void *arg)
{
    struct search *s = arg;

    for (size_t i = 0; i < s->names->count && !s->found; i++) {
        const char *text = s->names->items[i];

        s->found = strlen(text) == name->len &&
                   (name->ignores_case ? strncasecmp(text, name->text, name->len)
                                       : memcmp(text, name->text, name->len)) == 0;
    }
    return !s->found;
}

bool tls_peer_is_one_of(SSL *ssl, const struct string_list *names)
{
    struct search s = {.names = names};
    X509 *certificate = verified_certificate(ssl);

    if (certificate != NULL)
        tls_each_name(certificate, look_for, &s);
    return s.found;
}

bool tls_peer_is_in_time(SSL *ssl)
{
    X509 *certificate = SSL_get0_peer_certificate(ssl);

    return certificate == NULL || X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0;
}

static bool copy_name(const struct tls_name *name, void *arg)
{
    size_t len = name->len < TLS_NAME_MAX - 1 ? name->len : TLS_NAME_MAX - 1;
    char *text = arg;

    for (size_t i = 0; i < len; i++)
        text[i] = (char)(name->text[i] > ' ' && name->text[i] < 0x7f ? name->text[i] : '_');
    text[len] = '\0';
    return false;
}

const char *tls_peer_name(SSL *ssl, char text[TLS_NAME_MAX])
{
    X509 *certificate = verified_certificate(ssl);

    text[0] = '\0';
    if (certificate != NULL)
        tls_each_name(certificate, copy_name, text);
    return text;
}
