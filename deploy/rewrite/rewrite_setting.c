/* Edits a setting in its place: in a list, in a script, or in variables. A conf is edited entry by
 * entry, so that quotes and substitutions of a shell stay; if an entry contains quotes, the whole
 * conf is written again. */
#include "deploy/rewrite/rewrite_plan.h"

#include "deploy/kube/rdzv_conf.h"

#include <string.h>

/* As emit has it: see moreConf in model.yaml. */
#define RELAYED_CONF    "read_timeout=" RELAYED_TIMEOUT
#define RELAYED_TIMEOUT "900"

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
    const struct arg_word *word = &s->written;

    if (variable != NULL)
        edit_value(w, variable->value, value);
    else if (word->at == NULL && word->start == 0 && word->end == word->node->len)
        edit_value(w, word->node, value);
    else
        edit_part(w, word->node, word->start, word->end, value);
}

static size_t part_start(const struct job_setting *s, size_t from)
{
    return s->written.at == NULL ? s->written.start + from : s->written.at[from];
}

static size_t part_end(const struct job_setting *s, size_t from, size_t to)
{
    return to == from              ? part_start(s, from)
           : s->written.at == NULL ? s->written.start + to
                                   : s->written.at[to - 1] + 1;
}

/* Whether the bytes of the part stand together where it is written, without quotes in them. */
static bool setting_has_part(const struct job_setting *s, size_t from, size_t to)
{
    return part_end(s, from, to) - part_start(s, from) == to - from;
}

bool setting_write_part(struct rewrite *w, const struct job_setting *s, size_t from, size_t to,
                        const char *value)
{
    if (!setting_has_part(s, from, to))
        return false;
    edit_part(w, s->written.node, part_start(s, from), part_end(s, from, to), value);
    return true;
}

/* --- One more. --- */

/* The index of the item that equals the node, or whose `value` is the node; the count if no item
 * matches. */
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

    if (style == YAML_PLAIN && *text != '-') /* a number must become a string */
        text = scalar_text(&w->arena, text);
    edit_add_item(w, list, index, false,
                  arena_text(&w->arena,
                             style == YAML_PLAIN    ? "%s\n"
                             : style == YAML_SINGLE ? "'%s'\n"
                                                    : "\"%s\"\n",
                             text));
}

/* The blanks and continued lines before a word, as the script has them. */
static const char *gap_before(struct rewrite *w, const struct arg_word *word)
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
    const struct arg_word *last = beside->separate ? &beside->value : &beside->flag;
    char *flag = arena_text(&w->arena, "--%s", torchrun_options[option]);

    *strchr(flag, '_') = *strpbrk(beside->flag.text + 2, "-_"); /* --rdzv- or --rdzv_ */
    if (last->shell) {
        edit_part(w, last->node, last->end, last->end,
                  arena_text(&w->arena, "%s%s%s%s", gap_before(w, &beside->flag), flag,
                             beside->separate ? " " : "=", value));
        return;
    }
    FOREACH_WORD(key, "command", "args") {
        const struct yaml_node *list = kube_field(r->container, key);
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
    const struct job_variable *own = FIND(one, JOB_FOREACH_VARIABLE(one, &w->jobs, r->container),
                                          one->value != NULL && one->value == beside->written.node);

    value = scalar_text(&w->arena, value);
    for (size_t i = 0; i < 2; i++) {
        size_t index = index_in(lists[i], own != NULL ? own->node : beside->written.node);

        if (index == yaml_length(lists[i]))
            continue;
        edit_add_item(w, lists[i], index, false,
                      arena_text(&w->arena, "name: %s\nvalue: %s\n", name, value));
        return;
    }
    for (size_t i = 0; i < w->bundle.count; i++) {
        const struct yaml_node *data = kube_get(w->bundle.objects[i]->node, "data");

        YAML_FOREACH_PAIR(entry, data) {
            if (entry->value == beside->written.node)
                edit_add_pair(w, data, entry, false,
                              arena_text(&w->arena, "%s: %s\n", name, value));
        }
    }
}

void setting_add(struct rewrite *w, const struct job_run *r, const struct job_setting *beside,
                 enum torchrun_option option, const char *value)
{
    const char *name = torchrun_variables[option];

    if (beside->flag != NULL) {
        add_flag(w, r, beside->flag, option, value);
    } else if (beside->from == JOB_FROM_SCRIPT) {
        const struct arg_word *word = &beside->written;
        const char *behind = word->node->text + word->end;
        size_t end = word->end + (*behind == '"' || *behind == '\'');

        edit_part(w, word->node, end, end, arena_text(&w->arena, " %s=%s", name, value));
    } else {
        add_variable(w, r, beside, name, value);
    }
}

/* --- The conf. --- */

/* What becomes of one conf. */
struct conf_plan {
    struct text_edits edits; /* in their order */
    bool changes;            /* an entry that is there */
};

/* What becomes of a key on the way from the old backend. */
enum fate { STAYS, IS_RENAMED, IS_REMOVED };

/* c10d waits for `join_timeout` seconds, where etcd and static have `timeout`. Keys that the old
 * backend did not read either are the user's mistake, and stay for check to find. */
static enum fate fate_of(const char *key, int old, bool has_join_timeout)
{
    int readers = rdzv_conf_readers(key);

    if ((readers & old) == 0 || (readers & RDZV_CONF_C10D) != 0)
        return STAYS;
    return strcmp(key, "timeout") == 0 && !has_join_timeout ? IS_RENAMED : IS_REMOVED;
}

static void plan_change(struct rewrite *w, struct conf_plan *p, size_t from, size_t to,
                        const char *text)
{
    text_edits_add(&p->edits, &w->arena, from, to - from, text);
}

