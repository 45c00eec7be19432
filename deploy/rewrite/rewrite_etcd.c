/* What an etcd looks like in a manifest, which ones rdzvd cannot stand in for, and what becomes of
 * the objects around it. */
#include "deploy/rewrite/rewrite_etcd.h"

#include "deploy/rewrite/rewrite_store.h"

#include <stdlib.h>
#include <string.h>

/* --- Settings of an etcd: flags in lists or in shell text, and ETCD_* variables. --- */

static bool is_flag_end(char c)
{
    return strchr(" \t\r\n\"'\\;", c) != NULL; /* NUL too */
}

/* The value of --NAME in a text, up to a blank or quote; NULL if it is not there. */
static const char *flag_in(struct arena *a, const char *text, const char *name, bool *bare)
{
    size_t len = strlen(name);

    for (const char *p = text; (p = strstr(p, name)) != NULL; p += len) {
        const char *v = p + len;
        size_t n = 0;

        if (p > text && p[-1] != '-')
            continue;
        if (*v != '=' && *v != ' ' && *v != '\t' && *v != '\0')
            continue;
        *bare = *v == '\0';
        while (*v == '=' || *v == ' ' || *v == '\t' || *v == '"' || *v == '\'')
            v++;
        while (!is_flag_end(v[n]))
            n++;
        return arena_copy(a, v, n);
    }
    return NULL;
}

static const char *setting_of(struct bundle *b, const struct yaml_node *container, const char *name,
                              const char *variable)
{
    static const char *const lists[] = {"command", "args"};
    const struct yaml_node *env = yaml_get(container, "env");

    for (size_t l = 0; l < 2; l++) {
        const struct yaml_node *list = yaml_get(container, lists[l]);

        for (size_t i = 0; list != NULL && list->kind == YAML_SEQUENCE && i < list->count; i++) {
            const char *text = yaml_text(list->items[i]), *value;
            bool bare = false;

            value = text == NULL ? NULL : flag_in(&b->arena, text, name, &bare);
            if (value != NULL && bare)
                value = yaml_text(yaml_at(list, i + 1));
            if (value != NULL)
                return value;
        }
    }
    for (size_t i = 0; env != NULL && env->kind == YAML_SEQUENCE && i < env->count; i++) {
        if (yaml_is(yaml_get(env->items[i], "name"), variable))
            return yaml_text(yaml_get(env->items[i], "value"));
    }
    return NULL;
}

/* --- Finding. --- */

/* `etcd` of quay.io/coreos/etcd:v3.5@sha256:... */
static bool is_etcd_image(const char *image)
{
    const char *last;
    size_t len;

    if (image == NULL)
        return false;
    len = strcspn(image, "@");
    for (last = image + len; last > image && last[-1] != '/';)
        last--;
    len = strcspn(last, ":@");
    return len == 4 && memcmp(last, "etcd", 4) == 0;
}

static bool is_etcd_container(struct bundle *b, const struct yaml_node *c)
{
    const char *command = yaml_text(yaml_at(yaml_get(c, "command"), 0));
    size_t len = command == NULL ? 0 : strlen(command);

    if (len >= 5 && strcmp(command + len - 5, "/etcd") == 0)
        return true;
    if (command != NULL && strcmp(command, "etcd") == 0)
        return true;
    return setting_of(b, c, "listen-client-urls", "ETCD_LISTEN_CLIENT_URLS") != NULL ||
           (is_etcd_image(yaml_text(yaml_get(c, "image"))) &&
            (command == NULL || strstr(command, "etcdctl") == NULL));
}

static struct yaml_node *etcd_container(struct bundle *b, const struct yaml_node *spec)
{
    const struct yaml_node *list = yaml_get(spec, "containers");

    for (size_t i = 0; list != NULL && list->kind == YAML_SEQUENCE && i < list->count; i++) {
        if (is_etcd_container(b, list->items[i]))
            return list->items[i];
    }
    return NULL;
}

static bool is_workload(const char *kind)
{
    return strcmp(kind, "Pod") == 0 || strcmp(kind, "Deployment") == 0 ||
           strcmp(kind, "StatefulSet") == 0 || strcmp(kind, "Job") == 0;
}

