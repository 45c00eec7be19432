/* Compares the objects before and after the rewrite, and knows which of them an apply cannot
 * change. */
#include "deploy/rewrite/rewrite.h"

#include <string.h>

enum step { STEP_STOP, STEP_DELETE, STEP_WAIT };

struct steps {
    struct rewrite *w;
    FILE *out;
    struct kube_bundle after;
};

/* --- Objects before and after. --- */

static const struct kube_object *twin(const struct steps *s, const struct kube_object *o)
{
    KUBE_FOREACH_HIT(hit, kube_index_find(&s->after.named, o->kind, o->name)) {
        const struct kube_object *new = s->after.objects[*hit.list];

        if (kube_same_namespace(o, new) &&
            strcmp(kube_text(o->node, "apiVersion"), kube_text(new->node, "apiVersion")) == 0)
            return new;
    }
    return NULL;
}

static bool is_changed(const struct steps *s, const struct kube_object *o,
                       const struct kube_object *new)
{
    struct arena *a = &s->w->arena;

    return strcmp(kube_print(a, o->node), kube_print(a, new->node)) != 0;
}

/* A job that changes, or whose store is replaced, begins anew. */
static bool is_stopped(const struct steps *s, const struct kube_object *o)
{
    const struct kube_object *new = twin(s, o);
    bool moved = ANY(KUBE_FOREACH(part, &s->w->bundle),
                     s->w->marks[part->index].moved && kube_top(part) == o);
    bool is_job = o->type == KUBE_APPWRAPPER || o->type == KUBE_MCAD ||
                  (o->type >= KUBE_JOB && o->type != KUBE_RUNTIME && kube_makes_pods(o->type));

    return moved || s->w->marks[o->index].restarted ||
           (is_job && (new == NULL || is_changed(s, o, new)));
}

/* An API server refuses most changes of a Pod, of a StatefulSet, of a Deployment's selector, and of
 * the kind of address that a Service has. */
static bool is_deleted(const struct steps *s, const struct kube_object *o)
{
    const struct kube_object *new = twin(s, o);

    if (is_stopped(s, o))
        return false; /* in the step before */
    if (new == NULL)
        return true;
    if (o->type == KUBE_SERVICE)
        return strcmp(kube_text(o->spec, "clusterIP"), kube_text(new->spec, "clusterIP")) != 0;
    return (o->type == KUBE_POD || o->type == KUBE_STATEFULSET || o->type == KUBE_DEPLOYMENT) &&
           is_changed(s, o, new);
}

/* --- Commands. --- */

/* A name as a shell reads it, on one line. */
static void put_word(const struct steps *s, const char *word)
{
    char *text = arena_copy(&s->w->arena, word, strlen(word));

    for (char *p = text; *p != '\0'; p++)
        *p = (unsigned char)*p < ' ' ? '?' : *p;
    fputs(shell_quote(&s->w->arena, text), s->out);
}

/* `job.batch.volcano.sh/train -n ml`: the group tells Jobs of different makers apart. */
static void print_object(struct steps *s, const struct kube_object *o)
{
    const char *version = kube_text(o->node, "apiVersion"), *slash = strchr(version, '/');
    const char *kind = text_lower(&s->w->arena, o->kind);

    put_word(s, slash == NULL ? arena_text(&s->w->arena, "%s/%s", kind, o->name)
                              : arena_text(&s->w->arena, "%s.%.*s/%s", kind, (int)(slash - version),
                                           version, o->name));
    if (*o->namespace != '\0') {
        fputs(" -n ", s->out);
        put_word(s, o->namespace);
    }
    fputc('\n', s->out);
}

/* Prints the commands of the step below the heading, if it has any. STEP_WAIT waits for each
 * StatefulSet and Deployment of the new files, since the stores are among these. A part of a
 * wrapper is left out, as kubectl gets the wrapper, and so is an object that no command can name.
 */
static void print_step(struct steps *s, enum step step, const char *heading)
{
    const struct kube_bundle *b = step == STEP_WAIT ? &s->after : &s->w->bundle;
    size_t printed = 0;

    KUBE_FOREACH(o, b) {
        if (o->wrapper != NULL || *o->name == '\0')
            continue;
        if (step == STEP_STOP     ? !is_stopped(s, o)
            : step == STEP_DELETE ? !is_deleted(s, o)
                                  : !text_is(o->kind, "StatefulSet", "Deployment"))
            continue;
        if (printed++ == 0)
            fprintf(s->out, "%s\n", heading);
        fputs(step == STEP_WAIT ? "kubectl rollout status " : "kubectl delete ", s->out);
        print_object(s, o);
    }
}

static void print_apply(struct steps *s)
{
    const struct rewrite *w = s->w;
    bool stream = w->file_count == 1 && strcmp(w->files[0].path, "-") == 0;

    fputs(stream ? "# Apply what rewrite prints.\n"
                 : "# Apply the files that `rewrite --in-place` writes.\n",
          s->out);
    fputs("kubectl apply", s->out);
    for (size_t i = 0; i < w->file_count; i++) {
        fputs(" -f ", s->out);
        put_word(s, w->files[i].path);
    }
    fputc('\n', s->out);
}

void rewrite_steps_print(FILE *out, struct rewrite *w)
{
    struct steps s = {.w = w, .out = out};
    bool changed = false;

    FOREACH(struct rewrite_file, f, w->files, w->file_count) {
        changed = changed || rewrite_changed(f);
        kube_add_file(&s.after, f->edits.count > 0 ? &f->again : &f->yaml);
    }
    if (!changed) {
        fputs("# The files need no changes.\n", out);
        kube_free(&s.after);
        return;
    }
    kube_find_pods(&s.after); /* as in the bundle before */
    print_step(&s, STEP_STOP, "# These jobs end, and begin again from their last checkpoint.");
    print_step(&s, STEP_DELETE, "# The new files have no such object, or no apply can change it.");
    print_apply(&s);
    print_step(&s, STEP_WAIT, "# Agents wait for their store; see that it runs.");
    kube_free(&s.after);
}
