/* Finds what starts torch in the commands and scripts of containers, and then which of the pods,
 * Services and stores of the bundle the endpoint of each run leads to, and who meets where. */
#include "deploy/kube/job_view.h"

#include "deploy/kube/job_parts.h"

#include <string.h>

/* Limit of scripts within scripts; manifests do not nest them deeper. */
#define SCRIPT_DEPTH_MAX 4

/* --- A script, while it is read. --- */

struct arg_list {
    struct arg_word *words;
    size_t count, cap;
};

static void push_word(struct arena *a, struct arg_list *list, struct arg_word word)
{
    list->words = arena_room(a, list->words, list->count, &list->cap, sizeof *list->words);
    list->words[list->count++] = word;
}

/* The length of NAME in NAME=..., or 0. */
static size_t assigned_name(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

    return text[len] == '=' && (text[0] < '0' || text[0] > '9') ? len : 0;
}

static bool is_declaration(const char *text)
{
    static const char *const names[] = {"export", "declare", "readonly", "local", "typeset", NULL};

    return text_is_one_of(text, names);
}

static bool is_assigned(const struct job_scope *scope, const char *name)
{
    return kube_index_find(&scope->names, "", name, strlen(name)).count > 0;
}

/* --- Branches. --- */

/* Where the commands of a script stand in `if`, `else` and the like. */
struct branches {
    int depth;     /* how many `if` they are in */
    size_t first;  /* the first assignment behind the outermost of these */
    size_t branch; /* the first one of this branch */
    bool tested;   /* the command is behind a test, and does not run in all pods */
};

static bool is_keyword(const struct arg_word *word, const char *text)
{
    return strcmp(word->text, text) == 0;
}

/* Reads the words in front of a command, such as `then`; returns their number. */
static size_t read_keywords(struct branches *b, const struct job_scope *scope,
                            const struct arg_word *words, size_t count)
{
    static const char *const others[] = {"then", "do", "{", "!", "while", "until", NULL};
    size_t i = 0;

    for (bool keyword = true; keyword && i < count; i += keyword) {
        bool branch = is_keyword(&words[i], "else") || is_keyword(&words[i], "elif");

        keyword = branch || is_keyword(&words[i], "if") || is_keyword(&words[i], "fi");
        if (is_keyword(&words[i], "if") && b->depth++ == 0)
            b->first = b->branch = scope->count;
        if (branch)
            b->branch = scope->count;
        if (is_keyword(&words[i], "fi") && b->depth > 0)
            b->depth--;
        keyword = keyword || text_is_one_of(words[i].text, others);
    }
    return i;
}

/* Whether only one pod takes the value, as in `[ "$RANK" = 0 ] && HEAD=localhost`. This pod hosts
 * the store; the other pods reach it by another value of the variable. A PET_ variable is the
 * setting itself, and not only a part of it. */
static bool is_of_one_pod(const char *name, const char *value)
{
    static const char *const own[] = {"localhost", "127.",      "0.0.0.0",    "$(hostname",
                                      "`hostname", "$HOSTNAME", "${HOSTNAME}"};

    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (strncmp(value, own[i], strlen(own[i])) == 0)
            return strncmp(name, "PET_", 4) != 0;
    }
    return false;
}

/* A branch of the script gives the variable another value, and the files do not say which one runs.
 */
static bool differs_elsewhere(const struct job_scope *scope, const struct branches *b,
                              const char *name, const char *value)
{
    struct kube_hits hits = kube_index_find(&scope->names, "", name, strlen(name));

    for (size_t i = 0; i < hits.count && b->depth > 0; i++) {
        const char *other = scope->assigned[hits.list[i]].value.text;

        if (hits.list[i] >= b->first && hits.list[i] < b->branch && strcmp(other, value) != 0 &&
            !is_of_one_pod(name, other))
            return true;
    }
    return false;
}

static void assign(struct job_scope *scope, const struct branches *b, const char *name,
                   struct arg_word value)
{
    bool before =
        is_assigned(scope, name) || job_variable(scope->view, scope->container, name) != NULL;

    if ((b->tested || b->depth > 0) && before && is_of_one_pod(name, value.text))
        return;
    if (differs_elsewhere(scope, b, name, value.text)) {
        /* What refers to itself is unknown. */
        value.text = arena_text(&scope->view->bundle->arena, "$%s", name);
        value.len = strlen(value.text);
        value.shell = value.expands = true;
    }
    job_scope_assign(scope, name, value);
}

