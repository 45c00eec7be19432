/* Reads jobs of any kind by their pod specs, and moves torchrun's words, PET_* variables and
 * elasticPolicies to c10d. */
#include "deploy/rewrite/rewrite_job.h"

#include "deploy/rewrite/rewrite_store.h"
#include "deploy/yaml/scalar_text.h"

#include <stdlib.h>
#include <string.h>

/* --- Reading. --- */

static void add_wiring(struct bundle *b, struct rewrite_job *j, size_t *cap, struct wiring w)
{
    if (j->count == *cap) {
        size_t more = *cap == 0 ? 4 : *cap * 2;

        j->wirings = arena_grow(&b->arena, j->wirings, *cap * sizeof w, more * sizeof w);
        *cap = more;
    }
    j->wirings[j->count++] = w;
}

bool job_read(struct bundle *b, struct object *o, struct rewrite_job *out)
{
    struct yaml_node *trainer = yaml_path(o->node, "spec.trainer");
    size_t cap = 0, len = strlen(o->kind);
    struct wiring w;

    *out = (struct rewrite_job){.object = o, .policy = yaml_path(o->node, "spec.elasticPolicy")};
    if (strcmp(o->kind, "AppWrapper") == 0 || (len >= 4 && strcmp(o->kind + len - 4, "List") == 0))
        return false;
    if (out->policy != NULL && out->policy->kind != YAML_MAPPING)
        out->policy = NULL;
    find_pod_specs(b, o->node, &out->pods);
    for (size_t i = 0; i < out->pods.count; i++) {
        const struct yaml_node *list = yaml_get(out->pods.list[i], "containers");

        for (size_t c = 0; c < list->count; c++) {
            if (list->alias || list->items[c]->alias) {
                bundle_note(b, list->alias ? list : list->items[c],
                            "%s: a container that is an alias is not looked into",
                            object_title(b, o));
                continue;
            }
            wiring_read(b, list->items[c], &w);
            add_wiring(b, out, &cap, w);
        }
    }
    if (strcmp(o->kind, "TrainJob") == 0 && trainer != NULL && trainer->kind == YAML_MAPPING) {
        wiring_read(b, trainer, &w);
        add_wiring(b, out, &cap, w);
    }
    return out->count > 0;
}

bool job_read_scripts(struct bundle *b, struct object *o, struct rewrite_job *out)
{
    const struct yaml_node *data = yaml_get(o->node, "data");
    size_t cap = 0;

    *out = (struct rewrite_job){.object = o};
    if (strcmp(o->kind, "ConfigMap") != 0 || data == NULL || data->kind != YAML_MAPPING)
        return false;
    for (size_t i = 0; i < data->count; i++) {
        struct yaml_node *value = data->pairs[i].value;
        struct wiring w;

        if (yaml_text(value) == NULL || strstr(value->text, "--rdzv") == NULL)
            continue;
        wiring_read_text(b, value, &w);
        add_wiring(b, out, &cap, w);
    }
    return out->count > 0;
}

bool job_uses_torchrun(const struct rewrite_job *j)
{
    for (size_t i = 0; i < j->count; i++) {
        if (j->wirings[i].torchrun != NULL)
            return true;
    }
    return false;
}

bool job_is_static(const struct rewrite_job *j)
{
    for (size_t i = 0; i < j->count; i++) {
        for (size_t k = 0; k < j->wirings[i].count; k++) {
            if (j->wirings[i].list[k].field == RDZV_REF_BACKEND)
                return false;
        }
    }
    return j->policy == NULL;
}

static bool says(const struct wiring *w, enum rdzv_ref_field field, const struct rdzv_ref *beside)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct rdzv_ref *s = &w->list[i];

        if (s->field != field)
            continue;
        if (beside == NULL || s->position == RDZV_REF_ENV || s->position == RDZV_REF_ASSIGN ||
            s->command == beside->command)
            return true;
    }
    return false;
}

static const struct yaml_node *find_text(const struct yaml_node *n, const char *part)
{
    if (n == NULL)
        return NULL;
    if (n->kind == YAML_SCALAR)
        return strstr(n->text, part) != NULL ? n : NULL;
    for (size_t i = 0; i < n->count; i++) {
        const struct yaml_node *found =
            find_text(n->kind == YAML_SEQUENCE ? n->items[i] : n->pairs[i].value, part);

        if (found != NULL)
            return found;
    }
    return NULL;
}

