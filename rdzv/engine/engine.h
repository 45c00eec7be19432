/* The store as the daemon runs it: its spaces, its clocks, the commit of an iteration's changes,
 * and the commit that each queued answer waits for. It uses no sockets and no libevent: tests and
 * simulations drive an engine with their own clock.
 *
 * An iteration reads and applies requests (engine_apply()), collects whom the changes woke
 * (store_next_ready()), and commits (engine_commit()). An answer may be sent once everything that
 * it may show is committed: who queues one keeps engine_watermark(), and sends when
 * engine_is_committed() says so. */
#pragma once

#include "rdzv/engine/clock.h"
#include "rdzv/engine/log.h"
#include "rdzv/engine/stats.h"
#include "store/store.h"

struct data_dir;
struct journal_etcd;

/* Where an engine's batches are kept: a table of functions, with an implementation each for a data
 * directory (data_dir.h) and an etcd v3 cluster (journal_etcd.h). Who opens one fills the engine
 * with what it holds, and then puts the table into the engine's options.
 *
 * With `commit` NULL there is no journal. Any other function may be NULL: nothing to do. */
struct engine_journal {
    /* Takes a batch, which has changes and is borrowed for the call; batch_take() is allowed.
     * Returns the number of the newest batch that is as durable as promised: this batch's, or an
     * earlier one's while the disk is slow. Later progress is reported with engine_committed(). */
    uint64_t (*commit)(void *arg, struct batch *batch);

    /* Before answers are sent: the newest batch that answers may show. It may fall, down to 0,
     * while another replica may have taken over. NULL: the number of engine_committed() counts. */
    uint64_t (*vouch)(void *arg);

    /* True if another process takes the changes, and this process has all committed changes and may
     * take over at any moment. NULL: the journal has a single process. */
    bool (*stands_by)(void *arg);

    /* True if this process takes the changes, but has lost contact for so long that another process
     * may have taken over: clients that can connect elsewhere must do so. NULL: the journal has a
     * single process. */
    bool (*is_cut_off)(void *arg);

    /* Readable when poll() is to be called; -1: never. poll() takes note of what is durable now,
     * and whether changes may come. */
    int fd;
    void (*poll)(void *arg);

    void (*tick)(void *arg); /* once a second */

    /* At the end of an iteration, after the commit: a share of what takes longer, such as a
     * snapshot, about a millisecond's. True: there is more to do at once. */
    bool (*work)(void *arg);

    /* All changes are committed: waits until they are durable, and detaches the table. */
    void (*close)(void *arg);

    void *arg;
};

struct engine_options {
    const struct clock *clock;
    uint64_t seed;                       /* of the hash tables; unguessable by peers */
    const struct key_groups *key_groups; /* see struct store_options */
    size_t space_bytes_max;              /* the same */
    uint64_t space_idle_timeout_ms; /* a space forgets its c10d keys after that long without a c10d
                                       session; 0: never */
    struct engine_journal journal;
};

#define ENGINE_RANKS 8 /* the lowest ranks: two jobs, or two groups of nodes, share these */

/* A space as the daemon sees it. Lives as long as the engine. */
struct engine_space {
    TAILQ_ENTRY(engine_space) entry;
    struct space *store;
    uint64_t c10d_sessions; /* open ones */
    uint64_t idle_since_ms; /* when the last c10d session ended; 0 while a session is open, before
                               the first session, and after the keys were forgotten */
    uint64_t old_keys; /* c10d keys that were there when a session began, after all earlier ones
                          had ended */
    uint32_t rank_writers[ENGINE_RANKS]; /* c10d sessions outside all runs that have written the key
                                            of that rank of torch's group of all ranks */
    uint32_t ranks_here;                 /* those of all ranks */
    bool has_ranks;                      /* there was one since the keys were forgotten */
    uint64_t keys_forgotten;             /* by engine_forget_ranks() so far */
    uint32_t first_end;    /* the rank, plus 1, that ended first while others were here; 0: none */
    uint64_t first_end_ms; /* when */
    void *rendezvous;      /* what rendezvous/ keeps of this space; its own */
    void *etcd_runs;       /* the same of etcd_runs/ */
    void *restart;         /* the same of relay/restart.c */

