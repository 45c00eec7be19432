/* Walks through the description of settings once, and makes the same in JSON Schema. */
#include "deploy/template/json_schema.h"

#include "deploy/template/value_types.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* If memory runs out, the program aborts, here as elsewhere. */
static cJSON *must(cJSON *item)
{
    if (item == NULL)
        abort();
    return item;
}

static void add_to(cJSON *list, const char *word)
{
    if (!cJSON_AddItemToArray(list, must(cJSON_CreateString(word))))
        abort();
}

/* `type`, of which null is always one: it switches a default off. An item of a list cannot be null.
 */
static void add_types(cJSON *schema, const char *const *types, bool null)
{
    cJSON *list = must(cJSON_AddArrayToObject(schema, "type"));

    for (; *types != NULL; types++)
        add_to(list, *types);
    if (null)
        add_to(list, "null");
}

static cJSON *schema_of(const struct yaml_node *setting, bool null);

static void add_number(cJSON *schema, const char *key, const struct yaml_node *value)
{
    int64_t number;

    if (yaml_to_int(value, &number))
        must(cJSON_AddNumberToObject(schema, key, (double)number));
}

/* Kubernetes and emit take a number for its text where a text is expected. */
static void add_text(cJSON *schema, const struct yaml_node *setting, bool null)
{
    static const char *const texts[] = {"string", "number", "boolean", NULL};
    const struct yaml_node *values = yaml_get(setting, "values");
    const struct value_type *type = value_type_find(yaml_text(yaml_get(setting, "type")));
    cJSON *list;

    if (values == NULL) {
        add_types(schema, texts, null);
        if (type != NULL)
            must(cJSON_AddStringToObject(schema, "pattern", type->pattern));
        return;
    }
    list = must(cJSON_AddArrayToObject(schema, "enum"));
    for (size_t i = 0; i < values->count; i++)
        add_to(list, values->items[i]->text);
    if (null && !cJSON_AddItemToArray(list, must(cJSON_CreateNull())))
        abort();
}

static void add_keys(cJSON *schema, const struct yaml_node *keys)
{
    cJSON *properties = must(cJSON_AddObjectToObject(schema, "properties")), *required = NULL;

    for (size_t i = 0; keys != NULL && i < keys->count; i++) {
        const char *key = keys->pairs[i].key->text;
        const struct yaml_node *setting = keys->pairs[i].value;
        bool is_required = false;

        yaml_to_bool(yaml_get(setting, "required"), &is_required);
        if (is_required && required == NULL)
            required = must(cJSON_AddArrayToObject(schema, "required"));
        if (is_required)
            add_to(required, key);
        if (!cJSON_AddItemToObject(properties, key, schema_of(setting, !is_required)))
            abort();
    }
    must(cJSON_AddFalseToObject(schema, "additionalProperties"));
}

static void add_map(cJSON *schema, const struct yaml_node *setting)
{
    const struct value_type *key = value_type_find(yaml_text(yaml_path(setting, "key.type")));
    cJSON *names = must(cJSON_AddObjectToObject(schema, "propertyNames"));

    if (key != NULL)
        must(cJSON_AddStringToObject(names, "pattern", key->pattern));
    if (!cJSON_AddItemToObject(schema, "additionalProperties",
                               schema_of(yaml_get(setting, "each"), true)))
        abort();
}

static void add_kind(cJSON *schema, const struct yaml_node *setting, bool null)
{
    static const char *const ints[] = {"integer", NULL}, *const bools[] = {"boolean", NULL};
    static const char *const lists[] = {"array", NULL}, *const objects[] = {"object", NULL};
    const char *type = yaml_text(yaml_get(setting, "type"));

    if (strcmp(type, "int") == 0) {
        add_types(schema, ints, null);
        add_number(schema, "minimum", yaml_get(setting, "min"));
        add_number(schema, "maximum", yaml_get(setting, "max"));
    } else if (strcmp(type, "bool") == 0) {
        add_types(schema, bools, null);
    } else if (strcmp(type, "list") == 0) {
        add_types(schema, lists, null);
        if (!cJSON_AddItemToObject(schema, "items", schema_of(yaml_get(setting, "items"), false)))
            abort();
    } else if (strcmp(type, "map") == 0) {
        add_types(schema, objects, null);
        add_map(schema, setting);
    } else if (strcmp(type, "mapping") == 0) {
        add_types(schema, objects, null);
        add_keys(schema, yaml_get(setting, "keys"));
    } else if (strcmp(type, "any") != 0) {
        add_text(schema, setting, null);
    }
}

static cJSON *schema_of(const struct yaml_node *setting, bool null)
{
    const struct yaml_node *either = yaml_get(setting, "either");
    const char *about = yaml_text(yaml_get(setting, "about"));
    cJSON *schema = must(cJSON_CreateObject()), *list;

    if (about != NULL)
        must(cJSON_AddStringToObject(schema, "description", about));
    if (either == NULL) {
        add_kind(schema, setting, null);
        return schema;
    }
    list = must(cJSON_AddArrayToObject(schema, "anyOf"));
    for (size_t i = 0; i < either->count; i++) {
        if (!cJSON_AddItemToArray(list, schema_of(either->items[i], null)))
            abort();
    }
    return schema;
}

void json_schema_print(FILE *out, const struct yaml_node *settings)
{
    cJSON *schema = must(cJSON_CreateObject());
    char *text;

    must(cJSON_AddStringToObject(schema, "$schema", "http://json-schema.org/draft-07/schema#"));
    must(cJSON_AddStringToObject(schema, "title", "a user file of rdzv-manifest emit"));
    must(cJSON_AddStringToObject(schema, "type", "object"));
    add_keys(schema, settings);
    text = cJSON_Print(schema);
    if (text == NULL)
        abort();
    fprintf(out, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(schema);
}
