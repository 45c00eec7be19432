/* How the value of each kind of option gets from text into struct config, and back into text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/etcd_types.h"
#include "proto/units.h"
#include "rdzv/config/config_internal.h"

/* --- Numbers. --- */

static void store_number(struct config *c, const struct option *o, uint64_t value)
{
    char *field = (char *)c + o->offset;

    if (o->size == sizeof(bool))
        *(bool *)field = value != 0;
    else if (o->size == sizeof(uint32_t))
        memcpy(field, &(uint32_t){(uint32_t)value}, sizeof(uint32_t)); /* enums, too */
    else
        memcpy(field, &value, sizeof value);
}

static uint64_t load_number(const struct config *c, const struct option *o)
{
    const char *field = (const char *)c + o->offset;
    uint64_t value;
    uint32_t small;

    if (o->size == sizeof(bool))
        return *(const bool *)field;
    if (o->size == sizeof small) {
        memcpy(&small, field, sizeof small);
        return small;
    }
    memcpy(&value, field, sizeof value);
    return value;
}

static const char *format_amount(const struct option *o, uint64_t value, char *text)
{
    if (o->kind == OPTION_DURATION)
        return units_format_duration(value, text);
    if (o->kind == OPTION_SIZE)
        return units_format_size(value, text);
    snprintf(text, UNITS_TEXT_MAX, "%" PRIu64, value);
    return text;
}

/* Most durations and sizes may be as large as one likes. */
static bool fail_range(struct parse *p, const struct setting *s, uint64_t most)
{
    const struct option *o = s->option;
    const char *colon = o->least_why == NULL ? "" : ": ";
    const char *why = o->least_why == NULL ? "" : o->least_why;
    char least[UNITS_TEXT_MAX], text[UNITS_TEXT_MAX];

    format_amount(o, o->least, least);
    if (most == UINT64_MAX)
        return config_fail(p, s, "%s: must be %s at least%s%s", config_show(s->value).text, least,
                           colon, why);
    return config_fail(p, s, "%s: must be from %s to %s%s%s", config_show(s->value).text, least,
                       format_amount(o, most, text), colon, why);
}

static bool parse_amount(struct parse *p, const struct setting *s, uint64_t *out)
{
    const struct option *o = s->option;
    uint64_t most = o->most != 0 ? o->most : o->size == sizeof(uint32_t) ? UINT32_MAX : UINT64_MAX;
    enum units_result result = UNITS_OK;
    const char *hint = NULL;

    if (o->kind == OPTION_DURATION) {
        result = units_parse_duration(s->value, out);
        hint = units_duration_hints[result];
    } else if (o->kind == OPTION_SIZE) {
        result = units_parse_size(s->value, out);
        hint = units_size_hints[result];
    } else if (s->value[0] == '\0' || s->value[strspn(s->value, "0123456789")] != '\0') {
        result = UNITS_NOT_A_NUMBER;
        hint = o->may_be_off ? "not a whole number; write one, or off"
                             : "not a whole number; write one";
    } else if (!slice_to_u64(slice_str(s->value), UINT64_MAX, out)) {
        *out = UINT64_MAX;
    }
    if (result != UNITS_OK)
        return config_fail(p, s, "%s: %s", config_show(s->value).text, hint);
    return (*out >= o->least && *out <= most) || fail_range(p, s, most);
}

/* The index-th of the words with `|` between, and its length; an empty one behind the last. */
static const char *choice_at(const struct option *o, uint64_t index, size_t *len)
{
    const char *word = o->value_name;

    for (; index > 0 && *word != '\0'; index--)
        word += strcspn(word, "|") + (word[strcspn(word, "|")] == '|');
    *len = strcspn(word, "|");
    return word;
}

static bool parse_choice(struct parse *p, const struct setting *s, uint64_t *out)
{
    const struct option *o = s->option;
    bool is_bool = o->size == sizeof(bool), flag;
    const char *word;
    size_t len;

    for (*out = 0; *(word = choice_at(o, *out, &len)) != '\0'; ++*out) {
        if (strlen(s->value) == len && memcmp(word, s->value, len) == 0) {
            *out = is_bool ? *out == 0 : *out;
            return true;
        }
    }
    *out = LOG_ERROR;
    /* etcd's levels above error end the process there; here nothing does. */
    if (strcmp(o->name, "log-level") == 0 &&
        (strcmp(s->value, "panic") == 0 || strcmp(s->value, "fatal") == 0))
        return true;
    if (!is_bool || !etcd_parse_bool(slice_str(s->value), &flag))
        return config_fail(p, s, "%s: must be one of %s", config_show(s->value).text,
                           o->value_name);
    *out = flag;
    return true;
}

static bool apply_number(struct parse *p, const struct setting *s)
{
    const struct option *o = s->option;
    uint64_t value = 0;

    if (o->may_be_auto && strcmp(s->value, "auto") == 0)
        value = CONFIG_AUTO;
    else if (o->may_be_off && (strcmp(s->value, "off") == 0 || strcmp(s->value, "none") == 0))
        value = 0;
    else if (!(o->kind == OPTION_CHOICE ? parse_choice : parse_amount)(p, s, &value))
        return false;
    store_number(&p->config, o, value);
    return true;
}

