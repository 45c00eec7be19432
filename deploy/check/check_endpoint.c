/* Rules about endpoints and the Services that they name. */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>

void check_endpoint_form(struct check *c, const struct job_run *r)
{
    const struct job_setting *s = &r->settings[TORCHRUN_RDZV_ENDPOINT];
    const char *text = job_text(r, TORCHRUN_RDZV_ENDPOINT), *wrong = NULL;

    if (!job_is_dynamic(r) || !job_is_set(r, TORCHRUN_RDZV_ENDPOINT))
        return;
    if (strstr(text, "://") != NULL)
        wrong = "a scheme";
    else if (s->value.known && strchr(text, ',') != NULL)
        wrong = "a list";
    else if (s->value.known && strchr(text, '/') != NULL)
        wrong = "a path";
    else if (s->value.known && r->port < 0 && strstr(text, "$(") == NULL)
        wrong = "something other than a number behind the last colon";
    if (wrong != NULL)
        check_report(c, check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                     "torch accepts HOST:PORT, but there is %s in `%s`", wrong, text);
}

/* The launch is static and has several nodes, and nothing says where node 0 is. */
static bool has_no_master(const struct job_run *r)
{
    return r->args != NULL && !check_is_opaque(r) && !r->standalone && !job_is_elastic(r) &&
           strcmp(r->backend, "static") == 0 && !job_is_set(r, TORCHRUN_RDZV_ENDPOINT) &&
           !job_is_set(r, TORCHRUN_MASTER_ADDR) && (*r->host == '\0' || r->local) &&
           r->nodes_min > 1 && job_run_object(r)->type != KUBE_RUNTIME;
}

/* Several pods must meet, and each of them looks for the others in itself: a static launch without
 * a master, a Service of all pods, a pod's own name, its loopback, or a store in each pod. */
void check_endpoint_localhost(struct check *c, const struct job_run *r)
{
    bool said = job_is_set(r, TORCHRUN_RDZV_ENDPOINT);
    const struct kube_pods *p = r->container->pods;
    bool alone = r->store != NULL && r->store->kind != JOB_STORE_RELAY && p->replicas != 1;
    bool own = r->own_name && p->replicas > 1;
    struct check_position at =
        check_at_setting(r, said ? TORCHRUN_RDZV_ENDPOINT : TORCHRUN_RDZV_BACKEND);

    if (has_no_master(r)) {
        check_report(
            c, check_at_setting(r, TORCHRUN_NNODES),
            "no --master_addr and no backend: each pod waits for the others at its own 127.0.0.1");
        return;
    }
    if (r->standalone && r->nodes_min > 1 && r->settings[TORCHRUN_NNODES].written.node != NULL)
        check_report(c, check_at_setting(r, TORCHRUN_NNODES),
                     "with --standalone, each pod waits for the others at its own localhost");
    if (job_is_dynamic(r) && job_is_multi_node(r) && r->of_all && p->replicas != 1)
        check_report(c, at, "Service %s leads to all pods of the job: each finds itself behind it",
                     r->target.service->name);
    if (!job_is_dynamic(r) || !job_is_multi_node(r) || !(r->local || own) || r->hosted ||
        r->maybe_hosted || (r->store != NULL && !alone) || (!said && check_is_opaque(r)) ||
        check_has_never_ready(c, p))
        return; /* a store that is never ready is another rule's matter */
    if (alone)
        check_report(c, at, "each pod meets at a store of its own: %s has no --upstream",
                     r->store->container->name);
    else
        check_report(c, at, "%s, and no store listens in the pod itself",
                     own    ? "the endpoint is each pod itself"
                     : said ? "the endpoint is this pod's own loopback"
                            : "without an endpoint, torch uses this pod's own loopback");
}

/* --- Ports. --- */

/* " (it has 80, 443)", or "". */
static const char *port_list(struct check *c, const struct kube_object *service)
{
    const struct yaml_node *ports = kube_get(service->spec, "ports");
    const char *text = "";

    for (size_t i = 0; i < yaml_length(ports) && i < 8; i++)
        text = arena_joined(&c->bundle.arena, text, ", ", kube_text(ports->items[i], "port"));
    return *text == '\0' ? "" : arena_text(&c->bundle.arena, " (it has %s)", text);
}

