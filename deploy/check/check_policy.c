/* NetworkPolicies, and the rules about those between agents, their store, and its etcd. A pod that
 * no policy selects is open; of the policies that select it, one that admits the traffic is enough.
 * The rules speak only of what is certain: what it cannot see, such as the addresses of an ipBlock,
 * admits the pods. */
#include "deploy/check/check.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* Policies of many pods would take the square of the file; beyond this the rules are silent. */
#define LOOKS_MAX 4000000

/* Pods that dial a store: agents, or their relay; or replicas that dial etcd. */
struct way {
    const struct kube_pods *from, *to; /* to NULL: not in these files, or a journal */
    long port;                         /* of the pods there; -1: not known */
    const char *host;                  /* "": not known */
    const char *namespace;             /* of the host of a journal; "": not known */
};

/* The policies of one direction, which the API calls ingress or egress. */
struct direction {
    const char *name;
    struct check_policies policies;
};

struct policies {
    struct check *c;
    struct direction in, out;
    bool *dials; /* by index of pods: those that stand in a way */
    size_t looks;
};

/* --- Questions that other rules ask as well. --- */

bool check_policy_is_for(const struct kube_object *o, const char *direction)
{
    const struct yaml_node *types = kube_get(o->spec, "policyTypes");
    bool by_default = strcmp(direction, "Ingress") == 0 || kube_get(o->spec, "egress") != NULL;

    return o->type == KUBE_NETWORK_POLICY &&
           (yaml_length(types) == 0 ? by_default : yaml_contains(types, direction));
}

static const char *number_key(struct check *c, size_t number)
{
    return arena_text(&c->bundle.arena, "%zu", number);
}

static struct kube_hits hits_of(struct check *c, const struct kube_index *index, size_t number)
{
    const char *key = number_key(c, number);

    return kube_index_find(index, "", key, strlen(key));
}

struct kube_hits check_selections_of(struct check *c, const struct check_policies *all,
                                     const struct kube_pods *p)
{
    return hits_of(c, &all->selections, p->index);
}

struct kube_hits check_policies_of(struct check *c, const struct check_policies *all,
                                   size_t selection)
{
    return hits_of(c, &all->policies, selection);
}

void check_index_policy(struct check *c, struct check_policies *all, const struct kube_object *o,
                        const bool *pods)
{
    struct check_selected *s = check_selected(c, o, kube_get(o->spec, "podSelector"));
    bool first = check_policies_of(c, all, s->index).count == 0;

    kube_index_add(&c->bundle.arena, &all->policies, "", number_key(c, s->index), o->index);
    for (size_t i = 0; i < s->count && first; i++) {
        if (pods[s->list[i]->index])
            kube_index_add(&c->bundle.arena, &all->selections, "", number_key(c, s->list[i]->index),
                           s->index);
    }
}

static bool is_protocol(const struct yaml_node *port, const char *protocol)
{
    const char *text = kube_text(port, "protocol");

    return strcmp(*text == '\0' ? "TCP" : text, protocol) == 0;
}

bool check_admits_port(const struct yaml_node *rule, const struct kube_pods *p, long port)
{
    const struct yaml_node *ports = kube_get(rule, "ports");

    for (size_t i = 0; i < yaml_length(ports); i++) {
        const struct yaml_node *item = ports->items[i];
        long first = p == NULL ? kube_int(item, "port", -1)
                               : kube_port_number(kube_get(item, "port"), p, NULL);

        if (is_protocol(item, "TCP") &&
            (kube_get(item, "port") == NULL || port < 0 || (p == NULL && first < 0) ||
             (port >= first && port <= kube_int(item, "endPort", first))))
            return true;
    }
    return yaml_length(ports) == 0;
}

static bool is_address(const char *host)
{
    unsigned char bytes[16];

    return *host == '[' || inet_pton(AF_INET, host, bytes) == 1 ||
           inet_pton(AF_INET6, host, bytes) == 1;
}

/* --- Whom a selector means. --- */

