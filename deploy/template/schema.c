/* Checks settings against their description, by walking through both in parallel, with the place
 * `at` of each for messages: "rdzv.conf", "volumes[2].name". See files.h for the contract. */
#include "deploy/template/files.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#define FORMS_MAX 32 /* of all types; one more than there are */

const char *schema_nearest(const struct yaml_node *keys, const char *name)
{
    struct nearest n = nearest_to(name);

    YAML_FOREACH_PAIR(key, keys)
        nearest_try(&n, key->key->text);
    return n.found;
}

static void *report_wrong(struct schema *s, const struct yaml_node *value, const char *at,
                          const char *what, const char *remedy)
{
    const char *text = yaml_text(value);

    if (text == NULL)
        return yaml_error(s->diag, value, "%s: a %s is not %s: %s", at,
                          value->kind == YAML_MAPPING ? "mapping" : "list", what, remedy);
    return yaml_error(s->diag, value, "%s: \"%.60s\" is not %s: %s", at, text, what, remedy);
}

static struct yaml_node *copy_marks(struct yaml_node *to, const struct yaml_node *from)
{
    to->file = from->file;
    to->start = from->start;
    to->end = from->end;
    return to;
}

static struct yaml_node *check_setting(struct schema *s, const struct yaml_node *schema,
                                       const struct yaml_node *value, const char *at);

/* --- Types of texts. --- */

const struct yaml_node *schema_type(const char *name)
{
    static struct embedded data;
    struct diag d = {0};

    if (data.count == 0)
        embedded_load(&data, "", "types", NULL, &d);
    return yaml_get(data.files[0].docs[0].root, name);
}

/* `form` is of types.yaml. Each is compiled once: it may take a millisecond. */
static bool matches(const char *text, const struct yaml_node *form)
{
    static struct {
        const struct yaml_node *of;
        regex_t regex;
    } compiled[FORMS_MAX];
    size_t i = 0;

    while (compiled[i].of != NULL && compiled[i].of != form)
        i++;
    if (compiled[i].of == NULL && (i + 1 == FORMS_MAX || regcomp(&compiled[i].regex, form->text,
                                                                 REG_EXTENDED | REG_NOSUB) != 0))
        abort();
    compiled[i].of = form;
    return regexec(&compiled[i].regex, text, 0, NULL, 0) == 0;
}

bool schema_fits(const struct yaml_node *type, const char *text)
{
    const struct yaml_node *forms = yaml_get(type, "forms");
    int64_t max;

    if (yaml_to_int(yaml_get(type, "max"), &max) && strlen(text) > (size_t)max)
        return false;
    return (forms != NULL || matches(text, yaml_get(type, "pattern"))) &&
           !ANY(YAML_FOREACH(form, forms), !matches(text, form)) &&
           !ANY(YAML_FOREACH(form, yaml_get(type, "never")), matches(text, form));
}

/* --- Settings. --- */

static struct yaml_node *check_int(struct schema *s, const struct yaml_node *schema,
                                   const struct yaml_node *value, const char *at)
{
    int64_t number, limit;

    if (!yaml_to_int(value, &number))
        return report_wrong(s, value, at, "a whole number", "write digits alone, without quotes");
    if ((yaml_to_int(yaml_get(schema, "min"), &limit) && number < limit) ||
        (yaml_to_int(yaml_get(schema, "max"), &limit) && number > limit))
        return yaml_error(s->diag, value, "%s: %lld is too %s: write %lld or %s", at,
                          (long long)number, number < limit ? "small" : "large", (long long)limit,
                          number < limit ? "more" : "less");
    return copy_marks(yaml_new_number(s->arena, number), value);
}

static struct yaml_node *check_bool(struct schema *s, const struct yaml_node *value, const char *at)
{
    bool flag;

    if (!yaml_to_bool(value, &flag))
        return report_wrong(s, value, at, "true or false", "write one of them, without quotes");
    return copy_marks(yaml_new_plain(s->arena, flag ? "true" : "false"), value);
}

