/* Rules about the host network and about proxies between pods. */
#include "deploy/check/check.h"

#include <string.h>

/* The pods ask for a name of a Service: to meet, or to reach what a relay or a replica needs. */
static bool uses_names(struct check *c, const struct kube_pods *p)
{
    const struct job_store *s = job_store_in(&c->jobs, p);

    return (s != NULL && s->kind != JOB_STORE_ETCD) || p->object->type == KUBE_PYTORCHJOB ||
           ANY(JOB_FOREACH(r, job_runs_in(&c->jobs, p)),
               (!r->local && !r->standalone && r->host[strspn(r->host, "0123456789.")] != '\0') ||
                   job_endpoint_is_computed(r));
}

void check_host_network_dns(struct check *c, const struct kube_pods *p)
{
    const struct yaml_node *policy = kube_get(p->spec, "dnsPolicy");
    bool filled = policy == NULL && p->object->type == KUBE_VOLCANO_JOB; /* by its webhook */

    if (policy != NULL && yaml_is(policy, "Default") && job_runs_in(&c->jobs, p).count > 0 &&
        kube_get(p->spec, "dnsConfig") == NULL && uses_names(c, p))
        check_report(c, check_at(policy),
                     "dnsPolicy Default is the node's DNS, which knows no Service");
    if (p->host_network && !filled && uses_names(c, p) &&
        (policy == NULL || yaml_is(policy, "ClusterFirst")))
        check_report(c, policy != NULL ? check_at(policy) : check_at_first(p->spec, "hostNetwork"),
                     "on the host network, %s uses the node's DNS, which knows no Service",
                     policy != NULL ? "dnsPolicy ClusterFirst" : "a pod without dnsPolicy");
}

/* The pods meet, or serve a store. A PyTorchJob without torchrun meets at its Master. */
static bool takes_part(const struct check *c, const struct kube_pods *p)
{
    return job_runs_in(&c->jobs, p).count > 0 || job_store_in(&c->jobs, p) != NULL ||
           (p->object->type == KUBE_PYTORCHJOB && p->object->pods_count > 1);
}

/* --- Ports. --- */

/* The pod's relay listens there. The container port is then a claim, which keeps a second pod with
 * that port off the node. */
static bool is_claim(struct check *c, const struct kube_pods *p, long port)
{
    const struct job_store *s = job_store_in(&c->jobs, p);
    struct job_listeners l;

    if (s == NULL || s->kind != JOB_STORE_RELAY)
        return false;
    l = job_store_listeners(&c->jobs, s, false);
    return job_listener_at(&l, port) != NULL;
}

void check_host_network_port(struct check *c, const struct kube_container *container)
{
    const struct kube_pods *p = container->pods;

    if (!p->host_network || !takes_part(c, p))
        return;
    YAML_FOREACH(item, kube_get(container->node, "ports")) {
        const struct yaml_node *port = kube_get(item, "containerPort");

        if (port == NULL ||
            (!container->init && is_claim(c, p, kube_int(item, "containerPort", -1))) ||
            (kube_is(item, "name", "pytorchjob-port") && !yaml_is(port, "23456")))
            continue;
        check_report(
            c, check_at(port),
            "on the host network, %s is a port of the node: two such pods cannot share a node",
            yaml_text(port) == NULL ? "this" : yaml_text(port));
        return; /* one cause */
    }
}

/* The operator adds port 23456 to the container, unless it has a port of this name. */
void check_host_network_operator_port(struct check *c, const struct kube_container *container)
{
    const struct kube_pods *p = container->pods;

    if (p->object->type == KUBE_PYTORCHJOB && p->host_network && !container->init &&
        strcmp(container->name, "pytorch") == 0 &&
        kube_item(kube_get(container->node, "ports"), "name", "pytorchjob-port") == NULL)
        check_report(c, check_at_first(p->spec, "hostNetwork"),
                     "the Training Operator adds the container port 23456, which is a port of the "
                     "node on the host network");
}

/* --- Network policies. --- */

/* From anywhere, or from addresses: selectors match no pod on the host network. */
static bool is_open(const struct yaml_node *peers)
{
    return ANY(YAML_FOREACH(peer, peers), kube_get(peer, "ipBlock") != NULL) ||
           yaml_length(peers) == 0;
}

/* A run on the host network whose store is in one of these pods, or behind the relay there; NULL:
 * none. To policies all of them are the same. */
