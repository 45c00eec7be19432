/* A histogram of durations, and what the kernel knows of the server: its time on the CPU, its
 * memory, its files. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Within each power of two, this many equal steps: a percentile is off by at most 1/128. */
#define HIST_STEPS  128
#define HIST_POWERS 40

struct hist {
    uint64_t count;
    uint64_t max_ns;
    uint64_t bucket[HIST_POWERS * HIST_STEPS];
};

/* What one process has measured in a phase. */
struct result {
    uint64_t exchanges;
    uint64_t up, down; /* bytes */
    uint64_t own_ns;   /* its CPU time */
    struct hist latency;
};

void hist_add(struct hist *h, uint64_t ns);
void hist_merge(struct hist *sum, const struct hist *h);

/* The duration that `part` (0 to 1) of all stay at or below, as the upper end of its bucket; 0
 * when nothing was added. */
uint64_t hist_percentile(const struct hist *h, double part);

struct proc_time {
    uint64_t run_ns;  /* on a CPU, all threads, user and kernel */
    uint64_t wait_ns; /* ready to run, and another had the CPU: the noise of the machine */
};

/* All of these end the program with a message when the process cannot be read. */
struct proc_time proc_time(pid_t pid);

/* A size of /proc/PID/FILE in bytes: "status" has VmRSS and VmHWM, "smaps_rollup" has Anonymous. */
long proc_size(pid_t pid, const char *file, const char *name);
/* Anonymous memory in bytes (heap, stacks and other private pages without a file), read until the
 * number is stable. */
long proc_settled_memory(pid_t pid);
/* Waits until the server has used almost no CPU for a tenth of a second. */
void proc_await_rest(pid_t pid);
unsigned proc_threads(pid_t pid);
unsigned proc_files(pid_t pid);