/* --- Where it meets now. --- */

/* The length of the host in HOST:PORT. */
static size_t host_len(const char *endpoint)
{
    return strcspn(endpoint, ":/");
}

struct object *job_service_of(struct bundle *b, const struct rewrite_job *j, const struct wiring *w,
                              const struct rdzv_ref *endpoint, const struct etcd *e)
{
    const char *value = wiring_expand(b, w, endpoint->value);

    return etcd_service_of(e, value, host_len(value), j->object->namespace);
}

struct object *job_policy_service(const struct rewrite_job *j, const struct etcd *e)
{
    const char *host = yaml_text(yaml_get(j->policy, "rdzvHost"));

    return host == NULL ? NULL : etcd_service_of(e, host, strlen(host), j->object->namespace);
}

/* A pod of this job by its name: the first of some replicas, as `<job>-worker-0`. */
static bool is_own_pod(const struct rewrite_job *j, const char *host, size_t len)
{
    size_t own = strlen(j->object->name), label = 0;

    while (label < len && host[label] != '.')
        label++;
    return own > 0 && label >= own + 2 && memcmp(host, j->object->name, own) == 0 &&
           host[own] == '-' && memcmp(host + label - 2, "-0", 2) == 0;
}

static bool is_hosted_at(const struct rewrite_job *j, const char *endpoint)
{
    return (strstr(endpoint, "VC_") != NULL && strstr(endpoint, "_HOSTS") != NULL) ||
           strstr(endpoint, "MASTER_ADDR") != NULL || is_own_pod(j, endpoint, host_len(endpoint));
}

static bool is_hosted_by_policy(const struct rewrite_job *j)
{
    const char *backend = yaml_text(yaml_get(j->policy, "rdzvBackend"));
    const char *host = yaml_text(yaml_get(j->policy, "rdzvHost"));

    return j->policy != NULL && (backend == NULL || strcmp(backend, "c10d") == 0) &&
           (host == NULL || is_own_pod(j, host, strlen(host)));
}

/* torchrun in a PyTorchJob with a Master, and not a word about where to meet: the operator's
 * variables lead all to the Master, which is the store. */
static bool is_hosted_by_master(const struct rewrite_job *j)
{
    const struct yaml_node *replicas = yaml_path(j->object->node, "spec.pytorchReplicaSpecs");
    const struct yaml_node *spec = yaml_get(j->object->node, "spec");

    if (yaml_get(replicas, "Master") == NULL || yaml_get(replicas, "Worker") == NULL ||
        j->policy != NULL || !job_uses_torchrun(j) || find_text(spec, "--standalone") != NULL)
        return false;
    for (size_t i = 0; i < j->count; i++) {
        if (says(&j->wirings[i], RDZV_REF_BACKEND, NULL) ||
            says(&j->wirings[i], RDZV_REF_ENDPOINT, NULL))
            return false;
    }
    return true;
}

/* The endpoints that worker 0 serves, one after the other; NULL behind the last. */
static const struct rdzv_ref *next_hosted(struct bundle *b, const struct rewrite_job *j,
                                          size_t *wiring, size_t *at)
{
    for (; *wiring < j->count; ++*wiring, *at = 0) {
        const struct wiring *w = &j->wirings[*wiring];

        while (*at < w->count) {
            const struct rdzv_ref *s = &w->list[(*at)++];

            if (s->field == RDZV_REF_ENDPOINT && is_hosted_at(j, wiring_expand(b, w, s->value)))
                return s;
        }
    }
    return NULL;
}

bool job_is_self_hosted(struct bundle *b, const struct rewrite_job *j)
{
    size_t wiring = 0, at = 0;

    return is_hosted_by_policy(j) || is_hosted_by_master(j) ||
           next_hosted(b, j, &wiring, &at) != NULL;
}

/* The digits behind the last colon of a value; its length when there are none. */
static size_t port_in(const char *value)
{
    size_t len = strlen(value), digits = len;

    while (digits > 0 && value[digits - 1] >= '0' && value[digits - 1] <= '9')
        digits--;
    return digits > 0 && digits < len && value[digits - 1] == ':' ? digits : len;
}

