/* Writes trees. A text gets quotes if any reader needs them: YAML 1.1, YAML 1.2, and tools that
 * guess. */
#include "deploy/yaml/yaml_doc.h"

#include "proto/utf8.h"

#include <string.h>
#include <strings.h>

/* --- Scalars. --- */

static bool is_decimal(char c)
{
    return c >= '0' && c <= '9';
}

/* Words that some reader takes for a boolean or for null, in lower or upper case. */
static bool is_reserved_word(const char *text)
{
    return ANY(FOREACH_WORD(word, "y", "n", "yes", "no", "true", "false", "on", "off", "null",
                            ".inf", ".nan"),
               strcasecmp(text, word) == 0);
}

/* Whether it looks like a number, date, time, base-60 number or version (1.2.3): it begins like a
 * number and has only characters of numbers. Too many quotes do no harm. */
static bool is_like_number(const char *text)
{
    const char *p = text + (*text == '-' || *text == '+');

    if (!is_decimal(*p) && !(*p == '.' && (is_decimal(p[1]) || p[1] == '\0')))
        return is_reserved_word(p) && *p == '.';
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
        return strspn(p + 2, "0123456789abcdefABCDEF_") == strlen(p + 2);
    if (p[0] == '0' && (p[1] == 'o' || p[1] == 'O' || p[1] == 'b' || p[1] == 'B'))
        return strspn(p + 2, "0123456789_") == strlen(p + 2);
    if (strspn(p, "0123456789.,_:+-") == strlen(p))
        return true;
    p += strspn(p, "0123456789._");
    if (*p == 'e' || *p == 'E')
        return strspn(p + 1, "+-0123456789_") == strlen(p + 1);
    /* 2001-01-01T00:00:00Z, also with blanks */
    return strspn(p, "0123456789.,_:+-TtZz ") == strlen(p);
}

/* Whether the first characters alone have another meaning to a reader. */
static bool is_marked(const char *text)
{
    if (text[0] == '-') /* an item of a list, `---`, or a number; -x and --x are plain */
        return text[1] == '\0' || strchr(" .,:[]{}-", text[1]) != NULL
                   ? text[1] != '-' || text[2] == '-' || text[2] == '\0'
                   : is_decimal(text[1]);
    return strchr("?:,[]{}#&*!|>'\"%@`", text[0]) != NULL || strncmp(text, "...", 3) == 0 ||
           text_is(text, "~", "=", "<<");
}

/* Whether all readers take the plain text, in a block, for this text. Outside ASCII, readers
 * differ. */
static bool may_be_plain(const char *text)
{
    if (*text == '\0' || is_marked(text) || is_reserved_word(text) || is_like_number(text))
        return false;
    if (text[0] == ' ' || text_ends_with(text, " ") || text_ends_with(text, ":"))
        return false;
    return !ANY(for (const char *p = text; *p != '\0'; p++), *p < 0x20 || *p >= 0x7f) &&
           !text_has(text, ": ", " #");
}

/* Whether a text needs no quotes in flow style. Stricter than YAML, since other programs also read
 * edited files. */