static void note_removed(struct rewrite *w, const struct yaml_node *at, const char *key)
{
    rewrite_note(w, at, "c10d does not read the conf key `%s`: rewrite removes it", key);
}

/* `all` is the conf with the values of variables. */
static struct conf_plan plan_conf(struct rewrite *w, const struct yaml_node *at, const char *conf,
                                  const char *all, int old)
{
    struct conf_plan p = {.changes = false};
    struct rdzv_conf_entry e;
    bool join = rdzv_conf_find(conf, "join_timeout", &e), lacks_host, gap = false;
    size_t i = 0, kept = 0; /* up to here it stays, as a whole or in part */

    lacks_host = !rdzv_conf_find(all, "is_host", &e);
    if (lacks_host)
        plan_change(w, &p, 0, 0, "is_host=0,");
    while (rdzv_conf_next(conf, &i, &e)) {
        const char *key = arena_copy(&w->arena, conf + e.start, e.key_end - e.start);
        enum fate fate = fate_of(key, old, join);

        if (fate == IS_REMOVED) {
            note_removed(w, at, key);
            p.changes = gap = true;
            continue;
        }
        if (gap)
            plan_change(w, &p, kept, e.start, kept > 0 ? "," : "");
        gap = false;
        kept = e.end;
        if (fate == IS_RENAMED) {
            p.changes = true;
            plan_change(w, &p, e.start, e.key_end, "join_timeout");
        } else if (strcmp(key, "is_host") == 0 && !rdzv_conf_is_false(conf, &e)) {
            p.changes = true;
            plan_change(w, &p, e.start, e.end, "is_host=0");
        }
    }
    if (gap)
        plan_change(w, &p, kept, strlen(conf), "");
    if (lacks_host && kept == 0)
        p.edits.list[0].text = "is_host=0"; /* no comma: nothing else is left */
    if (w->options->relay && !rdzv_conf_find(all, "read_timeout", &e))
        plan_change(w, &p, strlen(conf), strlen(conf), "," RELAYED_CONF);
    return p;
}

/* The conf with all changes. */
static const char *conf_after(struct rewrite *w, const char *conf, struct conf_plan *p)
{
    struct buf out = {0};
    size_t where;

    text_edits_apply(&p->edits, &w->arena, conf, strlen(conf), &out, &where);
    return out.text;
}

/* Each change by itself; false: quotes stand within one, and nothing is done. */
static bool write_conf(struct rewrite *w, const struct job_setting *s, const struct conf_plan *p)
{
    if (ANY(FOREACH(const struct text_edit, e, p->edits.list, p->edits.count),
            !setting_has_part(s, e->at, e->at + e->len)))
        return false;
    FOREACH(const struct text_edit, e, p->edits.list, p->edits.count)
        setting_write_part(w, s, e->at, e->at + e->len, e->text);
    return true;
}

const char *conf_of_c10d(const struct rewrite *w)
{
    return w->options->relay ? "is_host=0," RELAYED_CONF : "is_host=0";
}

void conf_move(struct rewrite *w, const struct job_run *r, const struct job_setting *s)
{
    const char *conf = s->written.text, *all = s->value.text;
    int old = rdzv_conf_backend(r->backend);
    struct conf_plan p = plan_conf(w, s->written.node, conf, all, old), behind;

    if (!p.changes && strcmp(conf, all) != 0) {
        behind = plan_conf(w, s->written.node, all, all, old);
        if (behind.changes) { /* an entry comes with a variable */
            setting_write(w, r, s, conf_after(w, all, &behind));
            return;
        }
    }
    if (p.edits.count > 0 && !write_conf(w, s, &p))
        setting_write(w, r, s, conf_after(w, conf, &p));
}

/* --- In an elasticPolicy. --- */

static void move_entry(struct rewrite *w, const struct yaml_node *conf, size_t i, int old,
                       bool has_join_timeout)
{
    const struct yaml_node *key = yaml_get(conf->items[i], "key");
    const struct yaml_node *value = yaml_get(conf->items[i], "value");
    const char *name = yaml_text(key) == NULL ? "" : key->text;
    enum fate fate = fate_of(name, old, has_join_timeout);

    if (fate == IS_RENAMED) {
        edit_value(w, key, "join_timeout");
    } else if (fate == IS_REMOVED) {
        note_removed(w, key, name);
        edit_remove_item(w, conf, i);
    } else if (strcmp(name, "is_host") == 0 && yaml_text(value) != NULL &&
               !rdzv_conf_is_false(value->text, &(struct rdzv_conf_entry){.end = value->len})) {
        edit_value(w, value, "0");
    }
}

void conf_move_policy(struct rewrite *w, const struct yaml_node *policy, const char *backend,
                      struct buf *missing)
{
    const struct yaml_node *conf = yaml_get(policy, "rdzvConf");
    bool join;

    if (conf == NULL) {
        buf_print(missing, "rdzvConf:\n- key: is_host\n  value: \"0\"\n%s",
                  w->options->relay ? "- key: read_timeout\n  value: \"" RELAYED_TIMEOUT "\"\n"
                                    : "");
        return;
    }
    if (conf->kind != YAML_SEQUENCE) {
        rewrite_error(w, conf, "rdzvConf is a list of `key` and `value`: write it as one");
        return;
    }
    join = kube_item(conf, "key", "join_timeout") != NULL;
    for (size_t i = 0; i < conf->count; i++)
        move_entry(w, conf, i, rdzv_conf_backend(backend), join);
    if (kube_item(conf, "key", "is_host") == NULL)
        edit_append_item(w, conf, "key: is_host\nvalue: \"0\"\n");
    if (w->options->relay && kube_item(conf, "key", "read_timeout") == NULL)
        edit_append_item(w, conf, "key: read_timeout\nvalue: \"" RELAYED_TIMEOUT "\"\n");
}
