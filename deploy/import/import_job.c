/* Finds the job, and what the manifests say of it: deploy/data/import.yaml makes the user file of
 * these facts. */
#include "deploy/import/import.h"

#include "deploy/kube/rdzv_conf.h"
#include "deploy/template/files.h"
#include "deploy/template/template.h"
#include "deploy/yaml/options.h"

#include <string.h>

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

/* How much the run says of where the nodes meet: one that is alone or at its own localhost,
 * nothing; that of a Master, less than one of Workers. */
static int weight_of(const struct job_run *r)
{
    return 2 * (job_is_multi_node(r) && !r->standalone && (!r->local || r->hosted || r->store)) +
           (strcmp(r->container->pods->role, "Master") != 0);
}

const struct job_run *import_workers_run(const struct job_view *jobs, const struct kube_object *job)
{
    struct job_view_runs runs = job_runs_of(jobs, job);
    const struct job_run *run = runs.list[0];

    for (size_t i = 1; i < runs.count; i++) {
        if (weight_of(runs.list[i]) > weight_of(run))
            run = runs.list[i];
    }
    return run;
}

/* --- The rendezvous. --- */

/* A variable of which the id is made: emit brings its own. */
static bool is_part_of_id(struct importer *m, const char *variable)
{
    const struct job_setting *s = &m->run->settings[TORCHRUN_RDZV_ID];
    const char *text = s->written.text != NULL ? s->written.text : yaml_text(s->written.node);
    const struct job_variable *v = job_variable(&m->jobs, m->container, variable);

    return text != NULL && v != NULL && kube_get(v->source, "fieldRef") != NULL &&
           strstr(text, arena_text(&m->arena, "$(%s)", variable)) != NULL;
}

bool import_is_rendezvous(struct importer *m, const char *variable)
{
    enum torchrun_option o = torchrun_option_of_variable(variable);

    return import_is_of_rendezvous(o) ||
           (m->writes_program && (o == TORCHRUN_NNODES || o == TORCHRUN_NPROC_PER_NODE)) ||
           is_part_of_id(m, variable);
}

/* Where the manifest says what torchrun is told, or the job. */
static const struct yaml_node *import_place(const struct importer *m, enum torchrun_option option)
{
    const struct job_setting *s = &m->run->settings[option];

    return s->written.node != NULL ? s->written.node : m->job->node;
}

/* What the conf says to c10d, in `conf`, and all of its keys; is_host is emit's. */
static void find_conf(struct importer *m)
{
    const char *conf = job_text(m->run, TORCHRUN_RDZV_CONF);
    int backend = rdzv_conf_backend(m->run->backend);
    struct yaml_node *out = yaml_put_new(&m->arena, m->facts, "conf", YAML_MAPPING);
    struct yaml_node *keys = yaml_put_new(&m->arena, m->facts, "confKeys", YAML_MAPPING);
    struct rdzv_conf_entry e;
    size_t at = 0;
    int readers;

    while (rdzv_conf_next(conf, &at, &e)) {
        const char *key = arena_copy(&m->arena, conf + e.start, e.key_end - e.start);
        const char *value = arena_copy(&m->arena, conf + e.value_start, e.end - e.value_start);

        import_put_text(m, keys, key, value);
        if (strcmp(key, "timeout") == 0 && (rdzv_conf_readers(key) & backend) != 0)
            key = "join_timeout"; /* as c10d calls it */
        readers = rdzv_conf_readers(key);
        if (strcmp(key, "is_host") == 0 || *value == '\0' || strpbrk(conf, "$`") != NULL)
            continue;
        if (readers == 0 || (readers & RDZV_CONF_C10D) != 0)
            import_put_text(m, out, key, value);
        else
            import_note(m, import_place(m, TORCHRUN_RDZV_CONF),
                        "c10d does not read the conf key `%s`, so import leaves it out", key);
    }
}

struct yaml_node *import_run_facts(struct importer *m, const struct job_run *r)
{
    static const char *const from[] = {[JOB_FROM_NOWHERE] = "nowhere",
                                       [JOB_FROM_ENV] = "env",
                                       [JOB_FROM_OPERATOR] = "operator",
                                       [JOB_FROM_SCRIPT] = "script",
                                       [JOB_FROM_FLAG] = "flag"};
    struct yaml_node *run = yaml_new(&m->arena, YAML_MAPPING);

