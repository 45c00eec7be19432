/* Edits a setting where it is written: in a list, in a script, or in variables. */
#include "deploy/rewrite/rewrite_setting.h"

#include "deploy/rewrite/rewrite_edit.h"
#include "deploy/yaml/yaml_write.h"

#include <string.h>

/* The variable of the container that a text consists of: $NAME, ${NAME} or $(NAME). */
static const struct job_variable *variable_of(struct rewrite *w, const struct job_run *r,
                                              const struct job_setting *s)
{
    const char *name = s->written.text + 1, close = *name == '{' ? '}' : *name == '(' ? ')' : '\0';
    const struct job_variable *found;
    size_t len;

    if (s->written.text[0] != '$')
        return NULL;
    name += close != '\0';
    len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    if (len == 0 || name[len] != close || (close != '\0' && name[len + 1] != '\0'))
        return NULL;
    found = job_variable(&w->jobs, r->container, arena_copy(&w->arena, name, len));
    /* A script may have changed its value. */
    return found != NULL && found->value != NULL &&
                   strcmp(job_variable_value(&w->jobs, r->container, found).text, s->value.text) ==
                       0
               ? found
               : NULL;
}

void setting_write(struct rewrite *w, const struct job_run *r, const struct job_setting *s,
                   const char *value)
{
    const struct job_variable *variable = s->flag == NULL ? NULL : variable_of(w, r, s);

    if (variable != NULL)
        edit_value(w, variable->value, value);
    else if (s->written.at == NULL && s->start == 0 && s->end == s->node->len)
        edit_value(w, s->node, value);
    else
        edit_part(w, s->node, s->start, s->end, value);
}

static size_t part_start(const struct job_setting *s, size_t from)
{
    return s->written.at == NULL ? s->start + from : s->written.at[from];
}

static size_t part_end(const struct job_setting *s, size_t from, size_t to)
{
    return to == from              ? part_start(s, from)
           : s->written.at == NULL ? s->start + to
                                   : s->written.at[to - 1] + 1;
}

bool setting_has_part(const struct job_setting *s, size_t from, size_t to)
{
    return part_end(s, from, to) - part_start(s, from) == to - from;
}

bool setting_write_part(struct rewrite *w, const struct job_setting *s, size_t from, size_t to,
                        const char *value)
{
    if (!setting_has_part(s, from, to))
        return false;
    edit_part(w, s->node, part_start(s, from), part_end(s, from, to), value);
    return true;
}

/* --- One more. --- */

/* The index of the item that is the node, or has it as its `value`; the count if there is none. */
static size_t index_in(const struct yaml_node *list, const struct yaml_node *node)
{
    size_t i = 0;

    while (i < yaml_length(list) && list->items[i] != node &&
           yaml_get(list->items[i], "value") != node)
        i++;
    return i;
}

/* An item in the style of its neighbour. */
static void add_word(struct rewrite *w, const struct yaml_node *list, size_t index,
                     const char *text)
{
    enum yaml_style style = list->items[index]->style;

    edit_add_item(w, list, index, false,
                  arena_text(&w->arena,
                             style == YAML_PLAIN    ? "%s\n"
                             : style == YAML_SINGLE ? "'%s'\n"
                                                    : "\"%s\"\n",
                             text));
}

/* The blanks and continued lines before a word, as the script has them. */
static const char *gap_before(struct rewrite *w, const struct arg_text *word)
{
    const char *text = word->node->text;
    size_t from = word->start;

    while (from > 0 && strchr(" \t\r\n\\", text[from - 1]) != NULL)
        from--;
    if (from == word->start || (memchr(text + from, '\n', word->start - from) != NULL &&
                                memchr(text + from, '\\', word->start - from) == NULL))
        return " ";
    return arena_copy(&w->arena, text + from, word->start - from);
}

static void add_flag(struct rewrite *w, const struct job_run *r, const struct torchrun_flag *beside,
                     enum torchrun_option option, const char *value)
{
    static const char *const keys[] = {"command", "args"};
    const struct arg_text *last = beside->separate ? &beside->value : &beside->flag;
    char *flag = arena_text(&w->arena, "--%s", torchrun_option_name(option));

    *strchr(flag, '_') = *strpbrk(beside->flag.text + 2, "-_"); /* --rdzv- or --rdzv_ */
    if (last->shell) {
        edit_part(w, last->node, last->end, last->end,
                  arena_text(&w->arena, "%s%s%s%s", gap_before(w, &beside->flag), flag,
                             beside->separate ? " " : "=", value));
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        const struct yaml_node *list = kube_field(r->container, keys[i]);
        size_t index = index_in(list, last->node);

        if (index == yaml_length(list))
            continue;
        add_word(w, list, index,
                 beside->separate ? flag : arena_text(&w->arena, "%s=%s", flag, value));
        if (beside->separate)
            add_word(w, list, index, value);
        return;
    }
}

/* Adds it beside a variable in the env of a container, or in a ConfigMap that the container
 * uses. */
static void add_variable(struct rewrite *w, const struct job_run *r,
                         const struct job_setting *beside, const char *name, const char *value)
{
    const struct yaml_node *lists[] = {kube_get(r->container->node, "env"),
                                       kube_get(r->container->over, "env")};

    value = scalar_text(&w->arena, value);
    for (size_t i = 0; i < 2; i++) {
        size_t index = index_in(lists[i], beside->node);

        if (index == yaml_length(lists[i]))
            continue;
        edit_add_item(w, lists[i], index, false,
                      arena_text(&w->arena, "name: %s\nvalue: %s\n", name, value));
        return;
    }
    for (size_t i = 0; i < w->bundle.count; i++) {
        const struct yaml_node *data = kube_get(w->bundle.objects[i]->node, "data");

        for (size_t k = 0; data != NULL && data->kind == YAML_MAPPING && k < data->count; k++) {
            if (data->pairs[k].value == beside->node)
                edit_add_pair(w, data, &data->pairs[k],
                              arena_text(&w->arena, "%s: %s\n", name, value));
        }
    }
}

void setting_add(struct rewrite *w, const struct job_run *r, const struct job_setting *beside,
                 enum torchrun_option option, const char *value)
{
    const char *name = job_variable_name(option);

    if (beside->flag != NULL) {
        add_flag(w, r, beside->flag, option, value);
    } else if (beside->from == JOB_FROM_SCRIPT) {
        const char *behind = beside->node->text + beside->end;
        size_t end = beside->end + (*behind == '"' || *behind == '\'');

        edit_part(w, beside->node, end, end, arena_text(&w->arena, " %s=%s", name, value));
    } else {
        add_variable(w, r, beside, name, value);
    }
}
