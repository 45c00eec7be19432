/* Plans the change of each job: its new store, its new endpoint, and the objects that rewrite adds
 * to the files. */
#include "deploy/rewrite/rewrite_plan.h"

#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>

/* Removes from a dump of the cluster the fields that the API server refuses in a new object. */
static void remove_fields_of_server(struct rewrite *w, const struct kube_object *o)
{
    static const char labels[] = "spec.template.metadata.labels";
    static const char *const fields[][2] = {{"metadata", "uid"},
                                            {"metadata", "resourceVersion"},
                                            {"spec", "selector"},
                                            {labels, "controller-uid"},
                                            {labels, "batch.kubernetes.io/controller-uid"}};
    bool generated = o->type == KUBE_JOB && !kube_true(o->spec, "manualSelector");

    for (size_t i = 0; i < (generated ? 5 : 2); i++) {
        const struct yaml_node *mapping = kube_get(o->node, fields[i][0]);
        const struct yaml_pair *pair = yaml_get_pair(mapping, fields[i][1]);

        if (pair == NULL)
            continue;
        rewrite_note(w, pair->key, "%s: rewrite removes this %s, which the API server sets anew",
                     o->title, fields[i][1]);
        edit_remove_pair(w, mapping, pair);
    }
}

static void mark_moved(struct rewrite *w, const struct kube_object *o)
{
    remove_fields_of_server(w, o);
    w->marks[o->index].moved = w->has_moved = true;
}

/* --- Whole jobs. --- */

/* Whether the run moves: from the etcd, or (NULL) from worker 0. */
static bool moves(const struct job_run *r, const struct etcd *e)
{
    return e != NULL ? etcd_serves(e, r) : r->hosted;
}

/* Scripts of one ConfigMap may be those of several jobs. */
static bool has_partner_that_moves(const struct rewrite_job *j, const struct job_run *r,
                                   const struct etcd *e)
{
    return ANY(JOB_FOREACH(other, j->runs),
               moves(other, e) && (j->object->type != KUBE_CONFIG_MAP ||
                                   strcmp(other->container->name, r->container->name) == 0));
}

/* Refuses a job of which only a part would move, if rewrite does not know where the agents of
 * another run meet: they may be those that the runs which move have to meet with. */
static void refuse_half_a_job(struct rewrite *w, const struct rewrite_job *j, const struct etcd *e)
{
    JOB_FOREACH(r, j->runs) {
        const struct yaml_node *at = r->settings[TORCHRUN_RDZV_ENDPOINT].written.node;

        if (!job_is_dynamic(r) || !job_is_multi_node(r) || moves(r, e) || r->hosted || r->found ||
            r->store != NULL || !has_partner_that_moves(j, r, e))
            continue;
        if (at == NULL)
            at = r->settings[TORCHRUN_RDZV_BACKEND].written.node;
        rewrite_error(w, at == NULL ? r->container->node : at,
                      "%s: %s the store of its other runs, and rewrite cannot tell whether this "
                      "one meets there, too: give it their endpoint%s",
                      j->object->title, e != NULL ? "an etcd is" : "a training pod is",
                      e != NULL ? ", or use --keep-backend" : "");
    }
}

/* Another job that starts the same script of a ConfigMap or command of a runtime, or NULL. */
static const struct kube_object *other_user(struct rewrite *w, const struct job_run *r)
{
    bool may_be = r->map != NULL || (job_run_object(r)->type == KUBE_TRAINJOB &&
                                     r->settings[TORCHRUN_RDZV_ENDPOINT].flag != NULL);

    return FIND(
        job_run_object(other),
        FOREACH_POINTER(struct job_run, other, w->jobs.runs, may_be ? w->jobs.all_count : 0),
        job_run_object(other) != job_run_object(r) && other->args != NULL &&
            other->args->command.node == r->args->command.node);
}

/* Refuses a job of which a part is out of sight: options in it would still be those of the old
 * store. */
