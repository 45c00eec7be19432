/* One thread beside the loop. See worker.h for the contract. */
#include "rdzv/net/worker.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/engine/thread.h"
#include "rdzv/net/net.h"

/* Of addresses alone: jobs need little, and sanitizers more. */
#define STACK_SIZE (512u << 10)

/* The loop goes first where both want one processor. */
#define NICENESS 10

/* --- The thread. --- */

static struct worker_job *next_job(struct worker *w)
{
    struct worker_job *job;

    while ((job = TAILQ_FIRST(&w->todo)) == NULL && !w->stop)
        pthread_cond_wait(&w->more, &w->lock);
    if (w->stop)
        return NULL;
    TAILQ_REMOVE(&w->todo, job, entry);
    return job;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct worker_job *job;

    setpriority(PRIO_PROCESS, 0, NICENESS); /* Linux takes this for the thread alone */
    pthread_mutex_lock(&w->lock);
    while ((job = next_job(w)) != NULL) {
        pthread_mutex_unlock(&w->lock);
        job->run(job);
        pthread_mutex_lock(&w->lock);
        TAILQ_INSERT_TAIL(&w->back, job, entry);
        eventfd_write(w->wake, 1);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- The loop. --- */

/* One done() at a time, outside of the lock. */
static void take_back(struct worker *w)
{
    struct worker_job_list back = TAILQ_HEAD_INITIALIZER(back);
    struct worker_job *job;

    pthread_mutex_lock(&w->lock);
    TAILQ_CONCAT(&back, &w->back, entry);
    pthread_mutex_unlock(&w->lock);
    while ((job = TAILQ_FIRST(&back)) != NULL) {
        TAILQ_REMOVE(&back, job, entry);
        w->given--;
        job->done(job);
    }
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct worker *w = arg;
    eventfd_t count;

    (void)what;
    eventfd_read(fd, &count);
    take_back(w);
    w->idle(w->arg);
}

void worker_init(struct worker *w, struct event_base *base, void (*idle)(void *arg), void *arg)
{
    *w = (struct worker){.base = base, .idle = idle, .arg = arg};
    pthread_mutex_init(&w->lock, NULL); /* Linux says that these two cannot fail */
    pthread_cond_init(&w->more, NULL);
    TAILQ_INIT(&w->todo);
    TAILQ_INIT(&w->back);
}

static int start(struct worker *w)
{
    int error;

    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->wake < 0)
        return errno;
    event_assign(&w->event, w->base, w->wake, EV_READ | EV_PERSIST, on_wake, w);
    error = net_add_event(&w->event, NULL) ? thread_start(&w->thread, STACK_SIZE, work, w) : errno;
    if (error != 0) {
        event_del(&w->event);
        close(w->wake);
    }
    return error;
}

bool worker_start(struct worker *w)
{
    int error = w->started ? 0 : start(w);

    w->started = error == 0;
    if (w->started)
        return true;
    log_limited(LOG_ERROR, "thread_failed", log_errno("error", error),
                log_str("hint", "give the process more memory, or room for one thread more"));
    errno = error;
    return false;
}

void worker_give(struct worker *w, struct worker_job *job)
{
    w->given++;
    pthread_mutex_lock(&w->lock);
    TAILQ_INSERT_TAIL(&w->todo, job, entry);
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

void worker_poke(struct worker *w)
{
    eventfd_write(w->wake, 1);
}

static void stop(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    TAILQ_CONCAT(&w->back, &w->todo, entry);
    take_back(w);
    event_del(&w->event);
    close(w->wake);
}

void worker_fini(struct worker *w)
{
    if (w->started)
        stop(w);
    w->started = false;
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
}
