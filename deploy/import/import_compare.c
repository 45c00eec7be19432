/* Walks the old object beside the one that emit makes, field by field. The rendezvous is left out:
 * it is what an import changes. */
#include "deploy/import/import_compare.h"

#include "deploy/import/import_numbers.h"

#include <string.h>

#define NOTES_MAX 40
#define DEPTH_MAX 100

struct comparison {
    struct importer *m;
    struct import_made made;
    size_t count;
};

/* What a setting says, and emit writes in another place or under another name. */
static bool is_said_otherwise(struct importer *m, const struct yaml_node *within, const char *key)
{
    if (import_is_number(m, within, key))
        return true;
    if (strcmp(key, "kueue.x-k8s.io/queue-name") == 0)
        return true; /* at the object that Kueue admits */
    if (within == kube_get(m->job->spec, "elasticPolicy"))
        return strncmp(key, "rdzv", 4) == 0 || strcmp(key, "standalone") == 0;
    if (strcmp(key, "completionMode") == 0)
        return yaml_is(yaml_get(within, key), "Indexed"); /* as JobSet has it by itself */
    return strcmp(key, "replicas") == 0 && m->job->type == KUBE_PYTORCHJOB &&
           yaml_get(m->settings, "numPods") != NULL; /* the Master is one of them */
}

/* The parts of a wrapper: objects, which are compared by themselves. */
static bool is_part(const struct importer *m, const struct yaml_node *within, const char *key)
{
    const struct kube_object *top = kube_top(m->job);

    if (within == m->job->entry)
        return strcmp(key, "template") == 0 || strcmp(key, "generictemplate") == 0;
    if (top->type == KUBE_APPWRAPPER)
        return within == top->spec && strcmp(key, "components") == 0;
    return top->type == KUBE_MCAD && strcmp(key, "GenericItems") == 0;
}

/* What a cluster writes, and what differs on purpose. */
static bool is_left_out(struct comparison *c, const struct yaml_node *within, const char *key)
{
    static const char *const keys[] = {"status",
                                       "creationTimestamp",
                                       "uid",
                                       "resourceVersion",
                                       "generation",
                                       "managedFields",
                                       "kubectl.kubernetes.io/last-applied-configuration",
                                       "selfLink",
                                       NULL};
    bool training = within == c->m->container->node || within == c->m->container->over ||
                    strcmp(kube_text(within, "name"), c->m->container->name) == 0;

    if (text_is_one_of(key, keys) || is_said_otherwise(c->m, within, key) ||
        is_part(c->m, within, key))
        return true;
    return training &&
           (strcmp(key, "command") == 0 || strcmp(key, "args") == 0 || strcmp(key, "ports") == 0);
}

/* A task or replicatedJob that is nothing but the store, which an import leaves behind. */
static bool is_store_part(const struct importer *m, const struct yaml_node *item)
{
    for (size_t i = 0; i < m->job->pods_count; i++) {
        const struct kube_pods *p = m->bundle.pods[m->job->first_pods + i];

        if (p->part == item)
            return import_is_only_store(&m->jobs, p);
    }
    return false;
}

static bool is_left_out_item(struct comparison *c, const struct yaml_node *item)
{
    static const char *const ours[] = {"rdzvd", "rdzvd-relay", "rdzvd-data", "rdzvd-client-tls",
                                       NULL};
    const char *name = kube_text(item, "name");

    return is_store_part(c->m, item) || text_is_one_of(name, ours) ||
           import_is_rendezvous(c->m, name);
}

static void note(struct comparison *c, const struct yaml_node *at, const char *path,
                 const struct yaml_node *new)
{
    if (c->count++ >= NOTES_MAX)
        return;
    if (new == NULL)
        import_note(
            c->m, at,
            "%s: no setting of a user file says this, so emit leaves it out: add it to what "
            "emit prints if you need it",
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

        if (is_left_out(c, old, key) || yaml_is_null(old->pairs[i].value))
            continue;
        if (strcmp(key, "elasticPolicy") == 0) /* emit may do without one */
            compare_mappings(c, old->pairs[i].value, yaml_get(new, key), at, depth);
        else
            compare(c, old->pairs[i].value, yaml_get(new, key), at, depth);
    }
}

/* The item of that name. A task or a replicatedJob has the name that emit gives it, and comes last.
 */