/* Whether the store certainly does not listen at this port. A store without listeners in its flags
 * uses the default ports; 2380 is the port of etcd's peers, and another rule's matter. */
static bool is_closed_port(struct check *c, const struct job_store *s, long port)
{
    struct job_listeners l;

    if (s == NULL || port <= 0)
        return false;
    l = job_store_listeners(&c->jobs, s, true);
    if (l.all && l.count == 0)
        return port != 2379 && port != 2380 && (s->kind == JOB_STORE_ETCD || port != 29400);
    return l.all && job_listener_at(&l, port) == NULL;
}

void check_endpoint_port(struct check *c, const struct job_run *r)
{
    const struct kube_object *service = r->target.service;
    struct check_position at = check_at_setting(r, TORCHRUN_RDZV_ENDPOINT);

    if (!job_is_dynamic(r) || r->port <= 0)
        return;
    if (service != NULL && !check_has_port(service, r->port))
        check_report(c, at, "Service %s has no port %ld%s", service->name, r->port,
                     port_list(c, service));
    else if (service == NULL && is_closed_port(c, r->store, r->port))
        check_report(c, at, "%s in %s does not listen on port %ld", r->store->container->name,
                     job_store_object(r->store)->title, r->port);
}

void check_endpoint_namespace(struct check *c, const struct job_run *r)
{
    const struct kube_object *o = r->target.service != NULL ? r->target.service
                                  : r->target.pods != NULL  ? r->target.pods->object
                                                            : NULL;

    if (!job_is_dynamic(r) || !r->found || r->target.reach == KUBE_REACHED)
        return;
    if (r->target.reach == KUBE_ELSEWHERE)
        check_report(c, check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                     "%s is in namespace %s, but this job is in %s", o->title, o->namespace,
                     job_run_object(r)->namespace);
    else
        check_report(c, check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                     "%s has no namespace: kubectl puts it into the namespace of its context, and "
                     "the two meet only if that is %s",
                     (*o->namespace == '\0' ? o : job_run_object(r))->title,
                     *o->namespace == '\0' ? job_run_object(r)->namespace : o->namespace);
}

void check_service_selects_nothing(struct check *c, const struct kube_object *o)
{
    const struct yaml_node *selector = kube_get(o->spec, "selector");
    const struct kube_pods *p;

    if (o->type != KUBE_SERVICE || selector == NULL || !c->is_endpoint[o->index])
        return;
    p = kube_first_selected(&c->bundle, o);
    if (p == NULL)
        check_report(
            c, check_at_key(o->spec, "selector"),
            "clients of a store use Service %s, but its selector matches no pod of these files",
            o->name);
    else if (kube_is(o->spec, "internalTrafficPolicy", "Local") && !kube_is_headless(o) &&
             p->replicas > 0 && job_store_in(&c->jobs, p) == job_server_in(&c->jobs, p))
        check_report(c, check_at_key(o->spec, "internalTrafficPolicy"),
                     "only pods on the node of %s reach it through Service %s", p->object->title,
                     o->name);
}

/* Without a selector, a Service leads where Endpoints of other files may say; but the one that a
 * StatefulSet names is meant for its pods. */
void check_store_service_without_selector(struct check *c, const struct job_store *s)
{
    const struct kube_object *o = job_store_object(s);
    const char *name = kube_text(o->spec, "serviceName");
    const struct kube_object *service = kube_named(&c->bundle, "Service", name, o);

    if (service != NULL && c->is_endpoint[service->index] && s->kind != JOB_STORE_RELAY &&
        !c->is_selected[s->container->pods->index] && kube_get(service->spec, "selector") == NULL &&
        kube_get(service->spec, "externalName") == NULL &&
        !ANY(FOREACH_WORD(kind, "Endpoints", "EndpointSlice"),
             kube_named(&c->bundle, kind, name, service) != NULL))
        check_report_on(c, service, check_at_key(service->node, "spec"),
                        "clients of a store use Service %s, which has no selector", name);
}

/* The pods behind a Service that selects a store, or that a job uses as endpoint; those with a
 * store come first. */
static const struct kube_pods *pods_behind(const struct check *c, const struct kube_object *o)
{
    const struct job_store *s = o->type == KUBE_SERVICE ? job_server_behind(&c->jobs, o) : NULL;

    if (s != NULL)
        return s->container->pods;
    return c->is_endpoint[o->index] ? kube_first_selected(&c->bundle, o) : NULL;
}

