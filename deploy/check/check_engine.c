/* Runs the rules on the files of a bundle. Findings are sorted by file and position. */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>

const struct check_rule *check_rule_named(const char *id)
{
    return FIND(r, FOREACH(const struct check_rule, r, check_rules, check_rule_count),
                strcmp(r->id, id) == 0);
}

const char *check_rule_near(const char *id)
{
    struct nearest n = nearest_to(id);

    for (size_t i = 0; i < check_rule_count; i++)
        nearest_try(&n, check_rules[i].id);
    return n.found;
}

/* --- What the rules are about. --- */

static void run_on_policies(struct check *c, check_per_policy *call, const struct yaml_node *of)
{
    YAML_FOREACH(item, kube_get(of, "policies"))
        call(c, item);
}

static void run_on_object(struct check *c, const struct check_calls *calls,
                          const struct kube_object *o)
{
    const struct yaml_node *tasks;

    c->object = o;
    if (calls->object != NULL)
        calls->object(c, o);
    if (calls->policy == NULL || o->type != KUBE_VOLCANO_JOB)
        return;
    run_on_policies(c, calls->policy, o->spec);
    tasks = kube_get(o->spec, "tasks");
    YAML_FOREACH(task, tasks)
        run_on_policies(c, calls->policy, task);
}

static void run_on_pods(struct check *c, const struct check_calls *calls, const struct kube_pods *p)
{
    c->object = p->object;
    if (calls->pods != NULL)
        calls->pods(c, p);
    for (size_t i = 0; i < p->count && calls->container != NULL; i++) {
        if (!p->containers[i].injected || calls->container == check_sidecar_too_old)
            calls->container(c, &p->containers[i]);
    }
}

static void run_on_probes(struct check *c, check_per_probe *call, const struct job_store *s)
{
    struct check_probe probe = {.store = s, .listeners = job_store_listeners(&c->jobs, s, true)};

    FOREACH_WORD(name, "startupProbe", "readinessProbe", "livenessProbe") {
        probe.name = name;
        probe.node = kube_get(s->container->node, name);
        if (probe.node != NULL)
            call(c, &probe);
    }
}

static void run_on_store(struct check *c, const struct check_calls *calls,
                         const struct job_store *s)
{
    struct job_upstream u;

    if (s->container->injected)
        return; /* no file has it */
    c->object = job_store_object(s);
    if (calls->store != NULL)
        calls->store(c, s);
    for (size_t n = 0; calls->upstream != NULL && job_relay_upstream(&c->jobs, s, n, &u); n++)
        calls->upstream(c, &u);
    if (calls->probe != NULL)
        run_on_probes(c, calls->probe, s);
}

static void run_calls(struct check *c, const struct check_calls *calls)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++)
        run_on_pods(c, calls, c->bundle.pods[i]);
    for (size_t i = 0; i < c->bundle.count; i++)
        run_on_object(c, calls, c->bundle.objects[i]);
    for (size_t i = 0; i < c->jobs.count && calls->run != NULL; i++) {
        c->object = job_run_object(c->jobs.runs[i]);
        c->run_number = i;
        calls->run(c, c->jobs.runs[i]);
    }
    for (size_t i = 0; i < c->jobs.store_count; i++)
        run_on_store(c, calls, &c->jobs.stores[i]);
}

static void run_rule(struct check *c, const struct check_rule *rule)
{
    c->rule = rule;
    c->index = (struct kube_index){0};
    memset(c->marks, false, c->bundle.count + c->bundle.pod_count);
    c->looks = 0;
    c->idle_store = NULL;
    c->idle_certificate = NULL;
    run_calls(c, &rule->before);
    run_calls(c, &rule->calls);
}

static int by_place(const void *a, const void *b)
{
    const struct check_finding *x = a, *y = b;

    if (x->file_index != y->file_index)
        return x->file_index < y->file_index ? -1 : 1;
    if (x->mark.offset != y->mark.offset)
        return x->mark.offset < y->mark.offset ? -1 : 1;
    return (x->rule > y->rule) - (x->rule < y->rule);
}

bool check_bundle(struct check *c, const bool *wanted)
{
    for (size_t i = 0; i < c->file_count; i++)
        kube_add_file(&c->bundle, &c->files[i]);
    if (c->bundle.overflow)
        return false;
    job_find(&c->jobs, &c->bundle);
    check_find_links(c);
    check_find_policies(c);
    /* A rule marks objects or pods, by their index: the sum is enough for both. */
    c->marks = arena_alloc(&c->bundle.arena, c->bundle.count + c->bundle.pod_count);
    for (size_t i = 0; i < check_rule_count; i++) {
        if (wanted == NULL || wanted[i])
            run_rule(c, &check_rules[i]);
    }
    if (c->count > 0)
        qsort(c->findings, c->count, sizeof *c->findings, by_place);
    return true;
}

/* --- Findings that the object itself asks to leave out. --- */

static const char *object_key(struct check *c, const struct kube_object *o)
{
    return arena_text(&c->bundle.arena, "%zu", o->index);
}

/* Adds the names of the annotation to the index, by rule and object; notes where there is no such
 * rule. */
static void read_annotation(struct check *c, const struct kube_object *o,
                            struct kube_index *ignored, struct diag *d)
{
    const struct yaml_node *node =
        yaml_get(kube_get(o->node, "metadata.annotations"), CHECK_IGNORE);
    const char *p = yaml_text(node) == NULL ? "" : node->text;

    for (size_t len; p += strspn(p, ", \t\n"), *p != '\0'; p += len) {
        const char *id, *near;

        len = strcspn(p, ", \t\n");
        id = arena_copy(&c->bundle.arena, p, len);
        near = check_rule_near(id);
        if (check_rule_named(id) == NULL)
            diag_note(d, node->file, node->start, "%s: there is no rule %s%s%s", CHECK_IGNORE, id,
                      near == NULL ? "" : ": did you mean ", near == NULL ? "" : near);
        kube_index_add(&c->bundle.arena, ignored, id, object_key(c, o), 0);
    }
}

size_t check_ignore(struct check *c, struct diag *d)
{
    struct kube_index ignored = {0};
    size_t kept = 0, before = c->count;

    KUBE_FOREACH(o, &c->bundle)
        read_annotation(c, o, &ignored, d);
    FOREACH(const struct check_finding, f, c->findings, c->count) {
        if (!ANY(for (const struct kube_object *o = f->object; o != NULL; o = o->wrapper),
                 kube_index_find(&ignored, f->rule->id, object_key(c, o)).count > 0))
            c->findings[kept++] = *f;
    }
    c->count = kept;
    return before - kept;
}
