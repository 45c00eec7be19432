/* Recognises an etcd, refuses those that rdzvd cannot replace, and edits the objects around it. */
#include "deploy/rewrite/rewrite_plan.h"

#include "deploy/yaml/options.h"

#include <string.h>

/* --- What else refers to it: addresses in texts. --- */

/* Whether the scalar of this key names the Service as an address: NAME or NAME.NAMESPACE... with a
 * port behind it, or as the whole value of a variable like ETCD_HOST. */
static bool is_address(const struct yaml_node *n, const char *key, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = strstr(n->text, name); len > 0 && p != NULL; p = strstr(p + 1, name)) {
        const char *end = p + len;
        char before = p == n->text ? '\0' : p[-1];

        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", before) !=
                NULL &&
            before != '\0')
            continue;
        if (*end == '.')
            end += strspn(end, ".abcdefghijklmnopqrstuvwxyz0123456789-");
        if (*end == ':' && end[1] >= '0' && end[1] <= '9')
            return true;
        if (*end == '\0' && before == '\0' && strcasestr(key, "etcd") != NULL)
            return true;
    }
    return false;
}

/* Whether it names the Service in the backend of an Ingress, or of a route of a gateway. */
static bool is_backend(const struct yaml_node *n, const char *key, const char *name)
{
    return text_is(key, "name", "serviceName") && yaml_is(n, name);
}

/* The first scalar within a node that names the Service in this way. */
static const struct yaml_node *
named_in(const struct yaml_node *n, const char *key, const char *name,
         bool (*names)(const struct yaml_node *n, const char *key, const char *name))
{
    const struct yaml_node *found = NULL;

    if (n == NULL || n->alias)
        return NULL;
    if (n->kind == YAML_SCALAR)
        return names(n, key, name) ? n : NULL;
    for (size_t i = 0; i < n->count && found == NULL; i++) {
        const char *inner = n->kind == YAML_SEQUENCE ? key : n->pairs[i].key->text;

        if (strcmp(inner, "value") == 0)
            inner = kube_text(n, "name"); /* of a variable */
        found = named_in(yaml_child(n, i), inner, name, names);
    }
    return found;
}

/* Jobs have their own notes, Services and policies their edits. */
static bool may_refer(const struct rewrite *w, const struct etcd *e, const struct kube_object *o)
{
    return o != e->object && !w->marks[o->index].trains && o->type != KUBE_SERVICE &&
           o->type != KUBE_NETWORK_POLICY && o->type != KUBE_APPWRAPPER && o->type != KUBE_MCAD &&
           kube_same_namespace(o, e->object);
}

/* --- References of known kinds. --- */

struct referrer {
    struct rewrite *w;
    const struct etcd *etcd;
    const char *kind; /* of the workload that comes */
    const struct kube_object *object;
};

/* Notes an autoscaler of the etcd: an object of any kind whose targetRef names it. */
static bool note_scaler(const struct referrer *r)
{
    const struct kube_object *etcd = r->etcd->object;

    FOREACH_WORD(path, "targetRef", "scaleTargetRef") {
        const struct yaml_node *target = kube_get(r->object->spec, path);

        if (!kube_is(target, "kind", etcd->kind) || !kube_is(target, "name", etcd->name))
            continue;
        if (strcmp(r->kind, etcd->kind) != 0)
            rewrite_note(r->w, target,
                         "%s is for %s, which goes: delete it; rdzvd, a %s, needs no autoscaler",
                         r->object->title, etcd->title, r->kind);
        else
            rewrite_note(r->w, target,
                         "%s scales %s, which is rdzvd now: delete it; a second store, or a store "
                         "that it restarts, ends the runs of the first",
                         r->object->title, etcd->title);
        return true;
    }
    return false;
}

