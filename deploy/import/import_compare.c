/* Walks the old object beside the one that emit makes, field by field. The rendezvous is left out:
 * it is what an import changes. Numbers are compared as what they come to: emit may write them
 * elsewhere than the manifest did. */
#include "deploy/import/import.h"

#include "deploy/yaml/options.h"

#include <string.h>

#define NOTES_MAX 40

/* The manifest that emit makes of the settings, read back like any manifest. */
struct import_made {
    struct kube_bundle bundle;
    struct job_view jobs;
    const struct job_run *run; /* of the workers; NULL: emit makes no torchrun that is visible */
};

/* --- What emit makes. --- */

/* The documents outlive it. */
static void made_read(struct import_made *made, const struct importer *m,
                      const struct yaml_node *documents)
{
    struct yaml_file file = {.name = "", .count = yaml_length(documents)};

    *made = (struct import_made){0};
    file.docs = arena_alloc(&made->bundle.arena, (file.count + 1) * sizeof *file.docs);
    for (size_t i = 0; i < file.count; i++)
        file.docs[i] = (struct yaml_doc){.root = documents->items[i]};
    kube_add_file(&made->bundle, &file);
    job_find(&made->jobs, &made->bundle);
    for (size_t i = 0; i < made->jobs.count && made->run == NULL; i++) {
        const struct kube_object *o = job_run_object(made->jobs.runs[i]);

        if (o->type != KUBE_RUNTIME && strcmp(o->name, m->job->name) == 0)
            made->run = import_workers_run(&made->jobs, o);
    }
}

/* --- The gang. --- */

/* Whether these pods have a store, and do not train. */
static bool are_only_store(const struct job_view *jobs, const struct kube_pods *p)
{
    return job_server_in(jobs, p) != NULL && job_runs_in(jobs, p).count == 0;
}

/* Puts for how many of the pods that train the scheduler waits, as `job` and `tasks` say, and where
 * that is written. Without a number Volcano waits for all pods of a task, and for all that its
 * tasks want. */
static void put_gang(struct importer *m, const char *name, struct job_view *jobs,
                     const struct kube_object *job)
{
    const struct kube_object *top = kube_top(job);
    const char *path = top->type == KUBE_VOLCANO_JOB ? "minAvailable"
                       : top->type == KUBE_MCAD      ? "schedulingSpec.minAvailable"
                                                     : NULL;
    struct yaml_node *gang = yaml_put_new(&m->arena, m->facts, name, YAML_MAPPING);
    long written = path == NULL ? 0 : kube_int(top->spec, path, 0), stores = 0, tasks = 0;

    if (path == NULL)
        return;
    KUBE_FOREACH_PODS(p, jobs->bundle) {
        long least = kube_int(p->part, "minAvailable", 0);

        if (kube_top(p->object) != top)
            continue;
        if (are_only_store(jobs, p)) {
            stores += p->replicas;
            continue;
        }
        if (yaml_get(gang, "ofTask") == NULL && least > 0)
            import_put(m, gang, "ofTask", kube_get(p->part, "minAvailable"));
        tasks += least > 0 ? least : p->replicas;
    }
    import_put(m, gang, "ofJob", written > 0 ? kube_get(top->spec, path) : NULL);
    import_put_number(m, gang, "job", written > 0 ? written - stores : tasks);
    import_put_number(m, gang, "tasks", tasks);
}

/* Notes each number that emit changes: nodes, processes of a node, restarts, and the pods that a
 * scheduler waits for. Returns how many. */
static size_t compare_numbers(struct importer *m, struct import_made *made)
{
    if (made->run == NULL)
        return 0;
    import_put(m, m->facts, "made", import_run_facts(m, made->run));
    put_gang(m, "gang", &m->jobs, m->job);
    put_gang(m, "madeGang", &made->jobs, job_run_object(made->run));
    return import_note_differences(m);
}

/* --- Field by field. --- */

struct comparison {
    struct importer *m;
    struct import_made made;
    size_t count;
};

