/* Walks the old object beside the one that emit makes. The rendezvous is left out: it is what an
 * import changes. */
#include "deploy/import/import_compare.h"

#include <string.h>

#define NOTES_MAX 40
#define DEPTH_MAX 100

struct comparison {
    struct importer *m;
    size_t count;
};

static const char *text_of(const struct yaml_node *n, const char *key)
{
    return kube_text(n, key);
}

/* What a setting says, and emit writes in another place or under another name. */
static bool is_said_otherwise(struct importer *m, const struct yaml_node *within, const char *key)
{
    if (strcmp(key, "nprocPerNode") == 0)
        return true; /* an option or a variable tells torchrun */
    if (strcmp(key, "kueue.x-k8s.io/queue-name") == 0 || strcmp(key, "minAvailable") == 0)
        return true; /* at the object that Kueue admits; with the number of all pods */
    if (strcmp(key, "completionMode") == 0)
        return yaml_is(yaml_get(within, key), "Indexed"); /* as JobSet has it by itself */
    return strcmp(key, "replicas") == 0 && m->job->type == KUBE_PYTORCHJOB &&
           yaml_get(m->settings, "numPods") != NULL; /* the Master is one of them */
}

/* What a cluster writes, and what differs on purpose. */
static bool is_left_out(struct comparison *c, const struct yaml_node *within, const char *key)
{
    static const char *const keys[] = {"status",          "creationTimestamp", "uid",
                                       "resourceVersion", "generation",        "managedFields",
                                       "selfLink"};
    bool training = within == c->m->container->node || within == c->m->container->over ||
                    strcmp(text_of(within, "name"), c->m->container->name) == 0;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(keys[i], key) == 0)
            return true;
    }
    if (strcmp(key, "kubectl.kubernetes.io/last-applied-configuration") == 0 ||
        strcmp(key, "elasticPolicy") == 0)
        return true;
    if (is_said_otherwise(c->m, within, key))
        return true;
    return training &&
           (strcmp(key, "command") == 0 || strcmp(key, "args") == 0 || strcmp(key, "ports") == 0);
}

static bool is_left_out_item(struct comparison *c, const struct yaml_node *item)
{
    const char *name = text_of(item, "name");

    return strcmp(name, "rdzvd") == 0 || strcmp(name, "rdzvd-relay") == 0 ||
           strcmp(name, "rdzvd-data") == 0 || import_is_rendezvous(c->m, name);
}

static void note(struct comparison *c, const struct yaml_node *at, const char *path,
                 const struct yaml_node *new)
{
    if (c->count++ >= NOTES_MAX)
        return;
    if (new == NULL)
        import_note(c->m, at, "%s: no setting of a user file says this, and emit leaves it out",
                    path);
    else
        import_note(c->m, at,
                    "%s: this is %s, and no setting of a user file says so: emit writes %s", path,
                    at->text, new->text);
}

static void compare(struct comparison *c, const struct yaml_node *old, const struct yaml_node *new,
                    const char *path, int depth);

static void compare_mappings(struct comparison *c, const struct yaml_node *old,
                             const struct yaml_node *new, const char *path, int depth)
{
    for (size_t i = 0; i < old->count; i++) {
        const char *key = old->pairs[i].key->text;
        const char *at = arena_text(&c->m->arena, "%s%s%s", path, *path == '\0' ? "" : ".", key);

        if (!is_left_out(c, old, key) && !yaml_is_null(old->pairs[i].value))
            compare(c, old->pairs[i].value, yaml_get(new, key), at, depth);
    }
}

static const struct yaml_node *item_named(const struct yaml_node *list, const char *name)
{
    for (size_t i = 0; i < yaml_length(list); i++) {
        if (*name != '\0' && strcmp(text_of(list->items[i], "name"), name) == 0)
            return list->items[i];
    }
    return NULL;
}

/* The item of that name. A task or a replicatedJob has the name that emit gives it, and comes last.
 */
