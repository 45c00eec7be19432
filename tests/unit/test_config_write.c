/* Settings as text: those in effect, which read back, and what --check-config, --help and --version
 * print. */
#include "rdzv/config/config_internal.h"

#include "tests/unit/config_start.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static char *effective(const struct config *c)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    config_write_effective(out, c);
    fclose(out);
    return text;
}

static void settings_in_effect_read_back(void **state)
{
    static const struct start starts[] = {
        {.words = {NULL}},
        {.words = {"--listen=localhost:1/a", "--listen=[::]:2", "--listen=0.0.0.0:2",
                   "--listen=*:0", "--listen=host.name:3"}},
        {.words = {"--space-idle-timeout=90500ms", "--value-limit=1.5MiB", "--space-limit=off",
                   "--disable=c10d-legacy", "--log-format=json", "--log-level=error"}},
        {.words = {"--name=quo\"te\\ \n\x7f \xc3\xbc: #x", "--data-dir=/d d", "--cors=http://a:1",
                   "--host-whitelist=a,b", "--advertise-client-urls=http://b:1,http://a:1"}},
        {.words = {"/etcd"}},
        {.words = {"--journal=etcd://a:1,b:2/jobs", "--journal-user=u",
                   "--journal-password-file=/run/p", "--journal-ca=ca", "--journal-cert=c",
                   "--journal-key=k"}},
        {.words = {"--listen=unix:/run/a \"b", "--listen=:1", "--admin-token-file=/run/token",
                   "--read-token-file=/run/readers"}},
        {.words = {"--enable-v2", "--name=b", "--initial-advertise-peer-urls=http://10.0.0.1:2380",
                   "--initial-cluster-token=t", "--listen-client-urls=http://0.0.0.0:5",
                   "--advertise-client-urls=http://b:5",
                   "--listen-metrics-urls=http://0.0.0.0:6,http://[::1]:7"}},
        {.words = {"--listen=tls:*:1/a", "--listen=plain:127.0.0.1:2", "--listen=localhost:3",
                   "--cert=/a b", "--key=k", "--plaintext=10.0.0.0/8, ::1", "--allow=fd00::/8"}},
        {.words = {"--cert=a", "--key=k", "--client-ca=c", "--client-cert=optional",
                   "--client-names=a,spiffe://b/c", "--crl=d", "--admin-names=d", "--read-names=r",
                   "--relay-names=e=f,e=g"}},
        {.words = {"--upstream=a:1", "--upstream-ca=system", "--upstream-cert=c",
                   "--upstream-key=k", "--upstream-name=n", "--crl=d"}},
        {.words = {"--upstream=a:1", "--space=job-a", "--listen=*:1/default"}},
        {.words = {"--upstream=a:1", "--exit-on-restart=85", "--expect=4", "--name=node-1"}},
        {.words = {"--upstream=a:1,b:1", "--journal=etcd://c:1/jobs", "--listen=*:1",
                   "--listen=*:2/job-b", "--upstream-ca=system"}},
        {.words = {"--listen-client-urls=https://0.0.0.0:5,http://127.0.0.1:6",
                   "--advertise-client-urls=https://b:5", "--cert-file=x", "--key-file=y",
                   "--listen-metrics-urls=https://0.0.0.0:7"}},
        {.environment = {"ETCD_NAME=x", "ETCD_LOGGER=zap", "ETCD_DEBUG=true"}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(starts); i++) {
        struct config c, again;
        char *first, *second;

        parse_well(&starts[i], &c);
        first = effective(&c);
        parse_well(&(struct start){.words = {"--config=rdzvd.yaml"}, .file = first}, &again);
        second = effective(&again);
        assert_string_equal(first, second);
        assert_int_equal(again.etcd_mode, c.etcd_mode);
        assert_int_equal(again.listener_count, c.listener_count);
        for (size_t k = 0; k < c.listener_count; k++) {
            assert_string_equal(again.listeners[k].space, c.listeners[k].space);
            assert_int_equal(again.listeners[k].space_named, c.listeners[k].space_named);
        }
        assert_string_equal(again.name, c.name);
        assert_memory_equal(&again.limits, &c.limits, sizeof c.limits);
        free(first);
        free(second);
        config_free(&c);
        config_free(&again);
    }
}

static void a_check_says_ok_and_tells_the_notes(void **state)
{
    static const char start[] = "# configuration ok\n"
                                "# warning: ETCD_A?B: unrecognized environment variable: no flag "
                                "of etcd's has this name\n"
                                "# ignored: --pre-vote: there is no raft log here: one process "
                                "holds the state\n"
                                "# warning: --pre-vote: is a setting of etcd's, so rdzvd serves as "
                                "an etcd, and only at 127.0.0.1:2379; give --listen, or leave it "
                                "out\n"
                                "listen: [\"127.0.0.1:2379\"]\n";
    struct config c;
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    parse_well(&(struct start){.words = {"--check-config", "--pre-vote", "--enable-v2"},
                               .environment = {"ETCD_A\nB=x"}},
               &c);
    config_write_check(out, &c, true);
    fclose(out);
    text[sizeof start - 1] = '\0';
    assert_string_equal(text, start);
    free(text);
    config_free(&c);
}

static void help_has_lines_that_fit_and_the_defaults(void **state)
{
    char *text = strdup(config_help);

    (void)state;
    assert_non_null(strstr(text, "\n  --idle-run-ttl=DURATION|off "));
    assert_non_null(strstr(text, " an agent (1d)\n"));
    assert_null(strstr(text, "--disable"));
    assert_null(strstr(text, "--listen-client-urls="));
    assert_non_null(strstr(text, "Host headers to answer, * is any (any, on loopback its own)\n"));
    assert_non_null(strstr(config_help_of_etcd, "Host headers to answer, * is any (*)\n"));
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (strlen(line) > 110)
            fail_msg("a line of %zu columns: %s", strlen(line), line);
    }
    free(text);
}

static void the_version_is_one_line_or_etcds_four(void **state)
{
    static const char *const firsts[] = {"rdzvd 1.2.3\n", "etcd Version: 3.4.23\nGit SHA: "};
    static const struct start starts[] = {{.words = {"--version"}},
                                          {.words = {"/etcd", "--version"}}};
    static const size_t lines[] = {1, 4};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct config c;
        char *text = NULL;
        size_t len, count = 0;
        FILE *out = open_memstream(&text, &len);

        parse_well(&starts[i], &c);
        config_write_version(out, &c, "1.2.3");
        fclose(out);
        assert_memory_equal(text, firsts[i], strlen(firsts[i]));
        for (const char *p = text; *p != '\0'; p++)
            count += *p == '\n';
        assert_int_equal(count, lines[i]);
        free(text);
        config_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_in_effect_read_back),
        cmocka_unit_test(a_check_says_ok_and_tells_the_notes),
        cmocka_unit_test(help_has_lines_that_fit_and_the_defaults),
        cmocka_unit_test(the_version_is_one_line_or_etcds_four),
    };

    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
