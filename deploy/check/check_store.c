/* Rules about stores: versions of etcd, addresses, and the workloads that run them. */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct kube_object *store_object(const struct job_store *s)
{
    return s->container->pods->object;
}

static struct check_position at_name(const struct job_store *s)
{
    return check_at_first(s->container->node, "name image");
}

/* The store has a pod of its own: it is not a container beside training. */
static bool is_alone(const struct job_store *s)
{
    const struct kube_pods *p = s->container->pods;

    for (size_t i = 0; i < p->count; i++) {
        if (&p->containers[i] != s->container && !p->containers[i].init)
            return false;
    }
    return true;
}

/* --- etcd. --- */

static bool is_on(const char *text)
{
    return *text == '\0' || strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0;
}

/* A job uses the v2 API there. */
static bool is_asked_for_v2(struct check *c, const struct job_store *s)
{
    struct job_view_runs runs = job_runs_at(&c->jobs, s);

    for (size_t i = 0; i < runs.count; i++) {
        if (strncmp(runs.list[i]->backend, "etcd", 4) == 0)
            return true;
    }
    return false;
}

/* The store has --enable-v2, or a job uses the v2 API there. */
static bool wants_v2(struct check *c, const struct job_store *s)
{
    struct job_setting found;

    return (job_store_option(&c->jobs, s->container, "enable-v2", "ETCD_ENABLE_V2", &found) &&
            is_on(found.value.text)) ||
           is_asked_for_v2(c, s);
}

void check_etcd_no_v2(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        const char *tag = job_etcd_tag(&c->bundle.arena, s->container);
        struct check_position at = check_at_first(s->container->node, "image");

        if (s->kind != JOB_STORE_ETCD || tag == NULL || !wants_v2(c, s))
            continue;
        if (!job_etcd_is_since(tag, 6)) {
            if (is_asked_for_v2(c, s) && job_etcd_lacks_v2(&c->jobs, s))
                check_report(c, store_object(s), at,
                             "etcd %s serves its v2 API only with --enable-v2", tag);
        } else if (*tag == '\0' || strcmp(tag, "latest") == 0) {
            check_report(c, store_object(s), at,
                         "%s is the newest etcd, which has no v2 API any more",
                         s->container->image);
        } else {
            check_report(c, store_object(s), at, "etcd %s has no v2 API any more", tag);
        }
    }
}

void check_etcd_advertise(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        struct job_listener l[JOB_LISTENERS_MAX];
        struct job_setting advertise;
        size_t count;

        if (s->kind != JOB_STORE_ETCD || check_is_foreign(c, s) ||
            !job_store_listeners(&c->jobs, s, false, l, &count) || count == 0 || l[0].local)
            continue;
        if (!job_store_option(&c->jobs, s->container, "advertise-client-urls",
                              "ETCD_ADVERTISE_CLIENT_URLS", &advertise))
            check_report(c, store_object(s), check_at_option(s->container, &l[0].setting),
                         "etcd has addresses to listen on, but none to advertise");
        else if (strstr(advertise.value.text, "//0.0.0.0") != NULL ||
                 strstr(advertise.value.text, "//127.") != NULL ||
                 strstr(advertise.value.text, "//localhost") != NULL ||
                 strstr(advertise.value.text, "//[::") != NULL)
            check_report(c, store_object(s), check_at_option(s->container, &advertise),
                         "etcd sends its clients to %s, which is their own pod",
                         advertise.value.text);
    }
}

/* --- Where they listen. --- */

/* Other pods use the store. */
static bool is_reached(struct check *c, const struct job_store *s)
{
    struct job_view_runs runs = job_runs_at(&c->jobs, s);

    for (size_t i = 0; i < runs.count; i++) {
        if (!runs.list[i]->local)
            return true;
    }
    return job_is_selected(&c->jobs, s->container->pods);
}

void check_store_listens_locally(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        struct job_listener l[JOB_LISTENERS_MAX];
        size_t count, outside = 0;

        if (s->kind == JOB_STORE_RELAY || !job_store_listeners(&c->jobs, s, false, l, &count) ||
            !is_reached(c, s))
            continue;
        for (size_t j = 0; j < count; j++)
            outside += !l[j].local;
        if (outside > 0)
            continue;
        check_report(c, store_object(s),
                     count > 0 ? check_at_option(s->container, &l[0].setting) : at_name(s),
                     count > 0 ? "%s listens on loopback only"
                               : "%s has no address to listen on, and its default is loopback",
                     s->container->name);
    }
}

