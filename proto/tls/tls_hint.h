/* What a client can do about a TLS connection that did not come about. Pure. */
#pragma once

/* `why` is what tls_why() says, or what libcurl says where it uses OpenSSL. A clause, "is its CA
 * the one that was given?", or NULL: no remedy is known. Static text. */
const char *tls_hint(const char *why);

/* Of which of this client's settings that is a matter. */
enum tls_matter {
    TLS_MATTER_NONE, /* of none that is known */
    TLS_MATTER_CA,   /* whose certificates it takes */
    TLS_MATTER_NAME, /* which name it expects */
    TLS_MATTER_OURS, /* its own certificate, which the server does not take, or misses */
};

enum tls_matter tls_hint_matter(const char *why);
