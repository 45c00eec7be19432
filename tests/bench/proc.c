/* Reads /proc/PID/task/TID/schedstat, smaps_rollup and fd; see proc.h. */
#include "tests/bench/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static long anonymous_memory(pid_t pid)
{
    static const char name[] = "Anonymous:";
    char path[PATH_LEN], line[256];
    long kib = -1;
    FILE *in;

    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    in = fopen(path, "re");
    if (in == NULL)
        err(1, "%s", path);
    while (kib < 0 && fgets(line, sizeof line, in) != NULL) {
        if (strncmp(line, name, sizeof name - 1) == 0)
            kib = strtol(line + sizeof name - 1, NULL, 10);
    }
    fclose(in);
    if (kib < 0)
        errx(1, "%s: no line %s", path, name);
    return kib * 1024;
}

long proc_settled_memory(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    long before = anonymous_memory(pid);

    for (int same = 0, tries = 0; same < 4 && tries < 100; tries++) {
        long now;

        nanosleep(&pause, NULL);
        now = anonymous_memory(pid);
        same = now == before ? same + 1 : 0;
        before = now;
    }
    return before;
}
