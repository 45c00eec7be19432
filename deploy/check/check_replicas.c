/* Rules about replicas: several rdzvd whose state is in an etcd cluster (--journal). */
#include "deploy/check/check.h"

#include "deploy/check/check_selected.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* Where each of thousands of policies or Services selects each of thousands of stores, no manifest
 * of anybody is at hand: a rule that has compared so many gives up, and says nothing. */
#define LOOKS_MAX 100000u

static const struct kube_object *object_of(const struct job_store *s)
{
    return s->container->pods->object;
}

/* In "HOST:PORT,HOST:PORT/NAME", NAME may have the namespace of the pod, which the manifest leaves
 * open: it is the same one for all objects that name none. */
static bool is_known(const struct job_value *value, const char *journal)
{
    return value->known ||
           (value->lacks_namespace && memchr(journal, '$', strcspn(journal, "/")) == NULL);
}

/* The journal of an rdzvd, if it is in etcd and known: "HOST:PORT,HOST:PORT/NAME". */
static const char *journal_of(struct check *c, const struct job_store *s, struct job_setting *out)
{
    static const char scheme[] = "etcd://";
    const char *journal;

    if (s->kind != JOB_STORE_RDZVD ||
        !job_store_option(&c->jobs, s->container, "journal", NULL, out) ||
        strncmp(out->value.text, scheme, strlen(scheme)) != 0)
        return NULL;
    journal = out->value.text + strlen(scheme);
    return is_known(&out->value, journal) ? journal : NULL;
}

/* One of several with the same journal, in this object alone. */
static bool is_replicated(struct check *c, const struct job_store *s)
{
    struct job_setting journal;

    return s->container->pods->replicas > 1 && journal_of(c, s, &journal) != NULL;
}

/* An address of the journal. False: there are no more. */
static bool next_endpoint(struct check *c, const char **at, const char **host, long *port)
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

void check_journal_files(struct check *c)
{
    static const char *const of_files[] = {"data-dir", "sync"};

    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        struct job_setting found;

        if (journal_of(c, s, &found) == NULL)
            continue;
        for (size_t k = 0; k < sizeof of_files / sizeof *of_files; k++) {
            if (job_store_option(&c->jobs, s->container, of_files[k], NULL, &found))
                check_report(c, object_of(s), check_at_option(s->container, &found),
                             "%s has --journal, and --%s is of files", s->container->name,
                             of_files[k]);
        }
    }
}

/* --- Probes. --- */

/* It is /readyz, and does not leave the leader out. */
static bool is_of_leader(const char *path)
{
    return strncmp(path, "/readyz", 7) == 0 && strstr(path, "exclude=leader") == NULL;
}

/* The path, or the argument of an exec probe. */
static bool asks_for_leader(const struct yaml_node *probe)
{
    const struct yaml_node *words = kube_get(probe, "exec.command");
    bool asks = is_of_leader(kube_text(probe, "httpGet.path"));

    for (size_t i = 0; i < yaml_length(words); i++) {
        const char *word = yaml_text(words->items[i]);

        asks = asks || (word != NULL && strncmp(word, "--check-health=", 15) == 0 &&
                        is_of_leader(word + strcspn(word, "/")));
    }
    return asks;
}

static void look_at_readiness(struct check *c, const struct job_store *s,
                              const struct yaml_node *probe)
{
    const struct kube_object *o = object_of(s);

    if (o->type == KUBE_STATEFULSET &&
        strcmp(kube_text(o->spec, "podManagementPolicy"), "Parallel") != 0)
        check_report(c, o, check_at_first(probe, "httpGet.path exec"),
                     "only the replica that leads is ready, so the StatefulSet never makes the "
                     "third one");
    else if (strcmp(o->kind, "Deployment") == 0 &&
             strcmp(kube_text(o->spec, "strategy.type"), "Recreate") != 0)
        check_report(c, o, check_at_first(probe, "httpGet.path exec"),
                     "only the replica that leads is ready, so a rolling update waits for the "
                     "others without end");
}

