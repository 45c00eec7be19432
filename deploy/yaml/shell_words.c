/* Splits a shell script into the words of its commands, in one pass; $( ), ${ }, ` ` and NAME=( )
 * are one piece each. See shell_words.h for the contract. */
#include "deploy/yaml/shell_words.h"

#include <string.h>

/* Deeper substitutions are read as plain text, so that recursion ends. */
#define DEPTH_MAX 50

struct arg_word arg_word_of(const struct yaml_node *scalar)
{
    return (struct arg_word){
        .text = scalar->text, .len = scalar->len, .node = scalar, .end = scalar->len};
}

struct arg_word arg_word_from(const struct arg_word *word, size_t from)
{
    struct arg_word out = {
        .text = word->text + from,
        .len = word->len - from,
        .node = word->node,
        .at = word->at == NULL ? NULL : word->at + from,
        /* A value in quotes starts at the quote, which is not part of the text. */
        .start = from == 0          ? word->start
                 : word->at == NULL ? word->start + from
                                    : word->at[from - 1] + 1,
        .end = word->end,
        .shell = word->shell,
        .expands = word->expands,
    };

    /* Quotes around the whole word, `"--name=value"`, are not part of the value. */
    if (from > 0 && word->at != NULL && word->at[from - 1] - word->start != from - 1)
        out.end = word->at[word->len - 1] + 1;
    return out;
}

struct shell_reader {
    struct arena *arena;
    const struct arg_word *script;
    const char *text; /* of the script */
    size_t len, pos;
    struct shell_script *out;
    struct shell_command command; /* the current one */
    size_t *at;                   /* the bytes of the current word: where they come from */
    size_t word_len, word_cap, word_start;
    bool in_word, expands;
    bool ran_out;              /* the text ended before a quote or substitution */
    struct arg_word *redirect; /* where the next word goes, as the target of a redirection; NULL: it
                                  is a word of the command */
    struct arg_word dropped;   /* for a redirection that no caller asks for */
    const char *heredoc;       /* the word that ends the text after the current line, or NULL */
    size_t heredoc_len, heredoc_of; /* and the index of the command that gets the text */
    bool heredoc_tabs, heredoc_quoted;
};

static bool is_shell_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char peek_byte(const struct shell_reader *r, size_t ahead)
{
    return r->pos + ahead < r->len ? r->text[r->pos + ahead] : '\0';
}

/* --- What a word is made of. --- */

static void put_byte(struct shell_reader *r, size_t from)
{
    arena_push(r->arena, r->at, r->word_len, r->word_cap) = from;
}

static void put_range(struct shell_reader *r, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        put_byte(r, i);
}

static void begin_word(struct shell_reader *r)
{
    if (r->in_word)
        return;
    r->in_word = true;
    r->expands = false;
    r->word_len = 0;
    r->word_start = r->pos;
}

/* The end of the current word, without a continuation after it. */
static size_t word_end(const struct shell_reader *r)
{
    size_t end = r->pos, least = r->word_len > 0 ? r->at[r->word_len - 1] + 1 : r->word_start + 1;

    while (end > least && r->text[end - 1] == '\n')
        end -= end >= 2 && r->text[end - 2] == '\r' ? 3 : 2;
    return end > least ? end : least;
}

/* The place of a byte of the script in the scalar that contains the script. */
static size_t place_of(const struct shell_reader *r, size_t i)
{
    return r->script->at == NULL ? r->script->start + i : r->script->at[i];
}

/* The bytes that were put, as a word from `start` to `end` of the text. */
static struct arg_word make_word(struct shell_reader *r, size_t start, size_t end)
{
    size_t *at = arena_alloc(r->arena, (r->word_len + 1) * sizeof *at);
    char *text = arena_alloc(r->arena, r->word_len + 1);

    for (size_t i = 0; i < r->word_len; i++) {
        text[i] = r->text[r->at[i]];
        at[i] = place_of(r, r->at[i]);
    }
    at[r->word_len] = place_of(r, end - 1) + 1;
    return (struct arg_word){
        .text = text,
        .len = r->word_len,
        .node = r->script->node,
        .at = at,
        .start = place_of(r, start),
        .end = at[r->word_len],
        .shell = true,
        .expands = r->expands,
    };
}