unsigned job_hosted_port(struct bundle *b, const struct rewrite_job *j)
{
    size_t wiring = 0, at = 0;
    const struct rdzv_ref *s = next_hosted(b, j, &wiring, &at);
    int64_t port;

    if (s != NULL)
        return (unsigned)strtoul(s->value + port_in(s->value), NULL, 10);
    if (yaml_to_int(yaml_get(j->policy, "rdzvPort"), &port) && port > 0 && port < 65536)
        return (unsigned)port;
    return 0;
}

/* --- Configurations: k=v,k=v. --- */

/* The end of the entry that begins at `from`: a comma outside of quotes and substitutions. */
static size_t entry_end(const char *conf, size_t from)
{
    size_t i = from;
    int depth = 0;
    char quote = '\0';

    for (; conf[i] != '\0'; i++) {
        char c = conf[i];

        if (quote != '\0')
            quote = c == quote ? '\0' : quote;
        else if (c == '"' || c == '\'' || c == '`')
            quote = c;
        else if (c == '(' || c == '{')
            depth++;
        else if (c == ')' || c == '}')
            depth--;
        else if (c == ',' && depth <= 0)
            break;
    }
    return i;
}

static bool find_is_host(const char *conf, size_t *start, size_t *end)
{
    for (size_t at = 0; conf[at] != '\0';) {
        size_t key = at + strspn(conf + at, " ");

        *start = key;
        *end = entry_end(conf, at);
        if (strncmp(conf + key, "is_host=", 8) == 0)
            return true;
        at = *end + (conf[*end] == ',');
    }
    return false;
}

/* As torch reads a bool. */
static bool is_false(const char *text, size_t len)
{
    static const char *const words[] = {"0", "false", "f", "no", "n"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i]) == len && strncasecmp(text, words[i], len) == 0)
            return true;
    }
    return false;
}

static void set_is_host(struct bundle *b, struct bundle_file *f, const struct wiring *w,
                        const struct rdzv_ref *s)
{
    const char *all = wiring_expand(b, w, s->value);
    size_t start, end;

    if (find_is_host(s->value, &start, &end)) {
        if (is_false(s->value + start + 8, end - start - 8))
            return;
        if (!rdzv_ref_set_part(b, f, s, start, end, "is_host=0"))
            rdzv_ref_set(
                b, f, s,
                arena_text(&b->arena, "%.*sis_host=0%s", (int)start, s->value, s->value + end));
    } else if (find_is_host(all, &start, &end)) { /* it comes with a variable */
        rdzv_ref_set(b, f, s, arena_text(&b->arena, "%.*sis_host=0%s", (int)start, all, all + end));
    } else if (*s->value == '\0') {
        rdzv_ref_set(b, f, s, "is_host=0");
    } else if (!rdzv_ref_set_part(b, f, s, 0, 0, "is_host=0,")) {
        rdzv_ref_set(b, f, s, arena_text(&b->arena, "is_host=0,%s", s->value));
    }
}

/* --- Containers. --- */

static bool is_etcd_backend(const char *name)
{
    return strcmp(name, "etcd") == 0 || strcmp(name, "etcd-v2") == 0;
}

/* HOST:29400. What is not the port stays as it is written, where it can. */
static void set_port(struct bundle *b, struct bundle_file *f, const struct wiring *w,
                     const struct rdzv_ref *s)
{
    size_t digits = port_in(s->value), len = strlen(s->value);
    const char *port = arena_text(&b->arena, "%d", C10D_PORT), *all;

    if (digits < len && strcmp(s->value + digits, port) == 0)
        return;
    if (digits < len && rdzv_ref_set_part(b, f, s, digits, len, port))
        return;
    all = wiring_expand(b, w, s->value);
    rdzv_ref_set(b, f, s, arena_text(&b->arena, "%.*s:%s", (int)host_len(all), all, port));
}

/* Backend and conf behind the endpoint, where nothing says them. */
static void complete(struct bundle *b, struct bundle_file *f, const struct rewrite_job *j,
                     const struct wiring *w, const struct rdzv_ref *s)
{
    bool flag = s->position >= RDZV_REF_SHELL;

    if (!says(w, RDZV_REF_BACKEND, flag ? s : NULL) && j->policy == NULL)
        rdzv_ref_add_behind(b, f, s, RDZV_REF_BACKEND, "c10d");
    if (!says(w, RDZV_REF_CONF, flag ? s : NULL) && j->policy == NULL)
        rdzv_ref_add_behind(b, f, s, RDZV_REF_CONF, "is_host=0");
}

