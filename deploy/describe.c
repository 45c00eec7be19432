/* Prints the verbs of rdzv-manifest, and what its words may be, as JSON. The build runs it, to make
 * the manual page and the completions of shells; it is not installed. */
#include <stdio.h>
#include <string.h>

#include "deploy/check/check.h"
#include "deploy/template/files.h"
#include "deploy/verbs.h"
#include "deploy/yaml/yaml_write.h"

static struct yaml_node *describe_options(struct arena *a, const struct verb_option *o)
{
    struct yaml_node *list = yaml_new(a, YAML_SEQUENCE);

    for (; o != NULL && o->name != NULL; o++) {
        struct yaml_node *one = yaml_new(a, YAML_MAPPING);
        char letter[2] = {(char)o->id, '\0'};

        yaml_put_text(a, one, "name", o->name);
        yaml_put_text(a, one, "letter", o->letter ? letter : NULL);
        yaml_put_text(a, one, "value", o->value);
        yaml_put_text(a, one, "help", o->help);
        yaml_put_text(a, one, "words", o->words);
        yaml_append(a, list, one);
    }
    return list;
}

static struct yaml_node *describe_verbs(struct arena *a)
{
    struct yaml_node *list = yaml_new(a, YAML_SEQUENCE);

    for (size_t i = 0; i < verb_count; i++) {
        struct yaml_node *one = yaml_new(a, YAML_MAPPING);

        yaml_put_text(a, one, "name", verbs[i]->name);
        yaml_put_text(a, one, "syntax", verbs[i]->words);
        yaml_put_text(a, one, "summary", verbs[i]->summary);
        yaml_put_text(a, one, "about", verbs[i]->about);
        yaml_put_text(a, one, "more", verbs[i]->more);
        yaml_put_text(a, one, "words", verbs[i]->arguments);
        yaml_put(a, one, "options", describe_options(a, verbs[i]->options));
        yaml_append(a, list, one);
    }
    return list;
}

static struct yaml_node *describe_lists(struct arena *a, const struct yaml_node *settings)
{
    static const char *const kinds[] = {"platforms", "profiles", "placements", "formats"};
    struct yaml_node *lists = yaml_new(a, YAML_MAPPING), *list;
    char name[100];

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        list = yaml_new(a, YAML_SEQUENCE);
        for (size_t at = 0; embedded_next(kinds[i], &at, name, sizeof name) != NULL;)
            yaml_append(a, list, yaml_new_text(a, name, strlen(name)));
        yaml_put(a, lists, kinds[i], list);
    }
    list = yaml_new(a, YAML_SEQUENCE);
    for (size_t i = 0; i < check_rule_count; i++)
        yaml_append(a, list, yaml_new_text(a, check_rules[i].id, strlen(check_rules[i].id)));
    yaml_put(a, lists, "rules", list);
    list = yaml_new(a, YAML_SEQUENCE);
    for (size_t i = 0; settings != NULL && i < settings->count; i++)
        yaml_append(a, list, settings->pairs[i].key);
    yaml_put(a, lists, "settings", list);
    return lists;
}

int main(void)
{
    struct arena a = {0};
    struct embedded data = {0};
    struct diag d = {0};
    struct yaml_node *all = yaml_new(&a, YAML_MAPPING);
    int code;

    yaml_put(&a, all, "verbs", describe_verbs(&a));
    yaml_put(&a, all, "lists", describe_lists(&a, embedded_load(&data, "", "settings", NULL, &d)));
    yaml_write_json(stdout, all);
    diag_print(&d, stderr);
    code = fflush(stdout) == 0 ? diag_exit(&d) : 1;
    embedded_free(&data);
    diag_free(&d);
    arena_free(&a);
    return code;
}
