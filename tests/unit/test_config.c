/* What a command line, an environment and a file mean together. Both front ends: our own flags, and
 * etcd's. What means nothing is in test_config_refusals.c. */
#include "rdzv/config/config.h"

#include "proto/etcd_types.h"
#include "rdzv/config/config_internal.h"
#include "tests/unit/config_start.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The listeners as one text: "127.0.0.1:1/default *:2/jobA!metrics [::1]:3/default?optional". */
static const char *listeners(const struct config *c)
{
    static char text[2000];
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < c->listener_count; i++) {
        const struct listen_spec *spec = &c->listeners[i];
        char address[CONFIG_ADDRESS_MAX];

        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s/%s%s%s%s", i > 0 ? " " : "",
                                config_format_address(spec, address), spec->space,
                                spec->metrics_only ? "!metrics" : "",
                                spec->optional ? "?optional" : "", spec->ipv6_only ? "!v6" : "");
    }
    return text;
}

static void defaults_are_those_of_the_manual(void **state)
{
    struct config c;

    (void)state;
    parse_well(&(struct start){.words = {NULL}}, &c);
    assert_string_equal(listeners(&c), "127.0.0.1:29400/default [::1]:29400/default?optional "
                                       "127.0.0.1:2379/default [::1]:2379/default?optional");
    assert_true(c.listeners_default && c.advertise_default && c.legacy);
    assert_false(c.etcd_mode);
    assert_int_equal(c.action, CONFIG_RUN);
    assert_int_equal(c.limits.value_max, 8 << 20);
    assert_int_equal(c.limits.output_max, 64 << 20);
    assert_int_equal(c.limits.connections_max, 0);
    assert_true(c.limits.memory_max == CONFIG_AUTO);
    assert_int_equal(c.limits.space_bytes_max, UINT64_C(4) << 30);
    assert_int_equal(c.limits.request_timeout_ms, 60000);
    assert_int_equal(c.space_idle_timeout_ms, 0);
    assert_int_equal(c.exit_when_idle_ms, 0);
    assert_false(c.exit_with_stdin);
    assert_int_equal(c.drain_timeout_ms, 5000);
    assert_int_equal(c.log_format, LOG_FORMAT_LOGFMT);
    assert_int_equal(c.log_level, LOG_INFO);
    assert_string_equal(c.name, "default");
    assert_null(c.data_dir);
    assert_null(c.config_file);
    assert_string_equal(c.advertise_client_urls.items[0], "http://localhost:2379");
    assert_string_equal(c.advertise_peer_urls.items[0], "http://localhost:2380");
    assert_null(c.initial_cluster);
    assert_string_equal(c.initial_cluster_token, "etcd-cluster");
    assert_int_equal(c.cors.count, 0);
    assert_int_equal(c.host_whitelist.count, 0);
    assert_int_equal(c.note_count, 0);
    config_free(&c);
}

