/* How every thread is started. See thread.h for the contract. */
#include "proto/thread.h"

#include <signal.h>

int thread_start(pthread_t *thread, size_t stack, void *(*work)(void *arg), void *arg)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error = pthread_attr_init(&attributes);

    if (error != 0)
        return error;
    pthread_attr_setstacksize(&attributes, stack);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, &attributes, work, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}
