/* The functions of expressions, and errors, truth and equality, which templates also use. No
 * function changes its arguments. */
#include "deploy/template/template.h"

#include "deploy/yaml/shell_words.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

struct yaml_node *template_error(struct template_state *t, const struct yaml_node *at,
                                 const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!t->failed) /* the first error causes the others */
        yaml_error(t->diag, at, "%s: mend the template", arena_vtext(t->arena, format, args));
    va_end(args);
    t->failed = true;
    return NULL;
}

bool expr_true(const struct yaml_node *value)
{
    int64_t number;
    bool flag;

    if (yaml_is_null(value))
        return false;
    if (value->kind != YAML_SCALAR)
        return value->count > 0;
    if (yaml_to_bool(value, &flag))
        return flag;
    if (yaml_to_int(value, &number))
        return number != 0;
    return value->len > 0;
}

bool expr_equal(const struct yaml_node *a, const struct yaml_node *b)
{
    if (yaml_is_null(a) || yaml_is_null(b))
        return yaml_is_null(a) && yaml_is_null(b);
    if (a->kind != b->kind)
        return false;
    if (a->kind == YAML_SCALAR)
        return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
    if (a->count != b->count)
        return false;
    return !ANY(for (size_t i = 0; i < a->count; i++),
                !expr_equal(yaml_child(a, i), a->kind == YAML_SEQUENCE
                                                  ? b->items[i]
                                                  : yaml_get(b, a->pairs[i].key->text)));
}

/* --- Command lines of the user file. --- */

static struct yaml_node *words_of(struct arena *a, const struct shell_script *s)
{
    struct yaml_node *words = yaml_new(a, YAML_SEQUENCE);

    for (size_t i = 0; s->count > 0 && i < s->commands[0].count; i++) {
        const struct arg_word *w = &s->commands[0].words[i];

        yaml_append(a, words, yaml_new_text(a, w->text, w->len));
    }
    return words;
}

/* What a command line consists of, each part only if there is something to say:
 * words: as sh reads them, without quotes and backslashes; absent if only a shell can tell, because
 *   there is an active character outside of quotes, or quotes that do not end.
 * break: what ends the first command before the line ends: `&&`, `||`, `;`, `&`, `|` or `newline`.
 *   Redirections, comments, continued lines, and what is within quotes or a substitution, are parts
 *   of a command.
 * open: the quote or the beginning of a substitution that the first command does not close: `'`,
 *   `"`, a backquote, `$(`, `${`, `<(` or `>(`.
 * scriptOpen: the same of all commands of a script, and a backslash that continues its last line;
 *   absent of a script with here-documents, which hold any text. */
static struct yaml_node *command_line_parts(struct arena *a, const struct yaml_node *line)
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

/* In commands, arguments and values of variables, Kubernetes replaces $(NAME) by the value of a
 * variable, and $$ by $. Returns the text with each such $ doubled, so that Kubernetes gives back
 * the original; the same node if there is none. */
static struct yaml_node *command_line_escape(struct arena *a, struct yaml_node *text)
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

/* --- The functions. --- */

struct call {
    struct template_state *template;
    struct arena *arena;
    const struct yaml_node *at;
    struct yaml_node **args;
    size_t count;
};

typedef struct yaml_node *(*function)(const struct call *c);

/* if(c, a) or if(c, a, b) */
static struct yaml_node *fn_if(const struct call *c)
{
    return expr_true(c->args[0]) ? c->args[1] : c->count == 3 ? c->args[2] : NULL;
}

/* len(x): items, pairs, or bytes */
static struct yaml_node *fn_len(const struct call *c)
{
    const struct yaml_node *n = c->args[0];

    return yaml_new_number(c->arena,
                           n == NULL ? 0 : (int64_t)(n->kind == YAML_SCALAR ? n->len : n->count));
}

/* join(list, separator): the texts of a list, or key=value of a mapping */
static struct yaml_node *fn_join(const struct call *c)
{
    const struct yaml_node *list = c->args[0];
    const char *between = yaml_text(c->args[1]), *text = "";

    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const char *part = list->kind == YAML_SEQUENCE ? yaml_text(list->items[i])
                                                       : yaml_text(list->pairs[i].value);

        text = arena_text(c->arena, "%s%s%s%s%s", text, i > 0 ? between : "",
                          list->kind == YAML_MAPPING ? list->pairs[i].key->text : "",
                          list->kind == YAML_MAPPING ? "=" : "", part == NULL ? "" : part);
    }
    return yaml_new_string(c->arena, text);
}

/* str(x): a scalar as text */
static struct yaml_node *fn_str(const struct call *c)
{
    const char *text = yaml_text(c->args[0]);

    return yaml_new_string(c->arena, text == NULL ? "" : text);
}

