/* Splits command lines as sh does, as long as no shell is needed to understand them. */
#include "deploy/template/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct yaml_node *command_line_split(struct arena *a, const struct yaml_node *line)
{
    struct yaml_node *words = yaml_new(a, YAML_SEQUENCE);
    char *word = arena_alloc(a, line->len + 1); /* no word is longer than the line */
    size_t len = 0;
    bool open = false; /* a word has begun, perhaps with empty quotes only */
    char quote = '\0';

    for (const char *p = line->text;; p++) {
        char c = *p;

        if (quote == '\0' && (c == '\0' || c == ' ' || c == '\t')) {
            if (open)
                yaml_append(a, words, yaml_new_text(a, word, len));
            open = false;
            len = 0;
            if (c == '\0')
                return words;
            continue;
        }
        if (c == '\0')
            return NULL;
        if (c == quote) {
            quote = '\0';
            continue;
        }
        if (quote == '\0' && (c == '\'' || c == '"')) {
            quote = c;
            open = true;
            continue;
        }
        if (quote == '\0' && strchr("$`;|&<>()*?[]{}!~#\n\r", c) != NULL)
            return NULL;
        if (quote == '"' && strchr("$`", c) != NULL)
            return NULL;
        if (c == '\\' && quote != '\'') {
            if (p[1] == '\0' || p[1] == '\n')
                return NULL;
            if (quote == '\0' || strchr("$`\"\\", p[1]) != NULL)
                c = *++p;
        }
        word[len++] = c;
        open = true;
    }
}

/* Kubernetes takes any text between $( and ) for the name of a variable. Only these characters can
 * be in such a name. */
static bool is_variable(const char *p)
{
    size_t len = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._");

    return len > 0 && p[len] == ')';
}

struct yaml_node *command_line_escape(struct arena *a, struct yaml_node *text)
{
    const char *p = text->text;
    char *out, *at;

    if (strchr(p, '$') == NULL)
        return text;
    at = out = arena_alloc(a, 2 * text->len + 1);
    while (*p != '\0') {
        size_t run = strspn(p, "$");
        bool twice = run > 1 || (run == 1 && p[1] == '(' && is_variable(p + 2));

        for (size_t i = 0; i < run; i++) {
            *at++ = '$';
            if (twice)
                *at++ = '$';
        }
        p += run;
        if (*p != '\0')
            *at++ = *p++;
    }
    if ((size_t)(at - out) == text->len)
        return text;
    return yaml_new_text(a, out, (size_t)(at - out));
}
