/* JSON as it is, and as YAML; see print.h. */
#include "client/ctl/print.h"

#include <stdlib.h>
#include <string.h>

#include "client/ctl/text.h"
#include "proto/base64.h"

/* A scalar as JSON has it is one of YAML, too; strings always have their quotes. */
static void yaml_scalar(FILE *out, const cJSON *json)
{
    char *text = ctl_memory(cJSON_PrintUnformatted(json));

    fputs(text, out);
    fputc('\n', out);
    cJSON_free(text);
}

static void yaml_value(FILE *out, const cJSON *json, int depth);

static void yaml_key(FILE *out, const char *name)
{
    if (name[0] != '\0' && strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name)) {
        fputs(name, out);
    } else {
        cJSON *quoted = ctl_memory(cJSON_CreateString(name));
        char *text = ctl_memory(cJSON_PrintUnformatted(quoted));

        fputs(text, out);
        cJSON_free(text);
        cJSON_Delete(quoted);
    }
    fputc(':', out);
}

/* The first member of an object within a list stands behind the "- ". */
static void yaml_members(FILE *out, const cJSON *json, int depth, bool first_is_indented)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, json)
    {
        if (item != json->child || !first_is_indented)
            fprintf(out, "%*s", depth * 2, "");
        if (cJSON_IsObject(json))
            yaml_key(out, item->string);
        else
            fputc('-', out);
        if (cJSON_IsArray(json) && cJSON_IsObject(item) && item->child != NULL) {
            fputc(' ', out);
            yaml_members(out, item, depth + 1, true);
        } else {
            yaml_value(out, item, depth + 1);
        }
    }
}

/* Behind a "name:" or a "-". */
static void yaml_value(FILE *out, const cJSON *json, int depth)
{
    if ((cJSON_IsObject(json) || cJSON_IsArray(json)) && json->child != NULL) {
        fputc('\n', out);
        yaml_members(out, json, depth, false);
    } else {
        fputc(' ', out);
        yaml_scalar(out, json);
    }
}

void print_yaml(FILE *out, const cJSON *json)
{
    if ((cJSON_IsObject(json) || cJSON_IsArray(json)) && json->child != NULL)
        yaml_members(out, json, 0, false);
    else
        yaml_scalar(out, json);
}

bool print_structured(const struct ctl *ctl, const cJSON *json)
{
    char *text;

    if (ctl->output == OUTPUT_YAML) {
        if (ctl->watch)
            puts("---");
        print_yaml(stdout, json);
        return true;
    }
    if (ctl->output != OUTPUT_JSON)
        return false;
    text = ctl_memory(ctl->watch ? cJSON_PrintUnformatted(json) : cJSON_Print(json));
    puts(text);
    cJSON_free(text);
    return true;
}

static void add_text(cJSON *object, const char *plain_name, const char *base64_name,
                     const char *bytes, size_t len)
{
    char *text;

    if (text_is_plain(bytes, len)) {
        text = ctl_memory(calloc(1, len + 1));
        memcpy(text, bytes, len);
        cJSON_AddStringToObject(object, plain_name, text);
    } else {
        text = ctl_memory(calloc(1, base64_size(len) + 1));
        base64_encode((struct slice){(const uint8_t *)bytes, len}, (uint8_t *)text);
        cJSON_AddStringToObject(object, base64_name, text);
    }
    free(text);
}

cJSON *print_pair(const char *key, size_t key_len, const char *value, size_t len)
{
    cJSON *object = ctl_memory(cJSON_CreateObject());

    add_text(object, "key", "key_base64", key, key_len);
    add_text(object, "value", "base64", value, len);
    return object;
}
