/* Walks through the description of settings once, and makes the same in JSON Schema. */
#include "deploy/template/schema.h"

#include "deploy/yaml/yaml_write.h"

#include <string.h>

static struct yaml_node *schema_of(struct arena *a, const struct yaml_node *setting, bool null);

static void append_text(struct arena *a, struct yaml_node *list, const char *text)
{
    yaml_append(a, list, yaml_new_text(a, text, strlen(text)));
}

/* `type`, of which null is always one: it switches a default off. An item of a list cannot be null.
 */
static void put_types(struct arena *a, struct yaml_node *schema, const char *const *types,
                      bool null)
{
    struct yaml_node *list = yaml_put_new(a, schema, "type", YAML_SEQUENCE);

    for (; *types != NULL; types++)
        append_text(a, list, *types);
    if (null)
        append_text(a, list, "null");
}

static void schema_put_number(struct arena *a, struct yaml_node *schema, const char *key,
                              struct yaml_node *value)
{
    if (yaml_type(value) == YAML_INT)
        yaml_put(a, schema, key, value);
}

/* Kubernetes and emit take a number for its text where a text is expected. */
static void put_text_form(struct arena *a, struct yaml_node *schema,
                          const struct yaml_node *setting, bool null)
{
    static const char *const texts[] = {"string", "number", "boolean", NULL};
    const struct yaml_node *values = yaml_get(setting, "values");
    const struct value_type *type = value_type_find(yaml_text(yaml_get(setting, "type")));
    struct yaml_node *list;

    if (values == NULL) {
        put_types(a, schema, texts, null);
        yaml_put_text(a, schema, "pattern", type == NULL ? NULL : type->pattern);
        return;
    }
    list = yaml_put_new(a, schema, "enum", YAML_SEQUENCE);
    for (size_t i = 0; i < values->count; i++)
        append_text(a, list, values->items[i]->text);
    if (null)
        yaml_append(a, list, yaml_new_plain(a, "null"));
}

static void put_keys(struct arena *a, struct yaml_node *schema, const struct yaml_node *keys)
{
    struct yaml_node *properties = yaml_put_new(a, schema, "properties", YAML_MAPPING);
    struct yaml_node *list = NULL;

    for (size_t i = 0; keys != NULL && i < keys->count; i++) {
        const char *key = keys->pairs[i].key->text;
        const struct yaml_node *setting = keys->pairs[i].value;
        bool required = false;

        yaml_to_bool(yaml_get(setting, "required"), &required);
        if (required && list == NULL)
            list = yaml_put_new(a, schema, "required", YAML_SEQUENCE);
        if (required)
            append_text(a, list, key);
        yaml_put(a, properties, key, schema_of(a, setting, !required));
    }
    yaml_put(a, schema, "additionalProperties", yaml_new_plain(a, "false"));
}

static void put_map(struct arena *a, struct yaml_node *schema, const struct yaml_node *setting)
{
    const char *name = yaml_text(yaml_path(setting, "key.type"));
    const struct value_type *key = name == NULL ? NULL : value_type_find(name);
    struct yaml_node *names = yaml_put_new(a, schema, "propertyNames", YAML_MAPPING);

    yaml_put_text(a, names, "pattern", key == NULL ? NULL : key->pattern);
    yaml_put(a, schema, "additionalProperties", schema_of(a, yaml_get(setting, "each"), true));
}

static void put_kind(struct arena *a, struct yaml_node *schema, const struct yaml_node *setting,
                     bool null)
{
    static const char *const ints[] = {"integer", NULL}, *const bools[] = {"boolean", NULL};
    static const char *const lists[] = {"array", NULL}, *const objects[] = {"object", NULL};
    const char *type = yaml_text(yaml_get(setting, "type"));

    if (strcmp(type, "int") == 0) {
        put_types(a, schema, ints, null);
        schema_put_number(a, schema, "minimum", yaml_get(setting, "min"));
        schema_put_number(a, schema, "maximum", yaml_get(setting, "max"));
    } else if (strcmp(type, "bool") == 0) {
        put_types(a, schema, bools, null);
    } else if (strcmp(type, "list") == 0) {
        put_types(a, schema, lists, null);
        yaml_put(a, schema, "items", schema_of(a, yaml_get(setting, "items"), false));
    } else if (strcmp(type, "map") == 0) {
        put_types(a, schema, objects, null);
        put_map(a, schema, setting);
    } else if (strcmp(type, "mapping") == 0) {
        put_types(a, schema, objects, null);
        put_keys(a, schema, yaml_get(setting, "keys"));
    } else if (strcmp(type, "any") != 0) {
        put_text_form(a, schema, setting, null);
    }
}

static struct yaml_node *schema_of(struct arena *a, const struct yaml_node *setting, bool null)
{
    const struct yaml_node *either = yaml_get(setting, "either");
    struct yaml_node *schema = yaml_new(a, YAML_MAPPING), *list;

    yaml_put_text(a, schema, "description", yaml_text(yaml_get(setting, "about")));
    if (either == NULL) {
        put_kind(a, schema, setting, null);
        return schema;
    }
    list = yaml_put_new(a, schema, "anyOf", YAML_SEQUENCE);
    for (size_t i = 0; i < either->count; i++)
        yaml_append(a, list, schema_of(a, either->items[i], null));
    return schema;
}

void schema_print_json(FILE *out, const struct yaml_node *settings)
{
    struct arena a = {0};
    struct yaml_node *schema = yaml_new(&a, YAML_MAPPING);

    yaml_put_text(&a, schema, "$schema", "http://json-schema.org/draft-07/schema#");
    yaml_put_text(&a, schema, "title", "a user file of rdzv-manifest emit");
    yaml_put_text(&a, schema, "type", "object");
    put_keys(&a, schema, settings);
    yaml_write_json(out, schema);
    arena_free(&a);
}
