/* Quotes strings, unless every reader takes the plain text for a string. */
#include "deploy/yaml/scalar_text.h"

#include <string.h>

#include "deploy/yaml/yaml_doc.h"

static bool is_plain_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("-_./:=+$@%,", c) != NULL;
}

/* Whether the text is safe as a plain scalar, in block and in flow style, for any reader. */
static bool is_plain_everywhere(const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || strchr("-.:=+@%,", *text) != NULL || text[len - 1] == ':')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_plain_char(text[i]) || text[i] == ',')
            return false;
    }
    return true;
}

/* Texts that some reader does not take for a string: Kubernetes' own, or one to which 1:30 is a
 * number and 2024-01-01 a date. */
static bool looks_like_no_string(const char *text)
{
    struct yaml_node n = {.kind = YAML_SCALAR, .style = YAML_PLAIN, .text = text};

    n.len = strlen(text);
    return yaml_type(&n) != YAML_STRING || text[strspn(text, "0123456789:.-_+eE")] == '\0';
}

void scalar_add_quoted(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            buf_print(out, "\\%c", *text);
        else if (*text == '\n')
            buf_print(out, "\\n");
        else
            buf_add(out, text, 1);
    }
}

const char *scalar_text(struct arena *a, const char *text)
{
    struct buf out = {.arena = a};

    if (is_plain_everywhere(text) && !looks_like_no_string(text))
        return text;
    buf_add(&out, "\"", 1);
    scalar_add_quoted(&out, text);
    buf_add(&out, "\"", 1);
    return out.text;
}