const char *config_format_number(const struct config *c, const struct option *o, char *text)
{
    uint64_t value = load_number(c, o);
    const char *word;
    size_t len;

    if (value == 0 && o->may_be_off)
        return "off";
    if (value == CONFIG_AUTO && o->may_be_auto)
        return "auto";
    if (o->kind != OPTION_CHOICE)
        return format_amount(o, value, text);
    word = choice_at(o, o->size == sizeof(bool) ? value == 0 : value, &len);
    snprintf(text, UNITS_TEXT_MAX, "%.*s", (int)len, word);
    return text;
}

/* --- Texts and lists. --- */

static bool apply_text(struct parse *p, const struct setting *s, char **field)
{
    const struct option *o = s->option;
    const char *problem = o->check == NULL ? NULL : o->check(&p->config, s->value);
    bool is_missing = s->value[0] == '\0' && o->left_out != NULL;

    if (problem != NULL)
        return config_fail(p, s, "%s: %s", config_show(s->value).text, problem);
    if (is_missing && s->row->owner != OWNER_ETCD)
        return config_fail(p, s, "is empty; write %s, or leave the setting out: then %s",
                           o->value_name, o->left_out);
    free(*field);
    *field = is_missing ? NULL : config_copy_text(s->value, strlen(s->value));
    return true;
}

const char *config_check_url(struct config *, const char *url)
{
    return etcd_url_check(url, NULL);
}

/* Splits the value of a list and checks its items. An empty value of ours means `*`, as a script
 * with an unset variable has it; to etcd it means none. */
static bool read_items(struct parse *p, const struct setting *s, struct string_list *items)
{
    const struct option *o = s->option;
    const char *text = s->value, *problem = NULL;
    size_t count = 0;

    if (text[0] == '\0' && s->row->owner == OWNER_ETCD)
        return true;
    string_list_split(items, text[0] == '\0' ? "*" : text);
    if (o->check == NULL || (o->kind == OPTION_ORIGINS && strcmp(text, "*") == 0))
        return true;
    while (count < items->count && problem == NULL)
        problem = o->check(&p->config, items->items[count++]);
    return problem == NULL ||
           config_fail(p, s, "%s: %s", config_show(items->items[count - 1]).text, problem);
}

static bool apply_list(struct parse *p, const struct setting *s, struct string_list *list)
{
    enum option_kind kind = s->option->kind;
    struct string_list items = {0};

    if (s->value[0] == '\0' && kind == OPTION_ORIGINS)
        return config_fail(p, s, "is empty; write * for any origin, or URLs");
    if (s->value[0] == '\0' && kind == OPTION_URLS)
        return true; /* etcd keeps its default then */
    if (!read_items(p, s, &items)) {
        string_list_free(&items);
        return false;
    }
    for (size_t i = 0; i < items.count && kind == OPTION_NAMES; i++) {
        if (strcmp(items.items[i], "*") == 0) {
            string_list_free(&items);
            string_list_add(&items, "*", 1);
        }
    }
    if (kind != OPTION_NAMES)
        string_list_sort(&items);
    string_list_free(list);
    *list = items;
    return true;
}

/* --- All kinds. --- */

static bool apply_action(struct parse *p, const struct setting *s)
{
    bool flag = true;

    if (s->value != NULL && !etcd_parse_bool(slice_str(s->value), &flag))
        return config_fail(p, s, "%s: takes no value", config_show(s->value).text);
    if (flag)
        p->config.action = s->option->action;
    return true;
}

/* Of the flags that are ignored, these make a different server of an etcd. */
static bool ignored_matters(const char *name, const char *value)
{
    return (strcmp(name, "proxy") == 0 && strcmp(value, "off") != 0) ||
           strcmp(name, "discovery") == 0 || strcmp(name, "discovery-srv") == 0;
}

bool config_apply_setting(struct parse *p, const struct setting *s)
{
    void *field = (char *)&p->config + s->option->offset;
    struct setting given = *s;

    if (given.value == NULL)
        given.value = "true"; /* of a boolean of etcd's */
    switch (s->option->kind) {
    case OPTION_LISTEN:
        return config_apply_listen(p, s);
    case OPTION_DURATION:
    case OPTION_SIZE:
    case OPTION_COUNT:
    case OPTION_CHOICE:
        return apply_number(p, &given);
    case OPTION_TEXT:
        return apply_text(p, s, field);
    case OPTION_URLS:
    case OPTION_ORIGINS:
    case OPTION_NAMES:
        return apply_list(p, s, field);
    case OPTION_ACTION:
        return apply_action(p, s);
    case OPTION_IGNORED:
        config_note(&p->config,
                    ignored_matters(s->name, given.value) ? CONFIG_NOTE_WARNING
                                                          : CONFIG_NOTE_IGNORED,
                    CONFIG_LABEL(s), "%s", s->option->ignored);
        return true;
    case OPTION_FILE: /* config_collect() has read it */
    case OPTION_ALIAS:
        break;
    }
    return true;
}

void config_apply_initial(struct parse *p)
{
    FOREACH(const struct option, o, config_options, config_option_count) {
        struct setting s = {.name = o->name, .row = o, .option = o, .value = o->initial};

        if (o->initial != NULL)
            (void)config_apply_setting(p, &s);
    }
}

void config_free_values(struct config *c)
{
    for (size_t i = 0; i < config_option_count; i++) {
        void *field = (char *)c + config_options[i].offset;

        if (config_options[i].kind == OPTION_TEXT)
            free(*(char **)field);
        else if (option_kind_is_list(config_options[i].kind))
            string_list_free(field);
    }
}
