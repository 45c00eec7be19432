/* Collects the settings of a run, the weakest source first, and derives what they mean. */
#include "deploy/kube/job_parts.h"

#include <stdlib.h>
#include <string.h>

/* --- Where they are said, the weakest source first. --- */

static void set(struct job_view *v, struct job_run *r, enum torchrun_option option,
                struct job_setting setting)
{
    struct job_setting *old = &r->settings[option];

    if (old->from != JOB_FROM_NOWHERE && old->from != setting.from) {
        struct job_setting *copy = arena_alloc(&v->bundle->arena, sizeof *copy);

        *copy = *old;
        setting.weaker = copy;
    } else {
        setting.weaker = old->weaker;
    }
    *old = setting;
}

static void set_from_env(struct job_view *v, struct job_run *r)
{
    JOB_FOREACH_VARIABLE(variable, v, r->container)
    {
        enum torchrun_option option = torchrun_option_of_variable(variable->name);
        struct job_setting s = {.from = JOB_FROM_ENV};

        if (option == TORCHRUN_UNKNOWN)
            continue;
        if (variable->value != NULL)
            s.written = arg_word_of(variable->value);
        else
            s.written.node = variable->source != NULL ? variable->source : variable->node;
        s.value = job_variable_value(v, r->container, variable);
        set(v, r, option, s);
    }
}

static void set_from_text(struct job_view *v, struct job_run *r, enum torchrun_option option,
                          const struct yaml_node *node, const char *text)
{
    bool placeholder = r->container->pods->object->templated && /* not Kubernetes fills it in */
                       (strchr(text, '$') != NULL || strstr(text, "{{") != NULL);

    set(v, r, option,
        (struct job_setting){
            .from = JOB_FROM_OPERATOR,
            .written = {.node = node,
                        .end = node != NULL && node->kind == YAML_SCALAR ? node->len : 0},
            .value = {.text = text, .known = !placeholder},
        });
}

/* The same of a field, if it is there. */
static void set_from_field(struct job_view *v, struct job_run *r, enum torchrun_option option,
                           const struct yaml_node *from, const char *key)
{
    if (kube_get(from, key) != NULL)
        set_from_text(v, r, option, kube_get(from, key), kube_text(from, key));
}

static const char *policy_conf(struct arena *a, const struct yaml_node *list)
{
    const char *text = "";

    YAML_FOREACH(item, list)
        text = arena_joined(
            a, text, ",", arena_text(a, "%s=%s", kube_text(item, "key"), kube_text(item, "value")));
    return text;
}

const struct yaml_pair *job_policy_stranger(const struct yaml_node *policy)
{
    return FIND(field, YAML_FOREACH_PAIR(field, policy),
                !text_is(field->key->text, "minReplicas", "maxReplicas", "rdzvBackend", "rdzvPort",
                         "rdzvHost", "rdzvId", "rdzvConf", "standalone", "nProcPerNode",
                         "maxRestarts", "metrics"));
}

/* The variables that the operator makes from elasticPolicy. */
static void set_from_policy(struct job_view *v, struct job_run *r, const struct yaml_node *policy)
{
    struct arena *a = &v->bundle->arena;
    const struct yaml_node *host = kube_get(policy, "rdzvHost"),
                           *conf = kube_get(policy, "rdzvConf");
    const char *port = kube_text(policy, "rdzvPort");

    set_from_text(v, r, TORCHRUN_RDZV_BACKEND, NULL, "c10d");
    set_from_field(v, r, TORCHRUN_RDZV_BACKEND, policy, "rdzvBackend");
    set_from_text(
        v, r, TORCHRUN_RDZV_ENDPOINT, host,
        arena_text(a, "%s%s:%s",
                   host == NULL ? r->container->pods->object->name : kube_text(policy, "rdzvHost"),
                   host == NULL ? "-worker-0" : "", *port == '\0' ? "23456" : port));
    if (conf != NULL)
        set_from_text(v, r, TORCHRUN_RDZV_CONF, conf, policy_conf(a, conf));
    set_from_field(v, r, TORCHRUN_RDZV_ID, policy, "rdzvId");
    set_from_field(v, r, TORCHRUN_MAX_RESTARTS, policy, "maxRestarts");
    set_from_field(v, r, TORCHRUN_NPROC_PER_NODE, policy, "nProcPerNode");
    if (kube_true(policy, "standalone"))
        set_from_text(v, r, TORCHRUN_STANDALONE, kube_get(policy, "standalone"), "1");
}

