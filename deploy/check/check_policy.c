/* NetworkPolicies, and the rules about those between agents, their store, and its etcd. A pod that
 * no policy selects is open; of the policies that select it, one that admits the traffic is enough.
 * The rules speak only of what is certain: what it cannot see, such as the addresses of an ipBlock,
 * admits the pods. */
#include "deploy/check/check.h"

#include <arpa/inet.h>
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

/* --- Questions that other rules ask as well. --- */

bool check_policy_is_for(const struct kube_object *o, const char *direction)
{
    const struct yaml_node *types = kube_get(o->spec, "policyTypes");
    bool by_default = strcmp(direction, "Ingress") == 0 || kube_get(o->spec, "egress") != NULL;

    return o->type == KUBE_NETWORK_POLICY &&
           (yaml_length(types) == 0 ? by_default : yaml_contains(types, direction));
}

/* Notes at the pods that a policy with the selector selects them. */
static void link_pods(struct check *c, struct check_selected *s)
{
    for (size_t i = 0; i < s->count && !s->is_of_policies; i++) {
        struct check_selections *of = &c->selections[s->list[i]->index];

        arena_push(&c->bundle.arena, of->list, of->count, of->cap) = s;
    }
    s->is_of_policies = true;
}

void check_find_policies(struct check *c)
{
    struct arena *a = &c->bundle.arena;

    c->selections = arena_alloc(a, (c->bundle.pod_count + 1) * sizeof *c->selections);
    KUBE_FOREACH(o, &c->bundle) {
        struct check_selected *s;

        c->has_odd_policies =
            c->has_odd_policies || (text_ends_with(o->kind, "NetworkPolicy") &&
                                    (o->type != KUBE_NETWORK_POLICY || o->templated));
        if (o->type != KUBE_NETWORK_POLICY)
            continue;
        s = check_selected(c, o, kube_get(o->spec, "podSelector"));
        link_pods(c, s);
        if (check_policy_is_for(o, "Ingress"))
            arena_push(a, s->ingress.list, s->ingress.count, s->ingress.cap) = o;
        if (check_policy_is_for(o, "Egress"))
            arena_push(a, s->egress.list, s->egress.count, s->egress.cap) = o;
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

    YAML_FOREACH(item, ports) {
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

/* Queues and controllers add labels to pods, which no template shows. */
static bool is_unknown_label(const struct kube_pods *p, const char *key)
{
    return text_begins(key, "kueue.x-k8s.io/", "workload.codeflare.dev/", "appwrapper.mcad.",
                       "pod-template-hash", "controller-revision", "trainer.kubeflow.org/") ||
           ANY(FOREACH(const struct kube_label, l, p->labels, p->label_count),
               strcmp(l->key, key) == 0 && l->value == NULL);
}

/* Whether no label decides that cannot be seen: it differs for each pod, or comes later. */
static bool is_decided(const struct yaml_node *selector, const struct kube_pods *p)
{
    return !ANY(YAML_FOREACH_PAIR(label, kube_get(selector, "matchLabels")),
                is_unknown_label(p, label->key->text)) &&
           !ANY(YAML_FOREACH(e, kube_get(selector, "matchExpressions")),
                is_unknown_label(p, kube_text(e, "key")));
}

/* Whether all labels of the pods are in the files or in what kube_find_pods() knows of the kind. */
static bool has_known_labels(const struct kube_pods *p)
{
    enum kube_type type = p->object->type;

    return !p->object->templated && type >= KUBE_POD && type <= KUBE_PYTORCHJOB;
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
    return ANY(YAML_FOREACH(peer, peers), may_be_peer(policy, peer, p)) || yaml_length(peers) == 0;
}

/* --- Hosts that are not in these files. --- */

/* Whether an IPv4 address lies in a network; true if one of them is no IPv4. */
static bool is_within(const char *host, const char *cidr)
{
    char network[64] = "";
    int bits = 32;
    struct in_addr a, n;

    sscanf(cidr, "%63[^/]/%2d", network, &bits);
    return inet_pton(AF_INET, host, &a) != 1 || inet_pton(AF_INET, network, &n) != 1 || bits <= 0 ||
           bits > 32 || (ntohl(a.s_addr) ^ ntohl(n.s_addr)) >> (32 - bits) == 0;
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

/* The ports at which the DNS of a cluster listens; OpenShift and others have their own. A port name
 * always matches, since the DNS pods are not in these files. */
static bool is_dns_port(const struct yaml_node *port)
{
    static const long numbers[] = {53, 5353, 8053, 1053, 10053};
    long first = kube_int(port, "port", -1), last = kube_int(port, "endPort", first);

    return is_protocol(port, "UDP") &&
           ANY(FOREACH(const long, number, numbers, sizeof numbers / sizeof *numbers),
               first < 0 || (first <= *number && *number <= last));
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

static bool admits_to_dns(const struct kube_object *, const struct yaml_node *rule,
                          const struct way *w)
{
    const struct yaml_node *ports = kube_get(rule, "ports"), *peers = kube_get(rule, "to");
    bool all = yaml_length(ports) == 0;

    if (!all && !ANY(YAML_FOREACH(port, ports), is_dns_port(port)))
        return false;
    return yaml_length(peers) == 0 || ANY(YAML_FOREACH(peer, peers), may_be_dns(w, peer, !all));
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

/* A rule of ingress lacks the list `to`; a rule of egress lacks the list `from`. */
static bool admits_way(const struct kube_object *policy, const struct yaml_node *rule,
                       const struct way *w)
{
    return check_admits_port(rule, w->to, w->port) &&
           admits_pods(policy, kube_get(rule, "from"), w->from) &&
           admits_pods(policy, kube_get(rule, "to"), w->to);
}

static bool admits_to_journal(const struct kube_object *policy, const struct yaml_node *rule,
                              const struct way *w)
{
    const struct yaml_node *peers = kube_get(rule, "to");

    return check_admits_port(rule, NULL, w->port) &&
           (yaml_length(peers) == 0 ||
            ANY(YAML_FOREACH(peer, peers), may_be_host(policy, peer, w)));
}

/* The last policy of a direction that selects the pods for certain, if none of all that may select
 * them admits the way; NULL: one does, or no policy selects them. */
static const struct kube_object *policy_closing_way(struct check *c, const char *direction,
                                                    const struct kube_pods *p, const struct way *w,
                                                    admits_function function)
{
    const struct check_selections *of = &c->selections[p->index];
    const struct kube_object *closed = NULL;

    for (size_t i = 0; i < of->count && !c->has_odd_policies; i++) {
        const struct check_policies *policies =
            strcmp(direction, "ingress") == 0 ? &of->list[i]->ingress : &of->list[i]->egress;

        FOREACH_POINTER(const struct kube_object, policy, policies->list, policies->count) {
            if (c->looks++ > LOOKS_MAX || ANY(YAML_FOREACH(rule, kube_get(policy->spec, direction)),
                                              c->looks++ > LOOKS_MAX || function(policy, rule, w)))
                return NULL;
            if (is_decided(kube_get(policy->spec, "podSelector"), p))
                closed = policy;
        }
    }
    return closed;
}

static struct check_position at_rules(const struct kube_object *policy, const char *direction)
{
    return check_at_key(policy->spec,
                        kube_get(policy->spec, direction) != NULL ? direction : "podSelector");
}

/* --- Ways. --- */

bool check_has_policy_of_plugin(const struct kube_object *o)
{
    return o->type == KUBE_VOLCANO_JOB && kube_has_plugin(o, "svc") &&
           !yaml_contains(kube_get(o->spec, "plugins.svc"), "--disable-network-policy=true");
}

static void look_at_store(struct check *c, const struct way *w)
{
    bool plugin = w->from->object == w->to->object && check_has_policy_of_plugin(w->to->object);

    FOREACH_WORD(direction, "ingress", "egress") {
        bool in = strcmp(direction, "ingress") == 0;
        const struct kube_object *closed =
            in && plugin ? NULL
                         : policy_closing_way(c, direction, in ? w->to : w->from, w, admits_way);

        if (closed != NULL)
            check_report_on(c, closed, at_rules(closed, direction),
                            in ? "no policy admits the pods of %s to %s%s"
                               : "no policy lets the pods of %s out to %s%s",
                            w->from->object->title,
                            w->from->object == w->to->object ? "each other" : w->to->object->title,
                            w->port < 0 ? ""
                                        : arena_text(&c->bundle.arena, " at port %ld", w->port));
    }
}

static void look_at_dns(struct check *c, const struct way *w)
{
    const struct kube_object *closed =
        asks_dns(w) ? policy_closing_way(c, "egress", w->from, w, admits_to_dns) : NULL;

    if (closed != NULL)
        check_report_on(c, closed, at_rules(closed, "egress"),
                        "no policy lets the pods of %s out to DNS (port 53 over UDP), which has "
                        "the address of %s",
                        w->from->object->title, w->host);
}

/* Policies have no effect on the host network: another rule says so. */
static void look_at_way(struct check *c, const struct way *w)
{
    if (w->from->host_network || !has_known_labels(w->from) ||
        (w->from == w->to && w->from->replicas == 1))
        return;
    if (w->to != NULL && !w->to->host_network && has_known_labels(w->to))
        look_at_store(c, w);
    look_at_dns(c, w);
}

/* The port of the store's pods (NULL: not in these files) behind the port that is dialed. */
static long port_of_pods(const struct kube_object *service, const struct kube_pods *p, long dialed)
{
    const struct yaml_node *ports = service == NULL ? NULL : kube_get(service->spec, "ports");

    if (service == NULL || p == NULL || kube_is_headless(service))
        return dialed > 0 ? dialed : -1;
    YAML_FOREACH(port, ports) {
        const struct yaml_node *target = kube_get(port, "targetPort");

        if (kube_int(port, "port", -1) == dialed)
            return target == NULL ? dialed : kube_port_number(target, p, NULL);
    }
    return -1; /* another rule reports the missing port */
}

void check_relay_blocked(struct check *c, const struct job_upstream *u)
{
    struct way w = {.from = u->relay->container->pods, .host = u->known ? u->host : ""};

    if (u->store != NULL && u->target.reach != KUBE_ELSEWHERE)
        w.to = u->store->container->pods;
    w.port = port_of_pods(u->target.service, w.to, u->port);
    look_at_way(c, &w);
}

static void look_at_endpoint(struct check *c, const struct job_run *r)
{
    struct way w = {.from = r->container->pods, .host = r->host};

    if (!job_is_dynamic(r) || r->local || r->own_name)
        return;
    if (r->target.reach != KUBE_ELSEWHERE)
        w.to = r->store != NULL ? r->store->container->pods : r->hosted ? r->target.pods : NULL;
    w.port = port_of_pods(r->target.service, w.to, r->port);
    look_at_way(c, &w);
}

/* The way to the store, and that of the nodes to each other, which may have a network for it. */
void check_run_blocked(struct check *c, const struct job_run *r)
{
    const struct kube_pods *p = r->container->pods;
    const struct yaml_node *annotations = kube_get(p->meta, "annotations");
    struct way w = {.from = p, .to = p, .host = "", .port = -1};

    look_at_endpoint(c, r);
    if (r->nodes_min > 1 && yaml_get(annotations, "k8s.v1.cni.cncf.io/networks") == NULL &&
        yaml_get(annotations, "networking.gke.io/interfaces") == NULL)
        look_at_way(c, &w);
}

/* The ways of replicas to the endpoints of their journal. */
void check_journal_blocked(struct check *c, const struct job_store *s)
{
    struct job_setting journal;
    const char *at = check_journal_of(c, s, &journal);
    struct way w = {.from = s->container->pods};

    while (at != NULL && check_next_endpoint(c, &at, &w.host, &w.port)) {
        const struct kube_object *closed = NULL;

        w.namespace = namespace_of(c, w.from->object, w.host);
        if (!w.from->host_network)
            closed = policy_closing_way(c, "egress", w.from, &w, admits_to_journal);
        if (closed != NULL)
            check_report_on(c, closed, check_at_key(closed->spec, "egress"),
                            "the replicas of %s keep their state at %s:%ld, and this policy does "
                            "not let them there",
                            w.from->object->title, w.host, w.port);
    }
}
