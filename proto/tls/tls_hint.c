/* Remedies for faults of TLS. See tls.h for the contract. */
#include "proto/tls/tls.h"

#include <string.h>

#define NO_TLS \
    "the server speaks no TLS there; is the port right, and does the server have a certificate?"
#define OF_CA "give the file of the CA that signed it"
#define CLOCK "the clock of this machine may be wrong, or the server needs a new one"
#define NAME  "connect by a name of that certificate, or set the name to expect"
#define OURS  "the server accepts only clients of its own CA: give such a certificate, and its key"

/* OpenSSL's words for the fault -> the remedy. The first match counts; the last is for all. */
static const struct tls_hint hints[] = {
    {"issuer certificate", OF_CA, TLS_MATTER_CA},
    {"unable to verify the first certificate", OF_CA, TLS_MATTER_CA},
    {"self-signed certificate", OF_CA, TLS_MATTER_CA},
    {"self signed certificate", OF_CA, TLS_MATTER_CA},
    {"certificate signature failure", OF_CA, TLS_MATTER_CA},
    {"certificate has expired", CLOCK, TLS_MATTER_NONE},
    {"certificate is not yet valid", CLOCK, TLS_MATTER_NONE},
    {"certificate revoked", "the server needs a new one", TLS_MATTER_NONE},
    {"CRL has expired", "put a newer list into its file", TLS_MATTER_NONE},
    {"unable to get certificate CRL", "the file of revoked certificates has no list of this CA",
     TLS_MATTER_NONE},
    {"hostname mismatch", NAME, TLS_MATTER_NAME},
    {"IP address mismatch", NAME, TLS_MATTER_NAME},
    {"subject name", NAME, TLS_MATTER_NAME}, /* libcurl's own word for it */
    {"certificate purpose", "its extendedKeyUsage must include serverAuth", TLS_MATTER_NONE},
    {"alert certificate required", OURS, TLS_MATTER_OURS},
    {"alert bad certificate", OURS, TLS_MATTER_OURS},
    {"alert unknown ca", OURS, TLS_MATTER_OURS},
    {"alert access denied", "the server accepts none of this certificate's names", TLS_MATTER_OURS},
    {"alert certificate expired", "renew this client's certificate", TLS_MATTER_OURS},
    {"SSL certificate verification failed", "one of the two has expired",
     TLS_MATTER_NONE}, /* libcurl's word */
    {"alert certificate revoked", "this client needs a new certificate", TLS_MATTER_OURS},
    {"alert unsupported certificate", "the client's extendedKeyUsage must include clientAuth",
     TLS_MATTER_OURS},
    {"alert certificate unknown", OURS, TLS_MATTER_OURS},
    {"alert handshake failure",
     "does this port speak TLS at all, and does the server require a certificate of ours?",
     TLS_MATTER_NONE},
    {"alert protocol version", "the server must speak TLS 1.2 or later", TLS_MATTER_NONE},
    {"wrong version number", NO_TLS, TLS_MATTER_NONE},
    {"packet length too long", NO_TLS, TLS_MATTER_NONE},
    {"http request", NO_TLS, TLS_MATTER_NONE},
    {"unexpected message", NO_TLS, TLS_MATTER_NONE},
    {"record layer failure", NO_TLS, TLS_MATTER_NONE},
    {"connection ended", NO_TLS, TLS_MATTER_NONE},
    {"", NULL, TLS_MATTER_NONE},
};

const struct tls_hint *tls_hint(const char *why)
{
    const struct tls_hint *h = hints;

    while (strstr(why, h->words) == NULL)
        h++;
    return h;
}
