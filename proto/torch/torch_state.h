/* Torch's rendezvous state: the value of the key torch.rendezvous.R, a base64 pickle of
 * _RendezvousState (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, 1.13 to 2.14). A
 * bounded reader of the opcodes and shapes that torch writes, and a writer that writes as it does.
 * Nothing in a value is ever executed; a value that could be anything else is not a state. */
#pragma once

#include "proto/bytes.h"
#include "proto/queue.h"

#define TORCH_STATE_MAX (64u << 20) /* bytes of a value; 8192 nodes take 1.3 MB */
#define TORCH_ADDR_MAX  1023        /* bytes of a node's address; names have at most 255 */

/* A node as torch names it. In a state `addr` is borrowed from the state's own memory. */
struct torch_node {
    struct slice addr; /* UTF-8 */
    int64_t pid;
    int64_t local_id;
    int64_t rank;         /* valid if participant */
    int64_t heartbeat_us; /* since 1970, by the writer's clock (UTC); valid if has_heartbeat */
    bool participant;
    bool waiting;
    bool redundant;
    bool has_heartbeat;
    bool has_placeholders; /* in no text: rdzvd has put the keys of this lost node */
};

struct torch_state {
    int64_t round;
    int64_t deadline_us; /* since 1970, by the clock of the agent that set it (UTC); valid if
                            has_deadline */
    bool complete;
    bool closed;
    bool has_deadline;

    /* The dialect of the writer, in which torch_state_write() writes. A state without nodes, or
     * without times, does not tell the first two; they are then guessed from the third. */
    bool fqdn;           /* 1.13's name of the attribute `addr` */
    bool aware;          /* times carry UTC; 2.6 and later */
    bool has_redundancy; /* 2.3 and later */
    uint8_t protocol;    /* of the pickle: 4, or 5 from Python 3.14 on */

    struct torch_node *nodes; /* named anywhere; in torch_node_compare()'s order, each once */
    size_t count;
    size_t unnamed; /* so many more participants: see torch_state_read_view() */
    bool is_part;   /* of a larger state, whose other participants are `unnamed` */

    size_t inserted; /* nodes that came since the state, or the one that it copies, was read or
                        made: their addresses stay in `memory`, even if the nodes are removed */

    size_t cap;                 /* private: of nodes */
    struct torch_block *memory; /* private: what the addresses point into; copies share it */
};

/* Sets the allocator of all states, in place of malloc(), reallocarray() and free(). Must be called
 * before the first state is made. */
struct torch_memory {
    void *(*alloc)(size_t len);
    void *(*grow)(void *old, size_t count, size_t size);
    void (*free)(void *p);
};
void torch_state_set_memory(const struct torch_memory *memory);

enum torch_state_status {
    TORCH_STATE_OK,
    TORCH_STATE_NOT_MINE,  /* not for certain what torch writes; *out is untouched */
    TORCH_STATE_NO_MEMORY, /* *out is untouched */
};

/* Reads a value into *out, which keeps nothing of `value` and ends with torch_state_free(). Takes
 * time and memory in proportion to the value. It refuses the text that means "no state yet". */
enum torch_state_status torch_state_read(struct slice value, struct torch_state *out);

/* The same of a view, the text that one agent is shown: it may have participants without names, as
 * `dict.fromkeys(range(COUNT))`. An agent that only counts its peers needs no more, and reads no
 * thousands of names. If an agent writes such a state, their names are 0, 1, ... */
enum torch_state_status torch_state_read_view(struct slice value, struct torch_state *out);

/* Reads the one time in which `wanted` differs from `shown`, a text of torch_state_write(), without
 * reading the rest. False: the two texts are equal, or differ in more than this time. */
bool torch_state_read_beat(struct slice shown, struct slice wanted, int64_t *us);

void torch_state_free(struct torch_state *s);

/* Makes *out the same state, which ends by itself. False: no memory, *out is untouched. */
bool torch_state_copy(const struct torch_state *s, struct torch_state *out);

/* Makes a state equal to the one that torch_state_read() would read from its text: removes nodes
 * that no list names, and clears invalid fields. The nodes before `from` and from `to` on are like
 * that already. False: the text would lose fields, so the caller must write the state and read it
 * again. */
bool torch_state_settle(struct torch_state *s, size_t from, size_t to);

/* By address, pid and local id, as torch compares nodes: the order of ranks. */
int torch_node_compare(const struct torch_node *a, const struct torch_node *b);

/* The node of that address, pid and local id, or NULL. Valid until the next insertion. */
struct torch_node *torch_state_find(const struct torch_state *s, const struct torch_node *who);

/* That node is a participant. */
bool torch_state_takes_part(const struct torch_state *s, const struct torch_node *who);

/* A loop over the nodes of a state. */
#define NODES_FOREACH(node, state) FOREACH(struct torch_node, node, (state)->nodes, (state)->count)

