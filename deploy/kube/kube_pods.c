/* Finds the pod templates of each kind of object, the labels and names of its pods, and which of
 * them a job starts again after a failure. */
#include "deploy/kube/kube_view.h"

#include <string.h>

static void add_label(struct kube_bundle *b, struct kube_pods *p, const char *key,
                      const char *value)
{
    arena_push(&b->arena, p->labels, p->label_count, p->label_cap) =
        (struct kube_label){key, value};
}

/* The policy that `rdzv-manifest policy` prints adds a relay to pods with this label. What the
 * policy adds has the place of the label. */
static void add_injected(struct arena *a, struct kube_pods *p)
{
    const struct yaml_node *label = kube_get(p->meta, KUBE_INJECT_LABEL);
    const char *space = p->object->namespace;
    struct yaml_node *node = yaml_new(a, YAML_MAPPING), *args;

    if (yaml_text(label) == NULL || text_is(label->text, "", "false", "true") || p->host_network ||
        kube_item(kube_get(p->spec, "initContainers"), "name", "rdzvd-relay") != NULL)
        return;
    p->injected = label;
    node->file = label->file;
    node->start = label->start;
    args = yaml_put_new(a, node, "args", YAML_SEQUENCE);
    space = arena_text(a, "--space=%s%s%s", space, *space == '\0' ? "" : ".", label->text);
    FOREACH_WORD(word, "--upstream=$(STORE)", space, "--listen=localhost:29400")
        yaml_append(a, args, yaml_new_string(a, word));
    p->containers[p->count++] = (struct kube_container){.pods = p,
                                                        .node = node,
                                                        .name = "rdzvd-relay",
                                                        .image = "rdzvd",
                                                        .init = true,
                                                        .sidecar = true,
                                                        .injected = true};
}

static void add_containers(struct arena *a, struct kube_pods *p, const struct yaml_node *over)
{
    static const char *const keys[] = {"initContainers", "containers"};
    size_t count =
        yaml_length(kube_get(p->spec, keys[0])) + yaml_length(kube_get(p->spec, keys[1]));

    p->containers = arena_alloc(a, (count + 2) * sizeof *p->containers);
    add_injected(a, p);
    for (int init = 1; init >= 0; init--) {
        YAML_FOREACH(item, kube_get(p->spec, keys[!init])) {
            struct kube_container *c = &p->containers[p->count];

            if (item->kind != YAML_MAPPING)
                continue;
            *c = (struct kube_container){.pods = p, .node = item, .init = init};
            c->name = kube_text(c->node, "name");
            if (!init && strcmp(c->name, "node") == 0)
                c->over = over;
            c->image = kube_text(kube_field(c, "image"), "");
            c->sidecar = init && kube_is(c->node, "restartPolicy", "Always");
            p->count++;
        }
    }
}

/* The caller fills in the other fields. */
static struct kube_pods *pods_add(struct kube_bundle *b, const struct kube_object *o,
                                  const struct yaml_node *part, const struct yaml_node *meta,
                                  const struct yaml_node *spec, const struct yaml_node *over)
{
    struct kube_pods *p = arena_alloc(&b->arena, sizeof *p);

    *p = (struct kube_pods){
        .object = o,
        .role = "",
        .part = part,
        .meta = meta,
        .spec = spec,
        .replicas = 1,
        .ends = true,
        .restart = kube_text(spec, "restartPolicy"),
        .host_network = kube_true(spec, "hostNetwork"),
        .host_domain = "",
    };
    if (*p->restart == '\0')
        p->restart = "Always";
    p->index = b->pod_count;
    YAML_FOREACH_PAIR(label, kube_get(p->meta, "labels")) {
        if (yaml_text(label->value) != NULL)
            add_label(b, p, label->key->text, yaml_text(label->value));
    }
    add_containers(&b->arena, p, over);
    arena_push(&b->arena, b->pods, b->pod_count, b->pod_cap) = p;
    return p;
}

/* Adds the pods of a template; NULL if there is none. */
static struct kube_pods *make_pods(struct kube_bundle *b, const struct kube_object *o,
                                   const struct yaml_node *part, const struct yaml_node *template,
                                   const struct yaml_node *over)
{
    const struct yaml_node *spec = kube_get(template, "spec");

    if (spec == NULL || spec->kind != YAML_MAPPING)
        return NULL;
    return pods_add(b, o, part, kube_get(template, "metadata"), spec, over);
}

