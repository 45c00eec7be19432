/* Evaluates the expressions of templates: a recursive descent parser that computes while it reads.
 * See template.h for the contract. */
#include "deploy/template/template.h"

#include <string.h>

#define ARGS_MAX 8

struct expr_reader {
    struct template_state *t;
    const struct scope *scope;
    const struct yaml_node *at;
    const char *p, *end;
    unsigned depth;
};

static struct yaml_node *read_any(struct expr_reader *w);

/* --- Values. --- */

static struct yaml_node *truth(struct expr_reader *w, bool value)
{
    return yaml_new_plain(w->t->arena, value ? "true" : "false");
}

static struct yaml_node *bad(struct expr_reader *w, const char *what)
{
    w->p = w->end;
    return template_error(w->t, w->at, "%s", what);
}

/* --- Words of the text. --- */

static void skip_blanks(struct expr_reader *w)
{
    while (w->p < w->end && (*w->p == ' ' || *w->p == '\n'))
        w->p++;
}

#define NAME "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static bool is_name_char(char c)
{
    return c != '\0' && strchr(NAME, c) != NULL;
}

/* Skips `text` if it comes next. A word must not continue behind `text`. */
static bool expr_take(struct expr_reader *w, const char *text)
{
    size_t len = strlen(text);

    skip_blanks(w);
    if ((size_t)(w->end - w->p) < len || memcmp(w->p, text, len) != 0)
        return false;
    if (is_name_char(*text) && w->p + len < w->end && is_name_char(w->p[len]))
        return false;
    w->p += len;
    return true;
}

/* The name that comes next, which does not go on behind the expression; "": there is none. */
static const char *take_name(struct expr_reader *w)
{
    const char *name = w->p;

    w->p += strspn(name, NAME);
    return arena_copy(w->t->arena, name, (size_t)(w->p - name));
}

/* --- The grammar, from the tightest binding to the loosest. --- */

static struct yaml_node *read_string(struct expr_reader *w)
{
    const char *start = ++w->p, *close = memchr(start, '\'', (size_t)(w->end - start));

    if (close == NULL)
        return bad(w, "a quote does not end");
    w->p = close + 1;
    return yaml_new_text(w->t->arena, start, (size_t)(close - start));
}

static struct yaml_node *read_list_of_values(struct expr_reader *w)
{
    struct yaml_node *list = yaml_new(w->t->arena, YAML_SEQUENCE);

    if (expr_take(w, "]"))
        return list;
    do {
        struct yaml_node *item = read_any(w);

        if (item != NULL)
            yaml_append(w->t->arena, list, item);
    } while (expr_take(w, ","));
    return expr_take(w, "]") ? list : bad(w, "a list does not end in ]");
}

static struct yaml_node *read_call(struct expr_reader *w, const char *name)
{
    struct yaml_node *args[ARGS_MAX] = {NULL};
    size_t count = 0;

    if (!expr_take(w, ")")) {
        do {
            if (count == ARGS_MAX)
                return bad(w, "too many arguments");
            args[count++] = read_any(w);
        } while (expr_take(w, ","));
        if (!expr_take(w, ")"))
            return bad(w, "the arguments do not end in )");
    }
    return w->t->failed ? NULL : function_call(w->t, w->at, name, args, count);
}

/* `.key` and `[index]` after a value. */
static struct yaml_node *read_parts(struct expr_reader *w, struct yaml_node *value)
{
    for (;;) {
        if (w->p < w->end && *w->p == '.' && w->p + 1 < w->end && is_name_char(w->p[1])) {
            w->p++;
            value = yaml_get(value, take_name(w));
        } else if (w->p < w->end && *w->p == '[') {
            const struct yaml_node *index;
            int64_t number;

            w->p++;
            index = read_any(w);
            if (!expr_take(w, "]"))
                return bad(w, "an index does not end in ]");
            if (yaml_to_int(index, &number))
                value = number < 0 ? NULL : yaml_at(value, (size_t)number);
            else
                value = index == NULL ? NULL : yaml_get(value, index->text);
        } else {
            return yaml_is_null(value) ? NULL : value;
        }
    }
}

static struct yaml_node *read_named_value(struct expr_reader *w)
{
    const char *name = take_name(w);
    struct yaml_node *value = NULL;

    if (*name == '\0')
        return bad(w, "a value is expected");
    if (*name >= '0' && *name <= '9')
        return yaml_new_plain(w->t->arena, name);
    if (w->p < w->end && *w->p == '(') {
        w->p++;
        return read_parts(w, read_call(w, name));
    }
    if (text_is(name, "true", "false"))
        return truth(w, *name == 't');
    if (strcmp(name, "null") == 0)
        return NULL;
    for (const struct scope *s = w->scope; s != NULL && value == NULL; s = s->up)
        value = yaml_get(s->vars, name);
    if (value == NULL)
        return template_error(w->t, w->at, "%s is not defined", name);
    return read_parts(w, value);
}

static struct yaml_node *read_primary(struct expr_reader *w)
{
    struct yaml_node *value;

    skip_blanks(w);
    if (w->p == w->end)
        return bad(w, "the expression ends too early");
    if (++w->depth > 50)
        return bad(w, "the expression is nested too deep");
    if (*w->p == '\'') {
        value = read_string(w);
    } else if (expr_take(w, "[")) {
        value = read_list_of_values(w);
    } else if (expr_take(w, "(")) {
        value = read_any(w);
        value = expr_take(w, ")") ? read_parts(w, value) : bad(w, "a ( does not end in )");
    } else if (expr_take(w, "not")) {
        value = truth(w, !expr_true(read_primary(w)));
    } else {
        value = read_named_value(w);
    }
    w->depth--;
    return value;
}

