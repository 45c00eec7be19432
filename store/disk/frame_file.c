/* Reads the frames of one file. See frame_file.h for the contract. */
#include "store/disk/frame_file.h"

#include <errno.h>
#include <stdlib.h>

#define STEP ((size_t)1 << 20)

int frame_file_open(struct frame_file *f, struct fs *fs, const char *name)
{
    int file = fs->open(fs, name, FS_READ);
    int64_t size = file < 0 ? file : fs->size(fs, file);

    if (size < 0) {
        if (file >= 0)
            fs->close(fs, file);
        return (int)size;
    }
    *f =
        (struct frame_file){.fs = fs, .file = file, .size = (uint64_t)size, .at = FILE_HEADER_SIZE};
    return 0;
}

void frame_file_close(struct frame_file *f)
{
    f->fs->close(f->fs, f->file);
    free(f->bytes);
    *f = (struct frame_file){.file = -1};
}

/* Room for so many bytes from `at` on; what is there of them stands first. */
static int make_room(struct frame_file *f, uint64_t at, size_t len)
{
    uint8_t *wider;

    if (at < f->start || at > f->start + f->len)
        f->len = 0;
    else if (f->len > 0) {
        f->len -= (size_t)(at - f->start);
        memmove(f->bytes, f->bytes + (at - f->start), f->len);
    }
    f->start = at;
    if (len <= f->cap)
        return 0;
    wider = realloc(f->bytes, len);
    if (wider == NULL)
        return -ENOMEM;
    f->bytes = wider;
    f->cap = len;
    return 0;
}

/* The bytes from `at` on: `len` of them, or more, or fewer at the end of the file. */
static int fetch(struct frame_file *f, uint64_t at, size_t len, struct slice *out)
{
    uint64_t left = at < f->size ? f->size - at : 0;
    size_t ahead = len < STEP ? STEP : len;
    ssize_t n = 0;
    int error;

    if (at < f->start || at + len > f->start + f->len) {
        error = make_room(f, at, ahead < left ? ahead : (size_t)left);
        if (error == 0 && f->cap > f->len)
            n = f->fs->read(f->fs, f->file, at + f->len, f->bytes + f->len, f->cap - f->len);
        if (error != 0 || n < 0)
            return error != 0 ? error : (int)n;
        f->len += (size_t)n;
    }
    *out = (struct slice){NULL, 0};
    if (at < f->start + f->len)
        *out = (struct slice){f->bytes + (at - f->start), f->len - (size_t)(at - f->start)};
    return 0;
}

int frame_file_header(struct frame_file *f, struct slice *out)
{
    int error = fetch(f, 0, FILE_HEADER_SIZE, out);

    if (error == 0 && out->len > FILE_HEADER_SIZE)
        out->len = FILE_HEADER_SIZE;
    return error;
}

/* 1: from f->at on there are zeros alone, or nothing. */
static int rest_is_zero(struct frame_file *f)
{
    struct slice bytes = {0};
    int error;

    for (uint64_t at = f->at; at < f->size; at += bytes.len) {
        error = fetch(f, at, 1, &bytes);
        if (error != 0 || bytes.len == 0)
            return error;
        for (size_t i = 0; i < bytes.len; i++) {
            if (bytes.ptr[i] != 0)
                return 0;
        }
    }
    return 1;
}

static enum frame_file_result end_or_bad(struct frame_file *f, int *error)
{
    int zero = rest_is_zero(f);

    if (zero < 0)
        *error = zero;
    return zero < 0 ? FRAME_FILE_ERROR : zero > 0 ? FRAME_FILE_END : FRAME_FILE_BAD;
}

/* Fetches as much as the frame says that it has, which is not more than the file has. */
static enum frame_result decode(struct frame_file *f, struct frame *out, size_t *size, int *error)
{
    enum frame_result result = FRAME_MORE;
    struct slice bytes = {0};

    *size = FRAME_HEADER_SIZE;
    for (int i = 0; i < 2 && result == FRAME_MORE && *size <= f->size - f->at; i++) {
        *error = fetch(f, f->at, *size, &bytes);
        if (*error != 0)
            return FRAME_MORE;
        result = frame_decode(f->key, bytes, out, size);
    }
    return result;
}

enum frame_file_result frame_file_next(struct frame_file *f, struct frame *out, int *error)
{
    enum frame_result result;
    size_t size;

    *out = (struct frame){.kind = 0};
    *error = 0;
    if (f->at >= f->size)
        return FRAME_FILE_END;
    result = decode(f, out, &size, error);
    if (*error != 0)
        return FRAME_FILE_ERROR;
    if (result == FRAME_WHOLE) {
        f->at += size;
        return FRAME_FILE_FRAME;
    }
    return out->kind != 0 ? FRAME_FILE_BAD : end_or_bad(f, error);
}

int frame_file_find(struct frame_file *f, uint64_t *at, struct frame *out)
{
    while (*at + FRAME_HEADER_SIZE <= f->size) {
        struct slice bytes = {0};
        size_t looked = 0;
        int error = fetch(f, *at, FRAME_HEADER_SIZE, &bytes);

        if (error != 0)
            return error;
        if (bytes.len < FRAME_HEADER_SIZE)
            break;
        if (frame_find(f->key, bytes, &looked, out)) {
            *at += looked;
            return 1;
        }
        *at += looked;
    }
    return 0;
}
