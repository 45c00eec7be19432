/* The format of journal segments and snapshots, as bytes. Pure: no files. Integers are
 * little-endian.
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
 *     16   u64      durable: batches up to this one were synced when the frame was written
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
 *                Its number is the count of parts, or that of the last batch. Nothing follows.
 *     mark (4)   no payload: it says `durable`. Written when nothing else follows a sync, with
 *                the number 0; and as the first frame of a segment that replaces others, with
 *                the number of the last batch that it replaces.
 *
 * `durable` is what tells a crash from damage. Batches may be lost by a power cut in any order as
 * long as nobody was promised that they are synced; one that is missing or damaged although an
 * intact frame or header says that it was synced is damage, and is never passed over in silence. */
#pragma once

#include "proto/bytes.h"

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

/* The version is FILE_VERSION. */
void file_header_encode(const struct file_header *h, uint8_t out[FILE_HEADER_SIZE]);

enum file_header_result {
    FILE_HEADER_OK,      /* and the version is known */
    FILE_HEADER_VERSION, /* intact, of another version: *out has it */
    FILE_HEADER_BAD,     /* too short, or damaged: *out is untouched */
};

/* Takes the first FILE_HEADER_SIZE bytes of a file, or fewer. */
enum file_header_result file_header_decode(struct slice in, struct file_header *out);

uint32_t frame_key(enum file_kind kind, uint64_t number, uint64_t id);

enum frame_kind { FRAME_BATCH = 1, FRAME_PART = 2, FRAME_END = 3, FRAME_MARK = 4 };

struct frame {
    enum frame_kind kind;
    uint64_t number;
    uint64_t durable;
    struct slice payload; /* points into what was decoded */
};

/* The header; the payload, of less than 4 GiB, is to stand behind it. */
void frame_encode(uint32_t key, const struct frame *f, uint8_t out[FRAME_HEADER_SIZE]);

enum frame_result {
    FRAME_WHOLE,
    FRAME_MORE,       /* a good start: the frame has *size bytes. With an intact header *out has all
                         but the payload; with less than a header *size is FRAME_HEADER_SIZE */
    FRAME_BAD_HEADER, /* what stands here is no frame of this file */
    FRAME_BAD_PAYLOAD, /* its header is intact: *out and *size are as it says */
};

/* Takes bytes of a file from where a frame is expected. */
enum frame_result frame_decode(uint32_t key, struct slice in, struct frame *out, size_t *size);

/* Looks for the next intact header of a frame from *at on, byte by byte. True: it stands at *at,
 * and *out has all but the payload. False: there is none, and *at is the first byte that was not
 * looked at, since no header fits behind it. */
bool frame_find(uint32_t key, struct slice in, size_t *at, struct frame *out);
