/* Waiting for more changes. See gather.h for the contract. */
#include "rdzv/etcd3/gather.h"

/* Clients do not notice more. */
#define WAIT_MOST_NS UINT64_C(2000000)

/* After one that has waited in vain. */
#define RESTS 64u

void gather_take(struct gather *g, uint64_t changes)
{
    g->taken += changes;
}

void gather_send(struct gather *g, bool all)
{
    g->last = all ? g->taken - g->sent : 0;
    g->sent = g->taken;
    g->wanted = 0;
}

/* One client alone asks for one thing at a time: its next change is all that there will be. */
void gather_answer(struct gather *g, uint64_t took_ns, uint64_t now_ns)
{
    uint64_t there = g->taken - g->sent;

    if (g->resting > 0)
        g->resting--;
    else if (g->last > 0 && g->last + there > 1)
        g->wanted = g->taken + g->last;
    g->until_ns = now_ns + (took_ns < WAIT_MOST_NS ? took_ns : WAIT_MOST_NS);
}

bool gather_waits(struct gather *g, uint64_t now_ns)
{
    if (g->wanted == 0)
        return false;
    if (g->taken < g->wanted && now_ns < g->until_ns)
        return true;
    if (g->taken < g->wanted)
        g->resting = RESTS;
    g->wanted = 0;
    return false;
}