    /* For relay/: the number of loaded sessions that no relay has opened yet; and whether the
     * rendezvous still waits for this number to become 0. */
    uint64_t sessions_missing;
    bool misses_sessions;
};

TAILQ_HEAD(engine_space_list, engine_space);

/* A room that follows the changes. */
struct engine_observer {
    /* Called from engine_apply(), after a command has changed something. It may apply commands. */
    void (*applied)(void *arg, struct engine_space *space, const struct command *command);
    /* Called from engine_session_end() and engine_session_bind() when the last session of this
     * worker store has left it, so that the observer may drop the worker store. */
    void (*unbound)(void *arg, struct engine_space *space, uint64_t worker_store);
    void *arg;
};

struct engine {
    struct engine_options options;
    struct store store;
    struct engine_space_list spaces;
    struct engine_observer observer;      /* of all changes */
    struct engine_observer tree_observer; /* sees all changes except those of c10d's keys */
    struct stats stats;
    int64_t started_ns;

    uint64_t work; /* bytes that changes have caused others to read: the code that executes a
                      request charges its client for them */

    uint64_t alive_ms;  /* when the process was last seen at work; 0: never */
    uint64_t paused_ms; /* total time for which the process was paused */

    uint64_t uses;    /* open ones, see engine_use_began() */
    bool used;        /* there has been one */
    uint64_t used_ms; /* the end of the last one */

    bool expiry_moved; /* engine_next_expiry() may say something new since it was set to false */

    struct engine_found { /* by the journal, at the start */
        bool any;
        uint64_t away_ms; /* from the previous process's last write to this start */
        /* The same, by the wall clocks of both, which may differ. TTLs end by them. */
        uint64_t away_by_wall_ms;
    } found;

    struct data_dir *data_dir;         /* for its figures; NULL: there is none */
    struct journal_etcd *journal_etcd; /* the same */

    struct batch batch; /* the open one: what has changed since the last commit, encoded if there is
                           a journal */
    uint64_t batch_changes; /* how many changes it has */
    uint64_t changes;       /* how many those before it had */
    uint64_t committed;     /* the newest batch that is as durable as promised */
    uint64_t committed_ms;  /* engine_now_ms() of the last commit to a journal */
    const char *refusal;    /* NULL: changes are admitted; else the reason, of engine_refuse() */
    bool has_logged_refusal;
};

void engine_init(struct engine *e, const struct engine_options *options);

/* All sessions have ended. */
void engine_fini(struct engine *e);

/* Finds the space of that name, or makes it. */
struct engine_space *engine_space(struct engine *e, struct slice name);
/* NULL when there is none. */
struct engine_space *engine_find_space(const struct engine *e, struct slice name);

static inline int64_t engine_wall_ns(const struct engine *e)
{
    return clock_wall_ns(e->options.clock);
}

static inline uint64_t engine_now_ms(const struct engine *e)
{
    return clock_monotonic_ms(e->options.clock);
}

/* --- Pauses. The process may be stopped (SIGSTOP, a debugger, a frozen cgroup) or get no
 * processor. Peers must not be blamed for messages that rdzvd could not send or read meanwhile.
 * --- */

/* The loop goes round at least once a second; if so much is between two looks, it was paused. */
#define ENGINE_PAUSE_MS 2000u

/* Before anything that depends on how long a pause took. */
void engine_note_alive(struct engine *e);

/* The same at the end of each iteration, at `now_ms` of engine_now_ms(). */
static inline void engine_note_iteration(struct engine *e, uint64_t now_ms)
{
    if (clock_elapsed_ms(e->alive_ms, now_ms) < ENGINE_PAUSE_MS)
        e->alive_ms = now_ms;
    else
        engine_note_alive(e);
}

