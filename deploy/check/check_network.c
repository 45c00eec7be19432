/* Rules about the host network and about proxies between pods. */
#include "deploy/check/check.h"

#include "deploy/check/check_selected.h"

#include <string.h>

static struct check_position at_host_network(const struct kube_pods *p)
{
    return check_at_first(p->spec, "hostNetwork");
}

void check_host_network_dns(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];
        const struct yaml_node *policy = kube_get(p->spec, "dnsPolicy");
        bool filled = policy == NULL && p->object->type == KUBE_VOLCANO_JOB; /* by its webhook */

        if (p->host_network && !filled && (policy == NULL || yaml_is(policy, "ClusterFirst")))
            check_report(c, p->object, policy != NULL ? check_at(policy) : at_host_network(p),
                         "on the host network, %s uses the node's DNS, which knows no Service",
                         policy != NULL ? "dnsPolicy ClusterFirst" : "a pod without dnsPolicy");
    }
}

/* --- Ports. --- */

/* The pod's relay listens there. The container port is then a claim, which keeps a second pod with
 * that port off the node. */
static bool is_claim(struct check *c, const struct kube_pods *p, long port)
{
    const struct job_store *s = job_store_in(&c->jobs, p);
    struct job_listener l[JOB_LISTENERS_MAX];
    size_t count;

    if (s == NULL || s->kind != JOB_STORE_RELAY)
        return false;
    job_store_listeners(&c->jobs, s, false, l, &count);
    for (size_t i = 0; i < count; i++) {
        if (l[i].port == port)
            return true;
    }
    return false;
}

void check_host_network_port(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        for (size_t j = 0; j < p->count && p->host_network; j++) {
            const struct yaml_node *ports = kube_get(p->containers[j].node, "ports");

            for (size_t k = 0; k < yaml_length(ports); k++) {
                const struct yaml_node *port = kube_get(ports->items[k], "containerPort");

                if (port == NULL ||
                    (!p->containers[j].init &&
                     is_claim(c, p, kube_int(ports->items[k], "containerPort", -1))) ||
                    (strcmp(kube_text(ports->items[k], "name"), "pytorchjob-port") == 0 &&
                     !yaml_is(port, "23456")))
                    continue;
                check_report(c, p->object, check_at(port),
                             "on the host network, %s is a port of the node: two such pods cannot "
                             "share a node",
                             yaml_text(port) == NULL ? "this" : yaml_text(port));
            }
        }
    }
}

/* The operator adds port 23456 to the container, unless it has a port of this name. */
static bool has_operator_port(const struct kube_container *container)
{
    const struct yaml_node *ports = kube_get(container->node, "ports");

    for (size_t i = 0; i < yaml_length(ports); i++) {
        if (strcmp(kube_text(ports->items[i], "name"), "pytorchjob-port") == 0)
            return true;
    }
    return false;
}

void check_host_network_operator_port(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        for (size_t j = 0; j < p->count; j++) {
            if (p->object->type == KUBE_PYTORCHJOB && p->host_network &&
                strcmp(p->containers[j].name, "pytorch") == 0 && !p->containers[j].init &&
                !has_operator_port(&p->containers[j]))
                check_report(c, p->object, at_host_network(p),
                             "the Training Operator adds the container port 23456, which is a port "
                             "of the node on the host network");
        }
    }
}

/* --- Network policies. --- */

/* From anywhere, or from addresses: selectors match no pod on the host network. */
static bool is_open(const struct yaml_node *peers)
{
    for (size_t i = 0; i < yaml_length(peers); i++) {
        if (kube_get(peers->items[i], "ipBlock") != NULL)
            return true;
    }
    return yaml_length(peers) == 0;
}

/* Whether the policy admits pods on the host network. */
static bool lets_hosts_in(const struct kube_object *policy)
{
    const struct yaml_node *ingress = kube_get(policy->spec, "ingress");

    for (size_t i = 0; i < yaml_length(ingress); i++) {
        if (is_open(kube_get(ingress->items[i], "from")))
            return true;
    }
    return false;
}

static bool concerns_ingress(const struct kube_object *policy)
{
    const struct yaml_node *types = kube_get(policy->spec, "policyTypes");

    for (size_t i = 0; i < yaml_length(types); i++) {
        if (yaml_is(types->items[i], "Ingress"))
            return true;
    }
    return yaml_length(types) == 0;
}

/* A run on the host network whose store is in one of these pods, or behind the relay there; NULL:
 * none. To policies all of them are the same. */
static const struct job_run *user_on_host(struct check *c, struct check_selected *pods)
{
    if (c->users_on_host == NULL) {
        c->users_on_host = arena_alloc(&c->bundle.arena,
                                       (c->bundle.pod_count + 1) * sizeof(const struct job_run *));
        for (size_t i = c->jobs.count; i > 0; i--) {
            const struct job_run *r = c->jobs.runs[i - 1];
            const struct job_store *s = job_store_behind(&c->jobs, r->store);

            if (s != NULL && r->container->pods->host_network)
                c->users_on_host[s->container->pods->index] = r;
        }
    }
    for (size_t i = 0; i < pods->count && !pods->user_known && pods->user == NULL; i++)
        pods->user = c->users_on_host[pods->list[i]->index];
    pods->user_known = true;
    return pods->user;
}

