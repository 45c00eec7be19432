/* Encodes headers and frames; reads and writes their files. See frame.h for the contract. */
#include "store/disk/frame.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/queue.h"
#include "store/disk/crc32c.h"

#define MAGIC_SIZE       8
#define HEADER_CRC_AT    (FILE_HEADER_SIZE - 4)
#define FRAME_PAYLOAD_AT 24 /* the payload's checksum */
#define FRAME_CRC_AT     (FRAME_HEADER_SIZE - 4)

static const char magic[][MAGIC_SIZE + 1] = {
    [FILE_JOURNAL] = "rdzvjrnl",
    [FILE_SNAPSHOT] = "rdzvsnap",
};

/* --- The header of a file. --- */

void file_header_encode(const struct file_header *h, uint8_t out[FILE_HEADER_SIZE])
{
    memset(out, 0, FILE_HEADER_SIZE);
    memcpy(out, magic[h->kind], MAGIC_SIZE);
    bytes_put_u32(out + 8, h->version);
    bytes_put_u64(out + 16, h->number);
    bytes_put_u64(out + 24, h->id);
    bytes_put_u64(out + 32, h->durable);
    bytes_put_u32(out + HEADER_CRC_AT, crc32c(0, out, HEADER_CRC_AT));
}

enum file_header_result file_header_decode(struct slice in, struct file_header *out)
{
    enum file_kind kind = FILE_JOURNAL;

    if (in.len < FILE_HEADER_SIZE ||
        bytes_get_u32(in.ptr + HEADER_CRC_AT) != crc32c(0, in.ptr, HEADER_CRC_AT))
        return FILE_HEADER_BAD;
    if (memcmp(in.ptr, magic[FILE_SNAPSHOT], MAGIC_SIZE) == 0)
        kind = FILE_SNAPSHOT;
    else if (memcmp(in.ptr, magic[FILE_JOURNAL], MAGIC_SIZE) != 0)
        return FILE_HEADER_BAD;
    *out = (struct file_header){
        .kind = kind,
        .version = bytes_get_u32(in.ptr + 8),
        .number = bytes_get_u64(in.ptr + 16),
        .id = bytes_get_u64(in.ptr + 24),
        .durable = bytes_get_u64(in.ptr + 32),
    };
    return out->version == FILE_VERSION ? FILE_HEADER_OK : FILE_HEADER_VERSION;
}

uint32_t frame_key(enum file_kind kind, uint64_t number, uint64_t id)
{
    uint8_t bytes[MAGIC_SIZE + 16];

    memcpy(bytes, magic[kind], MAGIC_SIZE);
    bytes_put_u64(bytes + MAGIC_SIZE, number);
    bytes_put_u64(bytes + MAGIC_SIZE + 8, id);
    return crc32c(0, bytes, sizeof bytes);
}

/* --- Frames. --- */

void frame_encode(uint32_t key, const struct frame *f, uint8_t out[FRAME_HEADER_SIZE])
{
    bytes_put_u32(out, (uint32_t)f->payload.len);
    bytes_put_u32(out + 4, (uint32_t)f->kind);
    bytes_put_u64(out + 8, f->number);
    bytes_put_u64(out + 16, f->durable);
    bytes_put_u32(out + FRAME_PAYLOAD_AT, crc32c(0, f->payload.ptr, f->payload.len));
    bytes_put_u32(out + FRAME_CRC_AT, crc32c(key, out, FRAME_CRC_AT));
}

/* The first test keeps a search over bytes of any kind from computing checksums of most places. */
static bool is_header(uint32_t key, const uint8_t *at)
{
    uint32_t kind = bytes_get_u32(at + 4);

    return kind >= FRAME_BATCH && kind <= FRAME_MARK &&
           bytes_get_u32(at + FRAME_CRC_AT) == crc32c(key, at, FRAME_CRC_AT);
}

static struct frame header_of(const uint8_t *at)
{
    return (struct frame){
        .kind = (enum frame_kind)bytes_get_u32(at + 4),
        .number = bytes_get_u64(at + 8),
        .durable = bytes_get_u64(at + 16),
        .payload = {.len = bytes_get_u32(at)},
    };
}

enum frame_result frame_decode(uint32_t key, struct slice in, struct frame *out, size_t *size)
{
    *size = FRAME_HEADER_SIZE;
    if (in.len < FRAME_HEADER_SIZE)
        return FRAME_MORE;
    if (!is_header(key, in.ptr))
        return FRAME_BAD_HEADER;
    *out = header_of(in.ptr);
    *size += out->payload.len;
    if (in.len < *size)
        return FRAME_MORE;
    out->payload.ptr = in.ptr + FRAME_HEADER_SIZE;
    if (bytes_get_u32(in.ptr + FRAME_PAYLOAD_AT) != crc32c(0, out->payload.ptr, out->payload.len))
        return FRAME_BAD_PAYLOAD;
    return FRAME_WHOLE;
}