/* As engine_now_ms(), but this clock stands while the process is paused: for deadlines of peers.
 * Never 0. When the engine notices a pause, the clock goes back to the end of the last iteration,
 * so compute intervals with clock_elapsed_ms(). */
uint64_t engine_lived_ms(const struct engine *e);

/* Executes a command within the open batch. Clients that it wakes are served at the end of the
 * iteration. See store_execute(). */
void engine_apply(struct engine *e, struct engine_space *space, const struct command *command,
                  struct store_result *out);

/* --- The commit. --- */

/* The batch on which an answer queued now depends: the answer may show any change up to now. */
static inline uint64_t engine_watermark(const struct engine *e)
{
    return e->batch_changes != 0 ? e->batch.number : e->batch.number - 1;
}

static inline bool engine_is_committed(const struct engine *e, uint64_t watermark)
{
    return watermark <= e->committed;
}

/* False: the journal takes no changes at present, so each is answered STORE_READ_ONLY. */
static inline bool engine_takes_changes(const struct engine *e)
{
    return !e->batch.refuses;
}

/* Hands the open batch to the journal, and begins the next one. Without changes it does nothing. */
void engine_commit(struct engine *e);

/* Commits only the time, if nothing else has changed and a journal exists: the next start reads how
 * long the store was alive. */
void engine_commit_time(struct engine *e);

/* Before answers are sent outside of the end of an iteration: see struct engine_journal. */
static inline void engine_vouch(struct engine *e)
{
    if (e->options.journal.vouch != NULL)
        e->committed = e->options.journal.vouch(e->options.journal.arg);
}

/* The journal reports that batches up to `number` are as durable as promised. */
void engine_committed(struct engine *e, uint64_t number);

/* What the journal asks of the loop: see struct engine_journal. Without one, nothing. */
bool engine_stands_by(const struct engine *e);
bool engine_is_cut_off(const struct engine *e);
void engine_poll_journal(struct engine *e);
void engine_tick_journal(struct engine *e);

/* The journal says why it takes no changes, in a text that lives until the next call; NULL: it
 * takes them. The log has each turn of that if it is asked for; `of` names the journal. */
static inline void engine_refuse(struct engine *e, const char *why)
{
    e->refusal = why;
    e->batch.refuses = why != NULL;
}
void engine_log_refusal(struct engine *e, struct log_field of);
void engine_close_journal(struct engine *e);
static inline bool engine_work_journal(struct engine *e)
{
    return e->options.journal.work != NULL && e->options.journal.work(e->options.journal.arg);
}

/* --- Sessions of relays: store/session/session.h says what is kept of each. ---
 *
 * The problem: an answer to ADD is lost with the link or the store, and the relay cannot know
 * whether the store has executed the ADD. If the relay repeats it, the store may count twice;
 * otherwise the ADD may be lost. The obvious way, to note the number of an executed request, fails
 * if the store dies between the change and the note. The invariant: each journal batch with a
 * change of a session's request also has the record of this request, its number and its answer. So
 * after any restart the store knows for each number whether it took effect, and can repeat the
 * answer. The caller (relay/link_session.c, through struct conn_backend) keeps the invariant by
 * these steps, all in one slice, which no commit interrupts; engine_session_prepare() ensures that
 * the last step cannot fail:
 *
 *     engine_session_prepare()    else the request is refused, and nothing has changed
 *     before = engine_changes()
 *     … the request …
 *     if engine_changes() != before, and the request was one of those that change something:
 *         engine_session_done()
 *
 * A request of several slices is prepared before each of them, because the prepared memory is only
 * reserved until the iteration ends. */

/* The number of applied changes. It includes changes that an observer makes because of a request: a
 * read, or a refused COMPARE_SET, may cause such changes too. */
