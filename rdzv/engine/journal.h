/* Where an engine's batches are kept: a table of functions, with an implementation each for a data
 * directory (data_dir.h) and whatever else can keep a row of batches. Who opens one fills the
 * engine with what it holds, and then puts the table into the engine's options. */
#pragma once

#include "store/disk/record.h"

/* With `commit` NULL there is no journal. Any other function may be NULL: nothing to do. */
struct engine_journal {
    /* Takes a batch, which has changes and is borrowed for the call; batch_take() is allowed.
     * Returns the number of the newest batch that is as durable as promised: this batch's, or an
     * earlier one's while the disk is slow. Later progress is reported with engine_committed(). */
    uint64_t (*commit)(void *arg, struct batch *batch);

    /* Before answers are sent: the newest batch that answers may show. It may fall, down to 0,
     * while another replica may have taken over. NULL: the number of engine_committed() counts. */
    uint64_t (*vouch)(void *arg);

    /* NULL: changes are admitted. Else the reason, until the next poll() or commit(). */
    const char *(*refuses)(void *arg);

    /* True if another process takes the changes, and this process has all committed changes and may
     * take over at any moment. NULL: the journal has a single process. */
    bool (*stands_by)(void *arg);

    /* True if this process takes the changes, but has lost contact for so long that another process
     * may have taken over: clients that can connect elsewhere must do so. NULL: the journal has a
     * single process. */
    bool (*is_cut_off)(void *arg);

    /* Readable when poll() is to be called; -1: never. poll() takes note of what is durable now,
     * and whether changes may come. */
    int fd;
    void (*poll)(void *arg);

    void (*tick)(void *arg); /* once a second */

    /* At the end of an iteration, after the commit: a share of what takes longer, such as a
     * snapshot, about a millisecond's. True: there is more to do at once. */
    bool (*work)(void *arg);

    /* All changes are committed: waits until they are durable, and detaches the table. */
    void (*close)(void *arg);

    void *arg;
};
