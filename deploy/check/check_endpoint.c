/* Rules about endpoints and the Services that they name. */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>

void check_endpoint_form(struct check *c)
{
    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];
        const struct job_setting *s = &r->settings[TORCHRUN_RDZV_ENDPOINT];
        const char *text = check_value(r, TORCHRUN_RDZV_ENDPOINT), *wrong = NULL;

        if (!job_is_dynamic(r) || !check_is_set(r, TORCHRUN_RDZV_ENDPOINT))
            continue;
        if (strstr(text, "://") != NULL)
            wrong = "a scheme";
        else if (s->value.known && strchr(text, ',') != NULL)
            wrong = "a list";
        else if (s->value.known && strchr(text, '/') != NULL)
            wrong = "a path";
        else if (s->value.known && r->port < 0)
            wrong = "something other than a number behind the last colon";
        if (wrong != NULL)
            check_report(c, job_run_object(r), check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                         "torch accepts HOST:PORT, but there is %s in `%s`", wrong, text);
    }
}

void check_endpoint_localhost(struct check *c)
{
    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];
        bool said = check_is_set(r, TORCHRUN_RDZV_ENDPOINT);
        bool alone = r->store != NULL && r->store->kind != JOB_STORE_RELAY &&
                     r->container->pods->replicas != 1;

        if (!job_is_dynamic(r) || !job_is_multi_node(r) || !r->local || r->hosted ||
            r->maybe_hosted || (r->store != NULL && !alone) || (!said && check_is_opaque(r)) ||
            check_next_never_ready(c, r->container->pods, NULL) != NULL)
            continue; /* the last: a store is there, and another rule says what is wrong with it */
        if (alone)
            check_report(c, job_run_object(r), check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                         "each pod meets at a store of its own: %s has no --upstream",
                         r->store->container->name);
        else
            check_report(c, job_run_object(r),
                         check_at_setting(r, said ? TORCHRUN_RDZV_ENDPOINT : TORCHRUN_RDZV_BACKEND),
                         "%s, and no store listens in the pod itself",
                         said ? "the endpoint is this pod's own loopback"
                              : "without an endpoint, torch uses this pod's own loopback");
    }
}

/* --- Ports. --- */

static const char *port_list(struct check *c, const struct kube_object *service)
{
    const struct yaml_node *ports = kube_get(service->spec, "ports");
    const char *text = "";

    for (size_t i = 0; i < yaml_length(ports) && i < 8; i++)
        text = arena_text(&c->bundle.arena, "%s%s%s", text, i == 0 ? "" : ", ",
                          kube_text(ports->items[i], "port"));
    return text;
}

static bool listens_on(const struct job_listener *l, size_t count, long port)
{
    for (size_t i = 0; i < count; i++) {
        if (l[i].port == port)
            return true;
    }
    return false;
}

/* Whether it is known that the store does not listen there. Without listeners it uses its
 * defaults. */
static bool is_deaf(struct check *c, const struct job_store *s, long port)
{
    struct job_listener l[JOB_LISTENERS_MAX];
    size_t count;

    if (s == NULL || port <= 0 || !job_store_listeners(&c->jobs, s, true, l, &count))
        return false;
    if (count == 0)
        return port != 2379 && port != 2380 && (s->kind == JOB_STORE_ETCD || port != 29400);
    return !listens_on(l, count, port);
}

void check_endpoint_port(struct check *c)
{
    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];
        const struct kube_object *service = r->target.service;
        const struct job_store *store = r->store;
        struct check_position at = check_at_setting(r, TORCHRUN_RDZV_ENDPOINT);

        if (!job_is_dynamic(r) || r->port <= 0)
            continue;
        if (service != NULL) {
            if (!check_has_port(service, r->port))
                check_report(c, job_run_object(r), at, "Service %s has no port %ld%s%s%s",
                             service->name, r->port,
                             *port_list(c, service) == '\0' ? "" : " (it has ",
                             port_list(c, service), *port_list(c, service) == '\0' ? "" : ")");
        } else if (is_deaf(c, store, r->port)) {
            check_report(c, job_run_object(r), at, "%s in %s does not listen on port %ld",
                         store->container->name, check_title(c, store->container->pods->object),
                         r->port);
        }
    }
}