static void every_flag_reaches_its_place(void **state)
{
    struct config c;

    (void)state;
    parse_well(&(struct start){.words = {"--listen=127.0.0.1:0/jobA", "-space-idle-timeout", "30s",
                                         "--exit-when-idle=5m", "--exit-with-stdin=on",
                                         "--drain-timeout=off", "--disable=c10d-legacy",
                                         "--log-format=json", "--log-level=warn"}},
               &c);
    assert_string_equal(listeners(&c), "127.0.0.1:0/jobA");
    assert_false(c.listeners_default || c.legacy);
    assert_int_equal(c.space_idle_timeout_ms, 30000);
    assert_int_equal(c.exit_when_idle_ms, 300000);
    assert_true(c.exit_with_stdin);
    assert_int_equal(c.drain_timeout_ms, 0);
    assert_int_equal(c.log_format, LOG_FORMAT_JSON);
    assert_int_equal(c.log_level, LOG_WARN);
    config_free(&c);

    parse_well(&(struct start){.words = {"--value-limit=2KiB", "--output-limit=5KiB",
                                         "--connection-limit=6", "--memory-limit=7MiB",
                                         "--space-limit=off", "--request-timeout=9s"}},
               &c);
    assert_int_equal(c.limits.value_max, 2048);
    assert_int_equal(c.limits.output_max, 5120);
    assert_int_equal(c.limits.connections_max, 6);
    assert_int_equal(c.limits.memory_max, 7 << 20);
    assert_int_equal(c.limits.space_bytes_max, 0);
    assert_int_equal(c.limits.request_timeout_ms, 9000);
    assert_true(c.legacy);
    config_free(&c);

    parse_well(
        &(struct start){.words = {"--name=n1", "--data-dir", "/d",
                                  "--advertise-client-urls=http://b:2, HTTP://a:1",
                                  "--cors=http://x:1,https://y:2", "--host-whitelist=one, two"}},
        &c);
    assert_string_equal(c.name, "n1");
    assert_string_equal(c.data_dir, "/d");
    assert_null(c.journal.url);
    assert_int_equal(c.advertise_client_urls.count, 2);
    assert_string_equal(c.advertise_client_urls.items[0], "HTTP://a:1"); /* sorted, as etcd does */
    assert_string_equal(c.advertise_client_urls.items[1], "http://b:2");
    assert_false(c.advertise_default);
    assert_int_equal(c.cors.count, 2);
    assert_string_equal(c.cors.items[1], "https://y:2");
    assert_int_equal(c.host_whitelist.count, 2);
    assert_string_equal(c.host_whitelist.items[1], "two");
    assert_int_equal(c.note_count, 0);
    config_free(&c);
}

static const struct {
    const char *text, *listeners;
} spellings[] = {
    {"127.0.0.1:29400", "127.0.0.1:29400/default"},
    {"0.0.0.0:1", "0.0.0.0:1/default"},
    {"*:1", "*:1/default"},
    {":1", "*:1/default"},
    {"*:65535/a", "*:65535/a"},
    {"[::1]:1", "[::1]:1/default"},
    {"[::]:1/ml.finetune", "[::]:1/ml.finetune!v6"},
    {"[fe80::1%eth0]:1", "[fe80::1%eth0]:1/default"},
    {"rdzv.example:1", "rdzv.example:1/default"},
    {"a_b-c.d:0", "a_b-c.d:0/default"},
    {"localhost:1/s", "127.0.0.1:1/s [::1]:1/s?optional"},
    {"LocalHost:1", "127.0.0.1:1/default [::1]:1/default?optional"},
    {"localhost:0", "127.0.0.1:0/default"},
    {"1.2.3.4:00080", "1.2.3.4:80/default"},
};

static void listeners_are_spelt_in_many_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(spellings); i++) {
        struct config c;

        parse_well(&(struct start){.words = {"--listen", spellings[i].text}}, &c);
        assert_string_equal(listeners(&c), spellings[i].listeners);
        config_free(&c);
    }
}

static void listeners_side_by_side(void **state)
{
    struct config c;

    (void)state;
    parse_well(
        &(struct start){.words = {"--listen=0.0.0.0:1/a", "--listen=[::]:1/b", "--listen=*:0",
                                  "--listen=127.0.0.1:0", "--listen=host:1", "--listen=*:2"}},
        &c);
    assert_string_equal(listeners(&c), "0.0.0.0:1/a [::]:1/b!v6 *:0/default 127.0.0.1:0/default "
                                       "host:1/default *:2/default");
    config_free(&c);
}

