/* Splits a command line like sh, and escapes its text so that Kubernetes passes it on unchanged. */
#include "deploy/template/values.h"

#include "deploy/yaml/shell_words.h"

#include <string.h>

static struct yaml_node *words_of(struct arena *a, const struct shell_script *s)
{
    struct yaml_node *words = yaml_new(a, YAML_SEQUENCE);

    for (size_t i = 0; s->count > 0 && i < s->commands[0].count; i++) {
        const struct arg_word *w = &s->commands[0].words[i];

        yaml_append(a, words, yaml_new_text(a, w->text, w->len));
    }
    return words;
}

struct yaml_node *command_line_parts(struct arena *a, const struct yaml_node *line)
{
    struct yaml_node *parts = yaml_new(a, YAML_MAPPING);
    struct arg_word whole = arg_word_of(line);
    struct shell_script s;
    const char *open = NULL, *end;

    shell_read(a, &whole, &s);
    if (!s.active)
        yaml_put(a, parts, "words", words_of(a, &s));
    if (s.open < line->len)
        open =
            arena_copy(a, line->text + s.open, strchr("$<>", line->text[s.open]) == NULL ? 1 : 2);
    end = line->text + s.first_end;
    if (*end != '\0')
        yaml_put_text(a, parts, "break",
                      *end == '\n' ? "newline"
                                   : arena_copy(a, end, *end != ';' && end[1] == *end ? 2 : 1));
    if (s.first_end == line->len && open != NULL && *open != '\\')
        yaml_put_text(a, parts, "open", open);
    if (strstr(line->text, "<<") == NULL)
        yaml_put_text(a, parts, "scriptOpen", open);
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
    struct buf out = {.arena = a};

    for (const char *p = text->text; *p != '\0';) {
        size_t plain = strcspn(p, "$"), run = strspn(p + plain, "$");
        const char *next = p + plain + run;

        buf_add(&out, p, plain + run);
        if (run > 1 || (run == 1 && *next == '(' && is_variable(next + 1)))
            buf_add(&out, p + plain, run); /* once more */
        p = next;
    }
    return out.len == text->len ? text : yaml_new_text(a, out.text, out.len);
}