/* Puts the assignments of a command into the scope; returns the first word that is none. */
static size_t read_assignments(struct job_scope *scope, const struct branches *b,
                               const struct arg_word *words, size_t count)
{
    struct arena *a = &scope->view->bundle->arena;
    size_t i = 0;

    if (count > 0 && is_declaration(words[0].text))
        i++;
    for (; i < count; i++) {
        size_t len = assigned_name(words[i].text);

        if (len == 0 && words[i].text[0] != '-')
            break;
        if (len > 0)
            assign(scope, b, arena_copy(a, words[i].text, len), arg_word_from(&words[i], len + 1));
    }
    return i;
}

static bool may_hold_torchrun(const char *text)
{
    return strstr(text, "torch") != NULL || strstr(text, "--rdzv") != NULL ||
           strstr(text, "accelerate") != NULL || strstr(text, "hyperpodrun") != NULL;
}

/* Replaces `$FLAGS` by its words, if FLAGS is known and holds options or a command. */
static void push_expanded(struct job_scope *scope, struct arg_list *list, struct arg_word word)
{
    struct arena *a = &scope->view->bundle->arena;
    struct arg_word text;
    struct shell_script inner;

    if (!job_scope_find(scope, &word, &text) ||
        (text.text[0] != '-' &&
         (strchr(text.text, ' ') == NULL || !may_hold_torchrun(text.text)))) {
        push_word(a, list, word);
        return;
    }
    shell_read(a, &text, &inner);
    for (size_t i = 0; i < inner.count; i++) {
        for (size_t j = 0; j < inner.commands[i].count; j++)
            push_word(a, list, inner.commands[i].words[j]);
    }
}

/* --- Runs. --- */

static struct job_run *new_run(struct job_view *v, const struct kube_container *c)
{
    struct job_run *r = arena_alloc(&v->bundle->arena, sizeof *r);

    *r = (struct job_run){.container = c};
    v->runs = arena_room(&v->bundle->arena, v->runs, v->all_count, &v->cap, sizeof *v->runs);
    v->runs[v->all_count++] = r;
    return r;
}

/* first: the index after the word torchrun, or of the first of its options */
static void add_run(struct job_scope *scope, const struct arg_word *words, size_t count,
                    size_t first, bool torchrun)
{
    struct job_view *v = scope->view;
    struct job_run *r = new_run(v, scope->container);
    struct torchrun_args *args = arena_alloc(&v->bundle->arena, sizeof *args);
    bool accelerate = !torchrun && torchrun_is_accelerate(words, count);

    torchrun_parse(&v->bundle->arena, words, count, first, args);
    args->opaque = args->opaque || !torchrun;
    args->is_other = !torchrun;
    args->is_accelerate = accelerate;
    for (size_t i = 0; i < args->count && !torchrun; i++) {
        struct torchrun_flag *f = &args->flags[i];

        f->option = accelerate ? f->of_accelerate : f->option;
        if (f->option == TORCHRUN_UNKNOWN)
            f->option = TORCHRUN_OTHER; /* an option of the launcher */
    }
    r->args = args;
    job_read_settings(scope, r);
}

/* Whether the words start torchrun, or a program that passes options on to it. */
static bool find_command(struct job_scope *scope, const struct arg_word *words, size_t count)
{
    size_t first = torchrun_find(words, count);

    if (first > 0) {
        add_run(scope, words, count, first, true);
        return true;
    }
    for (size_t i = 0; first == 0 && i < count && torchrun_is_accelerate(words, count); i++) {
        if (strcmp(words[i].text, "launch") == 0 ||
            strcmp(words[i].text, "accelerate.commands.launch") == 0)
            first = i + 1; /* options of its own may come before those of torchrun */
    }
    if (first == 0)
        first = torchrun_find_option(words, count);
    if (first < count)
        add_run(scope, words, count, first, false);
    return first < count;
}

static bool is_talk(const struct arg_word *words, size_t count)
{
    static const char *const talkers[] = {"echo", "printf", "which",   "type", "pip",
                                          "pip3", "apt",    "apt-get", "grep", "cat",
                                          "ls",   "[",      NULL};

    if (count > 1 && (strcmp(words[0].text, "conda") == 0 || strcmp(words[0].text, "uv") == 0))
        return strcmp(words[1].text, "run") != 0; /* it installs something */
    return count > 0 && text_is_one_of(words[0].text, talkers);
}