/* What a setting says, and emit writes in another place or under another name. */
static bool is_compared_elsewhere(struct importer *m, const struct yaml_node *within,
                                  const char *key)
{
    /* The numbers, for compare_numbers(), and a label of the object that Kueue admits. */
    if (text_is(key, "nprocPerNode", "minAvailable", "kueue.x-k8s.io/queue-name"))
        return true;
    if (within == kube_get(m->job->spec, "elasticPolicy"))
        return strncmp(key, "rdzv", 4) == 0 || text_is(key, "nProcPerNode", "minReplicas",
                                                       "maxReplicas", "maxRestarts", "standalone");
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
        return text_is(key, "template", "generictemplate");
    if (top->type == KUBE_APPWRAPPER)
        return within == top->spec && strcmp(key, "components") == 0;
    return top->type == KUBE_MCAD && strcmp(key, "GenericItems") == 0;
}

/* What a cluster writes, and what differs on purpose. */
static bool is_left_out(struct comparison *c, const struct yaml_node *within, const char *key)
{
    bool training = within == c->m->container->node || within == c->m->container->over ||
                    kube_is(within, "name", c->m->container->name);

    if (text_is(key, "status", "creationTimestamp", "uid", "resourceVersion", "generation",
                "managedFields", "kubectl.kubernetes.io/last-applied-configuration", "selfLink",
                "controller-uid", "batch.kubernetes.io/controller-uid", "job-name",
                "batch.kubernetes.io/job-name") ||
        (within == c->m->job->spec && strcmp(key, "selector") == 0) ||
        is_compared_elsewhere(c->m, within, key) || is_part(c->m, within, key))
        return true;
    return training && text_is(key, "command", "args", "ports");
}

/* An import leaves behind a task or replicatedJob that is nothing but the store. */
static bool is_left_out_item(struct comparison *c, const struct yaml_node *item)
{
    const char *name = kube_text(item, "name");
    const struct kube_pods *made =
        FIND(p, KUBE_FOREACH_PODS_OF(p, &c->m->bundle, c->m->job), p->part == item);

    return (made != NULL && are_only_store(&c->m->jobs, made)) ||
           text_is(name, "rdzvd", "rdzvd-relay", "rdzvd-data", "rdzvd-client-tls") ||
           import_is_rendezvous(c->m, name);
}

static void note_difference(struct comparison *c, const struct yaml_node *at, const char *path,
                            const struct yaml_node *new)
{
    if (c->count++ >= NOTES_MAX)
        return;
    if (new == NULL)
        import_note(c->m, at,
                    "%s: no setting of a user file says this, so emit leaves it out: add it to "
                    "what emit prints if you need it",
                    path);
    else
        import_note(c->m, at,
                    "%s: this is %s, and no setting of a user file says so: emit writes %s", path,
                    at->text, new->text);
}

static void compare_values(struct comparison *c, const struct yaml_node *old,
                           const struct yaml_node *new, const char *path);

static void compare_mappings(struct comparison *c, const struct yaml_node *old,
                             const struct yaml_node *new, const char *path)
{
    for (size_t i = 0; i < old->count; i++) {
        const char *key = old->pairs[i].key->text;
        const char *at = arena_joined(&c->m->arena, path, ".", key);

        if (is_left_out(c, old, key) || yaml_is_null(old->pairs[i].value))
            continue;
        if (strcmp(key, "elasticPolicy") == 0) /* emit may do without one */
            compare_mappings(c, old->pairs[i].value, yaml_get(new, key), at);
        else
            compare_values(c, old->pairs[i].value, yaml_get(new, key), at);
    }
}

/* The item of that name. A task or replicatedJob has the name that emit gives it, and comes last.
 */
static const struct yaml_node *partner(const struct yaml_node *old, size_t index,
                                       const struct yaml_node *new, const char *path)
{
    const char *name = kube_text(old->items[index], "name");
    const struct yaml_node *found = kube_item(new, "name", name);

    if (*name == '\0')
        return yaml_at(new, index);
    if (found == NULL && yaml_length(new) > 0 &&
        (text_ends_with(path, "tasks") || text_ends_with(path, "replicatedJobs")) &&
        kube_item(old, "name", kube_text(new->items[new->count - 1], "name")) == NULL)
        return new->items[new->count - 1];
    return found;
}