/* A replica that does not lead is ready, too. */
static bool passes_on(struct check *c, const struct job_store *s)
{
    struct job_setting upstream;

    return job_store_option(&c->jobs, s->container, "upstream", NULL, &upstream);
}

void check_replicas_probe(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        const struct yaml_node *startup = kube_get(s->container->node, "startupProbe"),
                               *live = kube_get(s->container->node, "livenessProbe"),
                               *ready = kube_get(s->container->node, "readinessProbe");

        if (!is_replicated(c, s))
            continue;
        if (passes_on(c, s)) {
            if (asks_for_leader(live))
                check_report(c, object_of(s), check_at_first(live, "httpGet.path exec"),
                             "a replica that has no link to the leader fails it, and is restarted "
                             "under the clients that it holds");
            continue;
        }
        if (asks_for_leader(startup))
            check_report(c, object_of(s), check_at_first(startup, "httpGet.path exec"),
                         "a replica that stands by never passes it, and is restarted again and "
                         "again");
        if (asks_for_leader(live))
            check_report(c, object_of(s), check_at_first(live, "httpGet.path exec"),
                         "a replica that stands by never passes it, and is restarted again and "
                         "again");
        if (asks_for_leader(ready))
            look_at_readiness(c, s, ready);
    }
}

/* --- Where they run. --- */

static bool keeps_apart(const struct kube_pods *p, const struct yaml_node *terms, const char *term)
{
    for (size_t i = 0; i < yaml_length(terms); i++) {
        const struct yaml_node *t =
            *term == '\0' ? terms->items[i] : kube_get(terms->items[i], term);

        if (*kube_text(t, "topologyKey") != '\0' &&
            kube_selects_by(kube_get(t, "labelSelector"), p))
            return true;
    }
    return false;
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

void check_replicas_one_node(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];

        if (is_replicated(c, s) && !is_spread(s->container->pods))
            check_report(c, object_of(s), check_at_key(s->container->pods->part, "template"),
                         "nothing keeps the %ld replicas on different nodes",
                         s->container->pods->replicas);
    }
}

/* By index of pods: a budget selects them. */
static bool *find_budgets(struct check *c)
{
    bool *found = arena_alloc(&c->bundle.arena, (c->bundle.pod_count + 1) * sizeof *found);

    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        struct check_selected *pods;

        if (strcmp(o->kind, "PodDisruptionBudget") != 0)
            continue;
        pods = check_selected(c, o, kube_get(o->spec, "selector"));
        for (size_t k = 0; k < pods->count && !pods->has_budget; k++)
            found[pods->list[k]->index] = true;
        pods->has_budget = true;
    }
    return found;
}

void check_replicas_no_budget(struct check *c)
{
    const bool *budgets = NULL;

    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];

        if (!is_replicated(c, s))
            continue;
        if (budgets == NULL)
            budgets = find_budgets(c);
        if (!budgets[s->container->pods->index])
            check_report(c, object_of(s), check_at_first(object_of(s)->node, "kind"),
                         "no PodDisruptionBudget selects the replicas: drains may take all of them "
                         "at once");
    }
}

/* --- The way to etcd. --- */

static bool is_for_egress(const struct kube_object *policy)
{
    const struct yaml_node *types = kube_get(policy->spec, "policyTypes");
    bool egress = yaml_length(types) == 0 && kube_get(policy->spec, "egress") != NULL;

    for (size_t i = 0; i < yaml_length(types); i++)
        egress = egress || yaml_is(types->items[i], "Egress");
    return policy->type == KUBE_NETWORK_POLICY && egress;
}

static bool has_egress_port(const struct yaml_node *rule, long port)
{
    const struct yaml_node *ports = kube_get(rule, "ports");

    for (size_t i = 0; i < yaml_length(ports); i++) {
        const struct yaml_node *p = ports->items[i];
        const char *protocol = kube_text(p, "protocol"), *text = kube_text(p, "port");
        long first = kube_int(p, "port", -1);

        if (*protocol != '\0' && strcmp(protocol, "TCP") != 0)
            continue;
        /* A name is one of the pods there. */
        if (*text == '\0' || first < 0 || (port >= first && port <= kube_int(p, "endPort", first)))
            return true;
    }
    return yaml_length(ports) == 0;
}

