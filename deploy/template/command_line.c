/* Splits command lines as sh does, as long as no shell is needed to understand them, and escapes
 * them so that Kubernetes passes them on unchanged. */
#include "deploy/template/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct yaml_node *split_words(struct arena *a, const struct yaml_node *line)
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

/* A walk along the first command of a line. */
struct command_walk {
    const char *text, *at;
    char *closers; /* what closes each open quote and substitution, the outermost first */
    size_t depth;
    const char *outermost; /* the first byte of the outermost open one */
};

static char closer(const struct command_walk *w)
{
    return w->depth == 0 ? '\0' : w->closers[w->depth - 1];
}

/* Steps over `len` bytes, which begin something that `close` ends. */
static void open_part(struct command_walk *w, char close, size_t len)
{
    if (w->depth == 0)
        w->outermost = w->at;
    w->closers[w->depth++] = close;
    w->at += len;
}

/* Within "", also within a ${} there, ' is an ordinary character. */
static bool single_quotes_count(const struct command_walk *w)
{
    bool brace = closer(w) == '}' && w->depth > 1 && w->closers[w->depth - 2] == '"';

    return closer(w) != '"' && !brace;
}

static bool opens_part(struct command_walk *w)
{
    char c = *w->at, next = w->at[1];
    bool quoted = closer(w) == '"';

    if (c == '`' || (c == '"' && !quoted) || (c == '\'' && single_quotes_count(w)))
        open_part(w, c, 1);
    else if (c == '$' && (next == '(' || next == '{'))
        open_part(w, next == '(' ? ')' : '}', 2);
    else if (!quoted && (c == '<' || c == '>') && next == '(')
        open_part(w, ')', 2);
    else if (c == '(' && closer(w) == ')')
        open_part(w, ')', 1);
    else
        return false;
    return true;
}

static bool begins_comment(const struct command_walk *w)
{
    return *w->at == '#' && (w->at == w->text || strchr(" \t\n", w->at[-1]) != NULL);
}

/* An & or | of >&2 and >| belongs to a redirection. */
static bool ends_command(const struct command_walk *w)
{
    bool redirects = w->at > w->text && (w->at[-1] == '>' || (w->at[-1] == '<' && *w->at == '&'));

    return *w->at == '\n' || *w->at == ';' || ((*w->at == '&' || *w->at == '|') && !redirects);
}

/* Goes to what ends the first command, or to the end of the line. */
static void walk_command(struct command_walk *w)
{
    while (*w->at != '\0') {
        if (closer(w) == '\'') {
            w->depth -= *w->at++ == '\'';
        } else if (*w->at == '\\') {
            w->at += w->at[1] == '\0' ? 1 : 2;
        } else if (*w->at == closer(w)) {
            w->depth--;
            w->at++;
        } else if (!opens_part(w)) {
            if (w->depth == 0 && begins_comment(w))
                w->at += strcspn(w->at, "\n");
            else if (w->depth == 0 && ends_command(w))
                return;
            else
                w->at++;
        }
    }
}

/* What is open at the end of the walk; NULL: nothing. */
static const char *open_text(struct arena *a, const struct command_walk *w)
{
    if (w->depth == 0)
        return NULL;
    return arena_copy(a, w->outermost, strchr("$<>", *w->outermost) != NULL ? 2 : 1);
}

static const char *break_text(struct arena *a, const char *at)
{
    if (*at == '\0')
        return NULL;
    return *at == '\n' ? "newline" : arena_copy(a, at, *at != ';' && at[1] == *at ? 2 : 1);
}

static const char *script_open(struct arena *a, const struct yaml_node *script,
                               struct command_walk *w)
{
    size_t escapes = 0;

    if (strstr(script->text, "<<") != NULL)
        return NULL;
    for (; *w->at != '\0'; walk_command(w))
        w->at++;
    while (escapes < script->len && script->text[script->len - 1 - escapes] == '\\')
        escapes++;
    return w->depth == 0 && escapes % 2 == 1 ? "\\" : open_text(a, w);
}

struct yaml_node *command_line_parts(struct arena *a, const struct yaml_node *line)
{
    struct yaml_node *parts = yaml_new(a, YAML_MAPPING), *words = split_words(a, line);
    struct command_walk w = {.text = line->text, .at = line->text};

    if (words != NULL)
        yaml_put(a, parts, "words", words);
    w.closers = arena_alloc(a, line->len + 1); /* each byte opens at most one part */
    walk_command(&w);
    yaml_put_text(a, parts, "break", break_text(a, w.at));
    yaml_put_text(a, parts, "open", open_text(a, &w));
    yaml_put_text(a, parts, "scriptOpen", script_open(a, line, &w));
    return parts;
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
