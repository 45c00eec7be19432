/* Finds and reads manifests. A repository has more YAML than manifests: values of charts,
 * kustomizations, files of compose and of CI. In a folder these are skipped; a file that the user
 * names is meant. */
#include "deploy/check/check_verb.h"

#include "deploy/yaml/options.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDERS_MAX 64 /* in each other */

struct found_file {
    const char *path;
    bool named; /* by the user, and not found in a folder */
};

struct finder {
    struct check_options *options;
    struct diag *diag;
    struct found_file *files;
    size_t count, cap;
};

/* --- Names. --- */

static void add_file(struct finder *f, const char *path, bool named)
{
    f->files = arena_room(&f->options->arena, f->files, f->count, &f->cap, sizeof *f->files);
    f->files[f->count++] = (struct found_file){path, named};
}

static bool path_is_excluded(const struct check_options *o, const char *path)
{
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    for (size_t i = 0; i < o->excluded.count; i++) {
        if (fnmatch(o->excluded.list[i], path, 0) == 0)
            return true;
    }
    return false;
}

static bool path_is_named(const struct check_options *o, const char *path)
{
    for (size_t i = 0; i < o->paths.count; i++) {
        if (strcmp(o->paths.list[i], path) == 0)
            return true;
    }
    return false;
}

static void find_in_folder(struct finder *f, const char *folder, int depth);

static void find_entry(struct finder *f, const char *path, int depth)
{
    struct stat st;

    if (path_is_excluded(f->options, path) || lstat(path, &st) != 0)
        return;
    if (S_ISDIR(st.st_mode)) {
        find_in_folder(f, path, depth + 1);
        return;
    }
    if (!text_ends_with(path, ".yaml") && !text_ends_with(path, ".yml") &&
        !text_ends_with(path, ".json"))
        return;
    /* A link to a folder could lead back; one to a file is read like a file. */
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && !path_is_named(f->options, path))
        add_file(f, path, false);
}

static void find_in_folder(struct finder *f, const char *folder, int depth)
{
    struct dirent **entries;
    const char *between = text_ends_with(folder, "/") ? "" : "/";
    int count = depth > FOLDERS_MAX ? 0 : scandir(folder, &entries, NULL, alphasort);

    if (count < 0) {
        diag_error(f->diag, folder, (struct yaml_mark){0}, "cannot be read: %s", strerror(errno));
        return;
    }
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') /* .git, .github, . and .. */
            find_entry(
                f, arena_text(&f->options->arena, "%s%s%s", folder, between, entries[i]->d_name),
                depth);
        free(entries[i]);
    }
    if (depth <= FOLDERS_MAX)
        free(entries);
}

static void find_all(struct finder *f)
{
    for (size_t i = 0; i < f->options->paths.count; i++) {
        const char *path = f->options->paths.list[i];
        struct stat st;
        size_t before = f->count;

        if (strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
            add_file(f, path, true);
            continue;
        }
        find_in_folder(f, path, 0);
        if (f->count == before && f->diag->errors == 0)
            diag_error(f->diag, path, (struct yaml_mark){0},
                       "no .yaml, .yml or .json in this folder: name one with manifests");
    }
}

/* --- Contents. --- */

static bool is_object(const struct yaml_node *root)
{
    return root != NULL && *kube_text(root, "apiVersion") != '\0' &&
           *kube_text(root, "kind") != '\0';
}

static size_t count_objects(const struct yaml_file *f)
{
    size_t count = 0;

    for (size_t i = 0; i < f->count; i++)
        count += is_object(f->docs[i].root);
    return count;
}

static bool is_kustomization(const struct yaml_file *f)
{
    const char *name = kube_base_name(f->name);

    if (strcmp(name, "kustomization.yaml") == 0 || strcmp(name, "kustomization.yml") == 0)
        return true;
    return f->count > 0 &&
           strncmp(kube_text(f->docs[0].root, "apiVersion"), "kustomize.config.k8s.io/", 24) == 0;
}

/* Without this, a document that is no manifest would pass as one without faults. Empty documents
 * between `---` lines are common, but a file of nothing else is the wrong file or a broken pipe. */
static void refuse_non_objects(const struct yaml_file *f, struct diag *d)
{
    size_t seen = 0;

    for (size_t i = 0; i < f->count; i++) {
        const struct yaml_node *root = f->docs[i].root;
        const char *missing = NULL;

        if (root == NULL || (root->kind == YAML_SCALAR && yaml_is_null(root)))
            continue;
        seen++;
        if (root->kind != YAML_MAPPING)
            missing = "apiVersion and kind";
        else if (*kube_text(root, "apiVersion") == '\0')
            missing = *kube_text(root, "kind") == '\0' ? "apiVersion and kind" : "apiVersion";
        else if (*kube_text(root, "kind") == '\0')
            missing = "kind";
        if (missing != NULL)
            diag_error(
                d, f->name, root->start,
                "this is no Kubernetes object, it has no %s: give check what kubectl apply accepts",
                missing);
    }
    if (seen == 0)
        diag_error(d, f->name, (struct yaml_mark){0, 1, 1},
                   "no Kubernetes object in it: name a file of manifests, or pipe them to -");
}

/* Reads a file of a folder; false: it is skipped, or faulty, which d says. */
static bool read_found(struct check_options *o, struct yaml_file *out, const char *path,
                       struct diag *d)
{
    struct diag said = {0};
    bool read = yaml_file_read(out, path, YAML_SIZE_MAX, &said);

    if (!read && out->is_template)
        o->skipped.templates++;
    else if (!read && text_ends_with(path, ".json"))
        o->skipped.others++; /* with comments, or of lines: no manifest */
    else
        diag_append(d, &said);
    diag_free(&said);
    if (!read)
        return false;
    if (!is_kustomization(out) && count_objects(out) > 0) {
        refuse_non_objects(out, d);
        return true;
    }
    *(is_kustomization(out) ? &o->skipped.kustomizations : &o->skipped.others) += 1;
    yaml_file_free(out);
    return false;
}

bool check_input_read(struct check_options *o, struct check *c, struct diag *d)
{
    struct finder f = {.options = o, .diag = d};

    find_all(&f);
    c->files = calloc(f.count + 1, sizeof *c->files);
    if (c->files == NULL)
        abort();
    for (size_t i = 0; i < f.count; i++) {
        struct yaml_file *next = &c->files[c->file_count];

        if (!f.files[i].named) {
            c->file_count += read_found(o, next, f.files[i].path, d);
            continue;
        }
        if (!yaml_file_read(next, f.files[i].path, YAML_SIZE_MAX, d))
            continue; /* and read the others: the user wants to know their errors as well */
        refuse_non_objects(next, d);
        c->file_count++;
    }
    if (d->errors == 0 && c->file_count == 0)
        options_error(d, "no file of %s holds a Kubernetes object: name a folder of manifests",
                      o->paths.list[0]);
    return d->errors == 0;
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
