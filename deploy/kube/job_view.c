/* Collects each container's settings, weakest source first, and then asks what they come to. */
#include "deploy/kube/job_view.h"

#include "deploy/kube/job_parts.h"
#include "deploy/kube/shell_words.h"

#include <stdlib.h>
#include <string.h>

/* Scripts in scripts: nobody writes them deeper. */
#define SCRIPT_DEPTH_MAX 4

/* --- Words. --- */

static bool is_shell(const char *text)
{
    static const char *const names[] = {"sh", "bash", "dash", "ash", "zsh", "ksh"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(kube_base_name(text), names[i]) == 0)
            return true;
    }
    return false;
}

/* The word behind `sh -c`, `bash -euo pipefail -c` and the like; `count` when there is none. */
static size_t find_script(const struct arg_word *words, size_t count)
{
    size_t i = 0;

    while (i < count && !is_shell(words[i].text)) {
        if (words[i].text[0] != '-' && i > 2)
            return count;
        i++;
    }
    for (i++; i < count && words[i].text[0] == '-'; i++) {
        const char *options = words[i].text + 1;

        if (*options != '-' && strchr(options, 'c') != NULL)
            return i + 1 < count ? i + 1 : count;
        i += *options != '\0' && options[strlen(options) - 1] == 'o'; /* -o NAME */
    }
    return count;
}

const struct arg_word *job_words(struct arena *a, const struct kube_container *c, size_t *count,
                                 size_t *script)
{
    static const char *const keys[] = {"command", "args"};
    struct arg_word *words = NULL;
    size_t cap = 0;

    *count = 0;
    for (int k = 0; k < 2; k++) {
        const struct yaml_node *list = kube_field(c, keys[k]);

        if (list == NULL || list->kind != YAML_SEQUENCE || list->count == 0)
            continue;
        words = arena_grow(a, words, *count * sizeof *words, (cap + list->count) * sizeof *words);
        cap += list->count;
        for (size_t i = 0; i < list->count; i++) {
            const struct yaml_node *item = list->items[i];

            if (item->kind == YAML_SCALAR)
                words[(*count)++] = (struct arg_word){
                    .text = item->text, .len = item->len, .node = item, .end = item->len};
        }
    }
    *script = find_script(words, *count);
    return words;
}

/* --- A script, while it is read. --- */

struct arg_list {
    struct arg_word *words;
    size_t count, cap;
};

static void push_word(struct arena *a, struct arg_list *list, struct arg_word word)
{
    if (list->count == list->cap) {
        size_t cap = list->cap == 0 ? 16 : list->cap * 2;

        list->words = arena_grow(a, list->words, list->count * sizeof word, cap * sizeof word);
        list->cap = cap;
    }
    list->words[list->count++] = word;
}

/* Words of the shell within `outer` (itself a word, or a whole scalar) as words of its scalar. */
static struct arg_word inner_word(struct arena *a, const struct arg_word *outer,
                                  const struct shell_word *w)
{
    struct arg_word out = {
        .text = w->text,
        .len = w->len,
        .node = outer->node,
        .at = w->at,
        .start = w->start,
        .end = w->end,
        .shell = true,
        .expands = w->expands,
    };
    size_t *at;

    if (outer->at == NULL && outer->start == 0)
        return out;
    at = arena_alloc(a, (w->len + 1) * sizeof *at);
    for (size_t i = 0; i <= w->len; i++)
        at[i] = outer->at == NULL ? outer->start + w->at[i] : outer->at[w->at[i]];
    out.at = at;
    out.start = outer->at == NULL ? outer->start + w->start : outer->at[w->start];
    out.end = outer->at == NULL ? outer->start + w->end : outer->at[w->end - 1] + 1;
    return out;
}

/* The length of NAME in NAME=..., or 0. */
static size_t assigned_name(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

    return text[len] == '=' && (text[0] < '0' || text[0] > '9') ? len : 0;
}

static bool is_declaration(const char *text)
{
    static const char *const names[] = {"export", "declare", "readonly", "local", "typeset"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0)
            return true;
    }
    return false;
}