static bool may_be_script(const struct arg_word *word)
{
    return strpbrk(word->text, " \n") != NULL && may_hold_torchrun(word->text);
}

static bool is_test(const struct shell_command *c)
{
    static const char *const tests[] = {"[", "[[", "test", NULL};

    return text_is_one_of(c->words[0].text, tests);
}

/* `depth` counts `bash -c` within a script. */
static bool find_in_script(struct job_scope *scope, const struct arg_word *whole, int depth)
{
    struct shell_script script;
    struct branches b = {0};
    bool found = false;

    shell_read(&scope->view->bundle->arena, whole, &script);
    for (size_t i = 0; i < script.count; i++) {
        struct arg_list list = {0};
        const struct shell_command *c = &script.commands[i];
        bool command;
        size_t skip;

        for (size_t j = 0; j < c->count; j++)
            push_expanded(scope, &list, c->words[j]);
        skip = read_keywords(&b, scope, list.words, list.count);
        b.tested = c->maybe && i > 0 && is_test(c - 1);
        skip += read_assignments(scope, &b, list.words + skip, list.count - skip);
        if (is_talk(list.words + skip, list.count - skip))
            continue;
        command = find_command(scope, list.words + skip, list.count - skip);
        for (size_t j = skip; j < list.count && !command && depth < SCRIPT_DEPTH_MAX; j++)
            command =
                may_be_script(&list.words[j]) && find_in_script(scope, &list.words[j], depth + 1);
        found = found || command;
    }
    return found;
}

/* Finds a run in a container without a visible torchrun: its PET_ variables configure a torchrun
 * that the container's program may start. */
static void find_in_variables(struct job_scope *scope)
{
    static const char *const names[] = {"PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT"};
    struct job_view *v = scope->view;
    const struct kube_object *o = scope->container->pods->object;
    bool wanted = o->type == KUBE_PYTORCHJOB && kube_get(o->spec, "elasticPolicy") != NULL &&
                  strcmp(scope->container->name, "pytorch") == 0;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        wanted = wanted || is_assigned(scope, names[i]) ||
                 job_variable(v, scope->container, names[i]) != NULL;
    if (!wanted && o->type != KUBE_ELASTIC_JOB)
        return;
    job_read_settings(scope, new_run(v, scope->container));
}

static void find_runs(struct job_view *v, const struct kube_container *c)
{
    struct job_scope scope = {.view = v, .container = c};
    size_t count, script;
    const struct arg_word *words = job_words(&v->bundle->arena, c, &count, &script);
    size_t before = v->all_count;

    if (script < count)
        find_in_script(&scope, &words[script], 0);
    else if (!find_command(&scope, words, count))
        /* An unknown program may run texts that it gets as arguments. */
        for (size_t i = 0; i < count; i++) {
            if (may_be_script(&words[i]))
                find_in_script(&scope, &words[i], 0);
        }
    if (v->all_count == before)
        find_in_variables(&scope);
}

/* Scripts in a ConfigMap, which pods mount and run. Each is read as the script of a container that
 * has nothing else. */
static void find_scripts(struct job_view *v, const struct kube_object *map)
{
    struct arena *a = &v->bundle->arena;
    const struct yaml_node *data = kube_get(map->node, "data");

    for (size_t i = 0; data != NULL && data->kind == YAML_MAPPING && i < data->count; i++) {
        const struct yaml_node *text = data->pairs[i].value;
        struct arg_word whole;
        struct kube_container *c;
        struct kube_pods *p;
        struct job_scope scope = {.view = v};

        if (text->kind != YAML_SCALAR || !may_hold_torchrun(text->text))
            continue;
        whole = arg_word_of(text);
        c = arena_alloc(a, sizeof *c);
        p = arena_alloc(a, sizeof *p);
        *p = (struct kube_pods){.object = map, .role = "", .part = data, .spec = data};
        p->replicas = -1;
        p->restart = p->host_domain = "";
        *c = (struct kube_container){
            .pods = p, .node = data, .name = data->pairs[i].key->text, .image = ""};
        scope.container = c;
        find_in_script(&scope, &whole, 0);
    }
}