static void look_at_policy(struct check *c, const struct kube_object *policy)
{
    struct check_selected *pods = check_selected(c, policy, kube_get(policy->spec, "podSelector"));
    const struct job_run *user;

    if (pods->count > 0 && pods->on_host == pods->count) {
        check_report(c, policy, check_at_key(policy->spec, "podSelector"),
                     "the policy selects pods on the host network, where it has no effect");
        return;
    }
    user = concerns_ingress(policy) && !lets_hosts_in(policy) ? user_on_host(c, pods) : NULL;
    if (user != NULL)
        check_report(c, policy, check_at_key(policy->spec, "ingress"),
                     "the pods of %s are on the host network, where no pod selector matches them",
                     check_title(c, job_run_object(user)));
}

/* The policy of the svc plugin admits pods of the job by label, and pods on the host network match
 * no label. */
static void look_at_plugin(struct check *c, const struct job_run *r)
{
    const struct kube_object *o = r->container->pods->object;
    const struct yaml_node *plugins = kube_get(o->spec, "plugins"), *svc = yaml_get(plugins, "svc");
    const struct job_store *s = r->store;

    if (o->type != KUBE_VOLCANO_JOB || svc == NULL || s == NULL ||
        s->container->pods->object != o || !r->container->pods->host_network ||
        s->container->pods->host_network)
        return;
    for (size_t i = 0; i < yaml_length(svc); i++) {
        if (yaml_is(svc->items[i], "--disable-network-policy=true"))
            return;
    }
    check_report(
        c, o, check_at_key(plugins, "svc"),
        "the NetworkPolicy of the svc plugin blocks pods on the host network from the store");
}

void check_host_network_policy(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        if (c->bundle.objects[i]->type == KUBE_NETWORK_POLICY)
            look_at_policy(c, c->bundle.objects[i]);
    }
    for (size_t i = 0; i < c->jobs.count; i++)
        look_at_plugin(c, c->jobs.runs[i]);
}

/* A container whose ports every scheduler looks at has the port. */
static bool is_claimed(const struct kube_pods *p, long port)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct yaml_node *ports = kube_get(p->containers[i].node, "ports");

        for (size_t j = 0; j < yaml_length(ports) && !p->containers[i].init; j++) {
            if (kube_int(ports->items[j], "containerPort", -1) == port)
                return true;
        }
    }
    return false;
}

static void look_at_relay(struct check *c, const struct job_store *s)
{
    struct job_listener l[JOB_LISTENERS_MAX];
    size_t count;

    job_store_listeners(&c->jobs, s, false, l, &count);
    for (size_t i = 0; i < count; i++) {
        if (!is_claimed(s->container->pods, l[i].port))
            check_report(
                c, s->container->pods->object, check_at_option(s->container, &l[i].setting),
                "port %ld is a port of the node, and no container claims it, so a second relay may "
                "come to that node",
                l[i].port);
    }
    if (count == 0)
        check_report(c, s->container->pods->object, check_at_first(s->container->node, "name"),
                     "%s listens on its default ports, of which a node has one each",
                     s->container->name);
}

void check_host_network_store(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        const struct kube_pods *p = s->container->pods;

        if (p->host_network && s->kind == JOB_STORE_RELAY)
            look_at_relay(c, s);
        else if (p->host_network && p->count > 1)
            check_report(c, p->object, check_at_first(s->container->node, "name"),
                         "%s listens on ports of the node, in a pod that trains",
                         s->container->name);
    }
}

/* --- Istio. --- */

static bool is_injected_namespace(const struct check *c, const char *namespace)
{
    struct kube_hits hits;

    if (c->targets[CHECK_ISTIO].given)
        return true;
    hits = kube_index_find(&c->bundle.named, "Namespace", namespace, strlen(namespace));
    for (size_t i = 0; i < hits.count; i++) {
        const struct kube_object *o = c->bundle.objects[hits.list[i]];

        if (o->type == KUBE_NAMESPACE &&
            (strcmp(kube_text(o->node, "metadata.labels.istio-injection"), "enabled") == 0 ||
             kube_get(o->node, "metadata.labels.istio\\.io/rev") != NULL))
            return true;
    }
    return false;
}

static const char *inject(const struct kube_pods *p)
{
    const char *text = kube_text(p->meta, "labels.sidecar\\.istio\\.io/inject");

    return *text != '\0' ? text : kube_text(p->meta, "annotations.sidecar\\.istio\\.io/inject");
}

/* Some ports, or all, bypass the proxy. */
static bool is_excluded(const struct kube_pods *p)
{
    return kube_get(p->meta, "annotations.traffic\\.sidecar\\.istio\\.io/excludeInboundPorts") !=
               NULL ||
           kube_get(p->meta, "annotations.traffic\\.sidecar\\.istio\\.io/excludeOutboundPorts") !=
               NULL;
}

static bool takes_part(const struct check *c, const struct kube_pods *p)
{
    return job_runs_in(&c->jobs, p).count > 0 || job_store_in(&c->jobs, p) != NULL;
}

/* The place for the annotation, or the nearest thing that exists. */
static struct check_position at_pods(const struct kube_pods *p)
{
    if (kube_get(p->meta, "annotations") != NULL)
        return check_at_key(p->meta, "annotations");
    if (p->object->type == KUBE_POD)
        return check_at_first(p->object->node, "metadata.name");
    return check_at_key(p->part, "template");
}

static bool is_injected(const struct check *c, const struct kube_pods *p)
{
    if (p->host_network || is_excluded(p) || strcmp(inject(p), "false") == 0)
        return false;
    return strcmp(inject(p), "true") == 0 || is_injected_namespace(c, p->object->namespace);
}

void check_istio_injected(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        if (is_injected(c, p) && takes_part(c, p))
            check_report(c, p->object, at_pods(p),
                         "Istio puts its proxy between these pods and the store");
    }
}
