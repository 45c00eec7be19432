/* Walks through the source of a scalar and its value in parallel: the styles differ in the bytes of
 * the source that are not part of the value. */
#include "deploy/yaml/yaml_doc.h"

#include <string.h>

struct yaml_mark yaml_mark_forward(struct yaml_mark from, const char *bytes, size_t offset)
{
    for (size_t i = from.offset; i < offset; i++) {
        if (bytes[i] == '\n') {
            from.line++;
            from.column = 1;
        } else {
            from.column += ((unsigned char)bytes[i] & 0xc0) != 0x80; /* a character begins */
        }
    }
    from.offset = offset;
    return from;
}

struct scalar_walk {
    const char *src; /* the whole file */
    size_t pos, end; /* in src */
    const char *value;
    size_t len, at; /* the value's length, and the position in it */
    size_t indent;  /* of a block scalar */
};

static char source_char(const struct scalar_walk *w)
{
    return w->pos < w->end ? w->src[w->pos] : '\0';
}

static bool is_space_or_tab(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_break(char c)
{
    return c == '\n' || c == '\r';
}

static bool is_space_or_break(char c)
{
    return is_space_or_tab(c) || is_break(c);
}

/* Skips blanks, line ends and comments. */
static void skip_space(struct scalar_walk *w)
{
    bool comment = false;

    while (w->pos < w->end &&
           (comment || is_space_or_break(source_char(w)) || source_char(w) == '#')) {
        comment = !is_break(source_char(w)) && (comment || source_char(w) == '#');
        w->pos++;
    }
}

/* The value may begin right behind an anchor: `&a:::` is the anchor a and the text `:::`. */
static bool is_in_anchor(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* Skips an anchor and a tag. */
static void skip_properties(struct scalar_walk *w)
{
    while (w->pos < w->end && (source_char(w) == '&' || source_char(w) == '!')) {
        bool anchor = source_char(w) == '&';

        w->pos++;
        while (w->pos < w->end &&
               (anchor ? is_in_anchor(source_char(w)) : !is_space_or_break(source_char(w))))
            w->pos++;
        skip_space(w);
    }
}

/* Skips a line break; CR LF is one. */
static void next_line(struct scalar_walk *w)
{
    if (source_char(w) == '\r' && w->pos + 1 < w->end && w->src[w->pos + 1] == '\n')
        w->pos++;
    w->pos++;
}

/* --- Flow scalars: plain and quoted. --- */

/* At blanks and line breaks that YAML may fold. If YAML folds them, skips them and their result. */
static bool skip_fold(struct scalar_walk *w)
{
    size_t pos = w->pos, lines = 0;

    while (pos < w->end && is_space_or_tab(w->src[pos]))
        pos++;
    if (pos >= w->end || !is_break(w->src[pos]))
        return false;
    w->pos = pos;
    while (w->pos < w->end && is_space_or_break(source_char(w))) {
        if (is_break(source_char(w))) {
            next_line(w);
            lines++;
        } else {
            w->pos++;
        }
    }
    w->at += lines == 1 ? 1 : lines - 1;
    return true;
}

/* At the backslash of a double-quoted scalar. */
static void skip_escape(struct scalar_walk *w)
{
    char c = w->pos + 1 < w->end ? w->src[w->pos + 1] : '\0';
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    unsigned long code = 0;

    w->pos += 2;
    if (is_break(c)) { /* the line continues: no byte of the value */
        w->pos--;
        next_line(w);
        while (w->pos < w->end && is_space_or_tab(source_char(w)))
            w->pos++;
        return;
    }
    for (size_t i = 0; i < digits && w->pos < w->end; i++) {
        char d = w->src[w->pos++];

        code = code * 16 + (unsigned long)(d <= '9' ? d - '0' : (d | 0x20) - 'a' + 10);
    }
    if (digits > 0)
        w->at += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; /* as UTF-8 */
    else
        w->at += c == 'N' || c == '_' ? 2 : c == 'L' || c == 'P' ? 3 : 1;
}

static void walk_flow(struct scalar_walk *w, enum yaml_style style, size_t at)
{
    if (style != YAML_PLAIN)
        w->pos++; /* the quote */
    while (w->at < at && w->pos < w->end) {
        if (is_space_or_break(source_char(w)) && skip_fold(w))
            continue;
        if (style == YAML_DOUBLE && source_char(w) == '\\') {
            skip_escape(w);
            continue;
        }
        w->pos += style == YAML_SINGLE && source_char(w) == '\'' ? 2 : 1;
        w->at++;
    }
}

/* --- Block scalars. --- */

static size_t count_spaces(const char *text, size_t len)
{
    size_t n = strspn(text, " ");

    return n < len ? n : len;
}

/* Finds the indentation from the first line that is not empty: its blanks in the file, minus its
 * blanks in the value. */
static size_t find_indent(const struct scalar_walk *w)
{
    size_t pos = w->pos, v = 0, in_source, in_value;

    while (v < w->len && w->value[v] == '\n')
        v++;
    in_value = count_spaces(w->value + v, w->len - v);
    for (;;) {
        in_source = count_spaces(w->src + pos, w->end - pos);
        if (pos + in_source >= w->end || !is_break(w->src[pos + in_source]))
            break;
        pos += in_source + 1;
    }
    return in_source > in_value ? in_source - in_value : 0;
}

static void skip_indent(struct scalar_walk *w)
{
    for (size_t i = 0; i < w->indent && source_char(w) == ' '; i++)
        w->pos++;
}

static void walk_block(struct scalar_walk *w, size_t at)
{
    while (w->pos < w->end && !is_break(source_char(w))) /* | or >, and the rest of the header */
        w->pos++;
    if (w->pos < w->end)
        next_line(w);
    w->indent = find_indent(w);
    skip_indent(w);
    while (w->at < at && w->pos < w->end) {
        if (!is_break(source_char(w))) {
            w->pos++;
            w->at++;
            continue;
        }
        /* Folding made this line break a blank, kept it, or dropped one of several. */
        if (w->value[w->at] == '\n' || w->value[w->at] == ' ')
            w->at++;
        next_line(w);
        skip_indent(w);
    }
}

size_t scalar_start(const struct yaml_file *f, const struct yaml_node *scalar)
{
    struct scalar_walk w = {
        .src = f->bytes, .pos = scalar->start.offset, .end = scalar->end.offset};

    skip_properties(&w);
    return w.pos;
}

struct yaml_mark scalar_position(const struct yaml_file *f, const struct yaml_node *scalar,
                                 size_t at)
{
    struct yaml_mark mark = scalar->start;
    struct scalar_walk w = {.src = f->bytes,
                            .pos = scalar->start.offset,
                            .end = scalar->end.offset,
                            .value = scalar->text,
                            .len = scalar->len};

    if (scalar->kind != YAML_SCALAR || scalar->alias || scalar->file == NULL || w.end > f->len)
        return mark;
    skip_properties(&w);
    if (at > scalar->len)
        at = scalar->len;
    if (scalar->style == YAML_LITERAL || scalar->style == YAML_FOLDED)
        walk_block(&w, at);
    else
        walk_flow(&w, scalar->style, at);
    if (w.pos > w.end)
        w.pos = w.end;
    return yaml_mark_forward(mark, w.src, w.pos);
}
