/* Which kinds there are, where each keeps its pod templates, and how its pods are labelled and
 * named. */
#include "deploy/kube/kube_view.h"

#include <stdlib.h>
#include <string.h>

/* Lists in lists, AppWrappers in AppWrappers: deeper is nobody's manifest. */
#define NEST_MAX 8

/* --- Looking. --- */

const struct yaml_node *kube_get(const struct yaml_node *node, const char *path)
{
    const struct yaml_node *found = yaml_path(node, path);

    return yaml_is_null(found) ? NULL : found;
}

const char *kube_text(const struct yaml_node *node, const char *path)
{
    const char *text = yaml_text(kube_get(node, path));

    return text == NULL ? "" : text;
}

long kube_int(const struct yaml_node *node, const char *path, long otherwise)
{
    const struct yaml_node *found = kube_get(node, path);
    const char *text = yaml_text(found);
    int64_t value;
    char *end;

    if (found == NULL || text == NULL)
        return otherwise;
    if (yaml_to_int(found, &value))
        return value > 1000000000 || value < -1000000000 ? otherwise : (long)value;
    value = strtol(text, &end, 10);
    return *text == '\0' || *end != '\0' || value > 1000000000 || value < -1000000000 ? otherwise
                                                                                      : (long)value;
}

bool kube_true(const struct yaml_node *node, const char *path)
{
    bool value;

    return yaml_to_bool(kube_get(node, path), &value) && value;
}

const struct yaml_node *kube_key(const struct yaml_node *mapping, const char *key)
{
    const struct yaml_pair *pair = yaml_get_pair(mapping, key);

    return pair == NULL ? mapping : pair->key;
}

const struct yaml_node *kube_field(const struct kube_container *c, const char *key)
{
    const struct yaml_node *over = kube_get(c->over, key);

    return over != NULL ? over : kube_get(c->node, key);
}

bool kube_same_namespace(const struct kube_object *a, const struct kube_object *b)
{
    return strcmp(a->namespace, b->namespace) == 0;
}

const struct kube_object *kube_top(const struct kube_object *o)
{
    while (o->wrapper != NULL)
        o = o->wrapper;
    return o;
}

const char *kube_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

bool kube_is_headless(const struct kube_object *service)
{
    return strcmp(kube_text(service->spec, "clusterIP"), "None") == 0;
}

/* --- Objects. --- */

static const struct {
    const char *group, *kind; /* group: what stands before the / of apiVersion; "" for v1 */
    enum kube_type type;
} types[] = {
    {"", "Service", KUBE_SERVICE},
    {"", "ConfigMap", KUBE_CONFIG_MAP},
    {"", "PersistentVolumeClaim", KUBE_CLAIM},
    {"", "Namespace", KUBE_NAMESPACE},
    {"", "Pod", KUBE_POD},
    {"networking.k8s.io", "NetworkPolicy", KUBE_NETWORK_POLICY},
    {"apps", "Deployment", KUBE_DEPLOYMENT},
    {"apps", "ReplicaSet", KUBE_DEPLOYMENT},
    {"apps", "DaemonSet", KUBE_DEPLOYMENT},
    {"apps", "StatefulSet", KUBE_STATEFULSET},
    {"batch", "Job", KUBE_JOB},
    {"jobset.x-k8s.io", "JobSet", KUBE_JOBSET},
    {"batch.volcano.sh", "Job", KUBE_VOLCANO_JOB},
    {"kubeflow.org", "PyTorchJob", KUBE_PYTORCHJOB},
    {"trainer.kubeflow.org", "TrainJob", KUBE_TRAINJOB},
    {"trainer.kubeflow.org", "TrainingRuntime", KUBE_RUNTIME},
    {"trainer.kubeflow.org", "ClusterTrainingRuntime", KUBE_RUNTIME},
};

static enum kube_type type_of(const char *api, const char *kind)
{
    const char *slash = strchr(api, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - api);

