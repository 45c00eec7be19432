/* Finds the containers that are stores, and reads their options. */
#include "deploy/kube/job_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- The words of the store's own command. --- */

static enum job_store_kind program_kind(const char *word)
{
    const char *base = kube_base_name(word);

    return strcmp(base, "etcd") == 0    ? JOB_STORE_ETCD
           : strcmp(base, "rdzvd") == 0 ? JOB_STORE_RDZVD
                                        : JOB_STORE_NONE;
}

/* The part of an image name between the last / and the tag: etcd, of
 * `registry:5000/coreos/etcd:v3.4@sha256:...`. */
static enum job_store_kind image_kind(struct arena *a, const char *image)
{
    const char *base = kube_base_name(arena_copy(a, image, strcspn(image, "@")));

    return program_kind(arena_copy(a, base, strcspn(base, ":")));
}

struct store_words {
    enum job_store_kind kind;
    const struct arg_word *words; /* with the program itself, or with its arguments alone */
    size_t count;
};

/* The text after the name in `--name` or `--name=...`: "" or "=..."; NULL if the word is another
 * one. */
static const char *behind_name(const char *word, const char *name)
{
    size_t len = strlen(name);

    if (word[0] != '-')
        return NULL;
    word += word[1] == '-' ? 2 : 1; /* Go accepts one dash, too */
    return strncmp(word, name, len) == 0 && (word[len] == '\0' || word[len] == '=') ? word + len
                                                                                    : NULL;
}

static bool has_option(const struct arg_word *words, size_t count, const char *name)
{
    return ANY(FOREACH(const struct arg_word, w, words, count), behind_name(w->text, name) != NULL);
}

/* A replica with --upstream passes clients on while it does not lead, and is a store. */
static bool relays(const struct kube_container *c, const struct arg_word *words, size_t count)
{
    const struct yaml_node *env = kube_get(c->node, "env");

    return (has_option(words, count, "upstream") ||
            kube_item(env, "name", "RDZVD_UPSTREAM") != NULL) &&
           !has_option(words, count, "journal") && kube_item(env, "name", "RDZVD_JOURNAL") == NULL;
}

/* The arguments of an image that runs rdzvd under another name: nothing else has both options. */
static bool listens_as_rdzvd(const struct arg_word *words, size_t count)
{
    return has_option(words, count, "listen") &&
           ANY(FOREACH_WORD(name, "upstream", "space", "exit-when-idle", "advertise",
                            "elastic-fixes", "expect", "space-idle-timeout"),
               has_option(words, count, name));
}

/* The first word that is not a wrapper of the program, or one of its arguments. */
static size_t program_of(const struct arg_word *words, size_t count)
{
    size_t i = 0;

    while (i < count && (text_is(kube_base_name(words[i].text), "exec", "env", "tini", "dumb-init",
                                 "nohup", "--", "-g") ||
                         (words[i].text[0] != '-' && strchr(words[i].text, '=') != NULL)))
        i++;
    return i;
}

/* The first command of a script that is a store; of etcds that of a cluster. */
static struct store_words words_in_script(struct arena *a, const struct kube_container *of,
                                          const struct arg_word *script)
{
    struct store_words found = {0};
    struct shell_script s;

    shell_read(a, script, &s);
    FOREACH(const struct shell_command, c, s.commands, s.count) {
        size_t first = program_of(c->words, c->count);
        enum job_store_kind kind =
            first == c->count ? JOB_STORE_NONE : program_kind(c->words[first].text);

        if (kind == JOB_STORE_RDZVD && relays(of, c->words, c->count))
            kind = JOB_STORE_RELAY;
        if (kind != JOB_STORE_NONE &&
            (found.kind == JOB_STORE_NONE || has_option(c->words, c->count, "initial-cluster")))
            found = (struct store_words){kind, c->words + first, c->count - first};
    }
    return found;
}

static struct store_words find_words(struct arena *a, const struct kube_container *c)
{
    struct job_words all = job_words(a, c);
    const struct arg_word *words = all.list;
    struct store_words out = {.words = words, .count = all.count};
    size_t count = all.count, first;

    if (c->init && !c->sidecar)
        return (struct store_words){0}; /* it waits for a store, or prepares one */
    if (all.script != NULL)
        return words_in_script(a, c, all.script);
    first = program_of(words, count);
    if (kube_field(c, "command") != NULL || (first < count && words[first].text[0] != '-'))
        out.kind = first < count ? program_kind(words[first].text) : JOB_STORE_NONE;
    else if (kube_item(kube_get(c->node, "env"), "name", "ETCD_LISTEN_CLIENT_URLS") != NULL)
        out.kind = JOB_STORE_ETCD; /* of an image with another name */
    else
        out.kind = image_kind(a, c->image);
    if (out.kind == JOB_STORE_NONE && has_option(words, count, "listen-client-urls"))
        out.kind = JOB_STORE_ETCD;
    if (out.kind == JOB_STORE_NONE && first == 0 && listens_as_rdzvd(words, count))
        out.kind = JOB_STORE_RDZVD;
    if (out.kind == JOB_STORE_RDZVD && relays(c, words, count))
        out.kind = JOB_STORE_RELAY;
    return out;
}

