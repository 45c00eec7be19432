/* The settings of a job: first those that have a name, then the rest of the pod and of its
 * container as patches. */
#include "deploy/import/import.h"

#include "deploy/kube/rdzv_conf.h"
#include "deploy/yaml/options.h"

#include <string.h>

/* Puts a key, unless the collection is empty. */
static void put_filled(struct importer *m, struct yaml_node *to, const char *key,
                       const struct yaml_node *value)
{
    if (value->count > 0)
        import_put(m, to, key, value);
}

/* --- The job. --- */

static const char *platform_of(const struct kube_object *o)
{
    enum kube_type wrapper = o->wrapper == NULL ? KUBE_OTHER : o->wrapper->type;

    if (o->type == KUBE_PYTORCHJOB && wrapper == KUBE_APPWRAPPER)
        return "appwrapper-v1beta2";
    if (o->type == KUBE_PYTORCHJOB && wrapper == KUBE_MCAD)
        return "appwrapper-v1beta1";
    return kube_platform(o->type);
}

static bool is_wrapped(const struct importer *m)
{
    return m->platform != NULL && strncmp(m->platform, "appwrapper", 10) == 0;
}

static bool import_find_job(struct importer *m)
{
    for (size_t i = 0; i < m->jobs.count; i++) {
        const struct kube_object *o = job_run_object(m->jobs.runs[i]);

        if (o == m->job || o->type == KUBE_CONFIG_MAP || o->type == KUBE_RUNTIME ||
            kube_is_template(o) || (m->wanted != NULL && strcmp(o->name, m->wanted) != 0))
            continue;
        if (m->job != NULL)
            return options_error(
                m->diag,
                m->job->type == KUBE_POD && o->type == KUBE_POD
                    ? "several Pods run torchrun, %s and %s among them: name the first with --job, "
                      "and what is to make such pods with --platform, such as job"
                    : "the files have several jobs, %s and %s among them: name one with --job",
                m->job->name, o->name);
        m->job = o;
    }
    if (m->job == NULL && m->wanted != NULL)
        options_error(m->diag, "no job named %s starts torchrun: see `rdzv-manifest check --show`",
                      m->wanted);
    else if (m->job == NULL)
        options_error(m->diag, "no job of these files starts torchrun where import can see it: "
                               "name the file of one that does");
    return m->job != NULL;
}

const struct job_run *import_workers_run(const struct job_view *jobs, const struct kube_object *job)
{
    struct job_view_runs runs = job_runs_of(jobs, job);
    const struct job_run *run = runs.list[0];

    for (size_t i = 1; i < runs.count; i++) {
        if (strcmp(run->container->pods->role, "Master") == 0)
            run = runs.list[i];
    }
    return run;
}

/* --- Rendezvous. --- */

/* A variable of which the id is made: emit brings its own. */
static bool is_part_of_id(struct importer *m, const char *variable)
{
    const struct job_setting *s = &m->run->settings[TORCHRUN_RDZV_ID];
    const char *text = s->written.text != NULL ? s->written.text : yaml_text(s->node);
    const struct job_variable *v = job_variable(&m->jobs, m->container, variable);

    return text != NULL && v != NULL && kube_get(v->source, "fieldRef") != NULL &&
           strstr(text, arena_text(&m->arena, "$(%s)", variable)) != NULL;
}

bool import_is_rendezvous(struct importer *m, const char *variable)
{
    bool command = yaml_get(m->settings, "mainProgram") != NULL;
    enum torchrun_option o = torchrun_option_of_variable(variable);

    return import_is_of_rendezvous(o) ||
           (command && (o == TORCHRUN_NNODES || o == TORCHRUN_NPROC_PER_NODE)) ||
           is_part_of_id(m, variable);
}

const struct yaml_node *import_place(const struct importer *m, enum torchrun_option option)
{
    const struct job_setting *s = &m->run->settings[option];

    return s->node != NULL ? s->node : m->job->node;
}

/* What the conf says to c10d; is_host is emit's. */
static struct yaml_node *read_conf(struct importer *m)
{
    const char *conf = job_text(m->run, TORCHRUN_RDZV_CONF);
    int backend = rdzv_conf_backend(m->run->backend);
    struct yaml_node *out = yaml_new(&m->arena, YAML_MAPPING);
    struct rdzv_conf_entry e;
    size_t at = 0;
    int readers;

