/* Four ways to merge: values, files of settings, patches, and settings over defaults. */
#include "deploy/template/template.h"

static struct yaml_node *copy_shallow(struct arena *a, const struct yaml_node *from)
{
    struct yaml_node *n = arena_alloc(a, sizeof *n);

    *n = *from;
    n->pairs = NULL;
    n->items = NULL;
    n->count = n->cap = 0;
    return n;
}

/* A value that has nothing below it: nulls in it remove nothing and are dropped. */
static struct yaml_node *without_nulls(struct arena *a, const struct yaml_node *value)
{
    struct yaml_node *n;

    if (value->kind != YAML_MAPPING)
        return (struct yaml_node *)value;
    n = copy_shallow(a, value);
    for (size_t i = 0; i < value->count; i++) {
        if (!yaml_is_null(value->pairs[i].value))
            yaml_add(a, n, value->pairs[i].key, without_nulls(a, value->pairs[i].value));
    }
    return n;
}

static struct yaml_node *merge_mappings(struct arena *a, const struct yaml_node *base,
                                        const struct yaml_node *over, enum merge how)
{
    struct yaml_node *n = copy_shallow(a, over);

    n->style = base->style;
    n->comment = over->comment != NULL ? over->comment : base->comment;
    for (size_t i = 0; i < base->count; i++)
        yaml_add(a, n, base->pairs[i].key, base->pairs[i].value);
    YAML_FOREACH_PAIR(pair, over) {
        struct yaml_pair *below = yaml_get_pair(n, pair->key->text);

        if (yaml_is_null(pair->value) && how != MERGE_FILES)
            yaml_remove(n, pair->key->text);
        else if (below != NULL)
            below->value = merge_nodes(how, a, below->value, pair->value);
        else
            yaml_add(a, n, pair->key, merge_nodes(how, a, NULL, pair->value));
    }
    return n;
}

/* Whether two items of a list have the same identity. */
static bool is_same_item(const struct yaml_node *a, const struct yaml_node *b)
{
    const char *key = FIND(one, FOREACH_WORD(one, "mountPath", "name", "key"),
                           yaml_text(yaml_get(b, one)) != NULL);

    if (b->kind == YAML_SCALAR)
        return yaml_is(a, b->text);
    return key != NULL && yaml_is(yaml_get(a, key), yaml_get(b, key)->text);
}

/* A term of a node selector: a pod may match any term, but must match all expressions of one. */
static bool is_term(const struct yaml_node *item)
{
    return yaml_get(item, "matchExpressions") != NULL || yaml_get(item, "matchFields") != NULL;
}

static struct yaml_node *merge_lists(struct arena *a, const struct yaml_node *base,
                                     const struct yaml_node *over, enum merge how)
{
    struct yaml_node *n = copy_shallow(a, over);

    /* A patch of a single term narrows this term: a second term would admit nodes that the first
     * term excludes. */
    if (how == MERGE_PATCH && base->count == 1 && over->count > 0 && is_term(base->items[0]) &&
        !ANY(YAML_FOREACH(item, over), !is_term(item))) {
        YAML_FOREACH(item, over)
            yaml_append(a, n, merge_nodes(MERGE_PATCH, a, base->items[0], item));
        return n;
    }
    for (size_t i = 0; i < base->count; i++)
        yaml_append(a, n, base->items[i]);
    YAML_FOREACH(item, over) {
        bool found = false;

        for (size_t j = 0; j < base->count && !found; j++) {
            found = is_same_item(n->items[j], item);
            if (found)
                n->items[j] = how == MERGE_PATCH ? merge_nodes(how, a, n->items[j], item) : item;
        }
        if (!found)
            yaml_append(a, n, item);
    }
    return n;
}

struct yaml_node *merge_nodes(enum merge how, struct arena *a, const struct yaml_node *base,
                              const struct yaml_node *over)
{
    if (over == NULL)
        return (struct yaml_node *)base;
    if (base != NULL && base->kind == YAML_MAPPING && over->kind == YAML_MAPPING)
        return merge_mappings(a, base, over, how);
    if (how != MERGE_VALUES && how != MERGE_FILES && base != NULL && base->kind == YAML_SEQUENCE &&
        over->kind == YAML_SEQUENCE)
        return merge_lists(a, base, over, how);
    return how == MERGE_FILES ? (struct yaml_node *)over : without_nulls(a, over);
}
