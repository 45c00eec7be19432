/* The etcd half of the model. See model.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/sim/model.h"

#define SECOND INT64_C(1000000000)

enum {
    NOT_FOUND = 100,
    COMPARE_FAILED = 101,
    NOT_A_FILE = 102,
    NOT_A_DIRECTORY = 104,
    EXISTS = 105,
    ROOT = 107,
    NOT_EMPTY = 108
};

static void *grow(void *array, size_t count, size_t size)
{
    void *wider = realloc(array, (count + 1) * size);

    if (wider == NULL)
        abort();
    return wider;
}

static char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static char *format(const char *fmt, ...)
{
    va_list args;
    char *out;

    va_start(args, fmt);
    if (vasprintf(&out, fmt, args) < 0)
        abort();
    va_end(args);
    return out;
}

/* `out` with more behind it. */
static char *join(char *out, char *more)
{
    char *both = format("%s%s", out, more);

    free(out);
    free(more);
    return both;
}

/* --- Paths. --- */

static struct model_node *find_node(const struct model *m, const char *path)
{
    for (size_t i = 0; i < m->node_count; i++) {
        if (strcmp(m->nodes[i].path, path) == 0)
            return &m->nodes[i];
    }
    return NULL;
}

/* "/a/b" is below "/a" and below "/". */
static bool is_below(const char *path, const char *dir)
{
    size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);

    return strncmp(path, dir, len) == 0 && path[len] == '/' && path[len + 1] != '\0';
}

/* What a path leads to: 0, or a code and the part of the path that is to blame. */
static int walk(const struct model *m, const char *path, struct model_node **out, char **blame)
{
    char *part = format("%s", path);

    *out = NULL;
    *blame = NULL;
    for (size_t i = 1; strcmp(path, "/") != 0 && i <= strlen(path); i++) {
        struct model_node *n;

        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        n = find_node(m, part);
        if (n == NULL || (!n->dir && path[i] == '/')) {
            *blame = part;
            return n == NULL ? NOT_FOUND : NOT_A_DIRECTORY;
        }
    }
    free(part);
    *out = find_node(m, path);
    return 0;
}

/* --- Text. --- */

static char *time_text(int64_t ns)
{
    int64_t seconds = ns / SECOND, fraction = ns % SECOND;
    struct tm tm;
    time_t t;
    char *out;

    if (fraction < 0) {
        seconds--;
        fraction += SECOND;
    }
    t = (time_t)seconds;
    gmtime_r(&t, &tm);
    out = format("%04d-%02d-%02dT%02d:%02d:%02d.%09lld", tm.tm_year + 1900, tm.tm_mon + 1,
                 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (long long)fraction);
    while (out[strlen(out) - 1] == '0')
        out[strlen(out) - 1] = '\0';
    if (out[strlen(out) - 1] == '.')
        out[strlen(out) - 1] = '\0';
    return out;
}

/* Whole seconds, rounded up; the difference saturates as Go's does. */
static int64_t ttl_of(int64_t at_ns, int64_t now_ns)
{
    __int128 left = (__int128)at_ns - now_ns;

    left = left > INT64_MAX ? INT64_MAX : left < INT64_MIN ? INT64_MIN : left;
    return (int64_t)(left / SECOND + (left % SECOND > 0));
}

/* A node as clients see it; `children` is what stands between its halves. The simulation's keys and
 * values need no escapes. */
static char *node_text(const struct model_node *n, bool with_value, uint64_t modified,
                       int64_t now_ns, const char *children)
{
    char *out = format("{");

    if (strcmp(n->path, "/") != 0)
        out = join(out, format("\"key\":\"%s\",", n->path));
    if (!n->dir && with_value)
        out = join(out, format("\"value\":\"%s\",", n->value.ptr));
    if (n->dir)
        out = join(out, format("\"dir\":true,"));
    if (n->expires) {
        char *at = time_text(n->at_ns);

        out = join(out, format("\"expiration\":\"%sZ\",", at));
        free(at);
        if (ttl_of(n->at_ns, now_ns) != 0)
            out = join(out, format("\"ttl\":%" PRId64 ",", ttl_of(n->at_ns, now_ns)));
    }
    if (children[0] != '\0')
        out = join(out, format("\"nodes\":[%s],", children));
    if (modified != 0)
        out = join(out, format("\"modifiedIndex\":%" PRIu64 ",", modified));
    if (n->created != 0)
        out = join(out, format("\"createdIndex\":%" PRIu64 ",", n->created));
    out[strlen(out) - 1] = '}'; /* the last comma; there is always one */
    return out;
}

