/* The table of settings as JSON; see config_describe() in config.h. */
#include "rdzv/config/config_internal.h"
#include "rdzv/config/units.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* What may be given for it, with blanks between: for completion. "@files" and "@folders" are names
 * that the shell knows; "" is what nobody can guess. */
static void write_words(const struct option *o, char *words, size_t cap)
{
    size_t at = 0;

    words[0] = '\0';
    if (o->kind == OPTION_FILE || strstr(o->name, "-file") != NULL)
        snprintf(words, cap, "@files");
    else if (o->value_name != NULL && strcmp(o->value_name, "DIR") == 0)
        snprintf(words, cap, "@folders");
    for (size_t i = 0; o->choices != NULL && o->choices[i] != NULL; i++)
        at += (size_t)snprintf(words + at, cap - at, "%s%s", at > 0 ? " " : "", o->choices[i]);
    if (o->may_be_off)
        snprintf(words + at, cap - at, o->may_be_auto ? "off auto" : "off");
}

/* The type that a file's value has, for a person. */
static const char *type_of(const struct option *o)
{
    switch (o->kind) {
    case OPTION_LISTEN:
    case OPTION_URLS:
    case OPTION_ORIGINS:
    case OPTION_NAMES:
        return "text, or a list of texts";
    case OPTION_DURATION:
        return "duration";
    case OPTION_SIZE:
        return "size";
    case OPTION_COUNT:
        return "number";
    case OPTION_SWITCH:
    case OPTION_CHOICE:
        return "word";
    case OPTION_TEXT:
    case OPTION_FILE:
    case OPTION_ACTION:
        break;
    }
    return "text";
}

static bool describe(cJSON *to, const struct config *config, const struct option *o)
{
    char text[UNITS_TEXT_MAX], words[100];
    const char *unset = config_default(config, o, text);
    bool action = o->kind == OPTION_ACTION || strncmp(o->name, "check-", 6) == 0;

    write_words(o, words, sizeof words);
    return cJSON_AddStringToObject(to, "group", o->group) != NULL &&
           cJSON_AddStringToObject(to, "name", o->name) != NULL &&
           (o->value_name == NULL || cJSON_AddStringToObject(to, "value", o->value_name) != NULL) &&
           cJSON_AddStringToObject(to, "help", o->help) != NULL &&
           cJSON_AddStringToObject(to, "type", type_of(o)) != NULL &&
           cJSON_AddStringToObject(to, "words", words) != NULL &&
           (unset == NULL || cJSON_AddStringToObject(to, "default", unset) != NULL) &&
           cJSON_AddBoolToObject(to, "repeatable", o->kind == OPTION_LISTEN) != NULL &&
           cJSON_AddBoolToObject(to, "in_file", !action && o->kind != OPTION_FILE) != NULL;
}

bool config_describe(FILE *out, const struct config *config)
{
    cJSON *all = cJSON_CreateArray();
    char *text = NULL;
    bool ok = all != NULL;

    for (size_t i = 0; ok && i < config_option_count; i++) {
        cJSON *one;

        if (config_options[i].help == NULL)
            continue;
        one = cJSON_CreateObject();
        ok = cJSON_AddItemToArray(all, one) && describe(one, config, &config_options[i]);
    }
    if (ok)
        text = cJSON_Print(all);
    cJSON_Delete(all);
    ok = text != NULL && fprintf(out, "%s\n", text) > 0;
    free(text);
    return ok;
}