/* The assignments of a command go to the scope; returns the first word that is none. */
static size_t read_assignments(struct job_scope *scope, const struct arg_word *words, size_t count)
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
            job_scope_assign(scope, arena_copy(a, words[i].text, len),
                             arg_text_of(&words[i], len + 1));
    }
    return i;
}

static bool may_hold_torchrun(const char *text)
{
    return strstr(text, "torch") != NULL || strstr(text, "--rdzv") != NULL;
}

/* `$FLAGS`, when FLAGS is known and holds options or a command, becomes the words in it. */
static void push_expanded(struct job_scope *scope, struct arg_list *list, struct arg_word word)
{
    struct arena *a = &scope->view->bundle->arena;
    struct arg_text text;
    struct shell_script inner;
    struct arg_word outer;

    if (!job_scope_find(scope, &word, &text) ||
        (text.text[0] != '-' &&
         (strchr(text.text, ' ') == NULL || !may_hold_torchrun(text.text)))) {
        push_word(a, list, word);
        return;
    }
    outer = (struct arg_word){.text = text.text, .node = text.node, .start = text.start};
    outer.at = text.at;
    shell_read(a, text.text, strlen(text.text), &inner);
    for (size_t i = 0; i < inner.count; i++) {
        for (size_t j = 0; j < inner.commands[i].count; j++)
            push_word(a, list, inner_word(a, &outer, &inner.commands[i].words[j]));
    }
}

/* --- Settings. --- */

static const char *const variable_names[TORCHRUN_OPTIONS] = {
    [TORCHRUN_NNODES] = "PET_NNODES",
    [TORCHRUN_NPROC_PER_NODE] = "PET_NPROC_PER_NODE",
    [TORCHRUN_RDZV_BACKEND] = "PET_RDZV_BACKEND",
    [TORCHRUN_RDZV_ENDPOINT] = "PET_RDZV_ENDPOINT",
    [TORCHRUN_RDZV_ID] = "PET_RDZV_ID",
    [TORCHRUN_RDZV_CONF] = "PET_RDZV_CONF",
    [TORCHRUN_STANDALONE] = "PET_STANDALONE",
    [TORCHRUN_MAX_RESTARTS] = "PET_MAX_RESTARTS",
    [TORCHRUN_NODE_RANK] = "PET_NODE_RANK",
    [TORCHRUN_MASTER_ADDR] = "PET_MASTER_ADDR",
    [TORCHRUN_MASTER_PORT] = "PET_MASTER_PORT",
    [TORCHRUN_LOCAL_ADDR] = "PET_LOCAL_ADDR",
};

const char *job_variable_name(enum torchrun_option option)
{
    return option < TORCHRUN_OPTIONS ? variable_names[option] : "";
}

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
    size_t count;
    const struct job_variable *list = job_variables(v, r->container, &count);

    for (size_t i = 0; i < count; i++) {
        for (int o = 0; o < TORCHRUN_OPTIONS; o++) {
            struct job_setting s = {.from = JOB_FROM_ENV};

            if (list[i].made != NULL || strcmp(list[i].name, variable_names[o]) != 0)
                continue;
            s.node = list[i].value != NULL    ? list[i].value
                     : list[i].source != NULL ? list[i].source
                                              : list[i].node;
            s.end = list[i].value != NULL ? list[i].value->len : 0;
            if (list[i].value != NULL)
                s.written =
                    (struct arg_text){.text = s.node->text, .node = s.node, .end = s.node->len};
            s.value = job_variable_value(v, r->container, &list[i]);
            set(v, r, (enum torchrun_option)o, s);
        }
    }
}

static void set_from_text(struct job_view *v, struct job_run *r, enum torchrun_option option,
                          const struct yaml_node *node, const char *text)
{
    set(v, r, option,
        (struct job_setting){
            .from = JOB_FROM_OPERATOR,
            .node = node,
            .end = node != NULL && node->kind == YAML_SCALAR ? node->len : 0,
            .value = {.text = text, .known = true},
        });
}

static const char *policy_conf(struct arena *a, const struct yaml_node *list)
{
    const char *text = "";

    for (size_t i = 0; list->kind == YAML_SEQUENCE && i < list->count; i++)
        text = arena_text(a, "%s%s%s=%s", text, i == 0 ? "" : ",", kube_text(list->items[i], "key"),
                          kube_text(list->items[i], "value"));
    return text;
}

