/* Walks through a template and builds the result. */
#include "deploy/template/template.h"

#include "deploy/template/files.h"

#include <string.h>

/* No file is nested deeper than this; parts that include themselves are. */
#define FILL_DEPTH_MAX 200

bool template_fill_variables(struct template_state *t, const struct yaml_node *let,
                             const struct scope *s)
{
    YAML_FOREACH_PAIR(variable, let) {
        const struct yaml_node *value = template_fill(t, variable->value, s);

        if (value == NULL) /* a variable that is null is defined: a template may use it */
            value = yaml_new_plain(t->arena, "null");
        yaml_put(t->arena, s->vars, variable->key->text, value);
    }
    return !t->failed;
}

/* Whether a mapping's $if is true or absent. */
static bool is_wanted(struct template_state *t, const struct yaml_node *node, const struct scope *s)
{
    const struct yaml_node *condition = yaml_get(node, "$if");

    return condition == NULL ||
           expr_true(expr_eval(t, condition->text, condition->len, s, condition));
}

static struct yaml_node *with_comment(struct template_state *t, struct yaml_node *n,
                                      const char *comment)
{
    struct yaml_node *copy;

    if (n == NULL || comment == NULL)
        return n;
    copy = arena_alloc(t->arena, sizeof *copy);
    *copy = *n;
    copy->comment = comment;
    return copy;
}

/* Nodes that a template makes get its place, for messages. */
static struct yaml_node *at(struct yaml_node *n, const struct yaml_node *template)
{
    if (n != NULL && n->file == NULL) {
        n->file = template->file;
        n->start = template->start;
    }
    return n;
}

/* The mapping's own keys (no directives), filled in. */
static struct yaml_node *fill_keys(struct template_state *t, const struct yaml_node *node,
                                   const struct scope *s)
{
    struct yaml_node *n = yaml_new(t->arena, YAML_MAPPING);

    YAML_FOREACH_PAIR(pair, node) {
        const struct yaml_node *key;
        struct yaml_node *value;

        if (pair->key->text[0] == '$' && strchr("{(", pair->key->text[1]) == NULL)
            continue; /* a directive */
        key = expr_interpolate(t, pair->key, s);
        value = template_fill(t, pair->value, s);
        if (key == NULL || key->kind != YAML_SCALAR || value == NULL)
            continue;
        yaml_put(t->arena, n, key->text, value);
        at(yaml_get_pair(n, key->text)->key, pair->key);
    }
    return at(n, node);
}

static const struct yaml_node *merge_all(struct template_state *t, const struct yaml_node *template,
                                         const struct yaml_node *base, const struct scope *s)
{
    const struct yaml_node *list = template_fill(t, template, s);

    if (list == NULL || list->kind != YAML_SEQUENCE)
        return merge_nodes(MERGE_VALUES, t->arena, base, list);
    YAML_FOREACH(item, list)
        base = merge_nodes(MERGE_VALUES, t->arena, base, item);
    return base;
}

/* The result of a mapping whose $if is true or absent. */
static struct yaml_node *fill_body(struct template_state *t, const struct yaml_node *node,
                                   const struct scope *s)
{
    const struct yaml_node *include = yaml_get(node, "$include"), *merge = yaml_get(node, "$merge");
    const struct yaml_node *patch = yaml_get(node, "$patch"), *value = yaml_get(node, "$value");
    const struct yaml_node *base = NULL;
    struct yaml_node *own;

    if (value != NULL)
        return template_fill(t, value, s);
    if (include != NULL) {
        const struct yaml_node *part = yaml_get(t->parts, include->text);

        if (part == NULL)
            return template_error(t, include, "there is no part %s", include->text);
        base = template_fill(t, part, s);
        if (base == NULL || base->kind != YAML_MAPPING)
            return (struct yaml_node *)base;
    }
    if (merge != NULL)
        base = merge_all(t, merge, base, s);
    own = fill_keys(t, node, s);
    if (base != NULL)
        own = merge_nodes(MERGE_VALUES, t->arena, base, own);
    if (patch != NULL)
        own = merge_nodes(MERGE_PATCH, t->arena, own, template_fill(t, patch, s));
    return own->count > 0 ? own : NULL;
}

