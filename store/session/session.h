/* Sessions of relays: all that the store must remember of a relay's client so that each of its
 * requests is executed exactly once, whichever of relay and store restarts in between.
 *
 * The problem: when a relay loses the store in the middle of a request, it cannot know whether the
 * store has executed the request. Sending an ADD again may count twice, and not sending it may
 * count it never. A list of finished requests beside the keys does not help: a crash between the
 * two writes makes one of them wrong. The invariant: the change and the number of a request are
 * records of one batch, so a journal, snapshot or replica has both or neither.
 * engine/relay_session.c keeps it: session_prepare() reserves the memory first, so that the number
 * cannot fail after the change.
 *
 * The relay numbers the requests of a session. A request that has changed anything is followed by
 * SESSION_DONE in the same batch: its number and its answer. When the relay repeats requests, the
 * store has executed all requests up to that number; later ones have changed nothing, or never
 * arrived, and are executed now.
 *
 * Answers. The session keeps the answers of ADD, DELETE and of a BARRIER that opens, which have a
 * few bytes. The answer of a QUEUE_POP ends with the element, and the session holds a reference to
 * it. The journal does not write the element again, since the QUEUE_POP before it has taken the
 * same element off the same queue (see keymap_take_popped()); a snapshot writes it. The relay
 * itself knows the answer of a COMPARE_SET that took effect. An answer is kept until the next
 * SESSION_DONE of its session, or its end.
 *
 * Barriers. A BARRIER that has to wait is SESSION_DONE with RELAY_ARRIVED and the key: it is
 * counted now. From then on the session stands in the barrier like a waiting client, and
 * BARRIER_OPEN releases both; session_passed() says whether it has, even if the key has been
 * deleted or counted up again since. Its place there is a block of its own, which
 * session_prepare() allocates, and which goes when the barrier opens: most sessions have none. A
 * repeated BARRIER is not counted again. It passes if the barrier has opened since it was counted;
 * else it waits for that. A barrier belongs to the keys that its session is bound to.
 *
 * Sessions stay when their space is reset or forgets its keys, because their clients are still
 * connected and have received their answers. Sessions in a barrier keep waiting, as clients do. A
 * worker store is not dropped while a session is bound to it.
 *
 * Hint. Some bytes that only the daemon understands: it stores what it must know about the
 * session's client after a restart.
 *
 * This module does not limit the number of sessions: each session is a client's connection, and its
 * callers limit connections. */
#pragma once

#include "proto/queue.h"
#include "proto/relay.h"
#include "store/change/change.h"
#include "store/keymap/keymap.h"
#include "store/memory/quota.h"
#include "store/memory/table.h"

struct batch;
struct cow_buffer;
struct worker_stores;

/* The longest answer that a session keeps: a number. The element of a queue does not count. */
#define SESSION_ANSWER_MAX 8u
#define SESSION_HINT_MAX   1280u

/* A session's place in a barrier. */
struct session_arrival {
    struct arrival arrival; /* the first member */
    struct sessions *home;
    struct session *session;
};

struct session {
    struct table_near node; /* the id */
    uint64_t id;            /* the relay's; its bytes are the key */
    TAILQ_ENTRY(session) order;
    uint64_t number;       /* the last request that has changed anything; 0: none */
    uint64_t worker_store; /* whose keys it uses; 0: the space's own */
    struct blob *popped;   /* the answer ends with it: its length in eight bytes, and the bytes */
    struct blob *hint;     /* NULL: none */
    union {
        uint8_t answer[SESSION_ANSWER_MAX];
        struct session_arrival *arrival; /* with RELAY_ARRIVED; NULL: the barrier has opened */
    };
    uint32_t snapshot; /* the number of the latest snapshot that has this session */
    uint8_t flags;     /* RELAY_ANSWERED, RELAY_TOOK, RELAY_ARRIVED: what became of it */
    bool is_worker;
    uint8_t answer_len;
};

_Static_assert(sizeof(struct session) == 88,
               "each client of a relay has one: 96 bytes of malloc()");

