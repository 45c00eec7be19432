/* What etcd 3.4.23 makes of its settings and clocks: ids and durations; and SHA-1 below the ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/config/sha1.h"
#include "rdzv/etcd/members.h"
#include "rdzv/etcd/stats.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void digests_are_those_of_the_standard(void **state)
{
    static uint8_t million[1000000];
    static const struct {
        const char *text, *digest;
    } cases[] = {
        {"", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
    };

    (void)state;
    for (size_t i = 0; i <= COUNT(cases); i++) {
        struct slice in = {million, sizeof million};
        const char *wanted = "34aa973cd4c4daa4f61eeb2bdbad27316534016f";
        char text[2 * SHA1_SIZE + 1];
        uint8_t digest[SHA1_SIZE];

        memset(million, 'a', sizeof million);
        if (i < COUNT(cases)) {
            in = slice_str(cases[i].text);
            wanted = cases[i].digest;
        }
        sha1(in, digest);
        for (size_t k = 0; k < SHA1_SIZE; k++)
            snprintf(text + 2 * k, 3, "%02x", digest[k]);
        assert_string_equal(text, wanted);
    }
}

static void ids_are_etcds(void **state)
{
    char *default_url[] = {"http://localhost:2380"};
    char *urls[] = {"http://b:2380", "http://a:2380"},
         *sorted[] = {"http://a:2380", "http://b:2380"};
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
    assert_string_equal(urls[0], "http://b:2380");
    config.advertise_peer_urls = (struct string_list){sorted, 2};
    etcd_ids(&config, &other_member, &other_cluster);
    assert_true(member == other_member && cluster == other_cluster);

    token[0] = 'E';
    etcd_ids(&config, &other_member, &other_cluster);
    assert_true(member != other_member && cluster != other_cluster);
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
        cmocka_unit_test(digests_are_those_of_the_standard),
        cmocka_unit_test(ids_are_etcds),
        cmocka_unit_test(ids_are_shown_without_leading_zeros),
        cmocka_unit_test(durations_are_gos),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