static void set_replicas(struct kube_pods *p, const struct yaml_node *from, const char *key)
{
    p->replicas = kube_int(from, key, kube_get(from, key) != NULL ? -1 : 1);
}

/* A Job runs as many pods at once as it has completions left, at most. */
static void set_job_replicas(struct kube_pods *p, const struct yaml_node *spec)
{
    long least = kube_int(spec, "completions", kube_get(spec, "completions") == NULL ? 0 : -1);

    set_replicas(p, spec, "parallelism");
    if (least != 0 && (kube_get(spec, "parallelism") == NULL || (least > 0 && least < p->replicas)))
        set_replicas(p, spec, "completions");
}

static void find_pod(struct kube_bundle *b, const struct kube_object *o)
{
    struct kube_pods *p = make_pods(b, o, o->node, o->node, NULL);

    if (p == NULL)
        return;
    p->ends = strcmp(p->restart, "Always") != 0;
    if (*kube_text(o->spec, "hostname") != '\0' && *kube_text(o->spec, "subdomain") != '\0') {
        p->host_prefix = kube_text(o->spec, "hostname");
        p->host_domain = kube_text(o->spec, "subdomain");
    }
}

static void find_workload(struct kube_bundle *b, const struct kube_object *o)
{
    struct kube_pods *p = make_pods(b, o, o->spec, kube_get(o->spec, "template"), NULL);

    if (p == NULL)
        return;
    p->ends = false;
    set_replicas(p, o->spec, "replicas");
    if (strcmp(o->kind, "DaemonSet") == 0)
        p->replicas = -1;
    if (o->type == KUBE_STATEFULSET) {
        add_label(b, p, "statefulset.kubernetes.io/pod-name", NULL);
        add_label(b, p, "apps.kubernetes.io/pod-index", NULL);
        p->host_prefix = arena_text(&b->arena, "%s-", o->name);
        p->host_domain = kube_text(o->spec, "serviceName");
    }
}

static void find_batch_job(struct kube_bundle *b, const struct kube_object *o)
{
    struct kube_pods *p = make_pods(b, o, o->spec, kube_get(o->spec, "template"), NULL);

    if (p == NULL)
        return;
    set_job_replicas(p, o->spec);
    add_label(b, p, "batch.kubernetes.io/job-name", o->name);
    add_label(b, p, "job-name", o->name);
    add_label(b, p, "batch.kubernetes.io/controller-uid", NULL);
    add_label(b, p, "controller-uid", NULL);
    add_label(b, p, "batch.kubernetes.io/job-completion-index", NULL);
    if (*kube_text(p->spec, "subdomain") != '\0') {
        p->host_prefix = arena_text(&b->arena, "%s-", o->name);
        p->host_domain = kube_text(p->spec, "subdomain");
    }
}

static void find_volcano(struct kube_bundle *b, const struct kube_object *o)
{
    const struct yaml_node *tasks = kube_get(o->spec, "tasks");
    bool svc = kube_has_plugin(o, "svc");

    for (size_t i = 0; i < yaml_length(tasks); i++) {
        const struct yaml_node *task = tasks->items[i];
        struct kube_pods *p = make_pods(b, o, task, kube_get(task, "template"), NULL);

        if (p == NULL)
            continue;
        p->role = kube_text(task, "name");
        if (*p->role == '\0')
            p->role = arena_text(&b->arena, "default%zu", i);
        set_replicas(p, task, "replicas");
        add_label(b, p, "volcano.sh/job-name", o->name);
        add_label(b, p, "volcano.sh/job-namespace", o->namespace);
        add_label(b, p, "volcano.sh/task-spec", p->role);
        add_label(b, p, "volcano.sh/queue-name", NULL);
        add_label(b, p, "volcano.sh/task-index", NULL);
        p->host_prefix = svc ? arena_text(&b->arena, "%s-%s-", o->name, p->role) : NULL;
        p->host_domain = o->name;
    }
}

/* Adds the labels that JobSet and its Jobs set at each pod. */
static void add_labels_of_each(struct kube_bundle *b, struct kube_pods *p)
{
    FOREACH_WORD(key, "jobset.sigs.k8s.io/replicatedjob-replicas", "jobset.sigs.k8s.io/jobset-uid",
                 "batch.kubernetes.io/job-completion-index", "jobset.sigs.k8s.io/job-index",
                 "jobset.sigs.k8s.io/job-global-index", "batch.kubernetes.io/job-name",
                 "jobset.sigs.k8s.io/global-replicas", "jobset.sigs.k8s.io/job-key",
                 "jobset.sigs.k8s.io/restart-attempt", "controller-uid",
                 "batch.kubernetes.io/controller-uid", "job-name")
        add_label(b, p, key, NULL);
}

