/* What the journal writes into etcd's keys. See entry.h for the contract. */
#include "rdzv/etcd3/entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/disk/crc32c.h"
#include "store/memory/account.h"

#define ENTRY_BEGINS 1u

/* --- Entries: version, flags, two zeros, checksum, epoch. --- */

static void encode(const struct log_entry *e, uint32_t chain, uint8_t header[ENTRY_HEADER])
{
    bytes_put_u32(header, e->version | (e->begins ? ENTRY_BEGINS : 0) << 8);
    bytes_put_u32(header + 4, chain);
    bytes_put_u64(header + 8, e->epoch);
}

uint32_t entry_chain(uint32_t before, const struct log_entry *e)
{
    uint8_t header[ENTRY_HEADER];

    encode(e, before, header);
    return crc32c(crc32c(0, header, sizeof header), e->bytes.ptr, e->bytes.len);
}

void entry_encode(const struct log_entry *e, uint8_t header[ENTRY_HEADER])
{
    encode(e, e->chain, header);
}

bool entry_decode(struct slice value, struct log_entry *out)
{
    uint32_t kind;
    uint8_t version;

    if (value.len < ENTRY_HEADER)
        return false;
    kind = bytes_get_u32(value.ptr);
    version = (uint8_t)kind;
    if (version < ENTRY_VERSION_MIN || version > ENTRY_VERSION_MAX || kind >> 8 > ENTRY_BEGINS)
        return false;
    *out = (struct log_entry){.version = version,
                              .epoch = bytes_get_u64(value.ptr + 8),
                              .chain = bytes_get_u32(value.ptr + 4),
                              .begins = kind >> 8 == ENTRY_BEGINS,
                              .bytes = {value.ptr + ENTRY_HEADER, value.len - ENTRY_HEADER}};
    return true;
}

static enum log_fault fault_of(uint64_t version)
{
    return version > ENTRY_VERSION_MAX                   ? LOG_IS_NEWER
           : version < ENTRY_VERSION_MIN && version != 0 ? LOG_IS_OLDER
                                                         : LOG_IS_NONE;
}

enum log_fault entry_fault(struct slice value)
{
    return value.len < ENTRY_HEADER ? LOG_IS_NONE : fault_of(value.ptr[0]);
}

/* --- Head and snapshot: numbers of a fixed width, in hexadecimal, apart by spaces. --- */

/* Takes the next one off the text; `last`: nothing is behind it. */
static bool take_number(struct slice *text, size_t digits, bool last, uint64_t *out)
{
    static const char all[] = "0123456789abcdef";
    size_t used = digits + (last ? 0 : 1);

    if (text->len < used || (last && text->len != used) || (!last && text->ptr[digits] != ' '))
        return false;
    *out = 0;
    for (size_t i = 0; i < digits; i++) {
        const char *digit = memchr(all, text->ptr[i], 16);

        if (digit == NULL)
            return false;
        *out = *out << 4 | (uint64_t)(digit - all);
    }
    *text = (struct slice){text->ptr + used, text->len - used};
    return true;
}

void head_encode(const struct log_head *h, char text[HEAD_TEXT])
{
    snprintf(text, HEAD_TEXT, "%016" PRIx64 " %016" PRIx64, h->index, h->epoch);
}

bool head_decode(struct slice value, struct log_head *out)
{
    return take_number(&value, 16, false, &out->index) &&
           take_number(&value, 16, true, &out->epoch) && out->index != 0;
}

/* In front of the version, which the first one did not say. */
#define POINTER_LEN 119u

void pointer_encode(const struct snapshot_pointer *p, char text[POINTER_TEXT])
{
    snprintf(text, POINTER_TEXT,
             "%s %016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %08" PRIx32
             " %08" PRIx32 " %08" PRIx32 " %02x",
             p->id, p->at.index, p->at.epoch, p->batch, p->bytes, p->chain, p->chunks, p->checksum,
             p->version);
}

enum log_fault pointer_fault(struct slice value)
{
    uint64_t version;

    if (value.len == POINTER_LEN)
        return LOG_IS_OLDER;
    if (value.len != POINTER_LEN + 3)
        return LOG_IS_NONE;
    value = slice_from(value, POINTER_LEN + 1);
    return take_number(&value, 2, true, &version) ? fault_of(version) : LOG_IS_NONE;
}

bool pointer_decode(struct slice value, struct snapshot_pointer *out)
{
    uint64_t chain, chunks, checksum, version;

    if (value.len <= SNAPSHOT_ID || value.ptr[SNAPSHOT_ID] != ' ')
        return false;
    memcpy(out->id, value.ptr, SNAPSHOT_ID);
    out->id[SNAPSHOT_ID] = '\0';
    if (strspn(out->id, "0123456789abcdef") != SNAPSHOT_ID)
        return false;
    value = (struct slice){value.ptr + SNAPSHOT_ID + 1, value.len - SNAPSHOT_ID - 1};
    if (!take_number(&value, 16, false, &out->at.index) ||
        !take_number(&value, 16, false, &out->at.epoch) ||
        !take_number(&value, 16, false, &out->batch) ||
        !take_number(&value, 16, false, &out->bytes) || !take_number(&value, 8, false, &chain) ||
        !take_number(&value, 8, false, &chunks) || !take_number(&value, 8, false, &checksum) ||
        !take_number(&value, 2, true, &version) || version < ENTRY_VERSION_MIN ||
        version > ENTRY_VERSION_MAX)
        return false;
    out->version = (uint8_t)version;
    out->chain = (uint32_t)chain;
    out->chunks = (uint32_t)chunks;
    out->checksum = (uint32_t)checksum;
    return out->at.index != 0 && out->chunks != 0;
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