static void end_word(struct shell_reader *r)
{
    struct shell_command *c = &r->command;
    struct arg_word word;

    if (!r->in_word)
        return;
    r->in_word = false;
    word = make_word(r, r->word_start, word_end(r));
    if (r->redirect != NULL)
        *r->redirect = word;
    else
        arena_push(r->arena, c->words, c->count, c->cap) = word;
    r->redirect = NULL;
}

/* At an operator, a newline, or the end of the text. */
static void end_command(struct shell_reader *r)
{
    struct shell_script *s = r->out;

    end_word(r);
    r->redirect = NULL;
    r->command.pipes = peek_byte(r, 0) == '|' && peek_byte(r, 1) != '|';
    if (r->command.count == 0)
        return;
    arena_push(r->arena, s->commands, s->count, s->cap) = r->command;
    r->command = (struct shell_command){0};
}

/* --- What is passed over as a whole. Each returns the place behind it. --- */

static size_t skip_substitution(struct shell_reader *r, size_t i, int depth, bool quoted);

/* i is at the closing byte, or behind the text. */
static size_t skip_close(struct shell_reader *r, size_t i)
{
    r->ran_out = r->ran_out || i >= r->len;
    return i < r->len ? i + 1 : r->len;
}

/* i is behind the opening quote. */
static size_t skip_single(struct shell_reader *r, size_t i)
{
    const char *end = memchr(r->text + i, '\'', r->len - i);

    return skip_close(r, end == NULL ? r->len : (size_t)(end - r->text));
}

static size_t skip_double(struct shell_reader *r, size_t i, int depth)
{
    while (i < r->len && r->text[i] != '"') {
        if (r->text[i] == '\\')
            i += 2;
        else if (r->text[i] == '$' || r->text[i] == '`')
            i = skip_substitution(r, i, depth, true);
        else
            i++;
    }
    return skip_close(r, i);
}

/* i is behind the opening parenthesis or brace. `quoted`: ' is an ordinary character. */
static size_t skip_group(struct shell_reader *r, size_t i, char close, int depth, bool quoted)
{
    char open = close == ')' ? '(' : '{';
    int nested = 0;

    while (i < r->len && (r->text[i] != close || nested > 0)) {
        char c = r->text[i];

        if (c == '\\') {
            i += 2;
        } else if (c == '\'' && !quoted) {
            i = skip_single(r, i + 1);
        } else if (c == '"') {
            i = skip_double(r, i + 1, depth);
        } else if (c == '$' || c == '`') {
            i = skip_substitution(r, i, depth, false);
        } else {
            nested += (c == open) - (c == close);
            i++;
        }
    }
    return skip_close(r, i);
}

/* At a $ or `. Returns the place after what it begins, which may be that character alone.
 * `quoted`: it is in "". */
static size_t skip_substitution(struct shell_reader *r, size_t i, int depth, bool quoted)
{
    char next = i + 1 < r->len ? r->text[i + 1] : '\0';

    if (depth >= DEPTH_MAX)
        return i + 1;
    if (r->text[i] == '`') {
        for (i++; i < r->len && r->text[i] != '`'; i++)
            i += r->text[i] == '\\';
        return skip_close(r, i);
    }
    if (next == '(')
        return skip_group(r, i + 2, ')', depth + 1, false);
    if (next == '{')
        return skip_group(r, i + 2, '}', depth + 1, quoted);
    return i + 1;
}

/* --- The pieces of a word. --- */

static void read_substitution(struct shell_reader *r, bool quoted)
{
    size_t end = skip_substitution(r, r->pos, 0, quoted);

    r->expands = r->out->active = true;
    put_range(r, r->pos, end);
    r->pos = end;
}

static void read_single(struct shell_reader *r)
{
    size_t end = skip_single(r, r->pos + 1);

    put_range(r, r->pos + 1, end > r->pos + 1 && r->text[end - 1] == '\'' ? end - 1 : end);
    r->pos = end;
}

static void read_double(struct shell_reader *r)
{
    r->pos++;
    while (r->pos < r->len && r->text[r->pos] != '"') {
        char next = peek_byte(r, 1);

        if (r->text[r->pos] == '\\' && next == '\n') {
            r->out->active = true;
            r->pos += 2;
        } else if (r->text[r->pos] == '\\' && next != '\0' && strchr("\"\\$`", next) != NULL) {
            put_byte(r, r->pos + 1);
            r->pos += 2;
        } else if (r->text[r->pos] == '$' || r->text[r->pos] == '`') {
            read_substitution(r, true);
        } else {
            put_byte(r, r->pos++);
        }
    }
    r->pos = skip_close(r, r->pos);
}