/* What the operator makes of elasticPolicy. */
static void set_from_policy(struct job_view *v, struct job_run *r, const struct yaml_node *policy)
{
    static const struct {
        const char *key;
        enum torchrun_option option;
    } copied[] = {
        {"rdzvId", TORCHRUN_RDZV_ID},
        {"maxRestarts", TORCHRUN_MAX_RESTARTS},
        {"nProcPerNode", TORCHRUN_NPROC_PER_NODE},
    };
    struct arena *a = &v->bundle->arena;
    const struct yaml_node *backend = kube_get(policy, "rdzvBackend");
    const struct yaml_node *host = kube_get(policy, "rdzvHost"),
                           *conf = kube_get(policy, "rdzvConf");
    const char *port = kube_text(policy, "rdzvPort");

    set_from_text(v, r, TORCHRUN_RDZV_BACKEND, backend,
                  backend == NULL ? "c10d" : kube_text(policy, "rdzvBackend"));
    set_from_text(
        v, r, TORCHRUN_RDZV_ENDPOINT, host,
        arena_text(a, "%s%s:%s",
                   host == NULL ? r->container->pods->object->name : kube_text(policy, "rdzvHost"),
                   host == NULL ? "-worker-0" : "", *port == '\0' ? "23456" : port));
    if (conf != NULL)
        set_from_text(v, r, TORCHRUN_RDZV_CONF, conf, policy_conf(a, conf));
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        if (kube_get(policy, copied[i].key) != NULL)
            set_from_text(v, r, copied[i].option, kube_get(policy, copied[i].key),
                          kube_text(policy, copied[i].key));
    }
    if (kube_true(policy, "standalone"))
        set_from_text(v, r, TORCHRUN_STANDALONE, kube_get(policy, "standalone"), "1");
}

static void set_from_operator(struct job_view *v, struct job_run *r)
{
    const struct kube_object *o = r->container->pods->object;
    const struct yaml_node *policy = kube_get(o->spec, "elasticPolicy");
    const struct job_variable *nnodes = job_variable(v, r->container, "PET_NNODES");

    if (o->type == KUBE_PYTORCHJOB && policy != NULL)
        set_from_policy(v, r, policy);
    if (nnodes != NULL && nnodes->made != NULL)
        set_from_text(v, r, TORCHRUN_NNODES, NULL, nnodes->made);
}

static void set_from_script(struct job_scope *scope, struct job_run *r)
{
    for (size_t i = 0; i < scope->count; i++) {
        for (int o = 0; o < TORCHRUN_OPTIONS; o++) {
            const struct arg_text *text = &scope->assigned[i].value;

            if (strcmp(scope->assigned[i].name, variable_names[o]) == 0)
                set(scope->view, r, (enum torchrun_option)o,
                    (struct job_setting){.from = JOB_FROM_SCRIPT,
                                         .node = text->node,
                                         .start = text->start,
                                         .end = text->end,
                                         .written = *text,
                                         .value = job_scope_value(scope, text)});
        }
    }
}

static void set_from_flags(struct job_scope *scope, struct job_run *r)
{
    for (size_t i = 0; i < r->args->count; i++) {
        const struct torchrun_flag *f = &r->args->flags[i];
        const struct arg_text *text = f->value.text == NULL ? &f->flag : &f->value;
        struct job_setting s = {.from = JOB_FROM_FLAG,
                                .node = text->node,
                                .start = text->start,
                                .end = text->end,
                                .written = f->value,
                                .flag = f};

        if (f->option >= TORCHRUN_OPTIONS)
            continue;
        if (f->value.text != NULL)
            s.value = job_scope_value(scope, text);
        else
            s.value = (struct job_value){.text = f->option == TORCHRUN_STANDALONE ? "1" : "",
                                         .known = true};
        set(scope->view, r, f->option, s);
    }
}

/* --- What the settings come to. --- */

static const char *setting_text(const struct job_run *r, enum torchrun_option option)
{
    const char *text = r->settings[option].value.text;

    return text == NULL ? "" : text;
}

