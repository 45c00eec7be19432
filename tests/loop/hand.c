/* A relay in the test's hands. See hand.h. */
#include "tests/loop/hand.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/relay.pb-c.h"
#include "rdzv/relay/link_session.h"

void hand_send(int fd, enum relay_kind kind, uint8_t flags, uint32_t channel, uint64_t number,
               const void *payload, size_t len)
{
    uint8_t *bytes = malloc(RELAY_HEAD_SIZE + len);

    assert_non_null(bytes);
    relay_put_head(bytes, &(struct relay_frame){.kind = (uint8_t)kind,
                                                .flags = flags,
                                                .channel = channel,
                                                .number = number,
                                                .payload = {payload, len}});
    if (len != 0)
        memcpy(bytes + RELAY_HEAD_SIZE, payload, len);
    loop_send(&loop, fd, bytes, RELAY_HEAD_SIZE + len);
    free(bytes);
}

void hand_request(int fd, uint32_t channel, uint64_t number, const char *bytes, size_t len)
{
    hand_send(fd, RELAY_REQUEST, 0, channel, number, bytes, len);
}

/* The next frame; its payload lies in `room`. */
struct relay_frame hand_next(int fd)
{
    static uint8_t room[RELAY_HEAD_SIZE + RELAY_PAYLOAD_MAX];
    struct relay_frame frame;
    size_t size;

    loop_receive(&loop, fd, room, RELAY_HEAD_SIZE);
    if (relay_parse((struct slice){room, RELAY_HEAD_SIZE}, &frame, &size) == PARSE_MORE) {
        loop_receive(&loop, fd, room + RELAY_HEAD_SIZE, size - RELAY_HEAD_SIZE);
    }
    assert_int_equal(relay_parse((struct slice){room, size}, &frame, &size), PARSE_DONE);
    return frame;
}

void hand_expect_at(const char *file, int line, int fd, enum relay_kind kind, int flags,
                    uint32_t channel, uint64_t number, const char *payload, size_t len)
{
    struct relay_frame frame = hand_next(fd);

    if (frame.kind == kind && frame.flags == flags && frame.channel == channel &&
        frame.number == number &&
        slice_equal(frame.payload, (struct slice){(void *)(uintptr_t)payload, len}))
        return;
    print_error("kind %d flags %d channel %u number %lu, %zu bytes: '%.*s'; and not kind %d flags "
                "%d channel %u number %lu\n",
                frame.kind, frame.flags, frame.channel, (unsigned long)frame.number,
                frame.payload.len, (int)frame.payload.len, (const char *)frame.payload.ptr, kind,
                flags, channel, (unsigned long)number);
    _fail(file, line);
}

static int say_hello(const char *space, uint32_t min, uint32_t max, bool waits)
{
    Rdzv__RelayHello hello = RDZV__RELAY_HELLO__INIT;
    int fd = loop_connect(&loop, false);
    uint8_t payload[512];

    hello.version_min = min;
    hello.version_max = max;
    hello.waits = waits;
    hello.space = (char *)(uintptr_t)space;
    hello.name = (char *)(uintptr_t) "node-7";
    loop_send(&loop, fd, TEXT(RELAY_MAGIC));
    hand_send(fd, RELAY_HELLO, 0, 0, 0, payload, rdzv__relay_hello__pack(&hello, payload));
    return fd;
}

int hand_say_hello(const char *space, uint32_t min, uint32_t max)
{
    return say_hello(space, min, max, false);
}

int hand_say_hello_and_wait(void)
{
    return say_hello("default", 1, 1, true);
}

static enum c10d_version spoken = C10D_MODERN;

void hand_speak(enum c10d_version version)
{
    spoken = version;
}

int hand_connect(void)
{
    int fd = hand_say_hello("default", 1, 1);

    hand_speak(C10D_MODERN);
    assert_int_equal(hand_next(fd).kind, RELAY_WELCOME);
    return fd;
}

void hand_send_open(int fd, uint32_t channel, uint64_t id, bool resumes)
{
    hand_send_open_of(fd, 0, channel, id, resumes);
}

void hand_send_open_of(int fd, uint64_t link, uint32_t channel, uint64_t id, bool resumes)
{
    Rdzv__RelayOpen open = RDZV__RELAY_OPEN__INIT;
    uint8_t payload[256];

    open.session = id;
    open.c10d_version = spoken;
    open.peer_host = (char *)(uintptr_t) "127.0.0.1";
    open.peer_port = 7;
    open.local_host = (char *)(uintptr_t) "127.0.0.1";
    open.local_port = 29400;
    open.resumes = resumes;
    open.pings = true;
    open.link = link;
    hand_send(fd, RELAY_OPEN, 0, channel, 0, payload, rdzv__relay_open__pack(&open, payload));
}

