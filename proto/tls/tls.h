/* TLS over one non-blocking socket, of either side: handshake, bytes in, bytes out, and in words
 * why it did not go on. No events, no buffers of its own: the caller watches the socket, and
 * OpenSSL keeps what is half a record. tls_context.h makes the contexts. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The first byte of every TLS connection. No c10d version, no HTTP and no relay begins so. */
#define TLS_FIRST_BYTE 0x16

/* So many bytes are one record at most, and are best given at a time. */
#define TLS_RECORD_MAX 16384

#define TLS_WHY_MAX 320

/* One side of a connection on a connected or accepted socket, which the caller closes after
 * tls_free(). A client asks for the server with that name or address, and takes no other. NULL:
 * there is no memory. */
SSL *tls_server(SSL_CTX *context, int fd);
SSL *tls_client(SSL_CTX *context, int fd, const char *name);

/* 0: done. -EAGAIN: when the socket is readable, or writable if tls_wants_write(). -ENOMEM;
 * -EPROTO: it has failed, and tls_why() says why. */
int tls_handshake(SSL *ssl);
bool tls_wants_write(const SSL *ssl);

/* Why the last call of this file for any connection failed, or the peer's certificate is refused.
 * Returns `text`: one line. */
const char *tls_why(SSL *ssl, char text[TLS_WHY_MAX]);

/* For contexts: notes for tls_why() whose certificate is refused. */
int tls_verified(int is_fine, X509_STORE_CTX *verification);

/* For contexts: a peer that sends handshake messages or alerts, and no data, has its end after some
 * dozens of them (EPROTO). OpenSSL would go on for as long as they come. */
void tls_noted(int sent, int version, int type, const void *bytes, size_t len, SSL *ssl, void *arg);

/* As recv(): 0 is the peer's end, with or without its word for it: what is carried here has lengths
 * of its own. -1 with errno: EAGAIN, ENOMEM, EPROTO. */
ssize_t tls_recv(SSL *ssl, void *bytes, size_t len);

/* tls_recv() has more to say, which no event of the socket will tell. */
bool tls_has_pending(const SSL *ssl);

/* As send(), but all of it or nothing, of up to TLS_RECORD_MAX bytes. After EAGAIN the next call
 * has to begin with the same bytes; there may be more of them. */
ssize_t tls_send(SSL *ssl, const void *bytes, size_t len);

/* recv() and send() of a socket that has TLS, or has none (NULL). */
ssize_t tls_or_recv(SSL *ssl, int fd, void *bytes, size_t len);
ssize_t tls_or_send(SSL *ssl, int fd, const void *bytes, size_t len);

/* Tells the peer that nothing more will be sent. */
void tls_end(SSL *ssl);

/* The same, and frees it. Takes NULL. */
void tls_free(SSL *ssl);