static bool is_set(const struct job_run *r, enum torchrun_option option)
{
    return r->settings[option].from != JOB_FROM_NOWHERE;
}

static long parse_count(const char *text, const char **end)
{
    char *stop;
    long value = strtol(text, &stop, 10);

    *end = stop;
    return stop == text || value < 0 || value > 1000000 ? -1 : value;
}

static void find_nodes(struct job_run *r)
{
    const char *text = setting_text(r, TORCHRUN_NNODES), *end;

    r->nodes_min = r->nodes_max = 1;
    if (!is_set(r, TORCHRUN_NNODES))
        return;
    r->nodes_min = parse_count(text, &end);
    if (*end == ':')
        r->nodes_max = parse_count(end + 1, &end);
    else
        r->nodes_max = r->nodes_min;
    if (*end != '\0' || r->nodes_min < 0 || r->nodes_max < 0 ||
        !r->settings[TORCHRUN_NNODES].value.known)
        r->nodes_min = r->nodes_max = -1;
}

static const char *trim(struct arena *a, const char *text)
{
    size_t len;

    text += strspn(text, " \t\n");
    for (len = strlen(text); len > 0 && strchr(" \t\n", text[len - 1]) != NULL; len--)
        ;
    return arena_copy(a, text, len);
}

/* Where rank 0 of a static job listens: as it is said, or as an operator has it. */
static void find_master(struct job_view *v, struct job_run *r)
{
    const struct job_setting *said = &r->settings[TORCHRUN_MASTER_ADDR];
    const struct job_variable *made = job_variable(v, r->container, "MASTER_ADDR");

    if (said->from != JOB_FROM_NOWHERE && said->value.known && *said->value.text != '\0')
        r->host = trim(&v->bundle->arena, said->value.text);
    else if (said->from == JOB_FROM_NOWHERE && made != NULL && made->made != NULL)
        r->host = made->made;
}

/* As torch splits it: at the last colon, unless the host is in brackets. */
static void split_endpoint(struct arena *a, struct job_run *r)
{
    const struct job_setting *s = &r->settings[TORCHRUN_RDZV_ENDPOINT];
    const char *text = trim(a, setting_text(r, TORCHRUN_RDZV_ENDPOINT)),
               *colon = strrchr(text, ':');
    const char *bracket = strchr(text, ']'), *end = "";
    long own = strncmp(r->backend, "etcd", 4) == 0 ? 2379 : 29400;

    r->host = "";
    r->port = -1;
    if (s->from != JOB_FROM_NOWHERE && !s->value.known) {
        size_t known = strcspn(text, "$`");

        if (known > 1 && text[known - 1] == ':') /* all but the port */
            r->host = arena_copy(a, text, known - 1);
        else if (colon != NULL && colon > text + known) /* nothing but the port */
            r->port = parse_count(colon + 1, &end);
        if (*end != '\0')
            r->port = -1;
        return;
    }
    if (colon != NULL && bracket != NULL && bracket > colon)
        colon = NULL;
    r->host = colon == NULL ? text : arena_copy(a, text, (size_t)(colon - text));
    if (*r->host == '\0')
        r->host = "localhost";
    r->port_written = colon != NULL;
    r->port = colon == NULL ? own : parse_count(colon + 1, &end);
    if (*end != '\0')
        r->port = -1;
}

static bool is_local(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "[::1]") == 0;
}

static bool is_own_training_pod(const struct job_view *v, const struct job_run *r,
                                const struct kube_pods *p)
{
    return p->object == r->container->pods->object && job_store_in(v, p) == NULL;
}

static void find_store(struct job_view *v, struct job_run *r)
{
    const char *written = setting_text(r, TORCHRUN_RDZV_ENDPOINT);
    const struct kube_pods *p = NULL;

    r->local = is_local(r->host);
    if (r->standalone)
        return;
    if (is_set(r, TORCHRUN_RDZV_ENDPOINT) && (*r->host == '\0' || strchr(r->host, '$') != NULL)) {
        const char *vc = strstr(written, "VC_");

        r->hosted =
            (vc != NULL && strstr(vc, "_HOSTS") != NULL) || strstr(written, "MASTER_ADDR") != NULL;
        return;
    }
    if (r->local || *r->host == '\0')
        return;
    r->found = kube_find_host(v->bundle, r->container->pods->object, r->host, &r->target);
    if (!r->found)
        return;
    if (r->target.pods != NULL)
        r->hosted = is_own_training_pod(v, r, r->target.pods);
    else
        while ((p = kube_next_selected(v->bundle, r->target.service, p)) != NULL)
            r->hosted = r->hosted || is_own_training_pod(v, r, p);
}