/* Whether the value is one of `values:`. */
static bool is_allowed_value(struct schema *s, const struct yaml_node *values,
                             const struct yaml_node *value, const char *at)
{
    const char *list = "";

    for (size_t i = 0; i < values->count; i++) {
        if (yaml_is(values->items[i], value->text))
            return true;
        list = arena_text(s->arena, "%s%s%s", list,
                          i == 0                   ? ""
                          : i + 1 == values->count ? " or "
                                                   : ", ",
                          values->items[i]->len > 0 ? values->items[i]->text : "\"\"");
    }
    return yaml_error(s->diag, value, "%s: there is no \"%.60s\": write %s", at, value->text, list);
}

static struct yaml_node *check_text(struct schema *s, const struct yaml_node *schema,
                                    const struct yaml_node *value, const char *at)
{
    const struct yaml_node *values = yaml_get(schema, "values");
    const char *name = yaml_text(yaml_get(schema, "type"));
    const struct yaml_node *type = schema_type(name);
    const char *what = yaml_text(yaml_get(type, "what"));
    struct yaml_node *text;

    if (value->kind != YAML_SCALAR)
        return report_wrong(s, value, at, what != NULL ? what : "a text", "write one value");
    if (type != NULL && !schema_fits(type, value->text))
        return report_wrong(s, value, at, what, yaml_text(yaml_get(type, "remedy")));
    if (values != NULL && !is_allowed_value(s, values, value, at))
        return NULL;
    text = yaml_new_text(s->arena, value->text, value->len);
    /* Custom resources accept quantities as integers or texts, not as fractions. */
    if (strcmp(name, "quantity") == 0 && value->len < 18 &&
        strspn(value->text, "0123456789") == value->len)
        text = yaml_new_number(s->arena, strtoll(value->text, NULL, 10));
    return copy_marks(text, value);
}

static void report_unknown(struct schema *s, const struct yaml_node *keys,
                           const struct yaml_node *key, const char *at)
{
    const char *near = schema_nearest(keys, key->text);

    if (near != NULL)
        yaml_error(s->diag, key, "%.100s: did you mean %s?", key->text, near);
    else if (*at == '\0')
        yaml_error(s->diag, key,
                   "%.100s: there is no such setting: see `rdzv-manifest list settings`",
                   key->text);
    else
        yaml_error(s->diag, key, "%s: there is no key %.100s in it: see `rdzv-manifest explain %s`",
                   at, key->text, at);
}

/* `keys` are those that the mapping may have. NULL: any keys, as `map` describes them and their
 * values. */
static struct yaml_node *check_mapping(struct schema *s, const struct yaml_node *keys,
                                       const struct yaml_node *map, const struct yaml_node *value,
                                       const char *at)
{
    const struct yaml_node *key_type = yaml_get(map, "key");
    struct yaml_node *n;

    if (value->kind != YAML_MAPPING)
        return report_wrong(s, value, at, "a mapping", "write `key: value` lines below it");
    n = copy_marks(yaml_new(s->arena, YAML_MAPPING), value);
    YAML_FOREACH_PAIR(pair, value) {
        const struct yaml_node *schema =
            map != NULL ? yaml_get(map, "each") : yaml_get(keys, pair->key->text);
        const char *below = arena_joined(s->arena, at, ".", pair->key->text);
        struct yaml_node *result;

        if (schema == NULL) {
            report_unknown(s, keys, pair->key, at);
            continue;
        }
        result = check_setting(s, schema, pair->value, below);
        if (key_type != NULL)
            check_text(s, key_type, pair->key, below);
        if (result != NULL)
            yaml_add(s->arena, n, pair->key, result);
    }
    return n;
}

static void find_missing(struct schema *s, const struct yaml_node *keys,
                         const struct yaml_node *value, const char *file, const char *at)
{
    YAML_FOREACH_PAIR(pair, keys) {
        const char *key = pair->key->text;
        const char *below = arena_joined(s->arena, at, ".", key);
        const struct yaml_node *example = yaml_get(pair->value, "example");

        if (yaml_true(yaml_get(pair->value, "required")) && yaml_is_null(yaml_get(value, key)))
            diag_error(s->diag, value->file != NULL ? value->file : file,
                       value->file != NULL ? value->start : (struct yaml_mark){0, 1, 1},
                       "%s is missing: add it, as `%s: %s`", below, key,
                       example == NULL ? "..." : example->text);
    }
}