static void refuse_unread(struct rewrite *w, const struct rewrite_job *j, const struct etcd *e)
{
    const char *keep = e == NULL ? "" : ", or use --keep-backend";

    JOB_FOREACH(r, j->runs) {
        const struct kube_object *other = r->args == NULL ? NULL : other_user(w, r);
        const struct job_run *parted = job_parted_from(&w->jobs, r);

        if (r->hosted && job_groups(r) > 1 && r->settings[TORCHRUN_RDZV_ID].value.field_count == 0)
            rewrite_error(w, r->container->node,
                          "%s has %ld groups of pods, which would meet at one store under one id: "
                          "give each an --rdzv_id of its own, such as that of a label of the group",
                          j->object->title, job_groups(r));
        if (parted != NULL)
            rewrite_error(
                w, r->container->node,
                "%s: its pods name the ids `%s` and `%s`, or two ports, at one host: give them one",
                j->object->title, job_id(parted), job_id(r));

        if (r->unread != NULL && job_is_multi_node(r))
            rewrite_error(w, r->unread->node,
                          "%s: `%s` may hold options of torchrun, and these files do not have its "
                          "text: write the options into the manifest%s",
                          j->object->title, r->unread->text, keep);
        else if (other != NULL && job_run_object(r) != r->map)
            rewrite_error(w, r->args->command.node,
                          "%s starts this command, and so does %s: give each job one of its own%s",
                          j->object->title, other->title, keep);
    }
}

/* Says of a job that stays what keeps rewrite from judging it. */
static void note_unread(struct rewrite *w, const struct rewrite_job *j)
{
    JOB_FOREACH(r, j->runs) {
        const char *text = job_unread(r);
        bool accelerate = r->args != NULL && r->args->is_accelerate && r->hosted;
        bool script = j->object->type == KUBE_CONFIG_MAP && r->found && r->store == NULL;

        if ((text == NULL && !accelerate && !script) || !job_is_multi_node(r))
            continue;
        rewrite_note(w, j->object->node,
                     script ? "%s: rewrite leaves its script as it is, because no pods of these "
                              "files start it"
                     : text == NULL ? "%s: rewrite leaves it as it is: give accelerate launch "
                                      "--rdzv_backend=c10d, then it moves"
                                    : "%s: rewrite leaves it as it is: where it meets depends on "
                                      "`%s`, and these files do not say what that is",
                     j->object->title, text);
        w->has_left = true;
        return;
    }
}

static const char *part_of(const struct job_run *r)
{
    return *r->container->pods->role != '\0' ? r->container->pods->role : r->container->name;
}

/* Runs that have stores of their own today, and no ids that tell them apart. */
static void refuse_merged_runs(struct rewrite *w, const struct rewrite_job *j)
{
    const struct job_run *with, *r = rewrite_job_merged(j, &with);

    if (r != NULL)
        rewrite_error(w, r->container->node,
                      "%s: %s meets in other pods than %s, and with the same id at one store they "
                      "would become one run: give each an --rdzv_id of its own",
                      j->object->title, part_of(r), part_of(with));
}

/* --- Relays. --- */

static bool is_on_host_network(const struct rewrite_job *j)
{
    return ANY(JOB_FOREACH(r, j->runs), r->container->pods->host_network);
}

static bool can_have_relays(struct rewrite *w, const struct rewrite_job *j)
{
    bool fixed_size = rewrite_job_pods(j) == rewrite_job_nodes(j) &&
                      !ANY(JOB_FOREACH(r, j->runs), job_is_elastic(r));
    const char *why = is_on_host_network(j)
                          ? "on the host network each job needs a port of its own for its relays"
                      : j->object->type == KUBE_TRAINJOB || j->object->type == KUBE_RUNTIME
                          ? "its pods are those of a runtime, which other jobs may use"
                      : j->object->type == KUBE_POD && rewrite_job_nodes(j) > 1
                          ? "it cannot tell which Pods are one job, and need one space"
                      : j->object->type == KUBE_MPIJOB ? "mpirun starts torchrun in other pods"
                      : rewrite_restarts_in_place(w) && !fixed_size
                          ? "rdzv.restart is for a job of fixed size, whose pods rewrite can count"
                          : NULL;

    if (why != NULL)
        rewrite_error(w, j->object->node,
                      "%s: %s: use `rdzv-manifest emit --rdzv relay`, or leave out --rdzv",
                      j->object->title, why);
    return why == NULL;
}

