/* Batches that the engine has handed to its journal, before they are durable. No commit
 * can fail for want of memory: a small batch is copied, a large one, or one for which there is no
 * memory, gives up its buffer; what that takes is a spare, kept aside beforehand. While the spare
 * is not there, a journal refuses changes. */
#pragma once

#include <sys/queue.h>

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
