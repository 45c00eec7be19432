/* A whole server in the test's own process and hands: real sockets on loopback, real connections,
 * and iterations of the loop that happen when the test says so. */
#pragma once

#include "rdzv/net/conn.h"
#include "rdzv/net/transport.h"
#include "rdzv/server.h"

struct loop {
    struct server server;
    struct config config;
    int log_fd;
    double began_s; /* when the server began, for cases that take long */
};

/* One listener on a port of the kernel's choice; `flags` is a NULL-terminated list of more. */
void loop_open(struct loop *l, const char *const *flags);

/* What loop_open() does before server_init(), and loop_close() when there are no connections.
 * Prints how long the server was there if that was more than 5 s. */
void loop_configure(struct loop *l, const char *const *flags);
void loop_forget(struct loop *l);

/* Nobody and nothing may be left behind: fails when a space still counts one who waits. */
void loop_close(struct loop *l);

/* The server of most tests. A LOOP_TEST() has it from loop_open() without flags, and loop_close()
 * comes behind it. */
extern struct loop loop;
#define LOOP_TEST(name) cmocka_unit_test_setup_teardown(name, loop_set_up, loop_tear_down)
int loop_set_up(void **state);
int loop_tear_down(void **state);

/* Runs the loop once: reads, applies and answers the requests that have arrived, as in production.
 */
void loop_iterate(struct loop *l);

/* A peer. Its socket does not block; its receive buffer is small when `slow`. */
int loop_connect(struct loop *l, bool slow);

/* The same, before the server has accepted it. */
int loop_dial(struct loop *l, bool slow);

/* A peer that has said VALIDATE of the modern version, and is answered. */
int loop_connect_modern(struct loop *l);

/* The key /k of that many bytes, set by such a peer; a key of the first space, set directly. */
void loop_set_large(struct loop *l, int fd, size_t len);
void loop_set_key(struct loop *l, const char *key, const char *value);

/* The server's side of a peer; NULL when the server has none (any more). */
struct conn *loop_conn(struct loop *l, int fd);

/* The peer goes; over once the server has seen its end. */
void loop_leave(struct loop *l, int fd);

/* All of the bytes, with iterations of the loop when the socket is full. */
void loop_send(struct loop *l, int fd, const void *bytes, size_t len);
void loop_send_text(struct loop *l, int fd, const char *text);

/* Iterates until these bytes have come, which must be the next ones. */
void loop_expect(struct loop *l, int fd, const void *bytes, size_t len);

/* Iterates until so many bytes have come. */
void loop_receive(struct loop *l, int fd, void *out, size_t len);

/* Iterates until one byte more has come. */
uint8_t loop_next_byte(struct loop *l, int fd);

/* Iterates until the end of the stream, which must be the next thing that comes. */
void loop_expect_end(struct loop *l, int fd);

/* Iterates until the server has read and answered all that was sent so far by anybody (a PING of a
 * connection of its own says when), and nothing must have come here. */
void loop_expect_silence(struct loop *l, int fd);

/* Iterates until a whole HTTP answer with a Content-Length has come; its body, cut off at `cap`.
 * Returns the status. */
unsigned loop_expect_answer(struct loop *l, int fd, char *body, size_t cap);

/* One iteration more; behind so many the kernel, which may be busy elsewhere, gets some time. */
void loop_iterate_again(struct loop *l, int count);

/* Iterates until the condition holds. */
#define LOOP_UNTIL(l, condition)                                                 \
    do {                                                                         \
        for (int loop_count = 0; !(condition); loop_count++) {                   \
            if (loop_count == 20000)                                             \
                fail_msg("not after %d iterations: %s", loop_count, #condition); \
            loop_iterate_again(l, loop_count);                                   \
        }                                                                        \
    } while (0)

/* True when the log has that text. */
bool loop_logged(struct loop *l, const char *text);
