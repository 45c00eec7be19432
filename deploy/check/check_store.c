/* Rules about stores: versions of etcd, addresses, and the workloads that run them. */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- Options of rdzvd. --- */

/* Why rdzvd refuses the value, or NULL. */
static const char *value_fault(const struct job_option *o, const char *text)
{
    uint64_t number;
    enum units_result result = o->parse == NULL ? UNITS_NOT_A_NUMBER : o->parse(text, &number);

    if (o->words == NULL || text_is_one_of(text, o->words))
        return NULL;
    if (result != UNITS_OK)
        return o->hints == NULL ? o->takes : o->hints[result];
    return number < o->least ? "too little" : NULL;
}

static void look_at_option(struct check *c, const struct job_store *s, const struct arg_word *word)
{
    const char *name = arena_copy(&c->bundle.arena, word->text + 2, strcspn(word->text + 2, "="));
    struct nearest near = nearest_to(name);
    struct job_setting found;

    FOREACH(const struct job_option, o, job_options, job_option_count) {
        const char *text = strcmp(o->name, name) != 0 ? NULL : check_option(c, s, name, &found);
        const char *fault = text != NULL && found.value.known ? value_fault(o, text) : NULL;

        if (fault != NULL)
            check_report(c, check_at_option(s, &found), "--%s=%s: %s%s", name, text,
                         fault == o->takes ? "write " : "", fault);
        if (text != NULL)
            return;
        nearest_try_word(&near, o->name);
    }
    if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_")] == '\0' && *name != '\0')
        check_report(c, check_at_text(word), "rdzvd has no option --%s%s%s%s", name,
                     near.found == NULL ? "" : "; did you mean --",
                     near.found == NULL ? "" : near.found, near.found == NULL ? "" : "?");
}

void check_rdzvd_option(struct check *c, const struct job_store *s)
{
    struct job_words words = job_words(&c->bundle.arena, s->container);

    FOREACH(const struct arg_word, word, words.list, words.count) {
        if (s->kind != JOB_STORE_ETCD && text_begins(word->text, "--"))
            look_at_option(c, s, word);
    }
}

/* --- etcd. --- */

void check_etcd_no_v2(struct check *c, const struct job_store *s)
{
    const char *tag = job_etcd_tag(&c->bundle.arena, s->container);
    struct check_position at = check_at_first(s->container->node, "image");
    const char *enable = check_option(c, s, "enable-v2", NULL);
    bool asked = ANY(JOB_FOREACH(r, s->runs), job_is_etcd(r));
    bool enabled = enable != NULL &&
                   (*enable == '\0' || strcasecmp(enable, "true") == 0 || strcmp(enable, "1") == 0);

    if (s->kind != JOB_STORE_ETCD || tag == NULL || (!asked && !enabled))
        return;
    if (!job_etcd_is_since(tag, 6)) {
        if (asked && job_etcd_lacks_v2(&c->jobs, s))
            check_report(c, at, "etcd %s serves its v2 API only with --enable-v2", tag);
    } else if (*tag == '\0' || strcmp(tag, "latest") == 0) {
        check_report(c, at, "%s is the newest etcd, which has no v2 API any more",
                     s->container->image);
    } else {
        check_report(c, at, "etcd %s has no v2 API any more", tag);
    }
}

void check_etcd_advertise(struct check *c, const struct job_store *s)
{
    struct job_listeners l = job_store_listeners(&c->jobs, s, false);
    struct job_setting advertise;

    if (s->kind != JOB_STORE_ETCD || check_is_foreign(c, s) || !l.all || l.count == 0 ||
        l.list[0].local)
        return;
    if (check_option(c, s, "advertise-client-urls", &advertise) == NULL)
        check_report(c, check_at_option(s, &l.list[0].setting),
                     "etcd has addresses to listen on, but none to advertise");
    else if (text_has(advertise.value.text, "//0.0.0.0", "//127.", "//localhost", "//[::"))
        check_report(c, check_at_option(s, &advertise),
                     "etcd sends its clients to %s, which is their own pod", advertise.value.text);
}

/* --- Where they listen. --- */