/* A ServiceMonitor of its Services, or a PodMonitor of its pods. */
static bool note_monitor(const struct referrer *r)
{
    const struct yaml_node *selector = kube_get(r->object->spec, "selector");
    bool found = (strcmp(r->object->kind, "PodMonitor") == 0 && selector != NULL &&
                  kube_selects_by(selector, r->etcd->container->pods)) ||
                 (strcmp(r->object->kind, "ServiceMonitor") == 0 && selector != NULL &&
                  ANY(ETCD_FOREACH_SERVICE(s, r->etcd),
                      kube_has_labels(s, kube_get(selector, "matchLabels"))));

    if (found)
        rewrite_note(r->w, selector,
                     "%s scrapes this etcd: rdzvd has figures of its own at /metrics, so alerts on "
                     "etcd_ names find none: replace them by those of deploy/monitoring",
                     r->object->title);
    return found;
}

static bool note_route(const struct referrer *r)
{
    bool route =
        strcmp(r->object->kind, "Ingress") == 0 || text_ends_with(r->object->kind, "Route");

    ETCD_FOREACH_SERVICE(s, r->etcd) {
        const struct yaml_node *at =
            route ? named_in(r->object->spec, "", s->name, is_backend) : NULL;

        if (at == NULL)
            continue;
        rewrite_note(r->w, at,
                     "%s leads to %s, behind which rdzvd is now: its clients find etcd's v2 API "
                     "there, and no v3: delete it, unless they use v2",
                     r->object->title, s->title);
        return true;
    }
    return false;
}

static void note_mention(const struct referrer *r)
{
    ETCD_FOREACH_SERVICE(s, r->etcd) {
        const struct yaml_node *at = named_in(r->object->node, "", s->name, is_address);

        if (at == NULL)
            continue;
        rewrite_note(r->w, at,
                     "%s names %s, behind which rdzvd is now: what reads this may speak etcd's v2 "
                     "API, and no v3",
                     r->object->title, s->title);
        return;
    }
    if (strstr(kube_print(&r->w->arena, r->object->node), "etcdctl") != NULL)
        rewrite_note(r->w, r->object->node,
                     "%s runs etcdctl: if it means this etcd, it may speak v2 to rdzvd, and no v3",
                     r->object->title);
}

/* Notes each object that refers to the etcd or to its Service, and the effect when rdzvd, a
 * workload of this kind, replaces the etcd. rewrite changes none of these objects. */
static void note_referrers(struct rewrite *w, const struct etcd *e, const char *kind)
{
    KUBE_FOREACH(o, &w->bundle) {
        struct referrer r = {w, e, kind, o};

        if (may_refer(w, e, o) && !note_scaler(&r) && !note_monitor(&r) && !note_route(&r))
            note_mention(&r);
    }
}

/* --- Finding. --- */

/* Only these can be replaced by another workload. */
static bool is_candidate(const struct job_store *s)
{
    const struct kube_object *o = job_store_object(s);

    return s->kind == JOB_STORE_ETCD && !s->container->init &&
           (o->type == KUBE_POD || o->type == KUBE_STATEFULSET || o->type == KUBE_JOB ||
            strcmp(o->kind, "Deployment") == 0);
}

/* Every client port once, and the port for other members. */
static bool read_client_ports(struct rewrite *w, struct etcd *e, const struct job_store *s)
{
    struct job_listeners l = job_store_listeners(&w->jobs, s, true);

    e->peer_port = 2380;
    for (size_t i = l.count; i > 0; i--) {
        if (strcmp(l.list[i - 1].option, "listen-peer-urls") == 0)
            e->peer_port = l.list[i - 1].port;
    }
    for (size_t i = 0; i < l.count; i++) {
        long port = l.list[i].port > 0 && l.list[i].port <= 65535 ? l.list[i].port : ETCD_PORT;
        size_t k = 0;

        if (strcmp(l.list[i].option, "listen-client-urls") != 0)
            continue;
        if (l.list[i].tls)
            return rewrite_error(w, e->container->node,
                                 "this etcd serves TLS, which rdzvd does not: leave it, or serve "
                                 "http inside of the cluster");
        while (k < e->port_count && e->ports[k] != port)
            k++;
        if (k == e->port_count)
            e->ports[e->port_count++] = port;
    }
    if (e->port_count == 0)
        e->ports[e->port_count++] = ETCD_PORT;
    return true;
}