static bool is_hidden(const char *path)
{
    return strrchr(path, '/')[1] == '_';
}

/* The next visible child of `dir` in byte order behind `after`. */
static struct model_node *next_child(const struct model *m, const char *dir, const char *after)
{
    struct model_node *best = NULL;

    for (size_t i = 0; i < m->node_count; i++) {
        struct model_node *n = &m->nodes[i];
        const char *name = n->path + (strcmp(dir, "/") == 0 ? 0 : strlen(dir));

        if (!is_below(n->path, dir) || strchr(name + 1, '/') != NULL || is_hidden(n->path))
            continue;
        if ((after == NULL || strcmp(n->path, after) > 0) &&
            (best == NULL || strcmp(n->path, best->path) < 0))
            best = n;
    }
    return best;
}

static char *list_text(const struct model *m, const struct model_node *n, bool recursive, bool top,
                       int64_t now_ns)
{
    char *children = format("%s", ""), *out;
    const struct model_node *child = NULL;

    while (n->dir && (top || recursive) &&
           (child = next_child(m, n->path, child == NULL ? NULL : child->path)) != NULL) {
        if (children[0] != '\0')
            children = join(children, format(","));
        children = join(children, list_text(m, child, recursive, false, now_ns));
    }
    out = node_text(n, true, n->modified, now_ns, children);
    free(children);
    return out;
}

struct model_result model_list(const struct model *m, const char *path, bool recursive,
                               int64_t now_ns)
{
    struct model_node *n;
    char *blame;
    int code = walk(m, path, &n, &blame);
    char *text;

    if (code != 0)
        return (struct model_result){code, blame};
    text = list_text(m, n, recursive, true, now_ns);
    blame = format("{\"action\":\"get\",\"node\":%s}\n", text);
    free(text);
    return (struct model_result){0, blame};
}

/* --- Watches. --- */

static void tell(struct model_watch *w, const struct model_event *e)
{
    if (!w->registered || e->index < w->since)
        return;
    w->told = grow(w->told, w->told_count, sizeof *w->told);
    w->told[w->told_count++] = format("%s", e->json);
    if (!w->stream) {
        w->ended = true;
        w->registered = false;
    }
}

static bool hidden_between(const char *dir, const char *path)
{
    return strstr(path + (strcmp(dir, "/") == 0 ? 0 : strlen(dir)), "/_") != NULL;
}

/* A node went with the directory (or by itself) that the event is about. */
static void tell_removed(struct model *m, const struct model_event *e, const char *path)
{
    for (size_t i = 0; i < m->watch_count; i++) {
        if (strcmp(m->watches[i].path, path) == 0)
            tell(&m->watches[i], e);
    }
}

static void publish(struct model *m, struct model_event e)
{
    e.index = ++m->index;
    m->events = grow(m->events, m->event_count, sizeof *m->events);
    m->events[m->event_count++] = e;
    for (size_t i = 0; i < m->watch_count && !e.refresh; i++) {
        struct model_watch *w = &m->watches[i];

        if (strcmp(w->path, e.key) == 0 ||
            (w->recursive && is_below(e.key, w->path) && !hidden_between(w->path, e.key)))
            tell(w, &e);
    }
}

/* The history compares as plain text, and does not look at what is hidden. */
static bool matches_past(const struct model_event *e, const char *path, bool recursive)
{
    if (e->refresh)
        return false;
    return strcmp(e->key, path) == 0 || (recursive && is_below(e->key, path)) ||
           (e->removed_dir && strncmp(path, e->key, strlen(e->key)) == 0);
}

