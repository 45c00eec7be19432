/* What the kernel knows of the server under load: its time on the CPU, its memory, its files. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct proc_time {
    uint64_t run_ns;  /* on a CPU, all threads, user and kernel */
    uint64_t wait_ns; /* ready to run, and another had the CPU: the noise of the machine */
};

/* All of these end the program with a message when the process cannot be read. */
struct proc_time proc_time(pid_t pid);

/* Anonymous memory in bytes (heap, stacks and other private pages without a file), read until the
 * number is stable. */
long proc_settled_memory(pid_t pid);
unsigned proc_threads(pid_t pid);
unsigned proc_files(pid_t pid);