void check_store_listens_locally(struct check *c, const struct job_store *s)
{
    struct job_listeners l = job_store_listeners(&c->jobs, s, false);

    if (s->kind != JOB_STORE_RELAY && l.all && !ANY(JOB_FOREACH_LISTENER(at, &l), !at->local) &&
        (ANY(JOB_FOREACH(r, s->runs), !r->local) || c->is_selected[s->container->pods->index]))
        check_report(c, l.count > 0 ? check_at_option(s, &l.list[0].setting) : check_at_store(s),
                     l.count > 0 ? "%s listens on loopback only"
                                 : "%s has no address to listen on, and its default is loopback",
                     s->container->name);
}

/* The name of what else in the pod, or of the platform, uses the port, or NULL. */
static const char *port_owner(struct check *c, const struct job_store *s, long port)
{
    const struct kube_pods *p = s->container->pods;

    FOREACH(const struct kube_container, other, p->containers, p->count) {
        const struct job_variable *master;
        struct job_view_runs runs = job_runs_in(&c->jobs, p);
        bool torchrun =
            runs.count > 0 && job_is_dynamic(runs.list[0]) && runs.list[0]->args != NULL;
        const char *text;
        bool agent_store = check_uses_agent_store(c, other), is_master;

        if (other == s->container || (other->init && !other->sidecar))
            continue;
        master = job_variable(&c->jobs, other, "MASTER_PORT");
        text = master == NULL         ? NULL
               : master->made != NULL ? master->made
               : torchrun             ? NULL /* it sets another one for its workers */
                                      : yaml_text(master->value);
        is_master = (text != NULL && strtol(text, NULL, 10) == port) ||
                    (job_store_object(s)->type == KUBE_TRAINJOB && port == 29500);
        if (check_lists_port(other, port) && !(agent_store && is_master))
            return other->name;
        if (is_master && !other->init && !agent_store) /* else only rdzvd listens there */
            return "MASTER_PORT";
    }
    return NULL;
}

void check_store_port_clash(struct check *c, const struct job_store *s)
{
    struct job_listeners l = job_store_listeners(&c->jobs, s, true);

    /* On the host network, another container claims a relay's port of the node. */
    if (!l.all || (s->kind == JOB_STORE_RELAY && s->container->pods->host_network))
        return;
    for (size_t i = 0; i < l.count; i++) {
        const char *owner = port_owner(c, s, l.list[i].port);

        if (owner != NULL)
            check_report(c, check_at_option(s, &l.list[i].setting),
                         "port %ld is also used by %s in this pod", l.list[i].port, owner);
    }
}

/* A training pod that serves the store, beside a container that uses the port. */
void check_host_port_clash(struct check *c, const struct job_run *r)
{
    const struct kube_pods *p = r->target.pods;

    if (!job_is_dynamic(r) || !r->hosted || p == NULL || job_runs_in(&c->jobs, p).count == 0)
        return;
    KUBE_FOREACH_CONTAINER(other, p) {
        if ((!other->init || other->sidecar) && check_lists_port(other, r->port) &&
            !ANY(JOB_FOREACH(run, job_runs_in(&c->jobs, p)), run->container == other))
            check_report(c, check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                         "port %ld is also used by %s in the pod that serves the store", r->port,
                         other->name);
    }
}

/* --- What they keep. --- */

enum data_place {
    DATA_UNKNOWN,
    DATA_IN_MEMORY,
    DATA_NOWHERE,      /* its mount names a volume that does not exist */
    DATA_IN_CONTAINER, /* lost when the container restarts */
    DATA_IN_POD,       /* lost with the pod */
    DATA_ON_VOLUME,
    DATA_IN_ETCD,
};

static bool has_claim_template(const struct kube_object *o, const char *name)
{
    return kube_item(kube_get(o->spec, "volumeClaimTemplates"), "metadata.name", name) != NULL;
}

static enum data_place place_of_volume(const struct kube_pods *p, const char *name)
{
    const struct yaml_node *v = kube_item(kube_get(p->spec, "volumes"), "name", name);

