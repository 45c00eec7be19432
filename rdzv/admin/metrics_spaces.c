/* Spaces and runs in /metrics. See metrics.h for the contract. */
#include "proto/utf8.h"
#include "rdzv/admin/metrics.h"

/* --- Spaces. --- */

static size_t count_engine_spaces(const struct engine *e)
{
    const struct engine_space *space;
    size_t count = 0;

    TAILQ_FOREACH(space, &e->spaces, entry)
        count++;
    return count;
}

static bool is_in_use(const struct engine_space *space)
{
    const struct space_usage use = space_usage(space->store);

    return space->c10d_sessions + use.keys + use.queues + use.waiters + space->store->tree.count >
           1; /* the tree has its root */
}

static void add_gauges(struct space_figures *f, const struct engine_space *space)
{
    const struct space_usage use = space_usage(space->store);

    f->gauges[SPACE_C10D_CONNECTIONS] += space->c10d_sessions;
    f->gauges[SPACE_BYTES] += use.bytes;
    f->gauges[SPACE_ETCD_NODES] += space->store->tree.count - 1; /* without the root */
    f->gauges[SPACE_ETCD_WATCHERS] += space->store->tree.hub.registered;
    f->gauges[SPACE_KEYS] += use.keys;
    f->gauges[SPACE_QUEUES] += use.queues;
    f->gauges[SPACE_WAITERS] += use.waiters;
    f->gauges[SPACE_WORKER_STORES] += space->store->worker_stores.count;
}

static void add_space(struct metric_spaces *m)
{
    const struct engine_space *space = m->walk.space;
    bool is_listed = m->count < METRIC_SPACES && (!m->are_many || is_in_use(space));

    m->any_other = m->any_other || !is_listed;
    m->into = is_listed ? &m->spaces[m->count++] : &m->others;
    if (is_listed)
        m->into->space = space;
    add_gauges(m->into, space);
}

/* --- Runs. --- */

/* Valid UTF-8 for a label, and not the name of a listed run: another key of the backend `etcd` may
 * have the same. */
static bool has_good_name(const struct metric_spaces *m, const struct run_facts *f)
{
    struct slice id = f->view->id, name;

    if (id.len == 0 || id.len > METRIC_RUN_NAME_MAX || !utf8_is_text(id))
        return false;
    for (size_t i = 0; i < m->run_count; i++) {
        name = (struct slice){m->runs[i].name, m->runs[i].name_len};
        if (m->runs[i].space == m->walk.space && m->runs[i].backend == f->view->backend &&
            slice_equal(name, id))
            return false;
    }
    return true;
}

static struct run_figures figures_of(const struct run_facts *f, enum run_state state)
{
    uint64_t agents_waiting = f->run == NULL ? 0 : f->run->held[HELD_REJOIN];
    int64_t since_us = run_status_since_us(f);
    struct run_survey survey;
    struct run_figures figures;

    run_status_survey(f, &survey);
    figures = (struct run_figures){.values = {
                                       [RUN_PARTICIPANTS] = survey.participants,
                                       [RUN_WAITING] = survey.waiting + agents_waiting,
                                       [RUN_MISSING] = survey.missing_count,
                                       [RUN_SILENT] = survey.silent,
                                   }};
    for (enum goodput_part part = 0; part < GOODPUT_PARTS; part++)
        figures.values[part == GOODPUT_TRAINS ? RUN_TRAINED_S : RUN_WAITED_S] +=
            (uint64_t)run_status_spent_us(f, part) / 1000000;
    if (since_us != 0 && since_us < f->now_us)
        figures.state_s[state] = (double)(f->now_us - since_us) / 1e6;
    return figures;
}

static void add_run_to_others(struct space_figures *s, const struct run_figures *f)
{
    s->other_runs++;
    for (int i = 0; i < RUN_FIGURES; i++)
        s->others.values[i] += f->values[i];
    for (int i = 0; i < RUN_STATES; i++) {
        if (f->state_s[i] > s->others.state_s[i])
            s->others.state_s[i] = f->state_s[i];
    }
}

static void add_run_figures(struct metric_spaces *m, const struct run_facts *f)
{
    enum run_state state = run_status_state(f);
    struct run_figures figures;
    struct listed_run *run;

    m->into->runs[state]++;
    if (state == RUN_CLOSED)
        return;
    figures = figures_of(f, state);
    if (m->into->space == NULL || !has_good_name(m, f) || m->run_count == METRIC_RUNS) {
        add_run_to_others(m->into, &figures);
        return;
    }
    run = &m->runs[m->run_count++];
    *run = (struct listed_run){.space = m->walk.space,
                               .backend = f->view->backend,
                               .state = state,
                               .name_len = f->view->id.len,
                               .round = f->view->is_state ? f->view->state.round : 0,
                               .figures = figures};
    memcpy(run->name, f->view->id.ptr, f->view->id.len);
}

/* --- Slices. --- */

static void add_run(struct metric_spaces *m)
{
    struct run_facts facts;

    if (run_walk_facts(&m->walk, &facts))
        add_run_figures(m, &facts);
    if (facts.run != NULL)
        m->into->gauges[SPACE_QUEUED_WRITES] += facts.run->held[HELD_JOIN];
}

static void metrics_add_place(void *arg)
{
    struct metric_spaces *m = arg;

    if (m->walk.at == WALK_SPACE)
        add_space(m);
    else if (m->walk.at == WALK_RUN)
        add_run(m);
}