void check_endpoint_namespace(struct check *c)
{
    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];
        const struct kube_object *o = r->target.service != NULL ? r->target.service
                                      : r->target.pods != NULL  ? r->target.pods->object
                                                                : NULL;

        if (!job_is_dynamic(r) || !r->found || r->target.reach == KUBE_REACHED)
            continue;
        if (r->target.reach == KUBE_ELSEWHERE)
            check_report(c, job_run_object(r), check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                         "%s is in namespace %s, but this job is in %s", check_title(c, o),
                         o->namespace, job_run_object(r)->namespace);
        else
            check_report(c, job_run_object(r), check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                         "%s has no namespace: kubectl puts it into the namespace of its context, "
                         "and the two meet only if that is %s",
                         check_title(c, *o->namespace == '\0' ? o : job_run_object(r)),
                         *o->namespace == '\0' ? job_run_object(r)->namespace : o->namespace);
    }
}

void check_service_selects_nothing(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const struct yaml_node *selector = kube_get(o->spec, "selector");

        if (o->type == KUBE_SERVICE && selector != NULL && check_is_endpoint(c, o) &&
            kube_next_selected(&c->bundle, o, NULL) == NULL)
            check_report(
                c, o, check_at_key(o->spec, "selector"),
                "clients of a store use Service %s, but its selector matches no pod of these files",
                o->name);
    }
}

/* The Service selects a store, or a job uses it as endpoint. */
static bool leads_to_store(struct check *c, const struct kube_object *service)
{
    return check_is_endpoint(c, service) || job_server_behind(&c->jobs, service) != NULL;
}

/* The pods behind a Service; those with a store come first. */
static const struct kube_pods *pods_behind(const struct check *c, const struct kube_object *service)
{
    const struct job_store *s = job_server_behind(&c->jobs, service);

    return s == NULL ? kube_next_selected(&c->bundle, service, NULL) : s->container->pods;
}

static void look_at_target(struct check *c, const struct kube_object *service,
                           const struct yaml_node *port, const struct kube_pods *p)
{
    const struct yaml_node *target = kube_get(port, "targetPort");
    struct check_position at = check_at_first(port, "targetPort port");
    long number;

    if (target == NULL)
        target = kube_get(port, "port");
    number = kube_port_number(target, p, NULL);
    if (number < 0 && yaml_type(target) == YAML_STRING)
        check_report(c, service, at, "no port of the selected pods is named `%s`",
                     yaml_text(target) == NULL ? "?" : yaml_text(target));
    else if (is_deaf(c, job_server_in(&c->jobs, p), number))
        check_report(c, service, at, "%s does not listen on port %ld",
                     job_server_in(&c->jobs, p)->container->name, number);
}

void check_service_target_port(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const struct yaml_node *ports = kube_get(o->spec, "ports");
        const struct kube_pods *p;

        if (o->type != KUBE_SERVICE || !leads_to_store(c, o))
            continue;
        p = pods_behind(c, o);
        for (size_t j = 0; p != NULL && j < yaml_length(ports); j++)
            look_at_target(c, o, ports->items[j], p);
    }
}

void check_headless_port_mapping(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const struct yaml_node *ports = kube_get(o->spec, "ports");
        const struct kube_pods *p;

        if (o->type != KUBE_SERVICE || !kube_is_headless(o) || !leads_to_store(c, o))
            continue;
        p = pods_behind(c, o);
        for (size_t j = 0; p != NULL && j < yaml_length(ports); j++) {
            const struct yaml_node *target = kube_get(ports->items[j], "targetPort");
            long to = kube_port_number(target, p, NULL);
            long from = kube_int(ports->items[j], "port", -1);

            if (target != NULL && to > 0 && from > 0 && from != to)
                check_report(
                    c, o, check_at(target),
                    "the Service is headless, so nothing maps port %ld to %ld: clients dial %ld",
                    from, to, from);
        }
    }
}

/* --- Names before pods are Ready. --- */

static bool has_argument(const struct yaml_node *list, const char *argument)
{
    for (size_t i = 0; i < yaml_length(list); i++) {
        if (yaml_is(list->items[i], argument))
            return true;
    }
    return false;
}

/* The endpoint is the name of a pod, made by the svc plugin or by a JobSet. */
static void look_at_pod_name(struct check *c, const struct job_run *r)
{
    const struct kube_object *o = r->target.pods->object;
    const struct yaml_node *plugins = kube_get(o->spec, "plugins"), *svc = yaml_get(plugins, "svc");
    bool published;

    if (o->type == KUBE_VOLCANO_JOB && !has_argument(svc, "--publish-not-ready-addresses=true") &&
        !has_argument(svc, "--publish-not-ready-addresses"))
        check_report(c, o, check_at_key(plugins, "svc"),
                     "the svc plugin publishes the name %s only once its pod is Ready", r->host);
    if (o->type == KUBE_JOBSET &&
        yaml_to_bool(kube_get(o->spec, "network.publishNotReadyAddresses"), &published) &&
        !published)
        check_report(c, o, check_at_first(o->spec, "network.publishNotReadyAddresses"),
                     "the name %s is published only once its pod is Ready", r->host);
}