/* some(x): x, or null if it is empty */
static struct yaml_node *fn_some(const struct call *c)
{
    return expr_true(c->args[0]) ? c->args[0] : NULL;
}

/* names(list): the name of each item */
static struct yaml_node *fn_names(const struct call *c)
{
    struct yaml_node *names = yaml_new(c->arena, YAML_SEQUENCE);

    YAML_FOREACH(item, c->args[0]) {
        struct yaml_node *name = yaml_get(item, "name");

        if (name != NULL)
            yaml_append(c->arena, names, name);
    }
    return names;
}

/* concat(list, ...) */
static struct yaml_node *fn_concat(const struct call *c)
{
    struct yaml_node *all = yaml_new(c->arena, YAML_SEQUENCE);

    for (size_t i = 0; i < c->count; i++) {
        YAML_FOREACH(item, c->args[i])
            yaml_append(c->arena, all, item);
    }
    return all;
}

static struct yaml_node *fn_merge(const struct call *c)
{
    struct yaml_node *all = c->args[0];

    for (size_t i = 1; i < c->count; i++)
        all = merge_nodes(MERGE_VALUES, c->arena, all, c->args[i]);
    return all;
}

/* fit(base, over): resources over others, so that requests and limits agree (template.h) */
static struct yaml_node *fn_fit(const struct call *c)
{
    return quantity_fit(c->arena, c->args[0], c->args[1]);
}

/* conflicts(resources): {name, request, limit} of those that no API server accepts */
static struct yaml_node *fn_conflicts(const struct call *c)
{
    return quantity_conflicts(c->arena, c->args[0]);
}

/* command(text): what the command line consists of, {words, break, open, scriptOpen} */
static struct yaml_node *fn_command(const struct call *c)
{
    return yaml_text(c->args[0]) == NULL ? NULL : command_line_parts(c->arena, c->args[0]);
}

/* keep(text or list): escaped so that Kubernetes passes it on unchanged */
static struct yaml_node *fn_keep(const struct call *c)
{
    struct yaml_node *n = c->args[0], *list;

    if (n == NULL || n->kind == YAML_MAPPING)
        return n;
    if (n->kind == YAML_SCALAR)
        return command_line_escape(c->arena, n);
    list = yaml_new(c->arena, YAML_SEQUENCE);
    YAML_FOREACH(item, n)
        yaml_append(c->arena, list,
                    item->kind == YAML_SCALAR ? command_line_escape(c->arena, item) : item);
    return list;
}

/* contains(text, 'a') */
static struct yaml_node *fn_contains(const struct call *c)
{
    const char *text = yaml_text(c->args[0]), *a = yaml_text(c->args[1]);

    return yaml_new_plain(c->arena,
                          text != NULL && a != NULL && strstr(text, a) != NULL ? "true" : "false");
}

/* trim(text): without newlines at its end */
static struct yaml_node *fn_trim(const struct call *c)
{
    const struct yaml_node *n = c->args[0];
    size_t len;

    if (yaml_text(n) == NULL)
        return NULL;
    for (len = n->len; len > 0 && strchr("\n\r", n->text[len - 1]) != NULL; len--)
        ;
    return yaml_new_text(c->arena, n->text, len);
}

/* kind(x): list, mapping or text */
static struct yaml_node *fn_kind(const struct call *c)
{
    static const char *const kinds[] = {
        [YAML_SCALAR] = "text", [YAML_MAPPING] = "mapping", [YAML_SEQUENCE] = "list"};

    return c->args[0] == NULL ? NULL : yaml_new_string(c->arena, kinds[c->args[0]->kind]);
}

/* pairs(list): a mapping made of items {key, value}, or of texts, each with an empty value */
static struct yaml_node *fn_pairs(const struct call *c)
{
    struct yaml_node *m = yaml_new(c->arena, YAML_MAPPING);

    YAML_FOREACH(item, c->args[0]) {
        if (item->kind == YAML_SCALAR)
            yaml_put(c->arena, m, item->text, yaml_new_string(c->arena, ""));
        else if (yaml_text(yaml_get(item, "key")) != NULL)
            yaml_put(c->arena, m, yaml_get(item, "key")->text, yaml_get(item, "value"));
    }
    return m;
}

/* repeated(list): the items that occur earlier in the list, too */
static struct yaml_node *fn_repeated(const struct call *c)
{
    struct yaml_node *list = yaml_new(c->arena, YAML_SEQUENCE);

    for (size_t i = 0; i < yaml_length(c->args[0]); i++) {
        struct yaml_node *const *items = c->args[0]->items;

        if (ANY(for (size_t j = 0; j < i; j++), expr_equal(items[i], items[j])))
            yaml_append(c->arena, list, items[i]);
    }
    return list;
}