/* Whether rdzvd can replace it. */
static bool judge(struct rewrite *w, struct etcd *e, const struct job_store *s)
{
    const struct kube_pods *p = e->container->pods;
    const struct yaml_node *containers = kube_get(p->spec, "containers");
    const char *members = job_store_option(&w->jobs, e->container, "initial-cluster", NULL);

    if (p->replicas > 1 || (members != NULL && strchr(members, ',') != NULL))
        return rewrite_error(w, e->object->node,
                             "this is an etcd of several members, which one rdzvd cannot replace: "
                             "leave it, or make it one member first");
    if (containers->count > 1)
        return rewrite_error(
            w, containers,
            "there are other containers beside etcd: move them to a pod of their own first");
    if (*e->object->name == '\0' || strstr(e->object->name, "{{") != NULL)
        return rewrite_error(w, e->object->node, "this etcd has no name: give it one");
    return read_client_ports(w, e, s);
}

static bool is_chosen(const struct rewrite *w, const struct kube_object *o)
{
    const char *want = w->options->etcd, *slash = want == NULL ? NULL : strchr(want, '/');

    if (slash == NULL)
        return want == NULL || strcmp(want, o->name) == 0;
    return strlen(o->namespace) == (size_t)(slash - want) &&
           memcmp(want, o->namespace, (size_t)(slash - want)) == 0 &&
           strcmp(slash + 1, o->name) == 0;
}

static void find_services(struct rewrite *w, struct etcd *e)
{
    size_t size = (w->bundle.count + 1) * sizeof(struct kube_object *);

    e->services = arena_alloc(&w->arena, size);
    e->wanted = arena_alloc(&w->arena, size);
    KUBE_FOREACH(o, &w->bundle) {
        if (o->type == KUBE_SERVICE && kube_same_namespace(o, e->object) &&
            kube_selects(kube_get(o->spec, "selector"), e->container->pods))
            e->services[e->service_count++] = o;
    }
}

/* --- Whether it is torch's. --- */

/* The object that uses a value of a ConfigMap: pods that read it as a variable, except those of
 * jobs, which have notes of their own (NULL: there are no others); the ConfigMap, if none reads it.
 */
static const struct kube_object *reader_of(struct rewrite *w, const struct kube_object *map,
                                           const struct yaml_node *value)
{
    const struct kube_object *found = map;

    KUBE_FOREACH_PODS(p, &w->bundle) {
        KUBE_FOREACH_CONTAINER(c, p) {
            if (!ANY(JOB_FOREACH_VARIABLE(one, &w->jobs, c), one->value == value))
                continue;
            if (!w->marks[p->object->index].trains)
                return p->object;
            found = NULL;
        }
    }
    return found;
}

/* Something of the bundle, beside jobs that meet there, that uses the etcd, too; or NULL. */
static const struct kube_object *other_user(struct rewrite *w, const struct etcd *e)
{
    KUBE_FOREACH(o, &w->bundle) {
        ETCD_FOREACH_SERVICE(s, may_refer(w, e, o) ? e : &(struct etcd){0}) {
            const struct yaml_node *at = named_in(o->node, "", s->name, is_address);
            const struct kube_object *user =
                at != NULL && o->type == KUBE_CONFIG_MAP ? reader_of(w, o, at) : o;

            if (at != NULL && user != NULL && strcmp(s->name, o->name) != 0)
                return user;
        }
    }
    return NULL;
}

/* The reason why other programs than torch may use this etcd, or NULL. */
static const char *why_not_torchs(struct rewrite *w, const struct etcd *e,
                                  const struct job_store *s)
{
    const struct kube_object *other;

    if (!ANY(FOREACH_POINTER(struct job_run, r, w->jobs.runs, w->jobs.all_count),
             etcd_serves(e, r)))
        return "no job of these files meets there (name the files of its jobs, too)";
    if (job_etcd_lacks_v2(&w->jobs, s))
        return "it serves no v2 API (--enable-v2 is not set), and torch uses no other";
    other = other_user(w, e);
    return other == NULL
               ? NULL
               : arena_text(&w->arena, "%s uses it, too, which rdzvd cannot serve if it speaks v3",
                            other->title);
}

