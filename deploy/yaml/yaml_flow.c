/* Writes strings and trees on one line. A string gets quotes unless every reader takes the plain
 * text for a string; one that is plain in the file stays plain if flow style allows it. */
#include "deploy/yaml/yaml_write.h"

#include <string.h>

#define PLAIN_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:=+$@%"

/* Whether the text is safe as a plain scalar, in block and in flow style, for any reader. */
static bool is_plain_everywhere(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && strchr("-.:=+@%", *text) == NULL && text[len - 1] != ':' &&
           strspn(text, PLAIN_CHARS) == len;
}

/* Texts that some reader does not take for a string: Kubernetes' own, or one to which 1:30 is a
 * number and 2024-01-01 a date. */
static bool looks_like_no_string(const char *text)
{
    struct yaml_node n = {
        .kind = YAML_SCALAR, .style = YAML_PLAIN, .text = text, .len = strlen(text)};

    return yaml_type(&n) != YAML_STRING || text[strspn(text, "0123456789:.-_+eE")] == '\0';
}

void scalar_add_quoted(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            buf_print(out, "\\%c", c);
        else if (c == '\n')
            buf_print(out, "\\n");
        else if (c < 0x20 || c == 0x7f)
            buf_print(out, "\\u%04x", c);
        else
            buf_add(out, text, 1);
    }
}

static void scalar_add_string(struct buf *out, const char *text)
{
    buf_add(out, "\"", 1);
    scalar_add_quoted(out, text);
    buf_add(out, "\"", 1);
}

const char *scalar_text(struct arena *a, const char *text)
{
    struct buf out = {.arena = a};

    if (is_plain_everywhere(text) && !looks_like_no_string(text))
        return text;
    scalar_add_string(&out, text);
    return out.text;
}

/* --- Trees. --- */

static void flow_print_scalar(struct buf *out, const struct yaml_node *n, struct flow_style style)
{
    if (yaml_type(n) != YAML_STRING)
        buf_print(out, "%s", n->len == 0 ? "null" : n->text);
    else if (n->style == YAML_PLAIN && !style.json &&
             strcmp(scalar_text(out->arena, n->text), n->text) == 0)
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