static struct yaml_node *check_list(struct schema *s, const struct yaml_node *schema,
                                    const struct yaml_node *value, const char *at)
{
    struct yaml_node *n;

    if (value->kind != YAML_SEQUENCE)
        return report_wrong(s, value, at, "a list",
                            "write each value on a line of its own behind `- `");
    n = copy_marks(yaml_new(s->arena, YAML_SEQUENCE), value);
    for (size_t i = 0; i < value->count; i++) {
        const char *below = arena_text(s->arena, "%s[%zu]", at, i);
        struct yaml_node *result;

        if (yaml_is_null(value->items[i])) {
            yaml_error(s->diag, value->items[i], "%s is empty: write a value, or remove the `-`",
                       below);
            continue;
        }
        result = check_setting(s, yaml_get(schema, "items"), value->items[i], below);
        if (result != NULL)
            yaml_append(s->arena, n, result);
    }
    return n;
}

/* Accepts anything that a manifest may contain. Nulls are dropped: in a merge they would remove. */
static struct yaml_node *check_any(struct schema *s, const struct yaml_node *value, const char *at)
{
    struct yaml_node *n;

    if (value->kind == YAML_SCALAR) {
        int64_t number;

        if (yaml_to_int(value, &number))
            return check_int(s, NULL, value, at);
        if (yaml_type(value) == YAML_BOOL)
            return check_bool(s, value, at);
        return copy_marks(yaml_new_text(s->arena, value->text, value->len), value);
    }
    n = copy_marks(yaml_new(s->arena, value->kind), value);
    for (size_t i = 0; i < value->count; i++) {
        const struct yaml_node *part = yaml_child(value, i);
        struct yaml_node *result = yaml_is_null(part) ? NULL : check_any(s, part, at);

        if (result == NULL)
            continue;
        if (value->kind == YAML_SEQUENCE)
            yaml_append(s->arena, n, result);
        else
            yaml_add(s->arena, n, value->pairs[i].key, result);
    }
    return n;
}

/* Whether the value has the kind that this description is about. */
static bool is_of_kind(const struct yaml_node *schema, const struct yaml_node *value)
{
    const char *type = yaml_text(yaml_get(schema, "type"));
    int64_t number;

    if (strcmp(type, "list") == 0)
        return value->kind == YAML_SEQUENCE;
    if (text_is(type, "mapping", "map"))
        return value->kind == YAML_MAPPING;
    if (strcmp(type, "bool") == 0)
        return yaml_type(value) == YAML_BOOL;
    if (strcmp(type, "int") == 0)
        return yaml_to_int(value, &number);
    return value->kind == YAML_SCALAR;
}

static struct yaml_node *check_setting(struct schema *s, const struct yaml_node *schema,
                                       const struct yaml_node *value, const char *at)
{
    const struct yaml_node *either = yaml_get(schema, "either");
    const char *type;
    struct yaml_node *result;

    if (yaml_is_null(value))
        return NULL;
    for (size_t i = 0; either != NULL && i < either->count; i++) {
        if (i + 1 == either->count || is_of_kind(either->items[i], value))
            return check_setting(s, either->items[i], value, at);
    }
    type = yaml_text(yaml_get(schema, "type"));
    if (strcmp(type, "int") == 0)
        return check_int(s, schema, value, at);
    if (strcmp(type, "bool") == 0)
        return check_bool(s, value, at);
    if (strcmp(type, "list") == 0)
        return check_list(s, schema, value, at);
    if (strcmp(type, "map") == 0)
        return check_mapping(s, NULL, schema, value, at);
    if (strcmp(type, "any") == 0)
        return check_any(s, value, at);
    if (strcmp(type, "mapping") != 0)
        return check_text(s, schema, value, at);
    result = check_mapping(s, yaml_get(schema, "keys"), NULL, value, at);
    if (result != NULL)
        find_missing(s, yaml_get(schema, "keys"), result, NULL, at);
    return result;
}

struct yaml_node *schema_check(struct schema *s, const struct yaml_node *keys,
                               const struct yaml_node *required, const struct yaml_node *value,
                               const char *file)
{
    struct yaml_node *result = check_mapping(s, keys, NULL, value, "");

    if (result != NULL)
        find_missing(s, required, result, file, "");
    return result;
}
