/* Reads a bundle, and takes Lists and AppWrappers apart. */
#include "deploy/rewrite/rewrite_bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_or_empty(const struct yaml_node *n)
{
    const char *text = yaml_text(n);

    return text == NULL ? "" : text;
}

bool bundle_same_namespace(const char *a, const char *b)
{
    return *a == '\0' || *b == '\0' || strcmp(a, b) == 0;
}

static void note(struct bundle *b, const struct yaml_node *at, enum diag_kind kind,
                 const char *format, va_list args)
{
    char *text = arena_vtext(&b->arena, format, args);

    if (kind == DIAG_ERROR)
        diag_error(b->diag, at->file, at->start, "%s", text);
    else
        diag_note(b->diag, at->file, at->start, "%s", text);
}

void bundle_note(struct bundle *b, const struct yaml_node *at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    note(b, at, DIAG_NOTE, format, args);
    va_end(args);
}

void bundle_error(struct bundle *b, const struct yaml_node *at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    note(b, at, DIAG_ERROR, format, args);
    va_end(args);
}

const char *object_title(struct bundle *b, const struct object *o)
{
    return arena_text(&b->arena, "%s %s", *o->kind == '\0' ? "object" : o->kind,
                      *o->name == '\0' ? "without a name" : o->name);
}

/* --- Objects. --- */

static struct object *add_object(struct bundle *b, struct object proto)
{
    struct object *o = arena_alloc(&b->arena, sizeof *o);

    *o = proto;
    o->kind = text_or_empty(yaml_get(o->node, "kind"));
    o->name = text_or_empty(yaml_path(o->node, "metadata.name"));
    o->namespace = text_or_empty(yaml_path(o->node, "metadata.namespace"));
    if (b->count == b->cap) {
        size_t cap = b->cap == 0 ? 16 : b->cap * 2;

        b->objects = arena_grow(&b->arena, b->objects, b->cap * sizeof o, cap * sizeof o);
        b->cap = cap;
    }
    b->objects[b->count++] = o;
    return o;
}

/* The objects that are written inside of an AppWrapper, of either group. */
static void add_wrapped(struct bundle *b, struct object *wrapper)
{
    static const struct {
        const char *list, *item;
    } places[] = {
        {"spec.components", "template"},
        {"spec.resources.GenericItems", "generictemplate"},
        {"spec.resources.Items", "template"},
    };

    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        const struct yaml_node *list = yaml_path(wrapper->node, places[p].list);

        for (size_t i = 0; list != NULL && list->kind == YAML_SEQUENCE && i < list->count; i++) {
            struct yaml_node *inner = yaml_get(list->items[i], places[p].item);

            if (inner != NULL && inner->kind == YAML_MAPPING)
                add_object(b, (struct object){.file = wrapper->file,
                                              .doc = wrapper->doc,
                                              .node = inner,
                                              .wrapper = wrapper});
        }
    }
}

static void add_root(struct bundle *b, struct object proto)
{
    struct object *o;
    struct yaml_node *items = yaml_get(proto.node, "items");
    size_t len;

    if (proto.node == NULL || proto.node->kind != YAML_MAPPING)
        return;
    o = add_object(b, proto);
    len = strlen(o->kind);
    if (len >= 4 && strcmp(o->kind + len - 4, "List") == 0 && items != NULL &&
        items->kind == YAML_SEQUENCE) {
        for (size_t i = 0; i < items->count; i++)
            add_root(b, (struct object){.file = proto.file,
                                        .doc = proto.doc,
                                        .node = items->items[i],
                                        .list = items,
                                        .index = i});
        return;
    }
    if (strcmp(o->kind, "AppWrapper") == 0)
        add_wrapped(b, o);
}

/* --- Files. --- */

/* A template of helm's, or of another engine's, is no YAML before it is rendered; what the reader
 * of YAML says about it helps nobody, so the line with the braces is named. */