void metric_spaces_begin(struct metric_spaces *m, const struct engine *engine,
                         const struct engine_space *only)
{
    *m = (struct metric_spaces){0};
    run_walk_begin(&m->walk, engine, only, metrics_add_place, m);
    m->are_many = only == NULL && count_engine_spaces(engine) > METRIC_SPACES;
}

/* --- Writing. --- */

/* The lines of spaces, the others' last. NULL: no more. */
static const struct space_figures *space_at(const struct metric_spaces *m, size_t i)
{
    return i < m->count ? &m->spaces[i] : i == m->count && m->any_other ? &m->others : NULL;
}

static const char *space_label(const struct engine_space *space)
{
    return space == NULL ? "" : space->store->name;
}

static void write_gauges(FILE *out, const struct metric_spaces *m)
{
    static const enum metric gauges[SPACE_GAUGES] = {
        [SPACE_C10D_CONNECTIONS] = METRIC_rdzvd_space_c10d_connections,
        [SPACE_BYTES] = METRIC_rdzvd_space_bytes,
        [SPACE_ETCD_NODES] = METRIC_rdzvd_space_etcd_nodes,
        [SPACE_ETCD_WATCHERS] = METRIC_rdzvd_space_etcd_watchers,
        [SPACE_KEYS] = METRIC_rdzvd_space_keys,
        [SPACE_QUEUES] = METRIC_rdzvd_space_queues,
        [SPACE_WAITERS] = METRIC_rdzvd_space_waiters,
        [SPACE_WORKER_STORES] = METRIC_rdzvd_space_worker_stores,
        [SPACE_QUEUED_WRITES] = METRIC_rdzvd_space_queued_writes,
    };
    const struct space_figures *s;

    for (int i = 0; i < SPACE_GAUGES; i++) {
        metric_head(out, gauges[i]);
        for (size_t at = 0; (s = space_at(m, at)) != NULL; at++)
            metric_line(out, gauges[i], s->gauges[i], "space=\"%s\"", space_label(s->space));
    }
}

static void write_run_counts(FILE *out, const struct metric_spaces *m)
{
    const struct space_figures *s;

    metric_head(out, METRIC_rdzvd_space_runs);
    for (size_t i = 0; (s = space_at(m, i)) != NULL; i++) {
        for (int state = 0; state < RUN_STATES; state++)
            metric_line(out, METRIC_rdzvd_space_runs, s->runs[state], "space=\"%s\",state=\"%s\"",
                        space_label(s->space), run_state_names[state]);
    }
}

static void write_labels(FILE *out, enum metric m, const struct listed_run *run)
{
    fprintf(out, "%s{space=\"%s\",backend=\"%s\",run=\"", metric_rows[m].name,
            space_label(run->space), run_backend_names[run->backend]);
    metric_label(out, (struct slice){run->name, run->name_len});
    putc('"', out);
}

static void write_rounds(FILE *out, const struct metric_spaces *m)
{
    metric_head(out, METRIC_rdzvd_run_round);
    for (size_t i = 0; i < m->run_count; i++) {
        write_labels(out, METRIC_rdzvd_run_round, &m->runs[i]);
        fprintf(out, "} %" PRId64 "\n", m->runs[i].round);
    }
}

static void write_run_figure(FILE *out, const struct metric_spaces *m, enum metric metric,
                             enum run_figure which)
{
    const struct space_figures *s;

    metric_head(out, metric);
    for (size_t i = 0; i < m->run_count; i++) {
        write_labels(out, metric, &m->runs[i]);
        fprintf(out, "} %" PRIu64 "\n", m->runs[i].figures.values[which]);
    }
    for (size_t i = 0; (s = space_at(m, i)) != NULL; i++) {
        if (s->other_runs != 0)
            metric_line(out, metric, s->others.values[which], "space=\"%s\",backend=\"\",run=\"\"",
                        space_label(s->space));
    }
}

static void write_times(FILE *out, const struct metric_spaces *m)
{
    static const char name[] = "rdzvd_run_state_seconds";
    const struct space_figures *s;

    metric_head(out, METRIC_rdzvd_run_state_seconds);
    FOREACH(const struct listed_run, run, m->runs, m->run_count) {
        write_labels(out, METRIC_rdzvd_run_state_seconds, run);
        fprintf(out, ",state=\"%s\"} %.3f\n", run_state_names[run->state],
                run->figures.state_s[run->state]);
    }
    for (size_t i = 0; (s = space_at(m, i)) != NULL; i++) {
        for (int state = 0; state < RUN_CLOSED && s->other_runs != 0; state++)
            fprintf(out, "%s{space=\"%s\",backend=\"\",run=\"\",state=\"%s\"} %.3f\n", name,
                    space_label(s->space), run_state_names[state], s->others.state_s[state]);
    }
}

void metric_spaces_write(FILE *out, const struct metric_spaces *m)
{
    write_gauges(out, m);
    write_run_counts(out, m);
    write_rounds(out, m);
    write_run_figure(out, m, METRIC_rdzvd_run_participants, RUN_PARTICIPANTS);
    write_run_figure(out, m, METRIC_rdzvd_run_waiting_nodes, RUN_WAITING);
    write_run_figure(out, m, METRIC_rdzvd_run_missing_nodes, RUN_MISSING);
    write_run_figure(out, m, METRIC_rdzvd_run_silent_nodes, RUN_SILENT);
    write_run_figure(out, m, METRIC_rdzvd_run_trained_seconds, RUN_TRAINED_S);
    write_run_figure(out, m, METRIC_rdzvd_run_waited_seconds, RUN_WAITED_S);
    write_times(out, m);
}
