/* Runs that may be one job: its nodes have different ids, or different spaces, and wait for each
 * other in vain. See run_status.h. */
#include "rdzv/admin/run_status.h"
#include "rdzv/rendezvous/driver.h"
#include "rdzv/rendezvous/rendezvous.h"

#define SHOWN_BYTES 80 /* of an id, and of a host */
/* Runs and spaces that are looked at for one hint: a status with many runs stays linear. */
#define TWINS_LOOKED_AT 256
/* The nodes of a job begin within so long. */
#define TWINS_WITHIN_US 60000000

/* Torch still waits for MIN nodes: it makes no last call. */
static bool is_forming(const struct run_view *v)
{
    return v->is_state && !v->state.complete && !v->state.closed && !v->state.has_deadline &&
           v->state.count > 0;
}

/* The agent of a run that forms with one node; NULL: it is another run. */
static const struct agent *only_agent(struct run_view *v)
{
    return is_forming(v) && v->state.count == 1
               ? run_agent_of(&live_run_of(v)->run, &v->state.nodes[0])
               : NULL;
}

static bool may_be_one_job(const struct agent *a, const struct agent *b)
{
    int64_t apart_us = conn_agent_of(a)->joined_us - conn_agent_of(b)->joined_us;

    return !slice_equal(a->node.addr, b->node.addr) && apart_us < TWINS_WITHIN_US &&
           apart_us > -TWINS_WITHIN_US;
}

static int shown_len(struct slice text)
{
    return text.len < SHOWN_BYTES ? (int)text.len : SHOWN_BYTES;
}

static void hint_other_ids(const struct engine_space *space, struct run_view *own, struct hints *h)
{
    const struct agent *agent = only_agent(own);
    struct run_view *first = NULL, *v = NULL;
    size_t count = 0;

    if (agent == NULL)
        return;
    for (size_t i = 0; i < TWINS_LOOKED_AT && (v = rendezvous_next(space, v)) != NULL; i++) {
        const struct agent *other = v == own ? NULL : only_agent(v);

        if (other == NULL || !may_be_one_job(agent, other))
            continue;
        if (count++ == 0)
            first = v;
    }
    if (first != NULL)
        run_status_hint(
            h,
            "runs in which one node of another host waits as well: %zu, such as %.*s of %.*s: do "
            "the nodes of one job have different ids (--rdzv-id)?",
            count, shown_len(first->id), (const char *)first->id.ptr,
            shown_len(first->state.nodes[0].addr), (const char *)first->state.nodes[0].addr.ptr);
}

/* Without the name: a client may not know of other spaces. */
static void hint_other_space(const struct engine *e, const struct run_view *own, struct hints *h)
{
    const struct engine_space *space;
    size_t looked = 0;

    TAILQ_FOREACH(space, &e->spaces, entry) {
        const struct run_view *v = rendezvous_find(space, own->id);

        if (v != NULL && v != own && is_forming(v)) {
            run_status_hint(h, "a run of this id also waits for nodes in another space of this "
                               "store: is the --space of a relay mistyped?");
            return;
        }
        if (++looked == TWINS_LOOKED_AT)
            return;
    }
}

void run_twins_hint(const struct run_facts *f, struct hints *h)
{
    const struct rendezvous_space *home;

    if (f->run == NULL || !is_forming(f->view))
        return;
    home = ((const struct live_run *)(const void *)f->run)->home;
    hint_other_ids(home->space, (struct run_view *)(uintptr_t)f->view, h);
    hint_other_space(home->rdzv->engine, f->view, h);
}
