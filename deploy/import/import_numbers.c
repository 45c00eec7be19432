/* Compares what two manifests tell torchrun and the scheduler, wherever they tell it. */
#include "deploy/import/import_numbers.h"

#include <string.h>

/* --- What emit makes. --- */

void import_made_read(struct import_made *made, const struct importer *m,
                      const struct yaml_node *documents)
{
    struct yaml_file file = {.name = "", .count = yaml_length(documents)};

    *made = (struct import_made){0};
    file.docs = arena_alloc(&made->bundle.arena, (file.count + 1) * sizeof *file.docs);
    for (size_t i = 0; i < file.count; i++)
        file.docs[i] = (struct yaml_doc){.root = documents->items[i]};
    kube_add_file(&made->bundle, &file);
    kube_find_pods(&made->bundle);
    job_find(&made->jobs, &made->bundle);
    for (size_t i = 0; i < made->jobs.count && made->run == NULL; i++) {
        const struct kube_object *o = job_run_object(made->jobs.runs[i]);

        if (o->type != KUBE_RUNTIME && strcmp(o->name, m->job->name) == 0)
            made->run = import_workers_run(&made->jobs, o);
    }
}

void import_made_free(struct import_made *made)
{
    kube_free(&made->bundle);
}

/* --- The fields. --- */

bool import_is_number(const struct importer *m, const struct yaml_node *within, const char *key)
{
    static const char *const of_policy[] = {"nProcPerNode", "minReplicas", "maxReplicas",
                                            "maxRestarts", NULL};

    if (strcmp(key, "nprocPerNode") == 0 || strcmp(key, "minAvailable") == 0)
        return true;
    return text_is_one_of(key, of_policy) && within == kube_get(m->job->spec, "elasticPolicy");
}

/* --- What torchrun is told. --- */

static const char *nodes_text(struct importer *m, const struct job_run *r)
{
    return r->nodes_min == r->nodes_max
               ? arena_text(&m->arena, "%ld", r->nodes_max)
               : arena_text(&m->arena, "%ld to %ld", r->nodes_min, r->nodes_max);
}

static size_t compare_nodes(struct importer *m, const struct job_run *made)
{
    const struct job_run *old = m->run;

    if (old->nodes_min < 0 || old->nodes_max < 0 ||
        (old->nodes_min == made->nodes_min && old->nodes_max == made->nodes_max))
        return 0;
    import_note(m, import_place(m, TORCHRUN_NNODES),
                "torchrun runs on %s nodes here, and on %s in the job that emit makes: set "
                "`nodes` or `numPods`",
                nodes_text(m, old), nodes_text(m, made));
    return 1;
}

/* What torchrun takes if nothing is said. */
static const char *value_of(const struct job_run *r, enum torchrun_option option)
{
    const struct job_setting *s = &r->settings[option];

    if (s->from != JOB_FROM_NOWHERE)
        return s->value.text;
    return option == TORCHRUN_MAX_RESTARTS ? "0" : "1";
}

static size_t compare_option(struct importer *m, const struct job_run *made,
                             enum torchrun_option option, const char *what, const char *setting)
{
    const struct job_setting *old = &m->run->settings[option], *new = &made->settings[option];

    if ((old->from != JOB_FROM_NOWHERE && !old->value.known) ||
        (new->from != JOB_FROM_NOWHERE && !new->value.known) ||
        strcmp(value_of(m->run, option), value_of(made, option)) == 0)
        return 0;
    import_note(m, import_place(m, option),
                "torchrun has %s %s here, and %s in the job that emit makes: set `%s`",
                value_of(m->run, option), what, value_of(made, option), setting);
    return 1;
}

/* --- The gang. --- */

/* For how many of the pods that train the scheduler waits. */
struct gang {
    const struct yaml_node *node, *task_node; /* NULL: nothing is written */
    long of_job, of_tasks;
};

static const char *gang_path(const struct kube_object *top)
{
    return top->type == KUBE_VOLCANO_JOB ? "minAvailable"
           : top->type == KUBE_MCAD      ? "schedulingSpec.minAvailable"
                                         : NULL;
}

/* Without a number Volcano waits for all pods of a task, and for all that its tasks want. */
static struct gang find_gang(struct job_view *jobs, const struct kube_object *job)
{
    const struct kube_object *top = kube_top(job);
    const char *path = gang_path(top);
    struct gang g = {0};
    long written = path == NULL ? 0 : kube_int(top->spec, path, 0), stores = 0;

    if (path == NULL)
        return g;
    g.node = written > 0 ? kube_get(top->spec, path) : NULL;
    for (size_t i = 0; i < jobs->bundle->pod_count; i++) {
        const struct kube_pods *p = jobs->bundle->pods[i];
        long least = kube_int(p->part, "minAvailable", 0);

        if (kube_top(p->object) != top)
            continue;
        if (import_is_only_store(jobs, p)) {
            stores += p->replicas;
            continue;
        }
        if (g.task_node == NULL && least > 0)
            g.task_node = kube_get(p->part, "minAvailable");
        g.of_tasks += least > 0 ? least : p->replicas;
    }
    g.of_job = written > 0 ? written - stores : g.of_tasks;
    return g;
}

static size_t compare_gangs(struct importer *m, struct import_made *made)
{
    struct gang old = find_gang(&m->jobs, m->job),
                new = find_gang(&made->jobs, job_run_object(made->run));
    bool whole = old.node != NULL && old.of_job != new.of_job;

    if (new.node == NULL || !(whole || (old.task_node != NULL && old.of_tasks != new.of_tasks)))
        return 0;
    import_note(m, whole ? old.node : old.task_node,
                "the scheduler waits for %ld training pods of the %s here, and for %ld in the job "
                "that emit makes: no setting but `nodes` says this, so change minAvailable in what "
                "emit prints",
                whole ? old.of_job : old.of_tasks, whole ? "job" : "tasks",
                whole ? new.of_job : new.of_tasks);
    return 1;
}

size_t import_compare_numbers(struct importer *m, struct import_made *made)
{
    if (made->run == NULL)
        return 0;
    return compare_nodes(m, made->run) +
           compare_option(m, made->run, TORCHRUN_NPROC_PER_NODE, "processes on a node",
                          "procsPerNode") +
           compare_option(m, made->run, TORCHRUN_MAX_RESTARTS, "restarts", "restarts") +
           compare_gangs(m, made);
}