void hand_open(int fd, uint32_t channel, uint64_t id)
{
    hand_send_open(fd, channel, id, false);
    hand_expect(fd, RELAY_OPENED, 0, channel, 0, NOTHING);
}

void hand_resume(int fd, uint32_t channel, uint64_t id, int flags, uint64_t number,
                 const char *answer, size_t len)
{
    hand_send_open(fd, channel, id, true);
    hand_expect(fd, RELAY_OPENED, flags, channel, number, answer, len);
}

/* Checks that the store has carried out all frames so far, and has sent no answer. */
void hand_expect_nothing(int fd)
{
    hand_send(fd, RELAY_PING, 0, 0, 99, NOTHING);
    hand_expect(fd, RELAY_PONG, 0, 0, 99, NOTHING);
    loop_iterate(&loop);
    loop_iterate(&loop);
    hand_send(fd, RELAY_PING, 0, 0, 98, NOTHING);
    hand_expect(fd, RELAY_PONG, 0, 0, 98, NOTHING);
}

/* Waits until the store has carried out all frames so far, and ignores its answers. */
void hand_expect_executed(int fd)
{
    hand_send(fd, RELAY_PING, 0, 0, 97, NOTHING);
    while (hand_next(fd).kind != RELAY_PONG)
        ;
    loop_iterate(&loop);
    loop_iterate(&loop);
}

void hand_lose_link(int fd)
{
    uint64_t links = loop.server.engine.stats.relay_links;

    close(fd);
    LOOP_UNTIL(&loop, loop.server.engine.stats.relay_links == links - 1);
}

/* The clock is not moved, but the part of it that the server has not lived through. */
void hand_pass_time(uint64_t ms)
{
    loop.server.engine.paused_ms -= ms;
}

void hand_tick_after(uint64_t ms)
{
    hand_pass_time(ms);
    relay_links_tick(&loop.server.store.links);
    loop_iterate(&loop);
}

void hand_end_all_sessions(void)
{
    LOOP_UNTIL(&loop, loop.server.engine.stats.sessions_attached == 0);
    for (int ticks = 0; loop.server.store.links.sessions.count > 0; ticks++) {
        assert_in_range(ticks, 0, 100);
        hand_tick_after(60000);
    }
}

/* A store that outlives its process. */
#define FOLDER "/tmp/rdzv-link-XXXXXX"
static char folder[sizeof FOLDER];

void hand_store_open(void)
{
    strcpy(folder, FOLDER);
    assert_non_null(mkdtemp(folder));
    loop_open(&loop, (const char *const[]){"--data-dir", folder, NULL});
}

void hand_store_restart(int fd)
{
    loop_forget(&loop);
    close(fd);
    loop_open(&loop, (const char *const[]){"--data-dir", folder, NULL});
}

static int remove_one(const char *path, const struct stat *what, int kind, struct FTW *at)
{
    (void)what;
    (void)kind;
    (void)at;
    return remove(path);
}

void hand_store_close(void)
{
    loop_close(&loop);
    assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static uint8_t *filled(size_t len, int seed)
{
    uint8_t *bytes = malloc(len);

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(i * 31 + (size_t)seed);
    return bytes;
}

/* A request of that many bytes, in as many frames as it takes. */
void hand_request_in_parts(int fd, uint32_t channel, uint64_t number, const uint8_t *bytes,
                           size_t len)
{
    while (len > RELAY_PAYLOAD_MAX) {
        hand_send(fd, RELAY_REQUEST, RELAY_MORE, channel, number, bytes, RELAY_PAYLOAD_MAX);
        bytes += RELAY_PAYLOAD_MAX;
        len -= RELAY_PAYLOAD_MAX;
    }
    hand_send(fd, RELAY_REQUEST, 0, channel, number, bytes, len);
}

/* SET of `key` (two letters), or QUEUE_PUSH, to a value that begins behind the returned head. */
uint8_t *hand_large_request(uint8_t op, const char *key, size_t len)
{
    uint8_t *bytes = filled(19 + len, 1);

    bytes[0] = op;
    bytes_put_u64(bytes + 1, 2);
    memcpy(bytes + 9, key, 2);
    bytes_put_u64(bytes + 11, len);
    return bytes;
}
