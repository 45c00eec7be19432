/* TLS over one non-blocking socket, of either side: handshake, bytes in, bytes out, and the reason
 * of a failure in words. No events, no buffers of its own: the caller watches the socket, and
 * OpenSSL keeps incomplete records. */
#pragma once

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The first byte of every TLS connection. No first byte of c10d, HTTP or a relay equals it. */
#define TLS_FIRST_BYTE 0x16

/* One record has at most this many bytes; send as many at a time. */
#define TLS_RECORD_MAX 16384

#define TLS_WHY_MAX 320

/* One side of a connection on a connected or accepted socket, which the caller closes after
 * tls_free(). A client asks the server for that name or address, and refuses a certificate without
 * it. NULL: memory is short. */
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

/* For contexts: ends the connection (EPROTO) of a peer that sends some dozens of handshake messages
 * or alerts without data. OpenSSL has no limit for them. */
void tls_noted(int sent, int version, int type, const void *bytes, size_t len, SSL *ssl, void *arg);

/* As recv(). 0: the peer has closed the connection, with a close_notify or without: our protocols
 * have lengths of their own, so that a cut message is recognized. -1 with errno: EAGAIN, ENOMEM,
 * EPROTO. */
ssize_t tls_recv(SSL *ssl, void *bytes, size_t len);

/* tls_recv() has more to say, which no event of the socket will tell. */
bool tls_has_pending(const SSL *ssl);

/* As send(), but sends all of the bytes (up to TLS_RECORD_MAX) or none. After EAGAIN, the next call
 * must begin with the same bytes; more may follow. */
ssize_t tls_send(SSL *ssl, const void *bytes, size_t len);

/* recv() and send() of a socket with TLS, or without (NULL). Like send(), the latter may send only
 * the first of the bytes. */
ssize_t tls_or_recv(SSL *ssl, int fd, void *bytes, size_t len);
ssize_t tls_or_send(SSL *ssl, int fd, const void *bytes, size_t len);

/* Tells the peer that nothing more will be sent. */
void tls_end(SSL *ssl);

/* The same, and frees it. Takes NULL. */
void tls_free(SSL *ssl);

/* --- Contexts. A context has the settings of connections: versions, ciphers, our certificate, and
 * the CAs that we trust. Tickets resume sessions, and each context has its own ticket keys: after
 * the files have changed, a new context checks the certificate of each client again.
 * --- */

struct tls_files {
    const char *cert; /* our certificate, then its intermediate CAs, in PEM; NULL: none */
    const char *key;
    const char *ca;  /* the CAs that we trust; NULL: see below; TLS_CA_SYSTEM */
    const char *crl; /* revoked certificates of each of these CAs; NULL: none */
};

#define TLS_CA_SYSTEM "system" /* the CAs that the machine trusts */

/* The context of a server. Without a CA, the server requests no certificates; with a CA, each
 * client must send a certificate, unless `optional`. NULL: `why` names the file and the fault. */
SSL_CTX *tls_server_context(const struct tls_files *files, bool optional, char why[TLS_WHY_MAX]);

/* The context of a client, which accepts only servers with a certificate of the CA (none:
 * TLS_CA_SYSTEM). `alpn` is the protocol that the client offers, behind its length: "\2h2"; NULL:
 * none. */
SSL_CTX *tls_client_context(const struct tls_files *files, const char *alpn, char why[TLS_WHY_MAX]);

/* When its own certificate ends, in seconds since 1970; 0: it has none. */
int64_t tls_context_expires(SSL_CTX *context);

/* --- The names that a certificate is for. --- */

/* One name: borrowed from the certificate, or written into `room`. */
struct tls_name {
    const char *text; /* `len` bytes, none of them NUL */
    size_t len;
    bool ignores_case;
    char room[INET6_ADDRSTRLEN];
};

/* False: no more names are wanted. */
typedef bool tls_name_fn(const struct tls_name *name, void *arg);

/* Calls `take` for each DNS name, address, URI and e-mail address of the SAN; if the SAN has none
 * of these, or there is no SAN, for the common name. A SAN that cannot be read has no names. A name
 * is valid during the call. */
void tls_each_name(X509 *certificate, tls_name_fn *take, void *arg);

/* --- What a client can do about a TLS connection that did not come about. --- */

/* The client's setting that the fault concerns. */
enum tls_matter {
    TLS_MATTER_NONE, /* of none that is known */
    TLS_MATTER_CA,   /* whose certificates it takes */
    TLS_MATTER_NAME, /* which name it expects */
    TLS_MATTER_OURS, /* its own certificate: the server refuses it, or misses one */
};

struct tls_hint {
    const char *words; /* of the fault */
    const char *text;  /* a clause, "is the given CA the right one?"; NULL: no remedy is known */
    enum tls_matter matter;
};

/* `why` is what tls_why() says, or what libcurl says where it uses OpenSSL. Static. */
const struct tls_hint *tls_hint(const char *why);
