/* Batches that the engine has passed to its journal and that are not durable yet. No commit can
 * fail for want of memory: a small batch is copied; a large batch, or any batch when memory is
 * short, gives up its buffer; the memory for this is a spare, kept aside in advance. Without the
 * spare, a journal refuses changes. */
#pragma once

#include "proto/queue.h"
#include "store/disk/record.h"

struct pending {
    TAILQ_ENTRY(pending) entry;
    uint64_t number;
    struct slice bytes;
    size_t
        given_up; /* what a buffer takes that the engine gave up; 0: the bytes stand behind this */
};

TAILQ_HEAD(pending_list, pending);

/* Takes what the batch holds. Uses up the spare when there is no memory. */
struct pending *pending_new(struct pending **spare, struct batch *batch);
void pending_free(struct pending *p);
void pending_free_all(struct pending_list *list);

/* A copy of what has no number. NULL: memory is short. */
struct pending *pending_request(struct slice bytes);

/* Tries to have the spare. It goes with account_free(ACCOUNT_JOURNAL). */
void pending_keep_spare(struct pending **spare);
