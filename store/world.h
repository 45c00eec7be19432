/* Worlds: the key spaces of workers. A world of torch is all the ranks of one completed round; they
 * must find empty keys, whatever those of the round before left behind. So each round gets a world
 * here: a keymap beside the plain one of the space, named by a number that is never used again. */
#pragma once

#include "store/keymap.h"

struct world {
    uint64_t id; /* from 1 on, in order of creation within the space */
    struct keymap keys;
    bool current;      /* of the newest completed round of its run: newcomers get this one */
    uint32_t sessions; /* who uses it: the server's count, on which no command depends */
};

/* The worlds of one space, ordered by id. */
struct worlds {
    struct world **items;
    size_t count;
    uint64_t last_id;
};

void worlds_init(struct worlds *w);

/* Nobody may be waiting in any of them. */
void worlds_fini(struct worlds *w);

/* NULL when there is none of that number. */
struct world *worlds_find(const struct worlds *w, uint64_t id);

/* A new, empty one, current. NULL when memory is short, with nothing changed. */
struct world *worlds_open(struct worlds *w, struct ready_list *ready, uint64_t seed,
                          size_t bytes_max);

/* Frees one that nobody uses. */
void worlds_drop(struct worlds *w, struct world *world);

/* Takes worlds_open() back: as if the newest had never been. */
void worlds_undo(struct worlds *w);

/* Empties all and makes none current: those who still use them go on with nothing. Returns how many
 * keys and queues went. */
uint64_t worlds_clear(struct worlds *w);