    import_put_number(m, run, "low", r->nodes_min);
    import_put_number(m, run, "high", r->nodes_max);
    import_put_number(m, run, "port", r->port);
    import_put_truth(m, run, "elastic", job_is_elastic(r));
    import_put_truth(m, run, "found", r->found);
    import_put_truth(m, run, "hosted", r->hosted);
    YAML_PUT_TEXTS(&m->arena, run, {"host", r->host}, {"backend", r->backend},
                   {"service", r->target.service == NULL ? NULL : r->target.service->name});
    for (enum torchrun_option o = 0; o < TORCHRUN_OPTIONS; o++) {
        const struct job_setting *s = &r->settings[o];
        struct yaml_node *option = yaml_put_new(&m->arena, run, torchrun_options[o], YAML_MAPPING);

        import_put_text(m, option, "from", from[s->from]);
        import_put_plain(m, option, "value", s->value.known ? s->value.text : NULL);
        import_put_truth(m, option, "known", s->value.known);
        import_put_truth(m, option, "fields", s->value.field_count > 0);
        import_put(m, option, "node", s->written.node);
        import_put(m, option, "place", import_place(m, o));
    }
    return run;
}

/* --- Containers. --- */

static struct yaml_node *fields_of(struct importer *m, const struct kube_container *c)
{
    struct yaml_node *out = yaml_new(&m->arena, YAML_MAPPING);

    FOREACH_WORD(field, "envFrom", "image", "imagePullPolicy", "ports", "resources", "workingDir")
        import_put(m, out, field, kube_field(c, field));
    return out;
}

/* The others of the pod. Without rdzvd and relays, which emit writes itself. */
static const struct yaml_node *other_containers(struct importer *m, bool init)
{
    return YAML_SELECT(&m->arena, c->node, KUBE_FOREACH_CONTAINER(c, m->pods),
                       c->init == init && c != m->container &&
                           job_store_kind(&m->arena, c) != JOB_STORE_RDZVD &&
                           job_store_kind(&m->arena, c) != JOB_STORE_RELAY);
}

/* The Secret and the key in it that are a file of the container; NULL: it is none. */
static struct yaml_node *secret_key_at(struct importer *m, const struct kube_container *c,
                                       const char *path)
{
    const struct yaml_node *secret = kube_get(kube_volume_at(c, path), "secret"), *item;
    struct yaml_node *out = yaml_new(&m->arena, YAML_MAPPING);
    const char *key = kube_base_name(path);

    if (secret == NULL)
        return NULL;
    item = kube_item(kube_get(secret, "items"), "path", key);
    import_put(m, out, "name", kube_get(secret, "secretName"));
    import_put_text(m, out, "key", item != NULL ? kube_text(item, "key") : key);
    return out;
}

/* The values of a store's flags, and the Secrets in which the files are that flags name. */
static void put_flags(struct importer *m, struct yaml_node *to, const struct kube_container *c)
{
    struct yaml_node *flags = yaml_put_new(&m->arena, to, "flags", YAML_MAPPING);
    struct yaml_node *secrets = yaml_put_new(&m->arena, to, "secrets", YAML_MAPPING);

    FOREACH_WORD(name, "admin-token-file", "cert", "client-ca", "client-names", "exit-on-restart",
                 "journal", "journal-ca", "journal-cert", "journal-lease", "journal-password-file",
                 "journal-server-name", "journal-user", "upstream-ca", "upstream-cert",
                 "upstream-name") {
        const char *value = job_store_option(&m->jobs, c, name, NULL);

        import_put_text(m, flags, name, value);
        import_put(m, secrets, name, value == NULL ? NULL : secret_key_at(m, c, value));
    }
}

