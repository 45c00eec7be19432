/* Time, chance, and telling. See jobs.h. */
#include "tests/sim/jobs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct sim sim;

uint64_t sim_draw(uint64_t n)
{
    uint64_t z = sim.random += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

uint64_t job_size(const struct job *job, uint64_t nodes)
{
    const struct run_rules *rules = &job->run->run.rules;
    uint64_t multiple = rules->group != 0 ? 0 : rules->nodes_multiple;

    if (nodes > job->settings.max_nodes)
        nodes = job->settings.max_nodes;
    return multiple == 0 || multiple > job->settings.max_nodes ? nodes : nodes - nodes % multiple;
}

static void print(FILE *to, const char *format, va_list list)
{
    fprintf(to, "%8.3f ", (double)(sim_now() - FIRST_MS) / 1000);
    vfprintf(to, format, list);
    fputc('\n', to);
}

void sim_tell(const char *format, ...)
{
    va_list list;

    if (!sim.verbose)
        return;
    va_start(list, format);
    print(stdout, format, list);
    va_end(list);
}

void sim_fail(const char *format, ...)
{
    va_list list;

    fflush(stdout);
    fprintf(stderr, "sim_rendezvous%s --seed %" PRIu64 " --count 1 --verbose: ", sim.options,
            sim.seed);
    va_start(list, format);
    print(stderr, format, list);
    va_end(list);
    exit(1);
}