    while (rdzv_conf_next(conf, &at, &e)) {
        size_t len = e.key_end - e.start;
        const char *key = arena_copy(&m->arena, conf + e.start, len);
        const char *value = arena_copy(&m->arena, conf + e.value_start, e.end - e.value_start);

        if (strcmp(key, "timeout") == 0 && (rdzv_conf_readers(key, len) & backend) != 0)
            key = "join_timeout"; /* as c10d calls it */
        readers = rdzv_conf_readers(key, strlen(key));
        if (strcmp(key, "is_host") == 0 || *value == '\0' || strpbrk(conf, "$`") != NULL)
            continue;
        if (readers == 0 || (readers & RDZV_CONF_C10D) != 0)
            import_put_text(m, out, key, value);
        else
            import_note(m, import_place(m, TORCHRUN_RDZV_CONF),
                        "c10d does not read the conf key `%s`, so import leaves it out", key);
    }
    return out->count > 0 ? out : NULL;
}

static const char *placement_of(struct importer *m, const struct job_store *s)
{
    const struct kube_object *o = job_store_object(s);

    if (import_is_replica(m, s))
        return "replicas";
    if (m->run->store->kind == JOB_STORE_RELAY)
        return "relay";
    if (o == m->job)
        return s->container->init                 ? "sidecar"
               : m->job->type == KUBE_JOBSET      ? "job"
               : m->job->type == KUBE_VOLCANO_JOB ? "task"
                                                  : NULL;
    return kube_top(o) == kube_top(m->job) ? "pod" : "service";
}

/* The name that job and store have in common, if it is another one than the job's. */
static void read_instance(struct importer *m, const struct job_store *s)
{
    const struct kube_pods *p = s == NULL ? NULL : s->container->pods;
    const char *label = p == NULL ? "" : kube_text(p->meta, "labels.rdzvd");
    char first = m->job->name[0];

    if (*label != '\0' && strcmp(label, m->job->name) != 0)
        import_put_text(m, m->settings, "instance", label);
    else if (*label == '\0' && first >= '0' && first <= '9') /* no Service can be called so */
        import_put_text(m, m->settings, "instance", arena_text(&m->arena, "job-%s", m->job->name));
}

/* The Service and the port by which agents or their relays find the store. */
static void read_address(struct importer *m, const struct job_store *s, struct yaml_node *rdzv)
{
    const struct job_run *r = m->run;
    const struct kube_object *service = r->target.service;
    bool relay = r->store->kind == JOB_STORE_RELAY, c10d = strcmp(r->backend, "c10d") == 0;
    long port = r->port;
    const char *name =
        job_store_object(s) == m->job ? import_store_name(m) : job_store_object(s)->name;
    struct job_upstream up;

    if (relay && job_relay_upstream(&m->jobs, r->store, 0, &up)) {
        if (port != (c10d ? up.port : 2379))
            yaml_put_number(&m->arena, rdzv, "relayPort", port);
        service = up.target.service;
        port = up.port;
        c10d = true; /* relays speak it to their store */
    }
    if (service != NULL && strcmp(service->name, name) != 0 &&
        (s->container->init || job_store_object(s) != m->job))
        import_put_text(m, rdzv, "serviceName", service->name);
    if (port > 0 && port != (c10d ? 29400 : 2379))
        yaml_put_number(&m->arena, rdzv, c10d ? "port" : "etcdPort", port);
}

/* At a store that other files have, over a protocol that emit knows. */
static bool is_elsewhere(const struct job_run *r)
{
    return !r->found && !r->hosted && *r->host != '\0' && r->port > 0 &&
           strchr(r->host, '$') == NULL && r->settings[TORCHRUN_RDZV_ENDPOINT].value.known &&
           text_is(r->backend, "c10d", "etcd-v2");
}