static inline uint64_t engine_changes(const struct engine *e)
{
    return e->changes + e->batch_changes;
}

/* What the store knows of a session, until the next engine_session_…(); NULL: nothing. */
const struct session *engine_session_find(const struct engine_space *space, uint64_t id);

/* Before a request that may change something: room for its engine_session_done(). `key`: of a
 * BARRIER; of others empty. STORE_NO_MEMORY, STORE_FULL, STORE_READ_ONLY: it is to be refused. */
enum store_status engine_session_prepare(struct engine *e, struct engine_space *space, uint64_t id,
                                         struct slice key);

/* The request has been carried out, and has changed something. `answer`: with RELAY_ANSWERED, up to
 * SESSION_ANSWER_MAX bytes, and of a QUEUE_POP the eight before the element, which is `popped`
 * (NULL: it was no QUEUE_POP). With RELAY_ARRIVED, the barrier's key. Empty with RELAY_TOOK, and
 * for a request without an answer. */
void engine_session_done(struct engine *e, struct engine_space *space, uint64_t id, uint64_t number,
                         uint8_t flags, struct slice answer, struct blob *popped);

/* Says whose keys a session uses; makes it when there is none. Before its first request that may
 * change something of a worker store. STORE_ABSENT: there is no such worker store. STORE_IN_USE: it
 * stands in a barrier of others. */
enum store_status engine_session_bind(struct engine *e, struct engine_space *space, uint64_t id,
                                      bool is_worker, uint64_t worker_store);

/* Keeps up to SESSION_HINT_MAX bytes with a session for the time after a restart, in place of
 * earlier ones; the store does not read them. False: the session does not exist, the space is full,
 * memory is short, or no change is taken now; nothing has changed. */
bool engine_session_set_hint(struct engine *e, struct engine_space *space, uint64_t id,
                             struct slice hint);

/* Forgets a session; does nothing if the session does not exist. False: the journal takes no change
 * at present, and the session stays. */
bool engine_session_end(struct engine *e, struct engine_space *space, uint64_t id);

/* Iterates over all sessions of a space, in any order, including those that recovery has loaded.
 * The session `after` must still exist, so ask for the next session before you end one. `after`
 * NULL: returns the first session. Returns NULL behind the last. */
struct session *engine_session_next(const struct engine_space *space, const struct session *after);

/* --- Connections, and time. --- */

/* A c10d session of this space begins, ends: a use, too. */
void engine_session_began(struct engine *e, struct engine_space *space);
void engine_session_ended(struct engine *e, struct engine_space *space);

/* A use of the store: a c10d session, or a /v2 request with the watch that it may open. Probes and
 * requests to the daemon's own endpoints are none. */
void engine_use_began(struct engine *e);
void engine_use_ended(struct engine *e);

/* Milliseconds since the last use of the store ended; 0 during a use and before the first use. */
uint64_t engine_unused_ms(const struct engine *e);

/* Removes what has expired in etcd's trees, at most `max` nodes. True: there is more. */
bool engine_expire(struct engine *e, size_t max);

/* Gives all TTLs so much more time: their clients could not refresh them meanwhile. */
void engine_postpone_expiry(struct engine *e, uint64_t by_ms);

/* When the next TTL ends, by the wall clock; false: none is pending. */
bool engine_next_expiry(struct engine *e, int64_t *at_ns);

/* Forgets the c10d keys of a space, for that reason. */
void engine_forget_keys(struct engine *e, struct engine_space *space, const char *reason);

/* The same of the keys that begin with `prefix`, after the last rank has gone, in pieces. False:
 * call it again. Keys that have come since the first call stay. */
bool engine_forget_ranks(struct engine *e, struct engine_space *space, struct slice prefix);

/* Once a second: a space without a c10d session for --space-idle-timeout forgets its c10d keys, and
 * what nobody reads any more is freed. */
void engine_tick(struct engine *e);
