/* Prints the view of a bundle as JSON. */
#include "deploy/kube/job_view.h"

#include "deploy/yaml/yaml_write.h"

#include <string.h>

static void show_text(struct arena *a, struct yaml_node *mapping, const char *key, const char *text)
{
    if (text != NULL && *text != '\0')
        yaml_put_text(a, mapping, key, text);
}

static void show_number(struct arena *a, struct yaml_node *mapping, const char *key, long number)
{
    if (number >= 0)
        yaml_put_number(a, mapping, key, number);
}

static void show_object(struct arena *a, struct yaml_node *mapping, const struct kube_object *o)
{
    show_text(a, mapping, "kind", o->kind);
    show_text(a, mapping, "name", o->name);
    show_text(a, mapping, "namespace", o->namespace);
}

static struct yaml_node *show_target(struct arena *a, const struct job_run *r)
{
    static const char *const reaches[] = {[KUBE_REACHED] = NULL,
                                          [KUBE_UNDECIDED] = "if the namespaces are one",
                                          [KUBE_ELSEWHERE] = "not from this namespace"};
    struct yaml_node *out = yaml_new(a, YAML_MAPPING);

    show_object(a, out, r->target.service != NULL ? r->target.service : r->target.pods->object);
    show_text(a, out, "reached", reaches[r->target.reach]);
    return out;
}

static const char *store_kind(enum job_store_kind kind)
{
    static const char *const names[] = {[JOB_STORE_NONE] = "",
                                        [JOB_STORE_RDZVD] = "rdzvd",
                                        [JOB_STORE_RELAY] = "relay",
                                        [JOB_STORE_ETCD] = "etcd"};

    return names[kind];
}

static struct yaml_node *show_run(struct arena *a, const struct job_run *r)
{
    struct yaml_node *out = yaml_new(a, YAML_MAPPING);

    show_object(a, out, job_run_object(r));
    show_text(a, out, "role", r->container->pods->role);
    show_text(a, out, "container", r->container->name);
    show_text(a, out, "backend", r->standalone ? "standalone" : r->backend);
    show_text(a, out, "endpoint", job_text(r, TORCHRUN_RDZV_ENDPOINT));
    show_text(a, out, "host", r->host);
    show_number(a, out, "port", r->port);
    show_text(a, out, "id", job_text(r, TORCHRUN_RDZV_ID));
    show_text(a, out, "conf", job_text(r, TORCHRUN_RDZV_CONF));
    show_number(a, out, "nodesMin", r->nodes_min);
    show_number(a, out, "nodesMax", r->nodes_max);
    if (r->found)
        yaml_put(a, out, "leadsTo", show_target(a, r));
    if (r->store != NULL)
        show_text(a, out, "store", store_kind(r->store->kind));
    else if (r->hosted)
        show_text(a, out, "store", "a training pod");
    return out;
}

static struct yaml_node *show_store(struct job_view *v, const struct job_store *s)
{
    struct arena *a = &v->bundle->arena;
    struct yaml_node *out = yaml_new(a, YAML_MAPPING), *ports = yaml_new(a, YAML_SEQUENCE);
    struct job_upstream u;
    struct job_setting space;
    struct job_listeners l = job_store_listeners(v, s, false);

    show_object(a, out, s->container->pods->object);
    show_text(a, out, "container", s->container->name);
    show_text(a, out, "store", store_kind(s->kind));
    for (size_t i = 0; i < l.count; i++)
        yaml_append(a, ports, yaml_new_plain(a, arena_text(a, "%ld", l.list[i].port)));
    yaml_put(a, out, "ports", ports);
    if (!job_relay_upstream(v, s, 0, &u))
        return out;
    job_relay_space(v, s, &space);
    show_text(a, out, "upstream", u.setting.value.text);
    show_text(a, out, "space", space.value.text);
    if (job_store_behind(s) != NULL)
        show_text(a, out, "leadsTo", job_store_behind(s)->container->pods->object->name);
    return out;
}

void job_show(FILE *out, struct job_view *v)
{
    struct arena *a = &v->bundle->arena;
    struct yaml_node *all = yaml_new(a, YAML_MAPPING);
    struct yaml_node *jobs = yaml_new(a, YAML_SEQUENCE), *stores = yaml_new(a, YAML_SEQUENCE);

    for (size_t i = 0; i < v->all_count; i++)
        yaml_append(a, jobs, show_run(a, v->runs[i]));
    for (size_t i = 0; i < v->store_count; i++)
        yaml_append(a, stores, show_store(v, &v->stores[i]));
    yaml_put(a, all, "jobs", jobs);
    yaml_put(a, all, "stores", stores);
    yaml_write_json(out, all);
}
