/* Rules about the options of torchrun: id, backend, conf, nodes, and who serves the store. */
#include "deploy/check/check.h"
#include "deploy/kube/rdzv_conf.h"

#include <stdlib.h>
#include <string.h>

/* Bounds the comparisons of runs whose endpoints have the same name in different namespaces. */
#define PLACE_USERS_MAX 50

static bool is_at_relay(const struct job_run *r)
{
    return r->store != NULL && r->store->kind == JOB_STORE_RELAY;
}

/* The nodes of the run meet at a store that other jobs may use: it is not the run's own, or not in
 * these files, and the run has no space of its own there. */
static bool meets_at_shared_store(struct check *c, const struct job_run *r)
{
    bool known = job_is_etcd(r) || !job_endpoint_is_computed(r);
    struct job_setting space; /* of a relay: it keeps equal ids apart */

    return job_is_dynamic(r) && known && (job_is_etcd(r) || job_is_multi_node(r)) &&
           !(r->local && r->store == NULL) && !check_owns_store(r) &&
           !(is_at_relay(r) && job_relay_space(&c->jobs, r->store, &space) &&
             strcmp(space.value.text, "default") != 0);
}

static bool has_id(const struct job_run *r)
{
    const struct job_value *id = &r->settings[TORCHRUN_RDZV_ID].value;

    return job_is_set(r, TORCHRUN_RDZV_ID) &&
           (!id->known || (*id->text != '\0' && strcmp(id->text, "none") != 0));
}

/* The value is another text in each pod, at least now and then: of an empty one, torch makes a
 * random one. */
static bool is_of_pod(const struct job_value *id)
{
    return (id->known && *id->text == '\0') ||
           (!id->known &&
            text_has(id->text, "$RANDOM", "${RANDOM", "((RANDOM", "$SRANDOM", "random", "uuid",
                     "$(date", "`date", "EPOCH", "$(hostname", "`hostname", "$HOSTNAME",
                     "${HOSTNAME", "hostid", "uname -n", "openssl rand", "shuf", "mktemp", "$$",
                     "JOB_COMPLETION_INDEX")) ||
           ANY(FOREACH_POINTER(const char, field, id->fields, id->field_count),
               text_has(field, "metadata.name", "metadata.uid", "status.podIP", "status.hostIP",
                        "spec.nodeName", "completion-index", "pod-index") &&
                   strstr(field, "namespace") == NULL);
}

static const char *endpoint_name(const struct job_run *r)
{
    return *r->host == '\0' ? "its endpoint" : r->host;
}

void check_id_missing(struct check *c, const struct job_run *r)
{
    enum torchrun_option at =
        job_is_set(r, TORCHRUN_RDZV_ID) ? TORCHRUN_RDZV_ID : TORCHRUN_RDZV_BACKEND;

    if (meets_at_shared_store(c, r) && !has_id(r) && !check_is_opaque(r) &&
        !is_of_pod(&r->settings[TORCHRUN_RDZV_ID].value))
        check_report(c, check_at_setting(r, at),
                     "no rendezvous id: all jobs without an id meet at %s as `none`",
                     endpoint_name(r));
}

/* The name of a job. Plain Pods are one job together: for `train-pod0` the name is `train`. */
static const char *job_name(struct check *c, const struct kube_object *o)
{
    size_t len = strlen(o->name), end = len;

    if (o->type != KUBE_POD)
        return o->name;
    while (end > 0 && o->name[end - 1] >= '0' && o->name[end - 1] <= '9')
        end--;
    if (end == len)
        return o->name;
    while (end > 0 && o->name[end - 1] != '-')
        end--;
    return end < 2 ? o->name : arena_copy(&c->bundle.arena, o->name, end - 1);
}

/* An id that contains the name of its job is not used by another job. */
static bool names_its_job(struct check *c, const struct job_run *r, const char *id)
{
    const struct kube_object *o = job_run_object(r);

    if (o->type == KUBE_RUNTIME)
        return false;
    return ANY(for (; o != NULL; o = kube_is_template(o) ? NULL : o->wrapper),
               *o->name != '\0' && strstr(id, job_name(c, o)) != NULL);
}

