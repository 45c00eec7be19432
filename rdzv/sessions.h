/* The protocol sessions, as conn.c and server.c see them: bytes in, requests carried out, answers
 * queued on the connection. */
#pragma once

#include "rdzv/net/conn.h"

/* What a session did with the bytes it was shown. */
enum session_result {
    SESSION_MORE,    /* used what it could; needs at least c->need bytes from the next request on */
    SESSION_PARKED,  /* will not look at input until it is resumed, but the peer is still read */
    SESSION_PAUSED,  /* output is full; the rest of the input waits */
    SESSION_YIELDED, /* has had its share of this turn; the rest of the input waits for the next */
    SESSION_ENDED,   /* the connection is finishing or closed */
};

/* Carries out the whole requests at the start of `in`; *used bytes of it are done with. The bytes
 * may be written to (chunked bodies are decoded in place). */
enum session_result c10d_session_read(struct conn *c, uint8_t *in, size_t len, size_t *used);
enum session_result http_session_read(struct conn *c, uint8_t *in, size_t len, size_t *used);

/* Set up when the first byte has told the protocol. http: false and cut when memory is short. */
void c10d_session_begin(struct conn *c);
bool http_session_begin(struct conn *c);

/* The peer has sent its last byte. True: the connection stays to send what is queued. */
bool http_session_eof(struct conn *c);

/* Somebody was woken: his connection is wake->owner. Queues what he waited for. */
void c10d_session_resume(struct conn *c, struct wake *w);
void http_session_resume(struct conn *c, struct wake *w);

/* Unregisters everything the session waits for and frees it. */
void c10d_session_end(struct conn *c);
void http_session_end(struct conn *c);