/* Of "http://0.0.0.0:2379,https://...": every port, each once. */
static bool read_ports(struct bundle *b, struct etcd *e, const char *urls)
{
    while (urls != NULL && *urls != '\0') {
        size_t len = strcspn(urls, ","), i;
        const char *colon = memrchr(urls, ':', len);
        unsigned long port = colon == NULL ? 0 : strtoul(colon + 1, NULL, 10);

        if (strncmp(urls, "https:", 6) == 0) {
            bundle_error(b, e->container,
                         "this etcd serves TLS, which rdzvd does not: leave it, or serve http "
                         "inside of the cluster");
            return false;
        }
        if (port == 0 || port > 65535)
            port = ETCD_PORT;
        for (i = 0; i < e->port_count && e->ports[i] != port;)
            i++;
        if (i == e->port_count && i < sizeof e->ports / sizeof *e->ports)
            e->ports[e->port_count++] = (unsigned)port;
        urls += len + (urls[len] == ',');
    }
    if (e->port_count == 0)
        e->ports[e->port_count++] = ETCD_PORT;
    return true;
}

static unsigned last_port(const char *url, unsigned otherwise)
{
    const char *colon = url == NULL ? NULL : strrchr(url, ':');
    unsigned long port = colon == NULL ? 0 : strtoul(colon + 1, NULL, 10);

    return port == 0 || port > 65535 ? otherwise : (unsigned)port;
}

/* Whether rdzvd can stand in for it. */
static bool judge(struct bundle *b, struct etcd *e)
{
    const struct yaml_node *replicas = yaml_path(e->object->node, "spec.replicas");
    const struct yaml_node *containers = yaml_get(e->spec, "containers");
    const char *members = setting_of(b, e->container, "initial-cluster", "ETCD_INITIAL_CLUSTER");
    int64_t n = 1;

    if ((yaml_to_int(replicas, &n) && n > 1) || (members != NULL && strchr(members, ',') != NULL)) {
        bundle_error(b, e->object->node,
                     "this is an etcd of several members, which one rdzvd does not replace: leave "
                     "it, or make it one member first");
        return false;
    }
    if (containers->count > 1) {
        bundle_error(b, containers,
                     "other containers stand beside etcd: move them to a pod of their own first");
        return false;
    }
    if (*e->object->name == '\0' || strstr(e->object->name, "{{") != NULL) {
        bundle_error(b, e->object->node, "this etcd has no name: give it one");
        return false;
    }
    return read_ports(b, e,
                      setting_of(b, e->container, "listen-client-urls", "ETCD_LISTEN_CLIENT_URLS"));
}

static bool is_named(const struct bundle *b, const struct object *o)
{
    const char *want = b->options->etcd, *slash = want == NULL ? NULL : strchr(want, '/');

    if (want == NULL)
        return true;
    if (slash == NULL)
        return strcmp(want, o->name) == 0;
    return strlen(o->namespace) == (size_t)(slash - want) &&
           memcmp(want, o->namespace, (size_t)(slash - want)) == 0 &&
           strcmp(slash + 1, o->name) == 0;
}

static bool selects(const struct yaml_node *selector, const struct yaml_node *labels)
{
    if (selector == NULL || selector->kind != YAML_MAPPING || selector->count == 0)
        return false;
    for (size_t i = 0; i < selector->count; i++) {
        const char *want = yaml_text(selector->pairs[i].value);

        if (want == NULL || !yaml_is(yaml_get(labels, selector->pairs[i].key->text), want))
            return false;
    }
    return true;
}

/* Those of its own namespace; if there are none, those that name no namespace, or any if it names
 * none itself. */
static void find_services(struct bundle *b, struct etcd *e)
{
    e->services = arena_alloc(&b->arena, (b->count + 1) * sizeof(struct object *));
    for (int lenient = 0; lenient < 2 && e->service_count == 0; lenient++) {
        for (size_t i = 0; i < b->count; i++) {
            struct object *o = b->objects[i];
            const char *namespace = e->object->namespace;

            if (strcmp(o->kind, "Service") == 0 &&
                (lenient ? bundle_same_namespace(o->namespace, namespace)
                         : strcmp(o->namespace, namespace) == 0) &&
                selects(yaml_path(o->node, "spec.selector"), e->labels))
                e->services[e->service_count++] = o;
        }
    }
}