static bool may_be_plain_in_flow(const char *text)
{
    static const char chars[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:=+$@%";

    return may_be_plain(text) && text[strspn(text, chars)] == '\0' &&
           strchr("-.:=+@%", *text) == NULL;
}

/* Whether every reader takes the UTF-8 character at `text` as it is. A byte that begins no
 * character counts as one. */
static bool is_printable(const char *text, size_t *len, uint32_t *code)
{
    *len = utf8_decode((struct slice){(const uint8_t *)text, strnlen(text, 4)}, code);
    if (*len == 0) {
        *len = 1;
        *code = 0xfffd;
        return false;
    }
    return *code >= 0x20 && (*code < 0x7f || *code >= 0xa0) && *code != 0x2028 && *code != 0x2029 &&
           *code != 0xfeff && *code != 0xfffe && *code != 0xffff;
}

void scalar_add_quoted(struct buf *out, const char *text)
{
    uint32_t code;

    for (size_t len; *text != '\0'; text += len) {
        bool printable = is_printable(text, &len, &code);

        if (*text == '"' || *text == '\\')
            buf_print(out, "\\%c", *text);
        else if (*text == '\n' || *text == '\t' || *text == '\r')
            buf_put(out, *text == '\n' ? "\\n" : *text == '\t' ? "\\t" : "\\r");
        else if (printable)
            buf_add(out, text, len);
        else
            buf_print(out, "\\u%04X", code);
    }
}

void scalar_add_string(struct buf *out, const char *text)
{
    buf_put(out, "\"");
    scalar_add_quoted(out, text);
    buf_put(out, "\"");
}

const char *scalar_text(struct arena *a, const char *text)
{
    struct buf out = {.arena = a};

    if (may_be_plain_in_flow(text))
        return text;
    scalar_add_string(&out, text);
    return out.text;
}

static bool is_number_or_word(const struct yaml_node *n)
{
    return n->style == YAML_PLAIN && yaml_type(n) != YAML_STRING;
}

static void write_scalar(struct buf *out, const struct yaml_node *scalar)
{
    if (is_number_or_word(scalar))
        buf_put(out, scalar->len > 0 ? scalar->text : "null");
    else if (may_be_plain(scalar->text))
        buf_put(out, scalar->text);
    else
        scalar_add_string(out, scalar->text);
}

/* True if the text can stand unchanged, line by line, after a `|`. */
static bool may_be_literal(const struct yaml_node *n)
{
    uint32_t code;

    if (is_number_or_word(n) || memchr(n->text, '\n', n->len) == NULL)
        return false;
    if (strspn(n->text, " \n") == n->len) /* blanks only: no line shows the indentation */
        return false;
    return !ANY(for (size_t i = 0, len; i < n->len; i += len),
                !is_printable(n->text + i, &len, &code) && strchr("\n\t", n->text[i]) == NULL);
}

static void write_indent(struct buf *out, unsigned depth)
{
    buf_print(out, "%*s", (int)depth * 2, "");
}

static void write_literal(struct buf *out, const struct yaml_node *n, unsigned depth)
{
    size_t len = n->len, ends = 0;
    const char *p = n->text;

    while (ends < len && p[len - 1 - ends] == '\n')
        ends++;
    /* With 2, the first line does not show the indentation. */
    buf_put(out, p[0] == ' ' || p[0] == '\n' || p[0] == '\t' ? "|2" : "|");
    buf_put(out, ends == 0 ? "-\n" : ends == 1 ? "\n" : "+\n");
    while (*p != '\0') {
        size_t line = strcspn(p, "\n");

        if (line > 0)
            write_indent(out, depth);
        buf_add(out, p, line);
        buf_put(out, "\n");
        p += line + (p[line] == '\n');
    }
}

/* --- Collections. --- */

static void write_comment(struct buf *out, const char *comment, unsigned depth)
{
    while (comment != NULL && *comment != '\0') {
        size_t len = strcspn(comment, "\n");

        write_indent(out, depth);
        buf_print(out, "# %.*s\n", (int)len, comment);
        comment += len + (comment[len] == '\n');
    }
}

static void write_yaml_node(struct buf *out, const struct yaml_node *n, unsigned depth,
                            bool in_list);

/* After 1024 characters, escapes counted, readers do not look for a `:` any more. */
#define LONG_KEY 100

/* `first`: the line has begun already, with `- `. */
static void write_mapping(struct buf *out, const struct yaml_node *n, unsigned depth, bool first)
{
    for (size_t i = 0; i < n->count; i++) {
        const struct yaml_node *value = n->pairs[i].value;
        struct yaml_node key = *n->pairs[i].key;
        bool is_long;

        key.style = YAML_DOUBLE; /* keys are always texts */
        if (!(first && i == 0)) {
            write_comment(out, value->comment, depth);
            write_indent(out, depth);
        }
        is_long = key.len > (may_be_plain(key.text) ? 10 * LONG_KEY : LONG_KEY);
        buf_put(out, is_long ? "? " : "");
        write_scalar(out, &key);
        if (is_long) {
            buf_put(out, "\n");
            write_indent(out, depth);
        }
        buf_put(out, ":");
        write_yaml_node(out, value, depth, false);
    }
}

static void write_sequence(struct buf *out, const struct yaml_node *n, unsigned depth)
{
    YAML_FOREACH(item, n) {
        write_comment(out, item->comment, depth);
        if (item->kind == YAML_MAPPING && item->count > 0) {
            write_comment(out, item->pairs[0].value->comment, depth);
            write_indent(out, depth);
            buf_put(out, "- ");
            write_mapping(out, item, depth + 1, true);
        } else {
            write_indent(out, depth);
            buf_put(out, "-");
            write_yaml_node(out, item, depth, true);
        }
    }
}

/* Writes the part after `key:` or `-`, with the end of the line. */
static void write_yaml_node(struct buf *out, const struct yaml_node *n, unsigned depth,
                            bool in_list)
{
    if (n->kind == YAML_SCALAR) {
        buf_put(out, " ");
        if (may_be_literal(n)) {
            write_literal(out, n, depth + 1);
        } else {
            write_scalar(out, n);
            buf_put(out, "\n");
        }
    } else if (n->count == 0) {
        buf_put(out, n->kind == YAML_MAPPING ? " {}\n" : " []\n");
    } else if (n->kind == YAML_MAPPING) {
        buf_put(out, "\n");
        write_mapping(out, n, depth + 1, false);
    } else {
        buf_put(out, "\n");
        write_sequence(out, n, in_list ? depth + 1 : depth);
    }
}

char *yaml_write(struct arena *a, const struct yaml_node *root)
{
    struct buf out = {.arena = a};

    write_comment(&out, root->comment, 0);
    if (root->kind == YAML_SCALAR) {
        write_scalar(&out, root);
        buf_put(&out, "\n");
    } else if (root->count == 0) {
        buf_put(&out, root->kind == YAML_MAPPING ? "{}\n" : "[]\n");
    } else if (root->kind == YAML_MAPPING) {
        write_mapping(&out, root, 0, false);
    } else {
        write_sequence(&out, root, 0);
    }
    return out.text;
}

const char *yaml_write_documents(struct arena *a, const struct yaml_node *documents)
{
    struct buf out = {.arena = a};

    YAML_FOREACH(document, documents)
        buf_print(&out, "%s%s", out.len > 0 ? "---\n" : "", yaml_write(a, document));
    return out.len > 0 ? out.text : "";
}

/* --- JSON. --- */

static void write_json_scalar(struct buf *out, const struct yaml_node *n)
{
    int64_t number;
    bool flag;

    if (yaml_to_bool(n, &flag))
        buf_put(out, flag ? "true" : "false");
    else if (yaml_to_int(n, &number))
        buf_print(out, "%lld", (long long)number);
    else if (yaml_is_null(n))
        buf_put(out, "null");
    else
        scalar_add_string(out, n->text);
}

static void write_json_line(struct buf *out, unsigned depth, const char *tab)
{
    buf_put(out, "\n");
    while (depth-- > 0)
        buf_put(out, tab);
}

static void write_json_node(struct buf *out, const struct yaml_node *n, unsigned depth,
                            const char *tab)
{
    bool mapping = n->kind == YAML_MAPPING;

    if (n->kind == YAML_SCALAR) {
        write_json_scalar(out, n);
        return;
    }
    buf_put(out, mapping ? "{" : "[");
    for (size_t i = 0; i < n->count; i++) {
        buf_put(out, i == 0 ? "" : mapping ? "," : ", ");
        if (mapping) {
            write_json_line(out, depth + 1, tab);
            scalar_add_string(out, n->pairs[i].key->text);
            buf_print(out, ":%s", tab);
        }
        write_json_node(out, yaml_child(n, i), depth + 1, tab);
    }
    if (mapping)
        write_json_line(out, depth, tab);
    buf_put(out, mapping ? "}" : "]");
}

char *yaml_write_json(struct arena *a, const struct yaml_node *root, const char *tab)
{
    struct buf out = {.arena = a};

    write_json_node(&out, root, 0, tab);
    return out.text;
}

/* --- Flow style. --- */

static void flow_print_scalar(struct buf *out, const struct yaml_node *n, struct flow_style style)
{
    if (yaml_type(n) != YAML_STRING)
        buf_put(out, n->len == 0 ? "null" : n->text);
    else if (n->style == YAML_PLAIN && !style.json && may_be_plain_in_flow(n->text))
        buf_add(out, n->text, n->len);
    else
        scalar_add_string(out, n->text);
}

static void flow_print(struct buf *out, const struct yaml_node *n, struct flow_style style);

static void flow_print_inside(struct buf *out, const struct yaml_node *n, struct flow_style style)
{
    for (size_t i = 0; i < n->count; i++) {
        if (i > 0)
            buf_add(out, ", ", 2);
        if (n->kind == YAML_SEQUENCE) {
            flow_print(out, n->items[i], style);
            continue;
        }
        flow_print_scalar(out, n->pairs[i].key, style);
        buf_add(out, ": ", 2);
        flow_print(out, n->pairs[i].value, style);
    }
}

static void flow_print(struct buf *out, const struct yaml_node *n, struct flow_style style)
{
    bool mapping = n->kind == YAML_MAPPING;
    const char *space = style.spaced && n->count > 0 ? " " : "";

    if (n->kind == YAML_SCALAR) {
        flow_print_scalar(out, n, style);
        return;
    }
    buf_print(out, "%s%s", mapping ? "{" : "[", space);
    flow_print_inside(out, n, style);
    buf_print(out, "%s%s", space, mapping ? "}" : "]");
}

bool flow_print_block(struct buf *out, const char *block, struct flow_style style, bool bare)
{
    struct diag d = {0};
    struct yaml_file f;
    bool ok = yaml_file_parse(&f, "", block, strlen(block), &d);

    diag_free(&d);
    if (!ok)
        return false;
    if (bare)
        flow_print_inside(out, f.docs[0].root, style);
    else
        flow_print(out, f.docs[0].root, style);
    yaml_file_free(&f);
    return true;
}
