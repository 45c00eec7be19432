/* Walks a template and builds what it says. */
#include "deploy/fill.h"

#include "deploy/expr.h"
#include "deploy/merge.h"

#include <string.h>

/* Deeper than any file can be nested: parts that use themselves. */
#define FILL_DEPTH_MAX 200

struct yaml_node *scope_get(const struct scope *s, const char *name, size_t len)
{
    for (; s != NULL; s = s->up) {
        for (size_t i = 0; i < s->vars->count; i++) {
            const struct yaml_pair *pair = &s->vars->pairs[i];

            if (pair->key->len == len && memcmp(pair->key->text, name, len) == 0)
                return pair->value;
        }
    }
    return NULL;
}

struct yaml_node *fill_error(struct fill *f, const struct yaml_node *at, const char *format, ...)
{
    va_list args;
    struct arena text = {0};

    va_start(args, format);
    if (!f->failed) /* what follows from the first error is no news */
        diag_error(f->diag, at->file, at->start, "%s", arena_vtext(&text, format, args));
    va_end(args);
    arena_free(&text);
    f->failed = true;
    return NULL;
}

/* Variables that are null are there all the same: a template may ask for them. */
static struct yaml_node *or_null(struct fill *f, struct yaml_node *value)
{
    return value != NULL ? value : yaml_new_plain(f->arena, "null");
}

bool fill_variables(struct fill *f, const struct yaml_node *let, const struct scope *s)
{
    for (size_t i = 0; let != NULL && i < let->count && !f->failed; i++)
        yaml_put(f->arena, s->vars, let->pairs[i].key->text,
                 or_null(f, fill_in(f, let->pairs[i].value, s)));
    return !f->failed;
}

static struct yaml_node *with_comment(struct fill *f, struct yaml_node *n, const char *comment)
{
    struct yaml_node *copy;

    if (n == NULL || comment == NULL)
        return n;
    copy = arena_alloc(f->arena, sizeof *copy);
    *copy = *n;
    copy->comment = comment;
    return copy;
}

static bool is_directive(const struct yaml_pair *pair)
{
    return pair->key->text[0] == '$' && pair->key->text[1] != '{' && pair->key->text[1] != '(';
}

/* What a template made stands where the template does, for messages. */
static struct yaml_node *at(struct yaml_node *n, const struct yaml_node *template)
{
    if (n != NULL && n->file == NULL) {
        n->file = template->file;
        n->start = template->start;
    }
    return n;
}

/* The mapping's own keys, filled in. */
static struct yaml_node *fill_keys(struct fill *f, const struct yaml_node *node,
                                   const struct scope *s)
{
    struct yaml_node *n = yaml_new(f->arena, YAML_MAPPING);

    for (size_t i = 0; i < node->count && !f->failed; i++) {
        const struct yaml_pair *pair = &node->pairs[i];
        const struct yaml_node *key;
        struct yaml_node *value;

        if (is_directive(pair))
            continue;
        key = expr_interpolate(f, pair->key, s);
        value = fill_in(f, pair->value, s);
        if (key == NULL || key->kind != YAML_SCALAR || value == NULL)
            continue;
        yaml_put(f->arena, n, key->text, value);
        at(yaml_get_pair(n, key->text)->key, pair->key);
    }
    return at(n, node);
}

static const struct yaml_node *merge_all(struct fill *f, const struct yaml_node *template,
                                         const struct yaml_node *base, const struct scope *s)
{
    const struct yaml_node *list = fill_in(f, template, s);

    if (list == NULL || list->kind != YAML_SEQUENCE)
        return merge_values(f->arena, base, list);
    for (size_t i = 0; i < list->count; i++)
        base = merge_values(f->arena, base, list->items[i]);
    return base;
}

/* The result of a mapping whose $if is true. */
static struct yaml_node *fill_body(struct fill *f, const struct yaml_node *node,
                                   const struct scope *s)
{
    const struct yaml_node *use = yaml_get(node, "$use"), *merge = yaml_get(node, "$merge");
    const struct yaml_node *patch = yaml_get(node, "$patch"), *value = yaml_get(node, "$value");
    const struct yaml_node *base = NULL;
    struct yaml_node *own;

    if (value != NULL)
        return fill_in(f, value, s);
    if (use != NULL) {
        const struct yaml_node *part = yaml_get(f->parts, use->text);

        if (part == NULL)
            return fill_error(f, use, "there is no part %s: mend the template", use->text);
        base = fill_in(f, part, s);
        if (base == NULL || base->kind != YAML_MAPPING)
            return (struct yaml_node *)base;
    }
    if (merge != NULL)
        base = merge_all(f, merge, base, s);
    own = fill_keys(f, node, s);
    if (base != NULL)
        own = merge_values(f->arena, base, own);
    if (patch != NULL)
        own = merge_patch(f->arena, own, fill_in(f, patch, s));
    return own->count > 0 ? own : NULL;
}

