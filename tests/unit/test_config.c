/* What a command line, an environment and a file mean together, and what is said when they mean
 * nothing. Both front ends: our own flags, and etcd's. */
#include "rdzv/config.h"
#include "rdzv/config_file.h"
#include "rdzv/etcd_flags.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define WORDS_MAX    12

/* A command line: its words, the environment, and what rdzvd.yaml in the working directory holds
 * (NULL: nothing is written). */
struct start {
    const char
        *words[WORDS_MAX]; /* argv[0] is "rdzvd", unless the first word starts with a slash */
    const char *environment[WORDS_MAX];
    const char *file;
};

static char folder[] = "/tmp/rdzv-config-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : chdir(folder);
}

static int leave_folder(void **state)
{
    (void)state;
    unlink("rdzvd.yaml");
    return chdir("/") == 0 ? rmdir(folder) : -1;
}

static void write_file(const char *text, size_t len)
{
    int fd = open("rdzvd.yaml", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

static bool parse(const struct start *start, struct config *config, struct config_error *error)
{
    char *argv[WORDS_MAX + 2] = {(char *)(uintptr_t) "rdzvd"};
    int argc = 1;

    if (start->words[0] != NULL && start->words[0][0] == '/')
        argc = 0;
    for (size_t i = 0; i < WORDS_MAX && start->words[i] != NULL; i++)
        argv[argc++] = (char *)(uintptr_t)start->words[i];
    if (start->file != NULL)
        write_file(start->file, strlen(start->file));
    return config_parse(argc, argv, (char *const *)(uintptr_t)start->environment, config, error);
}

static void parse_well(const struct start *start, struct config *config)
{
    struct config_error error;

    if (!parse(start, config, &error))
        fail_msg("refused: %s", error.text);
}

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

static void defaults_are_those_of_the_manual(void **state)
{
    struct config c;

    (void)state;
    parse_well(&(struct start){.words = {NULL}}, &c);
    assert_string_equal(listeners(&c), "127.0.0.1:29400/default [::1]:29400/default?optional "
                                       "127.0.0.1:2379/default [::1]:2379/default?optional");
    assert_true(c.listeners_default && c.advertise_default && c.classic);
    assert_false(c.etcd_mode);
    assert_int_equal(c.action, CONFIG_RUN);
    assert_int_equal(c.transitional, CONFIG_TRANSITIONAL_OFF);
    assert_int_equal(c.limits.key_max, 8192);
    assert_int_equal(c.limits.value_max, 8 << 20);
    assert_int_equal(c.limits.keys_max, 131072);
    assert_int_equal(c.limits.request_max, 64 << 20);
    assert_int_equal(c.limits.output_max, 64 << 20);
    assert_int_equal(c.limits.connections_max, 0);
    assert_int_equal(c.limits.space_bytes_max, UINT64_C(4) << 30);
    assert_int_equal(c.limits.watchers_max, 131072);
    assert_int_equal(c.limits.http_head_max, 1 << 20);
    assert_int_equal(c.limits.http_form_max, 10 << 20);
    assert_int_equal(c.limits.request_timeout_ms, 60000);
    assert_int_equal(c.linger_ms, 0);
    assert_int_equal(c.exit_when_idle_ms, 0);
    assert_int_equal(c.drain_timeout_ms, 5000);
    assert_int_equal(c.log_format, LOG_FORMAT_LOGFMT);
    assert_int_equal(c.log_level, LOG_INFO);
    assert_string_equal(c.name, "default");
    assert_null(c.data_dir);
    assert_null(c.config_file);
    assert_string_equal(c.advertise_client_urls.items[0], "http://localhost:2379");
    assert_string_equal(c.advertise_peer_urls.items[0], "http://localhost:2380");
    assert_string_equal(c.initial_cluster, "default=http://localhost:2380");
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
    parse_well(
        &(struct start){.words = {"--listen=127.0.0.1:0/jobA", "-linger", "30s",
                                  "--exit-when-idle=5m", "--drain-timeout=off", "--classic=off",
                                  "--transitional", "x2", "--log-format=json", "--log-level=warn"}},
        &c);
    assert_string_equal(listeners(&c), "127.0.0.1:0/jobA");
    assert_false(c.listeners_default || c.classic);
    assert_int_equal(c.linger_ms, 30000);
    assert_int_equal(c.exit_when_idle_ms, 300000);
    assert_int_equal(c.drain_timeout_ms, 0);
    assert_int_equal(c.transitional, CONFIG_TRANSITIONAL_X2);
    assert_int_equal(c.log_format, LOG_FORMAT_JSON);
    assert_int_equal(c.log_level, LOG_WARN);
    config_free(&c);

    parse_well(
        &(struct start){.words = {"--key-limit=1KiB", "--value-limit=2KiB", "--keys-limit=3",
                                  "--request-limit=4KiB", "--output-limit=5KiB",
                                  "--connection-limit=6", "--space-limit=off", "--watcher-limit=8",
                                  "--request-timeout=9s", "--classic=true", "--transitional=x1"}},
        &c);
    assert_int_equal(c.limits.key_max, 1024);
    assert_int_equal(c.limits.value_max, 2048);
    assert_int_equal(c.limits.keys_max, 3);
    assert_int_equal(c.limits.request_max, 4096);
    assert_int_equal(c.limits.output_max, 5120);
    assert_int_equal(c.limits.connections_max, 6);
    assert_int_equal(c.limits.space_bytes_max, 0);
    assert_int_equal(c.limits.watchers_max, 8);
    assert_int_equal(c.limits.request_timeout_ms, 9000);
    assert_true(c.classic);
    assert_int_equal(c.transitional, CONFIG_TRANSITIONAL_X1);
    config_free(&c);

    parse_well(
        &(struct start){.words = {"--name=n1", "--data-dir", "/d",
                                  "--advertise-client-urls=http://b:2, HTTP://a:1",
                                  "--cors=http://x:1,https://y:2", "--host-whitelist=one, two"}},
        &c);
    assert_string_equal(c.name, "n1");
    assert_string_equal(c.data_dir, "/d");
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
    {{.words = {"/bin/etcd", "--enable-v2", "--listen=127.0.0.1:0/jobA", "--linger=30s"},
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
                "--proxy=on", "--experimental-corrupt-check-time=1.5h", "--cert-file=x",
                "--log-outputs=stderr,/x", "--initial-cluster-state=existing", "--peer-auto-tls"}},
     "127.0.0.1:2379/default",
     "--snapshot --v --heartbeat-interval --proxy --experimental-corrupt-check-time --cert-file "
     "--log-outputs --peer-auto-tls",
     "--proxy --initial-cluster-state"},
    {{.words = {"--initial-advertise-peer-urls=http://10.0.0.1:2380", "--name=b", "--enable-v2"}},
     "127.0.0.1:2379/default",
     "",
     ""},
    {{.words = {"--config-file=rdzvd.yaml", "--name=x", "--linger=1s", "--snapshot-count=5"},
      .environment = {"ETCD_DATA_DIR=/x"},
      .file = "name: y\nlisten-client-urls: http://127.0.0.1:5\nenable-v2: true\ncors:\nfoo: 1\n"
              "client-transport-security:\n  cert-file: x\n  auto-tls: false\n  key-file:\n"
              "peer-transport-security:\n  cert-file: x\nsnapshot-count: 10000\n"},
     "127.0.0.1:5/default",
     "--name --snapshot-count rdzvd.yaml:7:14: cert-file rdzvd.yaml:8:13: auto-tls "
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

static void every_flag_of_etcd_is_taken(void **state)
{
    static const char *const values[] = {
        [ETCD_TYPE_STRING] = "x",       [ETCD_TYPE_BOOL] = "true",
        [ETCD_TYPE_INT] = "-5",         [ETCD_TYPE_UINT] = "5",
        [ETCD_TYPE_DURATION] = "5s",    [ETCD_TYPE_URLS] = "http://127.0.0.1:5",
        [ETCD_TYPE_LIST] = "http://a:1"};
    const struct etcd_flag *flag;

    (void)state;
    for (size_t i = 0; (flag = etcd_flag_at(i)) != NULL; i++) {
        char word[100], variable[100];
        const char *value = values[flag->type];
        struct start by_flag = {.words = {word, "--advertise-client-urls=http://a:1"}};
        struct start by_variable = {.environment = {variable}};
        struct config c;

        if (strcmp(flag->name, "config-file") == 0 || strcmp(flag->name, "version") == 0)
            continue;
        if (flag->choices != NULL || strcmp(flag->name, "log-level") == 0)
            value = flag->choices == NULL ? "info" : strchr(flag->choices, '|') + 1;
        if (flag->choices != NULL && strchr(value, '|') != NULL)
            value = "on"; /* of --proxy, the one with three */
        if (strcmp(flag->name, "initial-cluster") == 0)
            value = "default=http://localhost:2380";
        if (strcmp(flag->name, "initial-advertise-peer-urls") == 0)
            value = "http://localhost:2380";
        snprintf(word, sizeof word, "--%s=%s", flag->name, value);
        parse_well(&by_flag, &c);
        if (flag->ignored != NULL)
            assert_true(c.note_count > 0);
        config_free(&c);

        if (strcmp(flag->name, "listen-client-urls") == 0)
            continue;
        snprintf(variable, sizeof variable, "ETCD_%s=%s", flag->name, value);
        for (char *p = variable; *p != '='; p++)
            *p = (char)(*p == '-' ? '_' : *p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
        parse_well(&by_variable, &c);
        assert_true(c.etcd_mode);
        config_free(&c);
    }
}

static const struct {
    struct start start;
    int exit_code;
    const char *text;
} refusals[] = {
    /* Words that are no flags. */
    {{.words = {"--lisen", "x"}}, 2, "--lisen: no such setting; did you mean --listen?"},
    {{.words = {"--enable-v3"}}, 2, "--enable-v3: no such setting; did you mean --enable-v2?"},
    {{.words = {"-l"}}, 2, "--l: no such setting; `rdzvd --help` lists them"},
    {{.words = {"--lniger=1s"}}, 2, "--lniger: no such setting; did you mean --linger?"},
    {{.words = {"--a-flag-far-too-long-to-be-a-slip-of-any-flag-of-ours"}},
     2,
     "--a-flag-far-too-long-to-be-a-slip-of-any-flag-of-ours: no such setting; `rdzvd --help` "
     "lists "
     "them"},
    {{.words = {"--listen=a-host-name-as-long-as-an-address-of-ipv6-never-is.example.org:x"}},
     2,
     "--listen: \"a-host-name-as-long-as-an-address-of-ipv6-never-is.example.org:x\": the port is "
     "a "
     "number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--frobnicate"}}, 2, "--frobnicate: no such setting; `rdzvd --help` lists them"},
    {{.words = {"/etcd", "--frobnicate"}},
     2,
     "--frobnicate: no such setting; `etcd --help` lists them"},
    {{.words = {"---listen"}}, 2, "\"---listen\" is no flag; write --name or --name=value"},
    {{.words = {"--=x"}}, 2, "\"--=x\" is no flag; write --name or --name=value"},
    {{.words = {"start"}}, 2, "\"start\" is not a flag; flags start with --"},
    {{.words = {"-"}}, 2, "\"-\" is not a flag; flags start with --"},
    {{.words = {"--", "x"}}, 2, "\"x\" is not a flag; flags start with --"},
    {{.words = {"/bin/etcd", "gateway"}}, 1, "\"gateway\" is not a flag; flags start with --"},
    {{.words = {"--enable-v2", "true"}},
     1,
     "\"true\" is not a flag; a value of --enable-v2 is joined to it: --enable-v2=true"},
    {{.words = {"--listen"}}, 2, "--listen: needs a value: --listen=VALUE or --listen VALUE"},
    {{.words = {"--check-config=yes"}}, 2, "--check-config: \"yes\": takes no value"},

    /* Listeners. */
    {{.words = {"--listen="}},
     2,
     "--listen: \"\": there is no port; write ADDR:PORT, such as 127.0.0.1:29400"},
    {{.words = {"--listen=29400"}},
     2,
     "--listen: \"29400\": this is a port alone; write *:PORT for every address, or ADDR:PORT"},
    {{.words = {"--listen=0.0.0.0"}},
     2,
     "--listen: \"0.0.0.0\": there is no port; write ADDR:PORT, such as 127.0.0.1:29400"},
    {{.words = {"--listen=host"}},
     2,
     "--listen: \"host\": there is no port; write ADDR:PORT, such as 127.0.0.1:29400"},
    {{.words = {"--listen=host:"}},
     2,
     "--listen: \"host:\": the port is a number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--listen=host:http"}},
     2,
     "--listen: \"host:http\": the port is a number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--listen=host:65536"}},
     2,
     "--listen: \"host:65536\": the port is a number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--listen=host:-1"}},
     2,
     "--listen: \"host:-1\": the port is a number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--listen=::1:29400"}},
     2,
     "--listen: \"::1:29400\": an IPv6 address stands in brackets, as in [::1]:29400"},
    {{.words = {"--listen=[::1:29400"}},
     2,
     "--listen: \"[::1:29400\": there is no ] behind the IPv6 address; write [ADDR]:PORT"},
    {{.words = {"--listen=[::g]:1"}},
     2,
     "--listen: \"[::g]:1\": there is no IPv6 address between [ and ]"},
    {{.words = {"--listen=[127.0.0.1]:1"}},
     2,
     "--listen: \"[127.0.0.1]:1\": there is no IPv6 address between [ and ]"},
    {{.words = {"--listen=[::1]"}},
     2,
     "--listen: \"[::1]\": there is no port; write ADDR:PORT, such as 127.0.0.1:29400"},
    {{.words = {"--listen=[::1]x:1"}},
     2,
     "--listen: \"[::1]x:1\": there is no port; write ADDR:PORT, such as 127.0.0.1:29400"},
    {{.words = {"--listen=256.0.0.1:1"}},
     2,
     "--listen: \"256.0.0.1:1\": this is no IPv4 address; write four numbers from 0 to 255"},
    {{.words = {"--listen=1.2.3:1"}},
     2,
     "--listen: \"1.2.3:1\": this is no IPv4 address; write four numbers from 0 to 255"},
    {{.words = {"--listen=-a:1"}},
     2,
     "--listen: \"-a:1\": this is no host name; write ADDR:PORT, such as 127.0.0.1:29400 or "
     "*:29400"},
    {{.words = {"--listen=a b:1"}},
     2,
     "--listen: \"a b:1\": this is no host name; write ADDR:PORT, such as 127.0.0.1:29400 or "
     "*:29400"},
    {{.words = {"--listen=http://0.0.0.0:1"}},
     2,
     "--listen: \"http://0.0.0.0:1\": this is a URL; write ADDR:PORT, or use "
     "--listen-client-urls"},
    {{.words = {"--listen=/run/rdzvd.sock"}},
     2,
     "--listen: \"/run/rdzvd.sock\": Unix sockets are not served; write ADDR:PORT"},
    {{.words = {"--listen=unix:/run/x"}},
     2,
     "--listen: \"unix:/run/x\": Unix sockets are not served; write ADDR:PORT"},
    {{.words = {"--listen=*:1/"}},
     2,
     "--listen: \"*:1/\": a space is named with 1 to 253 letters, digits, `.`, `_` or `-`, a "
     "letter or digit first"},
    {{.words = {"--listen=*:1/a/b"}},
     2,
     "--listen: \"*:1/a/b\": a space is named with 1 to 253 letters, digits, `.`, `_` or `-`, a "
     "letter or digit first"},
    {{.words = {"--listen=*:1/.a"}},
     2,
     "--listen: \"*:1/.a\": a space is named with 1 to 253 letters, digits, `.`, `_` or `-`, a "
     "letter or digit first"},
    {{.words = {"--listen=*:1\n/a"}},
     2,
     "--listen: \"*:1\\x0a/a\": the port is a number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--listen=*:1\xff"}},
     2,
     "--listen: \"*:1\xff\": is not UTF-8 text; write it in UTF-8"},
    {{.words = {"--listen=127.0.0.1:1/a", "--listen=127.0.0.1:1/b"}},
     2,
     "--listen: 127.0.0.1:1 is there twice; keep one"},
    {{.words = {"--listen=*:1", "--listen=127.0.0.1:1"}},
     2,
     "--listen: *:1 and 127.0.0.1:1 cannot both be listened on; drop one, or change a port"},
    {{.words = {"--listen=10.0.0.1:1", "--listen=0.0.0.0:1"}},
     2,
     "--listen: 10.0.0.1:1 and 0.0.0.0:1 cannot both be listened on; drop one, or change a port"},
    {{.words = {"--listen=[::]:1", "--listen=[::1]:1"}},
     2,
     "--listen: [::]:1 and [::1]:1 cannot both be listened on; drop one, or change a port"},
    {{.words = {"--listen-client-urls=http://0.0.0.0:1,http://127.0.0.1:1",
                "--advertise-client-urls=http://a:1"}},
     1,
     "--listen-client-urls: *:1 and 127.0.0.1:1 cannot both be listened on; drop one, or change a "
     "port"},

    /* Amounts and choices. */
    {{.words = {"--linger=30x"}},
     2,
     "--linger: \"30x\": no unit of time; use ms, s, m, h or d, as in 500ms, 30s or 1h30m"},
    {{.words = {"--linger="}},
     2,
     "--linger: \"\": not a duration; write a number and a unit, such as 500ms, 30s or 2m"},
    {{.words = {"--linger=-1s"}},
     2,
     "--linger: \"-1s\": not a duration; write a number and a unit, such as 500ms, 30s or 2m"},
    {{.words = {"--value-limit=8M"}},
     2,
     "--value-limit: \"8M\": could mean 1000s or 1024s; add iB (as in 8MiB) or B (as in 8MB)"},
    {{.words = {"--value-limit=off"}},
     2,
     "--value-limit: \"off\": not a size; write a number and a unit, such as 64KiB, 8MiB or 4GiB"},
    {{.words = {"--value-limit=0"}},
     2,
     "--value-limit: \"0\": must be from 1B to 8388607TiB"},
    {{.words = {"--key-limit=1GiB"}}, 2, "--key-limit: \"1GiB\": must be from 1B to 968MiB"},
    {{.words = {"--keys-limit=0"}}, 2, "--keys-limit: \"0\": must be from 1 to 4294967295"},
    {{.words = {"--keys-limit=1k"}}, 2, "--keys-limit: \"1k\": not a whole number; write one"},
    {{.words = {"--connection-limit=many"}},
     2,
     "--connection-limit: \"many\": not a whole number; write one, or off"},
    {{.words = {"--connection-limit=99999999999999999999999"}},
     2,
     "--connection-limit: \"99999999999999999999999\": must be from 0 to 4294967295"},
    {{.words = {"--classic=maybe"}}, 2, "--classic: \"maybe\": must be one of on|off"},
    {{.words = {"--transitional=x3"}}, 2, "--transitional: \"x3\": must be one of off|x1|x2"},
    {{.words = {"--log-level=trace"}},
     2,
     "--log-level: \"trace\": must be one of debug|info|warn|error"},
    {{.words = {"--log-format=xml"}}, 2, "--log-format: \"xml\": must be one of logfmt|json"},
    {{.words = {"--linger=bad", "--linger=5s"}},
     2,
     "--linger: \"bad\": not a duration; write a "
     "number and a unit, such as 500ms, 30s or 2m"},
    {{.words = {"--name="}}, 2, "--name: is empty; give the member a name"},
    {{.words = {"--cors="}}, 2, "--cors: is empty; write * for any origin, or URLs"},
    {{.words = {"--cors=*,http://a:1"}},
     2,
     "--cors: \"*\": URL scheme must be http, https, unix, or unixs; write http://HOST:PORT"},
    {{.words = {"--advertise-client-urls=foo"}},
     2,
     "--advertise-client-urls: \"foo\": URL scheme must be http, https, unix, or unixs; write "
     "http://HOST:PORT"},

    /* etcd's own refusals. */
    {{.words = {"--listen-client-urls=http://127.0.0.1:1"}},
     1,
     "--listen-client-urls: --advertise-client-urls is required when --listen-client-urls is set "
     "explicitly; name the URLs by which clients reach this process"},
    {{.environment = {"ETCD_LISTEN_CLIENT_URLS=http://127.0.0.1:1"}},
     1,
     "ETCD_LISTEN_CLIENT_URLS: --advertise-client-urls is required when --listen-client-urls is "
     "set explicitly; name the URLs by which clients reach this process"},
    {{.words = {"--listen-client-urls=127.0.0.1:2379"}},
     2,
     "--listen-client-urls: \"127.0.0.1:2379\": URL scheme must be http, https, unix, or unixs; "
     "write http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://127.0.0.1"}},
     2,
     "--listen-client-urls: \"http://127.0.0.1\": URL address does not have the form "
     "\"host:port\"; write http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://::1:5"}},
     2,
     "--listen-client-urls: \"http://::1:5\": URL address does not have the form \"host:port\"; "
     "write http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://127.0.0.1:99999"}},
     2,
     "--listen-client-urls: \"http://127.0.0.1:99999\": URL address does not have the form "
     "\"host:port\"; write http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://127.0.0.1:1/"}},
     2,
     "--listen-client-urls: \"http://127.0.0.1:1/\": URL must not contain a path; end it behind "
     "the port"},
    {{.words = {"--listen-client-urls=http://127.0.0.1:1?x"}},
     2,
     "--listen-client-urls: \"http://127.0.0.1:1?x\": URL must not contain a query or fragment; "
     "end it behind the port"},
    {{.words = {"--listen-client-urls=http://127.0. 0.1:1"}},
     2,
     "--listen-client-urls: \"http://127.0. 0.1:1\": URL must not contain blanks or control "
     "characters; write http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://127.0.0.1:1,"}},
     2,
     "--listen-client-urls: \"\": URL scheme must be http, https, unix, or unixs; write "
     "http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://foo:1", "--advertise-client-urls=http://a:1"}},
     1,
     "--listen-client-urls: expected IP in URL for binding (http://foo:1); write an address of "
     "this machine, localhost, or 0.0.0.0 for all"},
    {{.words = {"--listen-metrics-urls=http://foo:1"}},
     1,
     "--listen-metrics-urls: expected IP in URL for binding (http://foo:1); write an address of "
     "this machine, localhost, or 0.0.0.0 for all"},
    {{.words = {"--listen-client-urls=https://127.0.0.1:1", "--advertise-client-urls=https://a:1"}},
     1,
     "--listen-client-urls: \"https://127.0.0.1:1\": TLS is not available yet; listen on http:// "
     "and terminate TLS in front of it"},
    {{.words = {"--listen-client-urls=unix://localhost:1", "--advertise-client-urls=http://a:1"}},
     1,
     "--listen-client-urls: \"unix://localhost:1\": Unix sockets are not served here; listen on "
     "http://127.0.0.1:PORT"},
    {{.words = {"--enable-v2=maybe"}},
     2,
     "--enable-v2: invalid value \"maybe\"; write true or false"},
    {{.words = {"--snapshot-count=abc"}},
     2,
     "--snapshot-count: invalid value \"abc\"; write a whole number, not negative"},
    {{.words = {"--snapshot-count", "-1"}},
     2,
     "--snapshot-count: invalid value \"-1\"; write a whole number, not negative"},
    {{.words = {"--backend-batch-limit=1.5"}},
     2,
     "--backend-batch-limit: invalid value \"1.5\"; write a whole number"},
    {{.words = {"--grpc-keepalive-timeout=5"}},
     2,
     "--grpc-keepalive-timeout: invalid value \"5\"; write a duration with units, such as 5s or "
     "100ms"},
    {{.words = {"--initial-cluster-state=foo"}},
     2,
     "--initial-cluster-state: invalid value \"foo\"; must be one of new|existing"},
    {{.words = {"--logger=foo"}},
     1,
     "--logger: invalid value \"foo\"; must be one of capnslog|zap"},
    {{.words = {"/etcd", "--name="}}, 1, "--name: is empty; give the member a name"},
    {{.words = {"--proxy=foo"}},
     2,
     "--proxy: invalid value \"foo\"; must be one of off|readonly|on"},
    {{.words = {"--listen-peer-urls=foo"}},
     2,
     "--listen-peer-urls: \"foo\": URL scheme must be http, https, unix, or unixs; write "
     "http://HOST:PORT"},
    {{.words = {"/etcd", "--name=b"}, .environment = {"ETCD_NAME=a"}},
     1,
     "ETCD_NAME: conflicting environment variable is shadowed by corresponding command-line flag "
     "--name; unset the variable or remove the flag"},
    {{.environment = {"ETCD_ENABLE_V2=maybe"}},
     1,
     "ETCD_ENABLE_V2: invalid value \"maybe\"; write true or false"},
    {{.words = {"/etcd", "--name=b", "--initial-cluster=a=http://localhost:2380"}},
     1,
     "--initial-cluster: couldn't find local name \"b\" in the initial cluster configuration; "
     "write --initial-cluster b=http://localhost:2380, or give another --name"},
    {{.words = {"--initial-cluster="}},
     1,
     "--initial-cluster: couldn't find local name \"default\" in the initial cluster "
     "configuration; write --initial-cluster default=http://localhost:2380, or give another "
     "--name"},
    {{.words = {"--initial-cluster=foo"}},
     1,
     "--initial-cluster: \"foo\": URL scheme must be http, https, unix, or unixs; write "
     "http://HOST:PORT, as in NAME=http://HOST:2380"},
    {{.words = {"--initial-cluster=default=http://localhost:2380,b=http://10.0.0.2:2380"}},
     1,
     "--initial-cluster: names \"b\" beside \"default\", but this is a cluster of one; run one, "
     "and point all clients at it"},
    {{.words = {"--initial-advertise-peer-urls=http://10.0.0.1:2380"}},
     1,
     "--initial-advertise-peer-urls: --initial-cluster has default=http://localhost:2380 but "
     "missing from --initial-advertise-peer-urls=http://10.0.0.1:2380; make the two agree, or "
     "leave both out"},
    {{.words = {"--initial-advertise-peer-urls=http://10.0.0.1:2380",
                "--initial-cluster=default=http://10.0.0.2:2380"}},
     1,
     "--initial-cluster: --initial-cluster has default=http://10.0.0.2:2380 but missing from "
     "--initial-advertise-peer-urls=http://10.0.0.1:2380; make the two agree, or leave both out"},
    {{.words = {"/etcd", "--name=a,b"}},
     1,
     "\"a\": URL scheme must be http, https, unix, or unixs; write http://HOST:PORT, as in "
     "NAME=http://HOST:2380"},

    /* Files. */
    {{.words = {"--config=/nonexistent"}},
     2,
     "--config: cannot read \"/nonexistent\": No such file or directory"},
    {{.words = {"--config=."}}, 2, "--config: cannot read \".\": Is a directory"},
    {{.words = {"--config=/dev/zero"}},
     2,
     "--config: \"/dev/zero\" is longer than 1048576 bytes; this is no file of settings"},
    {{.words = {"--config-file=/nonexistent"}},
     1,
     "--config-file: cannot read \"/nonexistent\": No such file or directory"},
    {{.words = {"--config=rdzvd.yaml", "--config-file=rdzvd.yaml"}, .file = ""},
     2,
     "--config-file: --config is given too; keep one of the two"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "linger: 5s\nlisen: x\n"},
     2,
     "rdzvd.yaml:2:1: lisen: no such setting; did you mean listen?"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "linger: 5s\n\nlinger:   6s\n"},
     2,
     "rdzvd.yaml:3:1: linger: is there twice, first in line 1; keep one"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "linger:   6x\n"},
     2,
     "rdzvd.yaml:1:11: linger: \"6x\": no unit of time; use ms, s, m, h or d, as in 500ms, 30s or "
     "1h30m"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "linger: [5s]\n"},
     2,
     "rdzvd.yaml:1:1: linger: one value is expected here, not a list"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "linger:\n  a: b\n"},
     2,
     "rdzvd.yaml:1:1: linger: a value is expected here, not a mapping"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "a: {b: {c: d}}\n"},
     2,
     "rdzvd.yaml:1:8: a.b: a value is expected, not a mapping"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "linger:\n"},
     2,
     "rdzvd.yaml:1:8: linger: there is no value; give one or remove the line"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen:\n  - 127.0.0.1:1\n  - ~\n"},
     2,
     "rdzvd.yaml:3:5: listen: there is no value; give one or remove the line"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen:\n  - 127.0.0.1:1\n  - [a]\n"},
     2,
     "rdzvd.yaml:3:5: listen: a list of plain values is expected, not a list inside it"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen:\n  - 127.0.0.1:1\n  - a: b\n"},
     2,
     "rdzvd.yaml:3:5: listen: a list of plain values is expected, not a mapping inside it"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen:\n  - 127.0.0.1:1\n  - 127.0.0.1\n"},
     2,
     "rdzvd.yaml:3:5: listen: \"127.0.0.1\": there is no port; write ADDR:PORT, such as "
     "127.0.0.1:29400"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen: [127.0.0.1:1, 127.0.0.1:1]\n"},
     2,
     "rdzvd.yaml:1:23: listen: 127.0.0.1:1 is there twice; keep one"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: &n a\ndata-dir: *n\n"},
     2,
     "rdzvd.yaml:1:7: anchors are not taken here; remove the &name"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: *n\n"},
     2,
     "rdzvd.yaml:1:7: aliases are not taken here; quote a value that starts with *"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: !!str a\n"},
     2,
     "rdzvd.yaml:1:7: tags are not taken here; remove the !tag"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen: &l [a]\n"},
     2,
     "rdzvd.yaml:1:9: anchors are not taken here; remove the &name"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "<<: {a: b}\n"},
     2,
     "rdzvd.yaml:1:1: <<: no such setting; `rdzvd --help` lists them"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "? [a]\n: b\n"},
     2,
     "rdzvd.yaml:1:3: a setting's name is expected here, as in `listen: ...`"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "- listen\n"},
     2,
     "rdzvd.yaml:1:1: settings are expected, as lines of `key: value`"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen\n"},
     2,
     "rdzvd.yaml:1:1: settings are expected, as lines of `key: value`"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: a\n---\nname: b\n"},
     2,
     "rdzvd.yaml:2:1: a second document starts here; a file holds one"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: \"a\\0b\"\n"},
     2,
     "rdzvd.yaml:1:7: there is a NUL character in this text; remove it"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: a: b\n"},
     2,
     "rdzvd.yaml:1:8: mapping values are not allowed in this context; quote a value that contains "
     "`: `"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: a\n\tlinger: 5s\n"},
     2,
     "rdzvd.yaml:2:1: found a tab character that violates indentation; indent with spaces"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: @a\n"},
     2,
     "rdzvd.yaml:1:7: found character that cannot start any token; indent with spaces, not tabs, "
     "and quote a value that starts with @, ` or %"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen: *:29400\n"},
     2,
     "rdzvd.yaml:1:10: did not find expected alphabetic or numeric character; quote a value that "
     "starts with * or &, as in \"*:29400\""},
    {{.words = {"--config=rdzvd.yaml"}, .file = "\"a\\nb\": c\n"},
     2,
     "rdzvd.yaml:1:1: a?b: no such setting; `rdzvd --help` lists them"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: [a\n"},
     2,
     "rdzvd.yaml:2:1: did not find expected ',' or ']'; settings are lines of `key: value`"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: a\nlinger\n"},
     2,
     "rdzvd.yaml:3:1: could not find expected ':'; settings are lines of `key: value`"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: a\ncors: \xff\n"},
     2,
     "rdzvd.yaml:2:7: invalid leading UTF-8 octet; the file must be UTF-8 text"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "config: x\n"},
     2,
     "rdzvd.yaml:1:1: config: belongs on the command line, not into a file"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "help: true\n"},
     2,
     "rdzvd.yaml:1:1: help: belongs on the command line, not into a file"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "config-file: x\n"},
     2,
     "rdzvd.yaml:1:1: config-file: belongs on the command line, not into a file"},
    {{.words = {"--config-file=rdzvd.yaml"}, .file = "enable-v2: \"maybe\"\n"},
     1,
     "rdzvd.yaml:1:12: enable-v2: invalid value \"maybe\"; write true or false"},
    {{.words = {"--config-file=rdzvd.yaml"}, .file = "a: b: c\n"},
     1,
     "rdzvd.yaml:1:5: mapping values are not allowed in this context; quote a value that contains "
     "`: `"},
    {{.words = {"--config-file=rdzvd.yaml"}, .file = "listen-client-urls: http://foo/\n"},
     1,
     "rdzvd.yaml:1:21: listen-client-urls: \"http://foo/\": URL address does not have the form "
     "\"host:port\"; write http://HOST:PORT"},
};