/* The store has the labels with which emit and rewrite give one to a job. */
static bool is_labelled_for(const struct job_store *store, const struct kube_object *o)
{
    const struct yaml_node *labels = yaml_path(job_store_object(store)->node, "metadata.labels");

    return kube_same_namespace(job_store_object(store), o) &&
           kube_is(labels, "app\\.kubernetes\\.io/name", "rdzvd") &&
           kube_is(labels, "app\\.kubernetes\\.io/instance", o->name);
}

/* Jobs that meet at one store with one id become one run, or the later one finds the run closed. */
void check_id_fixed(struct check *c, const struct job_run *r)
{
    const struct job_store *store = job_store_behind(r->store);
    const struct job_value *id = &r->settings[TORCHRUN_RDZV_ID].value;

    /* What a controller has made is the output of a cluster: nobody applies it again, so its id
     * begins no second job. */
    if (kube_controller(job_run_object(r)) != NULL)
        return;
    if (meets_at_shared_store(c, r) && has_id(r) && id->known && !names_its_job(c, r, id->text) &&
        (store == NULL || !is_labelled_for(store, job_run_object(r))))
        check_report(
            c, check_at_setting(r, TORCHRUN_RDZV_ID),
            kube_is_template(job_run_object(r))
                ? "the rendezvous id `%s` is that of every job of this template (all trials), at %s"
                : "the rendezvous id `%s` is a constant, and the store at %s is not this job's own",
            id->text, endpoint_name(r));
}

/* Whether the same object, absent from the bundle, owns both. */
static bool have_one_owner(const struct kube_object *a, const struct kube_object *b)
{
    const struct yaml_node *of_a = kube_controller(a), *of_b = kube_controller(b);

    return of_a != NULL && of_b != NULL && kube_same_namespace(a, b) &&
           !ANY(FOREACH_WORD(key, "kind", "name", "uid"),
                strcmp(kube_text(of_a, key), kube_text(of_b, key)) != 0);
}

static bool is_one_job(struct check *c, const struct kube_object *a, const struct kube_object *b)
{
    return kube_top(a) == kube_top(b) || have_one_owner(a, b) ||
           (a->type == KUBE_POD && b->type == KUBE_POD &&
            strcmp(job_name(c, a), job_name(c, b)) == 0) ||
           (a->type == b->type && a->node->file != b->node->file && kube_same_namespace(a, b) &&
            strcmp(a->name, b->name) == 0 && check_is_of_folder(c, b));
}

/* The same text for all runs that may meet in one place under one id. */
static const char *meeting_place(struct check *c, const struct job_run *r)
{
    struct job_setting space = {0};
    struct job_upstream u = {0};

    if (is_at_relay(r)) {
        job_relay_space(&c->jobs, r->store, &space);
        job_relay_upstream(&c->jobs, r->store, 0, &u);
        return arena_text(&c->bundle.arena, "%s %s %s", job_text(r, TORCHRUN_RDZV_ID),
                          u.setting.value.text == NULL ? "" : u.setting.value.text,
                          space.value.text);
    }
    return arena_text(&c->bundle.arena, "%s %s %ld", job_text(r, TORCHRUN_RDZV_ID), r->host,
                      r->port);
}

/* Whether two runs with one meeting place meet there: in the pods of each job a name may lead to
 * something else. */
static bool share_an_id(struct check *c, const struct job_run *a, const struct job_run *b)
{
    bool known =
        a->settings[TORCHRUN_RDZV_ID].value.known && b->settings[TORCHRUN_RDZV_ID].value.known;
    bool same = is_at_relay(a) ||
                (!a->local && !b->local && *a->host != '\0' &&
                 a->target.service == b->target.service && a->target.pods == b->target.pods);

    bool examples = !a->found && job_run_object(a)->node->file != job_run_object(b)->node->file &&
                    check_is_of_folder(c, job_run_object(a));

    return known && same && !examples && !is_one_job(c, job_run_object(a), job_run_object(b));
}

