/* TLS: a peer that sends messages of TLS itself, and nothing else, keeps nobody. */
#include "proto/tls/tls.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/tls_pair.h"

enum { ALLOWED = 64 };

static void send_new_keys(SSL *from)
{
    assert_int_equal(SSL_key_update(from, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    assert_int_equal(SSL_do_handshake(from), 1);
}

/* TLS 1.2: would the client like to shake hands once more? */
static void send_hello_request(SSL *from)
{
    assert_int_equal(SSL_renegotiate(from), 1);
    assert_int_equal(SSL_do_handshake(from), 1);
}

static void send_byte(SSL *from)
{
    assert_int_equal(tls_send(from, "x", 1), 1);
}

static void gets_byte(SSL *to)
{
    char bytes[8];

    assert_int_equal(tls_recv(to, bytes, sizeof bytes), 1);
}

static void has_had_enough(SSL *to)
{
    char bytes[8], why[TLS_WHY_MAX];

    for (int i = 0; i < 2; i++) { /* and it stays so */
        assert_int_equal(tls_recv(to, bytes, sizeof bytes), -1);
        assert_int_equal(errno, EPROTO);
        assert_string_equal(tls_why(to, why), "too many handshake messages or alerts, and no data");
    }
    assert_true(tls_has_pending(to)); /* the next tls_recv() reports the end */
}

static void new_keys_without_end_are_an_end(void **state)
{
    struct tls_pair p;

    (void)state;
    tls_pair_begin(&p, TLS1_3_VERSION);
    for (int i = 0; i < 4 * ALLOWED; i++)
        send_new_keys(p.client);
    send_byte(p.client);
    has_had_enough(p.server);
    tls_pair_end(&p);
}

static void hello_requests_without_end_are_an_end(void **state)
{
    struct tls_pair p;

    (void)state;
    tls_pair_begin(&p, TLS1_2_VERSION);
    for (int i = 0; i < 4 * ALLOWED; i++)
        send_hello_request(p.server);
    send_byte(p.server);
    has_had_enough(p.client);
    tls_pair_end(&p);
}

static void some_new_keys_are_none(void **state)
{
    struct tls_pair p;

    (void)state;
    tls_pair_begin(&p, TLS1_3_VERSION);
    for (int i = 0; i < ALLOWED; i++)
        send_new_keys(p.client);
    send_byte(p.client);
    gets_byte(p.server);
    send_byte(p.server); /* with tickets before it, which count as little */
    gets_byte(p.client);
    tls_pair_end(&p);
}

/* One connection may last for a year, and change its keys each hour. */
static void data_pays_for_new_keys(void **state)
{
    struct tls_pair p;

    (void)state;
    tls_pair_begin(&p, TLS1_3_VERSION);
    for (int i = 0; i < 10 * ALLOWED; i++) {
        send_new_keys(p.client);
        for (int k = 0; k < 64; k++) {
            send_byte(p.client);
            gets_byte(p.server);
        }
    }
    tls_pair_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_keys_without_end_are_an_end),
        cmocka_unit_test(hello_requests_without_end_are_an_end),
        cmocka_unit_test(some_new_keys_are_none),
        cmocka_unit_test(data_pays_for_new_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