static void compare_values(struct comparison *c, const struct yaml_node *old,
                           const struct yaml_node *new, const char *path)
{
    if (new == NULL || new->kind != old->kind) {
        if (old->kind == YAML_SCALAR || old->count > 0)
            note_difference(c, old, path, NULL);
        return;
    }
    if (old->kind == YAML_SCALAR) {
        if (strcmp(old->text, new->text) != 0)
            note_difference(c, old, path, new);
        return;
    }
    if (old->kind == YAML_MAPPING) {
        compare_mappings(c, old, new, path);
        return;
    }
    for (size_t i = 0; i < old->count; i++) {
        const char *name = kube_text(old->items[i], "name");
        const char *at = *name == '\0' ? arena_text(&c->m->arena, "%s[%zu]", path, i)
                                       : arena_text(&c->m->arena, "%s[%s]", path, name);

        if (!is_left_out_item(c, old->items[i]))
            compare_values(c, old->items[i], partner(old, i, new, path), at);
    }
}

/* --- Objects. --- */

/* The object of the same kind and name in the output of emit, inside any wrapper. */
static const struct kube_object *made_of(const struct comparison *c, const struct kube_object *old)
{
    return FIND(o, KUBE_FOREACH(o, &c->made.bundle),
                o->type == old->type && strcmp(o->kind, old->kind) == 0 &&
                    strcmp(o->name, old->name) == 0);
}

/* The job itself; of one that emit makes of another kind, the pods. */
static void compare_job(struct comparison *c)
{
    struct importer *m = c->m;
    const struct kube_object *new = made_of(c, m->job);
    const struct kube_pods *pods = c->made.run == NULL ? NULL : c->made.run->container->pods;

    if (new != NULL) {
        compare_values(c, m->job->node, new->node, "");
        return;
    }
    c->count++;
    import_note(
        m, m->job->node,
        "emit makes another kind of object of this %s: compare the two, apart from their pods",
        m->job->kind);
    if (pods != NULL && m->pods->meta != NULL)
        compare_values(c, m->pods->meta, pods->meta, "template.metadata");
    if (pods != NULL)
        compare_values(c, m->pods->spec, pods->spec, "template.spec");
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
    compare_values(c, top->node, new->node, "");
    if (job != NULL && job->entry != NULL)
        compare_values(c, c->m->job->entry, job->entry, "");
}

/* Objects that emit does not write: who imports a job keeps their manifests. */
static void note_others(struct comparison *c)
{
    struct importer *m = c->m;
    const char *list = "";

    KUBE_FOREACH(o, &m->bundle) {
        if (o == m->job || o == kube_top(m->job) || made_of(c, o) != NULL)
            continue;
        if (kube_top(o) == o || kube_top(o) == kube_top(m->job))
            list = arena_joined(&m->arena, list, ", ", o->title);
    }
    if (*list != '\0')
        options_note(
            m->diag,
            "the user file has nothing of these objects, so keep their manifests if you need "
            "them: %s",
            list);
}

size_t import_compare(struct importer *m, const struct yaml_node *documents)
{
    struct comparison c = {.m = m};

    made_read(&c.made, m, documents);
    compare_job(&c);
    compare_wrapper(&c);
    KUBE_FOREACH(o, &m->bundle) {
        const struct kube_object *new = made_of(&c, o);
        bool part = kube_top(o) == kube_top(m->job) && o != kube_top(o) && o != m->job;

        if (new != NULL && (part || o->type == KUBE_RUNTIME))
            compare_values(&c, o->node, new->node, "");
    }
    if (c.count > NOTES_MAX)
        import_note(m, m->job->node,
                    "emit does not give back %zu more fields: see `rdzv-manifest emit --diff`",
                    c.count - NOTES_MAX);
    c.count += compare_numbers(m, &c.made);
    note_others(&c);
    kube_free(&c.made.bundle);
    return c.count;
}
