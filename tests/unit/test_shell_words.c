/* deploy/yaml/shell_words: which words a script has, and where each of their bytes stands. */
#include "deploy/yaml/shell_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct arena arena;

static int end(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

/* Words with | behind each, commands with a newline behind each. */
static void assert_words(const char *text, const char *expected)
{
    struct shell_script script;
    char found[1024] = "";
    size_t len = 0;

    shell_read(&arena, &(struct arg_word){.text = text, .len = strlen(text)}, &script);
    for (size_t i = 0; i < script.count; i++) {
        for (size_t j = 0; j < script.commands[i].count; j++)
            len += (size_t)snprintf(found + len, sizeof found - len, "%s|",
                                    script.commands[i].words[j].text);
        len += (size_t)snprintf(found + len, sizeof found - len, "\n");
    }
    assert_string_equal(found, expected);
}

static void words_are_split_as_a_shell_does(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", ""},
        {"  \n\n", ""},
        {"a b\tc", "a|b|c|\n"},
        {"a;b\nc", "a|\nb|\nc|\n"},
        {"a && b || c & d | e", "a|\nb|\nc|\nd|\ne|\n"},
        {"(a b); { c; }", "a|b|\n{|c|\n}|\n"},
        {"a \\\n  b", "a|b|\n"},
        {"a\\\nb", "ab|\n"},
        {"a \\\r\n b", "a|b|\n"},
        {"'a b' \"c d\" e\\ f", "a b|c d|e f|\n"},
        {"a''b\"\"c ''", "abc||\n"},
        {"\"\\\"x\\$y\\n\"", "\"x$y\\n|\n"},
        {"--id=\"$A.$B\" x", "--id=$A.$B|x|\n"},
        {"--e=$(IFS=',' read -ra w <<< \"$H\"; echo \"${w[0]}\"):1 b",
         "--e=$(IFS=',' read -ra w <<< \"$H\"; echo \"${w[0]}\"):1|b|\n"},
        {"a`b c`d ${x:-y z} $((1 + 2))", "a`b c`d|${x:-y z}|$((1 + 2))|\n"},
        {"a # b\nc#d", "a|\nc#d|\n"},
        {"a >out 2>&1 <in b &>all c", "a|b|c|\n"},
        {"a <<< word b", "a|b|\n"},
        {"cat <<EOF >f\ntorchrun x\nEOF\nb", "cat|\nb|\n"},
        {"cat <<-'E'\n\ttorchrun x\n\tE\nb", "cat|\nb|\n"},
        {"A=(a 'b c'\n$(d)) x=1 (e)", "A=(a 'b c'\n$(d))|x=1|\ne|\n"},
        {"A+=(b) c", "A+=(b)|c|\n"},
        {"diff <(a b) c", "diff|<(a b)|c|\n"},
        {"a 'open", "a|open|\n"},
        {"a \"open", "a|open|\n"},
        {"a $(open", "a|$(open|\n"},
        {"a \\", "a||\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_words(cases[i].text, cases[i].words);
}

/* The text of the first here-document, and the file and the command that get it. */
static void here_documents_belong_to_their_commands(void **state)
{
    static const struct {
        const char *text, *heredoc, *target;
        size_t command;
        bool pipes;
    } cases[] = {
        {"a; cat >f <<E | sh\nb \\$c \\d\nE\n", "b $c \\d\n", "f", 1, true},
        {"bash -s 2>>f x <<-'E'\n\t$a \\$b\n\tE\nc", "$a \\$b\n", "f", 0, false},
        {"cat <<E >&2", NULL, NULL, 0, false},
        {"cat <<E\nopen", "open", NULL, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shell_script script;
        const struct shell_command *c;

        shell_read(&arena, &(struct arg_word){.text = cases[i].text, .len = strlen(cases[i].text)},
                   &script);
        c = &script.commands[cases[i].command];
        assert_int_equal(c->pipes, cases[i].pipes);
        assert_string_equal(c->target.text == NULL ? "" : c->target.text,
                            cases[i].target == NULL ? "" : cases[i].target);
        assert_string_equal(c->heredoc.text == NULL ? "" : c->heredoc.text,
                            cases[i].heredoc == NULL ? "" : cases[i].heredoc);
        for (size_t k = 0; k < c->heredoc.len; k++)
            assert_int_equal(cases[i].text[c->heredoc.at[k]], c->heredoc.text[k]);
    }
}

static void bytes_know_where_they_stand(void **state)
{
    static const char text[] = "x \\\n --a=\"b \\\"c\" 'd'";
    struct shell_script script;
    const struct arg_word *w;

    (void)state;
    shell_read(&arena, &(struct arg_word){.text = text, .len = sizeof text - 1}, &script);
    assert_int_equal(script.count, 1);
    assert_int_equal(script.commands[0].count, 3);
    w = &script.commands[0].words[1];
    assert_string_equal(w->text, "--a=b \"c");
    assert_int_equal(w->start, strchr(text, '-') - text);
    assert_int_equal(w->end, strchr(text, '\'') - text - 1);
    assert_int_equal(w->at[w->len], w->end);
    for (size_t i = 0; i < w->len; i++)
        assert_int_equal(text[w->at[i]], w->text[i]);
}

static void only_what_a_shell_replaces_expands(void **state)
{
    static const struct {
        const char *text;
        bool expands;
    } cases[] = {{"a$b", true},   {"\"$b\"", true}, {"`c`", true},  {"'$b'", false},
                 {"\\$b", false}, {"plain", false}, {"<(x)", true}, {"\"\\$b\"", false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shell_script script;

        shell_read(&arena, &(struct arg_word){.text = cases[i].text, .len = strlen(cases[i].text)},
                   &script);
        assert_int_equal(script.commands[0].words[0].expands, cases[i].expands);
    }
}

static void commands_behind_operators_may_not_run(void **state)
{
    static const struct {
        const char *text, *maybe; /* a digit for each command */
    } cases[] = {
        {"a && b || c; d", "0110"}, {"a &&\n b\nc", "010"}, {"a & b | c", "000"},
        {"a &>f && b\nc", "010"},   {"(a) || (b)", "01"},   {"a && ", "0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shell_script script;

        shell_read(&arena, &(struct arg_word){.text = cases[i].text, .len = strlen(cases[i].text)},
                   &script);
        assert_int_equal(script.count, strlen(cases[i].maybe));
        for (size_t j = 0; j < script.count; j++)
            assert_int_equal(script.commands[j].maybe, cases[i].maybe[j] == '1');
    }
}

static void depth_has_an_end(void **state)
{
    static char text[30000];
    struct shell_script script;

    (void)state;
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "$(", 2);
    shell_read(&arena, &(struct arg_word){.text = text, .len = strlen(text)}, &script);
    assert_true(script.count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(words_are_split_as_a_shell_does, end),
        cmocka_unit_test_teardown(here_documents_belong_to_their_commands, end),
        cmocka_unit_test_teardown(bytes_know_where_they_stand, end),
        cmocka_unit_test_teardown(only_what_a_shell_replaces_expands, end),
        cmocka_unit_test_teardown(commands_behind_operators_may_not_run, end),
        cmocka_unit_test_teardown(depth_has_an_end, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
