/* Rewrites a bundle: first the etcd and the jobs that meet there, then the other jobs; at last it
 * asks check about the result. */
#include "deploy/rewrite/rewrite_engine.h"

#include "deploy/check/check.h"
#include "deploy/rewrite/rewrite_edit.h"
#include "deploy/rewrite/rewrite_plan.h"
#include "deploy/rewrite/store_settings.h"

#include <string.h>

bool rewrite_changed(const struct rewrite_file *f)
{
    return f->result.len != f->yaml.len || memcmp(f->result.bytes, f->yaml.bytes, f->yaml.len) != 0;
}

/* Replicas and TLS are for a store in the place of worker 0 alone. */
static void refuse_in_place_of_etcd(struct rewrite *w, const struct kube_object *etcd)
{
    const struct yaml_node *tls = yaml_get(w->options->wishes, "tls");

    if (w->options->replicas)
        rewrite_error(
            w, etcd->node,
            "%s: the Services of an etcd lead to one store, and replicas come in the place "
            "of a store in worker 0: use --rdzv=relay, or --from=c10d",
            rewrite_title(w, etcd));
    if (tls != NULL)
        rewrite_error(
            w, etcd->node,
            "%s: other clients of this etcd have no certificate, so rewrite gives TLS only to "
            "a store in the place of worker 0: leave out --set rdzv.tls, or use "
            "--from=c10d",
            rewrite_title(w, etcd));
}

/* The number of things to rewrite. */
static size_t plan(struct rewrite *w)
{
    const struct rewrite_options *o = w->options;
    struct etcd *etcds = NULL;
    size_t count = o->from_c10d && !o->from_etcd ? 0 : etcd_find(w, &etcds);
    size_t found = count, self;
    bool look;

    for (size_t i = 0; i < count; i++)
        refuse_in_place_of_etcd(w, etcds[i].object);
    if (w->diag->errors > 0)
        return 0;
    if (count > 0)
        move_from_etcds(w, etcds, count, !o->keep_backend);
    for (size_t i = 0; i < count; i++)
        etcd_replace(w, &etcds[i], !o->keep_backend && (etcds[i].moved > 0 || etcds[i].fixed == 0));
    look = o->keep_backend || (o->from_etcd && !o->from_c10d);
    self = move_self_hosted(w, look);
    found += look ? 0 : self;
    self = move_to_agent_store(w, !o->agent_store);
    found += o->agent_store ? self : 0;
    return found;
}

static bool is_moved(const struct rewrite *w, const struct kube_object *o)
{
    for (size_t i = 0; i < w->moved_count; i++) {
        if (strcmp(w->moved[i]->kind, o->kind) == 0 && strcmp(w->moved[i]->name, o->name) == 0 &&
            kube_same_namespace(w->moved[i], o))
            return true;
    }
    return false;
}

static bool is_store_blocked(const struct check_finding *f)
{
    return strcmp(f->rule->id, "store-blocked") == 0;
}

/* Whether the policy kept agents from their store before. */
static bool was_closed(struct rewrite *w, const struct kube_object *policy)
{
    struct check c = {.file_count = w->file_count};
    bool *wanted = arena_alloc(&w->arena, check_rule_count), found = false;

    for (size_t i = 0; i < check_rule_count; i++)
        wanted[i] = strcmp(check_rules[i].id, "store-blocked") == 0;
    c.files = arena_alloc(&w->arena, w->file_count * sizeof *c.files);
    for (size_t i = 0; i < w->file_count; i++)
        c.files[i] = w->files[i].yaml;
    check_bundle(&c, wanted);
    for (size_t i = 0; i < c.count; i++)
        found = found || (strcmp(c.findings[i].object->name, policy->name) == 0 &&
                          kube_same_namespace(c.findings[i].object, policy));
    kube_free(&c.bundle);
    return found;
}

/* The jobs would wait for their new store until join_timeout. */
static void refuse_closed_store(struct rewrite *w, const struct check_finding *f)
{
    diag_error(w->diag, f->file, f->mark,
               "%s (in the result): first give this policy, or another one of the same pods, a "
               "rule for port %d with the pods of the other end; those of a store that rewrite "
               "adds have the label `rdzvd: JOB`",
               f->text, C10D_PORT);
}

/* Notes the faults of the rewritten jobs that they had before. */
static void note_faults(struct rewrite *w)
{
    struct check c = {.file_count = w->file_count};

    c.files = arena_alloc(&w->arena, w->file_count * sizeof *c.files);
    for (size_t i = 0; i < w->file_count; i++)
        c.files[i] = w->files[i].result.count > 0 ? w->files[i].again : w->files[i].yaml;
    check_bundle(&c, NULL);
    for (size_t i = 0; i < c.count; i++) {
        const struct check_finding *f = &c.findings[i];

        if (is_store_blocked(f) && !was_closed(w, f->object))
            refuse_closed_store(w, f);
        else if (f->rule->severity >= CHECK_WARNING &&
                 (is_store_blocked(f) || is_moved(w, f->object)))
            diag_note(w->diag, f->file, f->mark, "%s: %s (%s, in the result)",
                      rewrite_title(w, f->object), f->text, f->rule->id);
    }
    kube_free(&c.bundle);
}

size_t rewrite_run(struct rewrite *w)
{
    size_t found = plan(w);

    for (size_t i = 0; i < w->file_count && w->diag->errors == 0; i++)
        edit_apply(w, &w->files[i]);
    if (w->moved_count > 0 && w->diag->errors == 0)
        note_faults(w);
    return found;
}
