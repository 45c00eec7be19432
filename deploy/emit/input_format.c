/* Tells user files apart by their keys, and translates. */
#include "deploy/emit/input_format.h"

#include "deploy/template/merge.h"

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
    for (size_t i = 0; keys != NULL && i < keys->count; i++) {
        if (yaml_get(user, keys->items[i]->text) == NULL)
            return false;
    }
    return keys != NULL;
}

/* Our own vocabulary is that of the FMS charts and more; the name says whether more is in use. */
static void set_own(struct input_format *out, const struct yaml_node *user)
{
    static const char *const more[] = {"platform", "rdzv",     "nodes",     "resources", "profile",
                                       "command",  "instance", "container", "pod"};

    out->name = "fms";
    out->about = "a user file of the FMS charts";
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        if (yaml_get(user, more[i]) != NULL)
            out->about = "a short file (the settings of the FMS charts, and ours)";
    }
}

bool input_format_find(struct input_format *out, struct emit_job *job, const struct yaml_node *user,
                       const struct yaml_node *settings, const struct emit_options *o,
                       struct diag *d)
{
    static const char *const names[] = {"litgpt", "intel"};

    set_own(out, user);
    out->own = NULL;
    out->known = (struct yaml_node *)settings;
    if (o->input_format != NULL &&
        (strcmp(o->input_format, "fms") == 0 || strcmp(o->input_format, "own") == 0))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct yaml_node *own;

        if (o->input_format != NULL && strcmp(o->input_format, names[i]) != 0)
            continue;
        own = embedded_load(&job->data, "formats", names[i], NULL, d);
        if (own == NULL)
            return false;
        if (o->input_format == NULL && !has_all(user, yaml_get(own, "has")) &&
            !has_all(user, yaml_get(own, "or")))
            continue;
        out->name = names[i];
        out->own = own;
        out->about = yaml_text(yaml_get(own, "about"));
        out->known = merge_values(&job->arena, settings, yaml_get(own, "settings"));
        /* What its settings say wins over what ours of the same name say, word for word. */
        for (size_t j = 0; j < yaml_get(own, "settings")->count; j++)
            yaml_put(&job->arena, out->known, yaml_get(own, "settings")->pairs[j].key->text,
                     yaml_get(own, "settings")->pairs[j].value);
        return true;
    }
    if (o->input_format == NULL)
        return true;
    diag_error(d, NULL, (struct yaml_mark){0},
               "there is no input format %s: they are fms, litgpt, intel and own", o->input_format);
    return false;
}

struct yaml_node *input_format_translate(const struct input_format *format, struct template *t,
                                         const struct yaml_node *checked,
                                         const struct yaml_node *settings)
{
    struct scope absent = {input_format_nulls(t->arena, format->known), NULL};
    struct scope given = {(struct yaml_node *)checked, &absent};
    const struct yaml_node *foreign = yaml_get(format->own, "settings");
    struct yaml_node *own, *rest;

    own = template_fill(t, yaml_get(format->own, "becomes"), &given);
    if (own == NULL)
        return NULL;
    /* What is said in our own words wins over what the format makes of the rest. */
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