/* --- Targets. --- */

/* The Service leads to a pod of the same object that is no store. */
static bool leads_to_training(const struct job_view *v, const struct job_run *r)
{
    const struct kube_object *o = r->container->pods->object, *service = r->target.service;

    for (size_t i = 0; i < o->pods_count; i++) {
        const struct kube_pods *p = v->bundle->pods[o->first_pods + i];

        if (kube_same_namespace(o, service) && job_server_in(v, p) == NULL &&
            kube_selects(kube_get(service->spec, "selector"), p))
            return true;
    }
    return false;
}

/* The host is under the domain that only pods of this job have, though none of them has the name.
 */
static bool names_own_pod(const struct job_run *r)
{
    const struct kube_object *o = r->container->pods->object;
    const char *domain = r->container->pods->host_domain, *dot = strchr(r->host, '.');
    size_t len = strlen(domain);

    return (o->type == KUBE_JOBSET || o->type == KUBE_VOLCANO_JOB) && dot != NULL && len > 0 &&
           r->container->pods->host_prefix != NULL && strncmp(dot + 1, domain, len) == 0 &&
           (dot[1 + len] == '\0' || dot[1 + len] == '.');
}

static void find_target(struct job_view *v, struct job_run *r)
{
    const struct job_setting *endpoint = &r->settings[TORCHRUN_RDZV_ENDPOINT];
    const char *written = endpoint->value.text;

    if (r->standalone)
        return;
    if (endpoint->from != JOB_FROM_NOWHERE && job_endpoint_is_computed(r)) {
        const char *vc = strstr(written, "VC_");

        r->hosted =
            (vc != NULL && strstr(vc, "_HOSTS") != NULL) || strstr(written, "MASTER_ADDR") != NULL;
        return;
    }
    if (r->local || *r->host == '\0')
        return;
    r->found = kube_find_host(v->bundle, r->container->pods->object, r->host, &r->target);
    if (!r->found) {
        r->hosted = r->misnamed = names_own_pod(r);
        return;
    }
    if (r->target.pods != NULL)
        r->hosted = r->target.pods->object == r->container->pods->object &&
                    job_server_in(v, r->target.pods) == NULL;
    else
        r->hosted = leads_to_training(v, r);
}

static const struct job_store *store_of(const struct job_view *v, const struct job_run *r)
{
    if (job_run_object(r)->type == KUBE_CONFIG_MAP && !r->found)
        return NULL; /* it is not known whose pods run the script */
    if (r->local)
        return job_store_in(v, r->container->pods);
    return r->found ? job_server_at(v, &r->target) : NULL;
}

/* --- Masters. --- */

/* So many places of one object are remembered; the jobs that people write have one. */
#define PLACES_MAX 8

/* The runs of one object with different meeting places. */
struct job_places {
    const struct job_run *list[PLACES_MAX];
    size_t count;
};

static void add_place(struct job_places *places, const struct job_run *r)
{
    for (size_t i = 0; i < places->count; i++) {
        const struct kube_target *t = &places->list[i]->target;

        if (t->pods == r->target.pods && t->service == r->target.service &&
            places->list[i]->port == r->port)
            return;
    }
    if (places->count < PLACES_MAX)
        places->list[places->count++] = r;
}

/* Whether the run names its own pod in a way that other pods cannot use. */
static bool may_be_master(const struct job_run *r)
{
    return (r->local || r->own_name) && r->store == NULL && !r->standalone && job_is_multi_node(r);
}

/* Whether the endpoint of `hosted` leads to these pods, as far as it is known. */
static bool may_lead_to(const struct job_run *hosted, const struct kube_pods *p)
{
    const struct kube_target *t = &hosted->target;

    if (t->pods != NULL)
        return t->pods == p;
    return t->service == NULL || kube_selects(kube_get(t->service->spec, "selector"), p);
}

static bool may_meet_anywhere(const struct job_run *r)
{
    return job_endpoint_is_computed(r) && !r->found && !r->own_name;
}

static bool is_master(const struct job_run *r, const struct job_places *places)
{
    for (size_t i = 0; i < places->count; i++) {
        if (places->list[i]->port == r->port && may_lead_to(places->list[i], r->container->pods))
            return true;
    }
    return false;
}

/* A run whose endpoint is its own pod, as localhost or by its host name, while other runs of its
 * object find that pod by another name, on the same port: both are the same store. */
