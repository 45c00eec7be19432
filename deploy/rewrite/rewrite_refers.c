/* Finds what names an etcd, and says what its user has to do about it. */
#include "deploy/rewrite/rewrite_plan.h"

#include <string.h>

/* --- Addresses in texts. --- */

static const struct yaml_node *mentions(const struct yaml_node *n, const char *key,
                                        const char *name)
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
            return n;
        if (*end == '\0' && before == '\0' && strcasestr(key, "etcd") != NULL)
            return n;
    }
    return NULL;
}

static const struct yaml_node *named_in(const struct yaml_node *n, const char *key,
                                        const char *name)
{
    const struct yaml_node *found = NULL;

    if (n == NULL || n->alias)
        return NULL;
    if (n->kind == YAML_SCALAR)
        return mentions(n, key, name);
    for (size_t i = 0; i < n->count && found == NULL; i++) {
        const char *inner = n->kind == YAML_SEQUENCE ? key : n->pairs[i].key->text;
        const struct yaml_node *value = yaml_child(n, i);

        if (strcmp(inner, "value") == 0)
            inner = kube_text(n, "name"); /* of a variable */
        found = named_in(value, inner, name);
    }
    return found;
}

/* Jobs have their own notes, Services and policies their edits. */
bool etcd_may_be_named_by(const struct rewrite *w, const struct etcd *e,
                          const struct kube_object *o)
{
    return o != e->object && !w->trains[o->index] && o->type != KUBE_SERVICE &&
           o->type != KUBE_NETWORK_POLICY && o->type != KUBE_APPWRAPPER && o->type != KUBE_MCAD &&
           kube_same_namespace(o, e->object);
}

const struct yaml_node *etcd_named_in(const struct yaml_node *n, const char *service)
{
    return named_in(n, "", service);
}

/* --- References of known kinds. --- */

struct referrer {
    struct rewrite *w;
    const struct etcd *etcd;
    const char *kind; /* of the workload that comes */
    const struct kube_object *object;
};

/* An autoscaler: of any kind with a reference to its target. */
static bool note_scaler(const struct referrer *r)
{
    static const char *const paths[] = {"targetRef", "scaleTargetRef"};
    const struct kube_object *etcd = r->etcd->object;

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const struct yaml_node *target = kube_get(r->object->spec, paths[i]);

        if (strcmp(kube_text(target, "kind"), etcd->kind) != 0 ||
            strcmp(kube_text(target, "name"), etcd->name) != 0)
            continue;
        if (strcmp(r->kind, etcd->kind) != 0)
            rewrite_note(r->w, target,
                         "%s is for %s, which goes: delete it; rdzvd, a %s, needs no autoscaler",
                         rewrite_title(r->w, r->object), rewrite_title(r->w, etcd), r->kind);
        else
            rewrite_note(r->w, target,
                         "%s scales %s, which is rdzvd now: delete it; a second store, or a store "
                         "that it restarts, ends the runs of the first",
                         rewrite_title(r->w, r->object), rewrite_title(r->w, etcd));
        return true;
    }
    return false;
}

/* A ServiceMonitor of its Services, or a PodMonitor of its pods. */
static bool note_monitor(const struct referrer *r)
{
    const struct yaml_node *selector = kube_get(r->object->spec, "selector");
    bool found = strcmp(r->object->kind, "PodMonitor") == 0 && selector != NULL &&
                 kube_selects_by(selector, r->etcd->container->pods);

    for (size_t i = 0; i < r->etcd->service_count && !found; i++)
        found = strcmp(r->object->kind, "ServiceMonitor") == 0 && selector != NULL &&
                kube_has_labels(r->etcd->services[i], kube_get(selector, "matchLabels"));
    if (found)
        rewrite_note(r->w, selector,
                     "%s scrapes this etcd: rdzvd has figures of its own at /metrics, so alerts on "
                     "etcd_ names find none: replace them by those of deploy/monitoring",
                     rewrite_title(r->w, r->object));
    return found;
}

/* The name of a Service in the backend of an Ingress, or of a route of a gateway. */
static const struct yaml_node *find_backend(const struct yaml_node *n, const char *name, int depth)
{
    const struct yaml_node *found = NULL;

    if (n == NULL || n->kind == YAML_SCALAR || n->alias || depth > 12)
        return NULL;
    for (size_t i = 0; i < n->count && found == NULL; i++) {
        const struct yaml_node *value = yaml_child(n, i);
        const char *key = n->kind == YAML_SEQUENCE ? "" : n->pairs[i].key->text;

        if ((strcmp(key, "name") == 0 || strcmp(key, "serviceName") == 0) && yaml_is(value, name))
            return value;
        found = find_backend(value, name, depth + 1);
    }
    return found;
}

static bool note_route(const struct referrer *r)
{
    size_t len = strlen(r->object->kind);
    bool route = strcmp(r->object->kind, "Ingress") == 0 ||
                 (len > 5 && strcmp(r->object->kind + len - 5, "Route") == 0);

    for (size_t i = 0; route && i < r->etcd->service_count; i++) {
        const struct yaml_node *at = find_backend(r->object->spec, r->etcd->services[i]->name, 0);

        if (at == NULL)
            continue;
        rewrite_note(
            r->w, at,
            "%s leads to %s, behind which rdzvd is now: its clients find etcd's v2 API there, "
            "and no v3: delete it, unless they use v2",
            rewrite_title(r->w, r->object), rewrite_title(r->w, r->etcd->services[i]));
        return true;
    }
    return false;
}

static void note_mention(const struct referrer *r)
{
    for (size_t i = 0; i < r->etcd->service_count; i++) {
        const struct kube_object *s = r->etcd->services[i];
        const struct yaml_node *at = etcd_named_in(r->object->node, s->name);

        if (at == NULL)
            continue;
        rewrite_note(r->w, at,
                     "%s names %s, behind which rdzvd is now: what reads this may speak etcd's v2 "
                     "API, and no v3",
                     rewrite_title(r->w, r->object), rewrite_title(r->w, s));
        return;
    }
}

void note_referrers(struct rewrite *w, const struct etcd *e, const char *kind)
{
    for (size_t i = 0; i < w->bundle.count; i++) {
        const struct kube_object *o = w->bundle.objects[i];
        struct referrer r = {w, e, kind, o};

        if (etcd_may_be_named_by(w, e, o) && !note_scaler(&r) && !note_monitor(&r) &&
            !note_route(&r))
            note_mention(&r);
    }
}
