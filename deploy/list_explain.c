/* The verbs list and explain: platforms, settings and the like from the data files, and the rules
 * of check. */
#include "deploy/check/check_verb.h"
#include "deploy/template/files.h"
#include "deploy/template/template.h"
#include "deploy/verbs.h"

#include <string.h>

static void list_kind(const char *kind, struct diag *d)
{
    size_t at = 0;
    char name[100];

    printf("%s:\n", kind);
    while (embedded_next(kind, &at, name, sizeof name) != NULL) {
        struct embedded data = {0};
        const struct yaml_node *file = embedded_load(&data, kind, name, NULL, d);
        const char *about = yaml_text(yaml_get(file, "about"));
        const struct yaml_node *supported = yaml_path(file, "placements.supported");

        printf("  %s\n", name);
        text_wrap(stdout, NULL, 6, about == NULL ? "" : about);
        for (size_t i = 0; supported != NULL && i < supported->count; i++)
            printf("%s%s%s", i == 0 ? "      placements: " : ", ", supported->items[i]->text,
                   i + 1 == supported->count ? "\n" : "");
        embedded_free(&data);
        if (file == NULL)
            return;
    }
}

static const char *type_name(const struct yaml_node *setting)
{
    const struct yaml_node *either = yaml_get(setting, "either");
    const char *type = yaml_text(yaml_get(setting, "type"));

    if (either != NULL && either->count == 2)
        return type_name(either->items[1]);
    if (yaml_get(setting, "values") != NULL)
        return "one of";
    return type == NULL ? "text" : type;
}

static void print_type(const struct yaml_node *setting)
{
    const struct yaml_node *either = yaml_get(setting, "either");
    const struct yaml_node *values = yaml_get(setting, "values");
    const char *min = yaml_text(yaml_get(setting, "min")),
               *max = yaml_text(yaml_get(setting, "max"));

    for (size_t i = 0; either != NULL && i < either->count; i++) {
        if (i > 0)
            printf(" or ");
        print_type(either->items[i]);
    }
    if (either != NULL)
        return;
    for (size_t i = 0; values != NULL && i < values->count; i++)
        printf("%s%s", i > 0 ? " | " : "", values->items[i]->text);
    if (values == NULL)
        printf("%s", type_name(setting));
    if (min != NULL)
        printf(", %s or more", min);
    if (max != NULL)
        printf(", %s at most", max);
    if (strcmp(type_name(setting), "list") == 0) {
        printf(" of ");
        print_type(yaml_get(setting, "items"));
    } else if (strcmp(type_name(setting), "map") == 0) {
        printf(" to ");
        print_type(yaml_get(setting, "each"));
    }
}

static void print_setting(const char *name, const struct yaml_node *setting, int indent)
{
    const struct yaml_node *keys = yaml_get(setting, "keys");
    const struct yaml_node *only = yaml_get(setting, "only");
    const char *def = yaml_text(yaml_get(setting, "default"));
    const char *about = yaml_text(yaml_get(setting, "about"));

    printf("%*s%s (", indent, "", name);
    print_type(setting);
    printf("%s)\n", yaml_true(yaml_get(setting, "required")) ? ", required" : "");
    if (about != NULL)
        text_wrap(stdout, NULL, indent + 4, about);
    for (size_t i = 0; only != NULL && i < only->count; i++)
        printf("%*s%s%s%s", i == 0 ? indent + 4 : 0, "", i == 0 ? "only on " : ", ",
               only->items[i]->text, i + 1 == only->count ? "\n" : "");
    if (def != NULL)
        printf("%*sdefault: %s\n", indent + 4, "", def);
    if (keys == NULL)
        keys = yaml_path(setting, "items.keys");
    if (keys == NULL)
        keys = yaml_path(setting, "either[0].items.keys");
    YAML_FOREACH_PAIR(key, keys)
        print_setting(key->key->text, key->value, indent + 4);
}