    if (v != NULL)
        return yaml_get_pair(v, "emptyDir") != NULL || yaml_get_pair(v, "ephemeral") != NULL
                   ? DATA_IN_POD
                   : DATA_ON_VOLUME;
    /* Other kinds may add volumes in ways of their own. */
    return p->object->type == KUBE_STATEFULSET && !has_claim_template(p->object, name)
               ? DATA_NOWHERE
               : DATA_ON_VOLUME;
}

/* Where an rdzvd keeps its state. */
struct data {
    enum data_place place;
    bool read_only;
    struct job_setting folder; /* --data-dir, if there is one */
    const char *volume;        /* that is mounted there, or "" */
};

static struct data data_of(struct check *c, const struct job_store *s)
{
    struct data d = {.place = DATA_UNKNOWN, .volume = ""};
    const char *sync = check_option(c, s, "sync", NULL);
    const char *path = check_option(c, s, "data-dir", &d.folder);
    const struct yaml_node *mount;

    if (s->kind != JOB_STORE_RDZVD || check_option(c, s, "config", NULL) != NULL)
        return d;
    if (check_option(c, s, "journal", NULL) != NULL) {
        d.place = DATA_IN_ETCD;
    } else if (path == NULL || (sync != NULL && strcmp(sync, "off") == 0)) {
        d.place = DATA_IN_MEMORY;
    } else if (d.folder.value.known && *path == '/') {
        mount = kube_mount_of(s->container, path);
        d.volume = kube_text(mount, "name");
        d.place = mount == NULL ? DATA_IN_CONTAINER : place_of_volume(s->container->pods, d.volume);
        d.read_only = mount == NULL && !text_begins(path, "/dev/")
                          ? kube_true(s->container->node, "securityContext.readOnlyRootFilesystem")
                          : kube_true(mount, "readOnly");
    }
    return d;
}

void check_store_in_memory(struct check *c, const struct job_store *s)
{
    const struct job_run *user = c->users[s - c->jobs.stores];

    if (user != NULL && data_of(c, s).place == DATA_IN_MEMORY)
        check_report(c, check_at_store(s),
                     "%s keeps its state in memory: when it restarts, %s ends", s->container->name,
                     job_run_object(user)->title);
}

void check_store_data_lost(struct check *c, const struct job_store *s)
{
    struct data d = data_of(c, s);
    struct check_position at = check_at_option(s, &d.folder);
    const char *folder = d.folder.value.text;

    if (d.place == DATA_IN_CONTAINER && !d.read_only)
        check_report(
            c, at, "no volume is mounted at %s: the state is lost whenever the container restarts",
            folder);
    else if (d.place == DATA_NOWHERE)
        check_report(c, at,
                     "the volume %s that is mounted for %s is neither in volumes nor in "
                     "volumeClaimTemplates",
                     d.volume, folder);
    else if (d.place == DATA_IN_POD && c->is_behind_relay[s - c->jobs.stores])
        check_report(c, at,
                     "the volume at %s ends with the pod: if that is replaced, agents behind "
                     "relays find their run gone, and end",
                     folder);
}

void check_store_data_read_only(struct check *c, const struct job_store *s)
{
    struct data d = data_of(c, s);

    if (d.read_only)
        check_report(c, check_at_option(s, &d.folder), "%s cannot write to %s: %s is read-only",
                     s->container->name, d.folder.value.text,
                     *d.volume == '\0' ? "its root file system" : "the mount");
}

/* --- How they are kept. --- */

/* The stores share their state: members of a cluster, or replicas on one journal. */
static bool is_cluster(struct check *c, const struct job_store *s)
{
    const char *members = check_option(c, s, "initial-cluster", NULL);

    return (members != NULL && strpbrk(members, ",$") != NULL) ||
           ANY(FOREACH_WORD(name, "discovery", "discovery-srv", "journal"),
               check_option(c, s, name, NULL) != NULL);
}

/* The store has a pod of its own: it is not a container beside training. */
static bool is_own_workload(const struct job_store *s)
{
    return s->kind != JOB_STORE_RELAY && !s->container->init &&
           !ANY(KUBE_FOREACH_CONTAINER(c, s->container->pods), c != s->container && !c->init);
}

