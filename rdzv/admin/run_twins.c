/* Runs that may be one job: its nodes have different ids, or different spaces, and wait for each
 * other in vain. See run_status.h. */
#include <ctype.h>

#include "rdzv/admin/run_status.h"
#include "rdzv/rendezvous/driver.h"
#include "rdzv/rendezvous/rendezvous.h"

#define SHOWN_BYTES 80 /* of an id, and of a host */
/* Runs and spaces that are looked at for one hint: a status with many runs stays linear. */
#define TWINS_LOOKED_AT 256
#define TWINS_WITHIN_US 60000000 /* the nodes of a job begin within so long */

/* Torch still waits for MIN nodes: it makes no last call. */
static bool is_forming(const struct run_view *v)
{
    return v->is_state && !v->state.complete && !v->state.closed && !v->state.has_deadline &&
           v->state.count > 0;
}

/* The first agent of a run that forms; NULL: it is another run. */
static const struct agent *first_agent(struct run_view *v)
{
    return is_forming(v) ? run_agent_of(&live_run_of(v)->run, &v->state.nodes[0]) : NULL;
}

/* The ids differ in case, or in one character: exchanged, or put in. One digit more or less, or
 * another digit, is how people number their jobs. */
static bool are_nearly_equal(struct slice a, struct slice b)
{
    size_t most = a.len < b.len ? b.len : a.len, least = a.len + b.len - most;
    size_t front = 0, back = 0;

    while (front < least && tolower(a.ptr[front]) == tolower(b.ptr[front]))
        front++;
    while (back < least - front &&
           tolower(a.ptr[a.len - 1 - back]) == tolower(b.ptr[b.len - 1 - back]))
        back++;
    return front == most ||
           (front + back + 1 == most && ((front + back < a.len && !isdigit(a.ptr[front])) ||
                                         (front + back < b.len && !isdigit(b.ptr[front]))));
}

static bool may_be_one_job(struct run_view *x, struct run_view *y)
{
    const struct agent *a = first_agent(x), *b = first_agent(y);
    int64_t apart_us;

    if (a == NULL || b == NULL || slice_equal(a->node.addr, b->node.addr))
        return false;
    apart_us = conn_agent_of(a)->joined_us - conn_agent_of(b)->joined_us;
    return apart_us < TWINS_WITHIN_US && apart_us > -TWINS_WITHIN_US &&
           ((x->state.count == 1 && y->state.count == 1) || are_nearly_equal(x->id, y->id));
}

static int shown_len(struct slice text)
{
    return text.len < SHOWN_BYTES ? (int)text.len : SHOWN_BYTES;
}

static void hint_other_ids(const struct engine_space *space, struct run_view *own, struct hints *h)
{
    struct run_view *first = NULL, *v = NULL;
    size_t count = 0;

    for (size_t i = 0; i < TWINS_LOOKED_AT && (v = rendezvous_next(space, v)) != NULL; i++) {
        if (v == own || !may_be_one_job(own, v))
            continue;
        if (count++ == 0 || are_nearly_equal(own->id, v->id))
            first = v;
    }
    if (first != NULL)
        run_status_hint(
            h,
            "runs of other hosts that also wait for nodes: %zu, such as \"%.*s\" of %.*s: do the "
            "nodes of one job have different ids (--rdzv-id)?",
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
