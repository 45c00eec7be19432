/* Writes a tree as a literal of CEL. */
#include "deploy/template/template.h"

#include <string.h>

/* "--space=" + request.namespace + "." + variables.job */
static void write_text(struct buf *out, const char *text)
{
    const char *plus = "";

    do {
        bool is_expression = *text == '\001';
        size_t len = strcspn(text += is_expression, is_expression ? "\002" : "\001");
        const char *part = arena_copy(out->arena, text, len);

        buf_put(out, plus);
        (is_expression ? buf_put : scalar_add_string)(out, part);
        plus = " + ";
        text += len + is_expression;
    } while (*text != '\0');
}

static void write_parts(struct buf *out, const struct yaml_node *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        const struct yaml_node *part = parts->items[i];

        buf_print(out, i == 0 ? "" : " ");
        if (part->kind == YAML_SCALAR)
            buf_add(out, part->text, part->len);
        else if (part->kind == YAML_SEQUENCE)
            write_parts(out, part);
        else
            cel_write(out, yaml_text(yaml_get(part, "type")), yaml_get(part, "value"));
    }
}

/* The blanks at the beginning of the last line. */
static int indent_of(const struct buf *out)
{
    const char *line = out->len == 0 ? NULL : strrchr(out->text, '\n');

    return (int)strspn(line != NULL ? line + 1 : out->len > 0 ? out->text : "", " ");
}

/* The keys of resources' limits and requests are no fields, and all values are texts. */
static void write_mapping(struct buf *out, const char *type, const struct yaml_node *n)
{
    bool map = text_ends_with(type, ".limits") || text_ends_with(type, ".requests");
    int indent = indent_of(out);

    buf_print(out, "%s{", map ? "" : type);
    for (size_t i = 0; i < n->count; i++) {
        const char *key = n->pairs[i].key->text;

        buf_print(out, map ? "%s\n%*s\"%s\": " : "%s\n%*s%s: ", i == 0 ? "" : ",", indent + 2, "",
                  key);
        if (map)
            write_text(out, n->pairs[i].value->text);
        else
            cel_write(out, arena_text(out->arena, "%s.%s", type, key), n->pairs[i].value);
    }
    buf_print(out, "\n%*s}", indent, "");
}

void cel_write(struct buf *out, const char *type, const struct yaml_node *n)
{
    const struct yaml_node *parts = yaml_get(n, "cel");
    int64_t number;
    bool truth;

    if (parts != NULL) {
        write_parts(out, parts);
    } else if (n->kind == YAML_MAPPING) {
        write_mapping(out, type, n);
    } else if (n->kind == YAML_SEQUENCE) {
        buf_print(out, "[");
        for (size_t i = 0; i < n->count; i++) {
            buf_print(out, i == 0 ? "" : ", ");
            cel_write(out, type, n->items[i]);
        }
        buf_print(out, "]");
    } else if (yaml_to_bool(n, &truth)) {
        buf_print(out, truth ? "true" : "false");
    } else if (yaml_to_int(n, &number)) {
        buf_print(out, "%lld", (long long)number);
    } else {
        write_text(out, n->text);
    }
}