static void look_at_service_port(struct check *c, const struct yaml_node *port,
                                 const struct kube_pods *p)
{
    const struct yaml_node *target = kube_get(port, "targetPort");
    struct check_position at = check_at_first(port, "targetPort", "port");
    const char *protocol = kube_text(port, "protocol");
    long number;

    if (target == NULL)
        target = kube_get(port, "port");
    number = kube_port_number(target, p, NULL);
    if (!text_is(protocol, "", "TCP") && job_server_in(&c->jobs, p) != NULL && number > 0 &&
        !is_closed_port(c, job_server_in(&c->jobs, p), number))
        check_report(c, check_at_key(port, "protocol"), "%s listens on TCP, but this port is %s",
                     job_server_in(&c->jobs, p)->container->name, protocol);
    if (number < 0 && yaml_type(target) == YAML_STRING)
        check_report(c, at, "no port of the selected pods is named `%s`",
                     yaml_text(target) == NULL ? "?" : yaml_text(target));
    else if (number != 2380 && is_closed_port(c, job_server_in(&c->jobs, p), number))
        check_report(c, at, "%s does not listen on port %ld",
                     job_server_in(&c->jobs, p)->container->name, number);
}

void check_service_target_port(struct check *c, const struct kube_object *o)
{
    const struct kube_pods *p = pods_behind(c, o);

    YAML_FOREACH(port, p == NULL ? NULL : kube_get(o->spec, "ports"))
        look_at_service_port(c, port, p);
}

void check_headless_port_mapping(struct check *c, const struct kube_object *o)
{
    const struct kube_pods *p = kube_is_headless(o) ? pods_behind(c, o) : NULL;

    YAML_FOREACH(port, p == NULL ? NULL : kube_get(o->spec, "ports")) {
        const struct yaml_node *target = kube_get(port, "targetPort");
        long to = kube_port_number(target, p, NULL), from = kube_int(port, "port", -1);

        if (target != NULL && to > 0 && from > 0 && from != to)
            check_report(
                c, check_at(target),
                "the Service is headless, so nothing maps port %ld to %ld: clients dial %ld", from,
                to, from);
    }
}

/* --- Names before pods are Ready. --- */

/* The endpoint is the name of a pod, made by the svc plugin or by a JobSet. */
void check_not_ready_pod(struct check *c, const struct job_run *r)
{
    const struct kube_object *o = r->target.pods == NULL ? NULL : r->target.pods->object;
    const struct yaml_node *plugins, *svc;
    bool published;

    if (!job_is_dynamic(r) || o == NULL)
        return;
    plugins = kube_get(o->spec, "plugins");
    svc = yaml_get(plugins, "svc");
    if (o->type == KUBE_VOLCANO_JOB && !yaml_contains(svc, "--publish-not-ready-addresses=true") &&
        !yaml_contains(svc, "--publish-not-ready-addresses"))
        check_report_on(c, o, check_at_key(plugins, "svc"),
                        "the svc plugin publishes the name %s only once its pod is Ready", r->host);
    if (o->type == KUBE_JOBSET &&
        yaml_to_bool(kube_get(o->spec, "network.publishNotReadyAddresses"), &published) &&
        !published)
        check_report_on(c, o, check_at_first(o->spec, "network.publishNotReadyAddresses"),
                        "the name %s is published only once its pod is Ready", r->host);
}

/* Marks the Service that gives the training pods which serve the store their names, POD.SERVICE of
 * a StatefulSet; JobSet makes none if there is one of this name. */
void check_find_name_givers(struct check *c, const struct job_run *r)
{
    const struct kube_object *o = r->target.pods == NULL ? NULL : r->target.pods->object;
    struct kube_target found;

    if (o != NULL &&
        (o->type == KUBE_STATEFULSET || o->type == KUBE_JOB || o->type == KUBE_JOBSET) &&
        (job_is_dynamic(r) || (r->hosted && job_is_multi_node(r))) &&
        kube_find_host(&c->bundle, o, r->target.pods->host_domain, &found) && found.service != NULL)
        c->marks[found.service->index] = true;
}

