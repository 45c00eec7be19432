/* A relay's sessions with a scripted link and a scripted store in hand: what the tests of relay.h
 * share. Two modern clients are there from the beginning; requests are words, as "ADD n 1". */
#pragma once

#include "rdzv/relay/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

#define LONG_KEY 5000 /* no key is longer */

/* A client: the bytes that it has received, and its end. */
struct client {
    struct relay_client *session;
    uint8_t got[256u << 10];
    size_t len;
    bool goes_on, ended;
    char why[256];
};

struct scene {
    struct relay relay;
    struct outq out;
    struct out_pool pool;
    struct client a, b;
    bool store_keeps_nothing; /* it knows no RELAY_SAME */
    int link[2];
    uint8_t bytes[512u << 10];
    size_t len; /* of the bytes that the relay sent to the link and the test has not read yet */
};

int set_up(void **state);
int tear_down(void **state);

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* --- Clients. --- */

/* One more; whoever makes it ends it. */
struct relay_client *session_new(struct scene *s, enum c10d_version version, struct client *c);

/* A text behind its length; how many bytes. */
size_t put_text(uint8_t *at, const char *text);

/* The client has gone. */
void leave(struct client *c);

/* A whole request; see relay_take(). */
enum relay_taken take_bytes(struct scene *s, struct client *c, const uint8_t *bytes, size_t len);

/* Of the modern version. */
enum relay_taken take(struct scene *s, struct client *c, const char *what);

/* The bytes of a SET of `len` bytes; the caller frees them. */
uint8_t *large_set(size_t len);

/* These are all that the client was answered since it was asked last. */
void got(struct client *c, const void *bytes, size_t len);

#define GOT(c, text)   got(c, text, sizeof(text) - 1)
#define GOT_NOTHING(c) assert_int_equal((c)->len, 0)

/* --- What the link is given. --- */

void flush(struct scene *s);

/* False: nothing. `payload` has RELAY_PAYLOAD_MAX bytes, and the frame refers to it. */
bool next_frame(struct scene *s, struct relay_frame *frame, uint8_t *payload);

void no_frame(struct scene *s);

/* The next frame opens a session; its channel. */
uint32_t opened(struct scene *s, bool resumes);

/* The next frame is this request, whole. */
void sent(struct scene *s, uint32_t channel, uint64_t number, const char *what);

/* A client's first request, with which the session is opened; its channel. */
uint32_t begins(struct scene *s, struct client *c, const char *what);

/* The next frame is CLOSE. */
void closed(struct scene *s, uint32_t channel);

/* --- What the store says. --- */

void store_says(struct scene *s, uint8_t kind, uint8_t flags, uint32_t channel, uint64_t number,
                const void *payload, size_t len);

#define ANSWER(s, channel, number, text) \
    store_says(s, RELAY_ANSWER, 0, channel, number, text, sizeof(text) - 1)
#define DONE(s, channel, number) store_says(s, RELAY_DONE, 0, channel, number, NULL, 0)
#define OPENED(s, flags, channel, number, text) \
    store_says(s, RELAY_OPENED, flags, channel, number, text, sizeof(text) - 1)

void link_up(struct scene *s);

/* It has taken a second. */
void link_down(struct scene *s);

/* There is a link again, and the first client's session, whose channel this returns, is opened in
 * it by a store that has carried out nothing of it. */
uint32_t link_again(struct scene *s);
