/* deploy/yaml/text_diff: hunks, and random edits whose diff gives the new text back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/yaml/text_edit.h"

static char *diff_of(const char *old, size_t len, const struct buf *result)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    text_diff_print(out, "a", old, len, result->text, result->len);
    fclose(out);
    return text;
}

static void edits_become_hunks(void **state)
{
    static const struct {
        const char *old;
        struct {
            size_t at, len;
            const char *text;
        } edits[2];
        const char *hunks;
    } cases[] = {
        {"one\ntwo\nthree\n", {{4, 3, "2"}}, "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"},
        {"one\ntwo\n", {{4, 3, "two"}}, ""}, /* nothing changes */
        {"one\ntwo\n", {{0, 0, "zero\n"}}, "@@ -1,2 +1,3 @@\n+zero\n one\n two\n"},
        {"one\ntwo\n", {{0, 4, ""}}, "@@ -1,2 +1 @@\n-one\n two\n"},
        {"one\ntwo\n", {{3, 1, " "}}, "@@ -1,2 +1 @@\n-one\n-two\n+one two\n"},
        {"a b\n", {{0, 1, "A"}, {2, 1, "B"}}, "@@ -1 +1 @@\n-a b\n+A B\n"},
        {"one",
         {{3, 0, "\ntwo\n"}},
         "@@ -1 +1,2 @@\n-one\n\\ No newline at end of file\n+one\n+two\n"},
        {"one\n", {{3, 1, ""}}, "@@ -1 +1 @@\n-one\n+one\n\\ No newline at end of file\n"},
        {"", {{0, 0, "one\n"}}, "@@ -0,0 +1 @@\n+one\n"},
        {"1\n2\n3\n4\n5\n6\n7\n8\n9\n",
         {{0, 1, "a"}, {16, 1, "i"}}, /* two hunks */
         "@@ -1,4 +1,4 @@\n-1\n+a\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+i\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = {0};
        struct text_edits edits = {0};
        struct buf result;
        size_t where, len = strlen(cases[i].old);
        char *text;

        for (size_t j = 0; j < 2 && cases[i].edits[j].text != NULL; j++)
            text_edits_add(&edits, &arena, cases[i].edits[j].at, cases[i].edits[j].len,
                           cases[i].edits[j].text);
        assert_true(text_edits_apply(&edits, &arena, cases[i].old, len, &result, &where));
        text = diff_of(cases[i].old, len, &result);
        assert_string_equal(text + (*text == '\0' ? 0 : strlen("--- a\n+++ a\n")), cases[i].hunks);
        free(text);
        arena_free(&arena);
    }
}

/* The new text that the diff makes of the old one, as `patch` does; false when a line of the diff
 * is not that of the old text. */
static bool apply(const char *old, const char *diff, char *out)
{
    size_t line = 1;

    *out = '\0';
    while (*diff != '\0') {
        const char *end = strchr(diff, '\n') + 1, *old_end = old + strcspn(old, "\n");
        size_t len = (size_t)(end - diff) - 1;

        old_end += *old_end == '\n';
        if (strncmp(diff, "@@ -", 4) == 0) {
            size_t from = strtoul(diff + 4, NULL, 10);
            bool empty = strncmp(diff + 4 + strcspn(diff + 4, " ,"), ",0 ", 3) == 0;

            for (; line < from + empty; line++) {
                old_end = old + strcspn(old, "\n") + 1;
                strncat(out, old, (size_t)(old_end - old));
                old = old_end;
            }
            diff = end;
            continue;
        }
        if (strncmp(end, "\\ No newline", 12) == 0) {
            len--;
            end = strchr(end, '\n') + 1;
        }
        if (*diff != '+') {
            if ((size_t)(old_end - old) != len || memcmp(old, diff + 1, len) != 0)
                return false;
            old = old_end;
            line++;
        }
        if (*diff != '-')
            strncat(out, diff + 1, len);
        diff = end;
    }
    strcat(out, old);
    return true;
}

static void diffs_give_the_new_text_back(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 20000; round++) {
        struct arena arena = {0};
        struct text_edits edits = {0};
        struct buf result;
        char old[64], new[200], text[9];
        size_t len = (size_t)rand() % 60, where;
        char *diff;

        for (size_t i = 0; i < len; i++)
            old[i] = "ab\n\n"[rand() % 4];
        old[len] = '\0';
        for (size_t at = 0; at <= len; at += (size_t)rand() % 20 + 1) {
            size_t gone = (size_t)rand() % 6, come = (size_t)rand() % 8;

            for (size_t i = 0; i < come; i++)
                text[i] = "ab\n\n"[rand() % 4];
            text[come] = '\0';
            gone = at + gone > len ? len - at : gone;
            text_edits_add(&edits, &arena, at, gone, text);
            at += gone;
        }
        assert_true(text_edits_apply(&edits, &arena, old, len, &result, &where));
        diff = diff_of(old, len, &result);
        assert_true(apply(old, *diff == '\0' ? diff : diff + strlen("--- a\n+++ a\n"), new));
        assert_string_equal(new, result.text);
        free(diff);
        arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_become_hunks),
        cmocka_unit_test(diffs_give_the_new_text_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