/* An earlier run that may share the store and the id of `r`. The index maps a meeting place to
 * runs: the first run of each of the first PLACE_USERS_MAX jobs there. */
static const struct job_run *earlier_user(struct check *c, const struct job_run *r)
{
    const char *place = meeting_place(c, r);
    struct kube_hits hits = kube_index_find(&c->index, "", place);
    bool is_new = true;

    for (size_t j = 0; j < hits.count; j++) {
        const struct job_run *other = c->jobs.runs[hits.list[j]];

        if (share_an_id(c, r, other))
            return other;
        is_new = is_new && !is_one_job(c, job_run_object(r), job_run_object(other));
    }
    if (is_new && hits.count < PLACE_USERS_MAX)
        kube_index_add(&c->bundle.arena, &c->index, "", place, c->run_number);
    return NULL;
}

void check_id_shared(struct check *c, const struct job_run *r)
{
    const struct job_value *id = &r->settings[TORCHRUN_RDZV_ID].value;
    const struct job_run *other = job_is_dynamic(r) && has_id(r) ? earlier_user(c, r) : NULL;

    long groups = job_groups(r);

    if (groups > 1 && job_is_dynamic(r) && id->known && !r->hosted && job_is_multi_node(r) &&
        has_id(r) && !job_is_elastic(r))
        check_report(c, check_at_setting(r, TORCHRUN_RDZV_ID),
                     "the rendezvous id `%s` is that of %ld groups of %s, at the same endpoint",
                     id->text, groups, job_run_object(r)->title);
    else if (groups > 1 && strcmp(r->backend, "static") == 0 && r->hosted && r->target.pods != NULL)
        check_report(c, check_at_setting(r, TORCHRUN_MASTER_ADDR),
                     "%ld groups of %s have the same ranks at one master, %s: each needs the first "
                     "pod of its own group",
                     groups, job_run_object(r)->title, r->host);
    else if (other != NULL)
        check_report(c, check_at_setting(r, TORCHRUN_RDZV_ID),
                     "the rendezvous id `%s` is also used by %s, at the same endpoint",
                     job_text(r, TORCHRUN_RDZV_ID), job_run_object(other)->title);
}

/* --- The backend. --- */

void check_find_idle_store(struct check *c, const struct job_store *s)
{
    if (c->idle_store == NULL && s->kind != JOB_STORE_RELAY &&
        !ANY(JOB_FOREACH(r, s->runs), job_is_dynamic(r)))
        c->idle_store = s;
}

/* The store has the labels of the job, or there is no other job. */
static bool is_meant_for(struct check *c, const struct job_store *s, const struct job_run *r)
{
    const struct kube_object *o = job_run_object(r);

    return kube_same_namespace(job_store_object(s), o) &&
           (is_labelled_for(s, o) || job_runs_of(&c->jobs, kube_top(o)).count == c->jobs.count ||
            job_runs_of(&c->jobs, o).count == c->jobs.count);
}

void check_backend_missing(struct check *c, const struct job_run *r)
{
    const struct job_store *store = r->store;

    if (r->args == NULL || job_is_set(r, TORCHRUN_RDZV_BACKEND) || r->standalone ||
        check_is_opaque(r) || !job_is_multi_node(r))
        return;
    if (store == NULL && c->idle_store != NULL && is_meant_for(c, c->idle_store, r))
        store = c->idle_store;
    if (store != NULL)
        check_report(c, check_at_run(r), "torchrun has no backend, so it does not use %s in %s",
                     store->container->name, job_store_object(store)->title);
    else if (job_is_elastic(r))
        check_report(c, check_at_setting(r, TORCHRUN_NNODES),
                     "%ld to %ld nodes, but without a backend torchrun cannot use a range",
                     r->nodes_min, r->nodes_max);
}

