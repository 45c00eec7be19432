/* Positions, reports, and questions that several rules ask. */
#include "deploy/check/check.h"

#include "deploy/yaml/yaml_position.h"

#include <stdlib.h>
#include <string.h>

/* --- Places. --- */

struct check_position check_at(const struct yaml_node *node)
{
    return (struct check_position){node, 0};
}

struct check_position check_at_key(const struct yaml_node *mapping, const char *key)
{
    return check_at(kube_key(mapping, key));
}

struct check_position check_at_first(const struct yaml_node *node, const char *paths)
{
    char path[128];

    while (*paths != '\0') {
        size_t len = strcspn(paths, " ");
        const struct yaml_node *found;

        if (len < sizeof path) {
            memcpy(path, paths, len);
            path[len] = '\0';
            found = kube_get(node, path);
            if (found != NULL)
                return check_at(found);
        }
        paths += len + (paths[len] == ' ');
    }
    return check_at(node);
}

struct check_position check_at_text(const struct arg_text *text)
{
    return (struct check_position){text->node, text->start};
}

struct check_position check_at_run(const struct job_run *r)
{
    const struct kube_object *o = r->container->pods->object;

    if (r->args != NULL)
        return check_at_text(&r->args->command);
    if (kube_get(o->spec, "elasticPolicy") != NULL)
        return check_at_key(o->spec, "elasticPolicy");
    return check_at_first(r->container->node, "name");
}

struct check_position check_at_setting(const struct job_run *r, enum torchrun_option option)
{
    const struct job_setting *s = &r->settings[option];

    return s->node == NULL ? check_at_run(r) : (struct check_position){s->node, s->start};
}

struct check_position check_at_option(const struct kube_container *c, const struct job_setting *s)
{
    return s->node == NULL ? check_at_first(c->node, "name")
                           : (struct check_position){s->node, s->start};
}

size_t check_file_index(const struct check *c, const char *name)
{
    size_t i = 0;

    while (i < c->file_count && c->files[i].name != name)
        i++;
    return i;
}

static const struct yaml_file *file_of(const struct check *c, const struct yaml_node *node)
{
    size_t i = check_file_index(c, node->file);

    return i == c->file_count ? NULL : &c->files[i];
}

static struct yaml_mark position_mark(const struct check *c, struct check_position at)
{
    const struct yaml_file *file = file_of(c, at.node);
    bool block = at.node->style == YAML_LITERAL || at.node->style == YAML_FOLDED;

    if (file == NULL || at.node->kind != YAML_SCALAR || (at.at == 0 && !block))
        return at.node->start;
    return scalar_position(file, at.node, at.at);
}

/* --- Reports. --- */

/* By rule, file and place. */
static bool is_reported(struct check *c, const struct check_finding *f)
{
    const char *place = arena_text(&c->bundle.arena, "%s:%zu", f->file, f->mark.offset);

    if (kube_index_find(&c->reported, f->rule->id, place, strlen(place)).count > 0)
        return true;
    kube_index_add(&c->bundle.arena, &c->reported, f->rule->id, place, 0);
    return false;
}

void check_report(struct check *c, const struct kube_object *o, struct check_position at,
                  const char *format, ...)
{
    struct check_finding f = {.rule = c->rule, .object = o};
    va_list args;

    if (at.node == NULL)
        at = check_at(o->node);
    f.file = at.node->file == NULL ? "" : at.node->file;
    f.file_index = check_file_index(c, f.file);
    f.mark = position_mark(c, at);
    if (is_reported(c, &f)) /* several jobs share a template, or several commands a variable */
        return;
    va_start(args, format);
    f.text = arena_vtext(&c->bundle.arena, format, args);
    va_end(args);
    if (c->count == c->cap) {
        size_t cap = c->cap == 0 ? 32 : c->cap * 2;

        c->findings =
            arena_grow(&c->bundle.arena, c->findings, c->count * sizeof f, cap * sizeof f);
        c->cap = cap;
    }
    c->findings[c->count++] = f;
}