static void read_backslash(struct shell_reader *r)
{
    if (peek_byte(r, 1) == '\n' || (peek_byte(r, 1) == '\r' && peek_byte(r, 2) == '\n')) {
        r->out->active = true;
        r->pos += peek_byte(r, 1) == '\n' ? 2 : 3;
        return;
    }
    begin_word(r);
    r->ran_out = r->pos + 1 == r->len;
    if (!r->ran_out)
        put_byte(r, r->pos + 1);
    r->pos += r->ran_out ? 1 : 2;
}

/* --- What is no word. --- */

/* `<<EOF`: the following lines, up to EOF, are not commands. */
static void read_heredoc_mark(struct shell_reader *r)
{
    size_t start;
    char quote = '\0';

    r->pos += 2;
    r->heredoc_tabs = peek_byte(r, 0) == '-';
    r->pos += r->heredoc_tabs;
    while (is_shell_blank(peek_byte(r, 0)))
        r->pos++;
    if (peek_byte(r, 0) == '\'' || peek_byte(r, 0) == '"' || peek_byte(r, 0) == '\\')
        quote = r->text[r->pos++];
    r->heredoc_quoted = quote != '\0';
    quote = quote == '\\' ? '\0' : quote;
    start = r->pos;
    while (r->pos < r->len && r->text[r->pos] != quote && r->text[r->pos] != '\n' &&
           (quote != '\0' ||
            (!is_shell_blank(r->text[r->pos]) && strchr(";&|<>()", r->text[r->pos]) == NULL)))
        r->pos++;
    r->heredoc = r->text + start;
    r->heredoc_len = r->pos - start;
    r->heredoc_of = r->out->count;
    r->pos += quote != '\0' && peek_byte(r, 0) == quote;
}

/* A line of the text behind `<<EOF`, as the command reads it: without quotes around EOF a backslash
 * before $, ` and another one goes. */
static void put_heredoc_line(struct shell_reader *r, const char *line, size_t len)
{
    for (size_t i = 0, from = (size_t)(line - r->text); i < len; i++) {
        if (!r->heredoc_quoted && line[i] == '\\' && i + 1 < len &&
            strchr("$`\\", line[i + 1]) != NULL)
            i++;
        put_byte(r, from + i);
    }
}

/* At the first line after that of `<<EOF`: the command gets the lines up to EOF. */
static void read_heredoc(struct shell_reader *r)
{
    const char *mark = r->heredoc;
    size_t start = r->pos;

    r->heredoc = NULL;
    r->word_len = 0;
    while (r->pos < r->len) {
        const char *line = r->text + r->pos, *end = memchr(line, '\n', r->len - r->pos);
        size_t len = end == NULL ? r->len - r->pos : (size_t)(end - line);

        r->pos += len + (end != NULL);
        while (r->heredoc_tabs && len > 0 && *line == '\t') {
            line++;
            len--;
        }
        if (len == r->heredoc_len && memcmp(line, mark, len) == 0)
            break;
        put_heredoc_line(r, line, len + (end != NULL));
    }
    r->expands = !r->heredoc_quoted;
    if (r->word_len > 0 && r->heredoc_of < r->out->count)
        r->out->commands[r->heredoc_of].heredoc = make_word(r, start, r->at[r->word_len - 1] + 1);
}

