/* Places in the files, and the findings that rules report there. */
#include "deploy/check/check.h"

struct check_position check_at(const struct yaml_node *node)
{
    return (struct check_position){node, 0};
}

struct check_position check_at_key(const struct yaml_node *mapping, const char *key)
{
    const struct yaml_pair *pair = yaml_get_pair(mapping, key);

    return check_at(pair == NULL ? mapping : pair->key);
}

struct check_position check_at_first_of(const struct yaml_node *node, const char *const *paths)
{
    const struct yaml_node *found = NULL;

    for (; found == NULL && *paths != NULL; paths++)
        found = kube_get(node, *paths);
    return check_at(found == NULL ? node : found);
}

struct check_position check_at_text(const struct arg_word *text)
{
    return (struct check_position){text->node, text->start};
}

struct check_position check_at_run(const struct job_run *r)
{
    const struct kube_object *o = job_run_object(r);

    if (r->args != NULL)
        return check_at_text(&r->args->command);
    if (kube_get(o->spec, "elasticPolicy") != NULL)
        return check_at_key(o->spec, "elasticPolicy");
    return check_at_first(r->container->node, "name");
}

struct check_position check_at_setting(const struct job_run *r, enum torchrun_option option)
{
    const struct arg_word *word = &r->settings[option].written;

    return word->node == NULL ? check_at_run(r) : check_at_text(word);
}

struct check_position check_at_option(const struct job_store *s, const struct job_setting *setting)
{
    return setting->written.node == NULL ? check_at_first(s->container->node, "name")
                                         : check_at_text(&setting->written);
}

struct check_position check_at_store(const struct job_store *s)
{
    return check_at_first(s->container->node, "name", "image");
}

/* The index of the file with exactly this name; the number of files if none has it. */
static size_t file_index(const struct check *c, const char *name)
{
    size_t i = 0;

    while (i < c->file_count && c->files[i].name != name)
        i++;
    return i;
}

void check_report_on(struct check *c, const struct kube_object *o, struct check_position at,
                     const char *format, ...)
{
    struct check_finding f = {.rule = c->rule, .object = o};
    const char *place;
    bool block;
    va_list args;

    if (at.node == NULL)
        at = check_at(o->node);
    f.file = at.node->file == NULL ? "" : at.node->file;
    f.file_index = file_index(c, f.file);
    block = at.node->style == YAML_LITERAL || at.node->style == YAML_FOLDED;
    f.mark = at.node->start;
    if (f.file_index < c->file_count && at.node->kind == YAML_SCALAR && (at.at > 0 || block))
        f.mark = scalar_position(&c->files[f.file_index], at.node, at.at);
    /* By rule, file and place: several jobs share a template, or several commands a variable. */
    place = arena_text(&c->bundle.arena, "%s:%zu", f.file, f.mark.offset);
    if (!kube_index_is_new(&c->bundle.arena, &c->reported, f.rule->id, place))
        return;
    va_start(args, format);
    f.text = arena_vtext(&c->bundle.arena, format, args);
    va_end(args);
    arena_push(&c->bundle.arena, c->findings, c->count, c->cap) = f;
}
