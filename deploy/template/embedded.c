/* Finds data files by name, and parses them. */
#include "deploy/template/files.h"

#include "deploy/yaml/options.h"

#include <stdio.h>
#include <string.h>

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
    bool ok;

    if (data->count == sizeof data->files / sizeof *data->files)
        return options_error(d, "too many files: give fewer profiles");
    if (!own && built_in == NULL)
        return yaml_error(
            d, at, "there is no %.*s %s: choose one of %s; or name a file, such as ./mine.yaml",
            (int)strlen(kind) - 1, kind, name, embedded_names(&d->arena, kind));
    ok = own ? yaml_file_read(f, name, YAML_USER_MAX, d)
             : yaml_file_parse(f, built_in->path, built_in->bytes, built_in->len, d);
    if (ok && yaml_refuse_twice(f, 0, f->len, d)) {
        yaml_file_free(f);
        ok = false;
    }
    if (!ok)
        return NULL;
    data->count++;
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