void check_not_ready_service(struct check *c, const struct kube_object *o)
{
    const struct job_store *s;

    if (o->type != KUBE_SERVICE || !kube_is_headless(o) ||
        kube_true(o->spec, "publishNotReadyAddresses"))
        return;
    s = job_server_behind(&c->jobs, o);
    if (c->marks[o->index] || c->is_endpoint[o->index] || (s != NULL && !check_is_foreign(c, s)))
        check_report(c, check_at_key(o->spec, "clusterIP"),
                     "the headless Service %s has an address only once its pod is Ready", o->name);
}

/* --- Names that are taken. --- */

/* `JOB-worker-0` and the like. */
static bool is_replica_name(const struct kube_pods *p, const char *name)
{
    size_t len;
    char *end;
    long index;

    if (p->object->type != KUBE_PYTORCHJOB || p->host_prefix == NULL)
        return false;
    len = strlen(p->host_prefix);
    if (strncmp(name, p->host_prefix, len) != 0 || name[len] == '\0')
        return false;
    index = strtol(name + len, &end, 10);
    return *end == '\0' && index >= 0 && (p->replicas < 0 || index < p->replicas);
}

/* The object whose controller creates the Service `o`. Index keys: the names of such Services, and
 * the names of pods without their index. */
static const struct kube_object *maker_of(struct check *c, const struct kube_object *o)
{
    size_t len = strlen(o->name);
    struct kube_hits hits = kube_index_find_part(&c->index, o->namespace, o->name, len);
    const struct kube_object *maker =
        hits.count == 0 ? NULL : c->bundle.objects[hits.list[hits.count - 1]];

    while (len > 0 && o->name[len - 1] >= '0' && o->name[len - 1] <= '9')
        len--;
    KUBE_FOREACH_HIT(hit, kube_index_find_part(&c->bundle.hosts, o->namespace, o->name, len)) {
        if (is_replica_name(c->bundle.pods[*hit.list], o->name))
            return c->bundle.pods[*hit.list]->object;
    }
    return maker;
}

/* The Service that a Volcano Job makes for itself; JobSet takes one that is there. */
void check_find_made_services(struct check *c, const struct kube_object *o)
{
    if (o->type == KUBE_VOLCANO_JOB && kube_has_plugin(o, "svc"))
        kube_index_add(&c->bundle.arena, &c->index, o->namespace, o->name, o->index);
}

void check_service_name_taken(struct check *c, const struct kube_object *o)
{
    const struct kube_object *maker =
        o->type == KUBE_SERVICE && *o->name != '\0' ? maker_of(c, o) : NULL;

    if (maker != NULL)
        check_report(c, check_at_first(o->node, "metadata.name"),
                     "the controller of %s makes a Service %s of its own", maker->title, o->name);
}

void check_enable_service_links(struct check *c, const struct kube_object *o)
{
    /* The one that links set and that torch or rdzvd reads. */
    const char *variable = strcmp(o->name, "master") == 0       ? "MASTER_PORT"
                           : strcmp(o->name, "pet-master") == 0 ? "PET_MASTER_PORT"
                           : strcmp(o->name, "rdzvd") == 0      ? "RDZVD_PORT"
                                                                : NULL;

    if (o->type != KUBE_SERVICE || variable == NULL || kube_is_headless(o) ||
        kube_is(o->spec, "type", "ExternalName"))
        return;
    KUBE_FOREACH_PODS(p, &c->bundle) {
        bool links = true;

        yaml_to_bool(kube_get(p->spec, "enableServiceLinks"), &links);
        if (!links || !kube_same_namespace(o, p->object) ||
            (!p->ends && job_runs_in(&c->jobs, p).count == 0 && job_store_in(&c->jobs, p) == NULL))
            continue;
        check_report(c, check_at_first(o->node, "metadata.name"),
                     "the Service %s sets %s=tcp://... in the pods of %s", o->name, variable,
                     p->object->title);
        break;
    }
}

/* --- Hosts that have no address. A name that is not in the files may be one of the cluster; the
 * rule speaks of those that are near enough to something here. --- */

/* If a namespace has more stores that no job uses, the rule does not guess which a name means. */
#define UNUSED_MAX 32

/* The Services of stores at which no job of these files meets, by namespace. */
void check_find_unused_stores(struct check *c, const struct kube_object *o)
{
    if (o->type == KUBE_SERVICE && *o->name != '\0' && !c->is_endpoint[o->index] &&
        job_server_behind(&c->jobs, o) != NULL)
        kube_index_add(&c->bundle.arena, &c->index, "", o->namespace, o->index);
}

