/* How elastic jobs are set: by flag, by file, as printed back, and what is refused. */
#include "rdzv/config/config.h"

#include <stdio.h>

#include "tests/unit/config_start.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void repairs_are_on_by_default(void **state)
{
    struct config c;

    (void)state;
    parse_well(&(struct start){.words = {NULL}}, &c);
    assert_true(c.elastic.fixes);
    assert_null(c.elastic.advertise);
    assert_null(c.elastic.advertise_host);
    assert_int_equal(c.elastic.advertise_port, 0);
    assert_null(c.elastic.worker_ports);
    assert_int_equal(c.elastic.worker_port_low, 0);
    assert_int_equal(c.elastic.closed_run_ttl_ms, 5000);
    assert_int_equal(c.elastic.closed_run_wait_ms, 45000);
    assert_int_equal(c.elastic.idle_run_ttl_ms, 24 * 3600 * 1000);
    assert_false(c.elastic.close_needs_all);
    config_free(&c);
}

static void expect_all(const struct start *start)
{
    struct config c;

    parse_well(start, &c);
    assert_false(c.elastic.fixes);
    assert_string_equal(c.elastic.advertise, "job.ns.svc:1234");
    assert_string_equal(c.elastic.advertise_host, "job.ns.svc");
    assert_int_equal(c.elastic.advertise_port, 1234);
    assert_string_equal(c.elastic.worker_ports, "29500-29599");
    assert_int_equal(c.elastic.worker_port_low, 29500);
    assert_int_equal(c.elastic.worker_port_high, 29599);
    assert_int_equal(c.elastic.closed_run_ttl_ms, 1500);
    assert_int_equal(c.elastic.closed_run_wait_ms, 7000);
    assert_int_equal(c.elastic.idle_run_ttl_ms, 0);
    assert_true(c.elastic.close_needs_all);
    config_free(&c);
}

static void every_setting_reaches_its_place(void **state)
{
    (void)state;
    expect_all(&(struct start){.words = {"--elastic-fixes=off", "--advertise=job.ns.svc:1234",
                                         "--worker-ports=29500-29599", "--closed-run-ttl=1500ms",
                                         "--closed-run-wait=7s", "--idle-run-ttl=off",
                                         "--close-needs-all", "on"}});
    expect_all(&(struct start){.words = {"--config=rdzvd.yaml"},
                               .file = "elastic-fixes: off\nadvertise: job.ns.svc:1234\n"
                                       "worker-ports: 29500-29599\nclosed-run-ttl: 1.5s\n"
                                       "closed-run-wait: 7s\nidle-run-ttl: off\nclose-needs-all: "
                                       "on\n"});
    /* The command line wins. */
    expect_all(&(struct start){
        .words = {"--config=rdzvd.yaml", "--elastic-fixes=off", "--advertise=job.ns.svc:1234",
                  "--worker-ports=29500-29599", "--closed-run-ttl=1500ms", "--closed-run-wait=7s",
                  "--idle-run-ttl=off", "--close-needs-all=on"},
        .file = "elastic-fixes: on\nadvertise: \"[fd00::1]\"\nworker-ports: 1-2\n"
                "closed-run-ttl: 1h\nclosed-run-wait: off\nidle-run-ttl: 1h\nclose-needs-all: "
                "off\n"});
}

static void advertised_addresses_are_spelt_in_many_ways(void **state)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
    } rows[] = {
        {"host", "host", 0},
        {"host:1", "host", 1},
        {"HOST.example:65535", "HOST.example", 65535},
        {"a_b-c.d", "a_b-c.d", 0},
        {"10.0.0.1", "10.0.0.1", 0},
        {"10.0.0.1:29400", "10.0.0.1", 29400},
        {"fd00::1", "fd00::1", 0},
        {"::1", "::1", 0},
        {"[fd00::1]", "fd00::1", 0},
        {"[fd00::1]:29400", "fd00::1", 29400},
        {"29400", "29400", 0}, /* a name may be digits */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct config c;

        parse_well(&(struct start){.words = {"--advertise", rows[i].text}}, &c);
        assert_string_equal(c.elastic.advertise, rows[i].text);
        assert_string_equal(c.elastic.advertise_host, rows[i].host);
        assert_int_equal(c.elastic.advertise_port, rows[i].port);
        config_free(&c);
    }
}

