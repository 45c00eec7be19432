/* Grants and revocations: the rules of etcd one by one, and any lists against a naive model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/etcd/auth_merge.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define LIST_MAX 12

/* Splits "b,a" into a list. The empty text is the empty list. */
static struct command_list split(struct slice text, struct slice items[LIST_MAX])
{
    struct command_list list = {.items = items};
    size_t start = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == ',')
            start = i + 1;
        else if (i + 1 == text.len || text.ptr[i + 1] == ',')
            items[list.count++] = (struct slice){text.ptr + start, i + 1 - start};
        assert_true(list.count < LIST_MAX);
    }
    return list;
}

/* What came of it as a text: "=a,b", "+culprit" (granted again), "-culprit" (not there). */
static void merge(const char *old, const char *grant, const char *revoke, bool strict,
                  char out[256])
{
    struct slice texts[] = {exact(old, strlen(old)), exact(grant, strlen(grant)),
                            exact(revoke, strlen(revoke))};
    struct slice items[3][LIST_MAX], culprit = {0};
    struct command_list lists[3], merged;
    struct writer w = {.ptr = (uint8_t *)out, .cap = 255};
    enum auth_merge_result result;

    for (size_t i = 0; i < 3; i++)
        lists[i] = split(texts[i], items[i]);
    result = auth_merge(&lists[0], &lists[1], &lists[2], strict, &merged, &culprit);
    if (result != AUTH_MERGE_DONE) {
        writer_str(&w, result == AUTH_MERGE_DUPLICATE ? "+" : "-");
        writer_slice(&w, culprit);
    }
    for (size_t i = 0; i < 3; i++)
        exact_free(texts[i]); /* the list that is left must do without them */
    if (result == AUTH_MERGE_DONE) {
        assert_false(merged.absent);
        writer_str(&w, "=");
        for (size_t i = 0; i < merged.count; i++) {
            writer_str(&w, i == 0 ? "" : ",");
            writer_slice(&w, merged.items[i]);
        }
        auth_merge_free(&merged);
    }
    assert_true(w.len <= w.cap);
    out[w.len] = '\0';
}

static const struct {
    const char *old, *grant, *revoke;
    bool strict;
    const char *result;
} cases[] = {
    {"", "", "", true, "="},         {"b,a", "", "", true, "=a,b"},
    {"a,a", "", "", true, "=a"},     {"b", "c,a", "", true, "=a,b,c"},
    {"b", "c,b", "", true, "+b"},    {"b", "c,c", "", true, "+c"},
    {"b,a", "b,a", "", true, "+b"}, /* the first, in the order of the grants */
    {"", "z,y,z,y", "", true, "+z"}, {"a,a", "b", "a", true, "=b"},
    {"a,b", "", "a", true, "=b"},    {"a,b", "", "c", true, "-c"},
    {"a,b", "", "c", false, "=a,b"}, {"a,b", "", "a,a", true, "-a"},
    {"a,b", "", "a,a", false, "=b"}, {"a", "b", "b", true, "=a"}, /* grants come first */
    {"a", "a", "x", true, "+a"},     {"a,c", "", "z,b,a", true, "-z"},
    {"ab,a", "", "a", true, "=ab"},
};

static void sets_change_as_in_etcd(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char result[256];

        merge(cases[i].old, cases[i].grant, cases[i].revoke, cases[i].strict, result);
        if (strcmp(result, cases[i].result) != 0)
            fail_msg("case %zu: %s", i, result);
    }
}

/* --- Against sets of the letters a to h, one bit each. --- */

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 16;
}

static void make_list(uint32_t *seed, char out[2 * LIST_MAX])
{
    size_t count = next_random(seed) % 6;

    memset(out, 0, 2 * LIST_MAX);
    for (size_t i = 0; i < count; i++) {
        out[2 * i] = (char)('a' + next_random(seed) % 8);
        if (i + 1 < count)
            out[2 * i + 1] = ',';
    }
}

static unsigned bit(char letter)
{
    return 1u << (letter - 'a');
}

/* One by one, as etcd does it. */
static void merge_naively(const char *old, const char *grant, const char *revoke, bool strict,
                          char out[256])
{
    unsigned set = 0;

    for (; *old != '\0'; old += old[1] == ',' ? 2 : 1)
        set |= bit(*old);
    for (; *grant != '\0'; grant += grant[1] == ',' ? 2 : 1) {
        if (set & bit(*grant)) {
            snprintf(out, 256, "+%c", *grant);
            return;
        }
        set |= bit(*grant);
    }
    for (; *revoke != '\0'; revoke += revoke[1] == ',' ? 2 : 1) {
        if (strict && !(set & bit(*revoke))) {
            snprintf(out, 256, "-%c", *revoke);
            return;
        }
        set &= ~bit(*revoke);
    }
    strcpy(out, "=");
    for (char letter = 'a'; letter <= 'h'; letter++) {
        if (set & bit(letter))
            snprintf(out + strlen(out), 3, out[1] == '\0' ? "%c" : ",%c", letter);
    }
}

static void any_lists_merge_as_one_by_one(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 20000; first++) {
        char old[2 * LIST_MAX], grant[2 * LIST_MAX], revoke[2 * LIST_MAX], got[256], wanted[256];
        uint32_t seed = first;
        bool strict = next_random(&seed) % 2;

        make_list(&seed, old);
        make_list(&seed, grant);
        make_list(&seed, revoke);
        merge(old, grant, revoke, strict, got);
        merge_naively(old, grant, revoke, strict, wanted);
        if (strcmp(got, wanted) != 0)
            fail_msg("seed %u: [%s] + [%s] - [%s] strict %d: %s, not %s", first, old, grant, revoke,
                     strict, got, wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_change_as_in_etcd),
        cmocka_unit_test(any_lists_merge_as_one_by_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