void check_backend_unknown(struct check *c, const struct job_run *r)
{
    static const char *const known[] = {"static", "c10d", "etcd", "etcd-v2", NULL};
    const char *near = nearest_name(r->backend, known);
    struct check_position at = check_at_setting(r, TORCHRUN_RDZV_BACKEND);

    if (text_is_one_of(r->backend, known) || *r->backend == '\0')
        return;
    if (text_is(r->backend, "nccl", "gloo", "mpi", "ccl", "ucc"))
        check_report(c, at, "%s is a backend of process groups, not of rendezvous", r->backend);
    else if (near != NULL)
        check_report(c, at, "there is no backend `%s`; did you mean %s?", r->backend, near);
}

/* --- Who is the store. --- */

/* The job meets at a store outside its pods: without is_host=0, an agent may open one of its own.
 */
void check_is_host(struct check *c, const struct job_run *r)
{
    const struct job_setting *conf = &r->settings[TORCHRUN_RDZV_CONF];
    enum torchrun_option at =
        conf->written.node != NULL ? TORCHRUN_RDZV_CONF : TORCHRUN_RDZV_ENDPOINT;
    const char *text = conf->value.text;
    struct rdzv_conf_entry e;

    if (strcmp(r->backend, "c10d") != 0 || !job_is_dynamic(r) || !job_is_multi_node(r) ||
        r->hosted || (r->local && r->store == NULL) || job_endpoint_is_computed(r) ||
        check_is_twice(r, TORCHRUN_RDZV_CONF))
        return;
    if (!rdzv_conf_find(text, "is_host", &e)) {
        if ((conf->value.known || conf->from == JOB_FROM_NOWHERE) && !check_is_opaque(r))
            check_report(
                c, check_at_setting(r, at),
                "is_host is not set: torch guesses from names and addresses whether this pod is %s",
                endpoint_name(r));
    } else if (strcspn(text + e.value_start, "$`") < e.end - e.value_start) {
        check_report(c, check_at_setting(r, at),
                     "is_host is computed, though the store at %s is no pod of this job", r->host);
    } else if (!rdzv_conf_is_false(text, &e)) {
        check_report(
            c, check_at_setting(r, at),
            "is_host=%.*s makes every agent open a store of its own, though there is one at %s",
            (int)(e.end - e.value_start), text + e.value_start, endpoint_name(r));
    }
}

void check_host_no_pod(struct check *c, const struct job_run *r)
{
    const struct kube_object *o =
        r->target.pods != NULL ? r->target.pods->object : job_run_object(r);

    if (job_is_dynamic(r) && r->misnamed != NULL && job_is_multi_node(r))
        check_report(c, check_at_setting(r, TORCHRUN_RDZV_ENDPOINT), "%s is no pod of %s: %s",
                     r->host, o->title, r->misnamed);
}

void check_hosted_by_worker(struct check *c, const struct job_run *r)
{
    enum torchrun_option at = r->settings[TORCHRUN_RDZV_ENDPOINT].written.node != NULL
                                  ? TORCHRUN_RDZV_ENDPOINT
                                  : TORCHRUN_RDZV_BACKEND;

    bool named = *r->host != '\0' && r->host[strcspn(r->host, "$`{")] == '\0' && !r->local;

    if (job_is_dynamic(r) && job_is_multi_node(r) && r->hosted && r->misnamed == NULL && !r->of_all)
        check_report(c, check_at_setting(r, at), "the store is in a training pod%s%s",
                     named ? ", " : "", named ? r->host : "");
}

/* --- The conf. --- */

/* The position of an entry. If no variable was replaced, it is as far into the text as into the
 * value. */
static struct check_position at_entry(struct check *c, const struct job_run *r, const char *name,
                                      const struct rdzv_conf_entry *e)
{
    const struct job_setting *s = &r->settings[TORCHRUN_RDZV_CONF];
    const struct yaml_node *node = s->written.node;
    struct check_position at = check_at_setting(r, TORCHRUN_RDZV_CONF);

    YAML_FOREACH(entry, node) {
        if (kube_is(entry, "key", name))
            return check_at(kube_get(entry, "key"));
    }
    if (yaml_text(node) != NULL && strcmp(check_written(c, s), s->value.text) == 0)
        at.at += e->start;
    return at;
}

/* The key of the next entry of a conf that is read; NULL: there is none, or the rest depends on a
 * shell. */
