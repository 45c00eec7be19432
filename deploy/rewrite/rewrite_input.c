/* Reads the files, with the same view of them as check. */
#include "deploy/rewrite/rewrite.h"

#include "deploy/yaml/options.h"

#include <string.h>

void rewrite_note_image(struct rewrite *w)
{
    const char *wish = yaml_text(yaml_get(w->options->wishes, "image"));

    if (w->diag->errors == 0 && wish == NULL && strcmp(w->options->image, REWRITE_IMAGE) == 0)
        options_note(w->diag,
                     "the image " REWRITE_IMAGE
                     " is a placeholder: build one from deploy/Containerfile, push it, and name it "
                     "with --image");
}

struct choice {
    const char *name;
    const char *const *words; /* NULL: any text */
    const char **text;
    bool *second; /* whether it is the second word */
    const char *instead;
};

const char *rewrite_choose(struct rewrite_options *o, const char *name, const char *word)
{
    const struct choice choices[] = {
        {"image", NULL, &o->image, NULL, "the image of rdzvd"},
        {"etcd", NULL, &o->etcd, NULL, "the name of an etcd"},
        {"metrics", WORDS("annotations"), &o->metrics, NULL,
         "annotations; emit makes a ServiceMonitor, too"},
        {"rdzv", WORDS("service", "relay", "replicas"), NULL, NULL,
         "service, relay or replicas; emit has other placements"},
        {"from", WORDS("etcd", "c10d"), NULL, NULL, "etcd or c10d"},
        {"backend", WORDS("c10d", "etcd-v2"), NULL, &o->keep_backend, "c10d or etcd-v2"},
        {"wiring", WORDS("torchrun", "agent-store"), NULL, &o->agent_store,
         "torchrun or agent-store"},
        {"keep-backend", WORDS("false", "true"), NULL, &o->keep_backend, "true or false"},
        {"keep-kind", WORDS("false", "true"), NULL, &o->keep_kind, "true or false"},
    };
    const struct choice *c = choices, *end = choices + sizeof choices / sizeof *choices;

    while (c < end && strcmp(c->name, name) != 0)
        c++;
    if (c == end)
        return "";
    if (word == NULL || (c->words != NULL && !text_is_one_of(word, c->words)))
        return c->instead;
    if (strcmp(name, "rdzv") == 0) {
        o->replicas = strcmp(word, "replicas") == 0;
        o->relay = strcmp(word, "service") != 0;
    }
    if (strcmp(name, "from") == 0)
        *(strcmp(word, "etcd") == 0 ? &o->from_etcd : &o->from_c10d) = true;
    if (c->text != NULL)
        *c->text = word;
    if (c->second != NULL)
        *c->second = strcmp(word, c->words[1]) == 0;
    return NULL;
}

bool rewrite_look(struct rewrite *w)
{
    bool one;

    for (size_t i = 0; i < w->file_count; i++) {
        const struct yaml_file *f = &w->files[i].yaml;
        const char *nl = memchr(f->bytes, '\n', f->len);

        w->files[i].eol = nl != NULL && nl > f->bytes && nl[-1] == '\r' ? "\r\n" : "\n";
        kube_add_file(&w->bundle, f);
    }
    if (w->bundle.overflow)
        return diag_error(w->diag, w->files[0].path, (struct yaml_mark){0},
                          "more than %d objects, all files together: rewrite them in parts",
                          KUBE_OBJECTS_MAX);
    job_find(&w->jobs, &w->bundle);
    /* Pods of a job, and the like: what their controllers make next is made of the new job. */
    one = w->bundle.made == 1;
    if (w->bundle.made > 0)
        options_note(w->diag,
                     "rewrite leaves %zu object%s that controllers made of others as %s: do not "
                     "apply %s, the controllers do that",
                     w->bundle.made, one ? "" : "s", one ? "it is" : "they are",
                     one ? "it" : "them");
    w->marks = arena_alloc(&w->arena, (w->bundle.count + 1) * sizeof *w->marks);
    for (size_t i = 0; i < w->jobs.all_count; i++)
        w->marks[job_run_object(w->jobs.runs[i])->index].trains = true;
    return true;
}

bool rewrite_read(struct rewrite *w)
{
    const struct rewrite_options *o = w->options;
    bool ok = true;

    w->files = arena_alloc(&w->arena, o->path_count * sizeof *w->files);
    for (; w->file_count < o->path_count; w->file_count++) {
        struct rewrite_file *f = &w->files[w->file_count];

        f->path = o->paths[w->file_count];
        ok = yaml_file_read(&f->yaml, f->path, YAML_SIZE_MAX, w->diag) && ok;
    }
    return ok && rewrite_look(w);
}

void rewrite_free(struct rewrite *w)
{
    for (size_t i = 0; i < w->file_count; i++) {
        yaml_file_free(&w->files[i].yaml);
        yaml_file_free(&w->files[i].again);
    }
    kube_free(&w->bundle);
    arena_free(&w->arena);
}

struct rewrite_file *rewrite_file_of(const struct rewrite *w, const struct yaml_node *n)
{
    return (struct rewrite_file *)FIND(f, FOREACH(struct rewrite_file, f, w->files, w->file_count),
                                       f->yaml.name == n->file);
}

bool rewrite_changed(const struct rewrite_file *f)
{
    return f->result.len != f->yaml.len || memcmp(f->result.text, f->yaml.bytes, f->yaml.len) != 0;
}
