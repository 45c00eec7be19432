/* Threads beside the loop's: there are few, each with one job. */
#pragma once

#include <pthread.h>
#include <stddef.h>

/* Starts one with a stack of that many bytes, to which no signal is delivered: signals are the
 * loop's. The caller joins or detaches it. 0, or an error number; then there is no thread. */
int thread_start(pthread_t *thread, size_t stack, void *(*work)(void *arg), void *arg);
