/* Finds data files by name; reads files of settings and --set, and merges them. */
#include "deploy/template/files.h"

#include "deploy/template/template.h"
#include "deploy/yaml/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most entries in one collection of a settings file. Later steps compare entries in pairs. */
#define ENTRIES_MAX 10000

#define INDEX_MAX 1000
#define PARTS_MAX 20 /* of the path of one --set */

static bool is_narrow(const struct yaml_node *n, struct diag *d)
{
    if (n->kind == YAML_SCALAR || n->alias)
        return true;
    if (n->count > ENTRIES_MAX)
        return diag_error(
            d, n->file, n->start,
            "more than %d entries: settings have fewer, so this is another kind of file",
            ENTRIES_MAX);
    return !ANY(for (size_t i = 0; i < n->count; i++), !is_narrow(yaml_child(n, i), d));
}

bool userfile_add(struct userfile *u, const struct yaml_file *file, struct diag *d)
{
    struct yaml_file *f = &u->files[u->count++];
    const struct yaml_node *root = NULL;
    struct yaml_mark second = {0};
    size_t with_root = 0;

    *f = *file;
    if (u->first == NULL)
        u->first = f->name;
    for (size_t i = 0; i < f->count; i++) {
        if (f->docs[i].root == NULL)
            continue;
        if (with_root++ == 0)
            root = f->docs[i].root;
        else
            second = f->docs[i].root->start;
    }
    if (with_root > 1)
        return diag_error(d, f->name, second,
                          "a second document: a file of settings holds one, so remove the `---`");
    if (root == NULL)
        return true; /* nothing, or comments alone */
    if (root->kind != YAML_MAPPING)
        return diag_error(d, f->name, root->start,
                          "settings are expected: write them as lines of `key: value`");
    if (!is_narrow(root, d))
        return false;
    u->settings = merge_nodes(MERGE_FILES, &u->arena, u->settings, root);
    return true;
}

/* --- --set: `a.b=c,d[0]=e`, a backslash in front of a character without its special meaning, {a,b}
 * for a list. --- */

struct set_reader {
    struct arena *arena;
    struct diag *diag;
    const char *argument, *p;
    const char *name; /* as messages have it */
};

static struct yaml_mark mark_in_argument(const struct set_reader *s)
{
    return (struct yaml_mark){(size_t)(s->p - s->argument), 1, (unsigned)(s->p - s->argument) + 1};
}

static void *fail_set(struct set_reader *s, const char *text)
{
    return diag_error(s->diag, s->name, mark_in_argument(s), "%s", text);
}

/* The text before the first unescaped byte of `ends`. */
static char *read_text(struct set_reader *s, const char *ends, size_t *len)
{
    char *text = arena_alloc(s->arena, strlen(s->p) + 1);

    *len = 0;
    while (*s->p != '\0' && strchr(ends, *s->p) == NULL) {
        if (*s->p == '\\' && s->p[1] != '\0')
            s->p++;
        text[(*len)++] = *s->p++;
    }
    return text;
}

static struct yaml_node *new_scalar(struct set_reader *s, struct yaml_mark at, const char *text,
                                    size_t len)
{
    struct yaml_node *n = yaml_new_text(s->arena, text, len);

    n->style = YAML_PLAIN; /* typed as in a file */
    n->file = s->name;
    n->start = n->end = at;
    return n;
}

static struct yaml_node *read_set_value(struct set_reader *s)
{
    struct yaml_mark at = mark_in_argument(s);
    struct yaml_node *list, *n;
    char *text;
    size_t len;