static const char *next_key(struct check *c, const struct job_run *r, size_t *at,
                            struct rdzv_conf_entry *e)
{
    const char *conf = job_text(r, TORCHRUN_RDZV_CONF), *key;

    if (!job_is_dynamic(r) || !rdzv_conf_next(conf, at, e))
        return NULL;
    key = arena_copy(&c->bundle.arena, conf + e->start, e->key_end - e->start);
    return strpbrk(key, "$`\";") != NULL ? NULL : key;
}

void check_conf_unknown(struct check *c, const struct job_run *r)
{
    int reader = rdzv_conf_backend(r->backend);
    struct rdzv_conf_entry e;
    const char *key;
    size_t at = 0;

    while ((key = next_key(c, r, &at, &e)) != NULL) {
        int readers = rdzv_conf_readers(key);
        const char *near = rdzv_conf_near(key, reader);

        if (readers != 0 && (reader == 0 || (readers & reader) != 0))
            continue;
        check_report(c, at_entry(c, r, key, &e), "%s%s has no conf key `%s`%s%s%s",
                     readers == 0 ? "torch" : "the backend ", readers == 0 ? "" : r->backend, key,
                     near == NULL ? "" : "; did you mean ", near == NULL ? "" : near,
                     near == NULL ? "" : "?");
    }
}

void check_conf_syntax(struct check *c, const struct job_run *r)
{
    struct rdzv_conf_entry e;
    const char *key;
    size_t at = 0;

    while ((key = next_key(c, r, &at, &e)) != NULL) {
        if (e.value_start == e.end)
            check_report(c, at_entry(c, r, key, &e), "`%s` has no value", key);
    }
}

/* Numbers that torchrun reads: `--nproc_per_node` also takes the names of devices. */
static bool is_number_for(enum torchrun_option option, const char *text)
{
    size_t digits = strspn(text, "0123456789");

    if (option == TORCHRUN_NNODES && text[digits] == ':')
        digits += 1 + strspn(text + digits + 1, "0123456789");
    return (digits > 0 && text[digits] == '\0') ||
           (option == TORCHRUN_NPROC_PER_NODE &&
            text_is(text, "auto", "cpu", "gpu", "xpu", "npu", "hpu"));
}

/* Controllers that add arguments to the command. */
static bool takes_arguments(enum kube_type type)
{
    return type == KUBE_ELASTIC_JOB || type == KUBE_RUNTIME || type == KUBE_OTHER;
}

/* The words do not reach torchrun as its options. */
static void look_at_words(struct check *c, const struct job_run *r)
{
    const struct yaml_node *first = yaml_at(kube_field(r->container, "command"), 0);
    const struct arg_word *program = r->args->program;
    struct job_words words = job_words(&c->bundle.arena, r->container);

    if (first != NULL && r->args->command.node == first &&
        text_begins(yaml_text(first), "torchrun ", "python "))
        check_report(c, check_at(first),
                     "the container looks for one program with the name `%s`: make a list of words",
                     yaml_text(first));
    else if (words.script != NULL && words.script + 1 < words.list + words.count &&
             r->args->command.node == words.script->node &&
             strpbrk(words.script->text, " $\n") == NULL)
        check_report(c, check_at_run(r), "`-c` runs only `%s`, without the words behind it",
                     words.script->text);
    else if (program != NULL &&
             text_begins(program->text, "\u2010", "\u2011", "\u2013", "\u2014", "\u2212"))
        check_report(c, check_at_text(program),
                     "`%s` does not begin with an ASCII dash, so torchrun takes it for the script",
                     program->text);
}