/* The name of what else in the pod, or of the platform, uses the port, or NULL. */
static const char *port_owner(struct check *c, const struct job_store *s, long port)
{
    const struct kube_pods *p = s->container->pods;

    for (size_t i = 0; i < p->count; i++) {
        const struct kube_container *other = &p->containers[i];
        const struct job_variable *agent, *master;

        if (other == s->container || (other->init && !other->sidecar))
            continue;
        for (size_t j = 0; j < yaml_length(kube_get(other->node, "ports")); j++) {
            if (kube_int(kube_get(other->node, "ports")->items[j], "containerPort", -1) == port)
                return other->name;
        }
        agent = job_variable(&c->jobs, other, "TORCHELASTIC_USE_AGENT_STORE");
        if (other->init ||
            (agent != NULL && agent->value != NULL && strcasecmp(agent->value->text, "true") == 0))
            continue; /* then rdzvd alone listens on MASTER_PORT */
        master = job_variable(&c->jobs, other, "MASTER_PORT");
        if (master != NULL) {
            const char *text = master->made != NULL ? master->made : yaml_text(master->value);

            if (text != NULL && strtol(text, NULL, 10) == port)
                return "MASTER_PORT";
        }
        if (store_object(s)->type == KUBE_TRAINJOB && port == 29500)
            return "MASTER_PORT";
    }
    return NULL;
}

void check_store_port_clash(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        struct job_listener l[JOB_LISTENERS_MAX];
        size_t count;

        /* On the host network, another container claims a relay's port of the node. */
        if (!job_store_listeners(&c->jobs, s, true, l, &count) ||
            (s->kind == JOB_STORE_RELAY && s->container->pods->host_network))
            continue;
        for (size_t j = 0; j < count; j++) {
            const char *owner = port_owner(c, s, l[j].port);

            if (owner != NULL)
                check_report(c, store_object(s), check_at_option(s->container, &l[j].setting),
                             "port %ld is also used by %s in this pod", l[j].port, owner);
        }
    }
}

/* --- What they keep. --- */

enum data_place {
    DATA_UNKNOWN,
    DATA_IN_MEMORY,
    DATA_NOWHERE,      /* its mount names a volume that is not there */
    DATA_IN_CONTAINER, /* lost when the container restarts */
    DATA_IN_POD,       /* lost with the pod */
    DATA_ON_VOLUME,
    DATA_IN_ETCD,
};

static bool has_claim_template(const struct kube_object *o, const char *name)
{
    const struct yaml_node *claims = kube_get(o->spec, "volumeClaimTemplates");

    for (size_t i = 0; i < yaml_length(claims); i++) {
        if (strcmp(kube_text(claims->items[i], "metadata.name"), name) == 0)
            return true;
    }
    return false;
}

static enum data_place place_of_volume(const struct kube_pods *p, const char *name)
{
    const struct yaml_node *volumes = kube_get(p->spec, "volumes");

    for (size_t i = 0; i < yaml_length(volumes); i++) {
        const struct yaml_node *v = volumes->items[i];

        if (strcmp(kube_text(v, "name"), name) == 0)
            return yaml_get_pair(v, "emptyDir") != NULL || yaml_get_pair(v, "ephemeral") != NULL
                       ? DATA_IN_POD
                       : DATA_ON_VOLUME;
    }
    /* Other kinds may add volumes in ways of their own. */
    return p->object->type == KUBE_STATEFULSET && !has_claim_template(p->object, name)
               ? DATA_NOWHERE
               : DATA_ON_VOLUME;
}

/* Where an rdzvd keeps its state. */
static enum data_place place_of_data(struct check *c, const struct job_store *s)
{
    struct job_setting folder, sync;
    const struct yaml_node *mount;

