/* Headers and frames as bytes. See frame.h for the contract. */
#include "store/disk/frame.h"

#include <endian.h>

#include "store/disk/crc32c.h"

#define MAGIC_SIZE       8
#define HEADER_CRC_AT    (FILE_HEADER_SIZE - 4)
#define FRAME_PAYLOAD_AT 24 /* the payload's checksum */
#define FRAME_CRC_AT     (FRAME_HEADER_SIZE - 4)

static const char magic[][MAGIC_SIZE + 1] = {
    [FILE_JOURNAL] = "rdzvjrnl",
    [FILE_SNAPSHOT] = "rdzvsnap",
};

static void put_u32(uint8_t *at, uint32_t v)
{
    v = htole32(v);
    memcpy(at, &v, sizeof v);
}

static void put_u64(uint8_t *at, uint64_t v)
{
    v = htole64(v);
    memcpy(at, &v, sizeof v);
}

static uint32_t get_u32(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, sizeof v);
    return le32toh(v);
}

static uint64_t get_u64(const uint8_t *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return le64toh(v);
}

/* --- The header of a file. --- */

void file_header_encode(const struct file_header *h, uint8_t out[FILE_HEADER_SIZE])
{
    memset(out, 0, FILE_HEADER_SIZE);
    memcpy(out, magic[h->kind], MAGIC_SIZE);
    put_u32(out + 8, h->version);
    put_u64(out + 16, h->number);
    put_u64(out + 24, h->id);
    put_u64(out + 32, h->durable);
    put_u32(out + HEADER_CRC_AT, crc32c(0, out, HEADER_CRC_AT));
}

enum file_header_result file_header_decode(struct slice in, struct file_header *out)
{
    enum file_kind kind = FILE_JOURNAL;

    if (in.len < FILE_HEADER_SIZE ||
        get_u32(in.ptr + HEADER_CRC_AT) != crc32c(0, in.ptr, HEADER_CRC_AT))
        return FILE_HEADER_BAD;
    if (memcmp(in.ptr, magic[FILE_SNAPSHOT], MAGIC_SIZE) == 0)
        kind = FILE_SNAPSHOT;
    else if (memcmp(in.ptr, magic[FILE_JOURNAL], MAGIC_SIZE) != 0)
        return FILE_HEADER_BAD;
    *out = (struct file_header){
        .kind = kind,
        .version = get_u32(in.ptr + 8),
        .number = get_u64(in.ptr + 16),
        .id = get_u64(in.ptr + 24),
        .durable = get_u64(in.ptr + 32),
    };
    return out->version == FILE_VERSION ? FILE_HEADER_OK : FILE_HEADER_VERSION;
}

uint32_t frame_key(enum file_kind kind, uint64_t number, uint64_t id)
{
    uint8_t bytes[MAGIC_SIZE + 16];

    memcpy(bytes, magic[kind], MAGIC_SIZE);
    put_u64(bytes + MAGIC_SIZE, number);
    put_u64(bytes + MAGIC_SIZE + 8, id);
    return crc32c(0, bytes, sizeof bytes);
}

/* --- Frames. --- */

void frame_encode(uint32_t key, const struct frame *f, uint8_t out[FRAME_HEADER_SIZE])
{
    put_u32(out, (uint32_t)f->payload.len);
    put_u32(out + 4, (uint32_t)f->kind);
    put_u64(out + 8, f->number);
    put_u64(out + 16, f->durable);
    put_u32(out + FRAME_PAYLOAD_AT, crc32c(0, f->payload.ptr, f->payload.len));
    put_u32(out + FRAME_CRC_AT, crc32c(key, out, FRAME_CRC_AT));
}

/* The first test keeps a search over bytes of any kind from computing checksums of most places. */
static bool is_header(uint32_t key, const uint8_t *at)
{
    uint32_t kind = get_u32(at + 4);

    return kind >= FRAME_BATCH && kind <= FRAME_MARK &&
           get_u32(at + FRAME_CRC_AT) == crc32c(key, at, FRAME_CRC_AT);
}

static struct frame header_of(const uint8_t *at)
{
    return (struct frame){
        .kind = (enum frame_kind)get_u32(at + 4),
        .number = get_u64(at + 8),
        .durable = get_u64(at + 16),
        .payload = {.len = get_u32(at)},
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
    if (get_u32(in.ptr + FRAME_PAYLOAD_AT) != crc32c(0, out->payload.ptr, out->payload.len))
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