/* Whether the pods are a YAML alias of earlier pods: edits of the earlier pods apply to both. */
static bool is_alias_of_earlier(const struct rewrite_job *j, size_t i)
{
    const struct yaml_node *spec = j->runs.list[i]->container->pods->spec;

    return spec->alias && ANY(FOREACH_POINTER(struct job_run, r, j->runs.list, i),
                              r->container->pods->spec->pairs == spec->pairs);
}

/* A container of rdzvd for these pods. rdzvd must not run as root, even if the pods do. */
static struct yaml_node *part_for_pods(struct emit_job *job, const struct kube_pods *p,
                                       const char *name)
{
    emit_job_set(job, "podUser", kube_get(p->spec, "securityContext.runAsUser"));
    return emit_job_part(job, name);
}

/* Adds these pairs before a pair of the mapping, or gives those that are there their values. */
static void set_pairs(struct rewrite *w, const struct yaml_node *mapping, const char *before,
                      const struct yaml_node *pairs)
{
    struct yaml_node *block = yaml_new(&w->arena, YAML_MAPPING);

    YAML_FOREACH_PAIR(pair, pairs) {
        const struct yaml_node *old = yaml_get(mapping, pair->key->text);

        if (old == NULL)
            yaml_put(&w->arena, block, pair->key->text, pair->value);
        else if (yaml_text(old) != NULL && pair->value->kind == YAML_SCALAR)
            edit_value(w, old, pair->value->text);
        else
            rewrite_error(w, old, "%s: rdzv.restart has rules of its own: remove these",
                          pair->key->text);
    }
    if (block->count > 0)
        edit_add_pair(w, mapping, yaml_get_pair(mapping, before), true, rewrite_text(w, block));
}

/* The relay restarts the containers of all pods: see rdzv.restart. */
static void restart_in_place(struct rewrite *w, const struct kube_pods *p, struct emit_job *job)
{
    const struct kube_object *o = p->object;
    struct yaml_node *never = yaml_new(&w->arena, YAML_MAPPING);

    yaml_put_text(&w->arena, never, "restartPolicy", "Never");
    set_pairs(w, o->type == KUBE_JOBSET ? kube_get(p->part, "template.spec") : o->spec, "template",
              emit_job_part(job, "jobRestart"));
    set_pairs(w, p->spec, "containers", never);
    KUBE_FOREACH_CONTAINER(c, p) {
        if (!c->init)
            set_pairs(w, c->node, "image", emit_job_part(job, "trainingRestart"));
    }
}

/* The relay listens where no other container of the pod can. `old` is the port that rewrite removes
 * from the container of the run. */
static void refuse_port_of_relay(struct rewrite *w, const struct job_run *r, long old)
{
    KUBE_FOREACH_CONTAINER(c, r->container->pods) {
        YAML_FOREACH(port, kube_get(c->node, "ports")) {
            if (kube_int(port, "containerPort", -1) == C10D_PORT &&
                (c != r->container || old != C10D_PORT))
                rewrite_error(w, port,
                              "%s: the relay in its pods needs port %d: give %s another port, or "
                              "leave out --rdzv",
                              job_run_object(r)->title, C10D_PORT, c->name);
        }
    }
}

/* Puts a relay into all pods of the runs that move: from the etcd, or (NULL) from worker 0. */
static void give_relays(struct rewrite *w, const struct rewrite_job *j, const struct etcd *e,
                        struct emit_job *job, const char *store)
{
    const struct kube_pods *last = NULL;