size_t etcd_find(struct rewrite *w, struct etcd **out)
{
    size_t count = 0, meant = 0;

    *out = arena_alloc(&w->arena, (w->jobs.store_count + 1) * sizeof **out);
    for (size_t i = 0; i < w->jobs.store_count && w->diag->errors == 0; i++) {
        const struct job_store *s = &w->jobs.stores[i];
        const struct kube_object *o = job_store_object(s);
        struct etcd e = {.object = o, .container = s->container};
        const char *why = NULL;

        if (!is_candidate(s) || !is_chosen(w, o) || kube_is_template(o))
            continue;
        meant++;
        find_services(w, &e);
        if (w->options->etcd == NULL)
            why = why_not_torchs(w, &e, s);
        w->has_left = w->has_left || why != NULL;
        if (why != NULL)
            rewrite_note(w, o->node,
                         "%s is an etcd, and rewrite leaves it: %s; --etcd=%s%s%s replaces it",
                         o->title, why, o->namespace, *o->namespace == '\0' ? "" : "/", o->name);
        else if (judge(w, &e, s))
            (*out)[count++] = e;
    }
    if (meant == 0 && w->options->etcd != NULL)
        options_error(w->diag, "there is no etcd named %s", w->options->etcd);
    return w->diag->errors > 0 ? 0 : count;
}

bool etcd_serves(const struct etcd *e, const struct job_run *r)
{
    if (!r->found || r->target.reach == KUBE_ELSEWHERE)
        return false;
    if (r->target.pods != NULL)
        return r->target.pods == e->container->pods;
    return kube_same_namespace(r->target.service, e->object) &&
           kube_selects(kube_get(r->target.service->spec, "selector"), e->container->pods);
}

static bool is_wanted_service(const struct etcd *e, const struct kube_object *s)
{
    return ANY(FOREACH_POINTER(const struct kube_object, o, e->wanted, e->wanted_count), o == s);
}

/* The Service of that name, or of the domain of a pod name. */
void etcd_want(struct etcd *e, const struct job_run *r)
{
    const struct kube_object *s = r->target.service;

    if (s == NULL)
        s = FIND(one, ETCD_FOREACH_SERVICE(one, e),
                 strcmp(one->name, r->target.pods->host_domain) == 0);
    if (s != NULL && !is_wanted_service(e, s))
        e->wanted[e->wanted_count++] = s;
}

/* --- Its Services. --- */

/* Whether a port of a Service or of a policy is this port of the container, by number or by
 * name. */
static bool leads_to(const struct etcd *e, const struct yaml_node *port, const char *key,
                     long number)
{
    const struct yaml_node *target = kube_get(port, key);

    if (target == NULL)
        target = kube_get(port, "port");
    return kube_port_number(target, e->container->pods, e->container) == number;
}

static void publish_early(struct rewrite *w, const struct kube_object *s)
{
    const struct yaml_pair *pair = yaml_get_pair(s->spec, "publishNotReadyAddresses");

    if (kube_true(s->spec, "publishNotReadyAddresses"))
        return;
    if (pair != NULL)
        edit_value(w, pair->value, "true");
    else
        edit_add_pair(w, s->spec, yaml_get_pair(s->spec, "clusterIP"), false,
                      "publishNotReadyAddresses: true\n");
    rewrite_note(w, s->node, "%s: it now publishes the address before the pod is ready", s->title);
}

static void remove_service(struct rewrite *w, const struct kube_object *s)
{
    rewrite_note(w, s->node, "%s leads to the peer port alone: rewrite removes it", s->title);
    if (s->list != NULL)
        edit_remove_item(w, s->list, s->item);
    else if (s->wrapper == NULL)
        edit_remove_document(w, s->doc);
    else
        rewrite_error(w, s->node, "%s leads to the peer port alone: remove it from its AppWrapper",
                      s->title);
}