static void look_at_command(struct check *c, const struct job_run *r)
{
    static const enum torchrun_option numbers[] = {TORCHRUN_NNODES, TORCHRUN_NPROC_PER_NODE,
                                                   TORCHRUN_MAX_RESTARTS, TORCHRUN_NODE_RANK};

    if (r->args == NULL || r->args->is_other || r->unread != NULL)
        return;
    look_at_words(c, r);
    if (r->args->program == NULL && !takes_arguments(job_run_object(r)->type) &&
        !ANY(JOB_FOREACH_FLAG(f, r), text_begins(f->flag.text, "--h", "-h")))
        check_report(c, check_at_run(r), "torchrun has no training script");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct job_setting *s = &r->settings[numbers[i]];

        if (s->from != JOB_FROM_NOWHERE && s->from != JOB_FROM_OPERATOR && s->value.known &&
            strpbrk(s->value.text, "${`") == NULL && !is_number_for(numbers[i], s->value.text))
            check_report(c, check_at_setting(r, numbers[i]), "--%s is `%s`, which is no number",
                         torchrun_options[numbers[i]], s->value.text);
    }
}

void check_flag_unknown(struct check *c, const struct job_run *r)
{
    look_at_command(c, r);
    JOB_FOREACH_FLAG(f, r) {
        int len = (int)strcspn(f->flag.text, "=");
        bool rdzv = strncmp(f->flag.text, "--rdzv", 6) == 0;

        if (f->option == TORCHRUN_UNKNOWN && (rdzv || f->nearest != NULL || f->flag.text[1] != '-'))
            check_report(c, check_at_text(&f->flag), "torchrun has no option %.*s%s%s%s", len,
                         f->flag.text, f->nearest == NULL ? "" : "; did you mean --",
                         f->nearest == NULL ? "" : f->nearest, f->nearest == NULL ? "" : "?");
    }
}

void check_script_crlf(struct check *c, const struct job_run *r)
{
    const struct arg_word *word = r->args == NULL ? NULL : &r->args->command;
    const char *at = word == NULL || !word->shell ? NULL : strstr(word->node->text, "\r\n");

    if (at != NULL)
        check_report(c, (struct check_position){word->node, (size_t)(at - word->node->text)},
                     "lines of this script end with CRLF, as on Windows");
}

/* --- Nodes of one run that have different ids. --- */

void check_id_of_pod(struct check *c, const struct job_run *r)
{
    const struct job_value *id = &r->settings[TORCHRUN_RDZV_ID].value;
    const struct job_run *other = job_parted_from(&c->jobs, r);

    if (job_is_dynamic(r) && job_is_multi_node(r) && is_of_pod(id) &&
        job_run_object(r)->type != KUBE_POD)
        check_report(c, check_at_setting(r, TORCHRUN_RDZV_ID),
                     *id->text == '\0' ? "an empty id: torchrun makes a random one in each pod"
                                       : "each pod has an id of its own: `%s`",
                     id->text);
    else if (other != NULL)
        check_report(c, check_at_setting(r, TORCHRUN_RDZV_ID),
                     "these pods meet at %s as `%s`, and others of the job at %s as `%s`",
                     job_text(r, TORCHRUN_RDZV_ENDPOINT), job_id(r),
                     job_text(other, TORCHRUN_RDZV_ENDPOINT), job_id(other));
}

/* --- Nodes. --- */

/* The run has to find other nodes: by a rendezvous, or at a master elsewhere. */
static bool looks_for_others(const struct job_run *r)
{
    const char *master = job_text(r, TORCHRUN_MASTER_ADDR);

    if (r->standalone || check_is_opaque(r))
        return false;
    return job_is_dynamic(r) || (r->settings[TORCHRUN_MASTER_ADDR].from == JOB_FROM_FLAG &&
                                 !text_is(master, "localhost", "127.0.0.1"));
}

void check_nodes_missing(struct check *c, const struct job_run *r)
{
    long pods = job_training_pods(&c->jobs, job_run_object(r));

    if (r->args != NULL && !job_is_set(r, TORCHRUN_NNODES) && looks_for_others(r) && pods > 1)
        check_report(c, check_at_run(r),
                     "no --nnodes: each of the %ld pods assumes that it is the only node", pods);
}

/* Whether Volcano schedules all pods of the run together (a gang). */
static bool is_in_gang(const struct job_run *r)
{
    const struct kube_object *o = job_run_object(r);
    long least = kube_int(o->spec, "minAvailable", -1);

    return o->type == KUBE_VOLCANO_JOB && r->container->pods->replicas > 1 &&
           (least == 0 || least > 1 || kube_get(o->spec, "minAvailable") == NULL);
}