/* How many participants there are: the size of the world, once the round is complete. */
size_t torch_state_participants(const struct torch_state *s);
/* How many nodes are on the wait list. */
size_t torch_state_waiting(const struct torch_state *s);

/* Makes the round complete, and gives its participants their ranks, as torch's
 * _mark_rendezvous_complete() does it. */
void torch_state_complete(struct torch_state *s);

/* Adds a copy of *who, unless the state has that node; *at is the state's node.
 * Copies the address, which may have TORCH_ADDR_MAX bytes. False: no memory, nothing has changed.
 */
bool torch_state_insert(struct torch_state *s, const struct torch_node *who,
                        struct torch_node **at);

/* The text that torch loads as this state: at *text, which the caller frees. Omits a node without a
 * heartbeat that no list names; times before the year 1 and after 9999, which torch cannot hold,
 * become the nearest it can. False: no memory.
 *
 * A state that was read takes at most TORCH_STATE_GROWTH() of its old size: equal nodes and
 * addresses are written once, but their numbers may take four bytes where the reader saw one. */
#define TORCH_STATE_GROWTH(len) ((len) + (len) / 3 + 2048)
bool torch_state_write(const struct torch_state *s, uint8_t **text, size_t *len);

/* --- Texts that begin alike. The views of all agents name participants that are no nodes: node i
 * has the pid i. A front is the text of a state with `count` of them. A text that begins with the
 * first few is written and read without going through them. --- */

struct torch_front;

/* `like`: what the texts say beside nodes. NULL: no memory. */
struct torch_front *torch_front_new(const struct torch_state *like, struct slice addr,
                                    size_t count);
void torch_front_free(struct torch_front *f);

/* False, also of NULL: the front says something else, or has less than `count` participants. */
bool torch_front_fits(const struct torch_front *f, const struct torch_state *like, size_t count);

/* As torch_state_write(), of a state that also has the first `count` participants of the front. */
bool torch_front_write(const struct torch_front *f, size_t count, const struct torch_state *s,
                       uint8_t **text, size_t *len);

/* As torch_state_read(), of a text that also has these; *out is without them. NOT_MINE: also if the
 * text does not begin like the front. */
enum torch_state_status torch_front_read(const struct torch_front *f, size_t count,
                                         struct slice value, struct torch_state *out);

/* How long torch's agents wait by default. Upstream: dynamic_rendezvous.py, RendezvousSettings and
 * RendezvousTimeout; c10d_rendezvous_backend.py, read_timeout (1.13 to 2.14). */
#define TORCH_HEARTBEAT_MS    5000  /* between two heartbeats of a node */
#define TORCH_DEAD_MS         15000 /* others presume a node dead whose heartbeat is that old */
#define TORCH_READ_TIMEOUT_MS 60000 /* for a reply of a c10d store */

/* --- Nodes of a run, from its states: torch_nodes.c. --- */

#define NODE_TEXT_MAX 320

/* "host/pid/local id": how torch tells nodes apart. Returns `text`. */
const char *node_text(const struct torch_node *node, char text[NODE_TEXT_MAX]);
/* "host (pid N)" of that, for people. Returns `words`. */
const char *node_words(const char *node, char words[NODE_TEXT_MAX]);

/* Where a node of a state is; NULL: it is in none. */
const char *node_role(const struct torch_node *node);
/* "participant", "waiting", "spare", "none". */
const char *node_role_text(const struct torch_node *node);

/* The participant of that rank; NULL: none. */
const struct torch_node *node_of_rank(const struct torch_state *round, int64_t rank);

/* The nodes of two states, in their order. */
struct node_pairs {
    const struct torch_state *before, *now;
    size_t before_at, now_at;
};

/* The next node, as the two states have it; NULL: that state does not. False: there are no more. */
bool node_pairs_next(struct node_pairs *p, const struct torch_node **before,
                     const struct torch_node **now);

/* --- The nodes without which a run goes on: nodes of a complete round that a later complete round
 * lacks. A function of three states; why and when a node was lost is in the history. --- */

/* A round was completed as `now`, and the round before as `then`; `gone` are the nodes absent until
 * now. Makes *out the nodes absent from now on, with their last rank, in the order of nodes:
 *
 * - A participant of `now` is not absent.
 * - Each newcomer, a participant of `now` that is in neither `then` nor `gone`, makes up for one
 * absent node: for a node of the same address, or else of another address, nodes of `gone` first.
 *
 * So the number of absent nodes never exceeds the number that `now` lacks against the largest
 * round. False: no memory, *out is untouched. */
bool absent_nodes_next(const struct torch_state *gone, const struct torch_state *then,
                       const struct torch_state *now, struct torch_state *out);

/* A round was completed as `now`: it becomes *last, and *gone follows from them. `had`: *last was a
 * completed round. False: no memory, nothing has changed. */
bool absent_nodes_keep(const struct torch_state *now, bool had, struct torch_state *last,
                       struct torch_state *gone);