/* Labels that queues and controllers add to pods, which no template shows. */
static bool is_added_later(const char *key)
{
    static const char *const starts[] = {"kueue.x-k8s.io/",     "workload.codeflare.dev/",
                                         "appwrapper.mcad.",    "pod-template-hash",
                                         "controller-revision", "trainer.kubeflow.org/"};

    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        if (strncmp(key, starts[i], strlen(starts[i])) == 0)
            return true;
    }
    return false;
}

static bool has_unknown_value(const struct kube_pods *p, const char *key)
{
    for (size_t i = 0; i < p->label_count; i++) {
        if (strcmp(p->labels[i].key, key) == 0 && p->labels[i].value == NULL)
            return true;
    }
    return false;
}

/* Whether no label decides that cannot be seen: it differs for each pod, or comes later. */
static bool is_decided(const struct yaml_node *selector, const struct kube_pods *p)
{
    const struct yaml_node *labels = kube_get(selector, "matchLabels");
    const struct yaml_node *expressions = kube_get(selector, "matchExpressions");

    for (size_t i = 0; labels != NULL && labels->kind == YAML_MAPPING && i < labels->count; i++) {
        const char *key = labels->pairs[i].key->text;

        if (is_added_later(key) || has_unknown_value(p, key))
            return false;
    }
    for (size_t i = 0; i < yaml_length(expressions); i++) {
        const char *key = kube_text(expressions->items[i], "key");

        if (is_added_later(key) || has_unknown_value(p, key))
            return false;
    }
    return true;
}

/* Whether all labels of the pods are in the files or in what kube_find_pods() knows of the kind. */
static bool has_known_labels(const struct kube_pods *p)
{
    switch (p->object->type) {
    case KUBE_POD:
    case KUBE_DEPLOYMENT:
    case KUBE_STATEFULSET:
    case KUBE_JOB:
    case KUBE_JOBSET:
    case KUBE_VOLCANO_JOB:
    case KUBE_PYTORCHJOB:
        return !p->object->templated;
    default:
        return false;
    }
}

/* --- What a rule of a policy admits. --- */

/* The label that each namespace has. */
#define METADATA_NAME "matchLabels.kubernetes\\.io/metadata\\.name"

static bool may_be_in(const char *namespace, const char *wanted)
{
    return *wanted == '\0' || *namespace == '\0' || strcmp(namespace, wanted) == 0;
}

static bool may_be_peer(const struct kube_object *policy, const struct yaml_node *peer,
                        const struct kube_pods *p)
{
    const struct yaml_node *namespaces = kube_get(peer, "namespaceSelector");
    const struct yaml_node *pods = kube_get(peer, "podSelector");

    if (kube_get(peer, "ipBlock") != NULL)
        return true;
    if (!may_be_in(p->object->namespace,
                   namespaces == NULL ? policy->namespace : kube_text(namespaces, METADATA_NAME)))
        return false;
    return pods == NULL || !is_decided(pods, p) || kube_selects_by(pods, p);
}

static bool admits_pods(const struct kube_object *policy, const struct yaml_node *peers,
                        const struct kube_pods *p)
{
    for (size_t i = 0; i < yaml_length(peers); i++) {
        if (may_be_peer(policy, peers->items[i], p))
            return true;
    }
    return yaml_length(peers) == 0;
}

/* --- Hosts that are not in these files. --- */

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

static bool may_be_host(const struct kube_object *policy, const struct yaml_node *peer,
                        const struct way *w)
{
    const struct yaml_node *namespaces = kube_get(peer, "namespaceSelector");

    if (kube_get(peer, "ipBlock") != NULL)
        return !is_address(w->host) || is_within(w->host, kube_text(peer, "ipBlock.cidr"));
    if (is_address(w->host))
        return false; /* of a pod: no user writes that here */
    return may_be_in(w->namespace, yaml_get_pair(peer, "namespaceSelector") == NULL
                                       ? policy->namespace
                                       : kube_text(namespaces, METADATA_NAME));
}

/* --- Names. --- */

/* The ports at which the DNS of a cluster listens; OpenShift and others have their own. A name is
 * one of ports that are not in these files. */
