/* The parts of rdzv-bench: a process has connections (wires) to the server, and on them clients,
 * which do the work. Through simulated relays a wire is a link, and carries the sessions of several
 * clients; else it is the socket of one client.
 *
 * An error (a refused or closed connection, a wrong answer, silence) ends the program with a
 * message: figures of a run that failed are worth nothing. */
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include "proto/c10d_client.h"
#include "proto/queue.h"
#include "rdzv/net/outq.h"
#include "tests/bench/measure.h"

#define HELLO_LEN C10D_HELLO_LEN
#define PONG_LEN  4u

/* Silence after which a run is given up, in seconds. */
#define STALL_S 60

struct client;
struct relay;
struct relay_client;

/* What a client does, as a sequence of exchanges. */
struct work {
    const char *name;
    unsigned flags;  /* WORK_... */
    double requests; /* that the server sees in one exchange; WORK_EACH_OTHER: 3 for each client */
    /* Sends the next requests, the last of which has an answer. `answer` is the answer to the
     * requests before; its ptr is NULL at the start. False: the client is done. */
    bool (*next)(struct client *c, struct slice answer);
    const char *before; /* the work that sets the keys which this one reads; NULL: none */
};

enum {
    WORK_REPEATS = 1, /* one exchange again and again, for as long as the run takes */
    WORK_SAME = 2,    /* and all exchanges of a client are the same bytes */
    WORK_PARKS = 4,   /* all wait, until the program sets the key `awaited_key` */
    WORK_MODERN = 8,  /* has a request that the classic dialect lacks */
    WORK_HTTP = 16,   /* etcd v2 */
    WORK_GRPC = 32,   /* etcd v3 */
    WORK_AGENTS = 64, /* for agents: the other clients rest */
    WORK_IDLES = 128, /* opens or closes connections which say hello and nothing else */
    WORK_TEXT = 512,  /* redis and memcached: an answer is a line */
    WORK_RESTS = 256, /* one exchange per client and second */
};

#define WORK_EACH_OTHER 0

const struct work *work_find(const char *name);
void work_list(void);

/* The bytes of an answer if all answers have the same number, else 0. */
size_t work_answer_size(const struct work *w);

/* How many of the `len` bytes at `in` are the answer that the client awaits; 0: it is not whole. */
size_t work_answer_end(const struct client *c, const uint8_t *in, size_t len);

/* The key for which the clients of a WORK_PARKS wait. */
void work_awaited_key(char key[64]);

struct wire {
    int fd;
    uint8_t state; /* enum wire_state */
    bool blocked;  /* the socket takes no more */
    struct writer out;
    size_t sent;       /* of `out` */
    struct outq queue; /* of a link, in the place of `out` */
    uint8_t *in;       /* the part of an answer or frame that is here; NULL: none */
    size_t in_len;
    struct client *clients;
    unsigned count;
    struct client *agent; /* the agent of a link; NULL: none */
    struct relay *relay; /* of a link: the sessions of its clients, as rdzvd's own relay has them */
    TAILQ_ENTRY(wire) holds; /* in the order of `due_ns` */
    uint64_t due_ns;         /* 0: holds no polls */
    uint64_t heard_ns;
    uint32_t streams;  /* of HTTP/2: none may be used twice, also by a later work */
    uint32_t messages; /* of etcd v3, whose trailers have not come yet */
};

enum wire_state { WIRE_CONNECTS, WIRE_HELLO, WIRE_UP };

struct client {
    struct wire *wire;
    const struct work *work;      /* NULL: rests */
    struct agent *agent;          /* NULL: it is no agent */
    struct relay_client *session; /* on a link; NULL: it has asked nothing yet */
    uint64_t since_ns;            /* when its exchange should have begun */
    uint64_t *sent_ns;            /* the same of `depth` exchanges, as a ring; NULL: depth is 1 */
    uint8_t *same;                /* the bytes of an exchange of a WORK_SAME */
    struct slice held;            /* its request, while its relay holds it; NULL: it holds none */
    uint8_t *part;                /* what has come of an answer on a link */
    size_t part_len, part_cap;
    uint32_t same_len;
    uint32_t index; /* among those of all processes; of agents, too */
    uint32_t step;
    uint32_t due;    /* exchanges under way */
    uint32_t oldest; /* in `sent_ns` */
    uint32_t late;   /* open loop: exchanges that should have begun */
    uint32_t asked;  /* keys of its MULTI_GET */
    uint8_t op;      /* enum c10d_op, of the request whose answer it awaits */
};

struct options {
    const char *connect; /* as it was given */
    struct sockaddr_in to;
    unsigned clients, relays, agents, idle, processes, depth, keys, batch, burst, source;
    size_t key_len, value_len;
    double warmup_s, seconds, rate;
    uint64_t exchanges;
    pid_t server;
    int core;
    bool prepare, classic, scatter, sizes;
};

/* One process. Counters are of the present phase. */
extern struct bench {
    struct options options;
    const struct work *work;
    unsigned phase;   /* differs in each phase: a part of the keys that are set once */
    unsigned process; /* 0 and up */
    int epoll;
    struct wire *wires;
    unsigned wire_count;
    struct client *clients; /* of this process; agents are not among them */
    unsigned client_count;
    struct client *agents;
    unsigned agent_count;
    unsigned pending;                    /* clients still at work, or wires still connecting */
    uint64_t now_ns, began_ns, until_ns; /* now, and the phase */
    uint64_t begun, exchanges_max;
    struct result *result;
    const uint64_t *woken_ns; /* when the clients of a WORK_PARKS were woken */
} bench;

void *need(void *memory);
uint64_t clock_ns(void);

/* --- Wires. --- */

/* Opens all wires of this process and returns when they are up. */
void wires_open(void);
/* Waits up to `ns` for events and acts on them. */
void wires_turn(uint64_t ns);
/* Sends what is queued. */
void wire_flush(struct wire *w);
void idle_open(void);
void idle_close(void);

/* A blocking connection to the server, at an address of its own for each so many ports. */
int connect_blocking(const struct options *o, unsigned i);

/* Queues a request of c10d. */
void ask(struct client *c, const struct c10d_request *req);
/* The same of one that c10d_write_request() has written, with `count` keys. */
void ask_written(struct client *c, enum c10d_op op, unsigned count, struct slice bytes);
/* The same of bytes of another protocol. */
void ask_bytes(struct client *c, const void *bytes, size_t len);

/* --- Driving. --- */

/* An answer to a client is here. */
void client_answered(struct client *c, struct slice answer);
/* For so long, or once. A WORK_PARKS returns when all have asked, and drive_finish() when all have
 * their answers. */
void drive_run(uint64_t ns);
void drive_finish(void);

/* --- Agents. --- */

void agents_start(void);
/* The next round has to be met. */
void agents_again(void);
bool agents_train(void);
void agents_act(void);
void agent_answered(struct client *c, struct slice answer);

/* --- etcd v3. --- */

bool etcd3_next(struct client *c, struct slice answer);
void etcd3_hello(struct wire *w);
size_t etcd3_answer_end(const struct client *c, const uint8_t *in, size_t len);

/* The yardstick: a server that only counts bytes. `arrivals`: it answers when so many requests are
 * there; 0: it answers each. */
__attribute__((noreturn)) void bare_serve(size_t request_len, size_t answer_len, size_t arrivals);