void check_gang_alone(struct check *c, const struct job_run *r)
{
    if (r->args != NULL && is_in_gang(r) && !looks_for_others(r) && !r->standalone &&
        !check_is_opaque(r) && !job_is_set(r, TORCHRUN_NNODES) &&
        !job_is_set(r, TORCHRUN_MASTER_ADDR))
        check_report(c, check_at_run(r),
                     "no --nnodes and no backend: each of the %ld pods of the gang trains alone",
                     r->container->pods->replicas);
}

/* A probe passes only when the run trains: it asks for a port, or for a file of the container, that
 * nothing makes before. */
static bool is_ready_late(struct check *c, const struct job_run *r, const struct yaml_node *probe)
{
    const struct arg_word *script = job_words(&c->bundle.arena, r->container).script;
    const char *get = kube_get(probe, "httpGet") != NULL ? "httpGet.port" : "tcpSocket.port";
    const char *asks = kube_print(&c->bundle.arena, kube_get(probe, "exec.command"));
    long port = kube_port_number(kube_get(probe, get), r->container->pods, NULL);

    if (r->args == NULL || r->map != NULL || r->unread != NULL ||
        (script != NULL && text_has(script->text, "&", ">", "touch ", "sshd", "service ")))
        return false;
    return (port > 0 && port != r->port &&
            !ANY(KUBE_FOREACH_CONTAINER(other, r->container->pods),
                 other != r->container && check_lists_port(other, port))) ||
           (text_has(asks, "/tmp/") && text_has(asks, "test", "cat") &&
            !text_has(asks, "!", ">", "||"));
}

/* Pods that Kubernetes starts one after the other, when each waits for the next. */
static void look_at_order(struct check *c, const struct job_run *r)
{
    const struct kube_object *o = job_run_object(r);

    FOREACH_WORD(name, "startupProbe", "readinessProbe") {
        if (o->type == KUBE_STATEFULSET && r->container->pods->replicas > 1 && r->nodes_min > 1 &&
            !kube_is(o->spec, "podManagementPolicy", "Parallel") &&
            is_ready_late(c, r, kube_get(r->container->node, name)))
            check_report(c, check_at_key(r->container->node, name),
                         "the second pod starts only when the first is Ready, and the first waits "
                         "for %ld nodes before it trains",
                         r->nodes_min);
    }
}

/* A part of a JobSet starts only after another one has completed. */
static bool starts_after(const struct kube_pods *p, const struct kube_pods *other)
{
    return kube_is(kube_item(kube_get(p->part, "dependsOn"), "name", other->role), "status",
                   "Complete");
}

void check_nodes_too_many(struct check *c, const struct job_run *r)
{
    const struct kube_object *o = job_run_object(r);
    long all = job_training_pods(&c->jobs, o), pods = all;

    look_at_order(c, r);
    KUBE_FOREACH_PODS_OF(p, &c->bundle, o) {
        if (o->type == KUBE_JOBSET && all > 0 && job_runs_in(&c->jobs, p).count > 0 &&
            (starts_after(p, r->container->pods) || starts_after(r->container->pods, p)))
            pods -= p->replicas;
    }
    if (o->type != KUBE_POD && o->type != KUBE_RUNTIME && pods > 0 && r->nodes_min > pods &&
        r->settings[TORCHRUN_NNODES].written.node != NULL)
        check_report(c, check_at_setting(r, TORCHRUN_NNODES),
                     "torchrun waits for at least %ld nodes, but there %s %ld pod%s%s",
                     r->nodes_min, pods == 1 ? "is" : "are", pods, pods == 1 ? "" : "s",
                     pods == all ? "" : " at a time, by dependsOn");
}

/* All runs of the object meet at one place: two rendezvous share its pods in no known way. */
static bool meets_alone(struct check *c, const struct kube_object *o)
{
    static const enum torchrun_option same[] = {TORCHRUN_NNODES, TORCHRUN_RDZV_ENDPOINT,
                                                TORCHRUN_RDZV_ID};
    struct job_view_runs runs = job_runs_of(&c->jobs, o);

    JOB_FOREACH(r, runs) {
        for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
            if (strcmp(job_text(r, same[k]), job_text(runs.list[0], same[k])) != 0)
                return false;
        }
    }
    return true;
}

