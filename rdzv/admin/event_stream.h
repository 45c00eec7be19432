/* Server-sent events, as they go to many clients: each is made once. */
#pragma once

#include "rdzv/net/conn.h"

/* An event of one line of data; NULL: there is no memory. It is counted as ACCOUNT_WATCHES. */
struct blob *event_make(const char *name, struct slice data);

/* How many bytes of it stand before the data. */
size_t event_head_len(const char *name);

/* Queues it. `chunked`: as reply_begin_stream() has said. */
void event_send(struct conn *c, bool chunked, struct blob *event);

/* Ends the stream as a whole reply ends, and its connection: a client then knows that nothing was
 * lost on the way. */
void event_end(struct conn *c, bool chunked);