/* The options that TorchElastic's controller puts before the arguments. */
static void set_from_elastic_job(struct job_view *v, struct job_run *r)
{
    const struct kube_object *o = r->container->pods->object;
    long low = kube_int(o->spec, "minReplicas", -1), high = kube_int(o->spec, "maxReplicas", -1);

    set_from_text(v, r, TORCHRUN_RDZV_BACKEND, NULL, "etcd");
    set_from_text(v, r, TORCHRUN_RDZV_ID, NULL, o->name);
    set_from_field(v, r, TORCHRUN_RDZV_ENDPOINT, o->spec, "rdzvEndpoint");
    if (low >= 0 && high >= 0)
        set_from_text(v, r, TORCHRUN_NNODES, NULL,
                      arena_text(&v->bundle->arena, "%ld:%ld", low, high));
}

static void set_from_operator(struct job_view *v, struct job_run *r)
{
    const struct kube_object *o = r->container->pods->object;
    const struct yaml_node *policy = kube_get(o->spec, "elasticPolicy");
    const struct job_variable *nnodes = job_variable(v, r->container, "PET_NNODES");

    if (o->type == KUBE_PYTORCHJOB)
        set_from_field(v, r, TORCHRUN_NPROC_PER_NODE, o->spec, "nprocPerNode");
    if (o->type == KUBE_PYTORCHJOB && policy != NULL)
        set_from_policy(v, r, policy);
    if (o->type == KUBE_ELASTIC_JOB)
        set_from_elastic_job(v, r);
    if (nnodes != NULL && nnodes->is_made) {
        set_from_text(v, r, TORCHRUN_NNODES, NULL, nnodes->made == NULL ? "" : nnodes->made);
        r->settings[TORCHRUN_NNODES].value.known = nnodes->made != NULL;
    }
}

/* The variables of the policy of kube_pods.c: some win over those of the pod, some do not. */
static void set_from_injection(struct job_view *v, struct job_run *r)
{
    const struct kube_pods *p = r->container->pods;
    const char *conf = r->settings[TORCHRUN_RDZV_CONF].value.text;

    if (p->injected == NULL)
        return;
    set_from_text(v, r, TORCHRUN_RDZV_BACKEND, p->injected, "c10d");
    set_from_text(v, r, TORCHRUN_RDZV_ENDPOINT, p->injected, "localhost:29400");
    set_from_text(v, r, TORCHRUN_RDZV_CONF, p->injected,
                  arena_text(&v->bundle->arena, "is_host=0,read_timeout=900%s%s",
                             conf == NULL ? "" : ",", conf == NULL ? "" : conf));
    if (!job_is_set(r, TORCHRUN_RDZV_ID))
        set_from_text(v, r, TORCHRUN_RDZV_ID, p->injected, p->injected->text);
    if (!job_is_set(r, TORCHRUN_LOCAL_ADDR))
        set_from_text(v, r, TORCHRUN_LOCAL_ADDR, p->injected, "status.podIP");
    if (!job_is_set(r, TORCHRUN_MAX_RESTARTS) && strcmp(p->restart, "Never") != 0)
        set_from_text(v, r, TORCHRUN_MAX_RESTARTS, p->injected, JOB_USUAL_RESTARTS);
}

static void set_from_script(struct job_scope *scope, struct job_run *r)
{
    for (size_t i = 0; i < scope->count; i++) {
        const struct arg_word *text = &scope->assigned[i].value;
        enum torchrun_option option = torchrun_option_of_variable(scope->assigned[i].name);

        if (option != TORCHRUN_UNKNOWN)
            set(scope->view, r, option,
                (struct job_setting){.from = JOB_FROM_SCRIPT,
                                     .written = *text,
                                     .value = job_scope_value(scope, text)});
    }
}

static void set_from_flags(struct job_scope *scope, struct job_run *r)
{
    JOB_FOREACH_FLAG(f, r) {
        struct job_setting s = {.from = JOB_FROM_FLAG, .written = f->value, .flag = f};

        if (f->option >= TORCHRUN_OPTIONS)
            continue;
        if (f->value.text != NULL) {
            s.value = job_scope_value(scope, &f->value);
        } else {
            s.value.text = f->option == TORCHRUN_STANDALONE ? "1" : "";
            s.value.known = true;
            s.written = f->flag;
            s.written.text = NULL;
        }
        set(scope->view, r, f->option, s);
    }
}

/* --- What the settings come to. --- */

bool job_is_set(const struct job_run *r, enum torchrun_option option)
{
    return r->settings[option].from != JOB_FROM_NOWHERE;
}