static void rules_are_read_from_one_text(void **state)
{
    static const char *const wrong[] = {
        "restart-budget=3",    "restart-budget=/1h",    "restart-budget=3/0",
        "restart-budget=x/1h", "restart-budget=100/1h", "restart-budget=3/1h/",
        "restart-budget",      "cordon-after=0/1h",     "no-progress=0/1h",
        "cordon-after=1/1h/",  "cordon-after=1/1h/0s",  "cordon-after=1/1h/1h/1h",
        "cordon-after=1//1h",
    };
    struct run_rules rules = {.nodes_multiple = 7};

    (void)state;
    assert_null(run_rules_read("restart-budget=0/90m,grow-interval=1s,cordon-after=3/10m,group=2",
                               &rules, NULL));
    assert_int_equal(rules.group, 2);
    assert_int_equal(rules.nodes_multiple, 7);
    assert_int_equal(rules.grow_interval_ms, 1000);
    assert_int_equal(rules.restart_budget.count, 0);
    assert_int_equal(rules.restart_budget.ms, 90 * 60 * 1000);
    assert_int_equal(rules.cordon_after.count, 3);
    assert_int_equal(rules.cordon_ms, 0);
    assert_null(run_rules_read("cordon-after=2/1h/90m", &rules, NULL));
    assert_int_equal(rules.cordon_after.count, 2);
    assert_int_equal(rules.cordon_after.ms, 60 * 60 * 1000);
    assert_int_equal(rules.cordon_ms, 90 * 60 * 1000);
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_non_null(run_rules_read(wrong[i], &rules, NULL));
}

static void one_port_is_a_range(void **state)
{
    static const struct {
        const char *text;
        uint16_t low, high;
    } rows[] = {{"1", 1, 1}, {"5-5", 5, 5}, {"1-65535", 1, 65535}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct config c;

        parse_well(&(struct start){.words = {"--worker-ports", rows[i].text}}, &c);
        assert_int_equal(c.elastic.worker_port_low, rows[i].low);
        assert_int_equal(c.elastic.worker_port_high, rows[i].high);
        config_free(&c);
    }
}

