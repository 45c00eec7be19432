/* The files of a data directory: a journal of batches, in segments, and snapshots of the store,
 * which limit the time of a replay. No threads, no clock, no log: callers learn the events from
 * results and from struct journal_report. The format of a file is in store/disk/frame.h.
 *
 *     lock                 held by the process that uses the directory
 *     journal-<number>     a segment; the number of its first batch, 20 digits
 *     snapshot-<number>    the store as it was after that batch
 *     ballast              4 MiB that can be given up when the disk is full
 *     *.tmp                one of these while it is being written; the next start removes it
 *
 * Rules, on which recovery rests:
 *
 *   1. A file gets its name by a rename after its bytes were synced, but for a segment that is
 *      begun while batches are appended (journal_append() rotates).
 *   2. Before anyone reports batches up to D as synced, all segments with them are synced, or a
 *      snapshot with them, and then the directory; only then may a frame say `durable` = D.
 *   3. The first frame of a rewritten segment (journal_rewrite_begin()) names the last batch that
 *      it replaces: segments that begin behind it, up to that batch, do not count, and must be
 *      removed before an append. Otherwise, for a reader, a segment ends where the next one begins.
 *   4. A segment or snapshot is removed only when a whole, synced, renamed snapshot makes it
 *      needless.
 *
 * The problem of recovery: a bad frame is either the end of a write that a crash cut short, or
 * damage to batches that were promised to be safe. A reader that stops at the first bad frame
 * treats both alike, and in the second case it silently loses acknowledged changes. So frames carry
 * a watermark, `durable`. The invariant: a frame says `durable` = D only after all batches up to D
 * were synced, so a directory without batch D is certainly damaged. journal_sync_end() keeps it:
 * only a sync that has succeeded raises the watermark.
 *
 * Recovery takes the newest whole snapshot, then batches as long as their numbers follow. L is the
 * last one, D the highest `durable` of any intact header or frame, behind the end too. D > L:
 * something that was synced is missing or damaged, and the directory is refused, unchanged. Else
 * whatever stands behind L was never promised to survive a power cut, and is left out, with a
 * report.
 *
 * A start always begins a new segment, at D + 1, with copies of the batches from there to L: the
 * process before may have died after a sync that failed, and what the system shows us now need not
 * be on the disk. For the same reason, nothing of a segment is trusted after a failed sync: the
 * caller keeps batches until they are synced, and writes them again (journal_rewrite_begin()). */
#pragma once

#include "store/disk/frame.h"

#define JOURNAL_LOCK          "lock"
#define JOURNAL_BALLAST       "ballast"
#define JOURNAL_SEGMENT_NAME  "journal-"
#define JOURNAL_SNAPSHOT_NAME "snapshot-"
#define JOURNAL_TMP           ".tmp"

#define JOURNAL_NAME_SIZE    40u
#define JOURNAL_SEGMENT_SIZE (64u << 20)
#define JOURNAL_BALLAST_SIZE (4u << 20)

/* One batch to be kept: what batch_bytes() has. */
struct journal_batch {
    uint64_t number;
    struct slice bytes;
};

/* --- Opening. --- */

struct journal_options {
    struct fs *fs;         /* outlives the journal */
    uint64_t segment_size; /* a larger segment gets a successor; 0: JOURNAL_SEGMENT_SIZE */
    uint64_t new_id;       /* random: the id for a new directory */
};

/* Who gets what is read. The bytes are borrowed for the call. False: the bytes are intact, but are
 * nothing that the reader knows; the directory is then refused. */
struct journal_reader {
    bool (*part)(void *arg, struct slice bytes);                   /* of the snapshot, in order */
    bool (*batch)(void *arg, uint64_t number, struct slice bytes); /* then these, in order */
    void *arg;
    bool (*parts_end)(void *arg); /* that was the last part of the snapshot; NULL: let it be */
};

enum journal_status {
    JOURNAL_OPENED,
    JOURNAL_LOCKED,  /* another process uses the directory */
    JOURNAL_DAMAGED, /* see file, offset and what */
    JOURNAL_UNKNOWN, /* the same fields; the file is intact, and the reader refused its content */
    JOURNAL_OTHER_VERSION, /* a file has a format that only another release knows */
    JOURNAL_OTHER_ID,      /* files of two directories are here */
    JOURNAL_ERROR,         /* a system call failed: error, file, what */
};

struct journal_report {
    enum journal_status status;
    int error;                    /* JOURNAL_ERROR: an errno, positive */
    char file[JOURNAL_NAME_SIZE]; /* which one */
    uint64_t offset;              /* JOURNAL_DAMAGED, JOURNAL_UNKNOWN: where in it */
    const char *what;             /* what is wrong, as a part of a sentence; a literal */
    uint64_t lost;                /* JOURNAL_DAMAGED: this batch and later ones are unreadable... */
    uint64_t durable;             /* ...although batches up to this one were synced */

    /* Unsynced bytes that recovery has left out: torn_bytes 0: none. torn_files: whole segments
     * behind them were left out as well. */
    char torn_file[JOURNAL_NAME_SIZE];
    uint64_t torn_offset, torn_bytes;
    size_t torn_files;

