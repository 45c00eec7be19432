/* Goodput: how long the workers of a run have trained, and how long its nodes have waited, and for
 * what. A run trains from the moment at which a round is complete to the first sign that this round
 * will not last: the loss of a node, a node that leaves or asks for a place, an order, the end. So
 * the start of the workers counts as training, and also work that is lost with a round, since the
 * store does not know when a job has saved its state. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/bytes.h"

enum goodput_part {
    GOODPUT_TRAINS,
    GOODPUT_FIRST,    /* the run waits for its first nodes */
    GOODPUT_LOST,     /* it waits since a node was lost */
    GOODPUT_LEFT,     /* since a node left its round: after workers failed, in most cases */
    GOODPUT_NEWCOMER, /* since the others meet to admit a node */
    GOODPUT_ORDER,    /* since an operator wants it */
    GOODPUT_STORE,    /* since nodes did not come back after a start of rdzvd */
    GOODPUT_PARTS,
};

/* As status has them: "training", "first_nodes"... */
extern const char *const goodput_names[GOODPUT_PARTS];

/* Begins as zeros. Times are microseconds, moments since 1970. */
struct goodput {
    int64_t us[GOODPUT_PARTS];    /* spent before since_us */
    int64_t times[GOODPUT_PARTS]; /* so often it has begun */
    int64_t since_us;             /* `now` began; 0: no part goes on */
    enum goodput_part now;
    bool is_unsaved; /* it has changed since goodput_save() */
};

/* This part begins. A wait goes on under its first cause. */
void goodput_enter(struct goodput *g, enum goodput_part part, int64_t now_us);
/* The run has ended. */
void goodput_end(struct goodput *g, int64_t now_us);
/* Nothing was there of the run between these moments, so this time is none of its parts. */
void goodput_skip(struct goodput *g, int64_t from_us, int64_t to_us);

/* Spent with it until now. */
int64_t goodput_spent_us(const struct goodput *g, enum goodput_part part, int64_t now_us);

#define GOODPUT_TEXT_MAX 384 /* bytes, with the end */

/* All of it as a text, and back. A text of another kind is ignored. */
void goodput_save(struct goodput *g, char text[GOODPUT_TEXT_MAX]);
void goodput_load(struct goodput *g, struct slice text);