static void find_masters(struct job_view *v)
{
    for (size_t i = 0, end; i < v->count; i = end) {
        struct job_places hosted = {0}, unknown = {0};

        for (end = i; end < v->count && job_run_object(v->runs[end]) == job_run_object(v->runs[i]);
             end++) {
            if (v->runs[end]->hosted)
                add_place(&hosted, v->runs[end]);
            else if (may_meet_anywhere(v->runs[end]))
                add_place(&unknown, v->runs[end]);
        }
        for (size_t k = i; k < end && hosted.count + unknown.count > 0; k++) {
            if (!may_be_master(v->runs[k]))
                continue;
            v->runs[k]->hosted = is_master(v->runs[k], &hosted);
            v->runs[k]->maybe_hosted = is_master(v->runs[k], &unknown);
        }
    }
}

/* --- The runs of pods, of objects and of stores. --- */

/* The runs of each of the pods are adjacent. */
static void group_by_pods(struct job_view *v)
{
    v->of_pods = arena_alloc(&v->bundle->arena, (v->bundle->pod_count + 1) * sizeof *v->of_pods);
    for (size_t i = 0; i < v->count; i++) {
        struct job_view_runs *group = &v->of_pods[v->runs[i]->container->pods->index];

        if (group->count++ == 0)
            group->list = &v->runs[i];
    }
}

static void group_by_store(struct job_view *v)
{
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < v->count; i++) {
            const struct job_store *s = v->runs[i]->store;
            struct job_view_runs *group = s == NULL ? NULL : &v->stores[s - v->stores].runs;

            if (group != NULL && pass == 1)
                group->list[group->count] = v->runs[i];
            if (group != NULL)
                group->count++;
        }
        for (size_t i = 0; i < v->store_count && pass == 0; i++) {
            struct job_view_runs *group = &v->stores[i].runs;

            group->list = arena_alloc(&v->bundle->arena, group->count * sizeof(void *));
            group->count = 0;
        }
    }
}

struct job_view_runs job_runs_in(const struct job_view *v, const struct kube_pods *p)
{
    return v->of_pods[p->index];
}

struct job_view_runs job_runs_of(const struct job_view *v, const struct kube_object *o)
{
    struct job_view_runs out = {0};

    for (size_t i = 0; i < o->pods_count; i++) {
        const struct job_view_runs *group = &v->of_pods[o->first_pods + i];

        if (out.count == 0)
            out.list = group->list;
        out.count += group->count;
    }
    return out;
}

const struct job_run *job_first_run(struct job_view_runs runs, bool (*is)(const struct job_run *r))
{
    for (size_t i = 0; i < runs.count; i++) {
        if (is(runs.list[i]))
            return runs.list[i];
    }
    return NULL;
}

long job_training_pods(const struct job_view *v, const struct kube_object *o)
{
    long sum = 0;

    for (size_t i = 0; i < o->pods_count && sum >= 0; i++) {
        const struct kube_pods *p = v->bundle->pods[o->first_pods + i];

        if (job_runs_in(v, p).count > 0)
            sum = p->replicas < 0 ? -1 : sum + p->replicas;
    }
    return sum;
}

static void job_link(struct job_view *v)
{
    for (size_t i = 0; i < v->all_count; i++) {
        find_target(v, v->runs[i]);
        v->runs[i]->store = store_of(v, v->runs[i]);
    }
    find_masters(v);
    group_by_pods(v);
    group_by_store(v);
    job_find_behind(v);
}

/* --- All of it. --- */

void job_find(struct job_view *v, struct kube_bundle *bundle)
{
    *v = (struct job_view){.bundle = bundle};
    job_find_stores(v);
    for (size_t i = 0; i < bundle->pod_count; i++) {
        for (size_t j = 0; j < bundle->pods[i]->count; j++) {
            const struct kube_container *c = &bundle->pods[i]->containers[j];

            if (!c->init && job_store_kind(&bundle->arena, c) == JOB_STORE_NONE)
                find_runs(v, c);
        }
    }
    v->count = v->all_count;
    for (size_t i = 0; i < bundle->count; i++) {
        if (bundle->objects[i]->type == KUBE_CONFIG_MAP)
            find_scripts(v, bundle->objects[i]);
    }
    job_link(v);
}