    char passed_over[JOURNAL_NAME_SIZE]; /* a damaged snapshot that an older one with all journals
                                            replaced; else empty */
    uint64_t snapshot;                   /* number of the last batch in it; 0: there is none */
    uint64_t snapshot_bytes;
    uint64_t batches, batch_bytes; /* behind the snapshot, payloads alone */
    size_t segments;               /* read */
    uint64_t last; /* number of the last batch, in the snapshot or behind it; 0: none */
    size_t copied; /* batches that were written again into the new segment */
};

/* A sentence or two for people: the result, and the remedy if the directory was not opened. `path`
 * names the directory. */
void journal_report_text(const struct journal_report *r, const char *path, char *out, size_t size);

struct journal;

/* Locks the directory, reads all of it, and is ready to append the batch report->last + 1. NULL:
 * see report->status; then nothing in the directory was changed, but for a new `lock`, unless a
 * system call failed while the new segment was being made. */
struct journal *journal_open(const struct journal_options *options,
                             const struct journal_reader *reader, struct journal_report *report);

/* The same without a lock and without any change. False: see report->status. If another process
 * writes to the directory meanwhile, the report may wrongly say that it is damaged. */
bool journal_check(struct fs *fs, const struct journal_reader *reader,
                   struct journal_report *report);

/* Closes the files and gives up the lock, at any time. Syncs nothing: see journal_finish(). */
void journal_close(struct journal *j);

/* A clean end: syncs, writes the end frame, and syncs that. The caller then closes the journal. A
 * start after it has nothing to copy, and finds damage of any frame. */
int journal_finish(struct journal *j);

/* --- Appending: one thread at a time calls these, sync_begin and _end, rewrite and finish. --- */

/* Writes batches, whose numbers follow the last one, at the end of the newest segment, with few
 * system calls; begins a new segment if this one is large enough. On failure no batch is appended
 * (written bytes are taken back), and the caller may try again later. -EIO, always, after a sync
 * has failed. */
int journal_append(struct journal *j, const struct journal_batch *batches, size_t count);

struct journal_figures {
    uint64_t last;           /* the newest batch that was appended */
    uint64_t durable;        /* the newest batch that was certainly synced */
    uint64_t snapshot;       /* the last batch in the newest snapshot; 0: there is none */
    uint64_t snapshot_bytes; /* of that snapshot; 0: there is none */
    uint64_t bytes_behind;   /* of the batches behind it */
    bool tainted; /* a sync has failed: nothing can be appended until journal_rewrite_end() has
                     succeeded */
};

const struct journal_figures *journal_figures(const struct journal *j);

/* One sync: begin and end as above, run in any thread at the same time as appends. */
#define JOURNAL_SYNC_FILES 8

struct journal_sync {
    struct fs *fs;
    int files[JOURNAL_SYNC_FILES];
    size_t count;
    size_t complete; /* so many first files get no more batches: they are closed when synced */
    bool dir;        /* a segment was begun */
    uint64_t number; /* if the sync succeeds, all batches up to this number are durable */
};

/* False: nothing to sync, or a sync is under way. */
bool journal_sync_begin(struct journal *j, struct journal_sync *sync);
int journal_sync_run(struct journal_sync *sync);
/* `result`: what run returned. After a failure the journal is tainted. */
void journal_sync_end(struct journal *j, const struct journal_sync *sync, int result);

/* Declares the appended batches synced in the file, if no frame does so yet. Call it after a sync
 * without a successor for some time: then recovery also finds damage of the last batches. Fails
 * silently. */
void journal_mark(struct journal *j);

/* Writes all batches that may be unsynced, from `durable` + 1 on, into a new segment, syncs it and
 * renames it into place. No other sync may be under way. put() takes them in order. After end()
 * returned 0, all is appended and synced, and the journal is no longer tainted. After any failure:
 * begin again. */
int journal_rewrite_begin(struct journal *j);
int journal_rewrite_put(struct journal *j, const struct journal_batch *batches, size_t count);
int journal_rewrite_end(struct journal *j);

/* --- Room for bad days. --- */

/* The first makes the ballast, if it does not exist, and syncs it; the second removes it. */
int journal_ballast_make(struct journal *j);
int journal_ballast_drop(struct journal *j);

/* --- Snapshots. One at a time; put, end and abandon touch nothing of the journal, and may run in
 * another thread. --- */

struct journal_snapshot {
    struct frame_writer out;
    struct file_header header;
    uint64_t parts, synced; /* how many there are; how far it was synced */
    int error;              /* after a failure all that follow fail, too */
};

/* Begins a snapshot of the store after batch `number`, the last one that the journal has received.
 * The next batch begins a new segment. */
void journal_snapshot_begin(struct journal *j, uint64_t number, struct journal_snapshot *s);

/* Adds a part, which must not be empty. Syncs now and then, so that the last sync is short. */
int journal_snapshot_put(struct journal_snapshot *s, struct slice part);

/* Syncs it and gives it its name. */
int journal_snapshot_end(struct journal_snapshot *s);

/* Removes what there is of it: after a failure, or instead of the end. */
void journal_snapshot_abandon(struct journal_snapshot *s);

/* The snapshot has ended: from now on it is the newest. */
void journal_snapshot_done(struct journal *j, const struct journal_snapshot *s);

/* The name of a file that the newest snapshot makes needless, oldest first, which is then
 * forgotten: the caller removes it, in any thread. A file that could not be removed is found again
 * at the next start. False: there is none. */
bool journal_next_needless(struct journal *j, char name[JOURNAL_NAME_SIZE]);