/* A mapping once its $for is dealt with: $with, $if, then the rest. */
static struct yaml_node *fill_one(struct fill *f, const struct yaml_node *node,
                                  const struct scope *s)
{
    const struct yaml_node *condition = yaml_get(node, "$if"), *with = yaml_get(node, "$with");
    const struct yaml_node *comment = yaml_get(node, "$comment");
    struct scope inner = {NULL, s};
    struct yaml_node *result;

    if (with != NULL) {
        inner.vars = yaml_new(f->arena, YAML_MAPPING);
        if (!fill_variables(f, with, &inner))
            return NULL;
        s = &inner;
    }
    if (condition != NULL &&
        !expr_true(expr_eval(f, condition->text, condition->len, s, condition))) {
        const struct yaml_node *other = yaml_get(node, "$else");

        return f->failed || other == NULL ? NULL : fill_in(f, other, s);
    }
    result = f->failed ? NULL : fill_body(f, node, s);
    if (comment != NULL && result != NULL)
        comment = expr_interpolate(f, comment, s);
    return f->failed ? NULL : with_comment(f, result, yaml_text(comment));
}

struct yaml_node *fill_item(struct fill *f, const struct yaml_node *over, size_t index)
{
    const struct yaml_pair *pair;
    struct yaml_node *n;

    if (over->kind == YAML_SEQUENCE)
        return over->items[index];
    pair = &over->pairs[index];
    n = at(yaml_new(f->arena, YAML_MAPPING), pair->key);
    yaml_put(f->arena, n, "key", pair->key);
    yaml_put(f->arena, n, "value", pair->value);
    return n;
}

/* `$for: name in EXPR` */
static void fill_for(struct fill *f, struct yaml_node *list, const struct yaml_node *node,
                     const struct scope *s)
{
    const struct yaml_node *loop = yaml_get(node, "$for");
    const char *in = strstr(loop->text, " in ");
    const struct yaml_node *over;
    char name[64];

    if (in == NULL || (size_t)(in - loop->text) >= sizeof name) {
        fill_error(f, loop, "$for is `name in expression`: mend the template");
        return;
    }
    memcpy(name, loop->text, (size_t)(in - loop->text));
    name[in - loop->text] = '\0';
    over = expr_eval(f, in + 4, strlen(in + 4), s, loop);
    for (size_t i = 0; over != NULL && over->kind != YAML_SCALAR && i < over->count; i++) {
        struct scope inner = {yaml_new(f->arena, YAML_MAPPING), s};
        struct yaml_node *result;

        yaml_put(f->arena, inner.vars, name, fill_item(f, over, i));
        result = fill_one(f, node, &inner);
        if (f->failed)
            return;
        if (result != NULL)
            yaml_append(f->arena, list, result);
    }
}

/* Appends a filled item: what has $for or $splice gives any number of them. */
static void append_item(struct fill *f, struct yaml_node *list, const struct yaml_node *item,
                        const struct scope *s)
{
    const struct yaml_node *condition, *splice;
    struct yaml_node *value;

    if (yaml_get(item, "$for") != NULL) {
        fill_for(f, list, item, s);
        return;
    }
    splice = yaml_get(item, "$splice");
    if (splice == NULL) {
        value = fill_in(f, item, s);
        if (value != NULL)
            yaml_append(f->arena, list, value);
        return;
    }
    condition = yaml_get(item, "$if");
    if (condition != NULL &&
        !expr_true(expr_eval(f, condition->text, condition->len, s, condition)))
        return;
    value = fill_in(f, splice, s);
    if (value != NULL && value->kind != YAML_SEQUENCE) {
        fill_error(f, splice, "$splice takes a list: mend the template");
        return;
    }
    for (size_t i = 0; value != NULL && i < value->count; i++)
        yaml_append(f->arena, list, value->items[i]);
}

static struct yaml_node *fill_any(struct fill *f, const struct yaml_node *node,
                                  const struct scope *s)
{
    struct yaml_node *list;

    if (node->kind == YAML_SCALAR) {
        if (node->style == YAML_PLAIN && yaml_type(node) != YAML_STRING)
            return yaml_is_null(node) ? NULL : (struct yaml_node *)node;
        return at(expr_interpolate(f, node, s), node);
    }
    if (node->count == 0)
        return (struct yaml_node *)node;
    if (node->kind == YAML_MAPPING && yaml_get(node, "$for") == NULL)
        return fill_one(f, node, s);
    list = at(yaml_new(f->arena, YAML_SEQUENCE), node);
    if (node->kind == YAML_MAPPING)
        fill_for(f, list, node, s);
    for (size_t i = 0; node->kind == YAML_SEQUENCE && i < node->count && !f->failed; i++)
        append_item(f, list, node->items[i], s);
    return list->count > 0 ? list : NULL;
}

struct yaml_node *fill_in(struct fill *f, const struct yaml_node *node, const struct scope *s)
{
    struct yaml_node *result;

    if (f->failed || node == NULL)
        return NULL;
    if (f->depth == FILL_DEPTH_MAX)
        return fill_error(f, node, "parts use each other in a circle: mend the template");
    f->depth++;
    result = fill_any(f, node, s);
    f->depth--;
    return f->failed ? NULL : result;
}