/* The first case of each is what Kubernetes manifests and torch's EtcdServer write. */
static const struct {
    struct start start;
    const char *listeners;
    const char *ignored; /* flags of notes of that kind, joined */
    const char *warned;
} etcd_starts[] = {
    {{.words = {"--enable-v2", "--data-dir", "/d", "--listen-client-urls", "http://localhost:7",
                "--advertise-client-urls", "http://localhost:7", "--listen-peer-urls",
                "http://localhost:8"}},
     "127.0.0.1:7/default",
     "--listen-peer-urls",
     ""},
    {{.words = {"/usr/local/bin/etcd", "--data-dir", "/var/lib/etcd", "--enable-v2",
                "--listen-client-urls", "http://0.0.0.0:2379", "--advertise-client-urls",
                "http://0.0.0.0:2379", "--initial-cluster-state", "new"}},
     "*:2379/default",
     "",
     ""},
    {{.environment = {"ETCD_ENABLE_V2=true", "ETCD_LISTEN_CLIENT_URLS=http://0.0.0.0:2379",
                      "ETCD_ADVERTISE_CLIENT_URLS=http://0.0.0.0:2379"}},
     "*:2379/default",
     "",
     ""},
    {{.words = {"--enable-v2", "--name=etcd-server", "--listen-peer-urls=http://0.0.0.0:2380",
                "--listen-client-urls=http://0.0.0.0:2379",
                "--advertise-client-urls=http://etcd-server:2379",
                "--initial-cluster=etcd-server=http://etcd-server:2380"},
      .environment = {"ETCD_PORT=tcp://10.0.0.1:2379", "ETCD_SERVICE_HOST=10.0.0.1", "PATH=/bin"}},
     "*:2379/default",
     "--listen-peer-urls",
     "ETCD_PORT ETCD_SERVICE_HOST"},
    {{.words = {"/bin/etcd"}}, "127.0.0.1:2379/default", "", "--enable-v2"},
    {{.words = {"etcd-is-no-name"}, .environment = {NULL}}, NULL, NULL, NULL},
    {{.words = {"/bin/etcd", "--enable-v2=false"}}, "127.0.0.1:2379/default", "", "--enable-v2"},
    {{.words = {"/bin/etcd", "--enable-v2", "--listen=127.0.0.1:0/jobA",
                "--space-idle-timeout=30s"},
      .environment = {"ETCD_VERSION=v3.4.23", "ETCD_NAME=x"}},
     "127.0.0.1:0/jobA",
     "",
     "ETCD_VERSION"},
    {{.words = {"--listen=127.0.0.1:0"}, .environment = {"ETCD_NAME=x", "ETCD_UNKNOWN=x"}},
     "127.0.0.1:0/default",
     "",
     "ETCD_NAME"},
    {{.words = {"--listen=127.0.0.1:0", "--enable-v2", "--listen-client-urls=http://127.0.0.1:5",
                "--advertise-client-urls=http://a:5"}},
     "127.0.0.1:0/default 127.0.0.1:5/default",
     "",
     ""},
    {{.words = {"--enable-v2",
                "--listen-client-urls=http://127.0.0.1:5,http://localhost:5,"
                "http://[::1]:6,http://[::]:7",
                "--advertise-client-urls=http://a:5",
                "--listen-metrics-urls=http://0.0.0.0:8,http://[::1]:6"}},
     "127.0.0.1:5/default [::1]:6/default *:7/default *:8/default!metrics",
     "",
     ""},
    {{.words = {"--enable-v2", "--listen-client-urls=http://127.0.0.1:5",
                "--listen-client-urls=http://127.0.0.1:6", "--advertise-client-urls=http://a:5",
                "--listen-client-urls="}},
     "127.0.0.1:6/default",
     "",
     ""},
    {{.words = {"--enable-v2", "--snapshot", "--v=5", "--heartbeat-interval=0x64", "--proxy=off",
                "--proxy=on", "--experimental-corrupt-check-time=1.5h", "--auto-tls",
                "--log-outputs=stderr,/x", "--initial-cluster-state=existing", "--peer-auto-tls"}},
     "127.0.0.1:2379/default",
     "--snapshot --v --heartbeat-interval --proxy --experimental-corrupt-check-time --auto-tls "
     "--peer-auto-tls --log-outputs",
     "--proxy --initial-cluster-state --enable-v2"},
    {{.words = {"--debug"}, .environment = {"ETCD_NAME=x"}},
     "127.0.0.1:2379/default",
     "",
     "--enable-v2 ETCD_NAME"},
    {{.words = {"--debug", "--listen=127.0.0.1:0"}}, "127.0.0.1:0/default", "", "--enable-v2"},
    {{.words = {"--initial-advertise-peer-urls=http://10.0.0.1:2380", "--name=b", "--enable-v2"}},
     "127.0.0.1:2379/default",
     "",
     "--initial-advertise-peer-urls"},
    {{.words = {"--config-file=rdzvd.yaml", "--name=x", "--space-idle-timeout=1s",
                "--snapshot-count=5"},
      .environment = {"ETCD_DATA_DIR=/x", "RDZVD_DATA_DIR=/ours"},
      .file = "name: y\nlisten-client-urls: http://127.0.0.1:5\nenable-v2: true\ncors:\nfoo: 1\n"
              "client-transport-security:\n  cert-file: x\n  auto-tls: false\n  key-file: y\n"
              "peer-transport-security:\n  cert-file: x\nsnapshot-count: 10000\n"},
     "127.0.0.1:5/default",
     "--name --snapshot-count rdzvd.yaml:8:13: auto-tls "
     "rdzvd.yaml:11:14: peer-cert-file rdzvd.yaml:12:17: snapshot-count",
     "rdzvd.yaml:5:1: foo"},
    {{.environment = {"ETCD_CONFIG_FILE=rdzvd.yaml"},
      .file = "listen-client-urls: [http://127.0.0.1:5, http://127.0.0.1:6]\nenable-v2: true\n"},
     "127.0.0.1:5/default 127.0.0.1:6/default",
     "",
     ""},
    {{.words = {"--config=rdzvd.yaml"},
      .file = "listen-client-urls: [http://127.0.0.1:5]\nadvertise-client-urls: http://a:1\n"
              "enable-v2: yes\n"},
     NULL,
     NULL,
     NULL},
};