const char *job_text(const struct job_run *r, enum torchrun_option option)
{
    return r->settings[option].value.text;
}

static long read_count(const char *text, const char **end)
{
    char *stop;
    long value = strtol(text, &stop, 10);

    *end = stop;
    return stop == text || value < 0 || value > 1000000 ? -1 : value;
}

static void find_nodes(struct job_run *r)
{
    const char *text = job_text(r, TORCHRUN_NNODES), *end;

    r->nodes_min = r->nodes_max = r->unread == NULL || r->args == NULL ? 1 : -1;
    if (!job_is_set(r, TORCHRUN_NNODES))
        return;
    r->nodes_min = read_count(text, &end);
    r->nodes_max = *end == ':' ? read_count(end + 1, &end) : r->nodes_min;
    if (*end != '\0' || r->nodes_min < 0 || r->nodes_max < 0 ||
        !r->settings[TORCHRUN_NNODES].value.known)
        r->nodes_min = r->nodes_max = -1;
}

static const char *trim_blanks(struct arena *a, const char *text)
{
    size_t len;

    text += strspn(text, " \t\n");
    for (len = strlen(text); len > 0 && strchr(" \t\n", text[len - 1]) != NULL; len--)
        ;
    return arena_copy(a, text, len);
}

/* Finds the address of rank 0 of a static job: the manifest's own, or the variables that an
 * operator sets. */
static void find_master(struct job_view *v, struct job_run *r)
{
    const struct job_setting *said = &r->settings[TORCHRUN_MASTER_ADDR];
    const struct job_setting *port = &r->settings[TORCHRUN_MASTER_PORT];
    const struct kube_object *o = job_run_object(r);
    bool train = o->type == KUBE_TRAINJOB; /* torchrun reads PET_, workers the other */
    const struct job_variable *made =
        job_variable(v, r->container, train ? "PET_MASTER_ADDR" : "MASTER_ADDR");
    const char *end = "";

    if (said->from != JOB_FROM_NOWHERE)
        r->host = said->value.known ? trim_blanks(&v->bundle->arena, said->value.text) : "";
    else if (made != NULL && made->made != NULL &&
             o->type != KUBE_VOLCANO_JOB) /* its plugin sets no PET_MASTER_ADDR */
        r->host = made->made;
    made = o->type == KUBE_PYTORCHJOB ? job_variable(v, r->container, "PET_MASTER_PORT") : NULL;
    if (port->from != JOB_FROM_NOWHERE)
        r->port = port->value.known ? read_count(port->value.text, &end) : -1;
    else
        r->port = made == NULL || made->made == NULL ? 29500 : read_count(made->made, &end);
}

/* Splits it as torch does: at the last colon, unless the host is in brackets. */
static void split_endpoint(struct arena *a, struct job_run *r)
{
    const struct job_setting *s = &r->settings[TORCHRUN_RDZV_ENDPOINT];
    const char *text = trim_blanks(a, job_text(r, TORCHRUN_RDZV_ENDPOINT)),
               *colon = strrchr(text, ':');
    const char *bracket = strchr(text, ']'), *end = "";
    long own = strncmp(r->backend, "etcd", 4) == 0 ? 2379 : 29400;

    r->host = "";
    r->port = -1;
    if (s->from != JOB_FROM_NOWHERE && !s->value.known) {
        size_t known = strcspn(text, "$`{");

        if (known > 1 && text[known - 1] == ':') /* all but the port */
            r->host = arena_copy(a, text, known - 1);
        else if (colon != NULL && colon > text + known) /* nothing but the port */
            r->port = read_count(colon + 1, &end);
        if (*end != '\0')
            r->port = -1;
        return;
    }
    if (colon != NULL && bracket != NULL && bracket > colon)
        colon = NULL;
    r->host = colon == NULL ? text : arena_copy(a, text, (size_t)(colon - text));
    if (*r->host == '\0')
        r->host = "localhost";
    r->port = colon == NULL ? own : read_count(colon + 1, &end);
    if (*end != '\0')
        r->port = -1;
}

bool job_is_local(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "[::1]") == 0;
}

/* The host is one reference to the name or the address of the pod in which the run is:
 * `$(hostname -f):29500`, `$HOSTNAME:29500`, `$POD_IP:29500`, `$(hostname -I | awk ...)`. */