    if (s->kind != JOB_STORE_RDZVD ||
        job_store_option(&c->jobs, s->container, "config", NULL, &folder))
        return DATA_UNKNOWN;
    if (job_store_option(&c->jobs, s->container, "journal", NULL, &folder))
        return DATA_IN_ETCD;
    if (!job_store_option(&c->jobs, s->container, "data-dir", NULL, &folder) ||
        (job_store_option(&c->jobs, s->container, "sync", NULL, &sync) &&
         strcmp(sync.value.text, "off") == 0))
        return DATA_IN_MEMORY;
    if (!folder.value.known || folder.value.text[0] != '/')
        return DATA_UNKNOWN;
    mount = kube_mount_of(s->container, folder.value.text);
    return mount == NULL ? DATA_IN_CONTAINER
                         : place_of_volume(s->container->pods, kube_text(mount, "name"));
}

/* A run that meets at the store, or at a relay that leads to it. */
static const struct job_run *dynamic_user(struct check *c, const struct job_store *s)
{
    if (c->users == NULL) {
        c->users = arena_alloc(&c->bundle.arena,
                               (c->jobs.store_count + 1) * sizeof(const struct job_run *));
        for (size_t j = c->jobs.count; j > 0; j--) {
            const struct job_run *r = c->jobs.runs[j - 1];
            const struct job_store *behind = job_store_behind(&c->jobs, r->store);

            if (job_is_dynamic(r) && behind != NULL)
                c->users[behind - c->jobs.stores] = r;
        }
    }
    return c->users[s - c->jobs.stores];
}

void check_store_in_memory(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        const struct job_run *user = NULL;

        if (place_of_data(c, s) != DATA_IN_MEMORY)
            continue;
        user = dynamic_user(c, s);
        if (user != NULL)
            check_report(c, store_object(s), at_name(s),
                         "%s keeps its state in memory: when it restarts, %s ends",
                         s->container->name, check_title(c, job_run_object(user)));
    }
}

void check_store_data_lost(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        enum data_place place = place_of_data(c, s);
        struct job_setting folder;

        if (!job_store_option(&c->jobs, s->container, "data-dir", NULL, &folder))
            continue;
        if (place == DATA_IN_CONTAINER)
            check_report(c, store_object(s), check_at_option(s->container, &folder),
                         "no volume is mounted at %s: the state is lost whenever the container "
                         "restarts",
                         folder.value.text);
        else if (place == DATA_NOWHERE)
            check_report(c, store_object(s), check_at_option(s->container, &folder),
                         "the volume %s that is mounted for %s is neither in volumes nor in "
                         "volumeClaimTemplates",
                         kube_text(kube_mount_of(s->container, folder.value.text), "name"),
                         folder.value.text);
        else if (place == DATA_IN_POD && check_is_behind_relays(c, s))
            check_report(c, store_object(s), check_at_option(s->container, &folder),
                         "the volume at %s ends with the pod: if that is replaced, agents behind "
                         "relays find their run gone, and end",
                         folder.value.text);
    }
}

/* --- How they are kept. --- */

/* The stores share their state: members of a cluster, or replicas on one journal. */
static bool is_cluster(struct check *c, const struct job_store *s)
{
    struct job_setting found;

    return (job_store_option(&c->jobs, s->container, "initial-cluster", "ETCD_INITIAL_CLUSTER",
                             &found) &&
            strchr(found.value.text, ',') != NULL) ||
           job_store_option(&c->jobs, s->container, "discovery", "ETCD_DISCOVERY", &found) ||
           job_store_option(&c->jobs, s->container, "discovery-srv", "ETCD_DISCOVERY_SRV",
                            &found) ||
           job_store_option(&c->jobs, s->container, "journal", NULL, &found);
}

static bool is_own_workload(const struct job_store *s)
{
    return s->kind != JOB_STORE_RELAY && is_alone(s) && !s->container->init;
}

/* One claim for all pods, not one for each. */
static bool share_volume(struct check *c, const struct job_store *s)
{
    struct job_setting folder;
    const struct yaml_node *mount;

    if (place_of_data(c, s) != DATA_ON_VOLUME ||
        !job_store_option(&c->jobs, s->container, "data-dir", NULL, &folder))
        return false;
    mount = kube_mount_of(s->container, folder.value.text);
    return !has_claim_template(store_object(s), kube_text(mount, "name"));
}

