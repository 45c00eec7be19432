/* What rdzvd says to do about etcd's faults, and how often the log has one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rdzv/etcd3/etcd_hints.h"

static const struct config_journal plain = {.name = "demo"};
static const struct config_journal of_user = {
    .name = "demo", .user = "rdzv", .password_file = "/etc/password", .tls = {.ca = "ca.crt"}};

static void each_fault_names_its_setting(void **state)
{
    static const struct {
        const struct config_journal *config;
        const char *reason;
        int code;
        const char *wanted;
    } cases[] = {
        {&plain, "a:1 closed the connection", -1, "--journal-ca"},
        {&plain, "a:1 speaks no HTTP/2", -1, "--journal-ca"},
        {&plain, "a:1 cannot be reached", -1, "is --journal right"},
        {&plain, "a:1 Name or service not known", -1, "is --journal right"},
        {&plain, "a:1 the name has no address", -1, "is --journal right"},
        {&plain, "a:1 does not answer", -1, "majority"},
        {&plain, "etcdserver: no leader", 14, "majority"},
        {&plain, "etcdserver: user name is empty", 3, "--journal-user"},
        {&plain, "etcdserver: permission denied", 7, "the user of this certificate"},
        {&of_user, "etcdserver: permission denied", 7, "the user rdzv needs"},
        {&of_user, "etcdserver: authentication failed, invalid user ID or password", 3,
         "--journal-user=rdzv and --journal-password-file=/etc/password"},
        {&of_user, "a:1 fails the TLS handshake: hostname mismatch", -1, "--journal-server-name"},
        {&of_user, "a:1 fails the TLS handshake: self-signed certificate", -1, "--journal-ca"},
        {&of_user, "a:1 fails the TLS handshake: alert unknown ca", -1, "--journal-cert"},
        {&plain, "etcdserver: mvcc: database space exceeded", 8, "etcdctl compact"},
    };
    char hint[ETCD_HINT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct etcd_fault t = {.reason = cases[i].reason, .code = cases[i].code};

        if (strstr(etcd_hint_write(cases[i].config, &t, hint), cases[i].wanted) == NULL)
            fail_msg("%s: %s", cases[i].reason, hint);
    }
}

static void an_etcd_that_has_served_or_speaks_tls_is_not_said_to_want_it(void **state)
{
    struct etcd_fault t = {.reason = "a:1 closed the connection", .code = -1, .has_answered = true};
    char hint[ETCD_HINT_MAX];

    (void)state;
    assert_string_equal(etcd_hint_write(&plain, &t, hint), "");
    t.has_answered = false;
    assert_string_equal(etcd_hint_write(&of_user, &t, hint), "");
}

static void each_fault_is_said_once_a_minute(void **state)
{
    static struct etcd_reasons t;
    char reason[ETCD_REASON_MAX + 100] = "a:1 cannot be reached";

    (void)state;
    assert_true(etcd_reason_is_news(&t, reason, 1000));
    assert_true(etcd_reason_is_news(&t, "b:1 cannot be reached", 1100));
    assert_false(etcd_reason_is_news(&t, reason, 1000 + ETCD_REASON_AGAIN_MS - 1));
    assert_false(etcd_reason_is_news(&t, "b:1 cannot be reached", 1000 + ETCD_REASON_AGAIN_MS));
    assert_true(etcd_reason_is_news(&t, reason, 1000 + ETCD_REASON_AGAIN_MS));
    assert_false(etcd_reason_is_news(&t, reason, 1000 + ETCD_REASON_AGAIN_MS));
    for (unsigned i = 0; i < ETCD_REASONS; i++) { /* the oldest is forgotten */
        snprintf(reason, sizeof reason, "m%u:1 cannot be reached", i);
        assert_true(etcd_reason_is_news(&t, reason, 200000 + i));
    }
    assert_true(etcd_reason_is_news(&t, "a:1 cannot be reached", 200100));
    memset(reason, 'x', sizeof reason - 1);
    assert_true(etcd_reason_is_news(&t, reason, 200200));
    assert_false(etcd_reason_is_news(&t, reason, 200300));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_names_its_setting),
        cmocka_unit_test(an_etcd_that_has_served_or_speaks_tls_is_not_said_to_want_it),
        cmocka_unit_test(each_fault_is_said_once_a_minute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