/* HOST:PORT of each member of an etcd cluster. */
static void put_endpoints(struct importer *m, struct yaml_node *store)
{
    const char *url = kube_text(store, "flags.journal"), *p = strstr(url, "://");
    struct yaml_node *list = yaml_put_new(&m->arena, store, "endpoints", YAML_SEQUENCE);

    for (p = p == NULL ? "" : p + 3; *p != '\0' && *p != '/';) {
        size_t len = strcspn(p, ",/");

        yaml_append(&m->arena, list, yaml_new_text(&m->arena, p, len));
        p += len + (p[len] == ',');
    }
}

/* The namespace to which the policies of the pods let them out, or NULL. */
static const struct yaml_node *egress_of(struct importer *m, const struct kube_pods *p)
{
    static const char path[] =
        "to[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name";

    KUBE_FOREACH(o, &m->bundle) {
        if (o->type != KUBE_NETWORK_POLICY || !kube_same_namespace(o, p->object) ||
            !kube_selects_by(kube_get(o->spec, "podSelector"), p))
            continue;
        YAML_FOREACH(rule, kube_get(o->spec, "egress")) {
            if (kube_get(rule, path) != NULL)
                return kube_get(rule, path);
        }
    }
    return NULL;
}

/* The spec of the Certificate that fills the Secret, or NULL. */
static const struct yaml_node *certificate_of(struct importer *m, const struct kube_object *store,
                                              const char *secret)
{
    const struct kube_object *found =
        FIND(o, KUBE_FOREACH(o, &m->bundle),
             strcmp(o->kind, "Certificate") == 0 && kube_same_namespace(o, store) &&
                 kube_is(o->spec, "secretName", secret));

    return found == NULL ? NULL : found->spec;
}

/* The first address of --upstream. `alone`: it is known, and the list has no second address. */
static void put_upstream(struct importer *m, struct yaml_node *to, const struct job_store *relay)
{
    struct job_upstream up, second;
    struct yaml_node *out;

    if (!job_relay_upstream(&m->jobs, relay, 0, &up))
        return;
    out = yaml_put_new(&m->arena, to, "upstream", YAML_MAPPING);
    YAML_PUT_TEXTS(&m->arena, out, {"text", up.text},
                   {"service", up.target.service == NULL ? NULL : up.target.service->name});
    import_put_number(m, out, "port", up.port);
    import_put_truth(m, out, "alone",
                     up.known && up.well_formed &&
                         !job_relay_upstream(&m->jobs, relay, 1, &second));
}

/* A store, or NULL, as the template sees it. here, beside: the object with its pod is the job; it
 * is in the same AppWrapper. */
static void put_store(struct importer *m, const char *name, const struct job_store *s)
{
    const struct kube_object *o = s == NULL ? NULL : job_store_object(s);
    struct yaml_node *store;

    if (s == NULL)
        return;
    store = yaml_put_new(&m->arena, m->facts, name, YAML_MAPPING);
    YAML_PUT_TEXTS(&m->arena, store, {"kind", job_store_names[s->kind]}, {"name", o->name});
    YAML_PUT_FILLED(&m->arena, store, {"namespace", o->namespace});
    import_put_truth(m, store, "init", s->container->init);
    import_put_truth(m, store, "here", o == m->job);
    import_put_truth(m, store, "beside", kube_top(o) == kube_top(m->job));
    import_put(m, store, "own", s->container->node);
    import_put(m, store, "fields", fields_of(m, s->container));
    import_put(m, store, "pod", s->container->pods->spec);
    import_put(m, store, "meta", s->container->pods->meta);
    import_put_number(m, store, "replicas", s->container->pods->replicas);
    import_put(m, store, "object", o->node);
    import_put(m, store, "egress", egress_of(m, s->container->pods));
    put_flags(m, store, s->container);
    put_endpoints(m, store);
    import_put(m, store, "certificate",
               certificate_of(m, o, kube_text(store, "secrets.cert.name")));
    put_upstream(m, store, s);
}

/* --- The settings. --- */