/* Whether an IPv4 address lies in a network; true if one of them is no IPv4. */
static bool is_within(const char *host, const char *cidr)
{
    char network[64] = "";
    const char *slash = strchr(cidr, '/');
    size_t len = slash == NULL ? strlen(cidr) : (size_t)(slash - cidr);
    long bits = slash == NULL ? 32 : strtol(slash + 1, NULL, 10);
    struct in_addr a, n;
    uint32_t mask;

    if (len >= sizeof network || bits < 0 || bits > 32)
        return true;
    memcpy(network, cidr, len);
    if (inet_pton(AF_INET, host, &a) != 1 || inet_pton(AF_INET, network, &n) != 1)
        return true;
    mask = bits == 0 ? 0 : ~(uint32_t)0 << (32 - bits);
    return ((ntohl(a.s_addr) ^ ntohl(n.s_addr)) & mask) == 0;
}

static bool is_address(const char *host)
{
    struct in_addr a;

    return *host == '[' || inet_pton(AF_INET, host, &a) == 1;
}

/* The namespace of a name, NAME.NAMESPACE[.svc...] or POD.NAME.NAMESPACE.svc..., or of the pod that
 * asks; "": it cannot be seen. */
static const char *namespace_of(struct check *c, const struct kube_object *from, const char *host)
{
    const char *svc = strstr(host, ".svc"), *start;
    struct kube_target target;

    if (kube_find_host(&c->bundle, from, host, &target))
        return (target.service != NULL ? target.service : target.pods->object)->namespace;
    if (svc == NULL || svc == host || (svc[4] != '\0' && svc[4] != '.'))
        return strchr(host, '.') == NULL ? from->namespace : "";
    for (start = svc; start > host && start[-1] != '.'; start--)
        ;
    return start == host ? "" : arena_copy(&c->bundle.arena, start, (size_t)(svc - start));
}

static bool admits_peer(struct check *c, const struct kube_object *policy,
                        const struct yaml_node *peer, const char *host)
{
    const char *wanted =
        kube_text(peer, "namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name");
    const char *is = namespace_of(c, policy, host);

    if (kube_get(peer, "ipBlock") != NULL)
        return !is_address(host) || is_within(host, kube_text(peer, "ipBlock.cidr"));
    if (is_address(host))
        return false; /* of a pod: no user writes that here */
    if (yaml_get_pair(peer, "namespaceSelector") == NULL)
        wanted = policy->namespace;
    return *wanted == '\0' || *is == '\0' || strcmp(wanted, is) == 0;
}

static bool lets_out(struct check *c, const struct kube_object *policy, const char *host, long port)
{
    const struct yaml_node *egress = kube_get(policy->spec, "egress");

    for (size_t i = 0; i < yaml_length(egress); i++) {
        const struct yaml_node *rule = egress->items[i], *peers = kube_get(rule, "to");
        bool admitted = yaml_length(peers) == 0;

        for (size_t k = 0; k < yaml_length(peers); k++)
            admitted = admitted || admits_peer(c, policy, peers->items[k], host);
        if (admitted && has_egress_port(rule, port))
            return true;
    }
    return false;
}

/* What policies of outgoing traffic say of a store. */
struct way_out {
    const struct kube_object *closed; /* the last one that does not let it to `host` */
    const char *host;
    long port;
    bool open; /* one lets it to all of etcd's endpoints */
};

static void look_at_way(struct check *c, const struct job_store *s,
                        const struct kube_object *policy, struct way_out *way)
{
    struct job_setting journal;
    const char *at = journal_of(c, s, &journal), *host;
    long port;

    while (at != NULL && !way->open) {
        if (!next_endpoint(c, &at, &host, &port)) {
            way->open = true;
        } else if (!lets_out(c, policy, host, port)) {
            *way = (struct way_out){policy, host, port, false};
            return;
        }
    }
}

