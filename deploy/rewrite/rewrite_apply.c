/* Makes the new text of a file from its edits, if they are safe. */
#include "deploy/rewrite/rewrite_edit.h"

#include <string.h>

/* --- Anchors. --- */

static bool is_use(const struct yaml_node *anchored, const struct yaml_node *n)
{
    return n == anchored || (n->alias && n->kind == anchored->kind && n->file == anchored->file &&
                             (n->kind == YAML_MAPPING    ? n->pairs == anchored->pairs
                              : n->kind == YAML_SEQUENCE ? n->items == anchored->items
                                                         : n->text == anchored->text));
}

/* How often the node stands in the tree: at its anchor and at every alias. */
static size_t count_uses(const struct yaml_node *anchored, const struct yaml_node *n)
{
    size_t count = 0;

    if (n == NULL || is_use(anchored, n))
        return n != NULL;
    for (size_t i = 0; n->kind != YAML_SCALAR && !n->alias && i < n->count; i++)
        count += count_uses(anchored, n->kind == YAML_SEQUENCE ? n->items[i] : n->pairs[i].value);
    return count;
}

static bool is_moved(const struct rewrite *w, const struct kube_object *o)
{
    for (size_t i = 0; i < w->moved_count; i++) {
        if (w->moved[i] == o)
            return true;
    }
    return false;
}

/* The uses of the node that belong to containers that start torch. */
static size_t count_good(const struct rewrite *w, const struct kube_pods *p,
                         const struct yaml_node *anchored)
{
    struct job_view_runs runs = job_runs_in(&w->jobs, p);
    const struct kube_container *last = NULL;
    size_t count = 0;

    for (size_t i = 0; i < runs.count; i++) {
        const struct kube_container *c = runs.list[i]->container;

        if (count_uses(c->node, anchored) > 0) /* all of the container, or more */
            return count_uses(anchored, p->part);
        if (c != last)
            count += count_uses(anchored, c->node);
        last = c;
    }
    return count;
}

/* Every place with the node is in containers of moved jobs that start torch: what one of them
 * needs, all need. */
static bool need_all_the_same(const struct rewrite *w, const struct rewrite_file *f,
                              const struct yaml_node *anchored)
{
    size_t uses = 0, good = 0;

    for (size_t i = 0; i < f->yaml.count; i++)
        uses += count_uses(anchored, f->yaml.docs[i].root);
    for (size_t i = 0; i < w->bundle.pod_count; i++) {
        const struct kube_pods *p = w->bundle.pods[i];

        if (is_moved(w, p->object) && p->part->file == anchored->file)
            good += count_good(w, p, anchored);
    }
    return uses == good;
}

/* An edit inside of an anchored node changes all places with *name; an edit around it would leave
 * these without the anchor. */
static void check_shared(struct rewrite *w, const struct rewrite_file *f, const struct yaml_node *n)
{
    if (n->alias)
        return;
    for (size_t i = 0; n->anchor != NULL && i < f->edits.count; i++) {
        const struct text_edit *e = &f->edits.list[i];
        size_t from = n->start.offset, to = n->end.offset;

        if (e->at < to && e->at + e->len > from && !(e->at <= from && e->at + e->len >= to) &&
            !need_all_the_same(w, f, n)) {
            rewrite_error(w, n,
                          "&%s is shared by every *%s, and would have to be changed for one "
                          "of them: write it out",
                          n->anchor, n->anchor);
            return;
        }
    }
    for (size_t i = 0; n->kind != YAML_SCALAR && i < n->count; i++) {
        if (n->kind == YAML_SEQUENCE)
            check_shared(w, f, n->items[i]);
        else if (!n->pairs[i].merged)
            check_shared(w, f, n->pairs[i].value);
    }
}

static struct yaml_mark mark_at(const struct rewrite_file *f, size_t offset)
{
    struct yaml_mark m = {offset, 1, 1};

    for (size_t i = 0; i < offset; i++) {
        m.column = f->yaml.bytes[i] == '\n' ? 1 : m.column + 1;
        m.line += f->yaml.bytes[i] == '\n';
    }
    return m;
}

/* A value with the braces of a template is not known yet. Comments may contain them. */
static void check_templates(struct rewrite *w, const struct rewrite_file *f,
                            const struct yaml_node *n)
{
    for (size_t i = 0; n->kind == YAML_SCALAR && i < f->edits.count; i++) {
        const struct text_edit *e = &f->edits.list[i];
        size_t from = e->at > n->start.offset ? e->at : n->start.offset;
        size_t to = e->at + e->len < n->end.offset ? e->at + e->len : n->end.offset;

        if (from < to && memmem(f->yaml.bytes + from, to - from, "{{", 2) != NULL) {
            rewrite_error(w, n,
                          "this is a template: render it first (helm template), and rewrite "
                          "what comes out");
            return;
        }
    }
    for (size_t i = 0; n->kind != YAML_SCALAR && !n->alias && i < n->count; i++)
        check_templates(w, f, n->kind == YAML_SEQUENCE ? n->items[i] : n->pairs[i].value);
}

/* The result must be YAML again. If it is not, rewrite misunderstood the file. */
static bool is_still_yaml(struct rewrite *w, struct rewrite_file *f)
{
    struct diag d = {0};
    bool ok = yaml_file_parse(&f->again, f->path, f->result.bytes, f->result.len, &d);

    if (!ok)
        diag_error(w->diag, f->yaml.name, mark_at(f, f->result.regions[0].old_start),
                   "the edits do not fit this text (line %u would be: %s): write it in a plainer "
                   "style",
                   d.entries[0].mark.line, d.entries[0].text);
    diag_free(&d);
    return ok;
}

static bool contains(const struct rewrite_file *f, const char *text)
{
    return memmem(f->yaml.bytes, f->yaml.len, text, strlen(text)) != NULL;
}

bool edit_apply(struct rewrite *w, struct rewrite_file *f)
{
    bool anchors = contains(f, "&"), templates = contains(f, "{{");
    size_t where;

    for (size_t i = 0; f->edits.count > 0 && i < f->yaml.count; i++) {
        if (anchors && f->yaml.docs[i].root != NULL)
            check_shared(w, f, f->yaml.docs[i].root);
        if (templates && f->yaml.docs[i].root != NULL)
            check_templates(w, f, f->yaml.docs[i].root);
    }
    if (w->diag->errors > 0)
        return false;
    if (!text_edits_apply(&f->edits, &w->arena, f->yaml.bytes, f->yaml.len, &f->result, &where)) {
        diag_error(w->diag, f->yaml.name, mark_at(f, where),
                   "two changes meet here: write what stands here on lines of its own");
        return false;
    }
    return f->result.count == 0 || is_still_yaml(w, f);
}
