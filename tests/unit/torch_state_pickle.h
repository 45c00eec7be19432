/* A rendezvous state as torch pickles it, in parts of which a test exchanges one, and the reading
 * of such pickles while allocations are counted, or fail. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/base64.h"
#include "proto/torch/torch_state.h"
#include "tests/support/sanitized.h"
#include "tests/support/wrapped_memory.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define BYTES(text)                               \
    {                                             \
        (const uint8_t *)(text), sizeof(text) - 1 \
    }

extern size_t allocated; /* bytes, ever */
extern size_t fail_at;   /* which allocation from now on gets none */

/* The numbers are those of the memo. */
enum part {
    CLASS,
    OBJECT,
    ROUND,
    ROUND_VALUE,
    COMPLETE,
    COMPLETE_VALUE,
    DEADLINE,
    DEADLINE_VALUE,
    CLOSED,
    CLOSED_VALUE,
    PARTICIPANTS,
    PARTICIPANTS_DICT,
    NODE_CLASS,
    NODE_OBJECT,
    NODE_ADDR,
    NODE_ADDR_VALUE,
    NODE_PID,
    NODE_PID_VALUE,
    NODE_LOCAL_ID,
    NODE_LOCAL_ID_VALUE,
    NODE_BUILD,
    NODE_RANK,
    OTHER_OBJECT,
    OTHER_ADDR,
    OTHER_ADDR_VALUE,
    OTHER_PID,
    OTHER_PID_VALUE,
    OTHER_LOCAL_ID,
    OTHER_LOCAL_ID_VALUE,
    OTHER_BUILD,
    OTHER_RANK,
    PARTICIPANTS_END,
    WAIT_LIST,
    WAIT_LIST_SET,
    REDUNDANCY_LIST,
    REDUNDANCY_LIST_SET,
    LAST_HEARTBEATS,
    LAST_HEARTBEATS_DICT,
    BEAT_NODE,
    BEAT_CLASS,
    BEAT_TIME,
    BEAT_ZONE,
    BEAT_DELTA,
    BEAT_ZERO,
    BEAT_UTC,
    BEAT_BUILD,
    OTHER_BEAT_NODE,
    OTHER_BEAT_CLASS,
    OTHER_BEAT_TIME,
    OTHER_BEAT_ZONE,
    OTHER_BEAT_BUILD,
    LAST_HEARTBEATS_END,
    BUILD,
    STOP,
    PARTS,
};

#define MODULE  "\x8c\x37torch.distributed.elastic.rendezvous.dynamic_rendezvous\x94"
#define BEAT_US INT64_C(1795220124597637) /* 2026-11-21 00:15:24.597637 */

extern const struct slice parts[PARTS];

/* A pickle in the making. */
struct pickle {
    uint8_t *bytes;
    size_t len;
};

void pickle_add(struct pickle *p, const void *bytes, size_t len);
/* Puts all from `start` into a frame. */
void pickle_add_frame(struct pickle *p, size_t start);
void pickle_add_parts(struct pickle *p, int from, int to);
/* The state with `instead` in the place of the parts from `first` to `last`, of which there may be
 * none. */
struct pickle pickle_exchanged(int first, int last, struct slice instead);
struct pickle pickle_intact(void);
struct slice pickle_text(struct slice pickle);
/* Reads an exact copy, and looks that nothing is out of proportion. */
enum torch_state_status read_text(struct slice text, struct torch_state *s);
enum torch_state_status pickle_read(struct slice pickle, struct torch_state *s);
void pickle_read_well(struct pickle *p, struct torch_state *s);
bool pickle_is_state(struct slice pickle);
/* Fails when the pickle is taken for a state. Frees it. */
void pickle_refuse(struct pickle p, const char *why, size_t n);