/* hash(text, n): a number from 0 to n - 1, the same for the same text */
static struct yaml_node *fn_hash(const struct call *c)
{
    const char *text = yaml_text(c->args[0]);
    int64_t n;

    if (text == NULL || !yaml_to_int(c->args[1], &n) || n < 1)
        return template_error(c->template, c->at, "hash() takes a text and a number");
    return yaml_new_number(c->arena, (int64_t)(text_hash(text, strlen(text)) % (uint64_t)n));
}

#define GROUPS_MAX 4

/* match(text, 'regex'): what an extended POSIX regular expression and its groups match, or null */
static struct yaml_node *fn_match(const struct call *c)
{
    const char *text = yaml_text(c->args[0]), *pattern = yaml_text(c->args[1]);
    struct yaml_node *list = yaml_new(c->arena, YAML_SEQUENCE);
    regmatch_t hits[GROUPS_MAX];
    regex_t regex;
    int result;

    if (pattern == NULL || regcomp(&regex, pattern, REG_EXTENDED) != 0)
        return template_error(c->template, c->at, "match() takes a regular expression");
    result = text == NULL ? REG_NOMATCH : regexec(&regex, text, GROUPS_MAX, hits, 0);
    for (size_t i = 0; result == 0 && i <= regex.re_nsub && i < GROUPS_MAX; i++) {
        regmatch_t hit = hits[i].rm_so < 0 ? (regmatch_t){0} : hits[i];

        yaml_append(c->arena, list,
                    yaml_new_text(c->arena, text + hit.rm_so, (size_t)(hit.rm_eo - hit.rm_so)));
    }
    regfree(&regex);
    return result == 0 ? list : NULL;
}

/* variables(text): the NAME of each $(NAME), for which Kubernetes puts the value */
static struct yaml_node *fn_variables(const struct call *c)
{
    struct yaml_node *list = yaml_new(c->arena, YAML_SEQUENCE);
    const char *p = yaml_text(c->args[0]);

    while (p != NULL && (p = strchr(p, '$')) != NULL) {
        const char *end = p[1] == '(' ? strchr(p, ')') : NULL;

        if (end != NULL)
            yaml_append(c->arena, list, yaml_new_text(c->arena, p + 2, (size_t)(end - p - 2)));
        p = end != NULL ? end : p + 1 + (p[1] == '$'); /* $$ is a dollar sign */
    }
    return list;
}

/* range(n): 0 to n - 1 */
static struct yaml_node *fn_range(const struct call *c)
{
    struct yaml_node *list = yaml_new(c->arena, YAML_SEQUENCE);
    int64_t n;

    if (!yaml_to_int(c->args[0], &n) || n > 100000)
        return template_error(c->template, c->at, "range() takes a number");
    for (int64_t i = 0; i < n; i++)
        yaml_append(c->arena, list, yaml_new_number(c->arena, i));
    return list;
}

/* int(text): 0 if it is no number */
static struct yaml_node *fn_int(const struct call *c)
{
    const char *text = yaml_text(c->args[0]);

    return yaml_new_number(c->arena, text == NULL ? 0 : strtoll(text, NULL, 10));
}

static const struct function {
    const char *name;
    size_t min, max;
    function run;
} functions[] = {
    {"command", 1, 1, fn_command},
    {"concat", 1, 8, fn_concat},
    {"conflicts", 1, 1, fn_conflicts},
    {"contains", 2, 2, fn_contains},
    {"fit", 2, 2, fn_fit},
    {"hash", 2, 2, fn_hash},
    {"if", 2, 3, fn_if},
    {"int", 1, 1, fn_int},
    {"join", 2, 2, fn_join},
    {"keep", 1, 1, fn_keep},
    {"kind", 1, 1, fn_kind},
    {"len", 1, 1, fn_len},
    {"match", 2, 2, fn_match},
    {"merge", 1, 8, fn_merge},
    {"names", 1, 1, fn_names},
    {"pairs", 1, 1, fn_pairs},
    {"range", 1, 1, fn_range},
    {"repeated", 1, 1, fn_repeated},
    {"some", 1, 1, fn_some},
    {"str", 1, 1, fn_str},
    {"trim", 1, 1, fn_trim},
    {"variables", 1, 1, fn_variables},
};

const size_t function_count = sizeof functions / sizeof *functions;

struct yaml_node *function_call(struct template_state *t, const struct yaml_node *at,
                                const char *name, struct yaml_node **args, size_t count)
{
    struct call c = {t, t->arena, at, args, count};
    const struct function *f =
        FIND(one, FOREACH(const struct function, one, functions, function_count),
             strcmp(one->name, name) == 0);

    if (f == NULL)
        return template_error(t, at, "there is no function %s()", name);
    if (count < f->min || count > f->max)
        return template_error(t, at, "%s() takes %zu to %zu arguments", f->name, f->min, f->max);
    return f->run(&c);
}
