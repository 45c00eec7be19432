/* Names of certificates. See tls.h for the contract. */
#include "proto/tls/tls.h"

#include <openssl/x509v3.h>
#include <string.h>

static bool take_text(struct tls_name *out, const ASN1_STRING *text, bool ignores_case)
{
    out->text = (const char *)ASN1_STRING_get0_data(text);
    out->len = (size_t)ASN1_STRING_length(text);
    out->ignores_case = ignores_case;
    return out->len > 0 && memchr(out->text, 0, out->len) == NULL;
}

static bool take_address(struct tls_name *out, const ASN1_OCTET_STRING *address)
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

/* False: names of this kind have no text. */
static bool name_of(const GENERAL_NAME *general, struct tls_name *out)
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

/* The common name of its subject. False: it has none. */
static bool common_name(X509 *certificate, struct tls_name *out)
{
    X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

    return at >= 0 &&
           take_text(out, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), false);
}

void tls_each_name(X509 *certificate, tls_name_fn *take, void *arg)
{
    int critical;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, &critical, NULL);
    bool any = names == NULL && critical != -1, more = true; /* -1: the certificate has no SAN */
    struct tls_name name;

    for (int i = 0; i < sk_GENERAL_NAME_num(names) && more; i++) {
        if (!name_of(sk_GENERAL_NAME_value(names, i), &name))
            continue;
        any = true;
        more = take(&name, arg);
    }
    GENERAL_NAMES_free(names);
    if (!any && common_name(certificate, &name))
        take(&name, arg);
}