bool model_watch(struct model *m, uint64_t id, const char *path, bool recursive, bool stream,
                 uint64_t since)
{
    struct model_watch w = {.id = id, .recursive = recursive, .stream = stream, .since = since};

    if (since == 0)
        w.since = m->index + 1;
    if (m->index >= 1000 && w.since < m->index - 999)
        return false;
    w.path = format("%s", path);
    w.registered = true;
    /* Events begin behind index 3, where a fresh etcd is. */
    for (uint64_t index = w.since > 4 ? w.since : 4; index <= m->index; index++) {
        const struct model_event *e = &m->events[index - 4];

        if (!matches_past(e, path, recursive))
            continue;
        tell(&w, e);
        w.registered = false;
        break;
    }
    m->watches = grow(m->watches, m->watch_count, sizeof *m->watches);
    m->watches[m->watch_count++] = w;
    return true;
}

struct model_watch *model_find_watch(struct model *m, uint64_t id)
{
    for (size_t i = 0; i < m->watch_count; i++) {
        if (m->watches[i].id == id)
            return &m->watches[i];
    }
    return NULL;
}

static void free_watch(struct model_watch *w)
{
    for (size_t i = 0; i < w->told_count; i++)
        free(w->told[i]);
    free(w->told);
    free(w->path);
}

void model_unwatch(struct model *m, uint64_t id)
{
    struct model_watch *w = model_find_watch(m, id);

    free_watch(w);
    *w = m->watches[--m->watch_count];
}

/* --- Changes. --- */

static struct model_node *add_node(struct model *m, const char *path, bool dir, const char *value)
{
    struct model_node *n;

    m->nodes = grow(m->nodes, m->node_count, sizeof *m->nodes);
    n = &m->nodes[m->node_count++];
    *n = (struct model_node){.path = format("%s", path),
                             .dir = dir,
                             .value = bytes_copy(value, strlen(value)),
                             .created = m->index + 1,
                             .modified = m->index + 1};
    return n;
}

static void free_node(struct model *m, struct model_node *n)
{
    free(n->path);
    bytes_free(&n->value);
    *n = m->nodes[--m->node_count];
}

static void set_deadline(struct model *m, struct model_node *n, bool expires, int64_t at_ns)
{
    n->expires = expires;
    n->at_ns = at_ns;
    if (expires)
        n->age = m->next_age++;
}

static char *event_text(const char *action, char *node, char *prev)
{
    char *out = prev == NULL ? format("{\"action\":\"%s\",\"node\":%s}\n", action, node)
                             : format("{\"action\":\"%s\",\"node\":%s,\"prevNode\":%s}\n", action,
                                      node, prev);

    free(node);
    free(prev);
    return out;
}

static struct model_result failure(int code, const char *blame)
{
    return (struct model_result){code, format("%s", blame)};
}

static struct model_result done(struct model *m, const char *key, char *json, bool refresh)
{
    publish(m, (struct model_event){
                   .key = format("%s", key), .json = format("%s", json), .refresh = refresh});
    return (struct model_result){0, json};
}

/* set, create and POST. */
static struct model_result put(struct model *m, const char *path, const char *action, bool replace,
                               const struct model_change *c)
{
    struct model_node *n, *old = find_node(m, path);
    struct bytes value;
    char *prev = NULL, *json, *blame, *dir;
    int code;

    if (strcmp(path, "/") == 0)
        return failure(ROOT, "/");
    if (old != NULL && !replace)
        return failure(EXISTS, path);
    if (old != NULL && old->dir)
        return failure(NOT_A_FILE, path);
    code = walk(m, path, &n, &blame);
    if (code == NOT_A_DIRECTORY)
        return (struct model_result){code, blame};
    free(blame);

    value = replace && c->refresh && old != NULL ? bytes_copy(old->value.ptr, old->value.len)
                                                 : bytes_copy(c->value, strlen(c->value));
    if (old != NULL) {
        prev = node_text(old, true, old->modified, c->now_ns, "");
        free_node(m, old);
    }
    dir = format("%s", path);
    for (size_t i = 1; dir[i] != '\0'; i++) {
        if (dir[i] != '/')
            continue;
        dir[i] = '\0';
        if (find_node(m, dir) == NULL)
            add_node(m, dir, true, "");
        dir[i] = '/';
    }
    free(dir);
    n = add_node(m, path, c->dir, c->dir ? "" : value.ptr);
    bytes_free(&value);
    set_deadline(m, n, c->expires_ns >= INT64_C(946684800) * SECOND, c->expires_ns);
    json = event_text(action, node_text(n, true, n->modified, c->now_ns, ""), prev);
    return done(m, path, json, replace && c->refresh);
}

