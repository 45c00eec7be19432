/* HTTP/2 (RFC 9113) on a connection, as clients of etcd's v3 API begin: each call of gRPC gets the
 * status UNIMPLEMENTED, and a sentence that etcdctl prints. What a call asks for is not read. */
#include "rdzv/http/session.h"
#include "rdzv/net/conn.h"

#define FRAME_HEAD     9
#define PAYLOAD_MAX    16384 /* more needs a setting of ours */
#define FRAME_HEADERS  1
#define FRAME_SETTINGS 4
#define FRAME_PING     6
#define FLAG_ACK       1
#define FLAGS_LAST     5 /* the end of the headers, and of the stream */

/* In HPACK, ":status: 200" and the name of "content-type" by their numbers, all else in letters. */
static const char unimplemented[] =
    "\210\17\20\20application/grpc\0\13grpc-status\00212\0\14grpc-message\127"
    "rdzvd has etcd's v2 API and not its v3 API: use a client of v2 (etcdctl: ETCDCTL_API=2)";

static void put_frame(struct conn *c, uint8_t type, uint8_t flags, const uint8_t stream[4],
                      const void *payload, size_t len)
{
    const uint8_t head[FRAME_HEAD] = {0,         (uint8_t)(len >> 8), (uint8_t)len, type,     flags,
                                      stream[0], stream[1],           stream[2],    stream[3]};

    conn_put(c, head, sizeof head);
    conn_put(c, payload, len);
}

static void answer_frame(struct conn *c, const uint8_t *frame, size_t payload)
{
    if (frame[3] == FRAME_HEADERS)
        put_frame(c, FRAME_HEADERS, FLAGS_LAST, frame + 5, unimplemented, sizeof unimplemented - 1);
    else if ((frame[3] == FRAME_SETTINGS || frame[3] == FRAME_PING) && !(frame[4] & FLAG_ACK))
        put_frame(c, frame[3], FLAG_ACK, frame + 5, frame + FRAME_HEAD,
                  frame[3] == FRAME_PING ? payload : 0);
}

static enum protocol_result http2_read(struct conn *c, uint8_t *in, size_t len,
                                       struct protocol_progress *progress)
{
    for (;;) {
        const uint8_t *frame = in + progress->used;
        size_t left = len - progress->used, payload = 0;

        if (left >= FRAME_HEAD)
            payload = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
        if (payload > PAYLOAD_MAX) {
            conn_drop(c, DROP_MALFORMED, "a long frame of HTTP/2", (struct slice){frame, 9});
            return PROTOCOL_ENDED;
        }
        progress->need = progress->used + FRAME_HEAD + payload;
        if (left < FRAME_HEAD + payload)
            return PROTOCOL_MORE;
        if (!conn_can_reply(c))
            return PROTOCOL_PAUSED;
        answer_frame(c, frame, payload);
        progress->used += FRAME_HEAD + payload;
    }
}

enum parse_result http2_begin(struct conn *c, struct slice in, struct protocol_progress *progress)
{
    static const struct protocol protocol = {
        .name = "http/2", .pipelines = true, .read = http2_read};
    const struct slice preface = slice_str("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

    progress->need = preface.len;
    if (in.len < preface.len)
        return slice_starts_with(preface, in) ? PARSE_MORE : PARSE_BAD;
    if (!slice_starts_with(in, preface))
        return PARSE_BAD;
    progress->used = preface.len;
    c->protocol = &protocol;
    put_frame(c, FRAME_SETTINGS, 0, (const uint8_t[4]){0}, NULL, 0);
    return PARSE_DONE;
}