/* The flags and variables of one container. */
static void move_wiring(struct bundle *b, const struct rewrite_job *j, const struct wiring *w,
                        const struct etcd *e, const char *host)
{
    struct bundle_file *f = j->object->file;
    const char *target = host == NULL ? NULL : arena_text(&b->arena, "%s:%d", host, C10D_PORT);

    for (size_t i = 0; i < w->count; i++) {
        const struct rdzv_ref *s = &w->list[i];
        const char *value = wiring_expand(b, w, s->value);

        if (s->field == RDZV_REF_BACKEND &&
            (is_etcd_backend(value) || strcmp(value, "static") == 0))
            rdzv_ref_set(b, f, s, "c10d");
        else if (s->field == RDZV_REF_CONF)
            set_is_host(b, f, w, s);
        if (s->field != RDZV_REF_ENDPOINT)
            continue;
        if (target != NULL && is_hosted_at(j, value))
            rdzv_ref_set(b, f, s, target);
        else if (target == NULL && job_service_of(b, j, w, s, e) != NULL)
            set_port(b, f, w, s);
        else
            continue;
        complete(b, f, j, w, s);
    }
}

/* A container port of the store that was: on the host network it would keep a second pod away. */
static void remove_port(struct bundle *b, const struct rewrite_job *j, const struct wiring *w,
                        unsigned port)
{
    struct yaml_node *ports = yaml_get(w->container, "ports");

    for (size_t i = 0; ports != NULL && ports->kind == YAML_SEQUENCE && i < ports->count; i++) {
        int64_t n;

        if (!yaml_to_int(yaml_get(ports->items[i], "containerPort"), &n) || n != port ||
            yaml_is(yaml_get(ports->items[i], "name"), "pytorchjob-port"))
            continue;
        bundle_note(b, ports->items[i],
                    "%s: nothing listens at %u in its pods any more: the port goes",
                    object_title(b, j->object), port);
        if (ports->count == 1)
            edit_remove_pair(b, j->object->file, w->container,
                             yaml_get_pair(w->container, "ports"));
        else
            edit_remove_item(b, j->object->file, ports, i);
        return;
    }
}

/* --- elasticPolicy. --- */

static void set_key(struct bundle *b, struct bundle_file *f, struct yaml_node *policy,
                    const char *key, const char *value, struct buf *missing)
{
    struct yaml_node *old = yaml_get(policy, key);

    if (old == NULL) {
        bool number = value[strspn(value, "0123456789")] == '\0';

        buf_print(missing, "%s: %s\n", key, number ? value : scalar_text(&b->arena, value));
    } else if (!yaml_is(old, value)) {
        edit_value(b, f, old, value);
    }
}

static void set_policy_conf(struct bundle *b, struct bundle_file *f, struct yaml_node *policy,
                            struct buf *missing)
{
    struct yaml_node *conf = yaml_get(policy, "rdzvConf");

    if (conf == NULL) {
        buf_print(missing, "rdzvConf:\n- key: is_host\n  value: \"0\"\n");
        return;
    }
    if (conf->kind != YAML_SEQUENCE) {
        bundle_error(b, conf, "rdzvConf is a list of `key` and `value`: write it as one");
        return;
    }
    for (size_t i = 0; i < conf->count; i++) {
        struct yaml_node *value = yaml_get(conf->items[i], "value");

        if (!yaml_is(yaml_get(conf->items[i], "key"), "is_host"))
            continue;
        if (yaml_text(value) != NULL && !is_false(value->text, value->len))
            edit_value(b, f, value, "0");
        return;
    }
    edit_add_item(b, f, conf, conf->count == 0 ? 0 : conf->count - 1,
                  "key: is_host\nvalue: \"0\"\n");
}