/* False: there are too many of them. */
static bool look_at_egress(struct check *c, const struct kube_object *policy, struct way_out *ways,
                           size_t *looks)
{
    struct check_selected *pods = check_selected(c, policy, kube_get(policy->spec, "podSelector"));

    for (size_t i = 0; i < pods->count; i++) {
        const struct job_store *s = job_store_in(&c->jobs, pods->list[i]);

        if (++*looks > LOOKS_MAX)
            return false;
        if (s != NULL && !pods->list[i]->host_network)
            look_at_way(c, s, policy, &ways[s - c->jobs.stores]);
    }
    return true;
}

void check_journal_blocked(struct check *c)
{
    struct way_out *ways = arena_alloc(&c->bundle.arena, (c->jobs.store_count + 1) * sizeof *ways);
    size_t looks = 0;

    for (size_t i = 0; i < c->bundle.count && c->jobs.store_count > 0; i++) {
        if (is_for_egress(c->bundle.objects[i]) &&
            !look_at_egress(c, c->bundle.objects[i], ways, &looks))
            return;
    }
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct way_out *w = &ways[i];

        if (w->closed != NULL && !w->open)
            check_report(c, w->closed, check_at_key(w->closed->spec, "egress"),
                         "the replicas of %s keep their state at %s:%ld, and this policy does not "
                         "let them there",
                         check_title(c, object_of(&c->jobs.stores[i])), w->host, w->port);
    }
}

/* --- Whose journal it is. --- */

/* By index of pods: a number that those have in common to which one Service leads, so that whoever
 * comes finds the one that leads; 0: none does. NULL: there are too many. */
static size_t *find_groups(struct check *c)
{
    size_t *groups = arena_alloc(&c->bundle.arena, (c->bundle.pod_count + 1) * sizeof *groups);
    size_t looks = 0;

    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const struct kube_pods *p = NULL;
        size_t group = i + 1;

        while (o->type == KUBE_SERVICE && (p = kube_next_selected(&c->bundle, o, p)) != NULL) {
            if (++looks > LOOKS_MAX)
                return NULL;
            if (groups[p->index] == 0)
                groups[p->index] = group;
            else
                group = groups[p->index];
        }
    }
    return groups;
}

/* A name without a namespace is another one elsewhere. */
static const char *where(struct check *c, const struct job_store *s, const char *host, long port)
{
    bool whole = is_address(host) || strchr(host, '.') != NULL;

    return arena_text(&c->bundle.arena, "%s:%ld %s", host, port,
                      whole ? "" : object_of(s)->namespace);
}

/* The first store with the name of this journal at one of its endpoints; itself, if there is none
 * before. */
static const struct job_store *first_with(struct check *c, struct kube_index *seen, size_t number)
{
    const struct job_store *s = &c->jobs.stores[number], *first = s;
    struct job_setting journal;
    const char *at = journal_of(c, s, &journal), *host;
    const char *name = at + strcspn(at, "/");
    long port;

    while (next_endpoint(c, &at, &host, &port)) {
        const char *key = where(c, s, host, port);
        struct kube_hits hits = kube_index_find(seen, name, key, strlen(key));

        if (hits.count > 0 && first == s)
            first = &c->jobs.stores[hits.list[0]];
        else if (hits.count == 0)
            kube_index_add(&c->bundle.arena, seen, name, key, number);
    }
    return first;
}

void check_journal_shared(struct check *c)
{
    struct kube_index seen = {0};
    const size_t *groups = NULL;

    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i], *first;
        struct job_setting journal;

        if (journal_of(c, s, &journal) == NULL)
            continue;
        first = first_with(c, &seen, i);
        if (object_of(first) == object_of(s))
            continue;
        if (groups == NULL)
            groups = find_groups(c);
        if (groups == NULL)
            return;
        if (groups[s->container->pods->index] == 0 ||
            groups[first->container->pods->index] != groups[s->container->pods->index])
            check_report(c, object_of(s), check_at_option(s->container, &journal),
                         "%s has the same journal, so one of the two leads for both; but no "
                         "Service leads to both",
                         check_title(c, object_of(first)));
    }
}
