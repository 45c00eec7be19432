/* Knows the kinds of objects, and opens the lists and AppWrappers around them. */
#include "deploy/kube/kube_view.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Lists in lists, AppWrappers in AppWrappers: no manifest nests them deeper. */
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

bool kube_is(const struct yaml_node *node, const char *path, const char *text)
{
    return strcmp(kube_text(node, path), text) == 0;
}

long kube_int(const struct yaml_node *node, const char *path, long otherwise)
{
    const struct yaml_node *found = kube_get(node, path);
    const char *text = yaml_text(found);
    int64_t value;
    char *end;

    if (text == NULL)
        return otherwise;
    if (!yaml_to_int(found, &value)) {
        value = strtol(text, &end, 10);
        if (*text == '\0' || *end != '\0')
            return otherwise;
    }
    return value > 1000000000 || value < -1000000000 ? otherwise : (long)value;
}

long kube_replicas(const struct yaml_node *part)
{
    return kube_get(part, "replicas") == NULL ? 1 : kube_int(part, "replicas", -1);
}

bool kube_true(const struct yaml_node *node, const char *path)
{
    return yaml_true(kube_get(node, path));
}

const struct yaml_node *kube_item(const struct yaml_node *list, const char *path, const char *text)
{
    return FIND(item, YAML_FOREACH(item, list), yaml_is(kube_get(item, path), text));
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

const struct kube_object *kube_named(const struct kube_bundle *b, const char *kind,
                                     const char *name, const struct kube_object *beside)
{
    return FIND(b->objects[*hit.list],
                KUBE_FOREACH_HIT(hit, kube_index_find(&b->named, kind, name)),
                kube_same_namespace(b->objects[*hit.list], beside));
}

bool kube_reads_map(const struct kube_object *o, const struct kube_object *map)
{
    return map->type == KUBE_CONFIG_MAP &&
           (kube_same_namespace(o, map) || *o->namespace == '\0' || *map->namespace == '\0');
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

const char *kube_print(struct arena *a, const struct yaml_node *node)
{
    return node == NULL ? "" : yaml_write(a, node);
}

/* --- What a container finds at a path. --- */

const struct yaml_node *kube_mount_of(const struct kube_container *container, const char *path)
{
    const struct yaml_node *mounts = kube_get(container->node, "volumeMounts"), *best = NULL;
    size_t best_len = 0;

    YAML_FOREACH(mount, mounts) {
        const char *at = kube_text(mount, "mountPath");
        size_t len = strlen(at);

        while (len > 0 && at[len - 1] == '/')
            len--;
        if (len > best_len && strncmp(path, at, len) == 0 &&
            (path[len] == '\0' || path[len] == '/')) {
            best = mount;
            best_len = len;
        }
    }
    return best;
}

const struct yaml_node *kube_volume_at(const struct kube_container *container, const char *path)
{
    const struct yaml_node *volumes = kube_get(container->pods->spec, "volumes");

    return kube_item(volumes, "name", kube_text(kube_mount_of(container, path), "name"));
}

/* Looks for the path among the files of a ConfigMap: all keys, or those of `items`, below the
 * mount. */
static void find_file(const struct kube_bundle *b, const struct kube_container *c,
                      const struct yaml_node *source, const struct yaml_node *mount,
                      const char *path, bool by_name, struct kube_file *found)
{
    const char *name = kube_text(source, "name"), *sub = kube_text(mount, "subPath");
    const char *folder = kube_text(mount, "mountPath");
    const struct yaml_node *items = kube_get(source, "items");
    size_t len = strlen(folder);

    while (len > 0 && folder[len - 1] == '/')
        len--;
    KUBE_FOREACH_HIT(hit, kube_index_find(&b->named, "ConfigMap", name)) {
        const struct kube_object *map = b->objects[*hit.list];

        if (!kube_reads_map(c->pods->object, map))
            continue;
        YAML_FOREACH_PAIR(entry, kube_get(map->node, "data")) {
            struct kube_file file = {entry->value, map, entry->key->text};
            const struct yaml_node *item = kube_item(items, "key", file.key);
            const char *below = item == NULL ? file.key : kube_text(item, "path");
            const char *rest = strncmp(path, folder, len) == 0 ? path + len : NULL;
            bool whole = *sub == '\0'; /* the mount is a folder, else one file */
            bool at = rest != NULL &&
                      (whole ? *rest == '/' && strcmp(rest + 1, below) == 0 : *rest == '\0');
            bool named = by_name && found->text == NULL &&
                         strcmp(kube_base_name(path), kube_base_name(whole ? below : folder)) == 0;

            if (file.text->kind == YAML_SCALAR && (items == NULL || item != NULL) &&
                (whole || strcmp(sub, below) == 0) && (at || named))
                *found = file;
        }
    }
}

struct kube_file kube_file_at(const struct kube_bundle *b, const struct kube_container *container,
                              const char *path, bool by_name)
{
    const struct yaml_node *volumes = kube_get(container->pods->spec, "volumes");
    struct kube_file found = {0};

    YAML_FOREACH(mount, *path == '\0' ? NULL : kube_get(container->node, "volumeMounts")) {
        const struct yaml_node *volume = kube_item(volumes, "name", kube_text(mount, "name"));

        find_file(b, container, kube_get(volume, "configMap"), mount, path, by_name, &found);
        YAML_FOREACH(source, kube_get(volume, "projected.sources"))
            find_file(b, container, kube_get(source, "configMap"), mount, path, by_name, &found);
    }
    return found;
}

/* --- Files with placeholders. --- */

/* $NAME or ${NAME}. */
static bool has_dollar(const char *text)
{
    for (const char *p = strchr(text, '$'); p != NULL; p = strchr(p + 1, '$')) {
        const char *name = p + 1 + (p[1] == '{');
        size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

        if (p > text && p[-1] == '$')
            continue;
        if (len > 1 && (*name < '0' || *name > '9') && (p[1] != '{' || name[len] == '}'))
            return true;
    }
    return false;
}

static const struct yaml_node *find_placeholder(const struct yaml_node *n, const char *key)
{
    const struct yaml_node *found = NULL;
    const char *braces;

    /* Values of these keys may contain variables of a shell, of Kubernetes, or of a program that
     * reads the file. */
    if (n == NULL || n->alias ||
        text_is(key, "command", "args", "env", "value", "data", "stringData", "annotations",
                "binaryData", "exec", "manifest", "script", "source", "rule", "subPathExpr",
                "config", "content"))
        return NULL;
    if (n->kind == YAML_SCALAR) {
        braces = strstr(n->text, "{{"); /* in quotes: it is YAML before helm renders it, too */
        return has_dollar(n->text) || (braces != NULL && strstr(braces + 2, "}}") != NULL) ? n
                                                                                           : NULL;
    }
    for (size_t i = 0; i < n->count && found == NULL; i++)
        found = find_placeholder(yaml_child(n, i),
                                 n->kind == YAML_SEQUENCE ? key : n->pairs[i].key->text);
    return found;
}

const struct yaml_node *kube_find_placeholder(const struct yaml_file *file)
{
    const struct yaml_node *found = NULL;

    for (size_t i = 0; i < file->count && found == NULL; i++)
        found = find_placeholder(file->docs[i].root, "");
    return found;
}

/* --- Objects. --- */

static enum kube_type type_of_kind(const char *api, const char *kind)
{
    const char *slash = strchr(api, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - api);
    const struct kube_kind *found = FIND(
        k, FOREACH(const struct kube_kind, k, kube_kinds, kube_kind_count),
        strcmp(k->kind, kind) == 0 && strlen(k->group) == len && strncmp(k->group, api, len) == 0);

    if (strcmp(kind, "AppWrapper") == 0 && slash != NULL)
        return strcmp(slash + 1, "v1beta1") == 0 ? KUBE_MCAD : KUBE_APPWRAPPER;
    return found == NULL ? KUBE_OTHER : found->type;
}

enum kube_type kube_type_of(const struct yaml_node *object)
{
    return type_of_kind(kube_text(object, "apiVersion"), kube_text(object, "kind"));
}

const char *kube_platform(enum kube_type type)
{
    return FIND(k->platform, FOREACH(const struct kube_kind, k, kube_kinds, kube_kind_count),
                k->type == type && k->platform != NULL);
}

static bool is_cron(const struct yaml_node *node)
{
    return strcmp(kube_text(node, "kind"), "CronJob") == 0;
}

bool kube_is_template(const struct kube_object *o)
{
    return is_cron(o->node) || (o->wrapper != NULL && o->wrapper->type != KUBE_APPWRAPPER &&
                                o->wrapper->type != KUBE_MCAD);
}

/* `at` has what the node stands in, `depth` how many nodes these are. */
static void bundle_add_node(struct kube_bundle *b, const struct yaml_node *node,
                            struct kube_object at, int depth);

static void add_list(struct kube_bundle *b, const struct yaml_node *list, const char *inner,
                     struct kube_object at, int depth)
{
    at.list = inner == NULL ? list : NULL;
    at.item = 0;
    YAML_FOREACH(item, list) {
        at.entry = inner == NULL ? NULL : item;
        bundle_add_node(b, inner == NULL ? item : kube_get(item, inner), at, depth);
        at.item++;
    }
}

bool kube_makes_pods(enum kube_type type)
{
    return type >= KUBE_DEPLOYMENT && type != KUBE_APPWRAPPER && type != KUBE_MCAD;
}

/* Objects that a controller makes of parts of this one: the trials of a Katib Experiment and the
 * like. Their fields hold parameters of that controller. */
static void add_templates(struct kube_bundle *b, const struct yaml_node *node,
                          struct kube_object at, int depth)
{
    if (node == NULL || node->kind == YAML_SCALAR || node->alias || depth > NEST_MAX)
        return;
    for (size_t i = 0; i < node->count; i++) {
        const struct yaml_node *part = yaml_child(node, i);
        enum kube_type type = kube_type_of(part);

        if (kube_makes_pods(type) && kube_get(part, "spec") != NULL)
            bundle_add_node(b, part, at, depth);
        else
            add_templates(b, part, at, depth);
    }
}

static void bundle_add_node(struct kube_bundle *b, const struct yaml_node *node,
                            struct kube_object at, int depth)
{
    struct kube_object *o;
    const char *kind = kube_text(node, "kind"), *name = kube_text(node, "metadata.name");
    const char *namespace = kube_text(node, "metadata.namespace");

    if (node == NULL || node->kind != YAML_MAPPING || depth++ > NEST_MAX)
        return;
    /* An AppWrapper makes its parts in its own namespace, MCAD in `default`. */
    if (*namespace == '\0' && at.wrapper != NULL)
    namespace = at.wrapper->type == KUBE_MCAD ? "default" : at.wrapper->namespace;
    if (text_ends_with(kind, "List") && kube_get(node, "items") != NULL) {
        add_list(b, kube_get(node, "items"), NULL, at, depth);
        return;
    }
    if (b->count == KUBE_OBJECTS_MAX) {
        b->overflow = true;
        return;
    }
    o = arena_alloc(&b->arena, sizeof *o);
    *o = at;
    o->type = kube_type_of(node);
    o->node = node;
    o->spec = kube_get(node, is_cron(node) ? "spec.jobTemplate.spec" : "spec");
    o->kind = kind;
    o->name = name;
    o->namespace = namespace;
    o->title = arena_text(&b->arena, "%s %s", *kind == '\0' ? "object" : kind,
                          *name == '\0' ? "without a name" : name);
    o->index = b->count;
    arena_push(&b->arena, b->objects, b->count, b->cap) = o;
    at.wrapper = o;
    at.templated = at.templated || o->type == KUBE_OTHER;
    if (o->type == KUBE_APPWRAPPER)
        add_list(b, kube_get(o->spec, "components"), "template", at, depth);
    if (o->type == KUBE_MCAD) {
        add_list(b, kube_get(o->spec, "resources.GenericItems"), "generictemplate", at, depth);
        add_list(b, kube_get(o->spec, "resources.Items"), "template", at, depth);
    }
    if (o->type == KUBE_OTHER)
        add_templates(b, o->spec, at, depth);
}

void kube_add_file(struct kube_bundle *b, const struct yaml_file *file)
{
    bool templated = kube_find_placeholder(file) != NULL;

    for (size_t i = 0; i < file->count; i++)
        bundle_add_node(b, file->docs[i].root,
                        (struct kube_object){.doc = &file->docs[i], .templated = templated}, 0);
}

void kube_free(struct kube_bundle *b)
{
    arena_free(&b->arena);
    *b = (struct kube_bundle){0};
}

bool kube_has_plugin(const struct kube_object *o, const char *name)
{
    return ANY(YAML_FOREACH_PAIR(plugin, kube_get(o->spec, "plugins")),
               yaml_is(plugin->key, name) ||
                   (strcmp(name, "svc") == 0 &&
                    text_is(plugin->key->text, "pytorch", "tensorflow", "mpi", "ray")));
}

/* --- A hash table of lists. --- */

struct kube_index_entry {
    struct kube_index_entry *next;
    uint64_t hash;
    const char *scope, *name;
    size_t name_len;
    size_t *list;
    size_t count, cap;
};

static uint64_t index_hash(const char *scope, const char *name, size_t name_len)
{
    return 31 * text_hash(scope, strlen(scope)) + text_hash(name, name_len);
}

static struct kube_index_entry *index_find_entry(const struct kube_index *i, uint64_t hash,
                                                 const char *scope, const char *name,
                                                 size_t name_len)
{
    struct kube_index_entry *e =
        i->bucket_count == 0 ? NULL : i->buckets[hash & (i->bucket_count - 1)];

    while (e != NULL && (e->hash != hash || e->name_len != name_len ||
                         memcmp(e->name, name, name_len) != 0 || strcmp(e->scope, scope) != 0))
        e = e->next;
    return e;
}

static void index_widen(struct arena *a, struct kube_index *i)
{
    size_t count = i->bucket_count == 0 ? 64 : i->bucket_count * 2;
    struct kube_index_entry **buckets = arena_alloc(a, count * sizeof(struct kube_index_entry *));

    for (size_t b = 0; b < i->bucket_count; b++) {
        for (struct kube_index_entry *e = i->buckets[b], *next; e != NULL; e = next) {
            next = e->next;
            e->next = buckets[e->hash & (count - 1)];
            buckets[e->hash & (count - 1)] = e;
        }
    }
    i->buckets = buckets;
    i->bucket_count = count;
}

void kube_index_add(struct arena *a, struct kube_index *i, const char *scope, const char *name,
                    size_t value)
{
    size_t len = strlen(name);
    uint64_t hash = index_hash(scope, name, len);
    struct kube_index_entry *e = index_find_entry(i, hash, scope, name, len);

    if (e == NULL) {
        if (i->count++ >= i->bucket_count)
            index_widen(a, i);
        e = arena_alloc(a, sizeof *e);
        *e = (struct kube_index_entry){.next = i->buckets[hash & (i->bucket_count - 1)],
                                       .hash = hash,
                                       .scope = arena_copy(a, scope, strlen(scope)),
                                       .name = arena_copy(a, name, len),
                                       .name_len = len};
        i->buckets[hash & (i->bucket_count - 1)] = e;
    }
    arena_push(a, e->list, e->count, e->cap) = value;
}

bool kube_index_is_new(struct arena *a, struct kube_index *i, const char *scope, const char *name)
{
    bool is_new = kube_index_find(i, scope, name).count == 0;

    if (is_new)
        kube_index_add(a, i, scope, name, 0);
    return is_new;
}

struct kube_hits kube_index_find(const struct kube_index *i, const char *scope, const char *name)
{
    return kube_index_find_part(i, scope, name, strlen(name));
}

struct kube_hits kube_index_find_part(const struct kube_index *i, const char *scope,
                                      const char *name, size_t name_len)
{
    const struct kube_index_entry *e =
        index_find_entry(i, index_hash(scope, name, name_len), scope, name, name_len);

    return e == NULL ? (struct kube_hits){0} : (struct kube_hits){e->list, e->count};
}
