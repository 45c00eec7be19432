/* TLS contexts from files. See tls.h for the contract. */
#include "proto/tls/tls.h"

#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The ciphers of TLS 1.2 with forward secrecy and without known attack, as all of TLS 1.3 are. */
static const char ciphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

static bool fail_with_file(char why[TLS_WHY_MAX], const char *file, const char *text)
{
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);

    if (text == NULL && ERR_SYSTEM_ERROR(code))
        reason = strerror(ERR_GET_REASON(code));
    snprintf(why, TLS_WHY_MAX, "%s: %s", file,
             text != NULL     ? text
             : reason == NULL ? "cannot be read"
                              : reason);
    ERR_clear_error();
    return false;
}

/* A key with a password would ask for it on a terminal. */
static int no_password(char *, int, int, void *)
{
    return -1;
}

static const char not_its_key[] = "key values mismatch: it is not the key of the certificate";

/* OpenSSL compares a key with the certificate when it reads it. */
static bool is_key_mismatch(void)
{
    unsigned long code = ERR_peek_error();

    return ERR_GET_LIB(code) == ERR_LIB_X509 &&
           (ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH ||
            ERR_GET_REASON(code) == X509_R_KEY_TYPE_MISMATCH);
}

static bool load_own(SSL_CTX *context, const struct tls_files *files, char why[TLS_WHY_MAX])
{
    if (files->cert == NULL)
        return true;
    if (SSL_CTX_use_certificate_chain_file(context, files->cert) != 1)
        return fail_with_file(why, files->cert, NULL);
    if (SSL_CTX_use_PrivateKey_file(context, files->key, SSL_FILETYPE_PEM) != 1)
        return fail_with_file(why, files->key, is_key_mismatch() ? not_its_key : NULL);
    if (SSL_CTX_check_private_key(context) != 1)
        return fail_with_file(why, files->key, not_its_key);
    return true;
}

static bool load_crl(SSL_CTX *context, const char *file, char why[TLS_WHY_MAX])
{
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());

    if (lookup == NULL || X509_load_crl_file(lookup, file, X509_FILETYPE_PEM) < 1)
        return fail_with_file(why, file, NULL);
    return X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) == 1;
}

static bool load_ca(SSL_CTX *context, const struct tls_files *files, char why[TLS_WHY_MAX])
{
    if (strcmp(files->ca, TLS_CA_SYSTEM) == 0) {
        if (SSL_CTX_set_default_verify_paths(context) != 1)
            return fail_with_file(why, "the CAs of the machine", NULL);
    } else if (SSL_CTX_load_verify_file(context, files->ca) != 1) {
        return fail_with_file(why, files->ca, NULL);
    }
    return files->crl == NULL || load_crl(context, files->crl, why);
}

static SSL_CTX *new_context(const SSL_METHOD *method, char why[TLS_WHY_MAX])
{
    SSL_CTX *context = SSL_CTX_new(method);

    if (context == NULL) {
        fail_with_file(why, "TLS", NULL);
        return NULL;
    }
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_cipher_list(context, ciphers);
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
    /* An idle connection frees its buffers; a growing queue may have moved before it is sent. */
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1); /* one recv() reads a record and the records behind it */
    SSL_CTX_set_default_passwd_cb(context, no_password);
    SSL_CTX_set_msg_callback(context, tls_noted);
    return context;
}

/* A client that offers neither would expect its answer in another protocol. HTTP/2 is for clients
 * that have nothing else, and get an answer of http/http2.c. */
static int choose_alpn(SSL *, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned in_len, void *)
{
    static const unsigned char spoken[] = "\x08http/1.1\x02h2";
    unsigned char *chosen;

    if (SSL_select_next_proto(&chosen, out_len, spoken, sizeof spoken - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* The server sends the names of these CAs to clients, so that each can choose its certificate. */
static bool ask_clients(SSL_CTX *context, const struct tls_files *files, bool optional,
                        char why[TLS_WHY_MAX])
{
    STACK_OF(X509_NAME) *names = NULL;

    if (files->ca == NULL)
        return true;
    if (!load_ca(context, files, why))
        return false;
    if (strcmp(files->ca, TLS_CA_SYSTEM) != 0)
        names = SSL_load_client_CA_file(files->ca);
    SSL_CTX_set_client_CA_list(context, names);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (optional ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT),
                       tls_verified);
    return true;
}

SSL_CTX *tls_server_context(const struct tls_files *files, bool optional, char why[TLS_WHY_MAX])
{
    static const unsigned char id[] = "rdzvd";
    SSL_CTX *context = new_context(TLS_server_method(), why);

    if (context == NULL)
        return NULL;
    SSL_CTX_set_session_id_context(context, id, sizeof id - 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* tickets need none */
    SSL_CTX_set_num_tickets(context, 1);
    SSL_CTX_set_alpn_select_cb(context, choose_alpn, NULL);
    if (load_own(context, files, why) && ask_clients(context, files, optional, why))
        return context;
    SSL_CTX_free(context);
    return NULL;
}

SSL_CTX *tls_client_context(const struct tls_files *files, const char *alpn, char why[TLS_WHY_MAX])
{
    struct tls_files all = *files;
    SSL_CTX *context = new_context(TLS_client_method(), why);

    if (all.ca == NULL)
        all.ca = TLS_CA_SYSTEM;
    if (context != NULL && load_own(context, &all, why) && load_ca(context, &all, why)) {
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, tls_verified);
        if (alpn == NULL || SSL_CTX_set_alpn_protos(context, (const unsigned char *)alpn,
                                                    (unsigned)strlen(alpn)) == 0)
            return context;
    }
    SSL_CTX_free(context);
    return NULL;
}

int64_t tls_context_expires(SSL_CTX *context)
{
    const X509 *certificate = SSL_CTX_get0_certificate(context);
    struct tm tm;

    if (certificate == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) != 1)
        return 0;
    return (int64_t)timegm(&tm);
}
