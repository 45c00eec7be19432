/* Threads beside the loop's: there are few, each with one job. */
#pragma once

#include <pthread.h>
#include <stddef.h>

/* Starts a thread with a stack of this size, which receives no signals: the event loop gets all of
 * them. The caller joins or detaches it. Returns 0, or an error number if there is no thread. */
int thread_start(pthread_t *thread, size_t stack, void *(*work)(void *arg), void *arg);