static struct yaml_node *read_default(struct expr_reader *w)
{
    struct yaml_node *value = read_primary(w);

    while (expr_take(w, "??")) {
        struct yaml_node *other = read_primary(w);

        if (value == NULL)
            value = other;
    }
    return value;
}

static struct yaml_node *read_sum(struct expr_reader *w)
{
    struct yaml_node *left = read_default(w);

    for (;;) {
        char op = expr_take(w, "+") ? '+' : expr_take(w, "-") ? '-' : '\0';
        struct yaml_node *right;
        int64_t a, b;

        if (op == '\0')
            return left;
        right = read_default(w);
        if (w->t->failed)
            return NULL;
        if (left == NULL || right == NULL) {
            left = NULL;
            continue;
        }
        if (yaml_to_int(left, &a) && yaml_to_int(right, &b)) {
            bool over =
                op == '+' ? __builtin_add_overflow(a, b, &a) : __builtin_sub_overflow(a, b, &a);

            if (over)
                return bad(w, "the number is too large");
            left = yaml_new_number(w->t->arena, a);
        } else if (op == '+' && yaml_text(left) != NULL && yaml_text(right) != NULL) {
            left = yaml_new_string(w->t->arena,
                                   arena_text(w->t->arena, "%s%s", left->text, right->text));
        } else {
            return bad(w, "these two cannot be added");
        }
    }
}

static bool is_in(const struct yaml_node *needle, const struct yaml_node *hay)
{
    if (needle == NULL || hay == NULL)
        return false;
    if (hay->kind == YAML_MAPPING)
        return yaml_text(needle) != NULL && yaml_get_pair(hay, needle->text) != NULL;
    return ANY(YAML_FOREACH(item, hay), expr_equal(needle, item));
}

static struct yaml_node *read_comparison(struct expr_reader *w)
{
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">", "in"};
    struct yaml_node *left = read_sum(w);

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        struct yaml_node *right;
        int64_t a, b;

        if (!expr_take(w, ops[i]))
            continue;
        right = read_sum(w);
        if (w->t->failed)
            return NULL;
        if (i < 2)
            return truth(w, expr_equal(left, right) == (i == 0));
        if (i == 6)
            return truth(w, is_in(left, right));
        if (!yaml_to_int(left, &a) || !yaml_to_int(right, &b))
            return bad(w, "only integers have an order");
        return truth(w, i == 2 ? a <= b : i == 3 ? a >= b : i == 4 ? a < b : a > b);
    }
    return left;
}

/* `and`, and `or` around it; both sides are evaluated. */
static struct yaml_node *read_logic(struct expr_reader *w, bool any)
{
    struct yaml_node *value = any ? read_logic(w, false) : read_comparison(w);

    while (expr_take(w, any ? "or" : "and")) {
        bool left = expr_true(value);
        bool right = expr_true(any ? read_logic(w, false) : read_comparison(w));

        value = truth(w, any ? left || right : left && right);
    }
    return value;
}

static struct yaml_node *read_any(struct expr_reader *w)
{
    return read_logic(w, true);
}

struct yaml_node *expr_eval(struct template_state *t, const char *text, size_t len,
                            const struct scope *s, const struct yaml_node *at)
{
    struct expr_reader w = {.t = t, .scope = s, .at = at, .p = text, .end = text + len};
    struct yaml_node *value = read_any(&w);

    skip_blanks(&w);
    if (w.p < w.end && !t->failed)
        return template_error(t, at, "`%.*s` after the end of an expression", (int)(w.end - w.p),
                              w.p);
    return t->failed ? NULL : value;
}

/* --- Texts with expressions in them. --- */

/* The `}` that ends the expression which starts at p, or NULL. */
static const char *find_close(const char *p)
{
    bool quoted = false;

    for (; *p != '\0'; p++) {
        if (*p == '\'')
            quoted = !quoted;
        else if (*p == '}' && !quoted)
            return p;
    }
    return NULL;
}

struct yaml_node *expr_interpolate(struct template_state *t, const struct yaml_node *text,
                                   const struct scope *s)
{
    struct buf out = {.arena = t->arena};
    const char *p = text->text, *close = strncmp(p, "${", 2) == 0 ? find_close(p) : NULL;

    if (close != NULL && close[1] == '\0')
        return expr_eval(t, p + 2, (size_t)(close - p - 2), s, text);
    while (*p != '\0') {
        bool kept = strncmp(p, "$${", 3) == 0; /* it stands for ${ */
        const struct yaml_node *value;

        if (kept || strncmp(p, "${", 2) != 0) {
            buf_add(&out, p + kept, 1 + kept);
            p += kept ? 3 : 1;
            continue;
        }
        close = find_close(p);
        if (close == NULL)
            return template_error(t, text, "a ${ does not end in }");
        value = expr_eval(t, p + 2, (size_t)(close - p - 2), s, text);
        if (value != NULL && value->kind != YAML_SCALAR)
            return template_error(t, text, "a collection stands inside of a text");
        if (t->failed)
            return NULL;
        if (value != NULL)
            buf_add(&out, value->text, value->len);
        p = close + 1;
    }
    return yaml_new_text(t->arena, out.len == 0 ? "" : out.text, out.len);
}