static void explain_template(struct bundle *b, const char *path)
{
    char *line = NULL;
    size_t cap = 0;
    struct yaml_mark mark = {0};
    FILE *f = strcmp(path, "-") == 0 ? NULL : fopen(path, "re");

    while (f != NULL && getline(&line, &cap, f) >= 0) {
        const char *at = strstr(line, "{{");

        mark.line++;
        if (at == NULL)
            at = strstr(line, "{%");
        if (at == NULL || line[strspn(line, " ")] == '#')
            continue;
        mark.column = (unsigned)(at - line) + 1;
        diag_error(b->diag, path, mark,
                   "this is a template: render it first (helm template), and rewrite what comes "
                   "out");
        break;
    }
    free(line);
    if (f != NULL)
        fclose(f);
}

static void add_file(struct bundle *b, struct bundle_file *f)
{
    const char *nl = memchr(f->yaml.bytes, '\n', f->yaml.len);

    f->eol = nl != NULL && nl > f->yaml.bytes && nl[-1] == '\r' ? "\r\n" : "\n";
    for (size_t i = 0; i < f->yaml.count; i++)
        add_root(b,
                 (struct object){.file = f, .doc = &f->yaml.docs[i], .node = f->yaml.docs[i].root});
}

static bool read_file(struct bundle *b, struct bundle_file *f, const char *path)
{
    f->path = path;
    if (!yaml_file_read(&f->yaml, path, YAML_SIZE_MAX, b->diag)) {
        explain_template(b, path);
        return false;
    }
    add_file(b, f);
    return true;
}

bool bundle_read(struct bundle *b)
{
    const struct rewrite_options *o = b->options;
    bool ok = true;

    b->files = arena_alloc(&b->arena, o->path_count * sizeof *b->files);
    for (; b->file_count < o->path_count; b->file_count++)
        ok = read_file(b, &b->files[b->file_count], o->paths[b->file_count]) && ok;
    return ok;
}

bool bundle_parse(struct bundle *b, const char *name, const char *bytes, size_t len)
{
    b->files = arena_alloc(&b->arena, sizeof *b->files);
    b->files->path = name;
    if (!yaml_file_parse(&b->files->yaml, name, bytes, len, b->diag))
        return false;
    b->file_count = 1;
    add_file(b, b->files);
    return true;
}

void bundle_free(struct bundle *b)
{
    for (size_t i = 0; i < b->file_count; i++)
        yaml_file_free(&b->files[i].yaml);
    arena_free(&b->arena);
}

/* --- Pod specs. --- */

static void add_pod_spec(struct bundle *b, struct yaml_node *spec, struct yaml_node *around,
                         struct pod_specs *out)
{
    if (out->count == out->cap) {
        size_t cap = out->cap == 0 ? 8 : out->cap * 2;

        out->list = arena_grow(&b->arena, out->list, out->cap * sizeof spec, cap * sizeof spec);
        out->templates =
            arena_grow(&b->arena, out->templates, out->cap * sizeof spec, cap * sizeof spec);
        out->cap = cap;
    }
    out->list[out->count] = spec;
    out->templates[out->count++] = around;
}

static void find_in(struct bundle *b, struct yaml_node *node, struct yaml_node *around,
                    struct pod_specs *out)
{
    const struct yaml_node *containers = node->alias ? NULL : yaml_get(node, "containers");

    if (containers != NULL && containers->kind == YAML_SEQUENCE && containers->count > 0 &&
        containers->items[0]->kind == YAML_MAPPING) {
        add_pod_spec(b, node, around, out);
        return;
    }
    /* What an alias stands for is found where it is written. */
    if (node->kind == YAML_SCALAR || node->alias)
        return;
    for (size_t i = 0; i < node->count; i++)
        find_in(b, node->kind == YAML_MAPPING ? node->pairs[i].value : node->items[i], node, out);
}

void find_pod_specs(struct bundle *b, struct yaml_node *node, struct pod_specs *out)
{
    *out = (struct pod_specs){0};
    find_in(b, node, NULL, out);
}