static const char *note_flags(const struct config *c, enum config_note_kind kind)
{
    static char texts[2][1000];
    char *text = texts[kind];
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < c->note_count; i++) {
        if (c->notes[i].kind == kind)
            len += (size_t)snprintf(text + len, sizeof texts[0] - len, "%s%s", len > 0 ? " " : "",
                                    c->notes[i].flag);
        assert_true(strlen(c->notes[i].why) > 10);
    }
    return text;
}

static void it_starts_as_etcd_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(etcd_starts); i++) {
        struct config c;
        struct config_error error;
        bool ok = parse(&etcd_starts[i].start, &c, &error);

        if (ok != (etcd_starts[i].listeners != NULL))
            fail_msg("case %zu: %s", i, ok ? "not refused" : error.text);
        if (!ok)
            continue;
        if (strcmp(listeners(&c), etcd_starts[i].listeners) != 0 ||
            strcmp(note_flags(&c, CONFIG_NOTE_IGNORED), etcd_starts[i].ignored) != 0 ||
            strcmp(note_flags(&c, CONFIG_NOTE_WARNING), etcd_starts[i].warned) != 0)
            fail_msg("case %zu: %s\nignored: %s\nwarned: %s", i, listeners(&c),
                     note_flags(&c, CONFIG_NOTE_IGNORED), note_flags(&c, CONFIG_NOTE_WARNING));
        config_free(&c);
    }
}

/* A value that the flag takes. */
static const char *legal_value(const struct option *o)
{
    if (strcmp(o->name, "log-level") == 0)
        return "info";
    if (strcmp(o->name, "initial-cluster") == 0)
        return "default=http://localhost:2380";
    if (strcmp(o->name, "initial-advertise-peer-urls") == 0)
        return "http://localhost:2380";
    if (o->kind == OPTION_CHOICE || o->kind == OPTION_IGNORED)
        return o->value_name == NULL || strcmp(o->value_name, "true|false") == 0
                   ? "true"
                   : strchr(o->value_name, '|') + 1;
    return option_kind_is_list(o->kind) ? "http://127.0.0.1:5" : "x";
}