/* If there are two ports, each needs a name. */
static void add_c10d_port(struct rewrite *w, const struct kube_object *s,
                          const struct yaml_node *ports, size_t last, size_t left)
{
    const struct yaml_node *protocol = yaml_get(ports->items[last], "protocol");
    const struct yaml_pair *first = yaml_get_pair(ports->items[last], "port");

    if (left == 1 && yaml_get(ports->items[last], "name") == NULL && first != NULL)
        edit_add_pair(w, ports->items[last], first, true, "name: etcd\n");
    edit_add_item(w, ports, last, false,
                  arena_text(&w->arena, "name: c10d\nport: %d\n%stargetPort: %d\n", C10D_PORT,
                             protocol == NULL ? "" : "protocol: TCP\n", C10D_PORT));
    rewrite_note(w, s->node, "%s: rewrite adds port %d, for c10d", s->title, C10D_PORT);
}

static void rewrite_service(struct rewrite *w, const struct etcd *e, const struct kube_object *s,
                            bool c10d)
{
    const struct yaml_node *ports = kube_get(s->spec, "ports");
    size_t count = yaml_length(ports), left = 0, last = 0;
    bool has_c10d = e->ports[0] == C10D_PORT;

    for (size_t i = 0; i < count; i++) {
        if (leads_to(e, ports->items[i], "targetPort", e->peer_port))
            continue;
        has_c10d = has_c10d || leads_to(e, ports->items[i], "targetPort", C10D_PORT);
        left++;
        last = i;
    }
    if (count > 0 && left == 0) {
        remove_service(w, s);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (!leads_to(e, ports->items[i], "targetPort", e->peer_port))
            continue;
        edit_remove_item(w, ports, i);
        rewrite_note(w, ports->items[i], "%s: rewrite removes the peer port", s->title);
    }
    if (kube_is_headless(s))
        publish_early(w, s);
    if (c10d && !has_c10d && left > 0)
        add_c10d_port(w, s, ports, last, left);
}

/* Whether the rule is for etcd's port and, beside it, not yet for c10d's; *at is the entry. */
static bool has_etcd_port(const struct etcd *e, const struct yaml_node *rule, size_t *at)
{
    const struct yaml_node *ports = kube_get(rule, "ports");
    bool found = false;

    for (size_t i = 0; i < yaml_length(ports); i++) {
        if (leads_to(e, ports->items[i], "port", C10D_PORT))
            return false;
        if (!found && leads_to(e, ports->items[i], "port", e->ports[0])) {
            found = true;
            *at = i;
        }
    }
    return found;
}

/* Rules that name pods of this namespace, and not the etcd, are for another one. */
static bool may_lead_to_etcd(const struct etcd *e, const struct kube_object *o,
                             const struct yaml_node *rule)
{
    const struct yaml_node *peers = kube_get(rule, "to");

    YAML_FOREACH(peer, peers) {
        const struct yaml_node *pods = kube_get(peer, "podSelector");

        if (kube_get(peer, "ipBlock") != NULL ||
            ((kube_get(peer, "namespaceSelector") != NULL || kube_same_namespace(o, e->object)) &&
             (pods == NULL || kube_selects_by(pods, e->container->pods))))
            return true;
    }
    return yaml_length(peers) == 0;
}

/* A policy that admits clients to etcd's port must admit them to c10d's too, and so must one of the
 * clients let them out to it. */
static void open_c10d_port(struct rewrite *w, const struct etcd *e, const struct kube_object *o,
                           bool ingress)
{
    const struct yaml_node *rules = kube_get(o->spec, ingress ? "ingress" : "egress");
    size_t at;

    YAML_FOREACH(rule, rules) {
        if (!has_etcd_port(e, rule, &at) || (!ingress && !may_lead_to_etcd(e, o, rule)))
            continue;
        edit_add_item(w, kube_get(rule, "ports"), at, false,
                      arena_text(&w->arena, "protocol: TCP\nport: %d\n", C10D_PORT));
        rewrite_note(w, o->node, "%s: it now %s to port %d, too", o->title,
                     ingress ? "admits clients" : "lets its pods out", C10D_PORT);
    }
}

