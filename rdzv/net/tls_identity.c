/* Names of certificates. See tls_identity.h for the contract. */
#include "rdzv/net/tls_identity.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <strings.h>

/* One name: borrowed from the certificate, or written into `room`. */
struct name {
    const char *text;
    size_t len;
    bool ignores_case;
    char room[INET6_ADDRSTRLEN];
};

static bool take_text(struct name *out, const ASN1_STRING *text, bool ignores_case)
{
    out->text = (const char *)ASN1_STRING_get0_data(text);
    out->len = (size_t)ASN1_STRING_length(text);
    out->ignores_case = ignores_case;
    return out->len > 0 && memchr(out->text, 0, out->len) == NULL;
}

static bool take_address(struct name *out, const ASN1_OCTET_STRING *address)
{
    int len = ASN1_STRING_length(address);

    if (len != 4 && len != 16)
        return false;
    inet_ntop(len == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), out->room,
              sizeof out->room);
    out->text = out->room;
    out->len = strlen(out->room);
    out->ignores_case = true;
    return true;
}

/* False: it is of a kind that has no text. */
static bool name_of(const GENERAL_NAME *general, struct name *out)
{
    switch (general->type) {
    case GEN_DNS:
        return take_text(out, general->d.dNSName, true);
    case GEN_URI:
        return take_text(out, general->d.uniformResourceIdentifier, false);
    case GEN_EMAIL:
        return take_text(out, general->d.rfc822Name, false);
    case GEN_IPADD:
        return take_address(out, general->d.iPAddress);
    default:
        return false;
    }
}

static bool common_name(X509 *certificate, struct name *out)
{
    X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

    return at >= 0 &&
           take_text(out, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), false);
}

/* Calls `found` for each name until it says true, and returns what it said last. */
static bool each_name(SSL *ssl, bool (*found)(const struct name *name, void *arg), void *arg)
{
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    GENERAL_NAMES *names;
    struct name name;
    bool any = false, done = false;

    if (certificate == NULL || SSL_get_verify_result(ssl) != X509_V_OK)
        return false;
    names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && !done; i++) {
        if (!name_of(sk_GENERAL_NAME_value(names, i), &name))
            continue;
        any = true;
        done = found(&name, arg);
    }
    GENERAL_NAMES_free(names);
    if (!any && common_name(certificate, &name))
        done = found(&name, arg);
    return done;
}

static bool is_in_list(const struct name *name, void *arg)
{
    const struct string_list *list = arg;

    for (size_t i = 0; i < list->count; i++) {
        const char *text = list->items[i];

        if (strlen(text) == name->len &&
            (name->ignores_case ? strncasecmp(text, name->text, name->len)
                                : memcmp(text, name->text, name->len)) == 0)
            return true;
    }
    return false;
}

bool tls_peer_is_one_of(SSL *ssl, const struct string_list *names)
{
    return each_name(ssl, is_in_list, (void *)(uintptr_t)names);
}

static bool copy_name(const struct name *name, void *arg)
{
    size_t len = name->len < TLS_NAME_MAX - 1 ? name->len : TLS_NAME_MAX - 1;
    char *text = arg;

    for (size_t i = 0; i < len; i++)
        text[i] = (char)(name->text[i] > ' ' && name->text[i] < 0x7f ? name->text[i] : '_');
    text[len] = '\0';
    return true;
}

const char *tls_peer_name(SSL *ssl, char text[TLS_NAME_MAX])
{
    text[0] = '\0';
    each_name(ssl, copy_name, text);
    return text;
}