static void check_flag_of_etcd(const struct option *o)
{
    char word[100], variable[100];
    struct start by_flag = {.words = {word, "--advertise-client-urls=http://a:1", "--cert=x",
                                      "--key=x", "--client-ca=x"}};
    struct start by_variable = {.words = {"--cert=x", "--key=x", "--client-ca=x"},
                                .environment = {variable}};
    struct config c;

    snprintf(word, sizeof word, "--%s=%s", o->name, legal_value(o));
    parse_well(&by_flag, &c);
    if (o->kind == OPTION_IGNORED)
        assert_true(c.note_count > 0);
    config_free(&c);

    if (strcmp(o->name, "listen-client-urls") == 0)
        return;
    snprintf(variable, sizeof variable, "ETCD_%s=%s", o->name, legal_value(o));
    for (char *p = variable; *p != '='; p++)
        *p = (char)(*p == '-' ? '_' : *p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    parse_well(&by_variable, &c);
    assert_true(c.etcd_mode);
    config_free(&c);
}

static void every_flag_of_etcd_is_taken(void **state)
{
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct option *o = &config_options[i];

        if (o->owner == OWNER_RDZVD || o->kind == OPTION_FILE || o->kind == OPTION_ACTION)
            continue;
        check_flag_of_etcd(o);
        count++;
    }
    assert_true(count > 90);
}

/* etcd has one name for each, so it says nothing about two; a flag counts there, too. */
static void a_flag_wins_over_a_variable_of_another_name(void **state)
{
    const struct start start = {
        .words = {"--cert=a", "--key=b", "--client-ca=c", "--crl=d", "--client-names=e"},
        .environment = {"ETCD_CERT_FILE=v", "ETCD_KEY_FILE=w", "ETCD_TRUSTED_CA_FILE=x",
                        "ETCD_CLIENT_CRL_FILE=y", "ETCD_CLIENT_CERT_ALLOWED_HOSTNAME=z"}};
    struct config c;

    (void)state;
    parse_well(&start, &c);
    assert_string_equal(c.tls.cert, "a");
    assert_string_equal(c.tls.key, "b");
    assert_string_equal(c.tls.client_ca, "c");
    assert_string_equal(c.tls.crl, "d");
    assert_string_equal(c.tls.client_names.items[0], "e");
    assert_string_equal(c.notes[0].flag, "ETCD_CERT_FILE");
    assert_string_equal(c.notes[0].why, "not used, since --cert is given");
    config_free(&c);
}

/* Of etcd's names an empty text is none, as etcd has it; a variable then counts as not set. */
static void empty_names_of_files_are_none_as_in_etcd(void **state)
{
    const struct start start = {.words = {"--cert=a", "--key=b", "--trusted-ca-file="},
                                .environment = {"ETCD_CLIENT_CRL_FILE="}};
    struct config c;
    bool told = false;

    (void)state;
    parse_well(&start, &c);
    assert_null(c.tls.client_ca);
    assert_null(c.tls.crl);
    for (size_t i = 0; i < c.note_count; i++)
        told = told || (strcmp(c.notes[i].flag, "--trusted-ca-file") == 0 &&
                        strstr(c.notes[i].why, "clients need no certificate") != NULL);
    assert_true(told);
    config_free(&c);
}

static void actions_are_told_apart(void **state)
{
    static const struct {
        struct start start;
        enum config_action action;
    } cases[] = {
        {{.words = {"--help"}}, CONFIG_HELP},
        {{.words = {"-h"}}, CONFIG_HELP},
        {{.words = {"--space-idle-timeout=bad", "--help", "--nonsense"}}, CONFIG_HELP},
        {{.words = {"--version"}}, CONFIG_VERSION},
        {{.words = {"/etcd", "-version=true"}}, CONFIG_VERSION},
        {{.words = {"--version=false"}}, CONFIG_RUN},
        {{.words = {"--check-config", "--space-idle-timeout=1s"}}, CONFIG_CHECK},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct config c;

        parse_well(&cases[i].start, &c);
        assert_int_equal(c.action, cases[i].action);
        config_free(&c);
    }
}