/* The replicatedJobs of a JobSet, of a runtime, or of a runtime as a TrainJob uses it. */
static void find_replicated(struct kube_bundle *b, const struct kube_object *o,
                            const struct kube_object *from, const struct yaml_node *jobset)
{
    const char *subdomain = kube_text(jobset, "network.subdomain");
    bool is_train = o->type == KUBE_TRAINJOB;

    YAML_FOREACH(part, kube_get(jobset, "replicatedJobs")) {
        const struct yaml_node *spec = kube_get(part, "template.spec");
        bool node =
            o->type != KUBE_JOBSET &&
            kube_is(part,
                    "template.metadata.labels.trainer\\.kubeflow\\.org/trainjob-ancestor-step",
                    "trainer");
        struct kube_pods *p = make_pods(b, o, part, kube_get(spec, "template"),
                                        node && is_train ? kube_get(o->spec, "trainer") : NULL);

        if (p == NULL)
            continue;
        p->role = kube_text(part, "name");
        if (node) {
            p->replicas = kube_int(from->spec, "mlPolicy.numNodes", 1);
            p->replicas = kube_int(o->spec, "trainer.numNodes", p->replicas);
        } else {
            long jobs_wanted = kube_int(part, "replicas", 1);

            set_job_replicas(p, spec);
            if (p->replicas > 0 && jobs_wanted > 0)
                p->replicas *= jobs_wanted;
        }
        if (kube_get(p->spec, "restartPolicy") == NULL)
            p->restart = "OnFailure";
        if (o->type != KUBE_RUNTIME) {
            add_label(b, p, "jobset.sigs.k8s.io/jobset-name", o->name);
            p->host_prefix = arena_text(&b->arena, "%s-%s-0-", o->name, p->role);
            p->host_domain = *subdomain != '\0' ? subdomain : o->name;
        }
        add_label(b, p, "jobset.sigs.k8s.io/replicatedjob-name", p->role);
        add_labels_of_each(b, p);
    }
}

const struct kube_object *kube_runtime_of(const struct kube_bundle *b,
                                          const struct kube_object *train)
{
    const char *written = kube_text(train->spec, "runtimeRef.kind");
    const char *kind = *written == '\0' ? "ClusterTrainingRuntime" : written;
    const char *name = kube_text(train->spec, "runtimeRef.name");
    bool everywhere = strcmp(kind, "ClusterTrainingRuntime") == 0;

    return FIND(b->objects[*hit.list],
                KUBE_FOREACH_HIT(hit, kube_index_find(&b->named, kind, name)),
                b->objects[*hit.list]->type == KUBE_RUNTIME &&
                    (everywhere || kube_same_namespace(b->objects[*hit.list], train)));
}

static void find_train(struct kube_bundle *b, const struct kube_object *o)
{
    const struct kube_object *runtime = kube_runtime_of(b, o);
    const struct yaml_node *trainer = kube_get(o->spec, "trainer");
    struct kube_pods *p;

    if (runtime != NULL) {
        find_replicated(b, o, runtime, kube_get(runtime->spec, "template.spec"));
    } else if (trainer != NULL && trainer->kind == YAML_MAPPING) {
        /* Its runtime is in the cluster: only what the TrainJob itself sets is known of the
         * container. */
        p = pods_add(b, o, trainer, NULL, o->spec, NULL);
        p->containers[p->count++] = (struct kube_container){
            .pods = p, .node = trainer, .name = "node", .image = kube_text(trainer, "image")};
        /* All runtimes of Trainer's own say one node. */
        p->replicas =
            kube_int(trainer, "numNodes",
                     strncmp(kube_text(o->spec, "runtimeRef.name"), "torch", 5) == 0 ? 1 : -1);
        p->restart = "OnFailure";
        p->host_prefix = arena_text(&b->arena, "%s-node-0-", o->name); /* as Trainer's own */
        p->host_domain = o->name;
        add_label(b, p, "jobset.sigs.k8s.io/jobset-name", o->name);
    }
}