static void take(struct bundle *b, struct etcd *e, struct object *o, const struct pod_specs *pods)
{
    *e = (struct etcd){
        .object = o,
        .spec = pods->list[0],
        .template = pods->templates[0] == NULL ? o->node : pods->templates[0],
        .container = etcd_container(b, pods->list[0]),
    };
    e->labels = yaml_path(e->template, "metadata.labels");
    e->peer_port =
        last_port(setting_of(b, e->container, "listen-peer-urls", "ETCD_LISTEN_PEER_URLS"), 2380);
}

struct etcd *etcd_find(struct bundle *b)
{
    struct etcd *found = NULL;

    for (size_t i = 0; i < b->count; i++) {
        struct object *o = b->objects[i];
        struct pod_specs pods;

        if (!is_workload(o->kind))
            continue;
        find_pod_specs(b, o->node, &pods);
        if (pods.count != 1 || etcd_container(b, pods.list[0]) == NULL || !is_named(b, o))
            continue;
        if (found != NULL) {
            bundle_error(b, o->node,
                         "a second etcd (%s; the first is %s in %s, line %u): name the one that is "
                         "meant with --etcd=NAME or --etcd=NAMESPACE/NAME",
                         object_title(b, o), object_title(b, found->object),
                         found->object->file->yaml.name, found->object->node->start.line);
            return NULL;
        }
        found = arena_alloc(&b->arena, sizeof *found);
        take(b, found, o, &pods);
    }
    if (found == NULL) {
        if (b->options->etcd != NULL)
            diag_error(b->diag, NULL, (struct yaml_mark){0}, "there is no etcd named %s",
                       b->options->etcd);
        return NULL;
    }
    if (!judge(b, found))
        return NULL;
    find_services(b, found);
    return found;
}

/* --- Its Services. --- */

/* The number or name that a Service's port leads to. */
static const struct yaml_node *target_of(const struct yaml_node *port)
{
    const struct yaml_node *target = yaml_get(port, "targetPort");

    return yaml_is_null(target) ? yaml_get(port, "port") : target;
}

/* Whether `target` is that container port, by its number or by its name. */
static bool leads_to(const struct etcd *e, const struct yaml_node *target, unsigned number)
{
    const struct yaml_node *ports = yaml_get(e->container, "ports");
    int64_t n;

    if (target == NULL)
        return false;
    if (yaml_to_int(target, &n))
        return n == number;
    for (size_t i = 0; ports != NULL && ports->kind == YAML_SEQUENCE && i < ports->count; i++) {
        const char *name = yaml_text(yaml_get(ports->items[i], "name"));

        if (name != NULL && yaml_is(target, name) &&
            yaml_to_int(yaml_get(ports->items[i], "containerPort"), &n))
            return n == number;
    }
    return false;
}

static bool is_headless(const struct object *service)
{
    return yaml_is(yaml_path(service->node, "spec.clusterIP"), "None");
}

static void publish_early(struct bundle *b, struct object *s)
{
    struct yaml_node *spec = yaml_get(s->node, "spec");
    struct yaml_pair *pair = yaml_get_pair(spec, "publishNotReadyAddresses");
    bool on = false;

    if (pair != NULL && yaml_to_bool(pair->value, &on) && on)
        return;
    if (pair != NULL)
        edit_value(b, s->file, pair->value, "true");
    else
        edit_add_pair(b, s->file, spec, yaml_get_pair(spec, "clusterIP"),
                      "publishNotReadyAddresses: true\n");
    bundle_note(b, s->node, "%s: publishes the address before the pod is ready",
                object_title(b, s));
}

static void remove_service(struct bundle *b, struct object *s)
{
    bundle_note(b, s->node, "%s led to the peer port alone, and goes", object_title(b, s));
    if (s->list != NULL)
        edit_remove_item(b, s->file, s->list, s->index);
    else if (s->wrapper == NULL)
        edit_remove_document(b, s->file, s->doc);
    else
        bundle_error(b, s->node, "%s led to the peer port alone: remove it from its AppWrapper",
                     object_title(b, s));
}