/* By index of objects: the Services that give training pods which serve a store their names,
 * POD.SERVICE of a StatefulSet. */
static const bool *name_givers(struct check *c)
{
    bool *givers = arena_alloc(&c->bundle.arena, c->bundle.count + 1);

    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];
        const struct kube_object *o = r->target.pods == NULL ? NULL : r->target.pods->object;
        struct kube_target found;

        if (o != NULL && o->type == KUBE_STATEFULSET && job_is_dynamic(r) &&
            kube_find_host(&c->bundle, o, kube_text(o->spec, "serviceName"), &found) &&
            found.service != NULL)
            givers[found.service->index] = true;
    }
    return givers;
}

void check_not_ready_addresses(struct check *c)
{
    const bool *givers = name_givers(c);

    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const struct job_store *s;

        if (o->type != KUBE_SERVICE || !kube_is_headless(o) ||
            kube_true(o->spec, "publishNotReadyAddresses"))
            continue;
        s = job_server_behind(&c->jobs, o);
        if (givers[o->index] || check_is_endpoint(c, o) || (s != NULL && !check_is_foreign(c, s)))
            check_report(c, o, check_at_key(o->spec, "clusterIP"),
                         "the headless Service %s has an address only once its pod is Ready",
                         o->name);
    }
    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];

        if (job_is_dynamic(r) && r->target.pods != NULL)
            look_at_pod_name(c, r);
    }
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

/* Whose controller makes a Service of this name: by names of Services, and by names of pods without
 * their index. */
static const struct kube_object *maker_of(struct check *c, const struct kube_index *made,
                                          const struct kube_object *o)
{
    size_t len = strlen(o->name);
    struct kube_hits hits = kube_index_find(made, o->namespace, o->name, len);
    const struct kube_object *maker =
        hits.count == 0 ? NULL : c->bundle.objects[hits.list[hits.count - 1]];

    while (len > 0 && o->name[len - 1] >= '0' && o->name[len - 1] <= '9')
        len--;
    hits = kube_index_find(&c->bundle.hosts, arena_text(&c->bundle.arena, "%s.", o->namespace),
                           o->name, len);
    for (size_t i = 0; i < hits.count; i++) {
        if (is_replica_name(c->bundle.pods[hits.list[i]], o->name))
            return c->bundle.pods[hits.list[i]]->object;
    }
    return maker;
}

void check_service_name_taken(struct check *c)
{
    struct kube_index made = {0};

    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];

        if (*kube_made_service(o) != '\0')
            kube_index_add(&c->bundle.arena, &made, o->namespace, kube_made_service(o), i);
    }
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i], *maker;

        if (o->type != KUBE_SERVICE || *o->name == '\0')
            continue;
        maker = maker_of(c, &made, o);
        if (maker != NULL)
            check_report(c, o, check_at_first(o->node, "metadata.name"),
                         "the controller of %s makes a Service %s of its own",
                         check_title(c, maker), o->name);
    }
}

/* The variable that the links of this Service set and that torch or rdzvd reads, or NULL. */
static const char *linked_variable(const char *service)
{
    return strcmp(service, "master") == 0       ? "MASTER_PORT"
           : strcmp(service, "pet-master") == 0 ? "PET_MASTER_PORT"
           : strcmp(service, "rdzvd") == 0      ? "RDZVD_PORT"
                                                : NULL;
}

void check_enable_service_links(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const char *variable = linked_variable(o->name);

        if (o->type != KUBE_SERVICE || variable == NULL || kube_is_headless(o) ||
            strcmp(kube_text(o->spec, "type"), "ExternalName") == 0)
            continue;
        for (size_t j = 0; j < c->bundle.pod_count; j++) {
            const struct kube_pods *p = c->bundle.pods[j];
            bool links = true;

            yaml_to_bool(kube_get(p->spec, "enableServiceLinks"), &links);
            if (!links || !kube_same_namespace(o, p->object) ||
                (!check_trains(c, p) && job_store_in(&c->jobs, p) == NULL))
                continue;
            check_report(c, o, check_at_first(o->node, "metadata.name"),
                         "the Service %s sets %s=tcp://... in the pods of %s", o->name, variable,
                         check_title(c, p->object));
            break;
        }
    }
}