/* A mapping without its $for: $vars, then $if, then the rest. */
static struct yaml_node *fill_one(struct template_state *t, const struct yaml_node *node,
                                  const struct scope *s)
{
    const struct yaml_node *vars = yaml_get(node, "$vars"), *comment = yaml_get(node, "$comment");
    struct scope inner = {NULL, s};
    struct yaml_node *result;

    if (vars != NULL) {
        inner.vars = yaml_new(t->arena, YAML_MAPPING);
        if (!template_fill_variables(t, vars, &inner))
            return NULL;
        s = &inner;
    }
    if (!is_wanted(t, node, s))
        return template_fill(t, yaml_get(node, "$else"), s);
    result = t->failed ? NULL : fill_body(t, node, s);
    if (comment != NULL && result != NULL)
        comment = expr_interpolate(t, comment, s);
    return t->failed ? NULL : with_comment(t, result, yaml_text(comment));
}

/* An item of a list, or {key, value} of a mapping. */
static struct yaml_node *item_of(struct template_state *t, const struct yaml_node *over,
                                 size_t index)
{
    const struct yaml_pair *pair;
    struct yaml_node *n;

    if (over->kind == YAML_SEQUENCE)
        return over->items[index];
    pair = &over->pairs[index];
    n = at(yaml_new(t->arena, YAML_MAPPING), pair->key);
    yaml_put(t->arena, n, "key", pair->key);
    yaml_put(t->arena, n, "value", pair->value);
    return n;
}

/* A `$for: name in expression`; starts zeroed. */
struct template_loop {
    const struct yaml_node *over;
    size_t index;       /* of the next item */
    struct scope scope; /* with the variable */
};

/* Sets the variable to the next item. False: there are no more, or an error (t->failed). */
static bool template_loop_next(struct template_state *t, const struct yaml_node *loop,
                               const struct scope *s, struct template_loop *l)
{
    const char *in = strstr(loop->text, " in ");

    if (t->failed)
        return false;
    if (in == NULL)
        return template_error(t, loop, "$for is `name in expression`");
    if (l->index == 0)
        l->over = expr_eval(t, in + 4, strlen(in + 4), s, loop);
    if (l->over == NULL || l->over->kind == YAML_SCALAR || l->index == l->over->count)
        return false;
    l->scope = (struct scope){yaml_new(t->arena, YAML_MAPPING), s};
    yaml_put(t->arena, l->scope.vars, arena_copy(t->arena, loop->text, (size_t)(in - loop->text)),
             item_of(t, l->over, l->index++));
    return true;
}

/* `$for: name in EXPR` */
static void fill_for(struct template_state *t, struct yaml_node *list, const struct yaml_node *node,
                     const struct scope *s)
{
    struct template_loop l = {0};

    while (template_loop_next(t, yaml_get(node, "$for"), s, &l)) {
        struct yaml_node *result = fill_one(t, node, &l.scope);

        if (t->failed)
            return;
        if (result != NULL)
            yaml_append(t->arena, list, result);
    }
}

/* Appends an item, filled in; an item with $for or $concat can expand to several items. */
static void append_item(struct template_state *t, struct yaml_node *list,
                        const struct yaml_node *item, const struct scope *s)
{
    const struct yaml_node *concat = yaml_get(item, "$concat");
    struct yaml_node *value;

    if (yaml_get(item, "$for") != NULL) {
        fill_for(t, list, item, s);
        return;
    }
    if (concat == NULL) {
        value = template_fill(t, item, s);
        if (value != NULL)
            yaml_append(t->arena, list, value);
        return;
    }
    value = is_wanted(t, item, s) ? template_fill(t, concat, s) : NULL;
    if (value != NULL && value->kind != YAML_SEQUENCE)
        template_error(t, concat, "$concat takes a list");
    YAML_FOREACH(part, value)
        yaml_append(t->arena, list, part);
}