    if (*s->p != '{') {
        text = read_text(s, ",", &len);
        n = new_scalar(s, at, text, len);
        n->style = len == 0 ? YAML_DOUBLE : YAML_PLAIN; /* as helm: the empty text, and not null */
        return n;
    }
    list = yaml_new(s->arena, YAML_SEQUENCE);
    list->file = s->name;
    list->start = list->end = at;
    s->p++;
    while (*s->p != '}') {
        at = mark_in_argument(s);
        text = read_text(s, ",}", &len);
        if (*s->p == '\0')
            return fail_set(s, "a list does not end: write {a,b}");
        yaml_append(s->arena, list, new_scalar(s, at, text, len));
        s->p += *s->p == ',';
    }
    s->p++;
    return list;
}

/* --- Each puts the rest of the argument into a copy of `old`, which shares all nodes outside the
 * path with it. NULL: there is an error in the diag. --- */

static struct yaml_node *put_behind(struct set_reader *s, const struct yaml_node *old, int depth);

static struct yaml_node *copy_level(struct set_reader *s, const struct yaml_node *old,
                                    enum yaml_kind kind, const struct yaml_node *value)
{
    struct yaml_node *n = yaml_new(s->arena, kind);

    n->file = old == NULL ? s->name : old->file;
    n->start = old == NULL ? value->start : old->start;
    if (old == NULL || old->kind != kind)
        return n;
    YAML_FOREACH(item, old)
        yaml_append(s->arena, n, item);
    YAML_FOREACH_PAIR(pair, old)
        yaml_add(s->arena, n, pair->key, pair->value);
    return n;
}

static struct yaml_node *put_key(struct set_reader *s, const struct yaml_node *old, int depth)
{
    size_t len;
    const char *key = read_text(s, ".[=,", &len);
    struct yaml_node *value, *n;

    if (len == 0)
        return fail_set(s, "a key is empty: write --set key=value");
    value = put_behind(s, yaml_get(old, key), depth + 1);
    if (value == NULL)
        return NULL;
    n = copy_level(s, old, YAML_MAPPING, value);
    yaml_put(s->arena, n, key, value);
    if (yaml_get_pair(n, key)->key->file == NULL) {
        yaml_get_pair(n, key)->key->file = s->name;
        yaml_get_pair(n, key)->key->start = (struct yaml_mark){0, 1, 1};
    }
    return n;
}

static struct yaml_node *put_item(struct set_reader *s, const struct yaml_node *old, int depth)
{
    char *end;
    unsigned long index = strtoul(s->p + 1, &end, 10);
    struct yaml_node *value, *n;

    if (end == s->p + 1 || *end != ']' || s->p[1] == '-' || index > INDEX_MAX)
        return fail_set(s, "not an index: write [0] to [1000]");
    s->p = end + 1;
    value = put_behind(s, yaml_at(old, index), depth + 1);
    if (value == NULL)
        return NULL;
    n = copy_level(s, old, YAML_SEQUENCE, value);
    while (n->count <= index)
        yaml_append(s->arena, n, new_scalar(s, mark_in_argument(s), "null", 4));
    n->items[index] = value;
    return n;
}

/* Behind a key or an index. */
static struct yaml_node *put_behind(struct set_reader *s, const struct yaml_node *old, int depth)
{
    char next = *s->p;

    if (depth == PARTS_MAX && next != '=')
        return fail_set(s, "too many levels: give a file");
    if (next == '[')
        return put_item(s, old, depth);
    if (next != '=' && next != '.')
        return fail_set(s, "there is no value: write --set key=value");
    s->p++;
    return next == '=' ? read_set_value(s) : put_key(s, old, depth);
}

bool userfile_set(struct arena *a, struct yaml_node **settings, const char *argument,
                  struct diag *d)
{
    struct set_reader s = {.arena = a, .diag = d, .argument = argument, .p = argument};

    s.name = arena_text(a, "--set %s", argument);
    for (;;) {
        struct yaml_node *more = put_key(&s, *settings, 0);

        if (more == NULL)
            return false;
        *settings = more;
        if (*s.p == '\0')
            return true;
        if (*s.p != ',')
            return fail_set(&s, "a comma is expected between settings: write a=1,b=2");
        s.p++;
    }
}

