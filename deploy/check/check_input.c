/* Finds and reads manifests. A repository has more YAML than manifests: values of charts,
 * kustomizations, files of compose and of CI. In a folder these are skipped; a file that the user
 * names is meant. */
#include "deploy/check/check_verb.h"

#include <fnmatch.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct finder {
    struct check_options *options;
    struct check *check;
    struct diag *diag;
    size_t cap; /* of the check's files */
};

/* --- Contents. --- */

static bool has_objects(const struct yaml_file *f)
{
    return ANY(FOREACH(const struct yaml_doc, doc, f->docs, f->count),
               *kube_text(doc->root, "apiVersion") != '\0' &&
                   *kube_text(doc->root, "kind") != '\0');
}

static bool is_kustomization(const struct yaml_file *f)
{
    const char *name = kube_base_name(f->name);

    if (text_is(name, "kustomization.yaml", "kustomization.yml"))
        return true;
    return f->count > 0 &&
           strncmp(kube_text(f->docs[0].root, "apiVersion"), "kustomize.config.k8s.io/", 24) == 0;
}

/* Refuses documents that are no Kubernetes objects: check would otherwise find no faults there and
 * report success. Empty documents between `---` lines are common, but a file of nothing else is the
 * wrong file or a broken pipe. */
static void refuse_non_objects(const struct yaml_file *f, struct diag *d)
{
    size_t seen = 0;

    for (size_t i = 0; i < f->count; i++) {
        const struct yaml_node *root = f->docs[i].root;
        bool has_kind = *kube_text(root, "kind") != '\0';
        bool has_version = *kube_text(root, "apiVersion") != '\0';

        if (root == NULL || (root->kind == YAML_SCALAR && yaml_is_null(root)))
            continue;
        seen++;
        if (!has_kind || !has_version)
            diag_error(
                d, f->name, root->start,
                "this is no Kubernetes object, it has no %s: give check what kubectl apply accepts",
                has_kind      ? "apiVersion"
                : has_version ? "kind"
                              : "apiVersion and kind");
    }
    if (seen == 0)
        diag_error(d, f->name, (struct yaml_mark){0, 1, 1},
                   "no Kubernetes object in it: name a file of manifests, or pipe them to -");
}

/* Room for the next file, which joins the others once it is counted. */
static struct yaml_file *next_file(struct finder *f)
{
    struct check *c = f->check;

    c->files = arena_room(&f->options->arena, c->files, c->file_count, &f->cap, sizeof *c->files);
    return &c->files[c->file_count];
}

static void read_named(struct finder *f, const char *path)
{
    struct yaml_file *file = next_file(f);

    if (!yaml_file_read(file, path, YAML_SIZE_MAX, f->diag))
        return; /* and read the others: the user wants to know their errors as well */
    refuse_non_objects(file, f->diag);
    f->check->file_count++;
}

static bool has_text(const struct check_texts *texts, const char *text)
{
    return ANY(FOREACH_POINTER(const char, one, texts->list, texts->count), strcmp(one, text) == 0);
}

static void add_patch(struct finder *f, const struct yaml_file *file, const char *path)
{
    size_t folder = (size_t)(kube_base_name(file->name) - file->name);
    struct arena *a = &f->options->arena;
    char *full = realpath(arena_text(a, "%.*s%s", (int)folder, file->name, path), NULL);
    struct check_texts *to = &f->options->patches;

    if (full == NULL)
        return;
    arena_push(a, to->list, to->count, to->cap) = arena_copy(a, full, strlen(full));
    free(full);
}

/* The files that a kustomization lists as patches: parts of objects. */
static void find_patches(struct finder *f, const struct yaml_file *file)
{
    FOREACH_WORD(key, "patches", "patchesStrategicMerge", "patchesJson6902") {
        YAML_FOREACH(item, kube_get(file->docs[0].root, key))
            add_patch(f, file, item->kind == YAML_SCALAR ? item->text : kube_text(item, "path"));
    }
}

/* Leaves out the files of folders that are patches. */
static void drop_patches(struct finder *f)
{
    struct check *c = f->check;
    size_t kept = 0;

    for (size_t i = 0; i < c->file_count; i++) {
        char *full = i < c->named_count ? NULL : realpath(c->files[i].name, NULL);
        bool is_patch = full != NULL && has_text(&f->options->patches, full);

        free(full);
        f->options->skipped.others += is_patch;
        if (is_patch)
            yaml_file_free(&c->files[i]);
        else
            c->files[kept++] = c->files[i];
    }
    c->file_count = kept;
}