static bool is_dns_port(const struct yaml_node *port)
{
    static const long numbers[] = {53, 5353, 8053, 1053, 10053};
    long first = kube_int(port, "port", -1), last = kube_int(port, "endPort", first);

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (first < 0 || (first <= numbers[i] && numbers[i] <= last))
            return is_protocol(port, "UDP");
    }
    return false;
}

/* DNS is seldom a pod of the namespace of the job; a rule for the pods of the store's, at all their
 * ports, is not for DNS either. */
static bool may_be_dns(const struct way *w, const struct yaml_node *peer, bool by_port)
{
    const struct yaml_node *namespaces = kube_get(peer, "namespaceSelector");
    const char *name = kube_text(namespaces, METADATA_NAME);

    if (kube_get(peer, "ipBlock") != NULL)
        return true;
    if (namespaces == NULL)
        return strcmp(w->from->object->namespace, "kube-system") == 0;
    return by_port || *name == '\0' ||
           (strcmp(name, w->from->object->namespace) != 0 &&
            (w->to == NULL || strcmp(name, w->to->object->namespace) != 0));
}

static bool admits_to_dns(const struct kube_object *policy, const struct yaml_node *rule,
                          const struct way *w)
{
    const struct yaml_node *ports = kube_get(rule, "ports"), *peers = kube_get(rule, "to");
    bool open = yaml_length(ports) == 0;

    (void)policy;
    for (size_t i = 0; i < yaml_length(ports) && !open; i++)
        open = is_dns_port(ports->items[i]);
    for (size_t i = 0; i < yaml_length(peers) && open; i++) {
        if (may_be_dns(w, peers->items[i], yaml_length(ports) > 0))
            return true;
    }
    return open && yaml_length(peers) == 0;
}

/* Whether the pods ask the DNS of the cluster for the host, as far as can be seen. */
static bool asks_dns(const struct way *w)
{
    const struct yaml_node *policy = kube_get(w->from->spec, "dnsPolicy");

    return *w->host != '\0' && !is_address(w->host) &&
           kube_get(w->from->spec, "hostAliases") == NULL &&
           kube_get(w->from->spec, "dnsConfig") == NULL &&
           (policy == NULL || yaml_is(policy, "ClusterFirst"));
}

/* --- The policies of the pods at one end. --- */

typedef bool (*admits_function)(const struct kube_object *policy, const struct yaml_node *rule,
                                const struct way *w);

static bool admits_clients(const struct kube_object *policy, const struct yaml_node *rule,
                           const struct way *w)
{
    return check_admits_port(rule, w->to, w->port) &&
           admits_pods(policy, kube_get(rule, "from"), w->from);
}

static bool admits_to_store(const struct kube_object *policy, const struct yaml_node *rule,
                            const struct way *w)
{
    return check_admits_port(rule, w->to, w->port) &&
           admits_pods(policy, kube_get(rule, "to"), w->to);
}

static bool admits_to_journal(const struct kube_object *policy, const struct yaml_node *rule,
                              const struct way *w)
{
    const struct yaml_node *peers = kube_get(rule, "to");
    bool admits = yaml_length(peers) == 0;

    for (size_t i = 0; i < yaml_length(peers) && !admits; i++)
        admits = may_be_host(policy, peers->items[i], w);
    return admits && check_admits_port(rule, NULL, w->port);
}

static bool policy_admits(struct policies *all, const struct kube_object *policy,
                          const struct direction *d, const struct way *w, admits_function function)
{
    const struct yaml_node *rules = kube_get(policy->spec, d->name);

    for (size_t i = 0; i < yaml_length(rules); i++) {
        if (all->looks++ > LOOKS_MAX || function(policy, rules->items[i], w))
            return true;
    }
    return all->looks++ > LOOKS_MAX;
}

/* The last policy that selects the pods for certain, if none of all that may select them admits the
 * way; NULL: one does, or no policy selects them. */