static void read_rdzv(struct importer *m)
{
    const struct job_store *s = job_store_behind(m->run->store);
    struct yaml_node *rdzv = yaml_new(&m->arena, YAML_MAPPING);
    const struct job_run *r = m->run;

    read_instance(m, s);
    if (import_restarts_in_place(m))
        import_put_text(m, rdzv, "restart", "in-place");
    if (s != NULL && s->kind == JOB_STORE_RDZVD && placement_of(m, s) != NULL) {
        import_put_text(m, rdzv, "placement", placement_of(m, s));
        import_put(m, rdzv, "image", kube_field(s->container, "image"));
        import_put(m, rdzv, "imagePullPolicy", kube_field(s->container, "imagePullPolicy"));
        import_put(m, rdzv, "resources", kube_field(s->container, "resources"));
        read_address(m, s, rdzv);
        import_store(m, s, rdzv);
    } else if ((s != NULL || !import_relays(m, rdzv)) && is_elsewhere(r)) {
        import_put_text(m, rdzv, "placement", "external");
        import_put_text(m, rdzv, "endpoint", arena_text(&m->arena, "%s:%ld", r->host, r->port));
        if (r->settings[TORCHRUN_RDZV_ID].value.known)
            import_put_text(m, rdzv, "id", job_text(r, TORCHRUN_RDZV_ID));
        import_client_tls(m, rdzv);
        import_note(
            m, import_place(m, TORCHRUN_RDZV_ENDPOINT),
            "the job meets at %s, which is not in these files, and the user file leaves it there: "
            "remove rdzv.placement, rdzv.endpoint and rdzv.id, and it gets a store of its own",
            r->host);
    }
    import_put(m, rdzv, "conf", read_conf(m));
    if (strcmp(r->backend, "etcd-v2") == 0 && rdzv->count > 0 &&
        (s == NULL || s->kind == JOB_STORE_RDZVD))
        import_put_text(m, rdzv, "protocol", "etcd-v2");
    put_filled(m, m->settings, "rdzv", rdzv);
}

/* --- Numbers. --- */

/* nprocPerNode, which emit's PyTorchJob has, too. */
static bool is_told_by_operator(const struct importer *m)
{
    return m->run->settings[TORCHRUN_NPROC_PER_NODE].from == JOB_FROM_OPERATOR &&
           (strcmp(m->platform, "pytorchjob") == 0 || is_wrapped(m));
}

static void read_numbers(struct importer *m, bool writes_command)
{
    const struct job_setting *procs = &m->run->settings[TORCHRUN_NPROC_PER_NODE];
    long pods = job_training_pods(&m->jobs, m->job), low = m->run->nodes_min,
         high = m->run->nodes_max;

    if (m->job->type == KUBE_POD)
        pods = -1; /* it is one of several */
    if (low > 0 && high > low) {
        struct yaml_node *nodes = yaml_put_new(&m->arena, m->settings, "nodes", YAML_MAPPING);

        yaml_put_number(&m->arena, nodes, "min", low);
        yaml_put_number(&m->arena, nodes, "max", high);
    } else if (pods > 0 || high > 0) {
        yaml_put_number(&m->arena, m->settings, "numPods", pods > 0 ? pods : high);
    } else {
        import_error(
            m, m->job->node,
            "import cannot tell the number of pods: write it into the manifest as a number");
    }
    if (kube_get(m->container->over, "numProcPerNode") != NULL)
        import_put(m, m->settings, "procsPerNode", kube_get(m->container->over, "numProcPerNode"));
    else if ((writes_command || is_told_by_operator(m)) && procs->from != JOB_FROM_NOWHERE &&
             procs->value.known && *procs->value.text != '\0')
        import_put_plain(m, m->settings, "procsPerNode", procs->value.text);
}

/* --- The container. --- */

/* The operator told torchrun, and emit's job has no field for it: a variable does. */
static void take_from_operator(struct importer *m, enum torchrun_option option,
                               struct yaml_node *list)
{
    const struct job_setting *s = &m->run->settings[option];

    if (s->from == JOB_FROM_OPERATOR && s->value.known)
        kube_add_variable(&m->arena, list, torchrun_option_variable(option), s->value.text);
}

static const struct yaml_node *read_variables(struct importer *m)
{
    struct yaml_node *list = yaml_new(&m->arena, YAML_SEQUENCE), *item;

    YAML_FOREACH(entry, kube_field(m->container, "env")) {
        const char *name = kube_text(entry, "name");

        if (import_is_rendezvous(m, name))
            continue;
        item = yaml_new(&m->arena, YAML_MAPPING);
        import_put(m, item, "name", kube_get(entry, "name"));
        import_put(m, item, "valueFrom", kube_get(entry, "valueFrom"));
        if (kube_get(entry, "value") != NULL)
            import_put(m, item, "value", kube_get(entry, "value"));
        else if (kube_get(item, "valueFrom") == NULL)
            import_put_text(m, item, "value", "");
        yaml_append(&m->arena, list, item);
    }
    if (yaml_get(m->settings, "mainProgram") == NULL && !is_told_by_operator(m))
        take_from_operator(m, TORCHRUN_NPROC_PER_NODE, list);
    if (!job_is_elastic(m->run))
        take_from_operator(m, TORCHRUN_MAX_RESTARTS, list);
    return list->count > 0 ? list : NULL;
}