/* Whether the policy selects pods of a job that meets there. */
static bool is_of_clients(const struct rewrite *w, const struct etcd *e,
                          const struct kube_object *policy)
{
    return ANY(FOREACH_POINTER(struct job_run, r, w->jobs.runs, w->jobs.count),
               etcd_serves(e, r) && kube_same_namespace(job_run_object(r), policy) &&
                   kube_selects_by(kube_get(policy->spec, "podSelector"), r->container->pods));
}

static void rewrite_policies(struct rewrite *w, const struct etcd *e)
{
    KUBE_FOREACH(o, &w->bundle) {
        if (o->type != KUBE_NETWORK_POLICY || w->marks[o->index].edited)
            continue;
        if (kube_same_namespace(o, e->object) &&
            kube_selects_by(kube_get(o->spec, "podSelector"), e->container->pods)) {
            w->marks[o->index].edited = true;
            open_c10d_port(w, e, o, true);
        }
        if (is_of_clients(w, e, o)) {
            w->marks[o->index].edited = true;
            open_c10d_port(w, e, o, false);
        }
    }
}

static void rewrite_around(struct rewrite *w, const struct etcd *e, bool c10d)
{
    ETCD_FOREACH_SERVICE(s, e) {
        if (w->marks[s->index].edited)
            continue; /* it selects an earlier etcd, too */
        w->marks[s->index].edited = true;
        rewrite_service(w, e, s,
                        c10d && (yaml_length(kube_get(s->spec, "ports")) > 1 ||
                                 kube_is_headless(s) || is_wanted_service(e, s)));
    }
    if (c10d && e->ports[0] != C10D_PORT)
        rewrite_policies(w, e);
}

/* --- The store in its place. --- */

/* Whether the Service has more ports than the peer port, and so stays. */
static bool serves_clients(const struct etcd *e, const struct kube_object *s)
{
    const struct yaml_node *ports = kube_get(s->spec, "ports");

    return yaml_length(ports) == 0 ||
           ANY(YAML_FOREACH(port, ports), !leads_to(e, port, "targetPort", e->peer_port));
}

/* Its own serviceName, or the headless Service that selects it, or any Service. */
static const char *service_name(const struct etcd *e)
{
    const char *own = kube_text(e->object->spec, "serviceName");
    const struct kube_object *found =
        FIND(s, ETCD_FOREACH_SERVICE(s, e), serves_clients(e, s) && kube_is_headless(s));

    if (*own != '\0' && e->object->type == KUBE_STATEFULSET)
        return own;
    if (found == NULL)
        found = FIND(s, ETCD_FOREACH_SERVICE(s, e), serves_clients(e, s));
    return found == NULL ? e->object->name : found->name;
}

/* A Service may name the port. */
static const char *etcd_port_name(const struct etcd *e)
{
    ETCD_FOREACH_SERVICE(s, e) {
        YAML_FOREACH(port, kube_get(s->spec, "ports")) {
            const struct yaml_node *target = kube_get(port, "targetPort");
            int64_t n;

            if (yaml_text(target) != NULL && !yaml_to_int(target, &n) &&
                leads_to(e, port, "targetPort", e->ports[0]))
                return yaml_text(target);
        }
    }
    return "etcd";
}

static void note_losses(struct rewrite *w, const struct etcd *e)
{
    const struct kube_object *o = e->object;

    FOREACH_WORD(field, "initContainers", "volumes", "hostNetwork") {
        const struct yaml_node *n = kube_get(e->container->pods->spec, field);

        if (n != NULL && !yaml_is(n, "false"))
            rewrite_note(w, n, "%s: rewrite drops its %s, which rdzvd does not need", o->title,
                         field);
    }
    if (o->type == KUBE_STATEFULSET)
        rewrite_note(
            w, o->node,
            "%s: its selector changes, and a cluster refuses that: delete the old one first",
            o->title);
    if (o->wrapper != NULL)
        rewrite_note(w, o->node,
                     "%s never ends, so its AppWrapper never ends: move it out of the AppWrapper",
                     o->title);
}

