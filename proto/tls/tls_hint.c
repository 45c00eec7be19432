/* Remedies for faults of TLS. See tls_hint.h for the contract. */
#include "proto/tls/tls_hint.h"

#include <stddef.h>
#include <string.h>

#define NO_TLS "what answers there speaks no TLS; is it the right port, and has it a certificate?"
#define OF_CA  "give the file of the CA that signed it"
#define CLOCK  "the clock of this machine may be wrong, or the server needs a new one"
#define NAME   "connect by a name that it has, or say which name to expect"
#define OURS   "the server takes clients of its own CA alone: give such a certificate, and its key"

/* OpenSSL's words for the fault -> what to do. The first that is found counts. */
static const struct {
    const char *words, *hint;
} hints[] = {
    {"unable to get local issuer certificate", OF_CA},
    {"unable to get issuer certificate", OF_CA},
    {"unable to verify the first certificate", OF_CA},
    {"self-signed certificate", OF_CA},
    {"self signed certificate", OF_CA},
    {"certificate signature failure", OF_CA},
    {"certificate has expired", CLOCK},
    {"certificate is not yet valid", CLOCK},
    {"certificate revoked", "the server needs a new one"},
    {"CRL has expired", "a newer list has to come into its file"},
    {"unable to get certificate CRL", "the file of revoked certificates has none of this CA"},
    {"hostname mismatch", NAME},
    {"IP address mismatch", NAME},
    {"subject name", NAME}, /* libcurl's own word for it */
    {"unsuitable certificate purpose", "its extendedKeyUsage has to have serverAuth"},
    {"unsupported certificate purpose", "its extendedKeyUsage has to have serverAuth"},
    {"alert certificate required", OURS},
    {"alert bad certificate", OURS},
    {"alert unknown ca", OURS},
    {"alert access denied", "the server takes other names than those of this certificate"},
    {"alert certificate expired", "the certificate of this client has to be renewed"},
    {"SSL certificate verification failed", "one of the two has expired"}, /* libcurl's word */
    {"alert certificate revoked", "this client needs a new certificate"},
    {"alert unsupported certificate", "the client's extendedKeyUsage has to have clientAuth"},
    {"alert certificate unknown", OURS},
    {"alert handshake failure", "has the server a certificate there, and wants it one of ours?"},
    {"alert protocol version", "the server has to speak TLS 1.2 or later"},
    {"wrong version number", NO_TLS},
    {"packet length too long", NO_TLS},
    {"http request", NO_TLS},
    {"unexpected message", NO_TLS},
    {"record layer failure", NO_TLS},
    {"connection ended", NO_TLS},
};

const char *tls_hint(const char *why)
{
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        if (strstr(why, hints[i].words) != NULL)
            return hints[i].hint;
    }
    return NULL;
}
