/* For iterations.py: how much CPU time each iteration of a daemon's loop takes, from one
 * epoll_wait() of libevent to the next: that of rdzv/net/sockets.c is another descriptor's. With
 * LD_PRELOAD; the page in the file $ITERATIONS is shared with the test. CPU time excludes other
 * processes of the machine. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

#include "tests/support/preload.h"

#define KINDS 400 /* classes of 0.25 ms; the last class holds all longer iterations */

/* Written here and read there, which may set it to zero at any time. */
struct page {
    volatile uint64_t count;
    volatile uint64_t longest_ns;
    volatile uint64_t kinds[KINDS]; /* how many took so long */
};

static struct page *page;
static pthread_t looper; /* the first thread that waits, */
static int looped;       /* and for that descriptor */
static bool found;
static uint64_t began_ns;

__attribute__((constructor)) static void find_page(void)
{
    page = preload_page("ITERATIONS", sizeof *page);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool is_loop(int epoll)
{
    if (page == NULL)
        return false;
    if (!found) {
        looper = pthread_self();
        looped = epoll;
    }
    found = true;
    return epoll == looped && pthread_equal(looper, pthread_self()) != 0;
}

static void end_iteration(void)
{
    uint64_t took = cpu_ns() - began_ns, kind = took / 250000;

    if (began_ns == 0)
        return;
    page->count++;
    page->kinds[kind < KINDS ? kind : KINDS - 1]++;
    if (took > page->longest_ns)
        page->longest_ns = took;
}

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout)
{
    static int (*next)(int, struct epoll_event *, int, int);
    bool loop = is_loop(fd);
    int n;

    preload_next(&next, "epoll_wait");
    if (loop)
        end_iteration();
    n = next(fd, events, count, timeout);
    if (loop)
        began_ns = cpu_ns();
    return n;
}

int epoll_pwait2(int fd, struct epoll_event *events, int count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    static int (*next)(int, struct epoll_event *, int, const struct timespec *, const sigset_t *);
    bool loop = is_loop(fd);
    int n;

    preload_next(&next, "epoll_pwait2");
    if (loop)
        end_iteration();
    n = next(fd, events, count, timeout, mask);
    if (loop)
        began_ns = cpu_ns();
    return n;
}
