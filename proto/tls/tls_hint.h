/* What a client can do about a TLS connection that did not come about. Pure. */
#pragma once

/* `why` is what tls_why() says, or what libcurl says where it uses OpenSSL. A clause, "is its CA
 * the one that was given?", or NULL: no remedy is known. Static text. */
const char *tls_hint(const char *why);
