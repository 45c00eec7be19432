/* Frames of a relay, by a whole store in this process: whatever they say and in whatever order they
 * come, cut anywhere, and links that are lost between them, the store serves others and keeps
 * nothing when all have gone. An input is a row of steps, each of a few bytes, see take_step(). */
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/relay.h"
#include "proto/relay.pb-c.h"
#include "tests/fuzz/fuzz.h"
#include "tests/loop/harness.h"

#define LINKS 2

static int links[LINKS]; /* -1: none */

/* --- Links. --- */

/* Reads and ignores the output of the link, which may have been dropped. */
static void look_in(int i)
{
    char bytes[16384];
    ssize_t n;

    do
        n = recv(links[i], bytes, sizeof bytes, MSG_DONTWAIT);
    while (n > 0);
    if (n == 0) {
        close(links[i]);
        links[i] = -1;
    }
}

static void send_bytes(int i, const uint8_t *bytes, size_t len)
{
    if (links[i] >= 0)
        send(links[i], bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_frame(int i, const struct relay_frame *frame)
{
    uint8_t bytes[RELAY_HEAD_SIZE + 1024];

    relay_put_head(bytes, frame);
    if (frame->payload.len > 0)
        memcpy(bytes + RELAY_HEAD_SIZE, frame->payload.ptr, frame->payload.len);
    send_bytes(i, bytes, RELAY_HEAD_SIZE + frame->payload.len);
}

static void say_hello(int i)
{
    Rdzv__RelayHello hello = RDZV__RELAY_HELLO__INIT;
    struct relay_frame frame = {.kind = RELAY_HELLO};
    uint8_t payload[64];

    hello.version_min = hello.version_max = RELAY_VERSION_MAX;
    hello.space = (char *)(uintptr_t) "default";
    frame.payload = (struct slice){payload, rdzv__relay_hello__pack(&hello, payload)};
    send_bytes(i, (const uint8_t *)RELAY_MAGIC, RELAY_MAGIC_SIZE);
    send_frame(i, &frame);
}

static void leave(int i)
{
    if (links[i] >= 0)
        close(links[i]);
    links[i] = -1;
}

/* --- Steps. --- */

/* The low bits of a step's first byte; the next one is the link, the others are of the kind. */
enum step {
    STEP_REQUEST,      /* a channel, a number, a length, a request */
    STEP_LAST_REQUEST, /* as that; the number is counted down from the last one there is */
    STEP_PART,         /* as the first; with RELAY_MORE */
    STEP_OPEN,         /* a channel, a session, a version */
    STEP_CLOSE,        /* a channel */
    STEP_FRAME,        /* kind, flags, channel, number, a length, a payload */
    STEP_BYTES,        /* a length, bytes that may be anything */
    STEP_ITERATE,
    STEP_LINK,   /* a new link with HELLO */
    STEP_SILENT, /* one without */
    STEP_LEAVE,
    STEPS,
};

static uint8_t take_byte(struct slice *in)
{
    uint8_t byte = in->len == 0 ? 0 : in->ptr[0];

    *in = slice_from(*in, in->len == 0 ? 0 : 1);
    return byte;
}

/* As many as the next byte says, or there are. */
static struct slice take_bytes(struct slice *in)
{
    size_t len = take_byte(in);
    struct slice bytes = {in->ptr, len < in->len ? len : in->len};

    *in = slice_from(*in, bytes.len);
    return bytes;
}

static void send_request(int i, struct slice *in, enum step step)
{
    struct relay_frame frame = {.kind = RELAY_REQUEST};

    frame.flags = step == STEP_PART ? RELAY_MORE : 0;
    frame.channel = take_byte(in) % 8;
    frame.number = take_byte(in);
    if (step == STEP_LAST_REQUEST)
        frame.number = UINT64_MAX - frame.number;
    frame.payload = take_bytes(in);
    send_frame(i, &frame);
}

static void send_open(int i, struct slice *in)
{
    struct relay_frame frame = {.kind = RELAY_OPEN, .channel = take_byte(in) % 8};
    Rdzv__RelayOpen open = RDZV__RELAY_OPEN__INIT;
    uint8_t payload[64], version;

    open.session = take_byte(in) % 4;
    version = take_byte(in) % 8;
    open.c10d_version = version < 4 ? version / 2u : version; /* half of them are no version */
    open.resumes = open.session & 1;
    frame.payload = (struct slice){payload, rdzv__relay_open__pack(&open, payload)};
    send_frame(i, &frame);
}

static void send_any(int i, struct slice *in)
{
    struct relay_frame frame = {.kind = take_byte(in), .flags = take_byte(in)};

    frame.channel = take_byte(in);
    frame.number = take_byte(in);
    frame.payload = take_bytes(in);
    send_frame(i, &frame);
}

static void take_step(struct slice *in)
{
    enum step step = (enum step)(take_byte(in) % STEPS);
    int i = take_byte(in) % LINKS;
    struct slice bytes;

    switch (step) {
    case STEP_REQUEST:
    case STEP_LAST_REQUEST:
    case STEP_PART:
        send_request(i, in, step);
        return;
    case STEP_OPEN:
        send_open(i, in);
        return;
    case STEP_CLOSE:
        send_frame(i, &(struct relay_frame){.kind = RELAY_CLOSE, .channel = take_byte(in) % 8});
        return;
    case STEP_FRAME:
        send_any(i, in);
        return;
    case STEP_BYTES:
        bytes = take_bytes(in);
        send_bytes(i, bytes.ptr, bytes.len);
        return;
    case STEP_ITERATE:
        loop_iterate(&loop);
        if (links[i] >= 0)
            look_in(i);
        return;
    case STEP_LINK:
    case STEP_SILENT:
        leave(i);
        links[i] = loop_connect(&loop, false);
        if (step == STEP_LINK)
            say_hello(i);
        return;
    case STEP_LEAVE:
    case STEPS:
        leave(i);
        return;
    }
}

/* --- The store. --- */

/* The store still serves another client: GET of a missing key. */
static void ask_directly(void)
{
    static const char get[] = "\0\xce\xf7\x85\x3c" /* the handshake */
                              "\3\4\0\0\0\0\0\0\0/not";
    int fd = loop_connect(&loop, false);

    loop_send(&loop, fd, get, sizeof get - 1);
    loop_expect(&loop, fd, "\0\0\0\0\0\0\0\0", 8);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = {data, size};

    loop_open(&loop, NULL);
    for (int i = 0; i < LINKS; i++) {
        links[i] = loop_connect(&loop, false);
        say_hello(i);
    }
    for (int steps = 0; in.len > 0 && steps < 200; steps++)
        take_step(&in);
    ask_directly();
    for (int i = 0; i < LINKS; i++)
        leave(i);
    LOOP_UNTIL(&loop, loop.server.engine.stats.relay_links == 0);
    loop_close(&loop);
    return 0;
}