/* With `schema` for editors, as JSON Schema. */
static void list_settings(bool schema, struct diag *d)
{
    struct embedded data = {0};
    const struct yaml_node *settings = embedded_load(&data, "", "settings", NULL, d);
    struct yaml_node *vars = yaml_new(&d->arena, YAML_MAPPING);

    if (schema) {
        yaml_put(&d->arena, vars, "settings", settings);
        yaml_put(&d->arena, vars, "forms", embedded_load(&data, "", "types", NULL, d));
        template_print_json(stdout, "schema", "schema", vars, d);
    } else {
        puts("settings:");
        YAML_FOREACH_PAIR(setting, settings)
            print_setting(setting->key->text, setting->value, 2);
    }
    embedded_free(&data);
}

int run_list(int argc, char **argv)
{
    struct diag d = {0};
    bool known = argc == 1;

    FOREACH_WORD(kind, "platforms", "profiles", "placements", "formats", "settings", "rules",
                 "schema") {
        bool schema = strcmp(kind, "schema") == 0;

        if (argc > 2 || (argc == 2 ? strcmp(argv[1], kind) != 0 : schema))
            continue;
        known = true;
        if (schema || strcmp(kind, "settings") == 0) {
            list_settings(schema, &d);
        } else if (strcmp(kind, "rules") == 0) {
            puts("rules:");
            FOREACH(const struct check_rule, rule, check_rules, check_rule_count)
                check_print_rule(stdout, rule);
        } else {
            list_kind(kind, &d);
        }
    }
    if (!known)
        options_error(&d,
                      "%s: nothing to list: write platforms, profiles, placements, formats, "
                      "settings, rules or schema",
                      argv[argc - 1]);
    return diag_end(&d);
}

/* Finds `name` or `name.name`, in mappings and in lists of mappings. NULL: the name is absent, or
 * has a fault, which is in d. */
static const struct yaml_node *find_setting(const struct yaml_node *settings, const char *path,
                                            struct diag *d)
{
    const struct yaml_node *keys = settings, *setting = NULL;
    char name[100];

    while (*path != '\0') {
        size_t len = strcspn(path, ".[");
        const char *near;

        snprintf(name, sizeof name, "%.*s", (int)len, path);
        setting = yaml_get(keys, name);
        if (setting == NULL) {
            near = schema_nearest(keys, name);
            if (near != NULL)
                options_error(d, "%s: did you mean %s?", name, near);
            else
                options_error(d, "%s: there is no such setting: see `rdzv-manifest list settings`",
                              name);
            return NULL;
        }
        path += len;
        path += *path == '[' ? strcspn(path, "]") : 0;
        path += *path == ']';
        path += *path == '.';
        keys = yaml_get(setting, "keys");
        if (keys == NULL)
            keys = yaml_path(setting, "items.keys");
    }
    return setting;
}

int run_explain(int argc, char **argv)
{
    struct diag d = {0};
    struct embedded data = {0};
    const struct embedded_file *file = argc == 2 ? embedded_find("", argv[1]) : NULL;
    const struct check_rule *rule = argc == 2 ? check_rule_named(argv[1]) : NULL;
    const struct yaml_node *settings, *setting;

    if (rule != NULL) {
        check_print_rule(stdout, rule);
        return 0;
    }
    if (file != NULL && strchr(argv[1], '/') != NULL) {
        fwrite(file->bytes, 1, file->len, stdout);
        return 0;
    }
    settings = embedded_load(&data, "", "settings", NULL, &d);
    if (argc != 2 || argv[1][0] == '\0') {
        options_error(&d, "one name is expected: write a setting or a rule, as in `rdzv-manifest "
                          "explain numPods`");
    } else if (settings != NULL) {
        setting = find_setting(settings, argv[1], &d);
        if (setting != NULL)
            print_setting(argv[1], setting, 0);
    }
    embedded_free(&data);
    return diag_end(&d);
}
