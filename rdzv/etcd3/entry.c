/* What the journal writes into etcd's keys. See entry.h for the contract. */
#include "rdzv/etcd3/entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/disk/crc32c.h"
#include "store/memory/account.h"

#define ENTRY_BEGINS 1u

/* --- Entries: version, flags, two zeros, checksum, epoch. --- */

static void encode_header(const struct log_entry *e, uint32_t chain, uint8_t header[ENTRY_HEADER])
{
    bytes_put_u32(header, e->version | (e->begins ? ENTRY_BEGINS : 0) << 8);
    bytes_put_u32(header + 4, chain);
    bytes_put_u64(header + 8, e->epoch);
}

uint32_t entry_chain(uint32_t before, const struct log_entry *e)
{
    uint8_t header[ENTRY_HEADER];

    encode_header(e, before, header);
    return crc32c(crc32c(0, header, sizeof header), e->bytes.ptr, e->bytes.len);
}

void entry_encode(const struct log_entry *e, uint8_t header[ENTRY_HEADER])
{
    encode_header(e, e->chain, header);
}

static enum log_fault version_fault(uint8_t version)
{
    return version > ENTRY_VERSION_MAX   ? LOG_IS_NEWER
           : version < ENTRY_VERSION_MIN ? LOG_IS_NONE
                                         : LOG_IS_FINE;
}

enum log_fault entry_decode(struct slice value, struct log_entry *out)
{
    uint32_t kind = value.len < ENTRY_HEADER ? 0 : bytes_get_u32(value.ptr);
    enum log_fault fault = version_fault((uint8_t)kind);

    if (fault != LOG_IS_FINE)
        return fault;
    if (kind >> 8 > ENTRY_BEGINS)
        return LOG_IS_NONE;
    *out = (struct log_entry){.version = (uint8_t)kind,
                              .epoch = bytes_get_u64(value.ptr + 8),
                              .chain = bytes_get_u32(value.ptr + 4),
                              .begins = kind >> 8 == ENTRY_BEGINS,
                              .bytes = {value.ptr + ENTRY_HEADER, value.len - ENTRY_HEADER}};
    return LOG_IS_FINE;
}

/* --- Head and snapshot: numbers of a fixed width, in hexadecimal, apart by spaces. A text is
 * accepted only if encoding its numbers again gives the same text. --- */

void head_encode(const struct log_head *h, char text[HEAD_TEXT])
{
    snprintf(text, HEAD_TEXT, "%016" PRIx64 " %016" PRIx64, h->index, h->epoch);
}

bool head_decode(struct slice value, struct log_head *out)
{
    char text[HEAD_TEXT], same[HEAD_TEXT];
    struct log_head head;

    snprintf(text, sizeof text, "%.*s", (int)value.len, (const char *)value.ptr);
    if (sscanf(text, "%" SCNx64 " %" SCNx64, &head.index, &head.epoch) != 2 || head.index == 0)
        return false;
    head_encode(&head, same);
    if (!slice_is(value, same))
        return false;
    *out = head;
    return true;
}

void pointer_encode(const struct snapshot_pointer *p, char text[POINTER_TEXT])
{
    snprintf(text, POINTER_TEXT,
             "%s %016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %08" PRIx32
             " %08" PRIx32 " %08" PRIx32 " %02x",
             p->id, p->at.index, p->at.epoch, p->batch, p->bytes, p->chain, p->chunks, p->checksum,
             p->version);
}

/* False: it is none, of whatever version. */
static bool read_pointer(struct slice value, struct snapshot_pointer *out)
{
    char text[POINTER_TEXT], same[POINTER_TEXT];

    snprintf(text, sizeof text, "%.*s", (int)value.len, (const char *)value.ptr);
    if (sscanf(text,
               "%24[0-9a-f] %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx32 " %" SCNx32
               " %" SCNx32 " %" SCNx8,
               out->id, &out->at.index, &out->at.epoch, &out->batch, &out->bytes, &out->chain,
               &out->chunks, &out->checksum, &out->version) != 9)
        return false;
    pointer_encode(out, same);
    return slice_is(value, same) && strlen(out->id) == SNAPSHOT_ID;
}

enum log_fault pointer_decode(struct slice value, struct snapshot_pointer *out)
{
    struct snapshot_pointer pointer;
    enum log_fault fault =
        read_pointer(value, &pointer) ? version_fault(pointer.version) : LOG_IS_NONE;

    if (fault != LOG_IS_FINE)
        return fault;
    if (pointer.at.index == 0 || pointer.chunks == 0)
        return LOG_IS_NONE;
    *out = pointer;
    return LOG_IS_FINE;
}

/* --- Streams. --- */

bool stream_put(struct stream *s, struct slice piece)
{
    if (piece.len == 0)
        return true;
    if (s->from > 0)
        memmove(s->bytes, s->bytes + s->from, s->len);
    s->from = 0;
    if (piece.len > s->cap - s->len) {
        size_t cap = s->len + piece.len > 2 * s->cap ? s->len + piece.len : 2 * s->cap;
        uint8_t *bytes = account_resize(ACCOUNT_JOURNAL, ACCOUNT_ORDINARY, s->bytes, s->cap, cap);

        if (bytes == NULL)
            return false;
        s->bytes = bytes;
        s->cap = cap;
    }
    memcpy(s->bytes + s->len, piece.ptr, piece.len);
    s->len += piece.len;
    return true;
}

void stream_drop(struct stream *s, size_t len)
{
    s->from += len;
    s->len -= len;
    if (s->len == 0)
        s->from = 0;
}

bool stream_next(struct stream *s, struct slice *batch)
{
    const uint8_t *at;
    uint64_t len;

    if (s->len < STREAM_LENGTH)
        return false;
    at = s->bytes + s->from;
    len = bytes_get_u32(at);
    if (len > s->len - STREAM_LENGTH)
        return false;
    *batch = (struct slice){at + STREAM_LENGTH, (size_t)len};
    stream_drop(s, STREAM_LENGTH + (size_t)len);
    return true;
}

void stream_fini(struct stream *s)
{
    account_free(ACCOUNT_JOURNAL, s->bytes, s->cap);
    *s = (struct stream){0};
}