static void the_command_line_wins_over_the_file(void **state)
{
    static const char file[] =
        "# a comment\nspace-idle-timeout: 9s\nlisten: [\"*:1\", '*:2/b']\nname: 5\n"
        "cors: [http://a:1, 'http://b:2']\ndisable: c10d-legacy\n";
    struct config c;

    (void)state;
    parse_well(&(struct start){.words = {"--config=rdzvd.yaml"}, .file = file}, &c);
    assert_string_equal(listeners(&c), "*:1/default *:2/b");
    assert_int_equal(c.space_idle_timeout_ms, 9000);
    assert_string_equal(c.name, "5");
    assert_int_equal(c.cors.count, 2);
    assert_false(c.legacy);
    assert_string_equal(c.config_file, "rdzvd.yaml");
    config_free(&c);

    parse_well(&(struct start){.words = {"--listen=*:7", "--config", "rdzvd.yaml",
                                         "--space-idle-timeout=1s", "--space-idle-timeout=2s",
                                         "--cors=*"}},
               &c);
    assert_string_equal(listeners(&c), "*:7/default");
    assert_int_equal(c.space_idle_timeout_ms, 2000);
    assert_int_equal(c.cors.count, 1);
    assert_string_equal(c.cors.items[0], "*");
    assert_string_equal(c.name, "5");
    config_free(&c);

    /* A variable of etcd's is nearer than the file, and further than nothing. */
    write_file("space-idle-timeout: 3s\nname: file\n",
               strlen("space-idle-timeout: 3s\nname: file\n"));
    parse_well(&(struct start){.words = {"--config=rdzvd.yaml"}, .environment = {"ETCD_NAME=env"}},
               &c);
    assert_string_equal(c.name, "env");
    assert_int_equal(c.space_idle_timeout_ms, 3000);
    assert_true(c.etcd_mode);
    config_free(&c);
}

/* A flag counts before a variable, and a variable before the file and before one of etcd's. */
static void variables_are_settings(void **state)
{
    struct config c;

    (void)state;
    parse_well(&(struct start){.words = {"--regroup-wait=7s", "--listen=127.0.0.1:0"},
                               .environment = {"RDZVD=/usr/bin/rdzvd", "RDZVD_DATA_DIR=/e",
                                               "RDZVD_REGROUP_WAIT=5s", "RDZVD_EXPECT=3",
                                               "RDZVD_CONFIG=rdzvd.yaml", "RDZVD_LISTEN=*:1"},
                               .file = "data-dir: /f\nname: filed\nexpect: 2\nlisten: '*:5'\n"},
               &c);
    assert_string_equal(c.data_dir, "/e");
    assert_int_equal(c.elastic.regroup_wait_ms, 7000);
    assert_int_equal(c.elastic.expected_nodes, 3);
    assert_string_equal(c.name, "filed");
    assert_string_equal(listeners(&c), "127.0.0.1:0/default");
    assert_int_equal(c.note_count, 0);
    assert_false(c.etcd_mode);
    config_free(&c);

    parse_well(&(struct start){.environment = {"RDZVD_LISTEN=[::1]:2/a", "RDZVD_NAME=ours",
                                               "ETCD_NAME=etcds"}},
               &c);
    assert_string_equal(listeners(&c), "[::1]:2/a");
    assert_string_equal(c.name, "ours");
    config_free(&c);
}

