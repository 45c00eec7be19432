/* deploy/template/quantity: what quantities come to, and how requests and limits follow each other.
 */
#include "deploy/template/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct arena arena;
static struct diag diag;
static struct yaml_file files[2];

static const struct yaml_node *read(size_t i, const char *text)
{
    assert_true(yaml_file_parse(&files[i], "t.yaml", text, strlen(text), &diag));
    return files[i].docs[0].root;
}

static void end(void)
{
    yaml_file_free(&files[0]);
    yaml_file_free(&files[1]);
    arena_free(&arena);
    diag_free(&diag);
}

static void quantities_are_numbers(void **state)
{
    static const struct {
        const char *small, *large;
    } pairs[] = {{"999m", "1"},     {"0", "1n"},   {"1023", "1Ki"}, {"1G", "1Gi"},  {"1e3", "1001"},
                 {".5", "0.50001"}, {"1E", "1Ei"}, {"64Mi", "1Gi"}, {"1e-3", "2m"}, {"8Ei", "9Ei"}};

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_true(quantity_value(pairs[i].small) < quantity_value(pairs[i].large));
    assert_true(quantity_value("1000m") == quantity_value("1"));
    assert_true(quantity_value("1E3") == quantity_value("1k"));
    assert_true(quantity_value("x") < 0);
    assert_true(quantity_value("1.2.3") < 0);
    assert_true(quantity_value("1Zi") < 0);
}

static void check_fit(const char *base, const char *over, const char *expected)
{
    struct yaml_node *got = quantity_fit(&arena, read(0, base), read(1, over));

    assert_string_equal(yaml_write(&arena, got), expected);
    end();
}

static void one_follows_the_other(void **state)
{
    (void)state;
    /* Above a built-in limit, and below a built-in request. */
    check_fit("{requests: {memory: 64Mi}, limits: {memory: 256Mi}}", "{requests: {memory: 1Gi}}",
              "requests:\n  memory: 1Gi\nlimits:\n  memory: 1Gi\n");
    check_fit("{requests: {memory: 64Mi}, limits: {memory: 256Mi}}", "{limits: {memory: 32Mi}}",
              "requests:\n  memory: 32Mi\nlimits:\n  memory: 32Mi\n");
    /* Within it, nothing follows. */
    check_fit("{requests: {memory: 64Mi}, limits: {memory: 256Mi}}", "{requests: {memory: 128Mi}}",
              "requests:\n  memory: 128Mi\nlimits:\n  memory: 256Mi\n");
    /* Equal ones stay equal: the pod may have CPUs of its own. */
    check_fit("{requests: {cpu: 500m}, limits: {cpu: 500m}}", "{requests: {cpu: 250m}}",
              "requests:\n  cpu: 250m\nlimits:\n  cpu: 250m\n");
    /* Both are given: the user knows. */
    check_fit("{requests: {cpu: 1}, limits: {cpu: 1}}", "{requests: {cpu: 2}, limits: {cpu: 4}}",
              "requests:\n  cpu: 2\nlimits:\n  cpu: 4\n");
    /* Devices always; a new limit needs no request. */
    check_fit("{}", "{requests: {rdma/hca: 1}, limits: {memory: 1Gi}}",
              "requests:\n  rdma/hca: 1\nlimits:\n  memory: 1Gi\n  rdma/hca: 1\n");
}

static void impossible_quantities_are_named(void **state)
{
    static const struct {
        const char *resources;
        size_t count;
    } cases[] = {
        {"{requests: {cpu: 2}, limits: {cpu: 1}}", 1},
        {"{requests: {cpu: 1000m}, limits: {cpu: 1}}", 0},
        {"{requests: {a/b: 1}, limits: {a/b: 2}}", 1},
        {"{requests: {a/b: 1}}", 1},
        {"{requests: {a/b: 0.5}, limits: {a/b: 0.5}}", 1},
        {"{requests: {hugepages-2Mi: 2Mi}, limits: {hugepages-2Mi: 4Mi}}", 1},
        {"{limits: {a/b: 2}}", 0},
        {"{}", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t count = quantity_conflicts(&arena, read(0, cases[i].resources))->count;

        if (count != cases[i].count)
            fail_msg("%s: %zu conflicts", cases[i].resources, count);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantities_are_numbers),
        cmocka_unit_test(one_follows_the_other),
        cmocka_unit_test(impossible_quantities_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
