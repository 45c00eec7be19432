/* Prints the verbs of rdzv-manifest, and what its words may be, as JSON. The build runs it, to make
 * the manual page and the completions of shells; it is not installed. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "deploy/check/check.h"
#include "deploy/template/files.h"
#include "deploy/verbs.h"

static void add_text(cJSON *to, const char *name, const char *text)
{
    if (text != NULL && cJSON_AddStringToObject(to, name, text) == NULL)
        abort();
}

static cJSON *add(cJSON *to, const char *name, cJSON *item)
{
    if (!(name == NULL ? cJSON_AddItemToArray(to, item) : cJSON_AddItemToObject(to, name, item)))
        abort();
    return item;
}

static void add_word(cJSON *list, const char *word)
{
    add(list, NULL, cJSON_CreateString(word));
}

static void describe_options(cJSON *list, const struct verb_option *o)
{
    for (; o != NULL && o->name != NULL; o++) {
        cJSON *one = add(list, NULL, cJSON_CreateObject());
        char letter[2] = {(char)o->id, '\0'};

        add_text(one, "name", o->name);
        add_text(one, "letter", o->letter ? letter : NULL);
        add_text(one, "value", o->value);
        add_text(one, "help", o->help);
        add_text(one, "words", o->words);
    }
}

static void describe_verbs(cJSON *list)
{
    for (size_t i = 0; i < verb_count; i++) {
        cJSON *one = add(list, NULL, cJSON_CreateObject());

        add_text(one, "name", verbs[i]->name);
        add_text(one, "syntax", verbs[i]->words);
        add_text(one, "summary", verbs[i]->summary);
        add_text(one, "about", verbs[i]->about);
        add_text(one, "more", verbs[i]->more);
        add_text(one, "words", verbs[i]->arguments);
        describe_options(add(one, "options", cJSON_CreateArray()), verbs[i]->options);
    }
}

static void describe_kind(cJSON *lists, const char *kind)
{
    cJSON *list = add(lists, kind, cJSON_CreateArray());
    char name[100];
    size_t at = 0;

    while (embedded_next(kind, &at, name, sizeof name) != NULL)
        add_word(list, name);
}

static void describe_lists(cJSON *lists)
{
    static const char *const kinds[] = {"platforms", "profiles", "placements", "formats"};
    struct embedded data = {0};
    struct diag d = {0};
    const struct yaml_node *settings = embedded_load(&data, "", "settings", NULL, &d);
    cJSON *list;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        describe_kind(lists, kinds[i]);
    list = add(lists, "rules", cJSON_CreateArray());
    for (size_t i = 0; i < check_rule_count; i++)
        add_word(list, check_rules[i].id);
    list = add(lists, "settings", cJSON_CreateArray());
    for (size_t i = 0; settings != NULL && i < settings->count; i++)
        add_word(list, settings->pairs[i].key->text);
    diag_print(&d, stderr);
    diag_free(&d);
    embedded_free(&data);
}

int main(void)
{
    cJSON *all = cJSON_CreateObject();
    char *text;

    describe_verbs(add(all, "verbs", cJSON_CreateArray()));
    describe_lists(add(all, "lists", cJSON_CreateObject()));
    text = cJSON_Print(all);
    if (text == NULL)
        abort();
    puts(text);
    free(text);
    cJSON_Delete(all);
    return fflush(stdout) == 0 ? 0 : 1;
}
