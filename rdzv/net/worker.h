/* One thread beside the loop, for what takes milliseconds of computing and needs nothing of the
 * daemon. Everything else has one thread: a job touches its own bytes and nothing of anybody else,
 * neither the log nor the account of memory. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include <event2/event.h>
#include <event2/event_struct.h>

struct worker_job {
    TAILQ_ENTRY(worker_job) entry;
    void (*run)(struct worker_job *job);  /* in the thread */
    void (*done)(struct worker_job *job); /* in the loop, from worker_fini() too; may free it */
};

TAILQ_HEAD(worker_job_list, worker_job);

struct worker {
    struct event_base *base;
    void (*idle)(void *arg); /* in the loop, when jobs have come back, or after worker_poke() */
    void *arg;
    bool started;
    size_t given; /* and not done yet */
    struct event event;
    int wake; /* an eventfd: jobs have come back */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct worker_job_list todo, back; /* these three are the lock's */
    bool stop;
};

/* `base` outlives the worker. */
void worker_init(struct worker *w, struct event_base *base, void (*idle)(void *arg), void *arg);

/* Starts the thread, if there is none yet: a daemon that has nothing to compute has one thread
 * alone. False, with errno, after it logged why: there is no memory, or the system has no room for
 * a thread. */
bool worker_start(struct worker *w);

/* The thread has been started. The job is the worker's until its done() is called. */
void worker_give(struct worker *w, struct worker_job *job);

/* idle() is called in the next iteration. The thread has been started. */
void worker_poke(struct worker *w);

/* Waits for the job that is being run; others are done without having been run. */
void worker_fini(struct worker *w);