enum job_store_kind job_store_kind(struct arena *a, const struct kube_container *c)
{
    return find_words(a, c).kind;
}

/* --- Stores of a bundle. --- */

void job_find_stores(struct job_view *v)
{
    struct arena *a = &v->bundle->arena;

    v->first_store = arena_alloc(a, (v->bundle->pod_count + 1) * sizeof *v->first_store);
    KUBE_FOREACH_PODS(p, v->bundle) {
        FOREACH(const struct kube_container, c, p->containers, p->count) {
            struct job_store store = {.kind = job_store_kind(a, c), .container = c};

            if (store.kind == JOB_STORE_NONE)
                continue;
            arena_push(a, v->stores, v->store_count, v->store_cap) = store;
            if (v->first_store[p->index] == 0)
                v->first_store[p->index] = v->store_count;
        }
        if (job_server_in(v, p) != NULL)
            kube_index_labels(a, &v->servers, p);
    }
}

const struct kube_object *job_store_object(const struct job_store *s)
{
    return s->container->pods->object;
}

const struct job_store *job_store_in(const struct job_view *v, const struct kube_pods *p)
{
    size_t first = v->first_store[p->index];

    return first == 0 ? NULL : &v->stores[first - 1];
}

const struct job_store *job_server_in(const struct job_view *v, const struct kube_pods *p)
{
    const struct job_store *s = job_store_in(v, p);

    while (s != NULL && s->kind == JOB_STORE_RELAY)
        s = ++s < v->stores + v->store_count && s->container->pods == p ? s : NULL;
    return s;
}

const struct job_store *job_server_behind(const struct job_view *v,
                                          const struct kube_object *service)
{
    struct kube_selection s = kube_select(v->bundle, &v->servers, service);
    const struct kube_pods *p = kube_select_next(&s);

    return p == NULL ? NULL : job_server_in(v, p);
}

const struct job_store *job_server_at(const struct job_view *v, const struct kube_target *target)
{
    return target->pods != NULL ? job_server_in(v, target->pods)
                                : job_server_behind(v, target->service);
}

/* --- Options. --- */

static struct job_setting store_setting(struct job_view *v, const struct kube_container *c,
                                        struct arg_word text, bool empty)
{
    struct job_scope scope = {.view = v, .container = c};
    struct job_value none = {.text = "", .known = true};

    return (struct job_setting){.from = JOB_FROM_FLAG,
                                .written = text,
                                .value = empty ? none : job_scope_value(&scope, &text)};
}

/* RDZVD_DATA_DIR of data-dir. */
static const struct job_variable *option_variable(struct job_view *v,
                                                  const struct kube_container *c,
                                                  const char *prefix, const char *name)
{
    char *text = arena_text(&v->bundle->arena, "%s%s", prefix, name);

    for (char *p = text; *p != '\0'; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    return job_variable(v, c, text);
}

bool job_store_nth_option(struct job_view *v, const struct kube_container *c, const char *name,
                          size_t index, struct job_setting *out)
{
    struct store_words w = find_words(&v->bundle->arena, c);
    const struct job_variable *found = NULL;
    size_t given = 0;

    for (size_t i = 0; i < w.count; i++) {
        const char *rest = behind_name(w.words[i].text, name);
        bool next = i + 1 < w.count && w.words[i + 1].text[0] != '-';

        if (rest == NULL || given++ < index)
            continue;
        if (*rest == '=')
            *out = store_setting(
                v, c, arg_word_from(&w.words[i], (size_t)(rest + 1 - w.words[i].text)), false);
        else
            *out = store_setting(v, c, arg_word_from(&w.words[next ? i + 1 : i], 0), !next);
        return true;
    }
    if (index == 0) /* and no word has it, which would win */
        found = option_variable(v, c, "RDZVD_", name);
    if (index == 0 && found == NULL)
        found = option_variable(v, c, "ETCD_", name);
    if (found == NULL)
        return false;
    *out = (struct job_setting){
        .from = JOB_FROM_ENV,
        .written = found->value != NULL ? arg_word_of(found->value)
                                        : (struct arg_word){.node = found->node},
        .value = job_variable_value(v, c, found),
    };
    return true;
}

const char *job_store_option(struct job_view *v, const struct kube_container *c, const char *name,
                             struct job_setting *out)
{
    struct job_setting found;

    out = out == NULL ? &found : out;
    return job_store_nth_option(v, c, name, 0, out) ? out->value.text : NULL;
}

/* --- Versions. --- */

const char *job_etcd_tag(struct arena *a, const struct kube_container *c)
{
    const char *base = kube_base_name(arena_copy(a, c->image, strcspn(c->image, "@")));

    if (strncmp(base, "etcd", 4) != 0 || (base[4] != '\0' && base[4] != ':'))
        return NULL;
    if (base[4] == ':')
        return base + 5;
    return strchr(c->image, '@') != NULL ? NULL : "";
}

bool job_etcd_is_since(const char *tag, long least)
{
    char *end;
    long major, minor;

    if (*tag == '\0' || strcmp(tag, "latest") == 0)
        return true;
    tag += *tag == 'v';
    major = strtol(tag, &end, 10);
    if (end == tag || (*end != '.' && *end != '\0'))
        return false;
    minor = *end == '.' ? strtol(end + 1, NULL, 10) : least; /* `3` is the newest 3.x */
    return major > 3 || (major == 3 && minor >= least);
}

bool job_etcd_lacks_v2(struct job_view *v, const struct job_store *s)
{
    const char *tag = job_etcd_tag(&v->bundle->arena, s->container);
    const char *enabled = job_store_option(v, s->container, "enable-v2", NULL);

    return tag != NULL && job_etcd_is_since(tag, 4) &&
           job_store_option(v, s->container, "config-file", NULL) == NULL &&
           (enabled == NULL || strcasecmp(enabled, "false") == 0);
}

/* --- Where they listen. --- */

/* "http://0.0.0.0:2379,http://...", "0.0.0.0:29400/space" or "tls:0.0.0.0:29400" */
static void add_listeners(struct arena *a, struct job_listeners *l, const struct job_setting *s,
                          const char *option)
{
    const char *text = s->value.text;

    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        const char *start = text, *colon = NULL;
        bool tls = text_begins(text, "https://", "tls:");
        bool plain = text_begins(text, "http://", "plain:");

        if (tls || plain)
            start += strcspn(text, ":") + 1;
        start += strspn(start, "/");
        for (const char *p = start; p < text + len && *p != '/'; p++) {
            if (*p == ':')
                colon = p;
        }
        if (colon != NULL && l->count < JOB_LISTENERS_MAX)
            l->list[l->count++] = (struct job_listener){
                .local = job_is_local(arena_copy(a, start, (size_t)(colon - start))),
                .tls = tls,
                .plain = plain,
                .port = strtol(colon + 1, NULL, 10),
                .option = option,
                .setting = *s,
            };
        text += len + (text[len] == ',');
    }
}