static void unknown_variables_are_noted(void **state)
{
    struct config c;

    (void)state;
    parse_well(
        &(struct start){.environment = {"RDZVD_REGRUP_WAIT=5s", "RDZVD_JOURNAAL=etcd://a:1/n",
                                        "RDZVD_PORT=29400", "RDZVD_HELP=1",
                                        "RDZVD_=", "rdzvd_name=x", "RDZVD_SERVICE_HOST=10.0.0.1",
                                        "RDZVD_PORT_29400_TCP_ADDR=10.0.0.1",
                                        "RDZVD_PORT=tcp://10.0.0.1:29400"}},
        &c);
    assert_string_equal(note_flags(&c, CONFIG_NOTE_WARNING),
                        "RDZVD_REGRUP_WAIT RDZVD_JOURNAAL RDZVD_PORT RDZVD_HELP");
    assert_non_null(strstr(c.notes[0].why, "did you mean RDZVD_REGROUP_WAIT?"));
    assert_non_null(strstr(c.notes[1].why, "did you mean RDZVD_JOURNAL?"));
    assert_non_null(strstr(c.notes[2].why, "did you mean RDZVD_LISTEN?"));
    assert_false(c.etcd_mode);
    config_free(&c);
}

static void small_print(void **state)
{
    struct config c;

    (void)state;
    parse_well(
        &(struct start){.words = {"--log-level=fatal", "--advertise-client-urls=http://user@a:1"}},
        &c);
    assert_int_equal(c.log_level, LOG_ERROR);
    config_free(&c);
    config_free(&c); /* an ender leaves nothing behind */
    config_free(NULL);

    parse_well(&(struct start){.words = {"--host-whitelist=a , *"}}, &c);
    assert_int_equal(c.host_whitelist.count, 1);
    assert_string_equal(c.host_whitelist.items[0], "*");
    config_free(&c);
}

/* Under etcd's name all pages and all names are welcome, as with etcd; not for its flags alone. */
static void an_etcd_lets_web_pages_in(void **state)
{
    struct config c;

    (void)state;
    parse_well(&(struct start){.words = {"/usr/bin/etcd"}}, &c);
    assert_int_equal(c.cors.count, 1);
    assert_string_equal(c.cors.items[0], "*");
    assert_string_equal(c.host_whitelist.items[0], "*");
    config_free(&c);
    parse_well(&(struct start){.words = {"/usr/bin/etcd", "--cors=http://a:1"}}, &c);
    assert_int_equal(c.cors.count, 1);
    assert_string_equal(c.cors.items[0], "http://a:1");
    config_free(&c);
    parse_well(&(struct start){.words = {"--enable-v2"}}, &c);
    assert_true(c.etcd_mode);
    assert_int_equal(c.cors.count + c.host_whitelist.count, 0);
    config_free(&c);
}

static void booleans_are_read_as_go_does(void **state)
{
    static const char *const good[2][6] = {{"0", "f", "F", "false", "FALSE", "False"},
                                           {"1", "t", "T", "true", "TRUE", "True"}};
    static const char *const bad[] = {"yes", "tRUE", "2", "on", "-1", ""};
    bool value;

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        for (int wanted = 0; wanted < 2; wanted++) {
            assert_true(etcd_parse_bool(slice_str(good[wanted][i]), &value));
            assert_int_equal(value, wanted);
        }
        assert_false(etcd_parse_bool(slice_str(bad[i]), &value));
    }
}

static void inherited_sockets_find_their_place(void **state)
{
    struct config c;

    (void)state;
    parse_well(&(struct start){.words = {NULL}}, &c);
    config_adopt_socket(&c, 3, "", 29400, "jobA");
    config_adopt_socket(&c, 4, "127.0.0.1", 2379, "no/space");
    assert_string_equal(listeners(&c), "*:29400/jobA 127.0.0.1:2379/default");
    assert_int_equal(c.listeners[0].fd, 3);
    assert_int_equal(c.listeners[1].fd, 4);
    config_free(&c);

    parse_well(&(struct start){.words = {"--listen=127.0.0.1:1/a", "--listen=*:2/b"}}, &c);
    config_adopt_socket(&c, 3, "", 2, "other");
    config_adopt_socket(&c, 4, "::1", 9, "");
    assert_string_equal(listeners(&c), "127.0.0.1:1/a *:2/b [::1]:9/default");
    assert_int_equal(c.listeners[0].fd, -1);
    assert_int_equal(c.listeners[1].fd, 3);
    assert_int_equal(c.listeners[2].fd, 4);
    config_free(&c);

    parse_well(&(struct start){.words = {"--listen-metrics-urls=http://127.0.0.1:5"}}, &c);
    config_adopt_socket(&c, 3, "", 1, "");
    assert_string_equal(listeners(&c), "127.0.0.1:5/default!metrics *:1/default");
    config_free(&c);
}