    for (size_t i = 0; i < j->runs.count; i++) {
        const struct job_run *r = j->runs.list[i];

        if (!moves(r, e) || r->container->pods == last || is_alias_of_earlier(j, i))
            continue;
        last = r->container->pods;
        refuse_port_of_relay(w, r, e != NULL ? e->ports[0] : r->port);
        rewrite_add_to_pod(
            w, last, "initContainers", true,
            part_for_pods(job, last,
                          check_would_be_guaranteed(last) ? "relayOfGuaranteed" : "relayOfOthers"));
        if (rewrite_restarts_in_place(w))
            restart_in_place(w, last, job);
        if (yaml_get(w->options->wishes, "tls") != NULL)
            rewrite_add_to_pod(w, last, "volumes", false, emit_job_part(job, "clientTlsVolume"));
    }
    rewrite_note(
        w, j->object->node,
        "%s: each of its pods gets a relay to %s, a native sidecar (needs Kubernetes 1.29)",
        j->object->title, store);
}

static const char *platform_or_pods(const struct kube_object *o)
{
    const char *platform = kube_platform(o->type);

    return platform == NULL ? "pods" : platform;
}

/* The first run of the job that meets at the etcd, or NULL. */
static const struct job_run *first_run_at(const struct etcd *e, const struct rewrite_job *j)
{
    return FIND(r, JOB_FOREACH(r, j->runs), etcd_serves(e, r));
}

/* Whether the job got relays to the store that comes in the place of the etcd. */
static bool relays_to_etcd(struct rewrite *w, const struct rewrite_job *j, const struct etcd *e)
{
    const struct kube_object *o = j->object;
    struct emit_job job = {0};
    struct store_settings s = {
        .platform = platform_or_pods(o), .placement = "relay", .nodes = rewrite_job_nodes(j)};

    if (!w->options->relay)
        return false;
    if (o->type == KUBE_CONFIG_MAP || *o->name == '\0') {
        rewrite_note(w, o->node, "%s: rewrite gives it no relay: it cannot tell %s", o->title,
                     *o->name == '\0' ? "what its space is to be called" : "which pods run it");
        return false;
    }
    s.endpoint = arena_text(&w->arena, "%s:%d", first_run_at(e, j)->host, C10D_PORT);
    if (can_have_relays(w, j) && rewrite_open_store(w, o, &s, &job))
        give_relays(w, j, e, &job, s.endpoint);
    emit_job_free(&job);
    return w->diag->errors == 0;
}

/* --- From an etcd. --- */

/* An etcd backend at an unknown endpoint still works: rdzvd speaks etcd v2. */
static void note_unknown_endpoint(struct rewrite *w, const struct rewrite_job *j)
{
    const struct job_run *found = FIND(r, JOB_FOREACH(r, j->runs), job_is_etcd(r) && !r->found);

    if (found != NULL)
        rewrite_note(w, j->object->node,
                     "%s meets over %s at an endpoint that leads to nothing in these files: "
                     "rewrite leaves it as it is",
                     j->object->title, found->backend);
}

/* Notes once what happens to the restarts of the runs that move. */
static void note_restarts(struct rewrite *w, const struct rewrite_job *j, const struct etcd *e)
{
    static const char *const said[] = {
        [RESTARTS_ADDED] = "torchrun had no restarts, so at the first failed worker its container "
                           "would start again without the others: rewrite sets " JOB_USUAL_RESTARTS,
        [RESTARTS_OUT_OF_SIGHT] = "rewrite adds no restarts, because it does not see all options "
                                  "of the launch: without --max-restarts, a container starts again "
                                  "without the others at the first failed worker",
        [RESTARTS_OF_UNKNOWN_PODS] =
            "rewrite adds no restarts, because it cannot tell which pods run it: if their "
            "containers restart in place, set --max-restarts=" JOB_USUAL_RESTARTS,
    };
    bool noted[sizeof said / sizeof *said] = {false};

    JOB_FOREACH(r, j->runs) {
        enum rewrite_restarts what = rewrite_restarts_of(w, r);

        if (moves(r, e) && said[what] != NULL && !noted[what])
            rewrite_note(w, j->object->node, "%s: %s", j->object->title, said[what]);
        noted[what] = noted[what] || moves(r, e);
    }
}

/* `e`: jobs that meet there keep its name. NULL: jobs whose worker 0 is the store move to
 * `host`. */