static const struct job_store *store_of(const struct job_view *v, const struct job_run *r)
{
    const struct job_store *store = NULL;
    const struct kube_pods *p = NULL;

    if (r->local)
        return job_store_in(v, r->container->pods);
    if (!r->found)
        return NULL;
    if (r->target.pods != NULL)
        return job_store_in(v, r->target.pods);
    while (store == NULL && (p = kube_next_selected(v->bundle, r->target.service, p)) != NULL)
        store = job_store_in(v, p);
    return store;
}

static bool is_yes(const char *text)
{
    return *text != '\0' && strcmp(text, "0") != 0;
}

static void conclude(struct job_view *v, struct job_run *r)
{
    const struct job_setting *backend = &r->settings[TORCHRUN_RDZV_BACKEND];

    for (int o = 0; o < TORCHRUN_OPTIONS; o++) {
        if (r->settings[o].value.text == NULL)
            r->settings[o].value.text = "";
    }
    r->standalone = is_yes(setting_text(r, TORCHRUN_STANDALONE));
    r->backend = backend->from == JOB_FROM_NOWHERE ? "static"
                 : backend->value.known            ? backend->value.text
                                                   : "";
    find_nodes(r);
    split_endpoint(&v->bundle->arena, r);
    if (strcmp(r->backend, "static") == 0 && !is_set(r, TORCHRUN_RDZV_ENDPOINT) && !r->standalone)
        find_master(v, r);
    find_store(v, r);
    r->store = store_of(v, r);
}

/* --- Runs. --- */

static struct job_run *new_run(struct job_view *v, const struct kube_container *c)
{
    struct job_run *r = arena_alloc(&v->bundle->arena, sizeof *r);

    *r = (struct job_run){.container = c};
    if (v->all_count == v->cap) {
        size_t cap = v->cap == 0 ? 16 : v->cap * 2;

        v->runs = arena_grow(&v->bundle->arena, v->runs, v->all_count * sizeof(struct job_run *),
                             cap * sizeof(struct job_run *));
        v->cap = cap;
    }
    v->runs[v->all_count++] = r;
    return r;
}

/* first: the index behind the word torchrun, or of the first of its options. */
static void add_run(struct job_scope *scope, const struct arg_word *words, size_t count,
                    size_t first, bool torchrun)
{
    struct job_view *v = scope->view;
    struct job_run *r = new_run(v, scope->container);
    struct torchrun_args *args = arena_alloc(&v->bundle->arena, sizeof *args);

    torchrun_parse(&v->bundle->arena, words, count, first, args);
    args->opaque = args->opaque || !torchrun;
    for (size_t i = 0; i < args->count && !torchrun; i++) {
        if (args->flags[i].option == TORCHRUN_UNKNOWN)
            args->flags[i].option = TORCHRUN_OTHER; /* one of the launcher's own */
    }
    r->args = args;
    set_from_env(v, r);
    set_from_operator(v, r);
    set_from_script(scope, r);
    set_from_flags(scope, r);
    conclude(v, r);
}

/* Whether the words start torchrun, or something that hands its options on. */
static bool find_command(struct job_scope *scope, const struct arg_word *words, size_t count)
{
    size_t first = torchrun_find(words, count);

    if (first > 0) {
        add_run(scope, words, count, first, true);
        return true;
    }
    first = torchrun_find_option(words, count);
    if (first < count)
        add_run(scope, words, count, first, false);
    return first < count;
}

static bool is_talk(const struct arg_word *words, size_t count)
{
    static const char *const talkers[] = {"echo", "printf", "which",   "type",  "pip",
                                          "pip3", "apt",    "apt-get", "conda", "grep",
                                          "cat",  "ls",     "["};

    for (size_t i = 0; i < sizeof talkers / sizeof *talkers && count > 0; i++) {
        if (strcmp(words[0].text, talkers[i]) == 0)
            return true;
    }
    return false;
}

