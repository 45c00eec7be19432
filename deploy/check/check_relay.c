/* Rules about relays: their upstream stores, their settings and their listeners. */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>

/* --- The upstream of a relay. --- */

void check_find_rdzvds(struct check *c, const struct job_store *s)
{
    if (s->kind == JOB_STORE_RDZVD)
        kube_index_add(&c->bundle.arena, &c->index, "", job_store_object(s)->namespace,
                       (size_t)(s - c->jobs.stores));
}

/* A store that could be meant, or NULL. */
static const struct job_store *some_store(struct check *c, const struct kube_object *from)
{
    struct kube_hits hits = kube_index_find(&c->index, "", from->namespace);

    return hits.count == 0 ? NULL : &c->jobs.stores[hits.list[0]];
}

/* The host is a name of the relay's own namespace: these files can be expected to have it. */
static bool is_in_own_namespace(const struct kube_object *o, const char *host)
{
    const char *dot = strchr(host, '.');
    size_t len = strlen(o->namespace);

    return dot == NULL || (len > 0 && strncmp(dot + 1, o->namespace, len) == 0 &&
                           (dot[1 + len] == '\0' || strncmp(dot + 1 + len, ".svc", 4) == 0));
}

/* Reports why a host that these files name (u->found) is no store of the relay. If the files have
 * no pods behind its Service, other files may have them: only namespace and port count then. */
static void look_at_upstream_target(struct check *c, const struct job_upstream *u)
{
    const struct kube_object *service = u->target.service, *o = job_store_object(u->relay);
    struct check_position at = check_at_option(u->relay, &u->setting);

    if (u->target.reach == KUBE_ELSEWHERE)
        check_report(c, at, "%s is in another namespace than %s", u->host, o->title);
    else if (service != NULL && !check_has_port(service, u->port))
        check_report(c, at, "Service %s has no port %ld", service->name, u->port);
    else if (u->store != NULL && u->store->kind != JOB_STORE_RDZVD)
        check_report(c, at, "%s is an etcd, and relays speak only to rdzvd", u->host);
    else if (u->store == NULL &&
             (service == NULL || kube_first_selected(&c->bundle, service) != NULL))
        check_report(c, at, "there is no rdzvd behind %s that could be the store", u->host);
}

void check_relay_upstream(struct check *c, const struct job_upstream *u)
{
    const struct kube_object *o = job_store_object(u->relay);
    const struct job_store *store = some_store(c, o);
    struct check_position at = check_at_option(u->relay, &u->setting);

    if (!u->known)
        return;
    if (!u->well_formed)
        check_report(c, at, "`%s` is not HOST:PORT", u->text);
    else if (job_is_local(u->host))
        check_report(c, at, "the relay is its own upstream: %s is its own pod", u->host);
    else if (u->found)
        look_at_upstream_target(c, u);
    else if (is_in_own_namespace(o, u->host) && store != NULL)
        check_report(c, at, "no Service here is named %s; the store is %s in %s", u->host,
                     store->container->name, job_store_object(store)->title);
}

void check_relay_without_store(struct check *c, const struct job_upstream *u)
{
    const struct kube_object *o = job_store_object(u->relay);

    if (u->known && u->well_formed && !u->found && !job_is_local(u->host) &&
        is_in_own_namespace(o, u->host) && some_store(c, o) == NULL)
        check_report(c, check_at_option(u->relay, &u->setting),
                     "these files have neither a Service %s nor any rdzvd that is no relay",
                     u->host);
}

/* --- What they are told. --- */

static void look_at_relay_settings(struct check *c, const struct job_store *s)
{
    struct job_setting found;

    FOREACH_WORD(name, "data-dir", "sync") {
        if (check_option(c, s, name, &found) != NULL)
            check_report(c, check_at_option(s, &found), "%s is a relay, and --%s is of a store",
                         s->container->name, name);
    }
    for (size_t n = 0; job_store_nth_option(&c->jobs, s->container, "listen", n, &found); n++) {
        if (strchr(found.value.text, '/') != NULL && strncmp(found.value.text, "unix:", 5) != 0)
            check_report(c, check_at_option(s, &found),
                         "%s is a relay: --space names its space, and no listener does",
                         s->container->name);
    }
}

void check_relay_settings(struct check *c, const struct job_store *s)
{
    struct job_setting space;

    if (s->kind == JOB_STORE_RELAY)
        look_at_relay_settings(c, s);
    else if (s->kind == JOB_STORE_RDZVD && check_option(c, s, "space", &space) != NULL &&
             check_option(c, s, "config", NULL) == NULL)
        check_report(c, check_at_option(s, &space), "%s has --space and is no relay",
                     s->container->name);
}

/* The space of the store's listener at that port if it has one of its own, or NULL. */
static const char *listener_space(struct check *c, const struct job_store *store, long port)
{
    struct job_setting found;
    const char *text = arena_text(&c->bundle.arena, ":%ld/", port), *space;

    for (size_t n = 0; job_store_nth_option(&c->jobs, store->container, "listen", n, &found); n++) {
        space = strstr(found.value.text, text);
        if (found.value.known && space != NULL)
            return space + strlen(text);
    }
    return NULL;
}