static void move_runs(struct rewrite *w, const struct rewrite_job *j, const struct etcd *e,
                      const char *host)
{
    bool policy = false;

    JOB_FOREACH(r, j->runs) {
        if (!moves(r, e))
            continue;
        if (!policy && rewrite_obeys_policy(j, r)) {
            rewrite_move_policy(w, j, host);
            policy = true;
        }
        rewrite_move_run(w, j, r, host, e != NULL ? e->ports[0] : r->port);
    }
    note_restarts(w, j, e);
}

static void note_shared_store(struct rewrite *w, const struct rewrite_job *j)
{
    static const char variable[] = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE";

    if (ANY(JOB_FOREACH(r, j->runs), (r->nodes_max < 0 || job_is_elastic(r)) &&
                                         job_variable(&w->jobs, r->container, variable) == NULL))
        rewrite_note(w, j->object->node,
                     "%s: if it is elastic, torch 2.6 and later need %s=1 on every agent over "
                     "etcd-v2, or a node that joins or replaces another one waits for ever: set "
                     "it, or leave out --keep-backend",
                     j->object->title, variable);
}

/* Counts the job at each etcd that its runs name; returns the first of these. */
static struct etcd *join_etcds(struct etcd *etcds, size_t count, const struct rewrite_job *j)
{
    struct etcd *first = NULL;

    for (size_t k = 0; k < count; k++) {
        if (first_run_at(&etcds[k], j) == NULL)
            continue;
        JOB_FOREACH(r, j->runs) {
            if (etcd_serves(&etcds[k], r))
                etcd_want(&etcds[k], r);
        }
        etcds[k].nodes += rewrite_job_nodes(j);
        if (first == NULL)
            first = &etcds[k];
    }
    return first;
}

static void move_one(struct rewrite *w, const struct rewrite_job *j, struct etcd *e, bool c10d)
{
    const char *fixed = j->object->type == KUBE_ELASTIC_JOB ? "its controller knows no other"
                        : kube_is_template(j->object) ? "it is a template within another object"
                                                      : NULL;
    bool relayed;

    if (c10d && fixed != NULL)
        rewrite_note(w, j->object->node, "%s meets at this etcd: rewrite leaves it on etcd-v2: %s",
                     j->object->title, fixed);
    else
        rewrite_note(w, j->object->node, "%s meets at this etcd: %s", j->object->title,
                     c10d ? "rewrite moves it to c10d" : "rewrite leaves it on etcd-v2, as it is");
    e->fixed += fixed != NULL;
    if (fixed != NULL) {
        w->marks[kube_top(j->object)->index].restarted = !kube_is_template(j->object);
        e->direct++;
        return;
    }
    if (c10d) {
        refuse_unread(w, j, e);
        refuse_half_a_job(w, j, e);
    }
    relayed = relays_to_etcd(w, j, e);
    e->direct += !relayed;
    e->moved += c10d;
    if (c10d)
        move_runs(w, j, e, relayed ? "localhost" : NULL);
    else
        note_shared_store(w, j);
    mark_moved(w, j->object);
}

void move_from_etcds(struct rewrite *w, struct etcd *etcds, size_t count, bool c10d)
{
    struct rewrite_job j;
    size_t at = 0;

    while (rewrite_next_job(w, &at, &j)) {
        struct etcd *e = join_etcds(etcds, count, &j);

        if (e != NULL)
            move_one(w, &j, e, c10d);
        else
            note_unknown_endpoint(w, &j);
    }
}

/* --- From worker 0. --- */

static bool is_json(const struct rewrite_file *f)
{
    static const char blanks[] = " \t\r\n";
    const char *p = f->yaml.bytes + strspn(f->yaml.bytes, blanks);

    return *p == '{' && p[1 + strspn(p + 1, blanks)] == '"';
}

/* Adds documents before the one that has the object, or items before it in a List. */
static void put_in_front(struct rewrite *w, const struct kube_object *o,
                         const struct yaml_node *documents)
{
    const struct rewrite_file *f = rewrite_file_of(w, o->node);

    o = kube_top(o);
    if (o->list == NULL && f->yaml.count == 1 && is_json(f)) {
        edit_make_list(w, o->node, documents);
        return;
    }
    YAML_FOREACH(document, o->list != NULL ? documents : NULL)
        edit_add_item(w, o->list, o->item, true, rewrite_text(w, document));
    if (o->list == NULL)
        edit_add_documents(w, o->doc, yaml_write_documents(&w->arena, documents));
}

