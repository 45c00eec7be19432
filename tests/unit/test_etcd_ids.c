/* What etcd 3.4.23 makes of its settings and clocks: ids and durations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/config/config.h"
#include "rdzv/etcd/handlers.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void ids_are_etcds(void **state)
{
    char *default_url[] = {"http://localhost:2380"};
    char *urls[] = {"http://a:2380", "http://b:2380"};
    char token[] = "etcd-cluster";
    struct config config = {.advertise_peer_urls = {default_url, 1},
                            .initial_cluster_token = token};
    uint64_t member, cluster, other_member, other_cluster;

    (void)state;
    etcd_ids(&config, &member, &cluster);
    assert_true(member == 0x8e9e05c52164694d);
    assert_true(cluster == 0xcdf818194e3a8c32);

    config.advertise_peer_urls = (struct string_list){urls, 2};
    etcd_ids(&config, &member, &cluster);
    token[0] = 'E';
    etcd_ids(&config, &other_member, &other_cluster);
    assert_true(member != other_member && cluster != other_cluster);
}

/* At and around the lengths where SHA-1 takes one more block. */
static void texts_of_any_length_have_ids(void **state)
{
    static const struct {
        size_t len; /* of a URL of x, before the token of 12 characters */
        uint64_t member;
    } cases[] = {
        {43, 0x83fa14966a694be1},   {44, 0xbe7556dd3a653461},  {51, 0xc066261629a33b59},
        {52, 0xfa0f9e3161bbe930},   {107, 0xa0a5de88fad8077b}, {108, 0x53048bf83d6c3645},
        {1000, 0x7cfa555605ddbf18},
    };
    char token[] = "etcd-cluster";

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char url[1001] = "", *urls[] = {url};
        struct config config = {.advertise_peer_urls = {urls, 1}, .initial_cluster_token = token};
        uint64_t member, cluster;

        memset(url, 'x', cases[i].len);
        etcd_ids(&config, &member, &cluster);
        if (member != cases[i].member)
            fail_msg("%zu: %llx", cases[i].len, (unsigned long long)member);
    }
}

static void ids_are_shown_without_leading_zeros(void **state)
{
    char text[17];

    (void)state;
    etcd_format_id(0x0a, text);
    assert_string_equal(text, "a");
    etcd_format_id(UINT64_MAX, text);
    assert_string_equal(text, "ffffffffffffffff");
}

static void durations_are_gos(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1ns"},
        {999, "999ns"},
        {1000, "1µs"},
        {1100, "1.1µs"},
        {2200000, "2.2ms"},
        {719343703, "719.343703ms"},
        {1000000000, "1s"},
        {3300000000, "3.3s"},
        {4406037764, "4.406037764s"},
        {60000000000, "1m0s"},
        {123500000000, "2m3.5s"},
        {3600000000000, "1h0m0s"},
        {3723000000001, "1h2m3.000000001s"},
        {360000000000000, "100h0m0s"},
        {-5, "0s"}, /* a clock that was set back */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t text[64];
        struct writer w = {.ptr = text, .cap = sizeof text};

        etcd_write_duration(&w, cases[i].ns);
        if (!slice_is((struct slice){text, w.len}, cases[i].text))
            fail_msg("%lld: %.*s", (long long)cases[i].ns, (int)w.len, (const char *)text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_etcds),
        cmocka_unit_test(texts_of_any_length_have_ids),
        cmocka_unit_test(ids_are_shown_without_leading_zeros),
        cmocka_unit_test(durations_are_gos),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