/* The first relay of the same job, so that all are compared with one. */
static const struct job_store *first_relay(const struct check *c, const struct job_store *relay)
{
    const struct kube_object *o = job_store_object(relay);

    KUBE_FOREACH_PODS_OF(p, &c->bundle, o) {
        const struct job_store *s = job_store_in(&c->jobs, p);

        for (; s != NULL && s <= relay && s->container->pods == p; s++) {
            if (s->kind == JOB_STORE_RELAY)
                return s;
        }
    }
    return relay;
}

void check_relay_space(struct check *c, const struct job_store *relay)
{
    const struct job_store *first = first_relay(c, relay);
    struct job_setting space, other;
    struct job_upstream u, first_u;
    const char *named;

    if (relay->kind != JOB_STORE_RELAY)
        return;
    job_relay_space(&c->jobs, relay, &space);
    job_relay_space(&c->jobs, first, &other);
    if (strcmp(space.value.text, other.value.text) != 0)
        check_report(c, check_at_option(relay, &space),
                     "this relay uses the space %s, and another one of the job %s",
                     space.value.text, other.value.text);
    if (!job_relay_upstream(&c->jobs, relay, 0, &u) ||
        !job_relay_upstream(&c->jobs, first, 0, &first_u))
        return;
    if (strcmp(u.setting.value.text, first_u.setting.value.text) != 0)
        check_report(c, check_at_option(relay, &u.setting),
                     "this relay leads to %s, and another one of the job to %s",
                     u.setting.value.text, first_u.setting.value.text);
    named = u.store == NULL ? NULL : listener_space(c, u.store, u.port);
    if (named != NULL && space.value.known && strcmp(named, space.value.text) != 0)
        check_report(
            c, check_at_option(relay, space.written.node != NULL ? &space : &u.setting),
            "at port %ld the store takes only relays of the space %s, and this one uses %s", u.port,
            named, space.value.text);
}

/* --- Restarts in place. --- */

static bool holds_training_back(const struct kube_container *relay)
{
    const struct yaml_node *probe = kube_get(relay->node, "startupProbe");

    return strncmp(kube_text(probe, "httpGet.path"), "/startz", 7) == 0 ||
           ANY(YAML_FOREACH(word, kube_get(probe, "exec.command")),
               yaml_text(word) != NULL && strstr(word->text, "/startz") != NULL);
}

void check_relay_restart(struct check *c, const struct job_store *relay)
{
    const struct kube_container *own = relay->container;
    struct job_setting code, expect;
    const char *nodes;

    if (relay->kind != JOB_STORE_RELAY || check_option(c, relay, "exit-on-restart", &code) == NULL)
        return;
    nodes = check_option(c, relay, "expect", &expect);
    if (nodes == NULL && check_option(c, relay, "config", NULL) == NULL)
        check_report(c, check_at_option(relay, &code), "%s does not start without --expect=N",
                     own->name);
    else if (nodes != NULL && own->pods->object->pods_count == 1 && own->pods->replicas > 0 &&
             strtol(nodes, NULL, 10) != own->pods->replicas)
        check_report(c, check_at_option(relay, &expect), "the job has %ld pods, and not %s",
                     own->pods->replicas, nodes);
    if (check_is_before(c, CHECK_KUBERNETES, 1, 35))
        check_report(c, check_at_option(relay, &code),
                     "Kubernetes before 1.35 has no RestartAllContainers");
    if (!holds_training_back(own))
        check_report(c, check_at_first(own->node, "startupProbe", "name"),
                     "no startup probe asks %s for /startz, so the training starts before the "
                     "relays of the other pods are here",
                     own->name);
    KUBE_FOREACH_CONTAINER(container, own->pods) {
        const struct yaml_node *rules = kube_field(container, "restartPolicyRules");

        if ((container == own || !container->init) &&
            kube_item(rules, "action", "RestartAllContainers") == NULL)
            check_report(c, check_at_first(container->node, "restartPolicyRules", "name"),
                         "when %s ends, the other containers of its pod go on", container->name);
    }
}

/* --- Where they listen. --- */

void check_relay_listens_outside(struct check *c, const struct job_store *s)
{
    struct job_listeners all = job_store_listeners(&c->jobs, s, false);

    JOB_FOREACH_LISTENER(l, &all) {
        if (!l->local && s->kind == JOB_STORE_RELAY)
            check_report(c, check_at_option(s, &l->setting),
                         "other pods reach this relay, and through it the store");
    }
}

/* --- Relays that a policy adds. --- */

void check_inject_label(struct check *c, const struct kube_object *o)
{
    const struct yaml_node *label = kube_get(o->node, "metadata." KUBE_INJECT_LABEL), *own;
    bool has_own = false;

    KUBE_FOREACH_PODS_OF(p, &c->bundle, o) {
        own = kube_get(p->meta, KUBE_INJECT_LABEL);
        has_own = has_own || own != NULL;
        if (own != NULL && job_store_in(&c->jobs, p) == NULL)
            check_report(c, check_at(own),
                         p->host_network ? "on the host network a pod gets no relay by its label"
                                         : "this is the name of no job, so the pod gets no relay");
    }
    if (label != NULL && o->pods_count > 0 && !has_own)
        check_report(c, check_at(label), "the pods do not have the label of this %s", o->kind);
}
