/* A server with a simulated clock, whose iterations end when their time is over. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/loop/harness.h"
#include "tests/loop/requests.h"
#include "tests/loop/stepping.h"

#define METRICS "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

static inline void open_loop(const char *const *flags)
{
    now_ns = UINT64_C(1000000000);
    step_ns = 0;
    loop_open(&loop, flags);
    loop.server.engine.options.clock = loop.server.net.budget.clock = &stepping;
}

/* Sends without an iteration of the loop. */
static inline void tell(int fd, const void *bytes, size_t len)
{
    assert_int_equal(send(fd, bytes, len, 0), len);
}

static inline bool has_answer(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK) == 1;
}

static inline void set_keys(struct engine *e, int from, int to)
{
    for (int i = from; i < to; i++) {
        char key[32];
        struct command c = {.kind = COMMAND_KEY_SET, .value = slice_str("v")};
        struct store_result r;

        snprintf(key, sizeof key, "/key/%d", i);
        c.key = slice_str(key);
        engine_apply(e, TAILQ_FIRST(&e->spaces), &c, &r);
        assert_int_equal(r.status, STORE_OK);
    }
}

/* The answer to LIST_KEYS after set_keys(…, 0, count). */
static inline void expect_list(int fd, int count)
{
    uint8_t bytes[64];

    bytes_put_u64(bytes, (uint64_t)count);
    loop_expect(&loop, fd, bytes, 8);
    for (int i = 0; i < count; i++) {
        int len = snprintf((char *)bytes + 8, sizeof bytes - 8, "/key/%d", i);

        bytes_put_u64(bytes, (uint64_t)len);
        loop_expect(&loop, fd, bytes, 8 + (size_t)len);
    }
}
