/* Prints trees on one line. A string that is plain in the file stays plain if flow style allows
 * it. */
#include "deploy/yaml/yaml_flow.h"

#include "deploy/yaml/scalar_text.h"

#include <string.h>

static void print_quoted(struct buf *out, const struct yaml_node *n)
{
    buf_add(out, "\"", 1);
    for (size_t i = 0; i < n->len; i++) {
        unsigned char c = (unsigned char)n->text[i];

        if (c == '"' || c == '\\')
            buf_print(out, "\\%c", c);
        else if (c == '\n')
            buf_print(out, "\\n");
        else if (c < 0x20 || c == 0x7f)
            buf_print(out, "\\u%04x", c);
        else
            buf_add(out, n->text + i, 1);
    }
    buf_add(out, "\"", 1);
}

static void print_scalar(struct buf *out, const struct yaml_node *n, struct flow_style style)
{
    const char *safe;

    if (yaml_type(n) != YAML_STRING) {
        buf_print(out, "%s", n->len == 0 ? "null" : n->text);
        return;
    }
    safe = style.json ? "" : scalar_text(out->arena, n->text);
    if (n->style == YAML_PLAIN && strcmp(safe, n->text) == 0)
        buf_add(out, n->text, n->len);
    else
        print_quoted(out, n);
}

static void print_inside(struct buf *out, const struct yaml_node *n, struct flow_style style)
{
    for (size_t i = 0; i < n->count; i++) {
        if (i > 0)
            buf_add(out, ", ", 2);
        if (n->kind == YAML_SEQUENCE) {
            flow_print(out, n->items[i], style);
            continue;
        }
        print_scalar(out, n->pairs[i].key, style);
        buf_add(out, ": ", 2);
        flow_print(out, n->pairs[i].value, style);
    }
}

void flow_print(struct buf *out, const struct yaml_node *n, struct flow_style style)
{
    bool mapping = n->kind == YAML_MAPPING;
    const char *space = style.spaced && n->count > 0 ? " " : "";

    if (n->kind == YAML_SCALAR) {
        print_scalar(out, n, style);
        return;
    }
    buf_print(out, "%s%s", mapping ? "{" : "[", space);
    print_inside(out, n, style);
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
        print_inside(out, f.docs[0].root, style);
    else
        flow_print(out, f.docs[0].root, style);
    yaml_file_free(&f);
    return true;
}