static const struct kube_object *policy_closing_way(struct policies *all, const struct direction *d,
                                                    const struct kube_pods *p, const struct way *w,
                                                    admits_function function)
{
    struct check *c = all->c;
    struct kube_hits selections = check_selections_of(c, &d->policies, p);
    const struct kube_object *closed = NULL;

    for (size_t i = 0; i < selections.count; i++) {
        struct kube_hits hits = check_policies_of(c, &d->policies, selections.list[i]);

        for (size_t k = 0; k < hits.count; k++) {
            const struct kube_object *policy = c->bundle.objects[hits.list[k]];

            if (policy_admits(all, policy, d, w, function))
                return NULL;
            if (is_decided(kube_get(policy->spec, "podSelector"), p))
                closed = policy;
        }
    }
    return closed;
}

static struct check_position at_rules(const struct kube_object *policy, const struct direction *d)
{
    return check_at_key(policy->spec,
                        kube_get(policy->spec, d->name) != NULL ? d->name : "podSelector");
}

/* --- Ways. --- */

/* The plugin svc of Volcano makes a policy that admits the pods of the job to each other. */
static bool has_policy_of_plugin(const struct way *w)
{
    const struct kube_object *o = w->to->object;

    return o == w->from->object && o->type == KUBE_VOLCANO_JOB && kube_has_plugin(o, "svc") &&
           !yaml_contains(kube_get(o->spec, "plugins.svc"), "--disable-network-policy=true");
}

static const char *at_port(struct policies *all, const struct way *w)
{
    return w->port < 0 ? "" : arena_text(&all->c->bundle.arena, " at port %ld", w->port);
}

static void look_at_store(struct policies *all, const struct way *w)
{
    struct check *c = all->c;
    const struct kube_object *closed =
        has_policy_of_plugin(w) ? NULL
                                : policy_closing_way(all, &all->in, w->to, w, admits_clients);

    if (closed != NULL)
        check_report_on(c, closed, at_rules(closed, &all->in),
                        "no policy admits the pods of %s to %s%s, where they meet",
                        check_title(c, w->from->object), check_title(c, w->to->object),
                        at_port(all, w));
    closed = policy_closing_way(all, &all->out, w->from, w, admits_to_store);
    if (closed != NULL)
        check_report_on(c, closed, at_rules(closed, &all->out),
                        "no policy lets the pods of %s out to %s%s, where they meet",
                        check_title(c, w->from->object), check_title(c, w->to->object),
                        at_port(all, w));
}

static void look_at_dns(struct policies *all, const struct way *w)
{
    struct check *c = all->c;
    const struct kube_object *closed =
        asks_dns(w) ? policy_closing_way(all, &all->out, w->from, w, admits_to_dns) : NULL;

    if (closed != NULL)
        check_report_on(
            c, closed, at_rules(closed, &all->out),
            "no policy lets the pods of %s out to DNS (port 53 over UDP), which has the "
            "address of %s",
            check_title(c, w->from->object), w->host);
}

/* Policies have no effect on the host network: another rule says so. */
static void look_at_way(struct policies *all, const struct way *w)
{
    if (w->from->host_network || !has_known_labels(w->from) || w->from == w->to)
        return;
    if (w->to != NULL && !w->to->host_network && has_known_labels(w->to))
        look_at_store(all, w);
    look_at_dns(all, w);
}

/* The port of the store's pods behind the port that is dialed. */
static long port_of_pods(const struct kube_object *service, const struct kube_pods *p, long dialed)
{
    const struct yaml_node *ports = service == NULL ? NULL : kube_get(service->spec, "ports");

    if (service == NULL || kube_is_headless(service))
        return dialed > 0 ? dialed : -1;
    for (size_t i = 0; i < yaml_length(ports); i++) {
        const struct yaml_node *target = kube_get(ports->items[i], "targetPort");

        if (kube_int(ports->items[i], "port", -1) == dialed)
            return target == NULL ? dialed : kube_port_number(target, p, NULL);
    }
    return -1; /* another rule says that it has no such port */
}

typedef void (*way_function)(struct policies *all, const struct way *w);