/* A store with the label that the job's store would have: the new Service would select it, too. */
static bool has_store_already(struct rewrite *w, const struct kube_object *job)
{
    const struct job_store *old =
        FIND(s, FOREACH(const struct job_store, s, w->jobs.stores, w->jobs.store_count),
             s->kind == JOB_STORE_RDZVD && kube_same_namespace(job_store_object(s), job) &&
                 kube_is(s->container->pods->meta, "labels.rdzvd", job->name));

    if (old != NULL)
        rewrite_error(w, job_store_object(old)->node,
                      "%s already has this store, but does not use it: set the job's endpoint to "
                      "it, or remove it",
                      job->title);
    return old != NULL;
}

/* The first free name among JOB-rdzv, JOB-rdzv-2, JOB-rdzv-3… */
static const char *free_name(struct rewrite *w, const struct kube_object *job)
{
    const char *name = arena_text(&w->arena, "%s-rdzv", job->name);

    for (int i = 2; ANY(FOREACH_WORD(kind, "Service", "StatefulSet", "Deployment",
                                     "PodDisruptionBudget", "NetworkPolicy"),
                        kube_named(&w->bundle, kind, name, job) != NULL);
         i++)
        name = arena_text(&w->arena, "%s-rdzv-%d", job->name, i);
    return name;
}

/* The store that an earlier object of the same kind and name got, which is the same job; or NULL.
 * An object of another kind is another job, but its store would have the same labels. */
static const char *given_before(struct rewrite *w, const struct kube_object *job)
{
    KUBE_FOREACH(o, &w->bundle) {
        const struct rewrite_mark *mark = &w->marks[o->index];

        if (!mark->moved || mark->store == NULL || strcmp(o->name, job->name) != 0 ||
            !kube_same_namespace(o, job))
            continue;
        if (o->type != job->type)
            rewrite_error(w, job->node,
                          "%s has the name of %s, and the stores of both would have it: rename one",
                          job->title, o->title);
        return mark->store;
    }
    return NULL;
}

static void note_store(struct rewrite *w, const struct rewrite_job *j, const char *name, bool host)
{
    const struct kube_object *o = j->object;

    rewrite_note(
        w, o->node,
        "%s: its worker 0 was the store; now %s %s is, behind a Service of that name at port %d",
        o->title, w->options->replicas ? "Deployment" : "StatefulSet", name, C10D_PORT);
    if (host || kube_platform(o->type) == NULL)
        rewrite_note(w, o->node, "%s: no NetworkPolicy guards its store: %s", o->title,
                     host ? "a policy cannot select pods on the host network"
                          : "rewrite does not know the label of its pods");
    if (!ANY(JOB_FOREACH(r, j->runs), job_is_set(r, TORCHRUN_RDZV_BACKEND)))
        rewrite_note(w, o->node,
                     "%s had no backend, and --node_rank set the ranks; c10d sets them in the "
                     "order of the pods' addresses",
                     o->title);
}

/* The variables that the run needs to find the store of the job; of a static job with an endpoint,
 * on the host network, the address at which the other agents find a node. */
static struct yaml_node *variables_of(struct rewrite *w, struct emit_job *job,
                                      const struct job_run *r)
{
    struct yaml_node *env = emit_job_part(job, "runEnv"), *own = yaml_new(&w->arena, YAML_SEQUENCE);

    if (job_is_set(r, TORCHRUN_RDZV_ENDPOINT)) {
        yaml_append(&w->arena, own, (struct yaml_node *)kube_item(env, "name", "PET_LOCAL_ADDR"));
        return own;
    }
    if (rewrite_restarts_of(w, r) == RESTARTS_ADDED)
        YAML_PUT_TEXTS(&w->arena, yaml_put_new(&w->arena, env, NULL, YAML_MAPPING),
                       {"name", torchrun_variables[TORCHRUN_MAX_RESTARTS]},
                       {"value", JOB_USUAL_RESTARTS});
    return env;
}