static void move_policy(struct bundle *b, const struct rewrite_job *j, const char *host)
{
    static const char *const keys[] = {"rdzvConf", "rdzvId", "rdzvPort", "rdzvHost", "rdzvBackend"};
    struct bundle_file *f = j->object->file;
    struct buf missing = {.arena = &b->arena};
    const struct yaml_pair *after = NULL;
    bool had_id = !yaml_is_null(yaml_get(j->policy, "rdzvId"));

    set_key(b, f, j->policy, "rdzvBackend", "c10d", &missing);
    if (host != NULL)
        set_key(b, f, j->policy, "rdzvHost", host, &missing);
    set_key(b, f, j->policy, "rdzvPort", arena_text(&b->arena, "%d", C10D_PORT), &missing);
    if (!had_id) {
        set_key(b, f, j->policy, "rdzvId", j->object->name, &missing);
        bundle_note(b, j->policy,
                    "%s had no rdzvId, and so the id of every job without one: it "
                    "gets its own name",
                    object_title(b, j->object));
    }
    set_policy_conf(b, f, j->policy, &missing);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && after == NULL; i++)
        after = yaml_get_pair(j->policy, keys[i]);
    if (missing.len == 0)
        return;
    if (after != NULL)
        edit_add_pair(b, f, j->policy, after, missing.text);
    else if (j->policy->count > 0)
        edit_add_pair_before(b, f, j->policy, &j->policy->pairs[0], missing.text);
    else
        edit_add_pair(b, f, j->policy, NULL, missing.text);
}

/* --- A whole job. --- */

static bool is_moved(struct bundle *b, const struct rewrite_job *j, const struct wiring *w,
                     const struct etcd *e, const char *host)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct rdzv_ref *s = &w->list[i];

        if (s->field != RDZV_REF_ENDPOINT)
            continue;
        if (host != NULL ? is_hosted_at(j, wiring_expand(b, w, s->value))
                         : job_service_of(b, j, w, s, e) != NULL)
            return true;
    }
    return false;
}

static bool has_local_addr(const struct wiring *w)
{
    return find_text(w->container, "PET_LOCAL_ADDR") != NULL ||
           find_text(w->container, "--local_addr") != NULL ||
           find_text(w->container, "--local-addr") != NULL;
}

/* All that torchrun has to know, as variables: its command stays as it is. */
static void add_variables(struct bundle *b, const struct rewrite_job *j, const struct wiring *w,
                          const char *host)
{
    struct bundle_file *f = j->object->file;
    struct yaml_pair *env = yaml_get_pair(w->container, "env");
    const char *namespace = j->object->namespace;
    const char *id =
        arena_text(&b->arena, "%s%s%s", namespace, *namespace == '\0' ? "" : ".", j->object->name);
    const char *items[] = {
        "name: PET_RDZV_BACKEND\nvalue: c10d\n",
        arena_text(&b->arena, "name: PET_RDZV_ENDPOINT\nvalue: %s:%d\n", host, C10D_PORT),
        arena_text(&b->arena, "name: PET_RDZV_ID\nvalue: %s\n", scalar_text(&b->arena, id)),
        "name: PET_RDZV_CONF\nvalue: is_host=0\n",
        "name: PET_LOCAL_ADDR\nvalueFrom:\n  fieldRef:\n    fieldPath: status.podIP\n",
    };
    struct buf block = {.arena = &b->arena};
    size_t last;

    if (env != NULL && env->value->kind != YAML_SEQUENCE) {
        bundle_error(b, env->value, "env is a list of variables: write it as one, or remove it");
        return;
    }
    last = env == NULL || env->value->count == 0 ? 0 : env->value->count - 1;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        if ((i == 2 && w->has_id) || (i == 3 && says(w, RDZV_REF_CONF, NULL)) ||
            (i == 4 && has_local_addr(w)))
            continue;
        if (env != NULL)
            edit_add_item(b, f, env->value, last, items[i]);
        else
            buf_print(&block, "%s", edit_as_item(b, items[i]));
    }
    if (env == NULL)
        edit_add_pair(b, f, w->container, &w->container->pairs[w->container->count - 1],
                      arena_text(&b->arena, "env:\n%s", block.text));
}