static struct yaml_node *fill_any(struct template_state *t, const struct yaml_node *node,
                                  const struct scope *s)
{
    struct yaml_node *list;

    if (node->kind == YAML_SCALAR) {
        if (node->style == YAML_PLAIN && yaml_type(node) != YAML_STRING)
            return yaml_is_null(node) ? NULL : (struct yaml_node *)node;
        return at(expr_interpolate(t, node, s), node);
    }
    if (node->count == 0)
        return (struct yaml_node *)node;
    if (node->kind == YAML_MAPPING && yaml_get(node, "$for") == NULL)
        return fill_one(t, node, s);
    list = at(yaml_new(t->arena, YAML_SEQUENCE), node);
    if (node->kind == YAML_MAPPING)
        fill_for(t, list, node, s);
    YAML_FOREACH(item, node)
        append_item(t, list, item, s);
    return list->count > 0 ? list : NULL;
}

struct yaml_node *template_fill(struct template_state *t, const struct yaml_node *node,
                                const struct scope *s)
{
    struct yaml_node *result;

    if (t->failed || node == NULL)
        return NULL;
    if (t->depth == FILL_DEPTH_MAX)
        return template_error(t, node, "parts include each other in a circle");
    t->depth++;
    result = fill_any(t, node, s);
    t->depth--;
    return t->failed ? NULL : result;
}

/* --- Checks. --- */

/* Whether the user has written it: settings that an input format or the model makes are in no file
 * of theirs, and those of a profile are in one that they can look at. */
static bool is_written_by_user(const struct yaml_node *place)
{
    return place != NULL && place->file != NULL &&
           !text_begins(place->file, "formats/", "platforms/", "placements/") &&
           !text_is(place->file, "model.yaml", "parts.yaml");
}

/* Runs one entry; `s` has the variable of the entry's $for. */
static void check_one(struct template_state *t, const struct yaml_node *check, enum diag_kind kind,
                      const struct scope *s, const char *file)
{
    const struct yaml_node *place, *text;

    if (!expr_true(template_fill(t, yaml_get(check, "if"), s)) || t->failed)
        return;
    place = template_fill(t, yaml_get(check, "where"), s);
    text = template_fill(t, yaml_get(check, "message"), s);
    if (t->failed || yaml_text(text) == NULL)
        return;
    if (is_written_by_user(place))
        yaml_report(t->diag, kind, place, "%s", text->text);
    else
        diag_report(t->diag, kind, file, (struct yaml_mark){0, 1, 1}, "%s", text->text);
}

bool template_check(struct template_state *t, const struct yaml_node *list, enum diag_kind kind,
                    const struct scope *s, const char *file)
{
    YAML_FOREACH(check, list) {
        const struct yaml_node *loop = yaml_get(check, "$for");
        struct template_loop l = {0};

        if (loop == NULL)
            check_one(t, check, kind, s, file);
        while (loop != NULL && template_loop_next(t, loop, s, &l))
            check_one(t, check, kind, &l.scope, file);
    }
    return !t->failed;
}

void template_print_json(FILE *out, const char *name, const char *key, struct yaml_node *vars,
                         struct diag *d)
{
    struct embedded data = {0};
    const struct yaml_node *file = embedded_load(&data, "", name, NULL, d);
    struct template_state t = {.arena = &d->arena, .diag = d, .parts = yaml_get(file, "parts")};
    struct scope s = {vars, NULL};
    struct yaml_node *off = yaml_new_string(&d->arena, "null"), *made = NULL;

    yaml_put(&d->arena, vars, "off", off);
    if (template_fill_variables(&t, yaml_get(file, "let"), &s))
        made = template_fill(&t, yaml_get(file, key), &s);
    off->style = YAML_PLAIN; /* now it is null; in the template, null would remove its item */
    if (made != NULL)
        fprintf(out, "%s\n", yaml_write_json(&d->arena, made, "\t"));
    embedded_free(&data);
}