/* The Service that the host was probably meant to be, by the part before the first dot. */
static const struct kube_object *service_near(struct check *c, const struct job_run *r)
{
    const char *label = arena_copy(&c->bundle.arena, r->host, strcspn(r->host, "."));
    const char *namespace = job_run_object(r)->namespace;
    struct kube_hits hits = kube_index_find(&c->index, "", namespace);
    const struct kube_object *found = NULL;
    struct nearest near = nearest_to(label);

    for (size_t i = 0; i < hits.count && hits.count <= UNUSED_MAX; i++) {
        const struct kube_object *service = c->bundle.objects[hits.list[i]];
        const char *before = near.found;

        nearest_try(&near, service->name);
        if (near.found != before)
            found = service;
    }
    return found;
}

/* Kinds that give their pods names which have no address without a Service. */
static bool has_named_pods(const struct kube_object *o)
{
    return o->type == KUBE_STATEFULSET || o->type == KUBE_JOB || o->type == KUBE_JOBSET ||
           o->type == KUBE_VOLCANO_JOB || o->type == KUBE_POD;
}

static const struct kube_pods *pod_of(struct check *c, const struct kube_object *from,
                                      const char *kind, enum kube_type type, const char *name,
                                      size_t len)
{
    KUBE_FOREACH_HIT(hit, kube_index_find_part(&c->bundle.named, kind, name, len)) {
        const struct kube_object *o = c->bundle.objects[*hit.list];

        if (o->type == type && kube_same_namespace(o, from) && o->pods_count > 0)
            return c->bundle.pods[o->first_pods];
    }
    return NULL;
}

/* The pods that include a pod of this name: a Pod's own name, or the name of an object with an
 * index. */
static const struct kube_pods *pod_named(struct check *c, const struct kube_object *from,
                                         const char *name, size_t len)
{
    const struct kube_pods *p = pod_of(c, from, "Pod", KUBE_POD, name, len);
    size_t prefix = len;

    while (prefix > 0 && name[prefix - 1] >= '0' && name[prefix - 1] <= '9')
        prefix--;
    if (p != NULL || prefix == len || prefix < 2 || name[prefix - 1] != '-')
        return p;
    KUBE_FOREACH_HIT(hit, kube_index_find_part(&c->bundle.hosts, from->namespace, name, prefix)) {
        if (has_named_pods(c->bundle.pods[*hit.list]->object))
            return c->bundle.pods[*hit.list];
    }
    return pod_of(c, from, "Job", KUBE_JOB, name, prefix - 1);
}

/* Whether no file defines the host name that pods look up in the cluster's DNS, or another source
 * for it. */
static bool host_is_unknown(const struct job_run *r)
{
    const struct kube_pods *p = r->container->pods;

    return job_is_dynamic(r) && job_is_multi_node(r) && !r->found && !r->local && !r->own_name &&
           !r->misnamed && *r->host != '\0' && strpbrk(r->host, "$`{[/,") == NULL &&
           r->host[strspn(r->host, "0123456789.")] != '\0' && !p->object->templated &&
           kube_get(p->spec, "hostAliases") == NULL && kube_get(p->spec, "dnsConfig") == NULL;
}

void check_endpoint_unknown(struct check *c, const struct job_run *r)
{
    const struct kube_object *near, *o = job_run_object(r);
    size_t len = strcspn(r->host, ".");
    const struct kube_pods *p = host_is_unknown(r) ? pod_named(c, o, r->host, len) : NULL;
    bool named;

    if (p != NULL && r->host[len] == '.' && p->object != o)
        p = NULL; /* behind a dot only the pods of the job itself are sure to be meant */
    named = p != NULL && p->host_prefix != NULL && *p->host_domain != '\0';
    if (p != NULL)
        check_report(c, check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                     "%s is no name of a Service%s%.*s%s%s", r->host,
                     named ? "; the pod has the address "
                           : ", and a pod has no address by its name",
                     named ? (int)len : 0, r->host, named ? "." : "", named ? p->host_domain : "");
    near = host_is_unknown(r) && p == NULL ? service_near(c, r) : NULL;
    if (near != NULL)
        check_report(c, check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                     "nothing in these files has the name %s; did you mean Service %s, which leads "
                     "to a store that no job uses?",
                     r->host, near->name);
}
