/* Prints the verbs of rdzv-manifest as JSON. The build runs it, to make the manual page and the
 * completions of shells; it is not installed. */
#include "deploy/verbs.h"
#include "deploy/yaml/yaml_write.h"

#include <stdio.h>

static void describe_option(struct arena *a, struct yaml_node *out, const struct verb_option *o)
{
    char letter[2] = {(char)o->id, '\0'};

    yaml_put_text(a, out, "name", o->name);
    yaml_put_text(a, out, "letter", o->letter ? letter : NULL);
    yaml_put_text(a, out, "value", o->value);
    yaml_put_text(a, out, "help", o->help);
    yaml_put_text(a, out, "words", o->words);
}

static void describe_verb(struct arena *a, struct yaml_node *out, const struct verb *v)
{
    struct yaml_node *options;

    yaml_put_text(a, out, "name", v->name);
    yaml_put_text(a, out, "syntax", v->words);
    yaml_put_text(a, out, "summary", v->summary);
    yaml_put_text(a, out, "about", v->about);
    yaml_put_text(a, out, "more", v->more);
    yaml_put_text(a, out, "words", v->arguments);
    options = yaml_put_new(a, out, "options", YAML_SEQUENCE);
    for (const struct verb_option *o = v->options; o != NULL && o->name != NULL; o++)
        describe_option(a, yaml_put_new(a, options, NULL, YAML_MAPPING), o);
}

int main(void)
{
    struct arena a = {0};
    struct yaml_node *all = yaml_new(&a, YAML_MAPPING);
    struct yaml_node *list = yaml_put_new(&a, all, "verbs", YAML_SEQUENCE);

    for (size_t i = 0; i < verb_count; i++)
        describe_verb(&a, yaml_put_new(&a, list, NULL, YAML_MAPPING), verbs[i]);
    yaml_write_json(stdout, all);
    arena_free(&a);
    return fflush(stdout) == 0 ? 0 : 1;
}