static bool is_name_of_pod(const struct job_value *endpoint)
{
    const char *text = endpoint->text, *colon = strrchr(text, ':'), *field = endpoint->fields[0];
    size_t len = colon == NULL ? strlen(text) : (size_t)(colon - text), inner;

    if (endpoint->known || len < 3)
        return false; /* what looks like a reference is plain text there */
    inner = *text == '`' ? 1 : 2;
    if ((len == 9 && strncmp(text, "$HOSTNAME", 9) == 0) ||
        (len == 11 && strncmp(text, "${HOSTNAME}", 11) == 0))
        return true;
    if ((strncmp(text, "$(", 2) == 0 || *text == '`') &&
        text_begins(text + inner, "hostname", "uname -n"))
        return strchr(" )`", text[inner + 8]) != NULL && strchr(")`", text[len - 1]) != NULL;
    return endpoint->field_count == 1 && *text == '$' &&
           text_is(field, "status.podIP", "metadata.name") && strcspn(text + 1, ".-$`:") == len - 1;
}

/* `accelerate launch` makes the endpoint of two options of its own, whatever the variables say.
 * With
 * --same_network, they are a master, which c10d does not read. */
static void set_from_accelerate(struct job_view *v, struct job_run *r)
{
    const struct job_setting *host = &r->settings[TORCHRUN_MASTER_ADDR];
    const struct job_setting *port = &r->settings[TORCHRUN_MASTER_PORT];
    struct job_setting s = *host;

    if (host->flag == NULL ||
        ANY(FOREACH(const struct torchrun_flag, f, r->args->flags, r->args->count),
            text_is(f->flag.text, "--same_network", "--same-network")))
        return;
    s.written.text = NULL;
    s.weaker = NULL;
    s.value.known = host->value.known && (port->flag == NULL || port->value.known);
    s.value.text = arena_text(&v->bundle->arena, "%s:%s", host->value.text,
                              port->flag == NULL ? "29500" : port->value.text);
    r->settings[TORCHRUN_RDZV_ENDPOINT] = s;
}

static void conclude(struct job_view *v, struct job_run *r)
{
    const struct job_setting *backend = &r->settings[TORCHRUN_RDZV_BACKEND];
    const char *standalone;

    for (int o = 0; o < TORCHRUN_OPTIONS; o++) {
        if (r->settings[o].value.text == NULL)
            r->settings[o].value.text = "";
    }
    standalone = job_text(r, TORCHRUN_STANDALONE);
    r->standalone = *standalone != '\0' && strcmp(standalone, "0") != 0;
    r->backend = backend->from == JOB_FROM_NOWHERE && (r->unread == NULL || r->args == NULL)
                     ? "static"
                 : backend->value.known ? backend->value.text
                                        : "";
    find_nodes(r);
    if (r->args != NULL && r->args->is_accelerate && strcmp(r->backend, "static") != 0)
        set_from_accelerate(v, r);
    split_endpoint(&v->bundle->arena, r);
    if (strcmp(r->backend, "static") == 0 && !job_is_set(r, TORCHRUN_RDZV_ENDPOINT) &&
        !r->standalone)
        find_master(v, r);
    r->local = job_is_local(r->host) || text_is(r->host, "0.0.0.0", "[::]");
    r->own_name = is_name_of_pod(&r->settings[TORCHRUN_RDZV_ENDPOINT].value);
}

void job_read_settings(struct job_scope *scope, struct job_run *r)
{
    set_from_env(scope->view, r);
    set_from_operator(scope->view, r);
    set_from_injection(scope->view, r);
    set_from_script(scope, r);
    set_from_flags(scope, r);
    conclude(scope->view, r);
}

const struct kube_object *job_run_object(const struct job_run *r)
{
    return r->container->pods->object;
}

bool job_is_multi_node(const struct job_run *r)
{
    if (r->nodes_max >= 0)
        return r->nodes_max > 1;
    return r->container->pods->replicas != 1 || job_run_object(r)->pods_count > 1;
}

bool job_is_etcd(const struct job_run *r)
{
    return strncmp(r->backend, "etcd", 4) == 0;
}

bool job_is_dynamic(const struct job_run *r)
{
    return !r->standalone && text_is(r->backend, "c10d", "etcd", "etcd-v2");
}

bool job_endpoint_is_computed(const struct job_run *r)
{
    return strchr(r->host, '$') != NULL ||
           (*r->host == '\0' && job_is_set(r, TORCHRUN_RDZV_ENDPOINT));
}

bool job_is_elastic(const struct job_run *r)
{
    return r->nodes_min >= 0 && r->nodes_max > r->nodes_min;
}
