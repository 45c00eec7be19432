/* Prints the view of a bundle as JSON. */
#include "deploy/kube/job_view.h"

#include "deploy/yaml/yaml_write.h"

static void show_number(struct arena *a, struct yaml_node *mapping, const char *key, long number)
{
    if (number >= 0)
        yaml_put_number(a, mapping, key, number);
}

static void show_object(struct arena *a, struct yaml_node *mapping, const struct kube_object *o)
{
    YAML_PUT_FILLED(a, mapping, {"kind", o->kind}, {"name", o->name}, {"namespace", o->namespace});
}

static void show_target(struct arena *a, struct yaml_node *out, const struct job_run *r)
{
    static const char *const reaches[] = {[KUBE_REACHED] = NULL,
                                          [KUBE_UNDECIDED] = "if the namespaces are one",
                                          [KUBE_ELSEWHERE] = "not from this namespace"};

    show_object(a, out, r->target.service != NULL ? r->target.service : r->target.pods->object);
    YAML_PUT_FILLED(a, out, {"reached", reaches[r->target.reach]});
}

const char *const job_store_names[] = {[JOB_STORE_NONE] = "",
                                       [JOB_STORE_RDZVD] = "rdzvd",
                                       [JOB_STORE_RELAY] = "relay",
                                       [JOB_STORE_ETCD] = "etcd"};

static void show_run(struct arena *a, struct yaml_node *out, const struct job_run *r)
{
    show_object(a, out, job_run_object(r));
    YAML_PUT_FILLED(a, out, {"role", r->container->pods->role}, {"container", r->container->name},
                    {"backend", r->standalone ? "standalone" : r->backend},
                    {"endpoint", job_text(r, TORCHRUN_RDZV_ENDPOINT)}, {"host", r->host});
    show_number(a, out, "port", r->port);
    YAML_PUT_FILLED(a, out, {"id", job_text(r, TORCHRUN_RDZV_ID)},
                    {"conf", job_text(r, TORCHRUN_RDZV_CONF)});
    show_number(a, out, "nodesMin", r->nodes_min);
    show_number(a, out, "nodesMax", r->nodes_max);
    if (r->found)
        show_target(a, yaml_put_new(a, out, "leadsTo", YAML_MAPPING), r);
    if (r->store != NULL)
        YAML_PUT_FILLED(a, out, {"store", job_store_names[r->store->kind]});
    else if (r->hosted)
        YAML_PUT_FILLED(a, out, {"store", "a training pod"});
}

static void show_store(struct job_view *v, struct yaml_node *out, const struct job_store *s)
{
    struct arena *a = &v->bundle->arena;
    struct yaml_node *ports;
    struct job_upstream u;
    struct job_setting space;
    struct job_listeners l = job_store_listeners(v, s, false);

    show_object(a, out, s->container->pods->object);
    YAML_PUT_FILLED(a, out, {"container", s->container->name}, {"store", job_store_names[s->kind]});
    ports = yaml_put_new(a, out, "ports", YAML_SEQUENCE);
    for (size_t i = 0; i < l.count; i++)
        yaml_append(a, ports, yaml_new_number(a, l.list[i].port));
    if (!job_relay_upstream(v, s, 0, &u))
        return;
    job_relay_space(v, s, &space);
    YAML_PUT_FILLED(a, out, {"upstream", u.setting.value.text}, {"space", space.value.text});
    if (job_store_behind(s) != NULL)
        YAML_PUT_FILLED(a, out, {"leadsTo", job_store_behind(s)->container->pods->object->name});
}

void job_show(FILE *out, struct job_view *v)
{
    struct arena *a = &v->bundle->arena;
    struct yaml_node *all = yaml_new(a, YAML_MAPPING);
    struct yaml_node *jobs = yaml_put_new(a, all, "jobs", YAML_SEQUENCE);
    struct yaml_node *stores = yaml_put_new(a, all, "stores", YAML_SEQUENCE);

    for (size_t i = 0; i < v->all_count; i++)
        show_run(a, yaml_put_new(a, jobs, NULL, YAML_MAPPING), v->runs[i]);
    for (size_t i = 0; i < v->store_count; i++)
        show_store(v, yaml_put_new(a, stores, NULL, YAML_MAPPING), &v->stores[i]);
    fprintf(out, "%s\n", yaml_write_json(a, all, "\t"));
}
