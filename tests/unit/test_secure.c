/* TLS of librdzv: bytes that a full socket takes later, and remedies for what OpenSSL says. */
#include "client/secure.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "proto/tls/tls.h"
#include "tests/support/tls_pair.h"

/* --- Words. --- */

static void each_fault_of_a_certificate_has_a_remedy(void **state)
{
    static const int faults[] = {
        X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
        X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
        X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
        X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
        X509_V_ERR_CERT_SIGNATURE_FAILURE,
        X509_V_ERR_CERT_HAS_EXPIRED,
        X509_V_ERR_CERT_NOT_YET_VALID,
        X509_V_ERR_HOSTNAME_MISMATCH,
        X509_V_ERR_IP_ADDRESS_MISMATCH,
        X509_V_ERR_CERT_REVOKED,
        X509_V_ERR_CRL_HAS_EXPIRED,
        X509_V_ERR_UNABLE_TO_GET_CRL,
        X509_V_ERR_INVALID_PURPOSE,
    };

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        assert_non_null(tls_hint(X509_verify_cert_error_string(faults[i]))->text);
    assert_null(tls_hint("what nothing ever says")->text);
}

static void a_fault_tells_which_setting_it_is_about(void **state)
{
    (void)state;
    assert_int_equal(tls_hint("self-signed certificate")->matter, TLS_MATTER_CA);
    assert_int_equal(tls_hint("hostname mismatch")->matter, TLS_MATTER_NAME);
    assert_int_equal(tls_hint("tlsv1 alert unknown ca")->matter, TLS_MATTER_OURS);
    assert_int_equal(tls_hint("sslv3 alert certificate expired")->matter, TLS_MATTER_OURS);
    assert_int_equal(tls_hint("wrong version number")->matter, TLS_MATTER_NONE);
    assert_int_equal(tls_hint("what nothing ever says")->matter, TLS_MATTER_NONE);
}

static void each_alert_has_a_remedy(void **state)
{
    static const int alerts[] = {
        SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED,
        SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,
        SSL_R_TLSV1_ALERT_UNKNOWN_CA,
        SSL_R_TLSV1_ALERT_ACCESS_DENIED,
        SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
        SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED,
        SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN,
        SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
        SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
        SSL_R_TLSV1_ALERT_PROTOCOL_VERSION,
        SSL_R_WRONG_VERSION_NUMBER,
    };

    (void)state;
    OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS, NULL);
    for (size_t i = 0; i < sizeof alerts / sizeof alerts[0]; i++)
        assert_non_null(
            tls_hint(ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, alerts[i])))->text);
}

static void a_certificate_and_its_key_go_together(void **state)
{
    const struct rdzv_tls both = {.cert_file = "a", .key_file = "b"}, cert = {.cert_file = "a"},
                          key = {.key_file = "b", .cert_file = ""}, none = {.ca_file = ""};
    struct secure s;

    (void)state;
    assert_int_equal(secure_init(&s, NULL), RDZV_OK);
    assert_false(s.is_on);
    assert_int_equal(secure_init(&s, &both), RDZV_OK);
    assert_true(s.is_on);
    secure_fini(&s);
    assert_int_equal(secure_init(&s, &cert), RDZV_INVALID);
    secure_fini(&s);
    assert_int_equal(secure_init(&s, &key), RDZV_INVALID);
    secure_fini(&s);
    assert_int_equal(secure_init(&s, &none), RDZV_OK);
    assert_null(s.ca);
    secure_fini(&s);
}

/* --- Two ends of a socket. --- */

/* Reads all received bytes, and checks that they continue the count from `at`. */
static size_t take(struct tls_pair *p, size_t at)
{
    uint8_t bytes[20000];
    ssize_t n;

    while ((n = tls_recv(p->server, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < n; i++, at++)
            assert_int_equal(bytes[i], (uint8_t)(at * 31));
    }
    assert_int_equal(errno, EAGAIN);
    return at;
}

/* Whatever the caller offers next, each byte that was taken arrives, once and in its place. */
static void a_popped_element_arrives_once(void **state)
{
    enum { ALL = 3000000, PIECE = 7001 };
    struct secure_out *out = calloc(1, sizeof *out);
    uint8_t *bytes = malloc(ALL);
    size_t sent = 0, got = 0, refused = 0;
    struct tls_pair p;

    (void)state;
    tls_pair_begin(&p, TLS1_3_VERSION);
    for (size_t i = 0; i < ALL; i++)
        bytes[i] = (uint8_t)(i * 31);
    while (sent < ALL || out->len > 0) {
        size_t left = ALL - sent, one = left < PIECE ? left : PIECE;
        struct iovec pieces[] = {{bytes + sent, one}, {bytes + sent + one, left - one}};
        /* Sometimes a retry has fewer bytes to send than the refused call. */
        ssize_t n = secure_send(p.client, out, pieces, left == 0 ? 0 : refused % 3);

        assert_true(n >= 0 || errno == EAGAIN);
        sent += n > 0 ? (size_t)n : 0;
        if (n < 0 || refused % 3 == 0) {
            refused++;
            got = take(&p, got);
        }
    }
    got = take(&p, got);
    assert_int_equal(got, ALL);
    assert_true(refused > 10); /* or the socket was never full */
    free(bytes);
    free(out);
    tls_pair_end(&p);
}

static void the_peer_is_named(void **state)
{
    struct tls_pair p;
    char text[SECURE_PEER_MAX];

    (void)state;
    tls_pair_begin(&p, TLS1_3_VERSION);
    secure_peer(p.client, text);
    assert_memory_equal(text, "TLSv1.3, the certificate of store ends 20", 41);
    tls_pair_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_of_a_certificate_has_a_remedy),
        cmocka_unit_test(each_alert_has_a_remedy),
        cmocka_unit_test(a_fault_tells_which_setting_it_is_about),
        cmocka_unit_test(a_certificate_and_its_key_go_together),
        cmocka_unit_test(a_popped_element_arrives_once),
        cmocka_unit_test(the_peer_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
