/* Sessions of relays: what the store has to know of a client behind a relay so that each of its
 * requests is carried out exactly once, whoever of relay and store is restarted in between.
 *
 * The relay numbers the requests of a session. A request that has changed anything is followed by
 * SESSION_DONE in the same batch: its number, and what it was answered. When the relay sends its
 * requests again, those up to that number have been carried out; those behind it have changed
 * nothing, or were never here, and are carried out now.
 *
 * Answers. Those of ADD, DELETE and of a BARRIER that opens are some bytes, which are kept. That of
 * QUEUE_POP ends with the element, of which a reference is kept: the journal does not write it
 * again, since the QUEUE_POP before it has taken the same element off the same queue (see
 * keymap_take_popped()); a snapshot writes it. Of a COMPARE_SET that took effect the relay knows
 * the answer. An answer is kept until the next SESSION_DONE of its session, or its end.
 *
 * Barriers. A BARRIER that has to wait is SESSION_DONE with RELAY_ARRIVED and the key: it is
 * counted now. From then on the session stands in the barrier itself, beside the clients that wait
 * there, and it opens for the one as for the others, by the change BARRIER_OPEN; whether it has,
 * session_passed() says, however often the key was deleted, or counted up anew, meanwhile. So who
 * sends the request again is not counted again, and passes if the barrier has opened since it was
 * counted; else it waits for that. A barrier is of the keys that its session is bound to.
 *
 * Sessions stay when their space is reset or forgets its keys: their clients are connected, and
 * what was answered to them was. Those in a barrier wait on, as other clients do. A worker store is
 * not dropped while a session is bound to it.
 *
 * How many there are is the matter of those who make them: each is a connection of a client. */
#pragma once

#include "proto/relay.h"
#include "store/change.h"
#include "store/quota.h"
#include "store/result.h"
#include "store/table.h"

#include <sys/queue.h>

struct keymap;
struct space;

/* An answer that is kept, but for an element. */
#define SESSION_ANSWER_MAX 64u

struct session {
    struct table_node node; /* the id */
    TAILQ_ENTRY(session) order;
    struct sessions *home;
    uint64_t id;           /* the relay's */
    uint64_t number;       /* the last request that has changed anything; 0: none */
    uint64_t worker_store; /* whose keys it uses; 0: the space's own */
    struct blob *popped;   /* the answer ends with it: its length in eight bytes, and the bytes */
    uint32_t snapshot;     /* the number of the one that has it already */
    uint8_t flags;         /* RELAY_ANSWERED, RELAY_TOOK, RELAY_ARRIVED: what became of it */
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
    struct space *space;
    struct reserve *reserve;
    struct quota *quota; /* of the space */
    size_t bytes;        /* of sessions, and of elements that they were answered */
};

void sessions_init(struct sessions *s, struct space *space, struct reserve *reserve, uint64_t seed,
                   struct quota *quota);

/* Before the keys of the space end. */
void sessions_fini(struct sessions *s);

/* NULL when there is none. */
struct session *session_find(const struct sessions *s, uint64_t id);

/* Whether the barrier in which the session stands has opened, or is no more. Of a session with
 * RELAY_ARRIVED. */
bool session_passed(const struct session *s);

/* Before a request of a session that may change something: makes sure that its SESSION_DONE finds
 * memory. STORE_FULL: the space has no room for one session more. */
enum store_status session_prepare(struct sessions *s, uint64_t id);
