/* Two ends of TLS over a socket pair. See tls_pair.h for the contract. */
#include "tests/support/tls_pair.h"

#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/tls/tls.h"

static X509 *certificate(EVP_PKEY *key)
{
    X509 *x = X509_new();
    X509_NAME *name = X509_get_subject_name(x);

    X509_set_version(x, 2);
    X509_gmtime_adj(X509_getm_notBefore(x), -60);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"store", -1, -1, 0);
    X509_set_issuer_name(x, name);
    assert_true(X509_sign(x, key, EVP_sha256()) > 0);
    return x;
}

/* What the contexts of tls_context.h are set to, as far as bytes go. */
static SSL_CTX *context(const SSL_METHOD *method, int version)
{
    SSL_CTX *made = SSL_CTX_new(method);

    SSL_CTX_set_min_proto_version(made, version);
    SSL_CTX_set_max_proto_version(made, version);
    SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(made, 1);
    SSL_CTX_set_msg_callback(made, tls_noted);
    return made;
}

void tls_pair_begin(struct tls_pair *p, int version)
{
    SSL_CTX *server = context(TLS_server_method(), version);
    SSL_CTX *client = context(TLS_client_method(), version);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = certificate(key);
    int left;

    SSL_CTX_use_certificate(server, x);
    SSL_CTX_use_PrivateKey(server, key);
    SSL_CTX_set_options(client, SSL_OP_NO_RENEGOTIATION);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fds), 0);
    p->client = tls_client(client, p->fds[0], "store");
    p->server = tls_server(server, p->fds[1]);
    do
        left = tls_handshake(p->client) + tls_handshake(p->server);
    while (left != 0);
    X509_free(x);
    EVP_PKEY_free(key);
    SSL_CTX_free(client);
    SSL_CTX_free(server);
}

void tls_pair_end(struct tls_pair *p)
{
    tls_free(p->client);
    tls_free(p->server);
    close(p->fds[0]);
    close(p->fds[1]);
}