static void every_refusal_names_place_and_remedy(void **state)
{
    size_t wrong = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(refusals); i++) {
        struct config c = {.name = (char *)(uintptr_t) "untouched"};
        struct config_error error;
        bool ok = parse(&refusals[i].start, &c, &error);

        if (ok) {
            print_error("case %zu was not refused: %s\n", i, refusals[i].text);
            config_free(&c);
            wrong++;
        } else if (strcmp(error.text, refusals[i].text) != 0 ||
                   error.exit_code != refusals[i].exit_code || strcmp(c.name, "untouched") != 0) {
            print_error("case %zu: exit %d, expected %d\n     got: %s\nexpected: %s\n", i,
                        error.exit_code, refusals[i].exit_code, error.text, refusals[i].text);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void actions_are_told_apart(void **state)
{
    static const struct {
        struct start start;
        enum config_action action;
    } cases[] = {
        {{.words = {"--help"}}, CONFIG_HELP},
        {{.words = {"-h"}}, CONFIG_HELP},
        {{.words = {"--linger=bad", "--help", "--nonsense"}}, CONFIG_HELP},
        {{.words = {"--version"}}, CONFIG_VERSION},
        {{.words = {"/etcd", "-version=true"}}, CONFIG_VERSION},
        {{.words = {"--version=false"}}, CONFIG_RUN},
        {{.words = {"--check-config", "--linger=1s"}}, CONFIG_CHECK},
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
    static const char file[] = "# a comment\nlinger: 9s\nlisten: [\"*:1\", '*:2/b']\nname: 5\n"
                               "cors: [http://a:1, 'http://b:2']\nclassic: false\n";
    struct config c;

    (void)state;
    parse_well(&(struct start){.words = {"--config=rdzvd.yaml"}, .file = file}, &c);
    assert_string_equal(listeners(&c), "*:1/default *:2/b");
    assert_int_equal(c.linger_ms, 9000);
    assert_string_equal(c.name, "5");
    assert_int_equal(c.cors.count, 2);
    assert_false(c.classic);
    assert_string_equal(c.config_file, "rdzvd.yaml");
    config_free(&c);

    parse_well(&(struct start){.words = {"--listen=*:7", "--config", "rdzvd.yaml", "--linger=1s",
                                         "--linger=2s", "--cors=*"}},
               &c);
    assert_string_equal(listeners(&c), "*:7/default");
    assert_int_equal(c.linger_ms, 2000);
    assert_int_equal(c.cors.count, 0);
    assert_string_equal(c.name, "5");
    config_free(&c);

    /* A variable of etcd's is nearer than the file, and further than nothing. */
    write_file("linger: 3s\nname: file\n", strlen("linger: 3s\nname: file\n"));
    parse_well(&(struct start){.words = {"--config=rdzvd.yaml"}, .environment = {"ETCD_NAME=env"}},
               &c);
    assert_string_equal(c.name, "env");
    assert_int_equal(c.linger_ms, 3000);
    assert_true(c.etcd_mode);
    config_free(&c);
}

static void small_print(void **state)
{
    struct config c;

    (void)state;
    parse_well(&(struct start){.words = {"--value-limit=8MiB", "--request-limit=1MiB",
                                         "--data-dir=", "--log-level=fatal",
                                         "--advertise-client-urls=http://user@a:1"}},
               &c);
    assert_int_equal(c.note_count, 1);
    assert_string_equal(c.notes[0].flag, "--value-limit");
    assert_null(c.data_dir);
    assert_int_equal(c.log_level, LOG_ERROR);
    config_free(&c);
    config_free(&c); /* an ender leaves nothing behind */
    config_free(NULL);

    parse_well(&(struct start){.words = {"--host-whitelist=a , *"}}, &c);
    assert_int_equal(c.host_whitelist.count, 0);
    config_free(&c);
}

/* A file is bounded in settings and in values, so that no search through them takes long. */
static void a_file_of_thousands_is_refused(void **state)
{
    static const struct {
        const char *start;
        size_t count;
        const char *text;
    } cases[] = {
        {"", 1001, "more than 1000 settings in one file"},
        {"cors: [", 10001, "cors: more than 10000 values"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);
        struct config_file file;
        struct config_file_error error;

        fputs(cases[i].start, out);
        for (size_t j = 0; j < cases[i].count; j++)
            fprintf(out, i == 0 ? "a%zu: b\n" : "%zu,", j);
        fclose(out);
        assert_false(config_file_parse((const uint8_t *)text, len, &file, &error));
        assert_string_equal(error.text, cases[i].text);
        free(text);
    }
}

static void go_values_are_read_as_go_does(void **state)
{
    static const struct {
        enum etcd_flag_type type;
        const char *good, *bad; /* separated by blanks */
    } cases[] = {
        {ETCD_TYPE_BOOL, "1 t T true TRUE True 0 f F false FALSE False", "yes tRUE 2 on -1"},
        {ETCD_TYPE_INT, "0 -0 +5 -5 0x1f 0XAB 0b101 0o17 017 1_000 9223372036854775807",
         "x 0x 1.5 08 0b2 _1 9223372036854775808 - 1e3 5s"},
        {ETCD_TYPE_UINT, "0 5 0x1f 18446744073709551615", "-1 +1 18446744073709551616 x"},
        {ETCD_TYPE_DURATION, "0 -0 5s 1.5h 100ms 1h2m3s .5s 5.s 7us 7µs 7ns -5s +5s",
         "5 s 5x 1h2 . .s 5d 5S"},
        {ETCD_TYPE_STRING, "anything", NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (int good = 0; good < 2; good++) {
            char *words =
                good ? strdup(cases[i].good) : strdup(cases[i].bad == NULL ? "" : cases[i].bad);
            char *rest = words, *word;

            while ((word = strsep(&rest, " ")) != NULL) {
                if (cases[i].bad == NULL && !good)
                    continue;
                if (etcd_flag_value_ok(cases[i].type, word) != good)
                    fail_msg("type %zu, \"%s\": expected %s", i, word, good ? "good" : "bad");
            }
            free(words);
        }
        assert_int_equal(etcd_flag_value_ok(cases[i].type, ""), cases[i].bad == NULL);
    }
}

static void settings_in_effect_read_back(void **state)
{
    static const struct start starts[] = {
        {.words = {NULL}},
        {.words = {"--listen=localhost:1/a", "--listen=[::]:2", "--listen=0.0.0.0:2",
                   "--listen=*:0", "--listen=host.name:3"}},
        {.words = {"--linger=90500ms", "--key-limit=77", "--value-limit=1.5MiB",
                   "--space-limit=off", "--classic=off", "--transitional=x1", "--log-format=json",
                   "--log-level=error"}},
        {.words = {"--name=quo\"te\\ \n\x7f \xc3\xbc: #x", "--data-dir=/d d", "--cors=http://a:1",
                   "--host-whitelist=a,b", "--advertise-client-urls=http://b:1,http://a:1"}},
        {.words = {"/etcd"}},
        {.words = {"--enable-v2", "--name=b", "--initial-advertise-peer-urls=http://10.0.0.1:2380",
                   "--initial-cluster-token=t", "--listen-client-urls=http://0.0.0.0:5",
                   "--advertise-client-urls=http://b:5",
                   "--listen-metrics-urls=http://0.0.0.0:6,http://[::1]:7"}},
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
                                "listen:\n"
                                "  - \"127.0.0.1:2379/default\"\n";
    struct config c;
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    parse_well(&(struct start){.words = {"--check-config", "--pre-vote", "--enable-v2"},
                               .environment = {"ETCD_A\nB=x"}},
               &c);
    config_write_check(out, &c);
    fclose(out);
    text[sizeof start - 1] = '\0';
    assert_string_equal(text, start);
    free(text);
    config_free(&c);
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

static void help_names_every_flag_of_ours(void **state)
{
    static const char *const flags[] = {"listen",        "linger",        "exit-when-idle",
                                        "drain-timeout", "classic",       "transitional",
                                        "key-limit",     "value-limit",   "keys-limit",
                                        "request-limit", "output-limit",  "connection-limit",
                                        "space-limit",   "watcher-limit", "request-timeout",
                                        "log-format",    "log-level",     "config",
                                        "check-config",  "help",          "version",
                                        "data-dir",      "name",          "advertise-client-urls",
                                        "cors",          "host-whitelist"};
    struct config c;
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    parse_well(&(struct start){.words = {"--help"}}, &c);
    config_write_help(out, &c);
    fclose(out);
    for (size_t i = 0; i < COUNT(flags); i++) {
        char flag[40];

        snprintf(flag, sizeof flag, "\n  --%s", flags[i]);
        if (strstr(text, flag) == NULL)
            fail_msg("no --%s in the help", flags[i]);
    }
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (strlen(line) > 110)
            fail_msg("a line of %zu columns: %s", strlen(line), line);
    }
    free(text);
    config_free(&c);
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

/* A file with a bit of everything, to be broken in every place. */
static const char sample[] = "# settings\n"
                             "listen:\n"
                             "  - \"127.0.0.1:0/jobA\"\n"
                             "  - localhost:29400\n"
                             "linger: 30s # a while\n"
                             "'key-limit': 8KiB\n"
                             "cors: [http://a:1, \"http://b:2\"]\n"
                             "name: >\n"
                             "  folded\n"
                             "  text\n"
                             "client-transport-security: {cert-file: x}\n";

/* What libyaml and we make of any bytes: an error with a place inside the text, or settings. */
static void check_file_bytes(const uint8_t *bytes, size_t len, const char *what, size_t at)
{
    uint8_t *copy = malloc(len == 0 ? 1 : len); /* the exact size, for ASan */
    struct config_file file;
    struct config_file_error error;

    memcpy(copy, bytes, len);
    if (config_file_parse(copy, len, &file, &error))
        config_file_free(&file);
    else if (error.at.line == 0 || error.at.line > 20 || error.at.column == 0 ||
             error.text[0] == '\0')
        fail_msg("%s at %zu: %u:%u: %s", what, at, error.at.line, error.at.column, error.text);
    free(copy);
}

static void every_prefix_of_a_file_is_settings_or_an_error(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof sample; len++)
        check_file_bytes((const uint8_t *)sample, len, "prefix", len);
}

static void every_broken_byte_is_settings_or_an_error(void **state)
{
    static const uint8_t bytes[] = "\0\n\t :-[]{}\"'#&*!|>%@`,?\xff\xc3\xe2";
    uint8_t text[sizeof sample];

    (void)state;
    for (size_t at = 0; at + 1 < sizeof sample; at++) {
        for (size_t i = 0; i < sizeof bytes - 1; i++) {
            memcpy(text, sample, sizeof sample);
            text[at] = bytes[i];
            check_file_bytes(text, sizeof sample - 1, "replaced", at);
            memmove(text + at + 1, sample + at, sizeof sample - 1 - at);
            check_file_bytes(text, sizeof sample, "inserted", at);
        }
    }
}

/* Command lines of random words: whatever comes, there is a config or an error with a text. */
static void random_command_lines_end_well(void **state)
{
    static const char *const pieces[] = {"--listen",
                                         "--listen=",
                                         "127.0.0.1:0",
                                         "*:1",
                                         "*:1/a",
                                         "[::1]:1",
                                         "--enable-v2",
                                         "--listen-client-urls",
                                         "http://127.0.0.1:1",
                                         "--advertise-client-urls=http://a:1",
                                         "-",
                                         "--",
                                         "--linger",
                                         "5s",
                                         "bad",
                                         "--name",
                                         "--name=x",
                                         "--initial-cluster=x=http://a:1",
                                         "--config=rdzvd.yaml",
                                         "--config-file=rdzvd.yaml",
                                         "--version",
                                         "-h",
                                         "--cors=*",
                                         "",
                                         "--log-level=debug",
                                         "--proxy=on",
                                         "--snapshot-count=5",
                                         "--classic",
                                         "off",
                                         "=",
                                         "--="};
    static const char *const variables[] = {"ETCD_NAME=x",
                                            "ETCD_NAME=",
                                            "ETCD_LISTEN_CLIENT_URLS=http://localhost:5",
                                            "ETCD_ADVERTISE_CLIENT_URLS=http://a:1",
                                            "ETCD_",
                                            "ETCD_=",
                                            "ETCD",
                                            "=",
                                            "",
                                            "ETCD_PORT=1",
                                            "ETCD_CONFIG_FILE=rdzvd.yaml",
                                            "ETCD_ENABLE_V2=1",
                                            "ETCD_LOG_LEVEL=info",
                                            "PATH=/"};
    uint32_t seed = 20261120;

    (void)state;
    write_file(sample, sizeof sample - 1);
    for (unsigned run = 0; run < 20000; run++) {
        struct start start = {.words = {NULL}};
        struct config_error error;
        struct config c;
        uint32_t first = seed;
        size_t words, count;

        seed = seed * 1664525u + 1013904223u;
        words = (seed >> 16) % (WORDS_MAX - 1);
        for (size_t i = 0; i < words; i++) {
            seed = seed * 1664525u + 1013904223u;
            start.words[i] = pieces[(seed >> 16) % COUNT(pieces)];
        }
        count = (seed >> 20) % 4;
        for (size_t i = 0; i < count; i++) {
            seed = seed * 1664525u + 1013904223u;
            start.environment[i] = variables[(seed >> 16) % COUNT(variables)];
        }
        if (parse(&start, &c, &error)) {
            if (c.listener_count == 0 && c.action != CONFIG_HELP)
                fail_msg("seed %u: no listener", first);
            config_free(&c);
        } else if (error.text[0] == '\0' || (error.exit_code != 1 && error.exit_code != 2)) {
            fail_msg("seed %u: exit code %d, text \"%s\"", first, error.exit_code, error.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_manual),
        cmocka_unit_test(every_flag_reaches_its_place),
        cmocka_unit_test(listeners_are_spelt_in_many_ways),
        cmocka_unit_test(listeners_side_by_side),
        cmocka_unit_test(it_starts_as_etcd_does),
        cmocka_unit_test(every_flag_of_etcd_is_taken),
        cmocka_unit_test(every_refusal_names_place_and_remedy),
        cmocka_unit_test(actions_are_told_apart),
        cmocka_unit_test(the_command_line_wins_over_the_file),
        cmocka_unit_test(small_print),
        cmocka_unit_test(a_file_of_thousands_is_refused),
        cmocka_unit_test(go_values_are_read_as_go_does),
        cmocka_unit_test(settings_in_effect_read_back),
        cmocka_unit_test(a_check_says_ok_and_tells_the_notes),
        cmocka_unit_test(inherited_sockets_find_their_place),
        cmocka_unit_test(help_names_every_flag_of_ours),
        cmocka_unit_test(the_version_is_one_line_or_etcds_four),
        cmocka_unit_test(every_prefix_of_a_file_is_settings_or_an_error),
        cmocka_unit_test(every_broken_byte_is_settings_or_an_error),
        cmocka_unit_test(random_command_lines_end_well),
    };

    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
