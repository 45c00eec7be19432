/* A moment of the etcd tree that stays while the tree changes, for those who read it in slices; for
 * tree*.c alone.
 *
 * The tree has one set of nodes, and keeps of a change what an open snapshot needs: a removed node
 * stays in its directory's list, and a changed node has its old state noted (both in a struct
 * tree_past). A snapshot sees the nodes of its index in their state of that time. Pasts that no
 * open snapshot sees are freed in slices, the oldest first.
 *
 * While there is no snapshot and nothing of that kind is left, a change only finds keeps_past
 * false. */
#pragma once

#include "store/tree/tree_node.h"

/* A node before a change. */
struct tree_past {
    STAILQ_ENTRY(tree_past) entry; /* in tree->pasts, the oldest first */
    struct node *node;
    struct tree_past *older, *newer; /* of the same node */
    uint64_t until;                  /* the index of the change: snapshots before it see this */
    bool removed;     /* the node was removed in this state, and waits in its directory's list */
    bool cut;         /* the same, with what is below it */
    uint32_t next_to; /* snapshots that do not see this node, although their `next` points to it */
    struct node *dir; /* of a removed node; NULL: it was the root */
    struct blob *value;
    int64_t expires_ns;
    uint64_t deadline; /* expiry_node.order */
    uint64_t modified;
};

/* A node's state at some time. */
struct tree_state {
    struct blob *value; /* NULL: a directory. Borrowed */
    int64_t expires_ns; /* 0: never */
    uint64_t deadline;
    uint64_t modified;
};

struct tree_snapshot {
    TAILQ_ENTRY(tree_snapshot) entry; /* in tree->snapshots, the oldest first */
    struct tree *tree;
    uint64_t index;
    bool closed;       /* or lost, since memory was short: its nodes may be gone */
    bool overtaken;    /* lost: a change has overwritten nodes without keeping their past */
    struct node *next; /* of the walk; NULL: it is at its end */
};

/* True for a node that only snapshots see. */
static inline bool tree_is_removed(const struct node *n)
{
    return n->past != NULL && n->past->removed;
}

/* The tree as it is now. */
void tree_snapshot_open(struct tree_snapshot *s, struct tree *t);

/* Closes it, unless it is closed. */
void tree_snapshot_close(struct tree_snapshot *s);

/* Closes all of the tree before a change of which no past is kept. */
void tree_snapshots_overtake(struct tree *t);

/* Reads a visible node as it was at the snapshot's index; NULL in *value: a directory. Borrowed:
 * the node stays where it is until the snapshot is closed. */
void tree_snapshot_view(const struct tree_snapshot *s, const struct node *n, int64_t now_ns,
                        struct etcd_node *out, struct blob **value);

/* The same as it is kept. */
void tree_snapshot_state(const struct tree_snapshot *s, const struct node *n,
                         struct tree_state *out);

/* The directory of a node that it sees; NULL: of the root. */
static inline struct node *tree_snapshot_parent(const struct node *n)
{
    return tree_is_removed(n) ? n->past->dir : n->parent;
}

/* Walks the children of a visible directory in order: from the first child if `after` is NULL, else
 * from the child behind `after`. tree_snapshot_next() returns the next visible child. NULL with
 * *work <= 0: the slice went into children that are not visible, and the next call goes on. NULL
 * with *work > 0: the walk has ended. A snapshot has one walk at a time. */
void tree_snapshot_walk(struct tree_snapshot *s, const struct node *dir, const struct node *after);
struct node *tree_snapshot_next(struct tree_snapshot *s, int64_t *work);

/* --- For changes, while tree->keeps_past. `index` of the change is the tree's next. Each takes one
 * struct tree_past of the reserve at most. --- */

/* True if a snapshot still needs the node: remove it with tree_past_bury(). */
bool tree_past_holds(const struct tree *t, const struct node *n);

/* Removes a node and its subtree from tree and counts; snapshots that see them keep them. */
void tree_past_bury(struct tree *t, struct node *n);

/* The node is going to change. */
void tree_past_note(struct tree *t, struct node *n);

/* --- For tree.c, which frees it. --- */

/* True: something may go. */
bool tree_past_is_due(const struct tree *t);

/* Lets go of the oldest, which is due. Returns what it counted for. */
size_t tree_past_release(struct tree *t);