bool frame_find(uint32_t key, struct slice in, size_t *at, struct frame *out)
{
    for (; in.len >= FRAME_HEADER_SIZE && *at <= in.len - FRAME_HEADER_SIZE; (*at)++) {
        if (is_header(key, in.ptr + *at)) {
            *out = header_of(in.ptr + *at);
            return true;
        }
    }
    return false;
}

/* --- Writing a file. --- */

int frame_writer_open(struct frame_writer *w, struct fs *fs, const char *name,
                      const struct file_header *header)
{
    uint8_t bytes[FILE_HEADER_SIZE];
    const struct slice part = {bytes, sizeof bytes};
    int error;

    *w = (struct frame_writer){.fs = fs,
                               .file = fs->open(fs, name, FS_CREATE),
                               .key = frame_key(header->kind, header->number, header->id),
                               .number = header->number,
                               .end = FILE_HEADER_SIZE};
    if (w->file < 0)
        return w->file;
    file_header_encode(header, bytes);
    error = fs_write_all(fs, w->file, 0, &part, 1);
    if (error != 0) {
        frame_writer_close(w);
        fs->remove(fs, name);
    }
    return error;
}

void frame_writer_close(struct frame_writer *w)
{
    if (w->file >= 0)
        w->fs->close(w->fs, w->file);
    w->file = -1;
}

int frame_writer_put(struct frame_writer *w, const struct frame *frames, size_t count)
{
    uint8_t headers[FRAMES_MAX][FRAME_HEADER_SIZE];
    struct slice parts[FS_PARTS_MAX];
    uint64_t size = 0;
    int error;

    for (size_t i = 0; i < count; i++) {
        frame_encode(w->key, &frames[i], headers[i]);
        parts[2 * i] = (struct slice){headers[i], FRAME_HEADER_SIZE};
        parts[2 * i + 1] = frames[i].payload;
        size += FRAME_HEADER_SIZE + frames[i].payload.len;
    }
    error = fs_write_all(w->fs, w->file, w->end, parts, 2 * count);
    if (error == 0)
        w->end += size;
    else
        frame_writer_cut(w, w->end);
    return error;
}

void frame_writer_cut(struct frame_writer *w, uint64_t end)
{
    w->fs->truncate(w->fs, w->file, end);
    w->end = end;
}

/* --- Reading a file. --- */

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

/* Makes room for `len` bytes from `at` on; buffered bytes from there on move to the front. */
static int frame_file_make_room(struct frame_file *f, uint64_t at, size_t len)
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

/* Reads from `at` on: `len` bytes or more, or fewer at the end of the file. */
static int frame_file_fetch(struct frame_file *f, uint64_t at, size_t len, struct slice *out)
{
    uint64_t left = at < f->size ? f->size - at : 0;
    size_t ahead = len < STEP ? STEP : len;
    ssize_t n = 0;
    int error;

    if (at < f->start || at + len > f->start + f->len) {
        error = frame_file_make_room(f, at, ahead < left ? ahead : (size_t)left);
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

int frame_file_header(struct frame_file *f, enum file_header_result *result,
                      struct file_header *out)
{
    struct slice bytes;
    int error = frame_file_fetch(f, 0, FILE_HEADER_SIZE, &bytes);

    if (error == 0)
        *result = file_header_decode(bytes, out);
    return error;
}

/* 1: from f->at to its end the file has only zeros, or nothing. */
static int rest_is_zero(struct frame_file *f)
{
    struct slice bytes = {0};
    int error;

    for (uint64_t at = f->at; at < f->size; at += bytes.len) {
        error = frame_file_fetch(f, at, 1, &bytes);
        if (error != 0 || bytes.len == 0)
            return error;
        if (ANY(for (size_t i = 0; i < bytes.len; i++), bytes.ptr[i] != 0))
            return 0;
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

/* Reads the whole frame, as long as its header says, up to the end of the file. */
static enum frame_result frame_file_decode(struct frame_file *f, struct frame *out, size_t *size,
                                           int *error)
{
    enum frame_result result = FRAME_MORE;
    struct slice bytes = {0};

    *size = FRAME_HEADER_SIZE;
    for (int i = 0; i < 2 && result == FRAME_MORE && *size <= f->size - f->at; i++) {
        *error = frame_file_fetch(f, f->at, *size, &bytes);
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
    result = frame_file_decode(f, out, &size, error);
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
        int error = frame_file_fetch(f, *at, FRAME_HEADER_SIZE, &bytes);

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
