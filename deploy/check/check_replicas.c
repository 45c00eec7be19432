/* Rules about replicas: several rdzvd whose state is in an etcd cluster (--journal). */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>

/* A bound against hostile manifests, where thousands of Services each select thousands of stores: a
 * rule that exceeds this number of comparisons reports nothing. */
#define LOOKS_MAX 100000u

const char *check_journal_of(struct check *c, const struct job_store *s, struct job_setting *out)
{
    static const char scheme[] = "etcd://";
    const char *journal;

    journal = s->kind == JOB_STORE_RDZVD ? check_option(c, s, "journal", out) : NULL;
    if (journal == NULL || strncmp(journal, scheme, strlen(scheme)) != 0)
        return NULL;
    journal += strlen(scheme);
    /* In "HOST:PORT,HOST:PORT/NAME", NAME may have the namespace of the pod, which the manifest
     * leaves open: all objects without a namespace go to the same namespace. */
    return out->value.known || (out->value.lacks_namespace &&
                                memchr(journal, '$', strcspn(journal, "/")) == NULL)
               ? journal
               : NULL;
}

/* This object makes several stores with the same journal. */
static bool is_replicated(struct check *c, const struct job_store *s)
{
    struct job_setting journal;

    return s->container->pods->replicas > 1 && check_journal_of(c, s, &journal) != NULL;
}

bool check_next_endpoint(struct check *c, const char **at, const char **host, long *port)
{
    size_t len = strcspn(*at, ",/");
    const char *text = arena_copy(&c->bundle.arena, *at, len), *colon = strrchr(text, ':');

    if (len == 0 || colon == NULL)
        return false;
    *host = arena_copy(&c->bundle.arena, text, (size_t)(colon - text));
    *port = strtol(colon + 1, NULL, 10);
    *at += len + ((*at)[len] == ',');
    return true;
}

/* --- Settings. --- */

void check_journal_files(struct check *c, const struct job_store *s)
{
    struct job_setting found;

    if (check_journal_of(c, s, &found) == NULL)
        return;
    FOREACH_WORD(name, "data-dir", "sync") {
        if (check_option(c, s, name, &found) != NULL)
            check_report(c, check_at_option(s, &found), "%s has --journal, and --%s is of files",
                         s->container->name, name);
    }
}

/* --- Probes. --- */

/* Whether a probe of this path succeeds only at the leader: /readyz without exclude=leader. */
static bool is_of_leader(const char *path)
{
    return strncmp(path, "/readyz", 7) == 0 && strstr(path, "exclude=leader") == NULL;
}

/* The path, or the argument of an exec probe. */
static bool asks_for_leader(const struct yaml_node *probe)
{
    return is_of_leader(kube_text(probe, "httpGet.path")) ||
           ANY(YAML_FOREACH(word, kube_get(probe, "exec.command")),
               strncmp(kube_text(word, ""), "--check-health=", 15) == 0 &&
                   is_of_leader(word->text + strcspn(word->text, "/")));
}

void check_replicas_probe(struct check *c, const struct check_probe *probe)
{
    const struct job_store *s = probe->store;
    const struct kube_object *o = job_store_object(s);
    struct check_position at = check_at_first(probe->node, "httpGet.path", "exec");
    bool ready = strcmp(probe->name, "readinessProbe") == 0;
    /* With --upstream, a replica that does not lead is ready as well. */
    bool passes_on = check_option(c, s, "upstream", NULL) != NULL;

    if (!is_replicated(c, s) || !asks_for_leader(probe->node))
        return;
    if (passes_on) {
        if (strcmp(probe->name, "livenessProbe") == 0)
            check_report(c, at,
                         "a replica that has no link to the leader fails it, and is restarted "
                         "under the clients that it holds");
    } else if (!ready) {
        check_report(
            c, at, "standby replicas always fail it, and Kubernetes restarts them again and again");
    } else if (o->type == KUBE_STATEFULSET &&
               !kube_is(o->spec, "podManagementPolicy", "Parallel")) {
        check_report(
            c, at,
            "only the replica that leads is ready, so the StatefulSet never makes the third one");
    } else if (strcmp(o->kind, "Deployment") == 0 &&
               !kube_is(o->spec, "strategy.type", "Recreate")) {
        check_report(c, at,
                     "only the replica that leads is ready, so a rolling update waits for the "
                     "others without end");
    }
}

/* --- Where they run. --- */

