/* c10d requests that take more than one turn, so that others are not kept waiting: lists of keys,
 * requests with many keys, and those with a large value. Each is carried out at one moment all the
 * same. */
#pragma once

#include "rdzv/c10d/session.h"

/* How a large request is carried out; C10D_IDLE: in one turn, as all others, and C10D_LISTS: by
 * c10d_list_keys(). Of agents, the next request may depend on what becomes of this one. */
enum c10d_busy c10d_turns_of(struct conn *c, const struct c10d_request *req, size_t size);

/* Begins one of `size` bytes, which starts there. False: memory is short, and the session has
 * ended. */
bool c10d_begin_long(struct conn *c, const struct c10d_request *req, const uint8_t *start,
                     size_t size, enum c10d_busy busy);

/* The request that has begun, now that its bytes start there, and its size. */
struct c10d_request c10d_long_request(struct conn *c, const uint8_t *start, size_t *size);

/* One more turn of it; c10d_is_busy() says whether it takes another. The session may have ended
 * then. */
void c10d_run_long(struct conn *c, const struct c10d_request *req);

/* LIST_KEYS, which is done in one turn, or has begun then. */
void c10d_list_keys(struct conn *c, const struct c10d_request *req);