bool check_is_before(const struct check *c, enum check_target_name target, int major, int minor)
{
    const struct check_target *t = &c->targets[target];

    return t->given && t->major >= 0 &&
           (t->major < major || (t->major == major && t->minor < minor));
}

const char *check_title(struct check *c, const struct kube_object *o)
{
    return arena_text(&c->bundle.arena, "%s %s", o->kind, *o->name == '\0' ? "?" : o->name);
}

/* --- Questions about runs. --- */

bool check_is_set(const struct job_run *r, enum torchrun_option option)
{
    return r->settings[option].from != JOB_FROM_NOWHERE;
}

const char *check_value(const struct job_run *r, enum torchrun_option option)
{
    return r->settings[option].value.text;
}

const char *check_written(struct check *c, const struct job_setting *s)
{
    if (s->node == NULL || s->node->kind != YAML_SCALAR || s->end > s->node->len ||
        s->start > s->end)
        return s->value.text;
    return arena_copy(&c->bundle.arena, s->node->text + s->start, s->end - s->start);
}

bool check_is_opaque(const struct job_run *r)
{
    return r->args != NULL && r->args->opaque;
}

bool check_owns_store(struct check *c, const struct job_run *r)
{
    const struct job_store *store = job_store_behind(&c->jobs, r->store);

    if (r->hosted)
        return true;
    return store != NULL &&
           kube_top(store->container->pods->object) == kube_top(r->container->pods->object);
}

bool check_has_port(const struct kube_object *service, long number)
{
    const struct yaml_node *ports = kube_get(service->spec, "ports");

    for (size_t i = 0; i < yaml_length(ports); i++) {
        if (kube_int(ports->items[i], "port", -1) == number)
            return true;
    }
    return yaml_length(ports) == 0 && kube_is_headless(service);
}

bool check_is_endpoint(struct check *c, const struct kube_object *service)
{
    struct job_upstream u;

    if (c->endpoints == NULL) {
        c->endpoints = arena_alloc(&c->bundle.arena, c->bundle.count + 1);
        for (size_t i = 0; i < c->jobs.count; i++) {
            const struct job_run *r = c->jobs.runs[i];

            if (r->found && r->target.service != NULL)
                c->endpoints[r->target.service->index] = true;
        }
        for (size_t i = 0; i < c->jobs.store_count; i++) {
            for (size_t n = 0; job_relay_upstream(&c->jobs, &c->jobs.stores[i], n, &u); n++) {
                if (u.found && u.target.service != NULL)
                    c->endpoints[u.target.service->index] = true;
            }
        }
    }
    return c->endpoints[service->index];
}

bool check_is_foreign(struct check *c, const struct job_store *store)
{
    return store->kind == JOB_STORE_ETCD && job_runs_at(&c->jobs, store).count == 0 &&
           job_etcd_lacks_v2(&c->jobs, store);
}

bool check_is_behind_relays(struct check *c, const struct job_store *store)
{
    if (c->behind_relays == NULL) {
        c->behind_relays = arena_alloc(&c->bundle.arena, c->jobs.store_count + 1);
        for (size_t i = 0; i < c->jobs.store_count; i++) {
            const struct job_store *relay = &c->jobs.stores[i];
            const struct job_store *behind =
                relay->kind == JOB_STORE_RELAY ? job_store_behind(&c->jobs, relay) : NULL;

            if (behind != NULL)
                c->behind_relays[behind - c->jobs.stores] = true;
        }
    }
    return c->behind_relays[store - c->jobs.stores];
}

bool check_trains(const struct check *c, const struct kube_pods *p)
{
    if (job_runs_in(&c->jobs, p).count > 0)
        return true;
    return p->ends && job_store_in(&c->jobs, p) == NULL;
}