    if (strcmp(kind, "AppWrapper") == 0 && slash != NULL)
        return strcmp(slash + 1, "v1beta1") == 0 ? KUBE_MCAD : KUBE_APPWRAPPER;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].kind, kind) == 0 && strlen(types[i].group) == len &&
            strncmp(types[i].group, api, len) == 0)
            return types[i].type;
    }
    return KUBE_OTHER;
}

/* What a node stands in. */
struct nesting {
    const struct yaml_doc *doc;
    const struct kube_object *wrapper;
    const struct yaml_node *entry;
    const struct yaml_node *list;
    size_t item;
    int depth;
};

static void add_node(struct kube_bundle *b, const struct yaml_node *node, struct nesting at);

static void add_list(struct kube_bundle *b, const struct yaml_node *list, const char *inner,
                     struct nesting at)
{
    for (size_t i = 0; list != NULL && i < list->count && list->kind == YAML_SEQUENCE; i++) {
        struct nesting item = at;

        item.entry = inner == NULL ? NULL : list->items[i];
        item.list = inner == NULL ? list : NULL;
        item.item = i;
        add_node(b, inner == NULL ? list->items[i] : kube_get(list->items[i], inner), item);
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static void add_node(struct kube_bundle *b, const struct yaml_node *node, struct nesting at)
{
    struct kube_object *o;
    const char *kind = kube_text(node, "kind"), *namespace = kube_text(node, "metadata.namespace");

    if (node == NULL || node->kind != YAML_MAPPING || at.depth++ > NEST_MAX)
        return;
    if (ends_with(kind, "List") && kube_get(node, "items") != NULL) {
        add_list(b, kube_get(node, "items"), NULL, at);
        return;
    }
    if (b->count == KUBE_OBJECTS_MAX) {
        b->overflow = true;
        return;
    }
    o = arena_alloc(&b->arena, sizeof *o);
    *o = (struct kube_object){
        .type = type_of(kube_text(node, "apiVersion"), kind),
        .node = node,
        .spec = kube_get(node, "spec"),
        .kind = kind,
        .name = kube_text(node, "metadata.name"),
        .namespace = *namespace == '\0' && at.wrapper != NULL ? at.wrapper->namespace : namespace,
        .wrapper = at.wrapper,
        .entry = at.entry,
        .doc = at.doc,
        .list = at.list,
        .item = at.item,
        .index = b->count,
    };
    if (b->count == b->cap) {
        size_t cap = b->cap == 0 ? 16 : b->cap * 2;

        b->objects = arena_grow(&b->arena, b->objects, b->count * sizeof(struct kube_object *),
                                cap * sizeof(struct kube_object *));
        b->cap = cap;
    }
    b->objects[b->count++] = o;
    at.wrapper = o;
    if (o->type == KUBE_APPWRAPPER)
        add_list(b, kube_get(o->spec, "components"), "template", at);
    else if (o->type == KUBE_MCAD)
        add_list(b, kube_get(o->spec, "resources.GenericItems"), "generictemplate", at);
    if (o->type == KUBE_MCAD)
        add_list(b, kube_get(o->spec, "resources.Items"), "template", at);
}

void kube_add_file(struct kube_bundle *b, const struct yaml_file *file)
{
    for (size_t i = 0; i < file->count; i++)
        add_node(b, file->docs[i].root, (struct nesting){.doc = &file->docs[i]});
}

void kube_free(struct kube_bundle *b)
{
    arena_free(&b->arena);
    *b = (struct kube_bundle){0};
}

/* --- Pods. --- */

/* While pods are being described. */
struct pods_maker {
    struct kube_bundle *bundle;
    struct kube_pods *pods;
    size_t label_cap;
};

static void add_made_label(struct pods_maker *m, const char *key, const char *value)
{
    struct kube_pods *p = m->pods;

    if (p->label_count == m->label_cap) {
        size_t cap = m->label_cap == 0 ? 8 : m->label_cap * 2;

        p->labels = arena_grow(&m->bundle->arena, p->labels, p->label_count * sizeof *p->labels,
                               cap * sizeof *p->labels);
        m->label_cap = cap;
    }
    p->labels[p->label_count++] = (struct kube_label){key, value};
}

static void add_written_labels(struct pods_maker *m)
{
    const struct yaml_node *labels = kube_get(m->pods->meta, "labels");

    for (size_t i = 0; labels != NULL && labels->kind == YAML_MAPPING && i < labels->count; i++) {
        const char *value = yaml_text(labels->pairs[i].value);

        if (value != NULL)
            add_made_label(m, labels->pairs[i].key->text, value);
    }
}

static void add_containers(struct pods_maker *m, const struct yaml_node *over)
{
    static const char *const keys[] = {"initContainers", "containers"};
    struct kube_pods *p = m->pods;
    size_t count =
        yaml_length(kube_get(p->spec, keys[0])) + yaml_length(kube_get(p->spec, keys[1]));

    p->containers = arena_alloc(&m->bundle->arena, (count + 1) * sizeof *p->containers);
    for (int init = 1; init >= 0; init--) {
        const struct yaml_node *list = kube_get(p->spec, keys[!init]);

        for (size_t i = 0; i < yaml_length(list); i++) {
            struct kube_container *c = &p->containers[p->count];

            if (list->items[i]->kind != YAML_MAPPING)
                continue;
            *c = (struct kube_container){.pods = p, .node = list->items[i], .init = init};
            c->name = kube_text(c->node, "name");
            if (!init && strcmp(c->name, "node") == 0)
                c->over = over;
            c->image = kube_text(c->node, "image");
            if (kube_get(c->over, "image") != NULL)
                c->image = kube_text(c->over, "image");
            c->sidecar = init && strcmp(kube_text(c->node, "restartPolicy"), "Always") == 0;
            p->count++;
        }
    }
}

/* The rest of what is known is for the caller. */
static struct kube_pods *add_pods(struct pods_maker *m, const struct kube_object *o,
                                  const struct yaml_node *part, const struct yaml_node *meta,
                                  const struct yaml_node *spec, const struct yaml_node *over)
{
    struct kube_bundle *b = m->bundle;
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
    m->pods = p;
    m->label_cap = 0;
    add_written_labels(m);
    add_containers(m, over);
    if (b->pod_count == b->pod_cap) {
        size_t cap = b->pod_cap == 0 ? 16 : b->pod_cap * 2;

        b->pods = arena_grow(&b->arena, b->pods, b->pod_count * sizeof(struct kube_pods *),
                             cap * sizeof(struct kube_pods *));
        b->pod_cap = cap;
    }
    b->pods[b->pod_count++] = p;
    return p;
}

/* Pods of a template; NULL when there is none. */
static struct kube_pods *make_pods(struct pods_maker *m, const struct kube_object *o,
                                   const struct yaml_node *part, const struct yaml_node *template,
                                   const struct yaml_node *over)
{
    const struct yaml_node *spec = kube_get(template, "spec");

    if (spec == NULL || spec->kind != YAML_MAPPING)
        return NULL;
    return add_pods(m, o, part, kube_get(template, "metadata"), spec, over);
}

static void set_replicas(struct kube_pods *p, const struct yaml_node *from, const char *key,
                         long otherwise)
{
    const struct yaml_node *node = kube_get(from, key);

    p->counted = node != NULL;
    p->replicas = kube_int(from, key, node == NULL ? otherwise : -1);
}

static void find_pod(struct pods_maker *m, const struct kube_object *o)
{
    struct kube_pods *p = make_pods(m, o, o->node, o->node, NULL);

    if (p == NULL)
        return;
    p->ends = strcmp(p->restart, "Always") != 0;
    if (*kube_text(o->spec, "hostname") != '\0' && *kube_text(o->spec, "subdomain") != '\0') {
        p->host_prefix = kube_text(o->spec, "hostname");
        p->host_domain = kube_text(o->spec, "subdomain");
    }
}

static void find_workload(struct pods_maker *m, const struct kube_object *o)
{
    struct kube_pods *p = make_pods(m, o, o->spec, kube_get(o->spec, "template"), NULL);

    if (p == NULL)
        return;
    p->ends = false;
    set_replicas(p, o->spec, "replicas", 1);
    if (strcmp(o->kind, "DaemonSet") == 0)
        p->replicas = -1;
    if (o->type == KUBE_STATEFULSET) {
        add_made_label(m, "statefulset.kubernetes.io/pod-name", NULL);
        add_made_label(m, "apps.kubernetes.io/pod-index", NULL);
        p->host_prefix = arena_text(&m->bundle->arena, "%s-", o->name);
        p->host_domain = kube_text(o->spec, "serviceName");
    }
}

static void find_job(struct pods_maker *m, const struct kube_object *o)
{
    struct kube_pods *p = make_pods(m, o, o->spec, kube_get(o->spec, "template"), NULL);

    if (p == NULL)
        return;
    set_replicas(p, o->spec, "parallelism", 1);
    if (!p->counted && kube_get(o->spec, "completions") != NULL)
        set_replicas(p, o->spec, "completions", 1);
    add_made_label(m, "batch.kubernetes.io/job-name", o->name);
    add_made_label(m, "job-name", o->name);
    add_made_label(m, "batch.kubernetes.io/controller-uid", NULL);
    add_made_label(m, "controller-uid", NULL);
    add_made_label(m, "batch.kubernetes.io/job-completion-index", NULL);
    if (*kube_text(p->spec, "subdomain") != '\0') {
        p->host_prefix = arena_text(&m->bundle->arena, "%s-", o->name);
        p->host_domain = kube_text(p->spec, "subdomain");
    }
}

static void find_volcano(struct pods_maker *m, const struct kube_object *o)
{
    const struct yaml_node *tasks = kube_get(o->spec, "tasks");
    bool svc = yaml_get(kube_get(o->spec, "plugins"), "svc") != NULL;

    for (size_t i = 0; i < yaml_length(tasks); i++) {
        const struct yaml_node *task = tasks->items[i];
        struct kube_pods *p = make_pods(m, o, task, kube_get(task, "template"), NULL);

        if (p == NULL)
            continue;
        p->role = kube_text(task, "name");
        if (*p->role == '\0')
            p->role = arena_text(&m->bundle->arena, "default%zu", i);
        set_replicas(p, task, "replicas", 1);
        add_made_label(m, "volcano.sh/job-name", o->name);
        add_made_label(m, "volcano.sh/job-namespace", o->namespace);
        add_made_label(m, "volcano.sh/task-spec", p->role);
        add_made_label(m, "volcano.sh/queue-name", NULL);
        add_made_label(m, "volcano.sh/task-index", NULL);
        p->host_prefix = svc ? arena_text(&m->bundle->arena, "%s-%s-", o->name, p->role) : NULL;
        p->host_domain = o->name;
    }
}

static const char *lower(struct arena *a, const char *text)
{
    char *copy = arena_copy(a, text, strlen(text));

    for (char *c = copy; *c != '\0'; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 'a' - 'A' : *c);
    return copy;
}

static void find_pytorchjob(struct pods_maker *m, const struct kube_object *o)
{
    const struct yaml_node *specs = kube_get(o->spec, "pytorchReplicaSpecs");

    for (size_t i = 0; specs != NULL && specs->kind == YAML_MAPPING && i < specs->count; i++) {
        const struct yaml_node *part = specs->pairs[i].value;
        struct kube_pods *p = make_pods(m, o, part, kube_get(part, "template"), NULL);

        if (p == NULL)
            continue;
        p->role = specs->pairs[i].key->text;
        set_replicas(p, part, "replicas", 1);
        p->restart = kube_text(part, "restartPolicy");
        if (*p->restart == '\0')
            p->restart = "OnFailure"; /* whatever the template says */
        add_made_label(m, "training.kubeflow.org/job-name", o->name);
        add_made_label(m, "training.kubeflow.org/operator-name", NULL);
        add_made_label(m, "training.kubeflow.org/replica-type", lower(&m->bundle->arena, p->role));
        add_made_label(m, "training.kubeflow.org/replica-index", NULL);
        if (strcmp(p->role, "Master") == 0)
            add_made_label(m, "training.kubeflow.org/job-role", "master");
        p->host_prefix =
            arena_text(&m->bundle->arena, "%s-%s-", o->name, lower(&m->bundle->arena, p->role));
    }
}

/* The replicatedJobs of a JobSet, of a runtime, or of a runtime as a TrainJob uses it. */
static void find_replicated(struct pods_maker *m, const struct kube_object *o,
                            const struct kube_object *from, const struct yaml_node *jobset)
{
    const struct yaml_node *jobs = kube_get(jobset, "replicatedJobs");
    const char *subdomain = kube_text(jobset, "network.subdomain");
    bool is_train = o->type == KUBE_TRAINJOB;

    for (size_t i = 0; i < yaml_length(jobs); i++) {
        const struct yaml_node *part = jobs->items[i], *spec = kube_get(part, "template.spec");
        bool node = o->type != KUBE_JOBSET &&
                    strcmp(kube_text(part, "template.metadata.labels.trainer\\.kubeflow\\.org/"
                                           "trainjob-ancestor-step"),
                           "trainer") == 0;
        struct kube_pods *p = make_pods(m, o, part, kube_get(spec, "template"),
                                        node && is_train ? kube_get(o->spec, "trainer") : NULL);

        if (p == NULL)
            continue;
        p->role = kube_text(part, "name");
        if (node) {
            p->replicas = kube_int(from->spec, "mlPolicy.numNodes", 1);
            p->replicas = kube_int(o->spec, "trainer.numNodes", p->replicas);
            p->counted = true;
        } else {
            long jobs_wanted = kube_int(part, "replicas", 1);

            set_replicas(p, spec, "parallelism", 1);
            if (p->replicas > 0 && jobs_wanted > 0)
                p->replicas *= jobs_wanted;
        }
        if (kube_get(p->spec, "restartPolicy") == NULL)
            p->restart = "OnFailure";
        if (o->type != KUBE_RUNTIME) {
            add_made_label(m, "jobset.sigs.k8s.io/jobset-name", o->name);
            p->host_prefix = arena_text(&m->bundle->arena, "%s-%s-0-", o->name, p->role);
            p->host_domain = *subdomain != '\0' ? subdomain : o->name;
        }
        add_made_label(m, "jobset.sigs.k8s.io/replicatedjob-name", p->role);
        add_made_label(m, "jobset.sigs.k8s.io/jobset-uid", NULL);
        add_made_label(m, "jobset.sigs.k8s.io/job-index", NULL);
        add_made_label(m, "batch.kubernetes.io/job-completion-index", NULL);
    }
}

static const struct kube_object *runtime_of(const struct kube_bundle *b,
                                            const struct kube_object *train)
{
    const char *kind = kube_text(train->spec, "runtimeRef.kind");
    const char *name = kube_text(train->spec, "runtimeRef.name");

    if (*kind == '\0')
        kind = "ClusterTrainingRuntime";
    for (size_t i = 0; i < b->count; i++) {
        const struct kube_object *o = b->objects[i];

        if (o->type == KUBE_RUNTIME && strcmp(o->kind, kind) == 0 && strcmp(o->name, name) == 0 &&
            (strcmp(kind, "ClusterTrainingRuntime") == 0 || kube_same_namespace(o, train)))
            return o;
    }
    return NULL;
}

static void find_train(struct pods_maker *m, const struct kube_object *o)
{
    const struct kube_object *runtime = runtime_of(m->bundle, o);
    const struct yaml_node *trainer = kube_get(o->spec, "trainer");
    struct kube_pods *p;

    if (runtime != NULL) {
        find_replicated(m, o, runtime, kube_get(runtime->spec, "template.spec"));
    } else if (trainer != NULL && trainer->kind == YAML_MAPPING) {
        /* Its runtime is in the cluster: of its container we know what is written here. */
        p = add_pods(m, o, trainer, NULL, o->spec, NULL);
        p->containers[p->count++] = (struct kube_container){
            .pods = p, .node = trainer, .name = "node", .image = kube_text(trainer, "image")};
        p->replicas = kube_int(trainer, "numNodes", -1);
        p->restart = "OnFailure";
    }
}

/* A runtime that a TrainJob of the bundle uses is looked at there. */
static void find_runtime(struct pods_maker *m, const struct kube_object *o)
{
    for (size_t i = 0; i < m->bundle->count; i++) {
        const struct kube_object *train = m->bundle->objects[i];

        if (train->type == KUBE_TRAINJOB && runtime_of(m->bundle, train) == o)
            return;
    }
    find_replicated(m, o, o, kube_get(o->spec, "template.spec"));
}

/* Of a kind that we do not know: whatever holds a list of containers. */
static void find_unknown(struct pods_maker *m, const struct kube_object *o,
                         const struct yaml_node *node, const struct yaml_node *around)
{
    const struct yaml_node *first = yaml_at(kube_get(node, "containers"), 0);

    if (node == NULL || node->kind == YAML_SCALAR || node->alias)
        return; /* what an alias stands for is found where it is written */
    if (first != NULL && first->kind == YAML_MAPPING) {
        struct kube_pods *p = add_pods(m, o, o->node, kube_get(around, "metadata"), node, NULL);

        p->replicas = -1;
        p->ends = false;
        return;
    }
    for (size_t i = 0; i < node->count; i++)
        find_unknown(m, o, node->kind == YAML_MAPPING ? node->pairs[i].value : node->items[i],
                     node);
}

void kube_find_pods(struct kube_bundle *b)
{
    struct pods_maker m = {.bundle = b};

    for (size_t i = 0; i < b->count; i++) {
        const struct kube_object *o = b->objects[i];

        switch (o->type) {
        case KUBE_POD:
            find_pod(&m, o);
            break;
        case KUBE_DEPLOYMENT:
        case KUBE_STATEFULSET:
            find_workload(&m, o);
            break;
        case KUBE_JOB:
            find_job(&m, o);
            break;
        case KUBE_JOBSET:
            find_replicated(&m, o, o, o->spec);
            break;
        case KUBE_VOLCANO_JOB:
            find_volcano(&m, o);
            break;
        case KUBE_PYTORCHJOB:
            find_pytorchjob(&m, o);
            break;
        case KUBE_TRAINJOB:
            find_train(&m, o);
            break;
        case KUBE_RUNTIME:
            find_runtime(&m, o);
            break;
        case KUBE_OTHER:
            find_unknown(&m, o, o->node, NULL);
            break;
        case KUBE_SERVICE:
        case KUBE_CONFIG_MAP:
        case KUBE_CLAIM:
        case KUBE_NAMESPACE:
        case KUBE_NETWORK_POLICY:
        case KUBE_APPWRAPPER:
        case KUBE_MCAD:
            break;
        }
    }
}

/* --- Selecting. --- */

static const struct kube_label *label_of(const struct kube_pods *p, const char *key)
{
    for (size_t i = 0; i < p->label_count; i++) {
        if (strcmp(p->labels[i].key, key) == 0)
            return &p->labels[i];
    }
    return NULL;
}

static bool labels_match(const struct yaml_node *wanted, const struct kube_pods *p)
{
    for (size_t i = 0; i < wanted->count; i++) {
        const char *value = yaml_text(wanted->pairs[i].value);
        const struct kube_label *label = label_of(p, wanted->pairs[i].key->text);

        if (label == NULL || value == NULL ||
            (label->value != NULL && strcmp(label->value, value) != 0))
            return false;
    }
    return true;
}

bool kube_selects(const struct yaml_node *selector, const struct kube_pods *p)
{
    return selector != NULL && selector->kind == YAML_MAPPING && selector->count > 0 &&
           labels_match(selector, p);
}

static bool has_value(const struct yaml_node *values, const struct kube_label *label)
{
    for (size_t i = 0; i < yaml_length(values); i++) {
        if (label->value == NULL || yaml_is(values->items[i], label->value))
            return true;
    }
    return false;
}

static bool expression_matches(const struct yaml_node *e, const struct kube_pods *p)
{
    const struct kube_label *label = label_of(p, kube_text(e, "key"));
    const struct yaml_node *values = kube_get(e, "values");
    const char *op = kube_text(e, "operator");

    if (strcmp(op, "In") == 0)
        return label != NULL && has_value(values, label);
    if (strcmp(op, "NotIn") == 0)
        return label == NULL || label->value == NULL || !has_value(values, label);
    if (strcmp(op, "Exists") == 0)
        return label != NULL;
    return label == NULL; /* DoesNotExist */
}

bool kube_selects_by(const struct yaml_node *selector, const struct kube_pods *p)
{
    const struct yaml_node *labels = kube_get(selector, "matchLabels");
    const struct yaml_node *expressions = kube_get(selector, "matchExpressions");

    if (labels != NULL && (labels->kind != YAML_MAPPING || !labels_match(labels, p)))
        return false;
    for (size_t i = 0; i < yaml_length(expressions); i++) {
        if (!expression_matches(expressions->items[i], p))
            return false;
    }
    return true;
}

const struct kube_pods *kube_next_selected(const struct kube_bundle *b,
                                           const struct kube_object *service,
                                           const struct kube_pods *after)
{
    const struct yaml_node *selector = kube_get(service->spec, "selector");

    for (size_t i = after == NULL ? 0 : after->index + 1; i < b->pod_count; i++) {
        const struct kube_pods *p = b->pods[i];

        if (kube_same_namespace(p->object, service) && kube_selects(selector, p))
            return p;
    }
    return NULL;
}

/* --- Names. --- */

/* `name`, `name.namespace` or `name.namespace.svc...` against a name; *namespace is what it says,
 * or "". */
static bool name_matches(const char *host, const char *name, const char **namespace,
                         size_t *namespace_len)
{
    size_t len = strlen(name);

    *namespace = "";
    *namespace_len = 0;
    if (len == 0 || strncmp(host, name, len) != 0)
        return false;
    if (host[len] == '\0')
        return true;
    if (host[len] != '.')
        return false;
    *namespace = host + len + 1;
    *namespace_len = strcspn(*namespace, ".");
    return (*namespace)[*namespace_len] == '\0' ||
           strncmp(*namespace + *namespace_len, ".svc", 4) == 0;
}

/* Whether the namespace that a host name says (or not) is that of the object. */
static bool namespace_matches(const struct kube_object *o, const struct kube_object *from,
                              const char *namespace, size_t len, enum kube_reach *reach)
{
    *reach = KUBE_REACHED;
    if (len > 0)
        return *o->namespace == '\0' ||
               (strlen(o->namespace) == len && strncmp(o->namespace, namespace, len) == 0);
    if (!kube_same_namespace(o, from))
        *reach =
            *o->namespace == '\0' || *from->namespace == '\0' ? KUBE_UNDECIDED : KUBE_ELSEWHERE;
    return true;
}

/* prefix, digits, then "." and domain; `rest` is what stands behind the prefix. */
static bool pod_matches(const struct kube_pods *p, const char *host, const char **namespace,
                        size_t *namespace_len)
{
    size_t len;

    if (p->host_prefix == NULL || *p->host_prefix == '\0')
        return false;
    len = strlen(p->host_prefix);
    if (strncmp(host, p->host_prefix, len) != 0)
        return false;
    host += len;
    if (p->host_prefix[len - 1] == '-') {
        size_t digits = strspn(host, "0123456789");

        if (digits == 0)
            return false;
        host += digits;
    }
    if (*p->host_domain == '\0') {
        *namespace = *host == '.' ? host + 1 : "";
        *namespace_len = strcspn(*namespace, ".");
        return *host == '.' || *host == '\0';
    }
    return *host == '.' && name_matches(host + 1, p->host_domain, namespace, namespace_len);
}

/* POD.SERVICE of a headless Service, when its pods are called like that and no more is known of
 * their names: a Pod that is to become a StatefulSet. */
static bool is_pod_behind(const struct kube_bundle *b, const struct kube_object *service,
                          const char *host, const char **namespace, size_t *namespace_len)
{
    const char *dot = strchr(host, '.');
    const struct kube_pods *p = NULL;

    if (dot == NULL || !name_matches(dot + 1, service->name, namespace, namespace_len) ||
        !kube_is_headless(service))
        return false;
    while ((p = kube_next_selected(b, service, p)) != NULL) {
        size_t len = strlen(p->object->name);

        if (p->host_prefix == NULL && len > 0 && strncmp(host, p->object->name, len) == 0)
            return true;
    }
    return false;
}

/* Keeps the one of two that is reached more surely. */
static void keep_nearer(struct kube_target *found, struct kube_target other)
{
    if ((found->service == NULL && found->pods == NULL) || other.reach < found->reach)
        *found = other;
}

bool kube_find_host(const struct kube_bundle *b, const struct kube_object *from, const char *host,
                    struct kube_target *out)
{
    struct kube_target found = {0};
    enum kube_reach reach;
    const char *namespace;
    size_t namespace_len;

    for (size_t i = 0; i < b->count; i++) {
        const struct kube_object *o = b->objects[i];

        if (o->type == KUBE_SERVICE &&
            (name_matches(host, o->name, &namespace, &namespace_len) ||
             is_pod_behind(b, o, host, &namespace, &namespace_len)) &&
            namespace_matches(o, from, namespace, namespace_len, &reach))
            keep_nearer(&found, (struct kube_target){.service = o, .reach = reach});
    }
    for (size_t i = 0; i < b->pod_count; i++) {
        const struct kube_pods *p = b->pods[i];

        if (pod_matches(p, host, &namespace, &namespace_len) &&
            namespace_matches(p->object, from, namespace, namespace_len, &reach))
            keep_nearer(&found, (struct kube_target){.pods = p, .reach = reach});
    }
    if (found.service == NULL && found.pods == NULL)
        return false;
    *out = found;
    return true;
}

const char *kube_made_service(const struct kube_object *o)
{
    const char *subdomain;

    if (o->type == KUBE_VOLCANO_JOB)
        return yaml_get(kube_get(o->spec, "plugins"), "svc") != NULL ? o->name : "";
    if (o->type == KUBE_JOBSET) {
        subdomain = kube_text(o->spec, "network.subdomain");
        return *subdomain != '\0' ? subdomain : o->name;
    }
    return o->type == KUBE_TRAINJOB ? o->name : "";
}

long kube_port_number(const struct yaml_node *port, const struct kube_pods *p,
                      const struct kube_container *only)
{
    const char *text = yaml_text(port);
    int64_t number;

    if (text == NULL)
        return -1;
    if (yaml_to_int(port, &number))
        return number > 0 && number < 65536 ? (long)number : -1;
    for (size_t i = 0; i < p->count; i++) {
        const struct yaml_node *ports = kube_get(p->containers[i].node, "ports");

        if (only != NULL && &p->containers[i] != only)
            continue;
        for (size_t j = 0; ports != NULL && ports->kind == YAML_SEQUENCE && j < ports->count; j++) {
            if (strcmp(kube_text(ports->items[j], "name"), text) == 0)
                return kube_int(ports->items[j], "containerPort", -1);
        }
    }
    return -1;
}