static void read_container(struct importer *m)
{
    struct yaml_node *rest =
        yaml_without(&m->arena, m->container->node,
                     WORDS("name", "image", "imagePullPolicy", "command", "args", "env",
                           "resources", "envFrom", "workingDir", "ports"));

    if (import_restarts_in_place(m))
        rest = yaml_without(&m->arena, rest, WORDS("restartPolicy", "restartPolicyRules"));
    import_put(m, m->settings, "workingDir", kube_field(m->container, "workingDir"));
    if (m->container->over == NULL && strcmp(m->platform, "pytorchjob") != 0 && !is_wrapped(m))
        import_put(m, m->settings, "containerName", kube_get(m->container->node, "name"));
    import_put(m, m->settings, "environmentVariables", read_variables(m));
    import_put(m, m->settings, "envFrom", kube_field(m->container, "envFrom"));
    /* The ports, without those of the rendezvous. */
    import_put(m, rest, "ports",
               YAML_SELECT(&m->arena, port, YAML_FOREACH(port, kube_field(m->container, "ports")),
                           kube_int(port, "containerPort", -1) != m->run->port &&
                               !kube_is(port, "name", "rdzv")));
    put_filled(m, rest, "resources",
               yaml_without(&m->arena, kube_get(m->container->node, "resources"),
                            WORDS("requests", "limits")));
    put_filled(m, m->settings, "container", rest);
}

/* --- The pod. --- */

/* Without rdzvd and relays, which emit writes itself. */
static const struct yaml_node *other_containers(struct importer *m, bool init)
{
    return YAML_SELECT(&m->arena, c->node,
                       FOREACH(const struct kube_container, c, m->pods->containers, m->pods->count),
                       c->init == init && c != m->container &&
                           job_store_kind(&m->arena, c) != JOB_STORE_RDZVD &&
                           job_store_kind(&m->arena, c) != JOB_STORE_RELAY);
}

static void read_pod(struct importer *m)
{
    struct yaml_node *rest = yaml_without(
        &m->arena, m->pods->spec,
        WORDS("restartPolicy", "containers", "initContainers", "volumes", "priorityClassName"));
    const struct yaml_node *priority = kube_get(m->pods->spec, "priorityClassName");

    FOREACH_WORD(field, "hostNetwork", "hostIPC", "serviceAccountName", "nodeSelector",
                 "tolerations", "schedulerName", "terminationGracePeriodSeconds",
                 "imagePullSecrets") {
        import_put(m, m->settings, field, kube_get(rest, field));
        yaml_remove(rest, field);
    }
    if (priority != NULL && text_is(kube_text(priority, ""), "low", "default", "high"))
        import_put(m, rest, "priorityClassName", priority); /* these would mean other names */
    else if (priority != NULL)
        import_put(m, m->settings, "priority", priority);
    else if (is_wrapped(m))
        import_put_plain(m, m->settings, "priority", "null");
    import_put(m, m->settings, "initContainers", other_containers(m, true));
    import_put(m, rest, "containers", other_containers(m, false));
    import_put(m, rest, "volumes",
               YAML_SELECT(&m->arena, volume,
                           YAML_FOREACH(volume, kube_get(m->pods->spec, "volumes")),
                           !text_is(kube_text(volume, "name"), "rdzvd-data", "rdzvd-client-tls")));
    import_put_plain(m, m->settings, "shm", "false"); /* `volumes` has the job's /dev/shm */
    if (m->job->type != KUBE_TRAINJOB || kube_get(m->pods->spec, "restartPolicy") != NULL)
        import_put_text(m, m->settings, "restartPolicy", m->pods->restart);
    put_filled(m, m->settings, "pod", rest);
}

/* --- Labels and the like. --- */

#define QUEUE "kueue.x-k8s.io/queue-name"

static void read_labels(struct importer *m)
{
    const struct kube_object *top = kube_top(m->job);
    const struct yaml_node *labels = kube_get(top->node, "metadata.labels");
    const struct yaml_node *queue = yaml_get(labels, QUEUE);

    if (queue == NULL && m->job->type == KUBE_VOLCANO_JOB)
        queue = kube_get(m->job->spec, "queue");
    if (queue != NULL)
        import_put(m, m->settings, "queueName", queue);
    else if (is_wrapped(m) || m->job->type == KUBE_VOLCANO_JOB)
        import_put_plain(m, m->settings, "queueName", "null");
    put_filled(m, m->settings, "podLabels",
               yaml_without(&m->arena, kube_get(m->pods->meta, "labels"), WORDS(QUEUE, "rdzvd")));
    put_filled(m, m->settings, "podAnnotations",
               yaml_without(&m->arena, kube_get(m->pods->meta, "annotations"), WORDS(NULL)));
}

