/* Frames between a relay and its store. See relay.h for the layout. */
#include "proto/relay.h"

void relay_put_head(uint8_t out[RELAY_HEAD_SIZE], const struct relay_frame *frame)
{
    bytes_put_u32(out, (uint32_t)frame->payload.len);
    out[4] = frame->kind;
    out[5] = frame->flags;
    out[6] = out[7] = 0;
    bytes_put_u32(out + 8, frame->channel);
    bytes_put_u64(out + 12, frame->number);
}

enum parse_result relay_parse(struct slice in, struct relay_frame *out, size_t *size)
{
    uint32_t len;

    *size = RELAY_HEAD_SIZE;
    if (in.len < RELAY_HEAD_SIZE)
        return PARSE_MORE;
    len = bytes_get_u32(in.ptr);
    if (len > RELAY_PAYLOAD_MAX || in.ptr[4] == 0 || in.ptr[4] >= RELAY_KINDS || in.ptr[6] != 0 ||
        in.ptr[7] != 0)
        return PARSE_BAD;
    *size += len;
    if (in.len < *size)
        return PARSE_MORE;
    *out = (struct relay_frame){.kind = in.ptr[4],
                                .flags = in.ptr[5],
                                .channel = bytes_get_u32(in.ptr + 8),
                                .number = bytes_get_u64(in.ptr + 12),
                                .payload = {in.ptr + RELAY_HEAD_SIZE, len}};
    return PARSE_DONE;
}

enum parse_result relay_detect(struct slice in, size_t *size)
{
    size_t seen = in.len < RELAY_MAGIC_SIZE ? in.len : RELAY_MAGIC_SIZE;

    *size = RELAY_MAGIC_SIZE;
    if (memcmp(in.ptr, RELAY_MAGIC, seen) != 0)
        return PARSE_BAD;
    return seen == RELAY_MAGIC_SIZE ? PARSE_DONE : PARSE_MORE;
}