TAILQ_HEAD(session_list, session);

/* Those of one space. */
struct sessions {
    struct table table;
    struct session_list list; /* in no order that means anything */
    struct session_spare {
        void *block; /* NULL: none */
        size_t len;
    } spare, spare_arrival, spare_key; /* for the next session, the next place in a barrier, and the
                                          barrier's key; see session_hold_memory() */
    struct session_moment *moment;     /* a snapshot is being written; NULL: none */
    struct keymap *keys; /* the space's own keys; `worker_stores` are its other ones */
    struct worker_stores *worker_stores;
    struct reserve *reserve;
    struct quota *quota; /* of the space */
    size_t bytes;        /* of sessions, memos, and elements in kept answers */
};

void sessions_init(struct sessions *s, struct keymap *keys, struct worker_stores *worker_stores,
                   struct reserve *reserve, uint64_t seed, struct quota *quota);

/* Before the keys of the space end. */
void sessions_fini(struct sessions *s);

/* NULL when there is none. */
struct session *session_find(const struct sessions *s, uint64_t id);

/* True if the session's barrier has opened or no longer exists. With RELAY_ARRIVED, a repeated
 * BARRIER of the client passes if this is true, and else waits without being counted again. */
bool session_passed(const struct session *session);

/* The key of the session's barrier; empty: none. */
struct slice session_barrier(const struct session *session);

/* Called before a request that may change something: session_hold_memory(), if the space has room
 * for one more session. STORE_NO_MEMORY, STORE_FULL. */
enum store_status session_prepare(struct sessions *s, uint64_t id, const struct slice *barrier);

/* Before a SESSION_HINT: false if the space has no room for it, or the session is unknown. */
bool session_hint_fits(const struct sessions *s, const struct session_hint *c);

/* --- Changes; for space.c and snapshot.c only. --- */

/* What each counts for by itself. Its place in a barrier counts from the beginning, so that an
 * arrival cannot exceed the limit of the space. */
#define SESSION_COST (sizeof(struct session) + sizeof(struct session_arrival))

/* Allocates all that the next change of a session takes. `barrier`: the key of a barrier in which
 * it may have to wait; NULL: none. False: malloc() has no memory. */
bool session_hold_memory(struct sessions *s, bool is_new, const struct slice *barrier);

/* True when the request may be the next one that has changed something; holds its memory. */
bool session_can_be_done(struct sessions *s, const struct session_done *c);
void session_do(struct sessions *s, const struct session_done *c);

/* STORE_ABSENT, STORE_IN_USE: see engine_session_bind(). */
enum store_status session_check_bind(const struct sessions *s, const struct session_bind *c);
void session_bind(struct sessions *s, const struct session_bind *c);

void session_set_hint(struct sessions *s, const struct session_hint *c);

/* Ends a session of this space. */
void session_end(struct sessions *s, struct session *session);

/* Loads a session from a snapshot, then the value that it holds. False: the fields contradict each
 * other or the store, or memory is short. */
bool session_load(struct sessions *s, const struct session_state *state);
bool session_load_held(struct sessions *s, const struct key_put *held);

/* --- The sessions at one moment, written in slices while they change; for snapshot.c.
 * Before a session changes or ends, its old state is copied. --- */

struct session_moment {
    struct sessions *sessions; /* have a pointer to this; NULL: it has ended */
    struct cow_buffer *cow;
    const char *name;  /* of the space */
    uint32_t snapshot; /* its number: a session with this number has been written, or is newer than
                          the snapshot */
    struct session *next; /* is written next; NULL: all are */
};

/* `name` lives longer. */
void session_moment_begin(struct session_moment *m, struct sessions *s, struct cow_buffer *cow,
                          const char *name, uint32_t snapshot);

/* Adds unwritten sessions until the batch has about `bytes` bytes. False: memory is short. */
bool session_moment_write(struct session_moment *m, struct batch *out, size_t bytes);

/* Before its time or after it; also twice. */
void session_moment_end(struct session_moment *m);
