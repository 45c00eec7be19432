/* Recognises the format of a user file by its keys, and translates its settings. */
#include "deploy/emit/input_format.h"

#include "deploy/template/schema.h"
#include "deploy/template/values.h"

#include <stdio.h>
#include <string.h>

struct yaml_node *input_format_nulls(struct arena *a, const struct yaml_node *keys)
{
    struct yaml_node *nulls = yaml_new(a, YAML_MAPPING);

    for (size_t i = 0; keys != NULL && i < keys->count; i++)
        yaml_put(a, nulls, keys->pairs[i].key->text, yaml_new_plain(a, "null"));
    return nulls;
}

static bool has_all(const struct yaml_node *user, const struct yaml_node *keys)
{
    for (size_t i = 0; i < yaml_length(keys); i++) {
        if (yaml_get(user, yaml_text(keys->items[i])) == NULL)
            return false;
    }
    return true;
}

/* Whether the user file has all keys of one of the lists in `recognised`. */
static bool is_recognised(const struct yaml_node *user, const struct yaml_node *format)
{
    const struct yaml_node *lists = yaml_get(format, "recognised");

    for (size_t i = 0; i < yaml_length(lists); i++) {
        if (has_all(user, lists->items[i]))
            return true;
    }
    return false;
}

/* Most of the keys are no settings of ours, nor misspelt ones: an error for each of them would say
 * nothing. */
static bool is_foreign(const struct yaml_node *user, const struct yaml_node *settings)
{
    size_t ours = 0;

    for (size_t i = 0; i < user->count; i++)
        ours += yaml_get(settings, user->pairs[i].key->text) != NULL ||
                schema_nearest(settings, user->pairs[i].key->text) != NULL;
    return user->count > 1 && 2 * ours < user->count;
}

static void fail_format(const struct yaml_node *user, struct diag *d)
{
    const struct yaml_node *first = user->pairs[0].key;
    char list[200] = "", name[100];
    size_t at = 0;

    while (embedded_next("formats", &at, name, sizeof name) != NULL) {
        size_t len = strlen(list);

        snprintf(list + len, sizeof list - len, "%s%s", len == 0 ? "" : ", ", name);
    }
    diag_error(
        d, first->file, first->start,
        "these settings are of no format that emit knows: it reads %s (see `rdzv-manifest list "
        "formats`), and --input-format NAME chooses one",
        list);
}

/* A format with settings that are not ours wins, because its files may contain settings of ours,
 * too. */
static struct yaml_node *recognise(struct embedded *data, const struct yaml_node *user,
                                   const struct yaml_node *settings, struct diag *d)
{
    struct yaml_node *format, *ours = NULL;
    char name[100];
    size_t at = 0;

    while (embedded_next("formats", &at, name, sizeof name) != NULL) {
        format = embedded_load(data, "formats", name, NULL, d);
        if (format == NULL)
            return NULL;
        if (!is_recognised(user, format))
            continue;
        if (yaml_get(format, "becomes") != NULL)
            return format;
        ours = format;
    }
    if (is_foreign(user, settings)) {
        fail_format(user, d);
        return NULL;
    }
    return ours != NULL ? ours : embedded_load(data, "formats", "fms", NULL, d);
}

bool input_format_find(struct input_format *out, struct emit_job *job, const struct yaml_node *user,
                       const struct yaml_node *settings, const char *name, struct diag *d)
{
    const struct yaml_node *own;

    out->file = name != NULL ? embedded_load(&job->data, "formats", name, NULL, d)
                             : recognise(&job->data, user, settings, d);
    if (out->file == NULL)
        return false;
    own = yaml_get(out->file, "settings");
    out->about = yaml_text(yaml_get(out->file, "about"));
    out->translated = yaml_get(out->file, "becomes") != NULL;
    out->known = merge_values(&job->arena, settings, own);
    /* If both describe a setting, the description of the format replaces ours as a whole. */
    for (size_t i = 0; own != NULL && i < own->count; i++)
        yaml_put(&job->arena, out->known, own->pairs[i].key->text, own->pairs[i].value);
    return true;
}

struct yaml_node *input_format_translate(const struct input_format *format,
                                         struct template_state *t, const struct yaml_node *checked,
                                         const struct yaml_node *settings)
{
    struct scope absent = {input_format_nulls(t->arena, format->known), NULL};
    struct scope given = {(struct yaml_node *)checked, &absent};
    const struct yaml_node *foreign = yaml_get(format->file, "settings");
    struct yaml_node *own, *rest;

    own = template_fill(t, yaml_get(format->file, "becomes"), &given);
    if (own == NULL)
        return NULL;
    /* A setting of ours in the user file wins over what the format makes of the others. */
    rest = yaml_new(t->arena, YAML_MAPPING);
    for (size_t i = 0; i < checked->count; i++) {
        const char *key = checked->pairs[i].key->text;

        if (yaml_get(foreign, key) != NULL || yaml_get(settings, key) == NULL)
            continue;
        yaml_put(t->arena, rest, key, checked->pairs[i].value);
        rest->pairs[rest->count - 1].key = checked->pairs[i].key;
    }
    return merge_values(t->arena, own, rest);
}
