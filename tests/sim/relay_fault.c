/* The faults of a world of sim_relay: a process dies, stands still or has no memory, a disk is
 * full, a link breaks. */
#include "tests/sim/relay_sim.h"

#include "tests/sim/relay_web.h"
#include "tests/support/sim_disk.h"

/* --- Faults. --- */

/* Whom it had failed cannot be told later. */
void note_memory(void)
{
    world.may_end[STORE] = world.may_end[STORE] || memory_failed() > 0;
}

/* What it costs a client, its relay may not hear of. */
static void fail_memory(void)
{
    int process = chance(2) ? STORE : (int)draw(PROCESSES);

    note_memory();
    memory_fail(process, draw(150), 1 + (chance(3) ? draw(20) : 0));
    sums.no_memory++;
    world.breaks = process == STORE && chance(2);
}

static void break_store(void)
{
    if (chance(4)) {
        if (world.processes[STORE].up)
            kill_store();
    } else {
        sim_disk_fail(world_disk, SIM_DIE, 1 + draw(25), UINT64_MAX);
    }
}

/* It ends as it should. */
static void stop_store(void)
{
    sums.stops++;
    check_understood(STORE);
    world.ended_ns = world_now_ns;
    world_current = STORE;
    server_fini(&world.processes[STORE].server);
    world.processes[STORE].up = false;
    world_is_over[STORE] = true;
    net_sim_kill(STORE);
    world_current = OUTSIDE;
    end_disk();
    world.processes[STORE].starts_ns = world_now_ns + draw(1500) * MS;
}

static void kill_relay(int p)
{
    if (!world.processes[p].up)
        return;
    sums.relays++;
    world.may_end[p] = world.barriers_break = true;
    end_process(p);
    world.processes[p].starts_ns = world_now_ns + draw(1000) * MS;
}

/* While the disk is full, the store takes no changes, and a start fails if it needs room. */
static void fill_disk(void)
{
    sums.fills++;
    world.may_end[STORE] = true;
    world.empties_ns = world_now_ns + draw(5000) * MS;
    disk_fill(draw(2000));
}

void maybe_empty_disk(void)
{
    if (disk_is_full() && (world.heals || world_now_ns >= world.empties_ns))
        disk_empty();
}

void cause_fault(void)
{
    int relay = RELAY_A + (int)draw(2);
    uint64_t what = draw(43);

    world.faults--;
    if (what < 14) {
        break_store();
    } else if (what < 22) {
        sums.breaks += net_sim_break(relay);
    } else if (what < 27) {
        sums.parts++;
        net_sim_part(relay, true);
        world.processes[relay].joins_ns = world_now_ns + draw(chance(4) ? 20000 : 500) * MS;
    } else if (what < 30) {
        world.processes[draw(PROCESSES)].slow_ns = world_now_ns + draw(1900) * MS;
    } else if (what < 33) {
        if (world.processes[STORE].up)
            stop_store();
    } else if (what < 35) {
        fail_memory();
    } else if (what < 36) {
        kill_relay(relay);
    } else if (what >= 40) {
        fill_disk();
    } else if (world.always && world.processes[STORE].up) {
        sums.disk_faults++;
        world.may_end[STORE] = true; /* it takes no changes then */
        sim_disk_fail(world_disk, chance(2) ? SIM_EIO : SIM_SHORT, 1 + draw(10), 1 + draw(4));
    }
}

void break_after_failure(void)
{
    if (!world.breaks || memory_failed() == 0 || !chance(8))
        return;
    world.breaks = false;
    for (int p = RELAY_A; p <= RELAY_B; p++)
        sums.breaks += net_sim_break(p);
}

void rejoin(int p)
{
    if (!is_parted(p))
        net_sim_part(p, false);
}