/* Ports need names as soon as there are two. */
static void add_c10d_port(struct bundle *b, struct object *s, struct yaml_node *ports, size_t last,
                          size_t left)
{
    const struct yaml_node *protocol = yaml_get(ports->items[last], "protocol");
    struct yaml_pair *first = yaml_get_pair(ports->items[last], "port");

    if (left == 1 && yaml_get(ports->items[last], "name") == NULL && first != NULL)
        edit_add_pair_before(b, s->file, ports->items[last], first, "name: etcd\n");
    edit_add_item(b, s->file, ports, last,
                  arena_text(&b->arena, "name: c10d\nport: %d\n%stargetPort: %d\n", C10D_PORT,
                             protocol == NULL ? "" : "protocol: TCP\n", C10D_PORT));
    bundle_note(b, s->node, "%s: gets port %d, for c10d", object_title(b, s), C10D_PORT);
}

static void rewrite_service(struct bundle *b, struct etcd *e, struct object *s, bool c10d)
{
    struct yaml_node *ports = yaml_path(s->node, "spec.ports");
    size_t left = 0, last = 0;
    bool has_c10d = e->ports[0] == C10D_PORT;

    for (size_t i = 0; ports != NULL && ports->kind == YAML_SEQUENCE && i < ports->count; i++) {
        const struct yaml_node *target = target_of(ports->items[i]);

        if (leads_to(e, target, e->peer_port))
            continue;
        has_c10d = has_c10d || leads_to(e, target, C10D_PORT);
        left++;
        last = i;
    }
    if (ports != NULL && ports->count > 0 && left == 0) {
        remove_service(b, s);
        return;
    }
    for (size_t i = 0; left > 0 && i < ports->count; i++) {
        if (!leads_to(e, target_of(ports->items[i]), e->peer_port))
            continue;
        edit_remove_item(b, s->file, ports, i);
        bundle_note(b, ports->items[i], "%s: the peer port goes", object_title(b, s));
    }
    if (is_headless(s))
        publish_early(b, s);
    if (c10d && !has_c10d && left > 0)
        add_c10d_port(b, s, ports, last, left);
}

/* A policy that lets clients in at etcd's port lets them in at c10d's as well. */
static void rewrite_policy(struct bundle *b, struct etcd *e, struct object *o)
{
    const struct yaml_node *rules = yaml_path(o->node, "spec.ingress");

    for (size_t r = 0; rules != NULL && rules->kind == YAML_SEQUENCE && r < rules->count; r++) {
        struct yaml_node *ports = yaml_get(rules->items[r], "ports");

        for (size_t i = 0; ports != NULL && ports->kind == YAML_SEQUENCE && i < ports->count; i++) {
            if (!leads_to(e, yaml_get(ports->items[i], "port"), e->ports[0]))
                continue;
            edit_add_item(b, o->file, ports, i,
                          arena_text(&b->arena, "protocol: TCP\nport: %d\n", C10D_PORT));
            bundle_note(b, o->node, "%s: lets clients in at %d, too", object_title(b, o),
                        C10D_PORT);
            break;
        }
    }
}

static bool is_among(const struct object *o, struct object **list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == o)
            return true;
    }
    return false;
}

static void rewrite_around(struct bundle *b, struct etcd *e, bool c10d, struct object **wanted,
                           size_t wanted_count)
{
    for (size_t i = 0; i < e->service_count; i++) {
        struct object *s = e->services[i];
        const struct yaml_node *ports = yaml_path(s->node, "spec.ports");
        bool several = ports != NULL && ports->kind == YAML_SEQUENCE && ports->count > 1;

        rewrite_service(b, e, s,
                        c10d && (several || is_headless(s) || is_among(s, wanted, wanted_count)));
    }
    for (size_t i = 0; c10d && e->ports[0] != C10D_PORT && i < b->count; i++) {
        struct object *o = b->objects[i];

        if (strcmp(o->kind, "NetworkPolicy") == 0 &&
            bundle_same_namespace(o->namespace, e->object->namespace) &&
            selects(yaml_path(o->node, "spec.podSelector.matchLabels"), e->labels))
            rewrite_policy(b, e, o);
    }
}

/* --- The store in its place. --- */