/* Workers can reach what agents can reach: the name that the jobs use, or the headless one of
 * several. */
static const char *address_of(struct rewrite *w, const struct etcd *e)
{
    const struct kube_object *s = e->wanted_count == 0 ? NULL : e->wanted[0];

    if (w->options->relay) /* else the store goes by the address that each agent has */
        return e->direct > 0 ? NULL : arena_text(&w->arena, "localhost:%d", C10D_PORT);

    FOREACH_POINTER(const struct kube_object, other, e->wanted, e->wanted_count) {
        if (kube_is_headless(other) && !kube_is_headless(s))
            s = other;
    }
    return s == NULL ? NULL
                     : arena_text(&w->arena, "%s%s%s:%d", s->name, *s->namespace == '\0' ? "" : ".",
                                  s->namespace, C10D_PORT);
}

/* In the form that storeWorkload of parts.yaml expects. */
static struct yaml_node *describe_found(struct rewrite *w, const struct etcd *e, const char *kind)
{
    struct arena *a = &w->arena;
    struct yaml_node *found = yaml_new(a, YAML_MAPPING);
    struct yaml_node *ports = yaml_put_new(a, found, "morePorts", YAML_SEQUENCE);

    yaml_put_text(a, found, "kind", kind);
    yaml_put(a, found, "object", e->object->node);
    yaml_put(a, found, "podMeta", e->container->pods->meta);
    yaml_put(a, found, "pod", e->container->pods->spec);
    yaml_put_text(a, found, "portName", etcd_port_name(e));
    for (size_t i = 1; i < e->port_count; i++)
        yaml_append(a, ports, yaml_new_number(a, e->ports[i]));
    return found;
}

static void note_replaced(struct rewrite *w, const struct etcd *e, const char *kind)
{
    const struct kube_object *o = e->object;
    bool pod = o->type == KUBE_POD;

    rewrite_note(w, o->node, "%s was etcd: %s %s with rdzvd replaces it, at port %ld%s", o->title,
                 kind, o->name, e->ports[0], e->ports[0] == C10D_PORT ? "" : " and 29400");
    if ((pod || strcmp(o->kind, "Deployment") == 0) && strcmp(kind, o->kind) != 0)
        rewrite_note(w, o->node,
                     "kubectl apply does not remove the old %s, which its Services still select: "
                     "first run kubectl delete %s %s%s%s",
                     o->title, pod ? "pod" : "deployment", o->name,
                     *o->namespace == '\0' ? "" : " -n ", o->namespace);
}

void etcd_replace(struct rewrite *w, const struct etcd *e, bool c10d)
{
    const struct kube_object *o = e->object;
    bool keep = w->options->keep_kind || o->wrapper != NULL;
    const char *kind = keep && o->type != KUBE_JOB ? o->kind : "StatefulSet";
    struct emit_job job;
    struct store_settings s = {
        .platform = "pods",
        .placement = "service",
        .protocol = c10d ? "c10d" : "etcd-v2",
        .name = o->name,
        .service = service_name(e),
        .advertise = c10d ? address_of(w, e) : NULL,
        .nodes = e->nodes,
        .etcd_port = e->ports[0],
        .open = true,
        .durable = w->options->relay && strcmp(kind, "StatefulSet") == 0,
        .found = describe_found(w, e, kind),
    };

    if (rewrite_open_store(w, o, &s, &job))
        edit_replace(w, o->node, rewrite_text(w, emit_job_part(&job, "storeWorkload")));
    emit_job_free(&job);
    note_replaced(w, e, kind);
    note_losses(w, e);
    note_referrers(w, e, kind);
    rewrite_around(w, e, c10d);
}
