/* What a simulated world is made of: time, chance, one network, one thread, one disk. Real servers
 * run in it, in this process and one at a time; what they ask of libevent and of the system comes
 * here instead (the linker wraps the calls, see tests/meson.build). All follows from the seed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- Chance. --- */

void world_seed(uint64_t seed);
uint64_t draw(uint64_t below);
static inline bool chance(uint64_t of)
{
    return draw(of) == 0;
}

/* Ends the program, and says how this comes again. */
void world_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* --- Processes: a store, and its relays. --- */

enum { STORE, RELAY_A, RELAY_B, PROCESSES, OUTSIDE = PROCESSES };

extern int world_current;             /* who runs just now; OUTSIDE: a client, or nobody */
extern bool world_is_over[PROCESSES]; /* nothing that it does comes out any more */
#define LISTENER_FD 300               /* that of process 0 */
#define PORT        20000             /* the same */

/* --- Time. --- */

extern uint64_t world_now_ns;
extern uint64_t world_step; /* counts what has happened */
extern bool world_tells;    /* what clients do goes to stderr */

/* --- Memory: from the k-th request on, so many fail; of that process. --- */

extern bool world_may_fail; /* false: there is memory, whoever asks */
void memory_fail(int process, uint64_t at, uint64_t calls);
uint64_t memory_failed(void); /* that have, since memory_fail() */

/* --- The disk of the store. --- */

struct sim_disk;
extern struct sim_disk *world_disk;
void disk_new(uint64_t seed);
/* Another program fills the disk except `room` bytes; disk_empty() removes its files. */
void disk_fill(uint64_t room);
void disk_empty(void);
bool disk_is_full(void);

/* --- Names: world_resolve() answers the pending look-up of a process, if it has one. --- */

bool world_resolve(int process, bool found);

/* --- The loop: see loop.c. --- */

extern bool *loop_stop; /* is set after one pass */
struct event_base;
bool loop_is_ready(const struct event_base *base);
uint64_t loop_next_ns(const struct event_base *base); /* UINT64_MAX: no timer runs */

/* --- The network. --- */

void net_sim_reset(void);
bool net_sim_listens(int process);
/* A connection from outside; -1: nobody listens. */
int net_sim_dial(int process);
size_t net_sim_send(int fd, const void *bytes, size_t len);
/* 0: nothing now; -1: it has ended. */
ssize_t net_sim_recv(int fd, void *to, size_t len);
void net_sim_leave(int fd, bool reset);
int net_sim_ready(int fd); /* EV_READ, EV_WRITE */
/* Some bytes of some connection go on. True: something has moved. */
bool net_sim_move(void);
/* A connection of that relay to the store breaks, at any byte. */
bool net_sim_break(int relay);
/* Nothing moves between that relay and the store. */
void net_sim_part(int relay, bool parted);
/* The process has gone: its sockets close as the kernel closes them. */
void net_sim_kill(int process);
/* Sockets that are open. */
size_t net_sim_count(void);

/* --- The journal's thread. --- */

void thread_sim_reset(void);
bool thread_sim_step(void); /* false: it waits */
uint64_t thread_sim_due_ns(void);
/* A call of the disk: others go on meanwhile. */
void thread_sim_yield(void);
