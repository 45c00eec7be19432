/* Reads a key or a directory of the etcd tree in slices, as it was when the reader was opened: what
 * tree_write_get() would have written then, to the byte. Changes go on meanwhile.
 *
 * What a reader holds is held for the client that asked (ACCOUNT_ANSWERS). When memory is short it
 * is the reader that fails, and never a change. */
#pragma once

#include "store/tree/tree.h"

/* True: tree_write_get() can write the node in one piece. A larger node, or one beside many removed
 * nodes, must be read in slices. */
bool tree_is_small(const struct tree *t, const struct node *n);

struct tree_reader;

/* NULL when memory is short. The node is not used beyond the reader's end. */
struct tree_reader *tree_reader_open(struct tree *t, const struct node *n, bool recursive,
                                     bool sorted, int64_t now_ns);

/* Ends the reader, finished or not. Takes NULL. */
void tree_reader_close(struct tree_reader *r);

enum tree_read {
    TREE_READ_MORE,
    TREE_READ_DONE,   /* that was all; the snapshot is closed */
    TREE_READ_FAILED, /* memory is short */
};

/* Reads until a piece of some 64 KiB is full, or for about *work_ns nanoseconds, and subtracts the
 * used time from *work_ns. *piece is the next piece of the text, with a reference for the caller;
 * NULL: it is not full yet. With TREE_READ_DONE it is the last piece. */
enum tree_read tree_reader_run(struct tree_reader *r, int64_t *work_ns, struct blob **piece);
