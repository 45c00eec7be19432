/* Edits the conf entry by entry, so that quotes and substitutions of a shell stay as they are; only
 * where quotes stand within an entry, the whole conf is written anew. */
#include "deploy/rewrite/rewrite_conf.h"

#include "deploy/kube/rdzv_conf.h"
#include "deploy/rewrite/rewrite_edit.h"
#include "deploy/rewrite/rewrite_setting.h"

#include <string.h>

#define CHANGES_MAX 32

/* As emit has it: see moreConf in model.yaml. */
#define RELAYED_CONF    "read_timeout=" RELAYED_TIMEOUT
#define RELAYED_TIMEOUT "900"

struct change {
    size_t from, to;
    const char *text;
};

/* What becomes of one conf. */
struct plan {
    struct change list[CHANGES_MAX]; /* in their order */
    size_t count;
    bool is_host;  /* it has that key */
    bool waits;    /* it has read_timeout, or needs none */
    bool changes;  /* an entry that is there */
    bool removes;  /* an entry goes, so that the commas change, too */
    bool overflow; /* there are more changes */
    struct buf text;
};

/* What becomes of a key on the way from the old backend. */
enum fate { STAYS, IS_RENAMED, IS_REMOVED };

/* c10d waits for `join_timeout` seconds, where etcd and static have `timeout`. Keys that the old
 * backend did not read either are the user's mistake, and stay for check to find. */
static enum fate fate_of(const char *key, size_t len, int old, bool has_join_timeout)
{
    int readers = rdzv_conf_readers(key, len);

    if ((readers & old) == 0 || (readers & RDZV_CONF_C10D) != 0)
        return STAYS;
    return strncmp(key, "timeout", len) == 0 && !has_join_timeout ? IS_RENAMED : IS_REMOVED;
}

/* is_host=0 comes first, and together with what changes there. */
static void add_change(struct plan *p, size_t from, size_t to, const char *text)
{
    struct change *first = p->list;

    if (p->count == 1 && first->to == 0 && from == 0)
        *first = (struct change){from, to, arena_text(p->text.arena, "%s%s", first->text, text)};
    else if (p->count == CHANGES_MAX)
        p->overflow = true;
    else
        p->list[p->count++] = (struct change){from, to, text};
}

static void note_removed(struct rewrite *w, const struct yaml_node *at, const char *key, size_t len)
{
    rewrite_note(w, at, "c10d does not read the conf key `%.*s`: rewrite removes it", (int)len,
                 key);
}

/* `all` is the conf with the values of variables. */
static void plan_conf(struct rewrite *w, const struct yaml_node *at, const char *conf,
                      const char *all, int old, struct plan *p)
{
    struct rdzv_conf_entry e;
    bool join = rdzv_conf_find(conf, "join_timeout", &e);
    size_t i = 0;

    *p = (struct plan){.text = {.arena = &w->arena},
                       .is_host = rdzv_conf_find(all, "is_host", &e),
                       .waits = !w->options->relay || rdzv_conf_find(all, "read_timeout", &e)};
    if (!p->is_host) {
        buf_print(&p->text, "is_host=0");
        add_change(p, 0, 0, *conf == '\0' ? "is_host=0" : "is_host=0,");
    }
    while (rdzv_conf_next(conf, &i, &e)) {
        const char *key = conf + e.start, *between = p->text.len > 0 ? "," : "";
        size_t len = e.key_end - e.start;
        enum fate fate = fate_of(key, len, old, join);

        if (fate == IS_REMOVED) {
            note_removed(w, at, key, len);
            p->changes = p->removes = true;
        } else if (fate == IS_RENAMED) {
            p->changes = true;
            add_change(p, e.start, e.key_end, "join_timeout");
            buf_print(&p->text, "%sjoin_timeout%.*s", between, (int)(e.end - e.key_end),
                      conf + e.key_end);
        } else if (len == 7 && memcmp(key, "is_host", 7) == 0 && !rdzv_conf_is_false(conf, &e)) {
            p->changes = true;
            add_change(p, e.start, e.end, "is_host=0");
            buf_print(&p->text, "%sis_host=0", between);
        } else {
            buf_print(&p->text, "%s%.*s", between, (int)(e.end - e.start), key);
        }
    }
    if (!p->waits) {
        buf_print(&p->text, ",%s", RELAYED_CONF);
        add_change(p, strlen(conf), strlen(conf), "," RELAYED_CONF);
    }
}

/* Each change on its own or, where entries go, the whole; false: quotes stand within, and nothing
 * is done. */
static bool write_parts(struct rewrite *w, const struct job_setting *s, const struct plan *p)
{
    if (p->removes || p->overflow)
        return setting_write_part(w, s, 0, strlen(s->written.text), p->text.text);
    for (size_t i = 0; i < p->count; i++) {
        if (!setting_has_part(s, p->list[i].from, p->list[i].to))
            return false;
    }
    for (size_t i = 0; i < p->count; i++)
        setting_write_part(w, s, p->list[i].from, p->list[i].to, p->list[i].text);
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
    struct plan p, behind;

    plan_conf(w, s->node, conf, all, old, &p);
    if (!p.changes && strcmp(conf, all) != 0) {
        plan_conf(w, s->node, all, all, old, &behind);
        if (behind.changes) { /* an entry comes with a variable */
            setting_write(w, r, s, behind.text.text);
            return;
        }
    }
    if ((p.changes || !p.is_host || !p.waits) && !write_parts(w, s, &p))
        setting_write(w, r, s, p.text.text);
}

/* --- In an elasticPolicy. --- */

static void move_entry(struct rewrite *w, const struct yaml_node *conf, size_t i, int old,
                       bool has_join_timeout)
{
    const struct yaml_node *key = yaml_get(conf->items[i], "key");
    const struct yaml_node *value = yaml_get(conf->items[i], "value");
    const char *name = yaml_text(key) == NULL ? "" : key->text;
    enum fate fate = fate_of(name, strlen(name), old, has_join_timeout);

    if (fate == IS_RENAMED) {
        edit_value(w, key, "join_timeout");
    } else if (fate == IS_REMOVED) {
        note_removed(w, key, name, strlen(name));
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
