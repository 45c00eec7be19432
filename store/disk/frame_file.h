/* Reads the frames of one file, one behind the other, a part of the file at a time. */
#pragma once

#include "store/disk/frame.h"
#include "store/disk/fs.h"

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

/* 0, or -errno. A file that was opened has to be closed. */
int frame_file_open(struct frame_file *f, struct fs *fs, const char *name);
void frame_file_close(struct frame_file *f);

/* The header of the file, as far as there is one; at 0. Borrowed until the next call. */
int frame_file_header(struct frame_file *f, struct slice *out);

enum frame_file_result {
    FRAME_FILE_FRAME, /* *out; its payload is borrowed until the next call */
    FRAME_FILE_END,   /* nothing follows, or zeros alone */
    FRAME_FILE_BAD, /* what stands at f->at is no whole frame; if its header is intact, *out has it,
                       without the payload, else out->kind is 0 */
    FRAME_FILE_ERROR, /* *error has -errno */
};

/* The frame at f->at. After FRAME_FILE_FRAME f->at is behind it, else it stays. */
enum frame_file_result frame_file_next(struct frame_file *f, struct frame *out, int *error);

/* The next intact header of a frame from *at on. 1: it stands at *at; 0: there is none; or -errno.
 */
int frame_file_find(struct frame_file *f, uint64_t *at, struct frame *out);
