/* The frames between a relay and its store: one connection carries the sessions of all clients of
 * the relay. Knows the layout; what a frame means to a session is the relay's and the store's
 * matter. No I/O and no allocation.
 *
 * A relay opens a connection with RELAY_MAGIC. Its first byte, 0xF5, opens no other protocol: it is
 * no upper-case letter (HTTP), not 0x16 (TLS), not 0x00 to 0x0C (c10d with and without a handshake)
 * and not 0xCE (the magic of mid-2023), so the first byte decides. Then both sides send frames:
 *
 *     u32 length   of the payload
 *     u8  kind     enum relay_kind
 *     u8  flags    RELAY_...
 *     u16 zero
 *     u32 channel  the relay's number for a session on this connection; 0: the connection itself
 *     u64 number   see each kind
 *     payload
 *
 * all little-endian. The relay numbers the requests of a session from 1 on, and leaves no number
 * out on one connection; else the store ends that session. The relay has at most one request with
 * an answer open in a session, and sends none behind it but CANCEL_WAIT, or of a legacy client,
 * whose WAIT ends with its next request, that request. Requests without an answer (SET, APPEND,
 * MULTI_SET, QUEUE_PUSH) follow each other freely.
 *
 * After a connection was lost, the relay opens each session that still has its client again. The
 * store names the last request of the session that changed something, with its answer; the relay
 * repeats the later ones. So each request is executed exactly once, no matter when the store or the
 * connection failed. The first repeated request keeps its number, since the store may have it open
 * under that number. Later ones follow on: if the relay has withdrawn a WAIT that its client gave
 * up, their numbers are smaller than before. */
#pragma once

#include "proto/bytes.h"

#define RELAY_MAGIC      "\xf5rdzv\r\n\x1a"
#define RELAY_MAGIC_SIZE 8u

/* Versions of the frames that are spoken here. A store welcomes a relay with the newest one that
 * both speak. tests/meson.build makes an rdzvd that speaks other ones, as a later release will. */
#ifndef RELAY_VERSION_MAX
#define RELAY_VERSION_MIN 1u
#define RELAY_VERSION_MAX 1u
#endif

#define RELAY_HEAD_SIZE 20u

/* A longer payload comes in several frames, all but the last with RELAY_MORE. So a long payload
 * does not delay frames of other sessions, and the receiver's buffer has room for each frame. */
#define RELAY_PAYLOAD_MAX (64u << 10)

/* HELLO and OPEN have only names and numbers: a longer payload is refused undecoded. */
#define RELAY_MESSAGE_MAX 4096u

/* Requests without an answer that a relay may have open in a session, and their bytes: one request
 * may be longer, alone. */
#define RELAY_WINDOW       256u
#define RELAY_WINDOW_BYTES (1u << 20)

/* A relay asks once for several clients that ask the same at one time, but every so many seconds
 * for each client. */
#define RELAY_ALONE_S 20u

enum relay_kind {
    RELAY_HELLO = 1, /* relay: struct RelayHello */
    RELAY_WELCOME,   /* store: struct RelayWelcome */
    RELAY_REFUSED,   /* store: why not, as text; then it closes the connection */
    RELAY_OPEN,      /* relay: struct RelayOpen; channel: a new number */
    RELAY_OPENED,    /* store. number: the last request that changed something; 0: none.
                        RELAY_KNOWN, RELAY_ANSWERED, RELAY_TOOK, RELAY_ARRIVED; payload: the answer */
    RELAY_REQUEST,   /* relay: a part of the request `number`, as the client sent it */
    RELAY_ANSWER,    /* store: a part of the answer to request `number`; with the last part, this
                        and all earlier requests are done, and as durable as promised */
    RELAY_DONE,      /* store: request `number` and all earlier ones are done, with all answers
                        sent */
    RELAY_CLOSE,     /* relay: the client has gone, and so the session ends; or it has heard
                        ENDED. It has no answer */
    RELAY_ENDED,     /* store: it has ended the session, and why, as text; relay: CLOSE */
    RELAY_PING,      /* relay: answered by RELAY_PONG with the same number */
    RELAY_PONG,      /* store */
    RELAY_RESTART,   /* both, with --exit-on-restart: see rdzv/relay/restart.h. number: a generation
                        of the run; flags: enum restart_stage; payload: of a relay, u32 N and the
                        name of its node, of a store, a text for /startz, or nothing */
    RELAY_READS,     /* store, to a relay that shares, once before an ANSWER or DONE of the session.
                        number: the keys that it reads; two sessions with one number get the same
                        answer to the same read. Agents have none: each is shown its own view */
    RELAY_KINDS,
};

enum {
    RELAY_MORE = 1,     /* REQUEST, ANSWER: the rest follows in the next frame of this channel */
    RELAY_KNOWN = 2,    /* OPENED: the store knew the session */
    RELAY_ANSWERED = 4, /* OPENED: the payload is the answer to `number` */
    RELAY_TOOK = 8,     /* OPENED: `number` was a COMPARE_SET that took effect: the answer is the
                           value that it has set */
    RELAY_ARRIVED = 16, /* OPENED: `number` was a BARRIER that waits: the relay must repeat it, and
                           the store does not count it again */
    RELAY_CHANGED = 32, /* ANSWER, DONE: `number` has changed something: if the session is opened
                           again, OPENED has this number, or a later one. Of the changes before a
                           frame, the last has had one of its own. Stores before 0.2 do not say so
                         */
    RELAY_STANDS_BY = 64, /* REFUSED: another replica of this store leads: the relay must try the
                             others at once */
    RELAY_SAME = 128, /* REQUEST, in one frame: the store keeps the payload for this link; without a
                         payload, the request has the bytes that the store keeps. Only to a store
                         whose WELCOME has `keeps` */
};

struct relay_frame {
    uint8_t kind;
    uint8_t flags;
    uint32_t channel;
    uint64_t number;
    struct slice payload;
};

/* Writes the head of a frame; frame->payload.len is its length. */
void relay_put_head(uint8_t out[RELAY_HEAD_SIZE], const struct relay_frame *frame);

/* Reads the frame at the start of `in`. PARSE_DONE: *out is filled, its payload points into `in`,
 * *size is the frame's length. PARSE_MORE: there have to be *size bytes. PARSE_BAD: no frame, or
 * one longer than RELAY_PAYLOAD_MAX. */
enum parse_result relay_parse(struct slice in, struct relay_frame *out, size_t *size);

/* Whether a connection opens as a relay's. PARSE_MORE: it may, with *size bytes. */
enum parse_result relay_detect(struct slice in, size_t *size);