/* A JobSet, or a runtime; one of a TrainJob in the bundle is handled with that TrainJob. */
static void find_jobset(struct kube_bundle *b, const struct kube_object *o)
{
    if (!o->used)
        find_replicated(b, o, o,
                        o->type == KUBE_JOBSET ? o->spec : kube_get(o->spec, "template.spec"));
}

/* --- Other trainers. --- */

/* A map from the role to `replicas` and `template`, or a list of these with their names. */
static void find_replicas(struct kube_bundle *b, const struct kube_object *o)
{
    bool pytorch = o->type == KUBE_PYTORCHJOB || o->type == KUBE_KUBEDL_JOB;
    const struct yaml_node *specs = kube_get(o->spec, pytorch ? "pytorchReplicaSpecs"
                                                      : o->type == KUBE_MPIJOB ? "mpiReplicaSpecs"
                                                                               : "replicaSpecs");
    bool map = specs != NULL && specs->kind == YAML_MAPPING;

    for (size_t i = 0; specs != NULL && specs->kind != YAML_SCALAR && i < specs->count; i++) {
        const struct yaml_node *part = yaml_child(specs, i);
        struct kube_pods *p = make_pods(b, o, part, kube_get(part, "template"), NULL);
        const char *lower;

        if (p == NULL)
            continue;
        p->role = map ? specs->pairs[i].key->text : kube_text(part, "name");
        set_replicas(p, part, "replicas");
        if (o->type == KUBE_PYTORCHJOB)
            p->restart = "OnFailure"; /* whatever the template says */
        if (*kube_text(part, "restartPolicy") != '\0')
            p->restart = kube_text(part, "restartPolicy");
        lower = text_lower(&b->arena, p->role);
        if (o->type == KUBE_PYTORCHJOB) { /* the Training Operator adds labels */
            add_label(b, p, "training.kubeflow.org/job-name", o->name);
            add_label(b, p, "training.kubeflow.org/operator-name", NULL);
            add_label(b, p, "training.kubeflow.org/replica-type", lower);
            add_label(b, p, "training.kubeflow.org/replica-index", NULL);
            if (strcmp(p->role, "Master") == 0)
                add_label(b, p, "training.kubeflow.org/job-role", "master");
        }
        p->host_prefix = arena_text(&b->arena, "%s-%s-", o->name, lower);
        if (o->type != KUBE_MPIJOB)
            continue;
        p->host_domain = o->name;
        p->ends = strcmp(p->role, "Launcher") == 0; /* the others wait for its ssh */
        if (p->ends)
            p->replicas = -1; /* its command runs in the others */
    }
}

/* The groups of a Ray cluster. Ray's trainer meets in its own way: the entrypoint is not read. */
static void find_ray(struct kube_bundle *b, const struct kube_object *o)
{
    const struct yaml_node *cluster = kube_get(o->spec, "rayClusterSpec"), *groups;

    if (cluster == NULL)
        cluster = o->spec; /* of a RayCluster */
    groups = kube_get(cluster, "workerGroupSpecs");
    for (size_t i = 0; i <= yaml_length(groups); i++) {
        const struct yaml_node *part =
            i == 0 ? kube_get(cluster, "headGroupSpec") : groups->items[i - 1];

        struct kube_pods *p = make_pods(b, o, part, kube_get(part, "template"), NULL);

        if (p == NULL)
            continue;
        p->ends = false;
        p->role = i == 0 ? "head" : kube_text(part, "groupName");
        if (i > 0)
            set_replicas(p, part, "replicas");
        if (i > 0 && kube_true(cluster, "enableInTreeAutoscaling"))
            p->replicas = -1;
        add_label(b, p, "ray.io/node-type", i == 0 ? "head" : "worker");
        add_label(b, p, "ray.io/group", i == 0 ? "headgroup" : p->role);
    }
}