/* --- All settings. --- */

bool userfile_read(struct userfile *u, const char *const *paths, size_t path_count,
                   const char *const *sets, size_t set_count, struct diag *d)
{
    bool ok = true;

    *u = (struct userfile){0};
    u->files = arena_alloc(&u->arena, (path_count + 1) * sizeof *u->files);
    u->settings = yaml_new(&u->arena, YAML_MAPPING);
    for (size_t i = 0; i < path_count; i++) {
        struct yaml_file file;

        ok = yaml_file_read(&file, paths[i], YAML_USER_MAX, d) && userfile_add(u, &file, d) &&
             !yaml_refuse_twice(&file, 0, SIZE_MAX, d) && ok;
    }
    for (size_t i = 0; i < set_count && ok; i++)
        ok = userfile_set(&u->arena, &u->settings, sets[i], d);
    return ok;
}

void userfile_free(struct userfile *u)
{
    for (size_t i = 0; i < u->count; i++)
        yaml_file_free(&u->files[i]);
    arena_free(&u->arena);
    *u = (struct userfile){0};
}

/* --- Data files, by name. --- */

const char *embedded_next(const char *kind, size_t *at, char *name, size_t size)
{
    size_t len = strlen(kind);

    while (*at < embedded_file_count) {
        const char *path = embedded_files[(*at)++].path, *dot = strrchr(path, '.');

        if (strncmp(path, kind, len) != 0 || path[len] != '/' || dot == NULL)
            continue;
        snprintf(name, size, "%.*s", (int)(dot - path - (ptrdiff_t)len - 1), path + len + 1);
        return name;
    }
    return NULL;
}

const char *embedded_names(struct arena *a, const char *kind)
{
    struct buf list = {.arena = a};
    char name[100];

    for (size_t at = 0; embedded_next(kind, &at, name, sizeof name) != NULL;)
        buf_print(&list, "%s%s", list.len == 0 ? "" : ", ", name);
    return list.text;
}

const struct embedded_file *embedded_find(const char *kind, const char *name)
{
    char path[200];

    snprintf(path, sizeof path, "%s%s%s.yaml", kind, kind[0] == '\0' ? "" : "/", name);
    return FIND(f, FOREACH(const struct embedded_file, f, embedded_files, embedded_file_count),
                strcmp(f->path, path) == 0);
}

struct yaml_node *embedded_load(struct embedded *data, const char *kind, const char *name,
                                const struct yaml_node *at, struct diag *d)
{
    struct yaml_file *f = &data->files[data->count];
    bool own = strchr(name, '/') != NULL || text_ends_with(name, ".yaml");
    const struct embedded_file *built_in = own ? NULL : embedded_find(kind, name);

    if (data->count == sizeof data->files / sizeof *data->files)
        return options_error(d, "too many files: give fewer profiles");
    if (!own && built_in == NULL)
        return yaml_error(
            d, at, "there is no %.*s %s: choose one of %s; or name a file, such as ./mine.yaml",
            (int)strlen(kind) - 1, kind, name, embedded_names(&d->arena, kind));
    if (!(own ? yaml_file_read(f, name, YAML_USER_MAX, d)
              : yaml_file_parse(f, built_in->path, built_in->bytes, built_in->len, d)))
        return NULL;
    data->count++; /* embedded_free() frees it, whatever is wrong with it */
    if (yaml_refuse_twice(f, 0, f->len, d))
        return NULL;
    if (f->count != 1 || f->docs[0].root == NULL || f->docs[0].root->kind != YAML_MAPPING)
        return diag_error(d, f->name, (struct yaml_mark){0, 1, 1},
                          "a mapping is expected: see deploy/data/%s for examples", kind);
    return f->docs[0].root;
}

void embedded_free(struct embedded *data)
{
    for (size_t i = 0; i < data->count; i++)
        yaml_file_free(&data->files[i]);
    data->count = 0;
}
