/* Batches of a journal or a snapshot on their way into a store. Most of the time that a replay
 * takes, the processor waits for memory that is in no cache: so what some changes are going to look
 * for is fetched while those before them are carried out. */
#pragma once

#include "store/disk/record.h"

struct store;

/* First the place of what the change looks for is fetched, and some changes later what is there.
 * Nothing comes of either but speed. */
void replay_fetch_place(struct store *s, struct record *r);
void replay_fetch_node(struct store *s, const struct record *r);

/* So many changes ahead. */
#define REPLAY_PLACE 16
#define REPLAY_NODE  8

/* Batches that are decoded and not carried out yet. All zeros: none, of no store. */
struct replay {
    struct store *store;
    struct record_batch batches[REPLAY_PLACE];
    uint64_t first; /* the number of puts before the oldest of them */
    uint64_t end;
};

void replay_init(struct replay *r, struct store *s);

/* Frees what was not carried out. */
void replay_fini(struct replay *r);

/* Decodes one more batch; there is room, see replay_next(). False: it is none, or memory is short.
 */
bool replay_put(struct replay *r, struct slice bytes);

/* The oldest batch, to be carried out and then dropped: of many, or when `all` is set, of any.
 * NULL: more is to be put first. */
const struct record_batch *replay_next(const struct replay *r, bool all);
void replay_drop(struct replay *r);
