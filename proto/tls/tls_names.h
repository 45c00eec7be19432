/* The names that a certificate is for. */
#pragma once

#include <arpa/inet.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>

/* One name: borrowed from the certificate, or written into `room`. */
struct tls_name {
    const char *text; /* `len` bytes, none of them NUL */
    size_t len;
    bool ignores_case;
    char room[INET6_ADDRSTRLEN];
};

/* False: no more names are wanted. */
typedef bool tls_name_fn(const struct tls_name *name, void *arg);

/* Calls `take` for each DNS name, address, URI and e-mail address of the SAN, or, where there is
 * none of these, for the common name. */
void tls_each_name(X509 *certificate, tls_name_fn *take, void *arg);