static const struct yaml_node *partner(const struct yaml_node *old, size_t index,
                                       const struct yaml_node *new, const char *path)
{
    const char *name = kube_text(old->items[index], "name");
    const struct yaml_node *found = kube_item(new, "name", name);
    size_t len = strlen(path);

    if (*name == '\0')
        return yaml_at(new, index);
    if (found == NULL && yaml_length(new) > 0 &&
        ((len > 5 && strcmp(path + len - 5, "tasks") == 0) ||
         (len > 14 && strcmp(path + len - 14, "replicatedJobs") == 0)) &&
        kube_item(old, "name", kube_text(new->items[new->count - 1], "name")) == NULL)
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
        const char *name = kube_text(old->items[i], "name");
        const char *at = *name == '\0' ? arena_text(&c->m->arena, "%s[%zu]", path, i)
                                       : arena_text(&c->m->arena, "%s[%s]", path, name);

        if (!is_left_out_item(c, old->items[i]))
            compare(c, old->items[i], partner(old, i, new, path), at, depth + 1);
    }
}

/* --- Objects. --- */

/* What emit makes of this kind and name, in whatever wrapper. */
static const struct kube_object *made_of(const struct comparison *c, const struct kube_object *old)
{
    for (size_t i = 0; i < c->made.bundle.count; i++) {
        const struct kube_object *o = c->made.bundle.objects[i];

        if (o->type == old->type && strcmp(o->kind, old->kind) == 0 &&
            strcmp(o->name, old->name) == 0)
            return o;
    }
    return NULL;
}

/* The job itself; of one that emit makes of another kind, the pods. */
static void compare_job(struct comparison *c)
{
    struct importer *m = c->m;
    const struct kube_object *new = made_of(c, m->job);
    const struct kube_pods *pods = c->made.run == NULL ? NULL : c->made.run->container->pods;

    if (new != NULL) {
        compare(c, m->job->node, new->node, "", 0);
        return;
    }
    c->count++;
    import_note(m, m->job->node,
                "emit makes another kind of object of this %s: compare the two, apart from their "
                "pods",
                m->job->kind);
    if (pods != NULL && m->pods->meta != NULL)
        compare(c, m->pods->meta, pods->meta, "template.metadata", 0);
    if (pods != NULL)
        compare(c, m->pods->spec, pods->spec, "template.spec", 0);
}

/* The AppWrapper around the job, without its parts. */
static void compare_wrapper(struct comparison *c)
{
    const struct kube_object *top = kube_top(c->m->job), *new = made_of(c, top),
                             *job = made_of(c, c->m->job);

    if (top == c->m->job)
        return;
    if (new == NULL) {
        c->count++;
        import_note(c->m, top->node, "emit makes no %s around this job: see what of it you need",
                    top->kind);
        return;
    }
    compare(c, top->node, new->node, "", 0);
    if (job != NULL && job->entry != NULL)
        compare(c, c->m->job->entry, job->entry, "", 0);
}

/* Objects that emit does not write: who imports a job keeps their manifests. */
static void note_others(struct comparison *c)
{
    struct importer *m = c->m;
    const char *list = "";

    for (size_t i = 0; i < m->bundle.count; i++) {
        const struct kube_object *o = m->bundle.objects[i];

        if (o == m->job || o == kube_top(m->job) || made_of(c, o) != NULL)
            continue;
        if (kube_top(o) == o || kube_top(o) == kube_top(m->job))
            list = arena_text(&m->arena, "%s%s%s %s", list, *list == '\0' ? "" : ", ", o->kind,
                              o->name);
    }
    if (*list != '\0')
        diag_note(m->diag, NULL, (struct yaml_mark){0},
                  "the user file has nothing of these objects, so keep their manifests if you need "
                  "them: %s",
                  list);
}

size_t import_compare(struct importer *m, const struct yaml_node *documents)
{
    struct comparison c = {.m = m};

    import_made_read(&c.made, m, documents);
    compare_job(&c);
    compare_wrapper(&c);
    for (size_t i = 0; i < m->bundle.count; i++) {
        const struct kube_object *o = m->bundle.objects[i], *new = made_of(&c, o);
        bool part = kube_top(o) == kube_top(m->job) && o != kube_top(o) && o != m->job;

        if (new != NULL && (part || o->type == KUBE_RUNTIME))
            compare(&c, o->node, new->node, "", 0);
    }
    if (c.count > NOTES_MAX)
        import_note(m, m->job->node,
                    "emit does not give back %zu more fields: see `rdzv-manifest emit --diff`",
                    c.count - NOTES_MAX);
    c.count += import_compare_numbers(m, &c.made);
    note_others(&c);
    import_made_free(&c.made);
    return c.count;
}