void check_nodes_too_few(struct check *c, const struct kube_object *o)
{
    long pods = job_training_pods(&c->jobs, o);

    if (kube_is_template(o) || o->type == KUBE_RUNTIME)
        return;
    JOB_FOREACH(r, job_runs_of(&c->jobs, o)) {
        if (!job_is_dynamic(r) || r->nodes_max < 2 || r->nodes_min > r->nodes_max ||
            pods <= r->nodes_max || r->settings[TORCHRUN_NNODES].written.node == NULL ||
            !meets_alone(c, o))
            continue;
        check_report(c, check_at_setting(r, TORCHRUN_NNODES),
                     "%ld pods start torchrun, but at most %ld nodes can take part", pods,
                     r->nodes_max);
        return;
    }
}

void check_nodes_world_size(struct check *c, const struct job_run *r)
{
    const struct job_setting *s = &r->settings[TORCHRUN_NNODES];
    long per_node = kube_int(job_run_object(r)->spec, "nprocPerNode", 1);
    const char *name = strstr(check_written(c, s), "WORLD_SIZE");

    if (job_run_object(r)->type == KUBE_PYTORCHJOB && per_node > 1 && s->written.node != NULL &&
        name != NULL && strchr(name, '/') == NULL) /* a quotient is the number of nodes */
        check_report(c, check_at_setting(r, TORCHRUN_NNODES),
                     "WORLD_SIZE counts processes (%ld in each pod), not nodes", per_node);
}

void check_nproc_above_gpus(struct check *c, const struct job_run *r)
{
    const struct job_setting *s = &r->settings[TORCHRUN_NPROC_PER_NODE];
    const struct yaml_node *limits = kube_get(kube_field(r->container, "resources"), "limits");
    long workers = s->from == JOB_FROM_FLAG && s->value.known ? strtol(s->value.text, NULL, 10) : 0;
    long gpus = kube_int(limits, "nvidia\\.com/gpu", kube_int(limits, "amd\\.com/gpu", 0));

    if (gpus > 0 && workers > gpus)
        check_report(c, check_at_setting(r, TORCHRUN_NPROC_PER_NODE),
                     "torchrun starts %ld workers, and the limit of GPUs is %ld", workers, gpus);
}

void check_local_addr_missing(struct check *c, const struct job_run *r)
{
    const struct kube_pods *p = r->container->pods;
    bool named = p->host_prefix != NULL || job_run_object(r)->type == KUBE_RUNTIME;

    if (job_is_dynamic(r) && job_is_multi_node(r) && !job_is_set(r, TORCHRUN_LOCAL_ADDR) &&
        !check_is_opaque(r) && (p->host_network || !named))
        check_report(
            c, check_at_run(r),
            p->host_network
                ? "no local address is set, and on the host network the host name is that of the "
                  "node"
                : "no local address is set, and no Service makes this pod's host name resolve");
}

/* --- Without torchrun. --- */

void check_agent_store_restart(struct check *c, const struct kube_pods *p)
{
    const struct yaml_node *restart = kube_get(p->part, "restartPolicy");
    const struct kube_container *user =
        FIND(container, KUBE_FOREACH_CONTAINER(container, p),
             !container->init && check_uses_agent_store(c, container));

    if (restart == NULL)
        restart = kube_get(p->spec, "restartPolicy");
    if (user != NULL && strcmp(p->restart, "Never") != 0)
        check_report(c, restart != NULL ? check_at(restart) : check_at_first(user->node, "name"),
                     "restartPolicy %s: a second attempt finds the keys of the first one",
                     p->restart);
    else if (user != NULL && kube_field(user, "restartPolicyRules") != NULL)
        check_report(c, check_at_key(user->node, "restartPolicyRules"),
                     "a second attempt finds the keys of the first one");
}
