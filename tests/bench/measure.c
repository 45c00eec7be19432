/* The buckets of the histogram; reads /proc/PID/task/TID/schedstat, status, smaps_rollup and fd.
 * See measure.h. */
#include "tests/bench/measure.h"

#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEP_BITS 7 /* log2(HIST_STEPS) */

static size_t bucket_of(uint64_t ns)
{
    unsigned power;
    size_t at;

    if (ns < HIST_STEPS)
        return (size_t)ns;
    power = 63u - (unsigned)__builtin_clzll(ns);
    at = (size_t)(power - STEP_BITS + 1) * HIST_STEPS;
    at += (size_t)(ns >> (power - STEP_BITS)) & (HIST_STEPS - 1);
    return at < HIST_POWERS * HIST_STEPS ? at : HIST_POWERS * HIST_STEPS - 1;
}

static uint64_t bucket_end(size_t at)
{
    size_t row = at / HIST_STEPS;
    size_t step = at % HIST_STEPS;

    if (row == 0)
        return step;
    return ((uint64_t)(HIST_STEPS + step + 1) << (row - 1)) - 1;
}

void hist_add(struct hist *h, uint64_t ns)
{
    h->count++;
    h->bucket[bucket_of(ns)]++;
    if (ns > h->max_ns)
        h->max_ns = ns;
}

uint64_t hist_percentile(const struct hist *h, double part)
{
    uint64_t rank = (uint64_t)((double)h->count * part);
    uint64_t seen = 0;

    if (rank >= h->count)
        return h->max_ns;
    for (size_t at = 0; at < HIST_POWERS * HIST_STEPS; at++) {
        seen += h->bucket[at];
        if (seen > rank)
            return bucket_end(at) < h->max_ns ? bucket_end(at) : h->max_ns;
    }
    return h->max_ns;
}

void hist_merge(struct hist *sum, const struct hist *h)
{
    sum->count += h->count;
    sum->max_ns = h->max_ns > sum->max_ns ? h->max_ns : sum->max_ns;
    for (size_t at = 0; at < HIST_POWERS * HIST_STEPS; at++)
        sum->bucket[at] += h->bucket[at];
}

#define PATH_LEN 64

/* Calls `each`, if there is one, for every numbered entry of /proc/PID/FOLDER; counts them. */
static unsigned for_each(pid_t pid, const char *folder,
                         void (*each)(pid_t pid, const char *name, void *arg), void *arg)
{
    char path[PATH_LEN];
    struct dirent *entry;
    unsigned count = 0;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, folder);
    dir = opendir(path);
    if (dir == NULL)
        err(1, "%s", path);
    while ((entry = readdir(dir)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        count++;
        if (each != NULL)
            each(pid, entry->d_name, arg);
    }
    closedir(dir);
    return count;
}

static void add_thread(pid_t pid, const char *tid, void *arg)
{
    struct proc_time *sum = arg;
    uint64_t run, wait;
    char path[PATH_LEN];
    FILE *in;

    snprintf(path, sizeof path, "/proc/%d/task/%.10s/schedstat", (int)pid, tid);
    in = fopen(path, "re");
    if (in == NULL)
        return; /* the thread has just ended */
    if (fscanf(in, "%" SCNu64 " %" SCNu64, &run, &wait) == 2) {
        sum->run_ns += run;
        sum->wait_ns += wait;
    }
    fclose(in);
}

struct proc_time proc_time(pid_t pid)
{
    struct proc_time sum = {0};

    for_each(pid, "task", add_thread, &sum);
    return sum;
}

unsigned proc_threads(pid_t pid)
{
    return for_each(pid, "task", NULL, NULL);
}

unsigned proc_files(pid_t pid)
{
    return for_each(pid, "fd", NULL, NULL);
}

long proc_size(pid_t pid, const char *file, const char *name)
{
    char path[PATH_LEN], line[256];
    long kib = -1;
    FILE *in;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    in = fopen(path, "re");
    if (in == NULL)
        err(1, "%s", path);
    while (kib < 0 && fgets(line, sizeof line, in) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            kib = strtol(line + strlen(name) + 1, NULL, 10);
    }
    fclose(in);
    if (kib < 0)
        errx(1, "%s: no line %s", path, name);
    return kib * 1024;
}

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000};

    nanosleep(&pause, NULL);
}

long proc_settled_memory(pid_t pid)
{
    long before = proc_size(pid, "smaps_rollup", "Anonymous");

    for (int same = 0, tries = 0; same < 4 && tries < 100; tries++) {
        long now;

        pause_ms(50);
        now = proc_size(pid, "smaps_rollup", "Anonymous");
        same = now == before ? same + 1 : 0;
        before = now;
    }
    return before;
}

void proc_await_rest(pid_t pid)
{
    uint64_t before = proc_time(pid).run_ns;

    for (int tries = 0; tries < 300; tries++) {
        uint64_t now;

        pause_ms(100);
        now = proc_time(pid).run_ns;
        if (now - before < 1000000)
            return;
        before = now;
    }
}