static struct model_result change_in_place(struct model *m, struct model_node *n,
                                           const char *action, const struct model_change *c)
{
    char *prev = node_text(n, true, n->modified, c->now_ns, "");

    if (!n->dir && !c->refresh) {
        bytes_free(&n->value);
        n->value = bytes_copy(c->value, strlen(c->value));
    }
    if (!n->dir)
        n->modified = m->index + 1;
    set_deadline(m, n, c->expires_ns != 0, c->expires_ns);
    return done(m, n->path,
                event_text(action, node_text(n, true, m->index + 1, c->now_ns, ""), prev),
                c->refresh);
}

/* With the key of the root, too, which listings do not show. */
static char *named_text(const struct model_node *n, bool with_value, uint64_t modified,
                        int64_t now_ns)
{
    char *text = node_text(n, with_value, modified, now_ns, ""), *named;

    if (strcmp(n->path, "/") != 0)
        return text;
    named = format("{\"key\":\"/\",%s", text + 1);
    free(text);
    return named;
}

static struct model_result remove_tree(struct model *m, const char *key, const char *action,
                                       int64_t now_ns)
{
    struct model_node *n = find_node(m, key), gone = *n;
    struct model_event e = {.index = m->index + 1,
                            .key = format("%s", key),
                            .removed_dir = n->dir && strcmp(action, "compareAndDelete") != 0};
    char *prev = named_text(n, true, n->modified, now_ns);

    gone.path = e.key;
    gone.expires = false;
    e.json = event_text(action, named_text(&gone, false, e.index, now_ns), prev);
    for (size_t i = m->node_count; i-- > 0;) { /* free_node() moves the last one here */
        if (strcmp(m->nodes[i].path, e.key) != 0 && !is_below(m->nodes[i].path, e.key))
            continue;
        if (strcmp(m->nodes[i].path, "/") != 0)
            tell_removed(m, &e, m->nodes[i].path);
        free_node(m, &m->nodes[i]);
    }
    publish(m, e);
    return (struct model_result){0, format("%s", e.json)};
}

/* A key that is what the change compares with. */
static struct model_result compare(const struct model *m, const struct model_change *c,
                                   struct model_node **n)
{
    struct model_result r = {0};

    r.code = walk(m, c->path, n, &r.text);
    if (r.code != 0)
        return r;
    if ((*n)->dir)
        return failure(NOT_A_FILE, strcmp(c->path, "/") == 0 ? "" : c->path);
    if ((c->prev_value[0] != '\0' && strcmp(c->prev_value, (*n)->value.ptr) != 0) ||
        (c->prev_index != 0 && c->prev_index != (*n)->modified))
        return failure(COMPARE_FAILED, c->path);
    return r;
}

static struct model_result set(struct model *m, const struct model_change *c)
{
    struct model_node *n;
    char *blame;
    int code = walk(m, c->path, &n, &blame);

    if (code != 0 && c->refresh)
        return (struct model_result){code, blame};
    free(blame);
    return put(m, c->path, "set", true, c);
}

static struct model_result post(struct model *m, const struct model_change *c)
{
    char *key = format("%s/%020" PRIu64, strcmp(c->path, "/") == 0 ? "" : c->path, m->index + 1);
    struct model_result r = put(m, key, "create", false, c);

