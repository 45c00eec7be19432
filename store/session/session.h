/* Sessions of relays: what the store has to know of a client behind a relay so that each of its
 * requests is carried out exactly once, whoever of relay and store is restarted in between.
 *
 * The problem: when a relay loses the store in the middle of a request, it cannot know whether the
 * store has carried the request out. Sending an ADD again may count twice, and not sending it may
 * count it never. A list of finished requests beside the keys does not help: a crash between the
 * two writes makes one of them wrong. The invariant: the change of a request and its number are
 * records of one batch, so the journal, a snapshot and a replica have both or neither.
 * engine/relay_session.c keeps it: session_prepare() reserves the memory first, so that the number
 * cannot fail after the change.
 *
 * The relay numbers the requests of a session. A request that has changed anything is followed by
 * SESSION_DONE in the same batch: its number, and what it was answered. When the relay sends its
 * requests again, those up to that number have been carried out; those behind it have changed
 * nothing, or were never here, and are carried out now.
 *
 * Answers. The session keeps the answers of ADD, DELETE and of a BARRIER that opens, which have a
 * few bytes. The answer of a QUEUE_POP ends with the element, and the session holds a reference to
 * it. The journal does not write the element again, since the QUEUE_POP before it has taken the
 * same element off the same queue (see keymap_take_popped()); a snapshot writes it. The relay
 * itself knows the answer of a COMPARE_SET that took effect. An answer is kept until the next
 * SESSION_DONE of its session, or its end.
 *
 * Barriers. A BARRIER that has to wait is SESSION_DONE with RELAY_ARRIVED and the key: it is
 * counted now. From then on the session stands in the barrier itself, beside the clients that wait
 * there, and it opens for the one as for the others, by the change BARRIER_OPEN; whether it has,
 * session_passed() says, however often the key was deleted, or counted up anew, meanwhile. So who
 * sends the request again is not counted again, and passes if the barrier has opened since it was
 * counted; else it waits for that. A barrier is of the keys that its session is bound to.
 *
 * Sessions stay when their space is reset or forgets its keys, because their clients are still
 * connected and have received their answers. Sessions in a barrier go on waiting, as other clients
 * do. A worker store is not dropped while a session is bound to it.
 *
 * Memo. Some bytes that only the daemon understands: it stores what it must know about the
 * session's client after a restart.
 *
 * This module does not limit the number of sessions: each session is a connection of a client, and
 * its callers limit connections. */
#pragma once

#include "proto/relay.h"
#include "store/change/change.h"
#include "store/change/result.h"
#include "store/keymap/keymap.h"
#include "store/memory/quota.h"
#include "store/memory/table.h"

#include <sys/queue.h>

struct batch;
struct cow_buffer;
struct worker_stores;

/* An answer that is kept, but for an element. */
#define SESSION_ANSWER_MAX 64u
#define SESSION_HINT_MAX   1280u

struct session {
    struct table_node node; /* the id */
    TAILQ_ENTRY(session) order;
    struct sessions *home;
    struct arrival arrival; /* at the barrier in which it stands */
    uint64_t id;            /* the relay's; its bytes are the key */
    uint64_t number;        /* the last request that has changed anything; 0: none */
    uint64_t worker_store;  /* whose keys it uses; 0: the space's own */
    struct blob *popped;    /* the answer ends with it: its length in eight bytes, and the bytes */
    struct blob *hint;      /* NULL: none */
    uint32_t snapshot;      /* the number of the snapshot that has this session */
    uint8_t flags;          /* RELAY_ANSWERED, RELAY_TOOK, RELAY_ARRIVED: what became of it */
    bool is_worker;
    uint8_t answer_len;
    uint8_t answer[SESSION_ANSWER_MAX];
};

TAILQ_HEAD(session_list, session);

/* Those of one space. */
struct sessions {
    struct table table;
    struct session_list list;      /* in no order that means anything */
    struct session *spare;         /* memory for the next one; NULL: none, see session_prepare() */
    struct session_moment *moment; /* a snapshot is being written; NULL: none */
    struct keymap *keys;           /* of the space, as are its worker stores */
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

/* Whether the barrier in which the session stood has opened, or is no more. Of a session with
 * RELAY_ARRIVED: if its client sends the BARRIER again, it passes, or else waits there, and has
 * been counted. */
bool session_passed(const struct session *session);

/* The key of the barrier in which it stands; none: it does not. */
struct slice session_barrier(const struct session *session);

/* Before a request of a session that may change something: makes sure that its SESSION_DONE finds
 * memory, and that the space has room for one session more. STORE_NO_MEMORY, STORE_FULL. */
enum store_status session_prepare(struct sessions *s, uint64_t id);

/* Before a SESSION_HINT: false if the space has no room for the hint, or the session does not
 * exist. */
bool session_hint_fits(const struct sessions *s, const struct session_hint *c);

/* --- Changes; for space.c and snapshot.c only. --- */

/* What each costs by itself. */
#define SESSION_COST (sizeof(struct session) + sizeof(struct waiter) + sizeof(struct wait_link))

/* What a change takes of the reserve at most if it is about this session. */
size_t session_memory(const struct sessions *s, uint64_t id);

/* True when the request may be the next one that has changed something. */
bool session_can_be_done(const struct sessions *s, const struct session_done *c);
void session_do(struct sessions *s, const struct session_done *c);

/* STORE_ABSENT, STORE_IN_USE: see engine_session_bind(). */
enum store_status session_check_bind(const struct sessions *s, const struct session_bind *c);
void session_bind(struct sessions *s, const struct session_bind *c);

/* True when the session is there, and the hint is not too long. */
bool session_can_have_hint(const struct sessions *s, const struct session_hint *c);
void session_set_hint(struct sessions *s, const struct session_hint *c);

/* Ends a session of this space. */
void session_end(struct sessions *s, struct session *session);

/* Loads a session from a snapshot, then the value that it holds. False: the fields contradict each
 * other or the store, or memory is short. */
bool session_load(struct sessions *s, const struct session_state *state);
bool session_load_held(struct sessions *s, const struct key_put *held);

/* --- The sessions as they are at one moment, written bit by bit while they change; for snapshot.c.
 * A session that changes or ends before it is written is kept as it was. --- */

struct session_moment {
    struct sessions *sessions; /* have a pointer to this; NULL: it has ended */
    struct cow_buffer *cow;
    const char *name;  /* of the space */
    uint32_t snapshot; /* its number: sessions with this number are written, or are newer than the
                          snapshot */
    struct session *next; /* is written next; NULL: all are */
};

/* `name` lives longer. */
void session_moment_begin(struct session_moment *m, struct sessions *s, struct cow_buffer *cow,
                          const char *name, uint32_t snapshot);

/* Adds unwritten sessions to the batch until it has about `bytes` bytes. False: memory is
 * short. */
bool session_moment_write(struct session_moment *m, struct batch *out, size_t bytes);

/* Before its time or after it; also twice. */
void session_moment_end(struct session_moment *m);