/* A file of a folder: it may be skipped. */
static void read_found(struct finder *f, const char *path)
{
    struct check_skipped *skipped = &f->options->skipped;
    struct yaml_file *file = next_file(f);
    struct diag said = {0};
    bool read = yaml_file_read(file, path, YAML_SIZE_MAX, &said);

    if (!read && file->is_template)
        skipped->templates++;
    else if (!read && text_ends_with(path, ".json") && !file->is_manifest)
        skipped->others++; /* with comments, or of lines */
    else
        diag_append(f->diag, &said);
    diag_free(&said);
    if (!read)
        return;
    if (is_kustomization(file)) {
        find_patches(f, file);
        skipped->kustomizations++;
    } else if (has_objects(file)) {
        refuse_non_objects(file, f->diag);
        f->check->file_count++;
        return;
    } else {
        skipped->others++;
    }
    yaml_file_free(file);
}

/* --- Files and folders. --- */

static bool path_is_excluded(const struct check_options *o, const char *path)
{
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    return ANY(FOREACH_POINTER(const char, pattern, o->excluded.list, o->excluded.count),
               fnmatch(pattern, path, 0) == 0);
}

static int compare_entries(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* A link to a folder could lead back; one to a file is read like a file. */
static void read_folder(struct finder *f, const char *folder)
{
    char *const roots[] = {arena_copy(&f->options->arena, folder, strlen(folder)), NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, compare_entries);
    FTSENT *e;
    struct stat st;
    size_t seen = 0;

    if (tree == NULL)
        abort();
    while ((e = fts_read(tree)) != NULL) {
        const char *path = e->fts_path;
        bool named = text_ends_with(path, ".yaml") || text_ends_with(path, ".yml") ||
                     text_ends_with(path, ".json");

        if (e->fts_level > 0 && (e->fts_name[0] == '.' || path_is_excluded(f->options, path))) {
            fts_set(tree, e, FTS_SKIP); /* .git and .github, among others */
        } else if (e->fts_info == FTS_DNR) {
            seen++;
            diag_error(f->diag, path, (struct yaml_mark){0}, "cannot be read: %s",
                       strerror(e->fts_errno));
        } else if (e->fts_info != FTS_D && e->fts_info != FTS_DP && named && stat(path, &st) == 0 &&
                   S_ISREG(st.st_mode) && !has_text(&f->options->paths, path)) {
            seen++;
            read_found(f, arena_copy(&f->options->arena, path, e->fts_pathlen));
        }
    }
    fts_close(tree);
    if (seen == 0)
        diag_error(f->diag, folder, (struct yaml_mark){0},
                   "no .yaml, .yml or .json in this folder: name one with manifests");
}

static bool is_folder(const char *path)
{
    struct stat st;

    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool check_input_read(struct check_options *o, struct check *c, struct diag *d)
{
    struct finder f = {.options = o, .check = c, .diag = d};
    bool ok;

    FOREACH_POINTER(const char, path, o->paths.list, o->paths.count) {
        if (!is_folder(path))
            read_named(&f, path);
    }
    c->named_count = c->file_count;
    ok = d->errors == 0;
    FOREACH_POINTER(const char, path, o->paths.list, o->paths.count) {
        if (is_folder(path))
            read_folder(&f, path);
    }
    if (o->patches.count > 0)
        drop_patches(&f);
    if (d->errors == 0 && c->file_count == 0)
        options_error(d, "no file of %s holds a Kubernetes object: name a folder of manifests",
                      o->paths.list[0]);
    return ok && c->file_count > 0;
}

/* --- What was left out. --- */

static void print_part(FILE *out, const char **between, size_t count, const char *what)
{
    if (count == 0)
        return;
    fprintf(out, "%s%zu %s%s", *between, count, what, count == 1 ? "" : "s");
    *between = ", ";
}

void check_input_print(FILE *out, const struct check_skipped *s)
{
    size_t count = s->kustomizations + s->templates + s->others;
    const char *between = "";

    if (count == 0)
        return;
    fprintf(out, "rdzv-manifest: skipped %zu file%s without objects: ", count,
            count == 1 ? "" : "s");
    print_part(out, &between, s->templates, "template");
    fprintf(out, "%s", s->templates > 0 ? " (render it first)" : "");
    print_part(out, &between, s->kustomizations, "kustomization");
    print_part(out, &between, s->others, "other");
    fputc('\n', out);
}