static const struct yaml_node *partner(const struct yaml_node *old, size_t index,
                                       const struct yaml_node *new, const char *path)
{
    const char *name = text_of(old->items[index], "name");
    const struct yaml_node *found = item_named(new, name);
    size_t len = strlen(path);

    if (*name == '\0')
        return yaml_at(new, index);
    if (found == NULL && yaml_length(new) > 0 &&
        ((len > 5 && strcmp(path + len - 5, "tasks") == 0) ||
         (len > 14 && strcmp(path + len - 14, "replicatedJobs") == 0)) &&
        item_named(old, text_of(new->items[new->count - 1], "name")) == NULL)
        return new->items[new->count - 1];
    return found;
}

static void compare(struct comparison *c, const struct yaml_node *old, const struct yaml_node *new,
                    const char *path, int depth)
{
    if (depth > DEPTH_MAX)
        return;
    if (new == NULL || new->kind != old->kind) {
        if (old->kind == YAML_SCALAR || old->count > 0)
            note(c, old, path, NULL);
        return;
    }
    if (old->kind == YAML_SCALAR) {
        if (strcmp(old->text, new->text) != 0)
            note(c, old, path, new);
        return;
    }
    if (old->kind == YAML_MAPPING) {
        compare_mappings(c, old, new, path, depth + 1);
        return;
    }
    for (size_t i = 0; i < old->count; i++) {
        const char *name = text_of(old->items[i], "name");
        const char *at = *name == '\0' ? arena_text(&c->m->arena, "%s[%zu]", path, i)
                                       : arena_text(&c->m->arena, "%s[%s]", path, name);

        if (!is_left_out_item(c, old->items[i]))
            compare(c, old->items[i], partner(old, i, new, path), at, depth + 1);
    }
}

/* The document of this kind and name, which emit may have in an AppWrapper of another version. */
static const struct yaml_node *document_of(const struct yaml_node *documents,
                                           const struct kube_object *o)
{
    for (size_t i = 0; i < yaml_length(documents); i++) {
        const struct yaml_node *d = documents->items[i];

        if (strcmp(text_of(d, "kind"), o->kind) == 0 &&
            strcmp(text_of(d, "metadata.name"), o->name) == 0)
            return d;
    }
    return NULL;
}

/* Objects that emit does not write: who imports a job keeps their manifests. Stores are left
 * behind. */
static void note_others(struct importer *m, const struct yaml_node *documents)
{
    const char *list = "";

    for (size_t i = 0; i < m->bundle.count; i++) {
        const struct kube_object *o = m->bundle.objects[i];

        if (kube_top(o) != o || o == kube_top(m->job) || document_of(documents, o) != NULL)
            continue;
        list =
            arena_text(&m->arena, "%s%s%s %s", list, *list == '\0' ? "" : ", ", o->kind, o->name);
    }
    if (*list != '\0')
        diag_note(m->diag, NULL, (struct yaml_mark){0},
                  "the user file has nothing of these, keep their files if they are needed: %s",
                  list);
}

size_t import_compare(struct importer *m, const struct yaml_node *documents)
{
    struct comparison c = {.m = m};
    const struct kube_object *top = kube_top(m->job);
    const struct yaml_node *new = document_of(documents, top);

    if (new != NULL)
        compare(&c, top->node, new, "", 0);
    else
        import_note(m, top->node, "emit makes another kind of object of it: compare the two");
    for (size_t i = 0; i < m->bundle.count; i++) {
        const struct kube_object *o = m->bundle.objects[i];

        if (o->type == KUBE_RUNTIME && document_of(documents, o) != NULL)
            compare(&c, o->node, document_of(documents, o), "", 0);
    }
    if (c.count > NOTES_MAX)
        import_note(m, top->node, "and %zu more: see `rdzv-manifest emit --diff`",
                    c.count - NOTES_MAX);
    note_others(m, documents);
    return c.count + (new == NULL);
}
