/* Writes new scalars, and new parts of scalars, in the style of the old ones. */
#include "deploy/rewrite/rewrite_edit_internal.h"

#include <string.h>

#include "deploy/yaml/yaml_position.h"
#include "deploy/yaml/yaml_write.h"

static bool refuse_anchor(struct rewrite *w, const struct yaml_node *n)
{
    if (n->anchor != NULL)
        rewrite_error(w, n, "this value has an anchor, and others may share it: write it out");
    return n->anchor != NULL;
}

/* After `!!tag `, which stays. */
static size_t content_start(const struct rewrite_file *f, const struct yaml_node *n)
{
    size_t at = n->start.offset;

    if (n->tag == NULL || f->yaml.bytes[at] != '!')
        return at;
    while (at < n->end.offset && !edit_is_space(f->yaml.bytes[at]))
        at++;
    while (at < n->end.offset && edit_is_space(f->yaml.bytes[at]))
        at++;
    return at;
}

/* A number replaces a number, a boolean replaces a boolean. */
static bool is_same_type(const struct yaml_node *n, const char *text)
{
    struct yaml_node plain = {.kind = YAML_SCALAR, .style = YAML_PLAIN, .text = text};

    plain.len = strlen(text);
    return n->style == YAML_PLAIN && yaml_type(n) == yaml_type(&plain) &&
           yaml_type(n) != YAML_STRING;
}

void edit_value(struct rewrite *w, const struct yaml_node *n, const char *text)
{
    struct rewrite_file *f = rewrite_file_of(w, n);
    struct buf out = {.arena = &w->arena};
    size_t start = content_start(f, n);

    if (edit_refuse_alias(w, n) || refuse_anchor(w, n))
        return;
    if (n->kind == YAML_SCALAR && n->len == 0 && n->start.offset == n->end.offset) {
        buf_print(&out, " %s", scalar_text(&w->arena, text));
    } else if (n->style == YAML_SINGLE && strpbrk(text, "'\n") == NULL) {
        buf_print(&out, "'%s'", text);
    } else if (n->style == YAML_DOUBLE) {
        buf_add(&out, "\"", 1);
        scalar_add_quoted(&out, text);
        buf_add(&out, "\"", 1);
    } else {
        buf_print(&out, "%s", is_same_type(n, text) ? text : scalar_text(&w->arena, text));
        if ((n->style == YAML_LITERAL || n->style == YAML_FOLDED) &&
            f->yaml.bytes[n->end.offset - 1] == '\n')
            buf_add(&out, f->eol, strlen(f->eol));
    }
    edit_bytes(w, f, start, n->end.offset - start, out.text, out.len);
}

/* The indentation of the line of a block scalar that has the offset. */
static size_t indent_at(const struct rewrite_file *f, size_t at)
{
    size_t start = edit_line_start(f, at), n = 0;

    while (f->yaml.bytes[start + n] == ' ')
        n++;
    return n;
}

/* ` \`, the newline and the blanks after it become one blank. */
static void add_folded(struct buf *out, const char *text, enum yaml_style style)
{
    for (; *text != '\0'; text++) {
        if (text[0] == '\\' && text[1] == '\n') {
            text++;
            while (text[1] == ' ' || text[1] == '\t')
                text++;
            if (out->len > 0 && out->text[out->len - 1] == ' ')
                continue;
            buf_add(out, " ", 1);
        } else if (style == YAML_SINGLE && *text == '\'') {
            buf_add(out, "''", 2);
        } else {
            buf_add(out, *text == '\n' ? " " : text, 1);
        }
    }
}

/* The indentation of the value is that of its line, less what the value itself has there. */
static size_t block_indent(const struct rewrite_file *f, const struct yaml_node *n, size_t at,
                           size_t offset)
{
    size_t start = at, own = 0, all;

    while (start > 0 && n->text[start - 1] != '\n')
        start--;
    while (n->text[start + own] == ' ')
        own++;
    all = indent_at(f, offset);
    return all > own ? all - own : 0;
}

/* The line ends from here on, with the blanks around them; *newlines is how many they are. */
static size_t fold_length(const char *bytes, size_t len, size_t *newlines)
{
    size_t n = 0;

    *newlines = 0;
    for (; n < len && edit_is_space(bytes[n]); n++)
        *newlines += bytes[n] == '\n';
    return n;
}

/* Whether the bytes of the source are those of the value. Escapes are fine, because their source is
 * known; in quotes a line end is a blank, and more of them are one line end less. */
static bool is_exact(const struct rewrite_file *f, const struct yaml_node *n, size_t start,
                     size_t end, size_t from, size_t to)
{
    const char *bytes = f->yaml.bytes;

    if (n->style == YAML_DOUBLE || n->style == YAML_LITERAL)
        return end >= start;
    while (start < end && from < to) {
        size_t newlines, fold = fold_length(bytes + start, end - start, &newlines);

        if (n->style == YAML_SINGLE && newlines > 0) {
            start += fold;
            if (newlines == 1 && n->text[from++] != ' ')
                return false;
            for (; newlines > 1; newlines--) {
                if (from == to || n->text[from++] != '\n')
                    return false;
            }
            continue;
        }
        if (bytes[start] != n->text[from++])
            return false;
        start += n->style == YAML_SINGLE && bytes[start] == '\'' ? 2 : 1;
    }
    return start == end && from == to;
}

void edit_part(struct rewrite *w, const struct yaml_node *n, size_t from, size_t to,
               const char *text)
{
    struct rewrite_file *f = rewrite_file_of(w, n);
    struct buf out = {.arena = &w->arena};
    size_t start, end;

    if (edit_refuse_alias(w, n) || refuse_anchor(w, n))
        return;
    start = scalar_position(&f->yaml, n, from).offset;
    end = to == from ? start : scalar_position(&f->yaml, n, to).offset;
    if (!is_exact(f, n, start, end, from, to)) {
        rewrite_error(w, n,
                      "the words to be changed stand on folded lines: write the text as a "
                      "block with |");
        return;
    }
    if (n->style == YAML_LITERAL) {
        size_t indent = block_indent(f, n, from, start);

        for (const char *p = text; *p != '\0'; p++) {
            if (*p == '\n') {
                buf_add(&out, f->eol, strlen(f->eol));
                buf_spaces(&out, p[1] == '\n' ? 0 : indent);
            } else {
                buf_add(&out, p, 1);
            }
        }
    } else if (n->style == YAML_DOUBLE) {
        scalar_add_quoted(&out, text);
    } else {
        add_folded(&out, text, n->style);
    }
    edit_bytes(w, f, start, end - start, out.text == NULL ? "" : out.text, out.len);
}