static bool may_be_script(const struct arg_word *word)
{
    return strpbrk(word->text, " \n") != NULL && may_hold_torchrun(word->text);
}

/* `depth`: of `bash -c '...'` in a script. */
static bool find_in_script(struct job_scope *scope, const struct arg_word *whole, int depth)
{
    struct arena *a = &scope->view->bundle->arena;
    struct shell_script script;
    bool found = false;

    shell_read(a, whole->text, whole->len, &script);
    for (size_t i = 0; i < script.count; i++) {
        struct arg_list list = {0};
        const struct shell_command *c = &script.commands[i];
        bool command = false;
        size_t skip;

        for (size_t j = 0; j < c->count; j++)
            push_expanded(scope, &list, inner_word(a, whole, &c->words[j]));
        skip = read_assignments(scope, list.words, list.count);
        if (!is_talk(list.words + skip, list.count - skip))
            command = find_command(scope, list.words + skip, list.count - skip);
        for (size_t j = skip; j < list.count && !command && depth < SCRIPT_DEPTH_MAX; j++)
            command =
                may_be_script(&list.words[j]) && find_in_script(scope, &list.words[j], depth + 1);
        found = found || command;
    }
    return found;
}

static bool is_assigned(const struct job_scope *scope, const char *name)
{
    for (size_t i = 0; i < scope->count; i++) {
        if (strcmp(scope->assigned[i].name, name) == 0)
            return true;
    }
    return false;
}

/* No torchrun to be seen, but variables for one: something that is run here may start it. */
static void find_in_variables(struct job_scope *scope)
{
    static const char *const names[] = {"PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT"};
    struct job_view *v = scope->view;
    const struct kube_object *o = scope->container->pods->object;
    bool wanted = o->type == KUBE_PYTORCHJOB && kube_get(o->spec, "elasticPolicy") != NULL &&
                  strcmp(scope->container->name, "pytorch") == 0;
    struct job_run *r;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        wanted = wanted || is_assigned(scope, names[i]) ||
                 job_variable(v, scope->container, names[i]) != NULL;
    if (!wanted)
        return;
    r = new_run(v, scope->container);
    set_from_env(v, r);
    set_from_operator(v, r);
    set_from_script(scope, r);
    conclude(v, r);
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
        /* Whatever it is that texts are given to, it may have them run. */
        for (size_t i = 0; i < count; i++) {
            if (may_be_script(&words[i]))
                find_in_script(&scope, &words[i], 0);
        }
    if (v->all_count == before)
        find_in_variables(&scope);
}

/* Scripts in a ConfigMap, which pods mount and run: each is looked at as a container that has
 * nothing else. */
static void find_scripts(struct job_view *v, const struct kube_object *map)
{
    struct arena *a = &v->bundle->arena;
    const struct yaml_node *data = kube_get(map->node, "data");

    for (size_t i = 0; data != NULL && data->kind == YAML_MAPPING && i < data->count; i++) {
        const struct yaml_node *text = data->pairs[i].value;
        struct arg_word whole = {
            .text = text->text, .len = text->len, .node = text, .end = text->len};
        struct kube_container *c;
        struct kube_pods *p;
        struct job_scope scope = {.view = v};

        if (text->kind != YAML_SCALAR || !may_hold_torchrun(text->text))
            continue;
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
}

const struct kube_object *job_run_object(const struct job_run *r)
{
    return r->container->pods->object;
}

bool job_is_multi_node(const struct job_run *r)
{
    if (r->nodes_max >= 0)
        return r->nodes_max > 1;
    return r->container->pods->replicas != 1;
}

bool job_is_dynamic(const struct job_run *r)
{
    return !r->standalone && (strcmp(r->backend, "c10d") == 0 || strcmp(r->backend, "etcd") == 0 ||
                              strcmp(r->backend, "etcd-v2") == 0);
}

bool job_is_elastic(const struct job_run *r)
{
    return r->nodes_min >= 0 && r->nodes_max > r->nodes_min;
}
