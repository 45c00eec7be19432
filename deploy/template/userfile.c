/* Reads files of settings and merges them. */
#include "deploy/template/userfile.h"

#include "deploy/template/merge.h"

#include <stdlib.h>
#include <string.h>

/* No file of settings has more entries in one collection. Later steps compare entries in pairs. */
#define ENTRIES_MAX 10000

static bool is_narrow(const struct yaml_node *n, struct diag *d)
{
    if (n->kind == YAML_SCALAR || n->alias)
        return true;
    if (n->count > ENTRIES_MAX) {
        diag_error(d, n->file, n->start,
                   "more than %d entries: settings have fewer, so this is "
                   "another kind of file",
                   ENTRIES_MAX);
        return false;
    }
    for (size_t i = 0; i < n->count; i++) {
        if (!is_narrow(n->kind == YAML_MAPPING ? n->pairs[i].value : n->items[i], d))
            return false;
    }
    return true;
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
    if (with_root > 1) {
        diag_error(d, f->name, second,
                   "a second document: a file of settings holds one, so "
                   "remove the `---`");
        return false;
    }
    if (root == NULL)
        return true; /* nothing, or comments alone */
    if (root->kind != YAML_MAPPING) {
        diag_error(d, f->name, root->start,
                   "settings are expected: write them as lines of `key: value`");
        return false;
    }
    if (!is_narrow(root, d))
        return false;
    u->settings = merge_files(&u->arena, u->settings, root);
    return true;
}

bool userfile_read(struct userfile *u, const char *const *paths, size_t path_count,
                   const char *const *sets, size_t set_count, struct diag *d)
{
    bool ok = true;

    *u = (struct userfile){0};
    u->files = calloc(path_count + 1, sizeof *u->files);
    if (u->files == NULL)
        abort();
    u->settings = yaml_new(&u->arena, YAML_MAPPING);
    for (size_t i = 0; i < path_count; i++) {
        struct yaml_file file;

        ok = yaml_file_read(&file, paths[i], YAML_USER_MAX, d) && userfile_add(u, &file, d) && ok;
    }
    for (size_t i = 0; i < set_count && ok; i++)
        ok = userfile_set(&u->arena, &u->settings, sets[i], d);
    return ok;
}

void userfile_free(struct userfile *u)
{
    for (size_t i = 0; i < u->count; i++)
        yaml_file_free(&u->files[i]);
    free(u->files);
    arena_free(&u->arena);
    *u = (struct userfile){0};
}