    free(key);
    return r;
}

static struct model_result update(struct model *m, const struct model_change *c)
{
    struct model_result r = {0};
    struct model_node *n;

    if (strcmp(c->path, "/") == 0)
        return failure(ROOT, "/");
    r.code = walk(m, c->path, &n, &r.text);
    if (r.code != 0)
        return r;
    if (n->dir && c->value[0] != '\0')
        return failure(NOT_A_FILE, c->path);
    return change_in_place(m, n, "update", c);
}

static struct model_result delete (struct model *m, const struct model_change *c)
{
    struct model_result r = {0};
    struct model_node *n;

    if (strcmp(c->path, "/") == 0)
        return failure(ROOT, "/");
    r.code = walk(m, c->path, &n, &r.text);
    if (r.code != 0)
        return r;
    if (n->dir && !c->recursive && !c->dir)
        return failure(NOT_A_FILE, c->path);
    for (size_t i = 0; n->dir && !c->recursive && i < m->node_count; i++) {
        if (is_below(m->nodes[i].path, c->path))
            return failure(NOT_EMPTY, c->path);
    }
    return remove_tree(m, c->path, "delete", c->now_ns);
}

struct model_result model_change(struct model *m, enum model_operation op,
                                 const struct model_change *c)
{
    struct model_result r;
    struct model_node *n;

    switch (op) {
    case MODEL_SET:
        return set(m, c);
    case MODEL_CREATE:
        return put(m, c->path, "create", false, c);
    case MODEL_POST:
        return post(m, c);
    case MODEL_UPDATE:
        return update(m, c);
    case MODEL_REMOVE:
        return delete (m, c);
    case MODEL_SWAP:
        if (strcmp(c->path, "/") == 0)
            return failure(ROOT, "/");
        r = compare(m, c, &n);
        return r.code != 0 ? r : change_in_place(m, n, "compareAndSwap", c);
    case MODEL_SWAP_REMOVE:
        r = compare(m, c, &n);
        return r.code != 0 ? r : remove_tree(m, c->path, "compareAndDelete", c->now_ns);
    }
    abort();
}

size_t model_expire(struct model *m, int64_t now_ns)
{
    size_t count = 0;

    for (;; count++) {
        struct model_node *first = NULL;
        char *path;

        for (size_t i = 0; i < m->node_count; i++) {
            struct model_node *n = &m->nodes[i];

            if (n->expires && n->at_ns <= now_ns &&
                (first == NULL || n->at_ns < first->at_ns ||
                 (n->at_ns == first->at_ns && n->age < first->age)))
                first = n;
        }
        if (first == NULL)
            return count;
        path = format("%s", first->path);
        free(remove_tree(m, path, "expire", now_ns).text);
        free(path);
    }
}

static void add_root(struct model *m)
{
    add_node(m, "/", true, "");
    m->nodes[m->node_count - 1].created = m->nodes[m->node_count - 1].modified = 0;
}

size_t model_clear(struct model *m, int64_t now_ns)
{
    size_t count = m->node_count - 1;

    if (count == 0)
        return 0;
    free(remove_tree(m, "/", "delete", now_ns).text);
    add_root(m);
    return count;
}

/* --- The whole. --- */

void model_init(struct model *m)
{
    *m = (struct model){.index = 3};
    add_root(m);
}

void model_fini(struct model *m)
{
    model_stores_fini(m);
    model_forget(m);
    while (m->waiter_count > 0)
        model_cancel(m, m->waiters[0].id);
    while (m->watch_count > 0)
        model_unwatch(m, m->watches[0].id);
    while (m->node_count > 0)
        free_node(m, &m->nodes[0]);
    for (size_t i = 0; i < m->event_count; i++) {
        free(m->events[i].key);
        free(m->events[i].json);
    }
    free(m->keys);
    free(m->elements);
    free(m->waiters);
    free(m->ready);
    free(m->nodes);
    free(m->events);
    free(m->watches);
}