static const struct job_run *user_on_host(struct check *c, struct check_selected *pods)
{
    for (size_t i = 0; i < pods->count && !pods->user_known && pods->user == NULL; i++)
        pods->user = c->users_on_host[pods->list[i]->index];
    pods->user_known = true;
    return pods->user;
}

void check_host_network_policy(struct check *c, const struct kube_object *o)
{
    struct check_selected *pods;
    const struct job_run *user;
    bool lets_hosts_in =
        ANY(YAML_FOREACH(rule, kube_get(o->spec, "ingress")), is_open(kube_get(rule, "from")));

    if (o->type != KUBE_NETWORK_POLICY)
        return;
    pods = check_selected(c, o, kube_get(o->spec, "podSelector"));
    if (pods->count > 0 && pods->on_host == pods->count) {
        check_report(c, check_at_key(o->spec, "podSelector"),
                     "the policy selects pods on the host network, where it has no effect");
        return;
    }
    user = check_policy_is_for(o, "Ingress") && !lets_hosts_in ? user_on_host(c, pods) : NULL;
    if (user != NULL)
        check_report(c, check_at_key(o->spec, "ingress"),
                     "the pods of %s are on the host network, where no pod selector matches them",
                     job_run_object(user)->title);
}

/* The policy of the svc plugin admits pods of the job by label, and pods on the host network match
 * no label. */
void check_host_network_plugin(struct check *c, const struct job_run *r)
{
    const struct kube_object *o = job_run_object(r);
    const struct yaml_node *plugins = kube_get(o->spec, "plugins");
    const struct job_store *s = r->store;

    if (s != NULL && job_store_object(s) == o && yaml_get(plugins, "svc") != NULL &&
        check_has_policy_of_plugin(o) && r->container->pods->host_network &&
        !s->container->pods->host_network)
        check_report(
            c, check_at_key(plugins, "svc"),
            "the NetworkPolicy of the svc plugin blocks pods on the host network from the store");
}

static void look_at_relay(struct check *c, const struct job_store *s)
{
    struct job_listeners l = job_store_listeners(&c->jobs, s, false);

    JOB_FOREACH_LISTENER(at, &l) {
        /* Every scheduler looks at the ports of these containers. */
        if (!ANY(KUBE_FOREACH_CONTAINER(one, s->container->pods),
                 !one->init && check_lists_port(one, at->port)))
            check_report(c, check_at_option(s, &at->setting),
                         "port %ld is a port of the node, and no container claims it, so a second "
                         "relay may come to that node",
                         at->port);
    }
    if (l.count == 0)
        check_report(c, check_at_first(s->container->node, "name"),
                     "%s listens on its default ports, of which a node has one each",
                     s->container->name);
}

void check_host_network_store(struct check *c, const struct job_store *s)
{
    const struct kube_pods *p = s->container->pods;

    if (p->host_network && s->kind == JOB_STORE_RELAY)
        look_at_relay(c, s);
    else if (p->host_network && p->count > 1)
        check_report(c, check_at_first(s->container->node, "name"),
                     "%s listens on ports of the node, in a pod that trains", s->container->name);
}

/* --- Istio. --- */

static bool is_injected_namespace(const struct check *c, const char *namespace)
{
    if (c->targets[CHECK_ISTIO].given)
        return true;
    KUBE_FOREACH_HIT(hit, kube_index_find(&c->bundle.named, "Namespace", namespace)) {
        const struct kube_object *o = c->bundle.objects[*hit.list];

        if (o->type == KUBE_NAMESPACE &&
            (kube_is(o->node, "metadata.labels.istio-injection", "enabled") ||
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
static bool bypasses_proxy(const struct kube_pods *p)
{
    return kube_get(p->meta, "annotations.traffic\\.sidecar\\.istio\\.io/excludeInboundPorts") !=
               NULL ||
           kube_get(p->meta, "annotations.traffic\\.sidecar\\.istio\\.io/excludeOutboundPorts") !=
               NULL;
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

void check_istio_injected(struct check *c, const struct kube_pods *p)
{
    bool asked = strcmp(inject(p), "true") == 0 || is_injected_namespace(c, p->object->namespace);

    if (takes_part(c, p) && !p->host_network && !bypasses_proxy(p) && asked &&
        strcmp(inject(p), "false") != 0)
        check_report(c, at_pods(p), "Istio puts its proxy between these pods and the store");
}
