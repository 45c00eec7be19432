/* The keys of torch's agents, by their text: /torch.rendezvous.R has the state of run R, and
 * /torch.rendezvous.R.N/NAME is a key of its round N. Upstream: C10dRendezvousBackend
 * (rendezvous/c10d_rendezvous_backend.py), next_rendezvous() (rendezvous/dynamic_rendezvous.py). */
#pragma once

#include "proto/bytes.h"

#define TORCH_RUN_PREFIX "/torch.rendezvous." /* R follows */

/* The text that torch's first compare-and-set puts into the key of a run: no node has joined. */
#define TORCH_RUN_SENTINEL "Y2FuaW1hZGFt"

/* The names of keys of a round, or their begin. Up to torch 2.3: role_info0, role_info0.FIN. */
#define TORCH_ROLE_KEYS  "torchelastic/role_info"
#define TORCH_RANKS_KEYS "torchelastic/assigned_ranks/"
#define TORCH_EXIT_KEYS  "torchelastic/agent/terminal_state" /* of the exit barrier */

/* True for every key that agents use: workers never do. */
static inline bool torch_key_is_agents(struct slice key)
{
    return key.len >= sizeof TORCH_RUN_PREFIX - 1 &&
           memcmp(key.ptr, TORCH_RUN_PREFIX, sizeof TORCH_RUN_PREFIX - 1) == 0;
}

/* The fronts of a key that may be the key of its run, if it is the key of a round: up to `most`
 * lengths, the longest first. R may hold dots, digits and slashes itself, so there may be several;
 * with the bound, a key does not cost more the more it looks like one. Returns how many. */
size_t torch_key_fronts(struct slice key, size_t *lengths, size_t most);

/* Splits the key of a round behind one of its fronts: its round, and the name behind that. */
void torch_key_split(struct slice key, size_t front, int64_t *round, struct slice *name);

/* Writes the key of that round into `out`, which has TORCH_KEY_ROOM bytes more than the run's key;
 * returns its length. */
#define TORCH_KEY_ROOM 128
size_t torch_key_write(struct slice run_key, int64_t round, const char *name, uint8_t *out);

/* --- The writers of well-known keys: a client that waits for such a key waits for one rank. --- */

#define TORCH_DEFAULT_GROUP "default_pg" /* the process group of all ranks */

/* Of ProcessGroupNCCL (HeartbeatMonitor): the rank whose collective times out first sets one of
 * these keys to its rank, 4 bytes; of the second, the name of a group follows. All ranks ask for
 * the first one each second; if it is there, they write their flight records, and end. */
#define TORCH_DUMP_KEY     "/exception_dump"
#define TORCH_REMOTE_ERROR "remote_error:"

/* The length of the name of a group made with use_local_synchronization=True: a hash of its ranks
 * and of the number of groups that this rank has made. If the ranks differ in that, they wait for
 * different groups. */
#define TORCH_GROUP_HASH 40

struct torch_key_writer {
    const char *what;   /* the value: "NCCL's id"; static */
    const char *when;   /* the moment at which the writer writes it; static */
    struct slice group; /* the process group, of a key of workers; part of the key; else ptr NULL */
    int64_t rank;       /* of the writer in the group; of agents: among the nodes of the round */
    bool each_writes;   /* each rank, or node, writes such a key, which ends in its own number */
};

/* The writer of a key of workers, as of ProcessGroupGloo and ProcessGroupNCCL (1.13 to 2.14); or of
 * a key of a round by its name. False: torch writes no such key, or several ranks write it. */
bool torch_key_writer_of_worker(struct slice key, struct torch_key_writer *out);
bool torch_key_writer_of_round(struct slice name, struct torch_key_writer *out);

/* The same of a key of an agent of --rdzv-backend=static (2.4 and later): /ID/torchelastic/... */
bool torch_key_writer_of_static(struct slice key, struct torch_key_writer *out);