/* The pairs of a mapping as lines, but for the keys named. */
static const char *copy_pairs(struct bundle *b, struct bundle_file *f, const struct yaml_node *m,
                              const char *const *drop)
{
    struct buf out = {.arena = &b->arena};

    for (size_t i = 0; m != NULL && m->kind == YAML_MAPPING && i < m->count; i++) {
        size_t d = 0;

        while (drop[d] != NULL && strcmp(drop[d], m->pairs[i].key->text) != 0)
            d++;
        if (drop[d] == NULL)
            edit_copy_pair(b, f, &m->pairs[i], 0, &out);
    }
    return out.text;
}

/* Where it may run and what it may pull; not what etcd did there. */
static const char *copy_placement(struct bundle *b, const struct etcd *e)
{
    static const char *const fields[] = {
        "nodeSelector",      "affinity",      "tolerations",      "topologySpreadConstraints",
        "priorityClassName", "schedulerName", "imagePullSecrets", "runtimeClassName",
        "hostname",          "subdomain",
    };
    struct buf out = {.arena = &b->arena};

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const struct yaml_pair *pair = yaml_get_pair(e->spec, fields[i]);

        if (pair != NULL && !yaml_is_null(pair->value))
            edit_copy_pair(b, e->object->file, pair, 0, &out);
    }
    return out.text;
}

/* Whether the Service is more than a way to the peer port, and so stays. */
static bool serves_clients(const struct etcd *e, const struct object *s)
{
    const struct yaml_node *ports = yaml_path(s->node, "spec.ports");

    if (ports == NULL || ports->kind != YAML_SEQUENCE || ports->count == 0)
        return true;
    for (size_t i = 0; i < ports->count; i++) {
        if (!leads_to(e, target_of(ports->items[i]), e->peer_port))
            return true;
    }
    return false;
}

/* Its own serviceName, or the headless Service that selects it, or whatever there is. */
static const char *service_name(const struct etcd *e)
{
    const char *own = yaml_text(yaml_path(e->object->node, "spec.serviceName")), *any = NULL;

    if (own != NULL && strcmp(e->object->kind, "StatefulSet") == 0)
        return own;
    for (size_t i = 0; i < e->service_count; i++) {
        if (!serves_clients(e, e->services[i]))
            continue;
        if (is_headless(e->services[i]))
            return e->services[i]->name;
        any = any == NULL ? e->services[i]->name : any;
    }
    return any == NULL ? e->object->name : any;
}

/* A Service may lead to the port by its name. */
static const char *etcd_port_name(const struct etcd *e)
{
    for (size_t i = 0; i < e->service_count; i++) {
        const struct yaml_node *ports = yaml_path(e->services[i]->node, "spec.ports");

        for (size_t p = 0; ports != NULL && ports->kind == YAML_SEQUENCE && p < ports->count; p++) {
            const struct yaml_node *target = target_of(ports->items[p]);
            int64_t n;

            if (target != NULL && !yaml_to_int(target, &n) && leads_to(e, target, e->ports[0]))
                return yaml_text(target);
        }
    }
    return "etcd";
}

static void note_losses(struct bundle *b, const struct etcd *e)
{
    static const char *const lost[] = {"initContainers", "volumes", "hostNetwork"};
    const struct object *o = e->object;

    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        const struct yaml_node *n = yaml_get(e->spec, lost[i]);

        if (!yaml_is_null(n) && !yaml_is(n, "false"))
            bundle_note(b, n, "%s: its %s go with etcd: rdzvd needs none", object_title(b, o),
                        lost[i]);
    }
    if (!yaml_is_null(yaml_path(o->node, "spec.volumeClaimTemplates")))
        bundle_note(b, o->node, "%s: what etcd kept on its volume is not taken over",
                    object_title(b, o));
    if (strcmp(o->kind, "StatefulSet") == 0)
        bundle_note(b, o->node,
                    "%s: its selector changes, which a cluster refuses: delete the old "
                    "one first",
                    object_title(b, o));
    if (o->wrapper != NULL)
        bundle_note(b, o->node,
                    "%s never ends, and so keeps its AppWrapper from ending: better "
                    "have it outside",
                    object_title(b, o));
}

/* Where agents come to, their workers can come, too: the name that the jobs use, or the headless
 * one of several. */
