/* Questions that several rules ask. */
#include "deploy/check/check.h"

#include <string.h>
#include <strings.h>

bool check_is_before(const struct check *c, enum check_target_name target, int major, int minor)
{
    const struct check_target *t = &c->targets[target];

    return t->given && t->major >= 0 &&
           (t->major < major || (t->major == major && t->minor < minor));
}

bool check_lists_port(const struct kube_container *container, long port)
{
    return ANY(YAML_FOREACH(item, kube_get(container->node, "ports")),
               kube_int(item, "containerPort", -1) == port);
}

/* --- Questions about runs and stores. --- */

const char *check_written(struct check *c, const struct job_setting *s)
{
    const struct arg_word *word = &s->written;

    if (yaml_text(word->node) == NULL || word->end > word->node->len || word->start > word->end)
        return s->value.text;
    return arena_copy(&c->bundle.arena, word->node->text + word->start, word->end - word->start);
}

bool check_is_opaque(const struct job_run *r)
{
    return r->args != NULL && r->args->opaque;
}

bool check_owns_store(const struct job_run *r)
{
    const struct job_store *store = job_store_behind(r->store);

    return r->hosted ||
           (store != NULL && kube_top(job_store_object(store)) == kube_top(job_run_object(r)));
}

bool check_has_port(const struct kube_object *service, long number)
{
    const struct yaml_node *ports = kube_get(service->spec, "ports");

    return ANY(YAML_FOREACH(port, ports), kube_int(port, "port", -1) == number) ||
           (yaml_length(ports) == 0 && kube_is_headless(service));
}

bool check_is_foreign(struct check *c, const struct job_store *store)
{
    return store->kind == JOB_STORE_ETCD && store->runs.count == 0 &&
           job_etcd_lacks_v2(&c->jobs, store);
}

bool check_uses_agent_store(struct check *c, const struct kube_container *container)
{
    const struct job_variable *v =
        job_variable(&c->jobs, container, "TORCHELASTIC_USE_AGENT_STORE");
    const char *text = v == NULL ? NULL : yaml_text(v->value);

    return text != NULL && strcasecmp(text, "true") == 0;
}

/* --- What leads where. --- */

bool check_is_of_folder(const struct check *c, const struct kube_object *o)
{
    return c->named_count < c->file_count &&
           !ANY(FOREACH(const struct yaml_file, f, c->files, c->named_count),
                f->name == o->node->file);
}

static void link_run(struct check *c, const struct job_run *r)
{
    const struct job_store *s = job_store_behind(r->store);

    if (r->found && r->target.service != NULL)
        c->is_endpoint[r->target.service->index] = true;
    if (s == NULL)
        return;
    if (job_is_dynamic(r) && c->users[s - c->jobs.stores] == NULL)
        c->users[s - c->jobs.stores] = r;
    if (r->container->pods->host_network && c->users_on_host[s->container->pods->index] == NULL)
        c->users_on_host[s->container->pods->index] = r;
}

static void link_relay(struct check *c, const struct job_store *relay)
{
    const struct job_store *behind = job_store_behind(relay);
    struct job_upstream u;

    for (size_t n = 0; job_relay_upstream(&c->jobs, relay, n, &u); n++) {
        if (u.found && u.target.service != NULL)
            c->is_endpoint[u.target.service->index] = true;
    }
    if (relay->kind == JOB_STORE_RELAY && behind != NULL)
        c->is_behind_relay[behind - c->jobs.stores] = true;
}

void check_find_links(struct check *c)
{
    struct arena *a = &c->bundle.arena;
    struct kube_index selectors = {0};

    c->is_endpoint = arena_alloc(a, c->bundle.count + 1);
    c->is_behind_relay = arena_alloc(a, c->jobs.store_count + 1);
    c->is_selected = arena_alloc(a, c->bundle.pod_count + 1);
    c->users = arena_alloc(a, (c->jobs.store_count + 1) * sizeof *c->users);
    c->users_on_host = arena_alloc(a, (c->bundle.pod_count + 1) * sizeof *c->users_on_host);
    for (size_t i = 0; i < c->jobs.count; i++)
        link_run(c, c->jobs.runs[i]);
    for (size_t i = 0; i < c->jobs.store_count; i++)
        link_relay(c, &c->jobs.stores[i]);
    /* Services that have the same selector, as those of one store may, select the same. */
    KUBE_FOREACH(o, &c->bundle) {
        if (o->type != KUBE_SERVICE ||
            !kube_index_is_new(a, &selectors, o->namespace,
                               kube_print(a, kube_get(o->spec, "selector"))))
            continue;
        KUBE_FOREACH_SELECTED(one, kube_select(&c->bundle, &c->jobs.servers, o))
        c->is_selected[one.pods->index] = true;
    }
}

/* --- Selections, by the text of their selector. --- */

struct check_selected *check_selected(struct check *c, const struct kube_object *o,
                                      const struct yaml_node *selector)
{
    struct arena *a = &c->bundle.arena;
    const char *text = kube_print(a, selector);
    struct kube_hits hits = kube_index_find(&c->selectors, o->namespace, text);
    size_t index = c->selectors.count;
    struct check_selected *s;

    if (hits.count > 0)
        return c->selected[hits.list[0]];
    c->selected = arena_room(a, c->selected, index, &c->selected_cap, sizeof *c->selected);
    s = c->selected[index] = arena_alloc(a, sizeof *s);
    KUBE_FOREACH_SELECTED(one, kube_select_by(&c->bundle, o, selector))
    {
        arena_push(a, s->list, s->count, s->cap) = one.pods;
        s->on_host += one.pods->host_network;
    }
    kube_index_add(a, &c->selectors, o->namespace, text, index);
    return s;
}