static void the_journal_on_etcd_is_read(void **state)
{
    struct config c;

    (void)state;
    parse_well(&(struct start){.words = {"--journal=etcd://h1:2379,[fd00::1]:2,10.0.0.1:3/job-a",
                                         "--journal-lease=10s", "--journal-user=u",
                                         "--journal-password-file=f"}},
               &c);
    assert_string_equal(c.journal.name, "job-a");
    assert_int_equal(c.journal.endpoint_count, 3);
    assert_string_equal(c.journal.endpoints[0].host, "h1");
    assert_int_equal(c.journal.endpoints[0].port, 2379);
    assert_string_equal(c.journal.endpoints[1].host, "fd00::1");
    assert_int_equal(c.journal.endpoints[2].port, 3);
    assert_int_equal(c.journal.lease_ms, 10000);
    assert_string_equal(c.journal.user, "u");
    assert_string_equal(c.journal.password_file, "f");
    config_free(&c);
}

/* The links of all spaces of a replica go to one port of the leader, which has to take them. */
static void replicas_that_pass_on_need_a_listener_of_any_space(void **state)
{
    static const struct {
        const char *listen[3];
        const char *warned;
    } cases[] = {
        {{"*:1"}, ""},
        {{"*:1/a"}, ""},
        {{"*:1", "*:2/b"}, ""},
        {{"*:1/a", "*:2/a"}, ""},
        {{"*:1/a", "unix:/b"}, ""},
        {{"*:1/a", "*:2/b"}, "--upstream"},
        {{"*:1/a", "*:2/b", "*:3/c"}, "--upstream"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct start start = {.words = {"--upstream=r:1", "--journal=etcd://e:1/n"}};
        char flags[3][32];
        struct config c;

        for (size_t j = 0; j < 3 && cases[i].listen[j] != NULL; j++) {
            snprintf(flags[j], sizeof flags[j], "--listen=%s", cases[i].listen[j]);
            start.words[2 + j] = flags[j];
        }
        parse_well(&start, &c);
        assert_true(config_passes_on(&c) && !config_is_relay(&c));
        assert_string_equal(note_flags(&c, CONFIG_NOTE_WARNING), cases[i].warned);
        config_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_journal_on_etcd_is_read),
        cmocka_unit_test(defaults_are_those_of_the_manual),
        cmocka_unit_test(every_flag_reaches_its_place),
        cmocka_unit_test(listeners_are_spelt_in_many_ways),
        cmocka_unit_test(listeners_side_by_side),
        cmocka_unit_test(it_starts_as_etcd_does),
        cmocka_unit_test(every_flag_of_etcd_is_taken),
        cmocka_unit_test(a_flag_wins_over_a_variable_of_another_name),
        cmocka_unit_test(empty_names_of_files_are_none_as_in_etcd),
        cmocka_unit_test(actions_are_told_apart),
        cmocka_unit_test(the_command_line_wins_over_the_file),
        cmocka_unit_test(variables_are_settings),
        cmocka_unit_test(unknown_variables_are_noted),
        cmocka_unit_test(small_print),
        cmocka_unit_test(an_etcd_lets_web_pages_in),
        cmocka_unit_test(booleans_are_read_as_go_does),
        cmocka_unit_test(inherited_sockets_find_their_place),
        cmocka_unit_test(replicas_that_pass_on_need_a_listener_of_any_space),
    };

    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
