/* Password hashes, computed beside the loop: who has to wait for one waits in a queue of its
 * address, and addresses take turns, one hash each. Those who have sent wrong passwords come behind
 * those who have not, but for a hash now and then. So whoever sends wrong ones keeps others waiting
 * for some hashes, however many it sends, and from however many addresses.
 *
 * A job is one hash. Its owner embeds it and fills in the first half. */
#pragma once

#include "rdzv/etcd/password.h"
#include "rdzv/net/peer.h"
#include "rdzv/net/worker.h"
#include "store/table.h"

/* Of so many hashes, one is a suspect's, if there is any. */
#define HASHER_SUSPECTS 4

/* So many jobs of one address may wait. Each is a connection's, so it is a limit of those, too. */
#define HASHER_WAITING_MAX 1024

struct hash_job;

struct hash_owner {
    /* False: the hash has become needless while the job waited; it is done without one. */
    bool (*is_needed)(const struct hash_job *job);
    /* In a later iteration: `made` is there, or empty when it could not be computed, or was
     * needless. */
    void (*done)(struct hash_job *job, bool computed);
    /* Of a job that was cancelled. It holds the password. */
    void (*free)(struct hash_job *job);
};

enum hash_state {
    HASH_IDLE,      /* its owner's */
    HASH_WAITING,   /* in its lane */
    HASH_COMPUTED,  /* the worker's */
    HASH_CANCELLED, /* the same, and its owner has forgotten it */
};

struct hash_job {
    const struct hash_owner *owner;
    char password[PASSWORD_MAX + 1];
    char setting[PASSWORD_HASH_MAX]; /* what it is hashed with, see password.h */
    char made[PASSWORD_HASH_MAX];

    enum hash_state state;
    struct hasher *hasher;
    struct worker_job work;
    struct hash_lane *lane; /* while it waits */
    TAILQ_ENTRY(hash_job) entry;
};

struct hasher {
    struct worker worker;
    struct crypt_data *room; /* the thread's */
    void (*compute)(const char *password, const char *setting, struct crypt_data *room,
                    char made[PASSWORD_HASH_MAX]); /* password_hash(), but in tests */
    struct stats *stats;
    struct table lanes;                         /* by address and standing; those that have jobs */
    TAILQ_HEAD(hash_lanes, hash_lane) order[2]; /* whose turn is next; [1]: of suspects */
    unsigned passed;                            /* hashes since the last one of a suspect */
};

/* What is passed in outlives the hasher. */
void hasher_init(struct hasher *h, struct event_base *base, struct stats *stats, uint64_t seed);

/* All jobs have been cancelled, or are not the worker's. Waits for the one that is computed. */
void hasher_fini(struct hasher *h);

enum hasher_result {
    HASHER_TAKEN,
    HASHER_FULL,      /* too many of that address wait */
    HASHER_NO_MEMORY, /* or no thread */
};

/* Computes job->made for whoever is at that address; a suspect has sent wrong passwords. Taken, it
 * stays where it is until done() has been called, or it is cancelled. */
enum hasher_result hasher_add(struct hasher *h, struct hash_job *job, const struct peer *peer,
                              bool suspect);

/* Nobody waits for it any more: it is freed as soon as the thread has done with it. */
void hasher_cancel(struct hash_job *job);