static void read_job_fields(struct importer *m)
{
    const struct job_setting *restarts = &m->run->settings[TORCHRUN_MAX_RESTARTS];

    FOREACH_WORD(ttl, "ttlSecondsAfterFinished", "runPolicy.ttlSecondsAfterFinished")
        import_put(m, m->settings, "ttlSecondsAfterFinished", kube_get(m->job->spec, ttl));
    if (m->job->type == KUBE_TRAINJOB)
        import_put(m, m->settings, "ttlSecondsAfterFinished",
                   kube_get(m->pods->part, "template.spec.ttlSecondsAfterFinished"));
    if (m->job->type == KUBE_JOB)
        import_put(m, m->settings, "podFailurePolicy", kube_get(m->job->spec, "podFailurePolicy"));
    if (yaml_get(m->settings, "mainProgram") != NULL && import_restarts(m) != NULL) {
        import_put_plain(m, m->settings, "restarts", import_restarts(m));
        return;
    }
    /* Of an elastic job the setting says torchrun's number, too, and emit has a high one by itself.
     */
    if (job_is_elastic(m->run)) {
        if (restarts->from == JOB_FROM_OPERATOR &&
            strcmp(restarts->value.text, JOB_USUAL_RESTARTS) != 0)
            import_put(m, m->settings, "restarts", restarts->node);
        return;
    }
    if (m->job->type == KUBE_JOBSET)
        import_put(m, m->settings, "restarts", kube_get(m->job->spec, "failurePolicy.maxRestarts"));
    if (m->job->type == KUBE_VOLCANO_JOB && kube_int(m->job->spec, "maxRetry", 0) != 1000)
        import_put(m, m->settings, "restarts", kube_get(m->job->spec, "maxRetry"));
    if (m->job->type == KUBE_JOB && !import_restarts_in_place(m))
        import_put(m, m->settings, "restarts", kube_get(m->job->spec, "backoffLimit"));
}

/* What of `resources` is a setting; NULL: nothing. */
static const struct yaml_node *amounts(struct importer *m, const struct yaml_node *resources)
{
    struct yaml_node *out = yaml_new(&m->arena, YAML_MAPPING);

    import_put(m, out, "requests", kube_get(resources, "requests"));
    import_put(m, out, "limits", kube_get(resources, "limits"));
    return out->count > 0 ? out : NULL;
}

static void read_image(struct importer *m)
{
    const struct yaml_node *resources = kube_field(m->container, "resources");

    if (m->container->over != NULL && kube_get(m->container->over, "resourcesPerNode") != NULL)
        resources = kube_get(m->container->over, "resourcesPerNode");
    if (*m->container->image == '\0')
        import_error(m, m->container->node,
                     m->job->type == KUBE_TRAINJOB
                         ? "the image is not in these files: name the file of the runtime, too"
                         : "the container has no image, and emit needs one: write it here");
    import_put(m, m->settings, "containerImage", kube_field(m->container, "image"));
    import_put(m, m->settings, "imagePullPolicy", kube_field(m->container, "imagePullPolicy"));
    if (amounts(m, resources) != NULL) {
        import_put(m, m->settings, "resources", amounts(m, resources));
    } else if (is_wrapped(m)) {
        import_put_plain(m, m->settings, "numCpusPerPod", "null");
        import_put_plain(m, m->settings, "totalMemoryPerPod", "null");
    }
}

bool import_job(struct importer *m)
{
    bool writes_command;

    m->settings = yaml_new(&m->arena, YAML_MAPPING);
    if (!import_find_job(m))
        return false;
    m->run = import_workers_run(&m->jobs, m->job);
    m->container = m->run->container;
    m->pods = m->container->pods;
    if (m->platform == NULL)
        m->platform = platform_of(m->job);
    if (m->platform == NULL)
        return import_error(
            m, m->job->node,
            "emit makes no %s: name what is to run the pods with --platform, such as job",
            m->job->kind);
    if (*m->job->name == '\0')
        import_error(m, m->job->node,
                     "this job has no metadata.name, which jobName comes from: give it one");
    import_put_text(m, m->settings, "jobName", m->job->name);
    yaml_put_filled(&m->arena, m->settings, "namespace", m->job->namespace);
    import_put_text(m, m->settings, "platform", m->platform);
    read_image(m);
    writes_command = import_command(m);
    read_numbers(m, writes_command);
    read_container(m);
    read_pod(m);
    read_labels(m);
    read_job_fields(m);
    read_rdzv(m);
    return m->diag->errors == 0;
}
