/* TLS over one socket, and the names of certificates. See tls.h for the contract. */
#include "proto/tls/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* --- The socket, as OpenSSL sees it. Its own way to it would raise SIGPIPE. --- */

static int socket_of(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static bool is_temporary(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static int bio_write(BIO *bio, const char *bytes, size_t len, size_t *written)
{
    ssize_t n = send(socket_of(bio), bytes, len, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (is_temporary(n))
        BIO_set_retry_write(bio);
    *written = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static int bio_read(BIO *bio, char *bytes, size_t len, size_t *got)
{
    ssize_t n = recv(socket_of(bio), bytes, len, 0);

    BIO_clear_retry_flags(bio);
    if (is_temporary(n))
        BIO_set_retry_read(bio);
    else if (n == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    *got = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static long bio_control(BIO *bio, int what, long, void *)
{
    if (what == BIO_CTRL_EOF)
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return what == BIO_CTRL_FLUSH;
}

static BIO_METHOD *new_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");

    if (method == NULL)
        return NULL;
    BIO_meth_set_write_ex(method, bio_write);
    BIO_meth_set_read_ex(method, bio_read);
    BIO_meth_set_ctrl(method, bio_control);
    return method;
}

/* One for the whole program, whose threads may ask for it at the same time. NULL: no memory. */
static const BIO_METHOD *socket_method(void)
{
    static _Atomic(BIO_METHOD *) shared;
    BIO_METHOD *there = atomic_load(&shared), *made;

    if (there != NULL)
        return there;
    made = new_method();
    if (made == NULL || atomic_compare_exchange_strong(&shared, &there, made))
        return made;
    BIO_meth_free(made);
    return there;
}

static BIO *bio_new(int fd)
{
    const BIO_METHOD *method = socket_method();
    BIO *bio = method == NULL ? NULL : BIO_new(method);

    if (bio == NULL)
        return NULL;
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    return bio;
}

/* --- Whose certificate is refused: OpenSSL forgets it. --- */

static _Thread_local char refused_name[TLS_WHY_MAX - 60];

static void put_certificate_name(X509 *certificate, char *text, size_t size)
{
    BIO *bio = BIO_new(BIO_s_mem());
    int len = 0;

    if (bio != NULL &&
        X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0)
        len = BIO_read(bio, text, (int)size - 1);
    text[len > 0 ? len : 0] = '\0';
    BIO_free(bio);
}

/* Appends ", a.example" while there is room, without characters that would end a line or word. */
static bool add_name(const struct tls_name *name, void *arg)
{
    char *text = arg;
    size_t at = strlen(text), room = sizeof refused_name - at;

    if (name->len + sizeof ", )" > room)
        return false;
    if (text[at - 1] != '(') {
        strcpy(text + at, ", ");
        at += 2;
    }
    for (size_t i = 0; i < name->len; i++)
        text[at + i] = (char)(name->text[i] > ' ' && name->text[i] < 0x7f ? name->text[i] : '_');
    text[at + name->len] = '\0';
    return true;
}

/* "CN=server (localhost, 127.0.0.1)": the names of a certificate that was refused because it lacks
 * the wanted name. */
static void put_names(X509 *certificate)
{
    size_t len = strlen(refused_name);

    if (len + sizeof " ()" > sizeof refused_name)
        return;
    strcpy(refused_name + len, " (");
    tls_each_name(certificate, add_name, refused_name);
    strcat(refused_name, ")");
}

int tls_verified(int is_fine, X509_STORE_CTX *verification)
{
    X509 *certificate = X509_STORE_CTX_get_current_cert(verification);
    int error = X509_STORE_CTX_get_error(verification);

    if (is_fine || certificate == NULL)
        return is_fine;
    put_certificate_name(certificate, refused_name, 120);
    if (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH)
        put_names(certificate);
    return is_fine;
}

/* --- Messages of TLS itself. OpenSSL carries them out, and takes the next one, for as long as the
 * socket has any: a peer that sends nothing else would keep SSL_read_ex() for seconds. --- */

/* After the handshake, at most this many messages may come without data between them, and one more
 * for this many records of data: new keys and tickets come once in hours or gigabytes. */
#define BARE_MAX     64
#define DATA_FOR_ONE 64

/* The share of that limit which a connection has used, in records of data; -1 during the handshake,
 * which has its own limits. OpenSSL keeps the number in place of a pointer. */
static intptr_t used_up(const SSL *ssl)
{
    return (intptr_t)SSL_get_app_data(ssl);
}

static bool note_used_up(SSL *ssl, intptr_t used)
{
    return SSL_set_app_data(ssl, (void *)used) == 1;
}

static bool is_too_bare(const SSL *ssl)
{
    return used_up(ssl) > (intptr_t)BARE_MAX * DATA_FOR_ONE;
}

/* OpenSSL looks for the peer's end before it carries out what a record holds. */
static void end_reading(SSL *ssl)
{
    SSL_set_shutdown(ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
}

void tls_noted(int sent, int version, int type, const void *bytes, size_t, SSL *ssl, void *)
{
    const uint8_t *first = bytes;
    intptr_t used = used_up(ssl);
    /* TLS 1.3 hides what a record holds, and OpenSSL tells it on its own. */
    bool is_head = type == SSL3_RT_INNER_CONTENT_TYPE ||
                   (type == SSL3_RT_HEADER &&
                    (version != TLS1_3_VERSION || *first != SSL3_RT_APPLICATION_DATA));

    if (sent || used < 0 || !is_head)
        return;
    if (*first != SSL3_RT_APPLICATION_DATA)
        note_used_up(ssl, used + DATA_FOR_ONE);
    else if (used > 0)
        note_used_up(ssl, used - 1);
    if (is_too_bare(ssl))
        end_reading(ssl);
}

/* --- Beginning. --- */

static SSL *new_side(SSL_CTX *context, int fd)
{
    SSL *ssl = SSL_new(context);
    BIO *bio = ssl == NULL || !note_used_up(ssl, -1) ? NULL : bio_new(fd);

    if (bio == NULL) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_bio(ssl, bio, bio);
    return ssl;
}

SSL *tls_server(SSL_CTX *context, int fd)
{
    SSL *ssl = new_side(context, fd);

    if (ssl != NULL)
        SSL_set_accept_state(ssl);
    return ssl;
}

/* Certificates have a separate kind of name for addresses, and SNI has none. */
static bool expect_name(SSL *ssl, const char *name)
{
    struct in6_addr address; /* large enough for both */

    if (inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

SSL *tls_client(SSL_CTX *context, int fd, const char *name)
{
    SSL *ssl = new_side(context, fd);

    if (ssl == NULL)
        return NULL;
    SSL_set_connect_state(ssl);
    if (expect_name(ssl, name))
        return ssl;
    SSL_free(ssl);
    ERR_clear_error();
    return NULL;
}

/* --- What came of a call. --- */

/* Before a call whose outcome error_of() is asked for. ERR_clear_error() takes as long as a tenth
 * of a short record, also where there is nothing to forget. */
static void forget_errors(void)
{
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

/* 0: the peer's end. */
static int error_of(SSL *ssl, int result)
{
    int error = errno; /* of the socket, if it was that */

    if (is_too_bare(ssl))
        return -EPROTO;
    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        return error == 0 ? -ECONNRESET : -error;
    default:
        return ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE ||
                       ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE
                   ? -ENOMEM
                   : -EPROTO;
    }
}

int tls_handshake(SSL *ssl)
{
    int result, error;

    refused_name[0] = '\0';
    forget_errors();
    errno = 0;
    result = SSL_do_handshake(ssl);
    if (result == 1) {
        note_used_up(ssl, 0);
        return 0;
    }
    error = error_of(ssl, result);
    return error == 0 ? -ECONNRESET : error;
}

bool tls_wants_write(const SSL *ssl)
{
    return SSL_want_write(ssl);
}

const char *tls_why(SSL *ssl, char text[TLS_WHY_MAX])
{
    long verdict = SSL_get_verify_result(ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    if (is_too_bare(ssl))
        snprintf(text, TLS_WHY_MAX, "too many handshake messages or alerts, and no data");
    else if (verdict != X509_V_OK)
        snprintf(text, TLS_WHY_MAX, "the certificate of %s: %s",
                 refused_name[0] == '\0' ? "the peer" : refused_name,
                 X509_verify_cert_error_string(verdict));
    else
        snprintf(text, TLS_WHY_MAX, "%s",
                 reason != NULL ? reason : "the connection ended in the handshake");
    return text;
}

/* --- Bytes. --- */

ssize_t tls_recv(SSL *ssl, void *bytes, size_t len)
{
    size_t got = 0, n = 0;
    int error;

    do {
        forget_errors();
        errno = 0;
        if (SSL_read_ex(ssl, (char *)bytes + got, len - got, &n) != 1) {
            error = error_of(ssl, 0);
            if (got > 0 && error != -EAGAIN)
                end_reading(ssl); /* after these bytes, the next call finds the end or failure */
            if (got > 0)
                return (ssize_t)got;
            errno = -error;
            return error == 0 ? 0 : -1;
        }
        got += n;
    } while (got < len && SSL_has_pending(ssl));
    return (ssize_t)got;
}

bool tls_has_pending(const SSL *ssl)
{
    return SSL_has_pending(ssl) || (SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN) != 0;
}

ssize_t tls_send(SSL *ssl, const void *bytes, size_t len)
{
    size_t n = 0;
    int error;

    forget_errors();
    errno = 0;
    if (SSL_write_ex(ssl, bytes, len, &n) == 1)
        return (ssize_t)n;
    error = error_of(ssl, 0);
    errno = error == 0 ? ECONNRESET : -error;
    return -1;
}

ssize_t tls_or_recv(SSL *ssl, int fd, void *bytes, size_t len)
{
    return ssl == NULL ? recv(fd, bytes, len, 0) : tls_recv(ssl, bytes, len);
}

ssize_t tls_or_send(SSL *ssl, int fd, const void *bytes, size_t len)
{
    return ssl == NULL ? send(fd, bytes, len, MSG_NOSIGNAL)
                       : tls_send(ssl, bytes, len < TLS_RECORD_MAX ? len : TLS_RECORD_MAX);
}

/* --- The end. --- */

void tls_end(SSL *ssl)
{
    if (SSL_is_init_finished(ssl) && (SSL_get_shutdown(ssl) & SSL_SENT_SHUTDOWN) == 0)
        SSL_shutdown(ssl);
    ERR_clear_error();
}

void tls_free(SSL *ssl)
{
    if (ssl == NULL)
        return;
    tls_end(ssl);
    SSL_free(ssl);
}

/* --- Names of certificates. --- */

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