/* The variables of the template. */
static void find_facts(struct importer *m)
{
    struct yaml_node *f = m->facts;
    bool alone = m->job->type != KUBE_POD; /* else it is one of several */

    FOREACH_WORD(fact, "namespace", "type", "spec", "part", "meta", "over", "mainProgram",
                 "command", "args", "restarts", "env", "initContainers", "containers", "clientTls",
                 "first", "store", "made")
        import_put_plain(m, f, fact, "null");
    YAML_PUT_TEXTS(&m->arena, f, {"name", m->job->name}, {"platform", m->platform},
                   {"type", kube_platform(m->job->type)}, {"restart", m->pods->restart},
                   {"usualRestarts", JOB_USUAL_RESTARTS});
    YAML_PUT_FILLED(&m->arena, f, {"namespace", m->job->namespace});
    import_put(m, f, "object", m->job->node);
    import_put(m, f, "top", kube_top(m->job)->node);
    import_put(m, f, "spec", m->job->spec);
    import_put(m, f, "part", m->pods->part);
    import_put(m, f, "meta", m->pods->meta);
    import_put(m, f, "pod", m->pods->spec);
    import_put(m, f, "own", m->container->node);
    import_put(m, f, "over", m->container->over);
    import_put(m, f, "fields", fields_of(m, m->container));
    m->writes_program = import_command(m);
    import_put_plain(m, f, "restarts", import_restarts(m));
    import_put(m, f, "env",
               YAML_SELECT(&m->arena, entry, YAML_FOREACH(entry, kube_field(m->container, "env")),
                           !import_is_rendezvous(m, kube_text(entry, "name"))));
    import_put(m, f, "initContainers", other_containers(m, true));
    import_put(m, f, "containers", other_containers(m, false));
    import_put(m, f, "run", import_run_facts(m, m->run));
    import_put_number(m, f, "pods", alone ? job_training_pods(&m->jobs, m->job) : -1);
    import_put(m, f, "clientTls", secret_key_at(m, m->container, "/etc/rdzvd/client-tls/ca.crt"));
    put_store(m, "first", m->run->store);
    put_store(m, "store", job_store_behind(m->run->store));
    find_conf(m);
}

/* The tree without the places in the template, which are none of the user's. */
static struct yaml_node *made_anew(struct importer *m, struct yaml_node *n, const char *template)
{
    struct yaml_node *out;

    if (n->file != template)
        return n;
    out = yaml_new(&m->arena, n->kind);
    if (n->kind == YAML_SCALAR)
        *out = *yaml_new_text(&m->arena, n->text, n->len);
    out->style = n->style;
    YAML_FOREACH(item, n)
        yaml_append(&m->arena, out, made_anew(m, item, template));
    YAML_FOREACH_PAIR(pair, n)
        yaml_add(&m->arena, out, made_anew(m, pair->key, template),
                 made_anew(m, pair->value, template));
    return out;
}

/* Fills in the template: the settings or, with those of the job that emit makes, the differences.
 * Errors are in diag. */
static void use_template(struct importer *m, bool compares)
{
    struct embedded data = {0};
    struct yaml_node *file = embedded_load(&data, "", "import", NULL, m->diag), *made = NULL;
    struct template_state t = {
        .arena = &m->arena, .diag = m->diag, .parts = yaml_get(file, "parts")};
    struct yaml_node *off = yaml_new_string(&m->arena, "null");
    struct scope s = {m->facts, NULL};
    const char *first = m->files[0].name;

    import_put(m, m->facts, "off", off);
    if (template_fill_variables(&t, yaml_get(file, "let"), &s) && compares)
        template_check(&t, yaml_get(file, "differences"), DIAG_NOTE, &s, first);
    else if (!t.failed && template_check(&t, yaml_get(file, "checks"), DIAG_ERROR, &s, first) &&
             template_check(&t, yaml_get(file, "notes"), DIAG_NOTE, &s, first))
        made = template_fill(&t, yaml_get(file, "settings"), &s);
    off->style = YAML_PLAIN; /* now it is null; in the template, null would remove its key */
    if (made != NULL)
        m->settings = made_anew(m, made, file->file);
    embedded_free(&data);
}

size_t import_note_differences(struct importer *m)
{
    size_t before = m->diag->count;

    use_template(m, true);
    return m->diag->count - before;
}

bool import_job(struct importer *m)
{
    m->facts = yaml_new(&m->arena, YAML_MAPPING);
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
    find_facts(m);
    use_template(m, false);
    return m->diag->errors == 0;
}
