/* The format of journal segments and snapshots, and files of it. Integers are little-endian.
 *
 * A file is a header and frames, one behind the other without gaps. The header:
 *
 *      0   8 bytes  "rdzvjrnl" (a segment of the journal) or "rdzvsnap" (a snapshot)
 *      8   u32      version of the format: 3
 *     12   u32      0
 *     16   u64      number: of a segment's first batch; of the last batch in a snapshot
 *     24   u64      id of the data directory, random; files of another one are refused
 *     32   u64      durable: see below
 *     40   u32      0
 *     44   u32      CRC32C of bytes 0 to 43
 *
 * A frame is a header of 32 bytes and its payload:
 *
 *      0   u32      length of the payload
 *      4   u32      kind: 1 a batch, 2 a part of a snapshot, 3 end, 4 mark
 *      8   u64      number: of the batch; of a part, counted from 0; end and mark: see there
 *     16 u64 durable: all batches up to this one were synced when the frame was written
 *     24   u32      CRC32C of the payload
 *     28   u32      CRC32C of bytes 0 to 27, gone on from the file's key
 *
 * The key of a file is the CRC32C of its magic, its number and the id of the directory (24 bytes).
 * So a frame is intact only in the file that it was written to, what other files left on the disk
 * is none, and no client can make a value that looks like a frame, since it does not know the id.
 *
 * Kinds:
 *
 *     batch (1)  the payload is one Batch of proto/record.proto. In a segment, batches have
 *                consecutive numbers; the first has the number in the header.
 *     part (2)   of a snapshot: a Batch, too, of some 64 KiB.
 *     end (3)    no payload. A snapshot ends with it, and a segment that was closed cleanly.
 *                Its number is the count of parts, or that of the last batch; it is the last frame.
 *     mark (4)   no payload: it says `durable`. Written when nothing else follows a sync, with
 *                the number 0; and as the first frame of a segment that replaces others, with
 *                the number of the last batch that it replaces.
 *
 * `durable` distinguishes a crash from damage. A power cut may lose any batches that no frame or
 * header declares synced. If such a declared batch is missing or damaged, the file is damaged, and
 * rdzvd refuses it. */
#pragma once

#include "store/disk/fs.h"

/* --- The format. Pure. --- */

#define FILE_HEADER_SIZE  48u
#define FRAME_HEADER_SIZE 32u
#define FILE_VERSION      3u

enum file_kind { FILE_JOURNAL, FILE_SNAPSHOT };

struct file_header {
    enum file_kind kind;
    uint32_t version;
    uint64_t number;
    uint64_t id;
    uint64_t durable;
};

void file_header_encode(const struct file_header *h, uint8_t out[FILE_HEADER_SIZE]);

enum file_header_result {
    FILE_HEADER_OK,      /* and the version is known */
    FILE_HEADER_VERSION, /* intact, of another version: *out has it */
    FILE_HEADER_BAD,     /* too short, or damaged: *out is untouched */
};

/* Takes the first bytes of a file. */
enum file_header_result file_header_decode(struct slice in, struct file_header *out);

uint32_t frame_key(enum file_kind kind, uint64_t number, uint64_t id);

enum frame_kind { FRAME_BATCH = 1, FRAME_PART = 2, FRAME_END = 3, FRAME_MARK = 4 };

struct frame {
    enum frame_kind kind;
    uint64_t number;
    uint64_t durable;
    struct slice payload; /* points into what was decoded */
};

/* Encodes the header; the caller writes the payload (less than 4 GiB) behind it. */
void frame_encode(uint32_t key, const struct frame *f, uint8_t out[FRAME_HEADER_SIZE]);

enum frame_result {
    FRAME_WHOLE,
    FRAME_MORE,       /* a good start: the frame has *size bytes. With an intact header *out has all
                         but the payload; with less than a header *size is FRAME_HEADER_SIZE */
    FRAME_BAD_HEADER, /* these bytes are no frame header of this file */
    FRAME_BAD_PAYLOAD, /* its header is intact: *out and *size are as it says */
};

/* Takes bytes of a file from where a frame is expected. */
enum frame_result frame_decode(uint32_t key, struct slice in, struct frame *out, size_t *size);

/* Searches byte by byte for the next intact frame header from *at on. True: *at is its offset, and
 * *out has all fields of the header. False: *at is the first offset at which a header no longer
 * fits into `in`. */
bool frame_find(uint32_t key, struct slice in, size_t *at, struct frame *out);

/* --- Writing a file. --- */

/* Frames are appended. */
struct frame_writer {
    struct fs *fs;
    int file; /* -1: none */
    uint32_t key;
    uint64_t number; /* of the header */
    uint64_t end;    /* behind the last whole frame */
};

/* Creates the file. 0, or -errno: -errno: the file is closed, and was removed if possible. */
int frame_writer_open(struct frame_writer *w, struct fs *fs, const char *name,
                      const struct file_header *header);
void frame_writer_close(struct frame_writer *w);

/* At most so many frames at once. */
#define FRAMES_MAX (FS_PARTS_MAX / 2)

/* Appends frames, by as few system calls as can be. 0, or -errno: then the file has none of the
 * frames, because the bytes written so far are cut off again. If cutting fails too, later frames
 * overwrite these bytes. */
int frame_writer_put(struct frame_writer *w, const struct frame *frames, size_t count);

/* Takes back all frames from there on. */
void frame_writer_cut(struct frame_writer *w, uint64_t end);

/* --- Reading a file, a part of it at a time. --- */

struct frame_file {
    struct fs *fs;
    int file;
    uint64_t size;
    uint32_t key;   /* set by the caller before the first frame */
    uint64_t at;    /* where the next frame is expected */
    uint8_t *bytes; /* what has been read, from `start` on */
    uint64_t start;
    size_t len, cap;
};

/* 0, or -errno. The caller must close the file only after 0. */
int frame_file_open(struct frame_file *f, struct fs *fs, const char *name);
void frame_file_close(struct frame_file *f);

/* Reads the header of the file. 0 and *result, or -errno. */
int frame_file_header(struct frame_file *f, enum file_header_result *result,
                      struct file_header *out);

enum frame_file_result {
    FRAME_FILE_FRAME, /* *out; its payload is borrowed until the next call */
    FRAME_FILE_END,   /* nothing follows, or zeros alone */
    FRAME_FILE_BAD,   /* the bytes at f->at are no whole frame; if the header is intact, *out has it
                         without the payload, else out->kind is 0 */
    FRAME_FILE_ERROR, /* *error has -errno */
};

/* The frame at f->at. After FRAME_FILE_FRAME f->at is behind it, else it stays. */
enum frame_file_result frame_file_next(struct frame_file *f, struct frame *out, int *error);

/* Finds the next intact frame header from *at on. 1: it is at *at; 0: none; or -errno. */
int frame_file_find(struct frame_file *f, uint64_t *at, struct frame *out);
