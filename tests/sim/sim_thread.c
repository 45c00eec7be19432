/* The one thread of a simulated store, the journal's, as a coroutine: it goes on when the world
 * says so, and gives up the processor where it waits and in each call of the disk. See world.h. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#include "tests/sim/world.h"

#define STACK (512u << 10)

static struct {
    ucontext_t outside, inside;
    void *(*work)(void *arg);
    void *arg;
    bool alive, running, waits;
    unsigned locks;  /* that it holds */
    uint64_t due_ns; /* while it waits; 0: for a signal alone */
} thread;

static uint8_t stack[STACK];

void thread_sim_reset(void)
{
    if (thread.alive)
        world_fail("the journal's thread was left behind");
    thread.running = thread.waits = false;
}

static void run(void)
{
    thread.work(thread.arg);
    thread.alive = false;
}

static void go_in(void)
{
    int current = world_current;

    thread.running = true;
    world_current = STORE;
    if (swapcontext(&thread.outside, &thread.inside) != 0)
        world_fail("swapcontext");
    world_current = current;
    thread.running = false;
}

void thread_sim_yield(void)
{
    if (thread.running && thread.locks == 0 && !world_is_over[STORE] && !chance(3))
        swapcontext(&thread.inside, &thread.outside);
}

bool thread_sim_step(void)
{
    if (!thread.alive || (thread.waits && (thread.due_ns == 0 || thread.due_ns > world_now_ns)))
        return false;
    go_in();
    return true;
}

uint64_t thread_sim_due_ns(void)
{
    if (!thread.alive || (thread.waits && thread.due_ns == 0))
        return UINT64_MAX;
    return thread.waits ? thread.due_ns : world_now_ns; /* else it was woken just now */
}

int __wrap_thread_start(pthread_t *out, size_t size, void *(*work)(void *arg), void *arg);
int __wrap_thread_start(pthread_t *out, size_t size, void *(*work)(void *arg), void *arg)
{
    (void)size;
    if (thread.alive || world_current != STORE)
        world_fail("a second thread");
    *out = 0;
    thread.work = work;
    thread.arg = arg;
    thread.alive = true;
    thread.waits = false;
    thread.locks = 0;
    getcontext(&thread.inside);
    thread.inside.uc_stack.ss_sp = stack;
    thread.inside.uc_stack.ss_size = sizeof stack;
    thread.inside.uc_link = &thread.outside;
    makecontext(&thread.inside, run, 0);
    return 0;
}

int __wrap_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result)
{
    (void)t;
    (void)result;
    while (thread.alive) {
        if (thread.waits && thread.due_ns > world_now_ns)
            world_now_ns = thread.due_ns;
        go_in();
    }
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    (void)m;
    thread.locks += thread.running;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    (void)m;
    thread.locks -= thread.running;
    return 0;
}

static int wait_until(uint64_t ns)
{
    unsigned locks = thread.locks;

    thread.waits = true;
    thread.due_ns = ns;
    thread.locks = 0;
    swapcontext(&thread.inside, &thread.outside);
    thread.locks = locks;
    thread.waits = false;
    return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    (void)c;
    (void)m;
    return wait_until(0);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at)
{
    (void)c;
    (void)m;
    return wait_until((uint64_t)at->tv_sec * 1000000000 + (uint64_t)at->tv_nsec + 1);
}

int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
    (void)c;
    thread.waits = false;
    return 0;
}