void check_store_replicas(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        const struct kube_pods *p = s->container->pods;
        struct check_position at =
            check_at_first(p->part, "replicas template.spec.parallelism name");

        if (!is_own_workload(s) || p->replicas <= 1 || is_cluster(c, s))
            continue;
        if (share_volume(c, s))
            check_report(c, store_object(s), at,
                         "%ld stores with one volume: the first locks its --data-dir, and the "
                         "others end",
                         p->replicas);
        else
            check_report(c, store_object(s), at,
                         "%ld stores behind one name, and they share nothing", p->replicas);
    }
}

/* Nobody talks to the store but relays, which wait until it is back. */
static bool may_restart(struct check *c, const struct job_store *s)
{
    return job_runs_at(&c->jobs, s).count == 0 && check_is_behind_relays(c, s) &&
           place_of_data(c, s) == DATA_ON_VOLUME;
}

void check_store_rolling_update(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        const struct kube_object *o = store_object(s);

        if (!is_own_workload(s) || is_cluster(c, s) || check_is_foreign(c, s))
            continue;
        if (o->type == KUBE_STATEFULSET && !may_restart(c, s) &&
            strcmp(kube_text(o->spec, "updateStrategy.type"), "OnDelete") != 0)
            check_report(c, o, check_at_first(o->node, "spec.updateStrategy.type kind"),
                         "a change of this StatefulSet restarts the store at once");
        if (strcmp(o->kind, "Deployment") == 0 &&
            strcmp(kube_text(o->spec, "strategy.type"), "Recreate") != 0)
            check_report(c, o, check_at_first(o->node, "spec.strategy.type kind"),
                         "a change of this Deployment runs two stores behind one name for a while");
    }
}

void check_store_bare_pod(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        const struct kube_object *o = store_object(s);

        if (is_own_workload(s) && !check_is_foreign(c, s) && o->type == KUBE_POD &&
            o->wrapper == NULL && kube_get(o->node, "metadata.ownerReferences") == NULL)
            check_report(c, o, check_at_first(o->node, "kind"),
                         "when its node fails, nothing starts this Pod again");
    }
}

void check_store_no_memory_request(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];

        if (kube_get(s->container->node, "resources.requests.memory") == NULL &&
            kube_get(s->container->node, "resources.limits.memory") == NULL &&
            !check_is_foreign(c, s))
            check_report(c, store_object(s), at_name(s), "the store %s requests no memory",
                         s->container->name);
    }
}

/* --- Whether they end. --- */

static bool has_item_named(const struct yaml_node *list, const char *name)
{
    for (size_t i = 0; i < yaml_length(list); i++) {
        if (yaml_is(list->items[i], name))
            return true;
    }
    return false;
}

static bool counts_for_jobset(const struct kube_object *o, const char *role)
{
    const struct yaml_node *targets = kube_get(o->spec, "successPolicy.targetReplicatedJobs");
    bool any = strcmp(kube_text(o->spec, "successPolicy.operator"), "Any") == 0;

    return yaml_length(targets) == 0 ? !any : has_item_named(targets, role);
}

static bool completes(const struct yaml_node *policies)
{
    for (size_t i = 0; i < yaml_length(policies); i++) {
        if (strcmp(kube_text(policies->items[i], "action"), "CompleteJob") == 0)
            return true;
    }
    return false;
}

static bool counts_for_volcano(const struct kube_object *o)
{
    const struct yaml_node *tasks = kube_get(o->spec, "tasks");

    if (kube_get(o->spec, "minSuccess") != NULL || completes(kube_get(o->spec, "policies")))
        return false;
    for (size_t i = 0; i < yaml_length(tasks); i++) {
        if (completes(kube_get(tasks->items[i], "policies")))
            return false;
    }
    return true;
}

void check_store_blocks_completion(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        const struct kube_object *o = store_object(s);
        struct job_setting found;

        if (!is_own_workload(s) ||
            job_store_option(&c->jobs, s->container, "exit-when-idle", NULL, &found))
            continue;
        if ((o->type == KUBE_JOBSET && counts_for_jobset(o, s->container->pods->role)) ||
            (o->type == KUBE_VOLCANO_JOB && counts_for_volcano(o)))
            check_report(c, o, check_at_first(s->container->pods->part, "name"),
                         "%s never ends, and the %s waits for all its pods", s->container->name,
                         o->kind);
    }
}