/* Its groups are alike: the pods of one of them. */
static void find_leader_workers(struct kube_bundle *b, const struct kube_object *o)
{
    static const char *const keys[] = {"leaderTemplate", "workerTemplate"};
    const struct yaml_node *group = kube_get(o->spec, "leaderWorkerTemplate");
    long size = kube_get(group, "size") == NULL ? 1 : kube_int(group, "size", -1);
    bool leader = kube_get(group, keys[0]) != NULL;

    for (int i = 0; i < 2; i++) {
        struct kube_pods *p = make_pods(b, o, group, kube_get(group, keys[i]), NULL);

        if (p == NULL)
            continue;
        p->ends = false;
        p->role = i == 0 ? "leader" : "worker";
        p->replicas = i == 0 ? 1 : size < 0 ? -1 : size - leader;
        add_label(b, p, "leaderworkerset.sigs.k8s.io/name", o->name);
        add_label(b, p, "leaderworkerset.sigs.k8s.io/group-index", NULL);
        add_label(b, p, "leaderworkerset.sigs.k8s.io/worker-index", NULL);
        p->host_prefix = arena_text(&b->arena, "%s-", o->name);
        p->host_domain = o->name;
    }
}

/* The pods of an unknown kind: any mapping that has a list of containers. */
static void find_containers(struct kube_bundle *b, const struct kube_object *o,
                            const struct yaml_node *node, const struct yaml_node *around)
{
    const struct yaml_node *first = yaml_at(kube_get(node, "containers"), 0);

    if (node == NULL || node->kind == YAML_SCALAR || node->alias)
        return; /* the node behind an alias is found at its anchor */
    if (node != o->node && kube_makes_pods(kube_type_of(node)) && kube_get(node, "spec") != NULL)
        return; /* an object of its own: see kube_is_template() */
    if (first != NULL && first->kind == YAML_MAPPING) {
        struct kube_pods *p = pods_add(b, o, o->node, kube_get(around, "metadata"), node, NULL);

        p->replicas = -1;
        p->ends = false;
        return;
    }
    for (size_t i = 0; i < node->count; i++)
        find_containers(b, o, yaml_child(node, i), node);
}

static void find_unknown(struct kube_bundle *b, const struct kube_object *o)
{
    find_containers(b, o, o->node, NULL);
}

/* --- All of them. --- */

/* By type; NULL, or none: the object makes no pods. */
static void (*const finders[])(struct kube_bundle *b, const struct kube_object *o) = {
    [KUBE_OTHER] = find_unknown,
    [KUBE_POD] = find_pod,
    [KUBE_DEPLOYMENT] = find_workload,
    [KUBE_STATEFULSET] = find_workload,
    [KUBE_JOB] = find_batch_job,
    [KUBE_JOBSET] = find_jobset,
    [KUBE_VOLCANO_JOB] = find_volcano,
    [KUBE_PYTORCHJOB] = find_replicas,
    [KUBE_TRAINJOB] = find_train,
    [KUBE_RUNTIME] = find_jobset,
    [KUBE_DLROVER] = find_replicas,
    [KUBE_ELASTIC_JOB] = find_replicas,
    [KUBE_HYPERPOD_JOB] = find_replicas,
    [KUBE_KUBEDL_JOB] = find_replicas,
    [KUBE_LEADER_WORKER] = find_leader_workers,
    [KUBE_MPIJOB] = find_replicas,
    [KUBE_RAY] = find_ray,
};

static void bundle_index_objects(struct kube_bundle *b)
{
    struct arena *a = &b->arena;

    KUBE_FOREACH(o, b) {
        kube_index_add(a, &b->named, o->kind, o->name, o->index);
        if (o->type != KUBE_SERVICE)
            continue;
        kube_index_add(a, &b->services, KUBE_ANYWHERE, o->name, o->index);
        kube_index_add(a, &b->services, o->namespace, o->name, o->index);
    }
}

static void index_pods(struct kube_bundle *b)
{
    struct arena *a = &b->arena;

    KUBE_FOREACH_PODS(p, b) {
        kube_index_labels(a, &b->labelled, p);
        if (p->host_prefix == NULL || *p->host_prefix == '\0')
            continue;
        kube_index_add(a, &b->hosts, KUBE_ANYWHERE, p->host_prefix, p->index);
        kube_index_add(a, &b->hosts, p->object->namespace, p->host_prefix, p->index);
    }
}

struct kube_pods *const *kube_pods_of(const struct kube_bundle *b, const struct kube_object *o)
{
    return o->pods_count == 0 ? NULL : b->pods + o->first_pods;
}

long kube_count_pods(const struct kube_bundle *b, const struct kube_object *o)
{
    long sum = 0;

    KUBE_FOREACH_PODS_OF(p, b, o)
        sum = p->replicas < 0 || sum < 0 ? -1 : sum + p->replicas;
    return sum;
}