void check_store_replicas(struct check *c, const struct job_store *s)
{
    const struct kube_pods *p = s->container->pods;
    struct check_position at =
        check_at_first(p->part, "replicas", "template.spec.parallelism", "name");
    struct data d = data_of(c, s);

    if (is_own_workload(s) && p->replicas == 0 && c->users[s - c->jobs.stores] != NULL)
        check_report(c, at, "there is no store: %s has 0 replicas", p->object->title);
    if (!is_own_workload(s) || p->replicas <= 1 || is_cluster(c, s))
        return;
    /* All pods share one claim: there is no volumeClaimTemplate. */
    if (d.place == DATA_ON_VOLUME && !has_claim_template(p->object, d.volume))
        check_report(
            c, at, "%ld stores with one volume: the first locks its --data-dir, and the others end",
            p->replicas);
    else
        check_report(c, at, "%ld stores behind one name, and they share nothing", p->replicas);
}

void check_store_rolling_update(struct check *c, const struct job_store *s)
{
    const struct kube_object *o = job_store_object(s);
    /* Only relays talk to the store, and they wait until it is back. */
    bool may_restart = s->runs.count == 0 && c->is_behind_relay[s - c->jobs.stores] &&
                       data_of(c, s).place == DATA_ON_VOLUME;

    if (!is_own_workload(s) || is_cluster(c, s) || check_is_foreign(c, s))
        return;
    if (o->type == KUBE_STATEFULSET && !may_restart &&
        !kube_is(o->spec, "updateStrategy.type", "OnDelete"))
        check_report(c, check_at_first(o->node, "spec.updateStrategy.type", "kind"),
                     "a change of this StatefulSet restarts the store at once");
    if (strcmp(o->kind, "Deployment") == 0 && !kube_is(o->spec, "strategy.type", "Recreate"))
        check_report(c, check_at_first(o->node, "spec.strategy.type", "kind"),
                     "a change of this Deployment runs two stores behind one name for a while");
}

void check_store_bare_pod(struct check *c, const struct job_store *s)
{
    const struct kube_object *o = job_store_object(s);

    if (is_own_workload(s) && !check_is_foreign(c, s) && o->type == KUBE_POD &&
        o->wrapper == NULL && kube_get(o->node, "metadata.ownerReferences") == NULL)
        check_report(c, check_at_first(o->node, "kind"),
                     "when its node fails, nothing starts this Pod again");
}

void check_store_no_memory_request(struct check *c, const struct job_store *s)
{
    if (kube_get(s->container->node, "resources.requests.memory") == NULL &&
        kube_get(s->container->node, "resources.limits.memory") == NULL && !check_is_foreign(c, s))
        check_report(c, check_at_store(s), "the store %s requests no memory", s->container->name);
}

/* --- Whether they end. --- */

static bool counts_for_jobset(const struct kube_object *o, const char *role)
{
    const struct yaml_node *targets = kube_get(o->spec, "successPolicy.targetReplicatedJobs");
    bool any = kube_is(o->spec, "successPolicy.operator", "Any");

    return yaml_length(targets) == 0 ? !any : yaml_contains(targets, role);
}

static bool completes(const struct yaml_node *of)
{
    return kube_item(kube_get(of, "policies"), "action", "CompleteJob") != NULL;
}

static bool counts_for_volcano(const struct kube_object *o)
{
    return kube_get(o->spec, "minSuccess") == NULL && !completes(o->spec) &&
           !ANY(YAML_FOREACH(task, kube_get(o->spec, "tasks")), completes(task));
}

void check_store_blocks_completion(struct check *c, const struct job_store *s)
{
    const struct kube_object *o = job_store_object(s);

    if (is_own_workload(s) && check_option(c, s, "exit-when-idle", NULL) == NULL &&
        ((o->type == KUBE_JOBSET && counts_for_jobset(o, s->container->pods->role)) ||
         (o->type == KUBE_VOLCANO_JOB && counts_for_volcano(o))))
        check_report(c, check_at_first(s->container->pods->part, "name"),
                     "%s never ends, and the %s waits for all its pods", s->container->name,
                     o->kind);
}