static void a_meaningless_setting_is_refused_with_a_hint(void **state)
{
    static const struct {
        const char *flag, *value, *text;
    } rows[] = {
        {"advertise", "", "this is no host"},
        {"advertise", ":29400", "this is no host"},
        {"advertise", "a b", "this is no host"},
        {"advertise", "http://host", "the port is not a number from 1 to 65535"},
        {"advertise", "host/space", "this is no host"},
        {"advertise", "-host", "this is no host"},
        {"advertise", ".host", "this is no host"},
        {"advertise", "h\xc3\xb6st", "this is no host"},
        {"advertise", "host:", "the port is not a number from 1 to 65535"},
        {"advertise", "host:0", "the port is not a number from 1 to 65535"},
        {"advertise", "host:65536", "the port is not a number from 1 to 65535"},
        {"advertise", "host:1x", "the port is not a number from 1 to 65535"},
        {"advertise", "host: 1", "the port is not a number from 1 to 65535"},
        {"advertise", "[fd00::1", "in brackets"},
        {"advertise", "[fd00::1]29400", "in brackets"},
        {"advertise", "[host]:1", "no IPv6 address between [ and ]"},
        {"advertise", "[]", "no IPv6 address between [ and ]"},
        {"advertise", "[::1]:0", "the port is not a number from 1 to 65535"},
        {"advertise", "[::1]:", "the port is not a number from 1 to 65535"},
        {"worker-ports", "", "write LOW-HIGH"},
        {"worker-ports", "0-1", "write LOW-HIGH"},
        {"worker-ports", "1-", "write LOW-HIGH"},
        {"worker-ports", "-1", "write LOW-HIGH"},
        {"worker-ports", "1-2-3", "write LOW-HIGH"},
        {"worker-ports", "1-65536", "write LOW-HIGH"},
        {"worker-ports", "2-1", "the second port is below the first"},
        {"worker-ports", "a-b", "write LOW-HIGH"},
        {"worker-ports", "1 - 2", "write LOW-HIGH"},
        {"advertise", "0.0.0.0", "write the one that workers can reach"},
        {"advertise", "[::]:1", "write the one that workers can reach"},
        {"closed-run-ttl", "0", "must be 1ms at least"},
        {"closed-run-ttl", "off", ""},
        {"closed-run-ttl", "-1s", ""},
        {"closed-run-ttl", "soon", ""},
        {"closed-run-wait", "-1s", ""},
        {"closed-run-wait", "soon", ""},
        {"idle-run-ttl", "", ""},
        {"elastic-fixes", "repair", "on"},
        {"elastic-fixes", "", "off"},
        {"close-needs-all", "maybe", "on"},
        {"restart-on-loss", "always", "closed"},
        {"disable", "end-last-call,all", "\"all\": is none of c10d-legacy, close-from-members"},
        {"silent-node-timeout", "5s", "6s at least: torch's agents send a heartbeat each 5s"},
        {"silent-node-timeout", "0", "6s"},
        {"regroup-wait", "1s", "2"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char word[64], name[32];
        const struct start by_flag = {.words = {word}};
        struct config_error error;
        struct config c;

        snprintf(word, sizeof word, "--%s=%s", rows[i].flag, rows[i].value);
        snprintf(name, sizeof name, "--%s: ", rows[i].flag);
        if (parse(&by_flag, &c, &error))
            fail_msg("%s is taken", word);
        assert_int_equal(error.exit_code, 2);
        if (strncmp(error.text, name, strlen(name)) != 0 ||
            strstr(error.text, rows[i].text) == NULL)
            fail_msg("%s is refused with: %s", word, error.text);
    }
}

static void what_does_not_go_together_is_noted(void **state)
{
    static const struct {
        struct start start;
        const char *flag; /* of the only note; NULL: there is none */
        enum config_note_kind kind;
    } rows[] = {
        {{.words = {NULL}}, NULL, CONFIG_NOTE_WARNING},
        {{.words = {"--closed-run-wait=59999ms"}}, NULL, CONFIG_NOTE_WARNING},
        {{.words = {"--closed-run-wait=60s"}}, "--closed-run-wait", CONFIG_NOTE_WARNING},
        {{.words = {"--closed-run-wait=5001ms"}}, NULL, CONFIG_NOTE_WARNING},
        {{.words = {"--closed-run-wait=5s"}}, "--closed-run-wait", CONFIG_NOTE_WARNING},
        {{.words = {"--closed-run-ttl=45s"}}, "--closed-run-wait", CONFIG_NOTE_WARNING},
        {{.words = {"--closed-run-wait=off", "--closed-run-ttl=45s"}}, NULL, CONFIG_NOTE_WARNING},
        {{.words = {"--closed-run-wait=5s", "--elastic-fixes=off"}}, NULL, CONFIG_NOTE_WARNING},
        {{.words = {"--advertise=h", "--elastic-fixes=off"}}, "--advertise", CONFIG_NOTE_IGNORED},
        {{.words = {"--worker-ports=1-2", "--elastic-fixes=off"}},
         "--worker-ports",
         CONFIG_NOTE_IGNORED},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct config c;

        parse_well(&rows[i].start, &c);
        if (c.note_count != (rows[i].flag != NULL))
            fail_msg("%s: %zu notes", rows[i].start.words[0], c.note_count);
        if (rows[i].flag != NULL) {
            assert_string_equal(c.notes[0].flag, rows[i].flag);
            assert_int_equal(c.notes[0].kind, rows[i].kind);
        }
        config_free(&c);
    }
}

/* What --check-config prints, given as a file, sets the same. */
static void repairs_named_in_disable_are_off(void **state)
{
    const struct start known = {.words = {"--disable=end-last-call,drop-disconnected"}};
    struct config c;

    (void)state;
    parse_well(&known, &c);
    assert_true(config_disables(&c, CONFIG_END_LAST_CALL));
    assert_true(config_disables(&c, CONFIG_DROP_DISCONNECTED));
    assert_false(config_disables(&c, CONFIG_CLOSE_FROM_MEMBERS));
    config_free(&c);
}

static void settings_in_effect_read_back(void **state)
{
    static const struct start starts[] = {
        {.words = {"--advertise=[fd00::1]:7", "--worker-ports=7"}},
        {.words = {"--advertise=fd00::1", "--worker-ports=1-65535", "--closed-run-ttl=1ms",
                   "--closed-run-wait=1h", "--idle-run-ttl=90m", "--close-needs-all=on",
                   "--elastic-fixes=off"}},
        {.words = {"--advertise=host", "--idle-run-ttl=off", "--closed-run-wait=off"}},
        {.words = {NULL}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(starts); i++) {
        struct config c, again;
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);

        parse_well(&starts[i], &c);
        config_write_effective(out, &c);
        fclose(out);
        parse_well(&(struct start){.words = {"--config=rdzvd.yaml"}, .file = text}, &again);
        assert_int_equal(again.elastic.fixes, c.elastic.fixes);
        assert_int_equal(again.elastic.advertise == NULL, c.elastic.advertise == NULL);
        if (c.elastic.advertise != NULL)
            assert_string_equal(again.elastic.advertise_host, c.elastic.advertise_host);
        assert_int_equal(again.elastic.advertise_port, c.elastic.advertise_port);
        assert_int_equal(again.elastic.worker_port_low, c.elastic.worker_port_low);
        assert_int_equal(again.elastic.worker_port_high, c.elastic.worker_port_high);
        assert_int_equal(again.elastic.closed_run_ttl_ms, c.elastic.closed_run_ttl_ms);
        assert_int_equal(again.elastic.closed_run_wait_ms, c.elastic.closed_run_wait_ms);
        assert_int_equal(again.elastic.idle_run_ttl_ms, c.elastic.idle_run_ttl_ms);
        assert_int_equal(again.elastic.close_needs_all, c.elastic.close_needs_all);
        free(text);
        config_free(&c);
        config_free(&again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repairs_are_on_by_default),
        cmocka_unit_test(every_setting_reaches_its_place),
        cmocka_unit_test(advertised_addresses_are_spelt_in_many_ways),
        cmocka_unit_test(rules_are_read_from_one_text),
        cmocka_unit_test(one_port_is_a_range),
        cmocka_unit_test(a_meaningless_setting_is_refused_with_a_hint),
        cmocka_unit_test(what_does_not_go_together_is_noted),
        cmocka_unit_test(repairs_named_in_disable_are_off),
        cmocka_unit_test(settings_in_effect_read_back),
    };

    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