static void give_store(struct rewrite *w, const struct rewrite_job *j)
{
    const struct kube_object *o = j->object;
    const char *before = given_before(w, o), *name = before != NULL ? before : free_name(w, o);
    bool host = is_on_host_network(j);
    struct emit_job job = {0};
    struct store_settings s = {
        .platform = platform_or_pods(o),
        .placement = w->options->replicas ? "replicas"
                     : w->options->relay  ? "relay"
                                          : "service",
        .name = name,
        .service = name,
        .nodes = rewrite_job_nodes(j),
        .of_one_job = true,
        .expect = rewrite_job_pods(j),
        .host_network = host,
        .open = kube_platform(o->type) == NULL,
    };

    if (*o->name == '\0')
        rewrite_error(w, o->node,
                      "this job has no name: give it one (the store cannot use generateName)");
    refuse_unread(w, j, NULL);
    refuse_half_a_job(w, j, NULL);
    refuse_merged_runs(w, j);
    if (w->options->relay)
        can_have_relays(w, j);
    if (w->diag->errors > 0 || (before == NULL && has_store_already(w, o)))
        return;
    w->marks[o->index].store = name;
    if (rewrite_open_store(w, o, &s, &job)) {
        if (before == NULL)
            put_in_front(w, o, emit_job_part(&job, "documents"));
        note_store(w, j, name, host);
        JOB_FOREACH(r, j->runs) {
            if (r->hosted && r->cleared != NULL && !job_is_set(r, TORCHRUN_RDZV_ENDPOINT))
                rewrite_error(
                    w, r->args->command.node,
                    "%s: `%s` clears the variables by which torchrun would find its "
                    "store: write the options --rdzv_backend, --rdzv_endpoint and --rdzv_id",
                    o->title, r->cleared->text);
            if (r->hosted &&
                (!job_is_set(r, TORCHRUN_RDZV_ENDPOINT) ||
                 (strcmp(r->backend, "static") == 0 && r->container->pods->host_network &&
                  !job_is_set(r, TORCHRUN_LOCAL_ADDR))))
                rewrite_add_variables(w, r->container, r, variables_of(w, &job, r));
        }
        if (w->options->relay)
            give_relays(w, j, NULL, &job, name);
        move_runs(w, j, NULL, w->options->relay ? "localhost" : name);
        KUBE_FOREACH_PODS_OF(p, &w->bundle, o)
            old_address_refuse(w, j, p->spec, false);
    }
    emit_job_free(&job);
    mark_moved(w, o);
}

/* Jobs whose launcher has no rendezvous that could move. */
static void note_foreign(struct rewrite *w)
{
    FOREACH(const struct job_closed, closed, w->jobs.closed, w->jobs.closed_count) {
        if (closed->remedy != NULL)
            rewrite_note(w, closed->at, "%s: rewrite leaves %s as it is: %s",
                         closed->container->pods->object->title, closed->program, closed->remedy);
        w->has_left = w->has_left || closed->remedy != NULL;
    }
}

size_t move_self_hosted(struct rewrite *w, bool look)
{
    struct rewrite_job j;
    size_t found = 0, at = 0;

    note_foreign(w);

    while (rewrite_next_job(w, &at, &j)) {
        if (!rewrite_is_self_hosted(&j)) {
            if (!w->marks[j.object->index].moved)
                note_unread(w, &j);
            continue;
        }
        if (j.object->type == KUBE_POD || kube_is_template(j.object)) {
            rewrite_note(w, j.object->node,
                         "%s: one of the training pods is the store, and rewrite leaves it so: %s",
                         j.object->title,
                         j.object->type == KUBE_POD ? "it cannot tell which Pods are one job"
                                                    : "several jobs would share the new store");
            w->has_left = true;
            continue;
        }
        found++;
        if (look)
            rewrite_note(w, j.object->node,
                         "%s: its worker 0 is the store, and rewrite leaves it so: without "
                         "--keep-backend and --from=etcd rdzvd replaces it",
                         j.object->title);
        else
            give_store(w, &j);
    }
    return found;
}