void kube_find_pods(struct kube_bundle *b)
{
    kube_drop_made(b);
    bundle_index_objects(b);
    KUBE_FOREACH(o, b) {
        const struct kube_object *runtime = o->type == KUBE_TRAINJOB ? kube_runtime_of(b, o) : NULL;

        if (runtime != NULL)
            b->objects[runtime->index]->used = true;
    }
    KUBE_FOREACH(o, b) {
        o->first_pods = b->pod_count;
        if (o->type < sizeof finders / sizeof *finders && finders[o->type] != NULL)
            finders[o->type](b, o);
        o->pods_count = b->pod_count - o->first_pods;
    }
    index_pods(b);
}

/* --- Which of its pods a job starts again after a failure. --- */

/* The kubelet restarts a failed container in its pod. */
static bool restarts_in_place(const struct kube_pods *p)
{
    return text_is(p->restart, "OnFailure", "Always");
}

/* Kubernetes ends a Job at restart number backoffLimit of its containers (0 counts as 1), or if
 * more pods than that have failed. The Training Operator counts restarts alike. */
static enum kube_restart up_to(const struct kube_pods *p, const struct yaml_node *limit, long usual)
{
    long count = limit == NULL ? usual : kube_int(limit, "", -1);

    if (count < 0)
        return KUBE_RESTART_UNKNOWN;
    return count <= (restarts_in_place(p) ? 1 : 0) ? KUBE_RESTART_ALL : KUBE_RESTART_ALONE;
}

static enum kube_restart of_job(const struct kube_pods *p, const struct yaml_node *spec)
{
    if (kube_get(spec, "backoffLimitPerIndex") != NULL)
        return KUBE_RESTART_ALONE;
    if (kube_get(spec, "podFailurePolicy") != NULL) /* it may end the Job at some exit codes */
        return KUBE_RESTART_UNKNOWN;
    return up_to(p, kube_get(spec, "backoffLimit"), 6);
}

/* A policy of the task wins over one of the job. RestartTask restarts the pods of one task, which
 * most jobs train with. */
static enum kube_restart of_volcano_job(const struct kube_pods *p)
{
    const struct yaml_node *parts[] = {p->part, p->object->spec};

    if (restarts_in_place(p)) /* no pod fails, so no policy acts */
        return KUBE_RESTART_ALONE;
    for (size_t k = 0; k < 2; k++) {
        YAML_FOREACH(policy, kube_get(parts[k], "policies")) {
            const char *action = kube_text(policy, "action");

            if (strncmp(action, "Restart", 7) == 0)
                return strcmp(action, "RestartPod") == 0 ? KUBE_RESTART_ALONE : KUBE_RESTART_ALL;
        }
    }
    return KUBE_RESTART_NONE;
}

enum kube_restart kube_restart_of(const struct kube_pods *p)
{
    const struct kube_object *o = p->object;

    switch (o->type) {
    case KUBE_POD: /* the controller of a Pod may do more */
        return kube_controller(o) != NULL ? KUBE_RESTART_UNKNOWN
               : restarts_in_place(p)     ? KUBE_RESTART_ALONE
                                          : KUBE_RESTART_NONE;
    case KUBE_DEPLOYMENT:
    case KUBE_STATEFULSET:
        return KUBE_RESTART_ALONE;
    case KUBE_JOB:
        return of_job(p, o->spec);
    case KUBE_JOBSET:
    case KUBE_RUNTIME:
        return of_job(p, kube_get(p->part, "template.spec"));
    case KUBE_TRAINJOB: /* without its runtime, there is no template */
        return kube_get(p->part, "template") == NULL
                   ? KUBE_RESTART_UNKNOWN
                   : of_job(p, kube_get(p->part, "template.spec"));
    case KUBE_PYTORCHJOB:
        /* ExitCode retries signals only, and torchrun ends with 1: as Never. */
        return restarts_in_place(p) ? up_to(p, kube_get(o->spec, "runPolicy.backoffLimit"), 1000)
                                    : KUBE_RESTART_NONE;
    case KUBE_VOLCANO_JOB:
        return of_volcano_job(p);
    case KUBE_LEADER_WORKER:
        /* Without a word of it, the group of a failed container starts again as a whole. */
        return text_is(kube_text(o->spec, "leaderWorkerTemplate.restartPolicy"), "None", "Default")
                   ? KUBE_RESTART_ALONE
                   : KUBE_RESTART_ALL;
    default:
        return KUBE_RESTART_UNKNOWN;
    }
}
