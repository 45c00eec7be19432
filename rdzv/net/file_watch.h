/* Whether files have been replaced or written: by a rename, by a symbolic link that leads
 * elsewhere, as Kubernetes changes its secrets, or in place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_WATCH_MAX 4

struct file_state {
    uint64_t device, inode, size, changed_ns;
};

struct file_watch {
    const char *paths[FILE_WATCH_MAX]; /* borrowed; NULL: none */
    struct file_state known[FILE_WATCH_MAX], seen[FILE_WATCH_MAX];
};

/* They are what they are now. */
void file_watch_begin(struct file_watch *w, const char *const paths[FILE_WATCH_MAX]);

/* Now and then. True once for each change, when nothing has changed since the last call: several
 * files that are written one after the other are one change. */
bool file_watch_poll(struct file_watch *w);