static bool keeps_apart(const struct kube_pods *p, const struct yaml_node *terms, const char *term)
{
    return ANY(YAML_FOREACH(item, terms),
               *kube_text(kube_get(item, term), "topologyKey") != '\0' &&
                   kube_selects_by(kube_get(kube_get(item, term), "labelSelector"), p));
}

static bool is_spread(const struct kube_pods *p)
{
    static const char anti[] = "affinity.podAntiAffinity";
    const struct yaml_node *rules = kube_get(p->spec, anti);

    return keeps_apart(p, kube_get(rules, "requiredDuringSchedulingIgnoredDuringExecution"), "") ||
           keeps_apart(p, kube_get(rules, "preferredDuringSchedulingIgnoredDuringExecution"),
                       "podAffinityTerm") ||
           keeps_apart(p, kube_get(p->spec, "topologySpreadConstraints"), "");
}

void check_replicas_one_node(struct check *c, const struct job_store *s)
{
    if (is_replicated(c, s) && !is_spread(s->container->pods))
        check_report(c, check_at_key(s->container->pods->part, "template"),
                     "nothing keeps the %ld replicas on different nodes",
                     s->container->pods->replicas);
}

/* Marks the pods that a budget selects. */
void check_find_budgets(struct check *c, const struct kube_object *o)
{
    struct check_selected *pods;

    if (strcmp(o->kind, "PodDisruptionBudget") != 0)
        return;
    pods = check_selected(c, o, kube_get(o->spec, "selector"));
    for (size_t k = 0; k < pods->count && !pods->has_budget; k++)
        c->marks[pods->list[k]->index] = true;
    pods->has_budget = true;
}

void check_replicas_no_budget(struct check *c, const struct job_store *s)
{
    if (is_replicated(c, s) && !c->marks[s->container->pods->index])
        check_report(
            c, check_at_first(job_store_object(s)->node, "kind"),
            "no PodDisruptionBudget selects the replicas: drains may take all of them at once");
}

/* --- Whose journal it is. --- */

/* By index of pods: a number that all pods behind one Service have in common, since its clients
 * find the pod that leads among them; 0: no Service leads there. Beyond LOOKS_MAX comparisons, all
 * pods get the same number. */
static size_t *find_groups(struct check *c)
{
    size_t *groups = arena_alloc(&c->bundle.arena, (c->bundle.pod_count + 1) * sizeof *groups);
    size_t looks = 0;

    for (size_t i = 0; i < c->bundle.count && looks <= LOOKS_MAX; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        struct kube_selection pods = kube_select(&c->bundle, NULL, o);
        const struct kube_pods *p;
        size_t group = i + 1;

        while (o->type == KUBE_SERVICE && looks++ <= LOOKS_MAX &&
               (p = kube_select_next(&pods)) != NULL) {
            if (groups[p->index] == 0)
                groups[p->index] = group;
            else
                group = groups[p->index];
        }
    }
    for (size_t i = 0; i < c->bundle.pod_count && looks > LOOKS_MAX; i++)
        groups[i] = 1;
    return groups;
}

/* The first store with the name of this journal at one of its endpoints; itself, if there is none
 * before. */
static const struct job_store *first_with(struct check *c, const struct job_store *s)
{
    const struct job_store *first = s;
    struct job_setting journal;
    const char *at = check_journal_of(c, s, &journal), *host;
    const char *name = at + strcspn(at, "/");
    long port;

    while (check_next_endpoint(c, &at, &host, &port)) {
        bool whole = *host == '[' || strchr(host, '.') != NULL; /* else another one elsewhere */
        const char *key = arena_text(&c->bundle.arena, "%s:%ld %s", host, port,
                                     whole ? "" : job_store_object(s)->namespace);
        struct kube_hits hits = kube_index_find(&c->index, name, key);

        if (hits.count > 0 && first == s)
            first = &c->jobs.stores[hits.list[0]];
        else if (hits.count == 0)
            kube_index_add(&c->bundle.arena, &c->index, name, key, (size_t)(s - c->jobs.stores));
    }
    return first;
}

void check_journal_shared(struct check *c, const struct job_store *s)
{
    struct job_setting journal;
    const struct job_store *first = check_journal_of(c, s, &journal) == NULL ? s : first_with(c, s);
    size_t group = s->container->pods->index, other = first->container->pods->index;

    if (job_store_object(first) == job_store_object(s))
        return;
    if (c->groups == NULL)
        c->groups = find_groups(c);
    if (c->groups[group] == 0 || c->groups[other] != c->groups[group])
        check_report(c, check_at_option(s, &journal),
                     "%s has the same journal, so one of the two leads for both; but no Service "
                     "leads to both",
                     job_store_object(first)->title);
}