static const char *address_of(struct bundle *b, struct object **wanted, size_t count)
{
    const struct object *s = count == 0 ? NULL : wanted[0];

    for (size_t i = 0; i < count; i++) {
        if (is_headless(wanted[i]) && !is_headless(s))
            s = wanted[i];
    }
    if (s == NULL)
        return NULL;
    return arena_text(&b->arena, "%s%s%s:%d", s->name, *s->namespace == '\0' ? "" : ".",
                      s->namespace, C10D_PORT);
}

void etcd_replace(struct bundle *b, struct etcd *e, bool c10d, struct object **wanted,
                  size_t wanted_count)
{
    static const char *const no_labels[] = {"rdzvd", NULL};
    static const char *const no_annotations[] = {"kubectl.kubernetes.io/last-applied-configuration",
                                                 NULL};
    struct object *o = e->object;
    bool pod = strcmp(o->kind, "Pod") == 0, keep = b->options->keep_kind || o->wrapper != NULL;
    struct buf text = {.arena = &b->arena};
    struct store_spec s = {
        .kind = keep && strcmp(o->kind, "Job") != 0 ? o->kind : "StatefulSet",
        .name = o->name,
        .namespace = o->namespace,
        .instance = o->name,
        .image = b->options->image,
        .service_name = service_name(e),
        .space_idle_timeout = c10d ? "30s" : NULL,
        .advertise = c10d ? address_of(b, wanted, wanted_count) : NULL,
        .etcd_name = etcd_port_name(e),
        .c10d_port = C10D_PORT,
        .etcd_port = e->ports[0],
        .more_count = e->port_count - 1,
        .own_labels = pod ? e->labels : yaml_path(o->node, "metadata.labels"),
        .own_pod_labels = e->labels,
        .own_annotations = yaml_path(e->template, "metadata.annotations"),
        .pod_fields = copy_placement(b, e),
    };

    memcpy(s.more_ports, e->ports + 1, sizeof e->ports - sizeof *e->ports);
    s.labels = copy_pairs(b, o->file, s.own_labels, no_labels);
    s.pod_labels = copy_pairs(b, o->file, s.own_pod_labels, no_labels + 1);
    s.annotations = copy_pairs(b, o->file, s.own_annotations, no_annotations);
    store_print(&text, &s);
    edit_replace(b, o->file, o->node, text.text);
    bundle_note(b, o->node, "%s was etcd: %s %s with rdzvd stands in its place, at port %u%s",
                object_title(b, o), s.kind, o->name, e->ports[0],
                e->ports[0] == C10D_PORT ? "" : " and 29400");
    if ((pod || strcmp(o->kind, "Deployment") == 0) && strcmp(s.kind, o->kind) != 0)
        bundle_note(b, o->node,
                    "kubectl apply does not remove the old %s, which its Services still select: "
                    "kubectl delete %s %s%s%s first",
                    object_title(b, o), pod ? "pod" : "deployment", o->name,
                    *o->namespace == '\0' ? "" : " -n ", o->namespace);
    note_losses(b, e);
    rewrite_around(b, e, c10d, wanted, wanted_count);
}

/* --- Names. --- */

static bool is_label(const char *host, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(host, name, len) == 0;
}

struct object *etcd_service_of(const struct etcd *e, const char *host, size_t len,
                               const char *namespace)
{
    const char *dot = memchr(host, '.', len);
    size_t first = dot == NULL ? len : (size_t)(dot - host), second;

    for (size_t i = 0; i < e->service_count; i++) {
        struct object *s = e->services[i];
        const char *own = *s->namespace != '\0' ? s->namespace : namespace,
                   *rest = dot == NULL ? "" : dot + 1;

        second = dot == NULL ? 0 : strcspn(rest, ".");
        if (second > len - first)
            second = len - first - 1;
        if (is_label(host, first, s->name)) {
            if (dot == NULL
                    ? bundle_same_namespace(s->namespace, namespace)
                    : *own == '\0' || is_label(rest, second, own) || is_label(rest, second, "svc"))
                return s;
        }
        /* etcd-0.SERVICE, or what a hostname and subdomain make of a Pod */
        if (dot != NULL && is_label(rest, second, s->name) &&
            strncmp(host, e->object->name, strlen(e->object->name)) == 0)
            return s;
    }
    return NULL;
}