struct job_listeners job_store_listeners(struct job_view *v, const struct job_store *s, bool peers)
{
    struct job_listeners l = {.count = 0};
    struct job_setting found;

    if (job_store_option(v, s->container, "config", NULL) != NULL ||
        job_store_option(v, s->container, "config-file", NULL) != NULL)
        return l;
    l.all = true;
    FOREACH_WORD(option, "listen", "listen-client-urls", "listen-peer-urls",
                 "listen-metrics-urls") {
        if (!peers && text_is(option, "listen-peer-urls", "listen-metrics-urls"))
            continue;
        for (size_t n = 0;
             n < JOB_LISTENERS_MAX && job_store_nth_option(v, s->container, option, n, &found);
             n++) {
            l.all = l.all && found.value.known;
            add_listeners(&v->bundle->arena, &l, &found, option);
        }
    }
    return l;
}

const struct job_listener *job_listener_at(const struct job_listeners *l, long port)
{
    return FIND(at, JOB_FOREACH_LISTENER(at, l), at->port == port);
}

/* --- Relays: rdzvd with --upstream, and the store that it leads to. --- */

/* "HOST:PORT" into its parts; false: it is none. */
static bool split_upstream(struct arena *a, struct job_upstream *out)
{
    const char *colon = strrchr(out->text, ':');
    char *end;

    out->host = colon == NULL ? "" : arena_copy(a, out->text, (size_t)(colon - out->text));
    out->port = colon == NULL ? -1 : strtol(colon + 1, &end, 10);
    return colon != NULL && colon > out->text && end > colon + 1 && *end == '\0' && out->port > 0 &&
           out->port < 65536 && strpbrk(out->host, "/ ") == NULL;
}

bool job_relay_upstream(struct job_view *v, const struct job_store *relay, size_t index,
                        struct job_upstream *out)
{
    struct arena *a = &v->bundle->arena;
    const char *text;

    *out = (struct job_upstream){.relay = relay, .port = -1};
    if (relay->kind != JOB_STORE_RELAY ||
        job_store_option(v, relay->container, "upstream", &out->setting) == NULL)
        return false;
    for (text = out->setting.value.text; index > 0; index--) {
        text += strcspn(text, ",");
        if (*text++ == '\0')
            return false;
    }
    out->text = arena_copy(a, text, strcspn(text, ","));
    out->known = out->setting.value.known;
    out->well_formed = split_upstream(a, out);
    out->found = out->known && out->well_formed &&
                 kube_find_host(v->bundle, relay->container->pods->object, out->host, &out->target);
    if (out->found)
        out->store = job_server_at(v, &out->target);
    return true;
}

const struct job_store *job_store_behind(const struct job_store *s)
{
    return s != NULL && s->kind == JOB_STORE_RELAY ? s->behind : s;
}

bool job_relay_space(struct job_view *v, const struct job_store *relay, struct job_setting *out)
{
    if (job_store_option(v, relay->container, "space", out) != NULL)
        return true;
    *out = (struct job_setting){.value = {.text = "default", .known = true}};
    return false;
}