static void each_relay(struct policies *all, way_function look)
{
    struct job_upstream u;

    for (size_t i = 0; i < all->c->jobs.store_count; i++) {
        const struct job_store *s = &all->c->jobs.stores[i];

        for (size_t n = 0; job_relay_upstream(&all->c->jobs, s, n, &u); n++) {
            struct way w = {.from = s->container->pods, .host = u.known ? u.host : "", .port = -1};

            if (u.store != NULL && u.target.reach != KUBE_ELSEWHERE)
                w.to = u.store->container->pods;
            if (w.to != NULL)
                w.port = port_of_pods(u.target.service, w.to, u.port);
            look(all, &w);
        }
    }
}

/* The pods at which a run meets, in these files, or NULL. */
static const struct kube_pods *met_in(const struct job_run *r)
{
    if (r->target.reach == KUBE_ELSEWHERE)
        return NULL;
    return r->store != NULL ? r->store->container->pods : r->hosted ? r->target.pods : NULL;
}

static void each_way(struct policies *all, way_function look)
{
    for (size_t i = 0; i < all->c->jobs.count; i++) {
        const struct job_run *r = all->c->jobs.runs[i];
        struct way w = {.from = r->container->pods, .to = met_in(r), .host = r->host, .port = -1};

        if (!job_is_dynamic(r) || r->local || r->own_name)
            continue;
        if (w.to != NULL)
            w.port = port_of_pods(r->target.service, w.to, r->port);
        look(all, &w);
    }
    each_relay(all, look);
}

/* The ways of replicas to the endpoints of their journal. */
static void each_journal(struct policies *all, way_function look)
{
    struct check *c = all->c;
    struct job_setting journal;

    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const char *at = check_journal_of(c, &c->jobs.stores[i], &journal);
        struct way w = {.from = c->jobs.stores[i].container->pods};

        while (at != NULL && check_next_endpoint(c, &at, &w.host, &w.port)) {
            w.namespace = namespace_of(c, w.from->object, w.host);
            look(all, &w);
        }
    }
}

static void look_at_journal(struct policies *all, const struct way *w)
{
    struct check *c = all->c;
    const struct kube_object *closed =
        w->from->host_network ? NULL
                              : policy_closing_way(all, &all->out, w->from, w, admits_to_journal);

    if (closed != NULL)
        check_report_on(c, closed, check_at_key(closed->spec, "egress"),
                        "the replicas of %s keep their state at %s:%ld, and this policy does not "
                        "let them there",
                        check_title(c, w->from->object), w->host, w->port);
}

/* --- Finding the policies. --- */

static void mark_pods(struct policies *all, const struct way *w)
{
    all->dials[w->from->index] = true;
    if (w->to != NULL)
        all->dials[w->to->index] = true;
}

/* False: other policies add to those of Kubernetes, or templates hide whom they select. */
static bool index_policies(struct policies *all)
{
    static const char suffix[] = "NetworkPolicy";

    for (size_t i = 0; i < all->c->bundle.count; i++) {
        const struct kube_object *o = all->c->bundle.objects[i];
        size_t len = strlen(o->kind);

        if (len < sizeof suffix - 1 || strcmp(o->kind + len - sizeof suffix + 1, suffix) != 0)
            continue;
        if (o->type != KUBE_NETWORK_POLICY || o->templated)
            return false;
        if (check_policy_is_for(o, "Ingress"))
            check_index_policy(all->c, &all->in.policies, o, all->dials);
        if (check_policy_is_for(o, "Egress"))
            check_index_policy(all->c, &all->out.policies, o, all->dials);
    }
    return true;
}

typedef void (*ways_function)(struct policies *all, way_function look);

static void look_at_ways(struct check *c, ways_function each, way_function look)
{
    struct policies all = {
        .c = c,
        .in = {.name = "ingress"},
        .out = {.name = "egress"},
        .dials = arena_alloc(&c->bundle.arena, c->bundle.pod_count + 1),
    };

    each(&all, mark_pods);
    if (index_policies(&all))
        each(&all, look);
}

void check_store_blocked(struct check *c)
{
    look_at_ways(c, each_way, look_at_way);
}

void check_journal_blocked(struct check *c)
{
    look_at_ways(c, each_journal, look_at_journal);
}
