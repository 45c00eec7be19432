/* Who the peer is by its certificate. */
#pragma once

#include "proto/bytes.h"
#include "proto/tls/tls.h"
#include "rdzv/config/config.h"

/* The certificate was verified, and one of its names is in the list: a DNS name, an address, a URI
 * or an e-mail address of its SAN, or, where it has none of these, its common name. They are
 * compared as they are: a wildcard is no other name. An empty list has nobody. */
bool tls_peer_is_one_of(SSL *ssl, const struct string_list *names);

/* False: its certificate has expired. One that a resumed session names was verified when that
 * session began. */
bool tls_peer_is_in_time(SSL *ssl);

/* The first of these names, for logs: without what would end a line or a word. "" when there is
 * none. Returns `text`. */
#define TLS_NAME_MAX 128
const char *tls_peer_name(SSL *ssl, char text[TLS_NAME_MAX]);
