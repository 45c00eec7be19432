/* A relay by hand: a test that sends the frames of a link to a whole server, the store in `loop`,
 * and reads what comes.
 */
#pragma once

#include "proto/relay.h"
#include "tests/loop/harness.h"
#include "tests/loop/requests.h"

#define NOTHING "", 0

/* ANSWER or DONE of a request that has changed something. */
#define CHANGED (RELAY_KNOWN | RELAY_CHANGED)

/* --- Frames. --- */

void hand_send(int fd, enum relay_kind kind, uint8_t flags, uint32_t channel, uint64_t number,
               const void *payload, size_t len);

/* Sends a whole request in one frame; or a request of any length, in several frames. */
void hand_request(int fd, uint32_t channel, uint64_t number, const char *bytes, size_t len);
void hand_request_in_parts(int fd, uint32_t channel, uint64_t number, const uint8_t *bytes,
                           size_t len);

/* SET of `key` (two letters), or QUEUE_PUSH, to a value of `len` bytes that begins behind the first
 * 19; the caller frees it. */
uint8_t *hand_large_request(uint8_t op, const char *key, size_t len);

/* The next frame that comes; its payload is there until the next call. */
struct relay_frame hand_next(int fd);

/* The next frame has to be this one. */
#define hand_expect(...) hand_expect_at(__FILE__, __LINE__, __VA_ARGS__)
void hand_expect_at(const char *file, int line, int fd, enum relay_kind kind, int flags,
                    uint32_t channel, uint64_t number, const char *payload, size_t len);

/* Wait until the store has carried out all frames so far. The first checks that the store sent no
 * answer; the second ignores answers. */
void hand_expect_nothing(int fd);
void hand_expect_executed(int fd);

/* --- Links and sessions. --- */

/* Opens a connection and sends HELLO; the last one also reads the welcome, in the space `default`.
 */
int hand_say_hello(const char *space, uint32_t min, uint32_t max);
int hand_say_hello_and_wait(void); /* at a replica that does not lead; in the space `default` */
int hand_connect(void);

/* Closes the link; over once the server knows. */
void hand_lose_link(int fd);

void hand_send_open(int fd, uint32_t channel, uint64_t id, bool resumes);
void hand_send_open_of(int fd, uint64_t link, uint32_t channel, uint64_t id, bool resumes);

/* What the clients of sessions that are opened from now on speak; hand_connect(): the modern
 * version.
 */
void hand_speak(enum c10d_version version);

/* Opens a new session; or opens a session again, and checks the store's report about it. */
void hand_open(int fd, uint32_t channel, uint64_t id);
void hand_resume(int fd, uint32_t channel, uint64_t id, int flags, uint64_t number,
                 const char *answer, size_t len);

/* So much time passes for the server; and the tick of its links follows. */
void hand_pass_time(uint64_t ms);
void hand_tick_after(uint64_t ms);

/* No link is left: sessions are detached, and end in time. */
void hand_end_all_sessions(void);

/* --- A store that outlives its process. --- */

void hand_store_open(void);

/* It dies, with the link `fd`, and starts anew. */
void hand_store_restart(int fd);

/* Ends it, and removes its directory. */
void hand_store_close(void);