void job_move(struct bundle *b, struct rewrite_job *j, const struct etcd *e, const char *host,
              unsigned old_port)
{
    bool policy = host != NULL ? is_hosted_by_policy(j) : job_policy_service(j, e) != NULL;

    bool master = host != NULL && is_hosted_by_master(j);

    if (policy)
        move_policy(b, j, host);
    for (size_t i = 0; i < j->count; i++) {
        const struct wiring *w = &j->wirings[i];

        if (master && w->torchrun != NULL) {
            add_variables(b, j, w, host);
            move_wiring(b, j, w, e, host);
        }
        if (!policy && !is_moved(b, j, w, e, host))
            continue;
        move_wiring(b, j, w, e, host);
        if (old_port != 0 && w->container != NULL)
            remove_port(b, j, w, old_port);
    }
}

/* --- What is to be known of it. --- */

static bool has_id(const struct rewrite_job *j)
{
    if (!yaml_is_null(yaml_get(j->policy, "rdzvId")))
        return true;
    for (size_t i = 0; i < j->count; i++) {
        if (j->wirings[i].has_id)
            return true;
    }
    return false;
}

/* An id that every job made of this text has. */
static void note_constant_id(struct bundle *b, const struct rewrite_job *j)
{
    for (size_t i = 0; i < j->count; i++) {
        for (size_t k = 0; k < j->wirings[i].count; k++) {
            const struct rdzv_ref *s = &j->wirings[i].list[k];
            const char *id =
                s->field == RDZV_REF_ID ? wiring_expand(b, &j->wirings[i], s->value) : "$";

            if (strchr(id, '$') == NULL && strstr(id, j->object->name) == NULL)
                bundle_note(b, s->node,
                            "the run id %s is the same for every job made of this: put the job's "
                            "name or uid into it",
                            id);
        }
    }
}

static void note_container(struct bundle *b, const struct yaml_node *container,
                           const struct yaml_node *spec, bool c10d, unsigned etcd_port)
{
    const struct yaml_node *caps = yaml_path(container, "securityContext.capabilities.add");
    const struct yaml_node *ports = yaml_get(container, "ports");
    bool host = false;

    for (size_t i = 0; caps != NULL && caps->kind == YAML_SEQUENCE && i < caps->count; i++) {
        const char *name = yaml_text(caps->items[i]);

        if (name != NULL && strncmp(name, "CAP_", 4) == 0)
            bundle_note(b, caps->items[i], "Kubernetes knows %s as %s: it has no effect so", name,
                        name + 4);
    }
    yaml_to_bool(yaml_get(spec, "hostNetwork"), &host);
    for (size_t i = 0;
         host && !c10d && ports != NULL && ports->kind == YAML_SEQUENCE && i < ports->count; i++) {
        int64_t n;

        if (yaml_to_int(yaml_get(ports->items[i], "containerPort"), &n) && n == etcd_port)
            bundle_note(b, ports->items[i],
                        "on the host network this keeps a second pod, and an etcd, off the node, "
                        "and nothing listens there: remove it");
    }
}

void job_note_known_faults(struct bundle *b, const struct rewrite_job *j, bool c10d,
                           unsigned etcd_port)
{
    const struct yaml_node *restart = find_text(yaml_get(j->object->node, "spec"), "RestartJob");

    if (!has_id(j) && !(c10d && (j->policy != NULL || is_hosted_by_master(j))))
        bundle_note(b, j->object->node,
                    "%s has no run id, and shares the id `none` with every other job without one: "
                    "give it one",
                    object_title(b, j->object));
    if (!c10d && find_text(j->object->node, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE") == NULL)
        bundle_note(b, j->object->node,
                    "%s: if it is elastic, torch 2.6 and later need "
                    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 on every agent over etcd-v2, or a node "
                    "that joins or replaces another one waits for ever: set it, or leave out "
                    "--keep-backend",
                    object_title(b, j->object));
    note_constant_id(b, j);
    if (restart != NULL && find_text(j->object->node, "volcano.sh/job-version") == NULL)
        bundle_note(b, restart,
                    "RestartJob starts anew under the same run id, which is closed by then: put "
                    "the annotation volcano.sh/job-version into the id");
    for (size_t i = 0; i < j->pods.count; i++) {
        const struct yaml_node *list = yaml_get(j->pods.list[i], "containers");

        for (size_t c = 0; c < list->count; c++)
            note_container(b, list->items[c], j->pods.list[i], c10d, etcd_port);
    }
}