/* At < or >. The next word is not a word of the command, and neither is the number in front. */
static void read_redirection(struct shell_reader *r)
{
    bool writes, reads;

    if (r->in_word && r->word_len > 0 &&
        !ANY(FOREACH(const size_t, at, r->at, r->word_len),
             strchr("0123456789", r->text[*at]) == NULL))
        r->in_word = false;
    end_word(r);
    if (peek_byte(r, 1) == '(') { /* <(command): a word with an unknown value */
        begin_word(r);
        r->expands = true;
        r->pos = skip_group(r, r->pos + 2, ')', 1, false);
        put_range(r, r->word_start, r->pos);
        return;
    }
    if (peek_byte(r, 0) == '<' && peek_byte(r, 1) == '<' && peek_byte(r, 2) != '<') {
        read_heredoc_mark(r);
        return;
    }
    writes = peek_byte(r, 0) == '>';
    reads = peek_byte(r, 0) == '<' && peek_byte(r, 1) == '<';
    while (peek_byte(r, 0) == '<' || peek_byte(r, 0) == '>')
        r->pos++;
    writes = writes && peek_byte(r, 0) != '&';
    if (peek_byte(r, 0) == '&' || peek_byte(r, 0) == '|')
        r->pos++;
    r->redirect = writes ? &r->command.target : reads ? &r->command.heredoc : &r->dropped;
}

static void read_newline(struct shell_reader *r)
{
    end_command(r);
    r->pos++;
    if (r->heredoc != NULL)
        read_heredoc(r);
}

static void read_comment(struct shell_reader *r)
{
    const char *end = memchr(r->text + r->pos, '\n', r->len - r->pos);

    r->pos = end == NULL ? r->len : (size_t)(end - r->text);
}

/* At && or ||. */
static void read_condition(struct shell_reader *r)
{
    end_command(r);
    r->pos += 2;
    r->command.maybe = true;
}

/* `&> file` is no end. */
static void end_command_or_redirect(struct shell_reader *r)
{
    bool redirect = peek_byte(r, 0) == '&' && peek_byte(r, 1) == '>';

    if (redirect)
        end_word(r);
    else
        end_command(r);
    r->pos++;
    if (redirect)
        read_redirection(r);
}

static void read_one(struct shell_reader *r)
{
    char c = r->text[r->pos];

    if (strchr("$`;|&<>()*?[]{}!~#\n\r", c) != NULL)
        r->out->active = true;
    if (strchr("\n;&|", c) != NULL && r->out->first_end == r->len)
        r->out->first_end = r->pos;
    switch (c) {
    case ' ':
    case '\t':
    case '\r':
        end_word(r);
        r->pos++;
        break;
    case '\n':
        read_newline(r);
        break;
    case '&':
    case '|':
        if (peek_byte(r, 1) == c)
            read_condition(r);
        else
            end_command_or_redirect(r);
        break;
    case '(':
        if (r->in_word && r->word_len > 1 && r->text[r->at[r->word_len - 1]] == '=') {
            size_t end = skip_group(r, r->pos + 1, ')', 1, false);

            put_range(r, r->pos, end); /* NAME=(...): an array */
            r->pos = end;
            break;
        }
        end_command_or_redirect(r);
        break;
    case ';':
    case ')':
        end_command_or_redirect(r);
        break;
    case '<':
    case '>':
        read_redirection(r);
        break;
    case '\\':
        read_backslash(r);
        break;
    case '\'':
        begin_word(r);
        read_single(r);
        break;
    case '"':
        begin_word(r);
        read_double(r);
        break;
    case '$':
    case '`':
        begin_word(r);
        if (c == '$' && (peek_byte(r, 1) == '\'' || peek_byte(r, 1) == '"'))
            r->pos++; /* $'...' */
        else
            read_substitution(r, false);
        break;
    case '#':
        if (r->in_word)
            put_byte(r, r->pos++);
        else
            read_comment(r);
        break;
    default:
        begin_word(r);
        put_byte(r, r->pos++);
    }
}

void shell_read(struct arena *a, const struct arg_word *script, struct shell_script *out)
{
    struct shell_reader r = {
        .arena = a, .script = script, .text = script->text, .len = script->len, .out = out};
    size_t start = 0;

    *out = (struct shell_script){.first_end = r.len, .open = r.len};
    while (r.pos < r.len) {
        start = r.pos;
        read_one(&r);
    }
    end_command(&r);
    if (r.ran_out)
        out->open = start;
    out->active = out->active || r.ran_out;
}

const char *shell_quote(struct arena *a, const char *word)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./@%";
    struct buf b = {.arena = a};

    if (*word != '\0' && word[strspn(word, plain)] == '\0')
        return word;
    buf_add(&b, "'", 1);
    for (; *word != '\0'; word++)
        buf_print(&b, *word == '\'' ? "'\\''" : "%c", *word);
    buf_add(&b, "'", 1);
    return b.text;
}