/* --- Without torchrun. --- */

/* The container of these pods that the Training Operator uses. */
static const struct kube_container *main_container(const struct kube_pods *p)
{
    return FIND(c, KUBE_FOREACH_CONTAINER(c, p), !c->init && strcmp(c->name, "pytorch") == 0);
}

static void set_restart_policy(struct rewrite *w, const struct kube_pods *p)
{
    const struct yaml_pair *policy = yaml_get_pair(p->part, "restartPolicy");

    if (policy != NULL && yaml_is(policy->value, "Never"))
        return;
    if (policy != NULL)
        edit_value(w, policy->value, "Never");
    else
        edit_add_pair(w, p->part, &p->part->pairs[0], true, "restartPolicy: Never\n");
    rewrite_note(w, policy != NULL ? policy->value : p->part,
                 "%s: rewrite sets restartPolicy to Never: a second attempt would find the keys of "
                 "the first",
                 p->object->title);
}

static bool can_have_agent_store(struct rewrite *w, const struct kube_pods *p)
{
    if (main_container(p) == NULL)
        rewrite_error(
            w, p->part,
            "this %s has no container named pytorch, which the operator needs: give one that name",
            p->role);
    else if (p->host_network)
        rewrite_error(w, p->spec,
                      "on the host network, the store beside worker 0 may find its port in use: "
                      "take the job off the host network, or use torchrun");
    else
        return true;
    return false;
}

static void give_agent_store(struct rewrite *w, const struct kube_object *o,
                             const struct kube_pods *master)
{
    const struct kube_container *c = main_container(master);
    /* Where the other ranks look for rank 0. */
    const struct job_variable *port_of = job_variable(&w->jobs, c, "MASTER_PORT");
    long made = port_of == NULL || port_of->made == NULL ? 0 : strtol(port_of->made, NULL, 10);
    long port = made > 0 && made < 65536 ? made : 23456;
    struct emit_job job;
    struct store_settings s = {
        .platform = "pytorchjob",
        .placement = "sidecar",
        .wiring = "agent-store",
        .port = port,
        .resources = kube_get(c->node, "resources"),
        .nodes = kube_count_pods(&w->bundle, o),
    };

    if (rewrite_open_store(w, o, &s, &job)) {
        KUBE_FOREACH_PODS_OF(p, &w->bundle, o) {
            if (!can_have_agent_store(w, p))
                continue;
            set_restart_policy(w, p);
            rewrite_add_variables(w, main_container(p), NULL, emit_job_part(&job, "runEnv"));
        }
        rewrite_add_to_pod(w, master, "initContainers", true,
                           part_for_pods(&job, master, "rdzvdSidecar"));
        rewrite_add_to_pod(w, master, "volumes", false, emit_job_part(&job, "rdzvdVolume"));
        rewrite_note(w, o->node,
                     "%s: rdzvd is a native sidecar of its Master, at port %ld, where rank 0 would "
                     "have listened (needs Kubernetes 1.29 and Training Operator 1.8)",
                     o->title, port);
    }
    emit_job_free(&job);
    mark_moved(w, o);
}

size_t move_to_agent_store(struct rewrite *w, bool look)
{
    size_t found = 0;

    KUBE_FOREACH_PODS(p, &w->bundle) {
        const struct kube_object *o = p->object;

        if (o->type != KUBE_PYTORCHJOB || strcmp(p->role, "Master") != 0 ||
            main_container(p) == NULL)
            continue;
        /* torchrun, a policy or a variable already sets the endpoint */
        if (job_runs_of(&w->jobs, o).count > 0 || kube_get(o->spec, "elasticPolicy") != NULL ||
            job_variable(&w->jobs, main_container(p), "TORCHELASTIC_USE_AGENT_STORE") != NULL)
            continue;
        found++;
        if (look)
            rewrite_note(w, o->node,
                         "%s runs no torchrun, which could be given an endpoint: "
                         "--wiring=agent-store puts rdzvd where its rank 0 would listen",
                         o->title);
        else
            give_agent_store(w, o, p);
    }
    return found;
}
