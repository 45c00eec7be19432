/* See relay_web.h. */
#include "tests/sim/relay_web.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRITERS 2
#define POSTS   12 /* of each */
#define POLLER  WRITERS
#define IN_MAX  16384
#define OUT_MAX 512

enum asked { ASKED_NOTHING, ASKED_POST, ASKED_GET, ASKED_ALL, ASKED_POLL, ASKED_STREAM };

enum fate { NOT_SENT, OPEN, MADE, IN_DOUBT, REFUSED };

struct event {
    uint64_t after; /* a watch: nothing is between this and the event */
    uint64_t index;
    unsigned writer, number;
};

struct events {
    struct event items[WRITERS * POSTS];
    size_t count;
};

/* An answer, as far as it is here. */
struct answer {
    bool has_head, chunked;
    unsigned status;
    size_t left; /* of the body, or of the chunk and its end */
    char body[IN_MAX];
    size_t len;
};

static struct web {
    int home, fd; /* -1: none */
    enum asked asked;
    bool is_over; /* a stream: the store has said that it ends */
    unsigned posts;
    uint64_t last; /* index: of the last key that it has made; of the last event, or 0 */
    struct answer answer;
    struct events events;
    size_t out_len, in_len;
    char out[OUT_MAX], in[IN_MAX];
} webs[WEBS];

static struct {
    enum fate fate;
    uint64_t index;
} posts[WRITERS][POSTS];

static struct events all; /* that the audit has read */
static bool has_all;

static void tell(const struct web *w, const char *what)
{
    static const char *const names[] = {"nothing",   "POST",   "GET",
                                        "GET (all)", "a poll", "a stream"};

    if (world_tells)
        fprintf(stderr, "%" PRIu64 " %.6f web %d of %d %s %s, last %" PRIu64 "\n", world_step,
                (double)world_now_ns / 1e9, (int)(w - webs), w->home, what, names[w->asked],
                w->last);
}

void web_reset(void)
{
    memset(webs, 0, sizeof webs);
    memset(posts, 0, sizeof posts);
    all.count = 0;
    has_all = false;
    for (unsigned i = 0; i < WEBS; i++) {
        webs[i].fd = -1;
        webs[i].home = i < WRITERS ? RELAY_A + (int)i : chance(4) ? STORE : RELAY_A + (int)draw(2);
    }
}

int web_home(unsigned i)
{
    return webs[i].home;
}

static unsigned number_of(const struct web *w)
{
    return (unsigned)(w - webs);
}

/* --- Asking. --- */

static void ask(struct web *w, enum asked asked)
{
    const char *format = "GET /v2/keys/log?recursive=true&sorted=true";
    char body[16] = "", line[160];

    w->asked = asked;
    w->answer = (struct answer){0};
    if (asked == ASKED_POST) {
        snprintf(body, sizeof body, "value=%u.%u", number_of(w), w->posts);
        posts[number_of(w)][w->posts++].fate = OPEN;
        format = "POST /v2/keys/log";
    } else if (asked == ASKED_POLL) {
        format = "GET /v2/keys/log?recursive=true&wait=true&waitIndex=%" PRIu64;
    } else if (asked == ASKED_STREAM) {
        format = "GET /v2/keys/log?recursive=true&wait=true&stream=true";
    } else if (asked == ASKED_GET) {
        format = "GET /v2/keys/log/%020" PRIu64;
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    snprintf(line, sizeof line, format, asked == ASKED_POLL ? w->last + 1 : w->last);
#pragma GCC diagnostic pop
    w->out_len = (size_t)snprintf(w->out, OUT_MAX,
                                  "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                  "application/x-www-form-urlencoded\r\nContent-Length: "
                                  "%zu\r\n\r\n%s",
                                  line, strlen(body), body);
    tell(w, "asks for");
}

static void ask_something(struct web *w)
{
    unsigned i = number_of(w);

    if (i == POLLER)
        ask(w, ASKED_POLL);
    else if (i > POLLER)
        ask(w, ASKED_STREAM);
    else if (w->last != 0 && chance(3))
        ask(w, ASKED_GET);
    else if (w->posts < POSTS)
        ask(w, ASKED_POST);
}

/* --- Reading JSON of which the form is known. --- */

static uint64_t member(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    if (at == NULL)
        world_fail("no %s in %s", name, text);
    return strtoull(at + strlen(name), NULL, 10);
}

static struct event read_node(const char *text)
{
    struct event e = {.index = member(text, "\"modifiedIndex\":")};
    const char *value = strstr(text, "\"value\":\"");

    if (value == NULL || sscanf(value + 9, "%u.%u\"", &e.writer, &e.number) != 2 ||
        e.writer >= WRITERS || e.number >= POSTS)
        world_fail("a key that nobody has made: %s", text);
    if (member(text, "/log/") != e.index)
        world_fail("a key has another index: %s", text);
    return e;
}

static void note(struct events *to, struct event e)
{
    for (size_t i = 0; i < to->count; i++) {
        if (to->items[i].writer == e.writer && to->items[i].number == e.number)
            world_fail("key %u.%u is there twice", e.writer, e.number);
        if (to->items[i].index >= e.index)
            world_fail("index %" PRIu64 " comes behind %" PRIu64, e.index, to->items[i].index);
    }
    to->items[to->count++] = e;
}

/* --- Answers. --- */

static void take_post(struct web *w)
{
    unsigned number = w->posts - 1;
    struct event e;

    if (w->answer.status >= 500) {
        posts[number_of(w)][number].fate = REFUSED;
        return;
    }
    if (w->answer.status != 201)
        world_fail("a POST is answered %u: %s", w->answer.status, w->answer.body);
    e = read_node(w->answer.body);
    if (e.writer != number_of(w) || e.number != number || e.index <= w->last)
        world_fail("POST %u.%u, behind %" PRIu64 ", is answered %s", number_of(w), number, w->last,
                   w->answer.body);
    posts[e.writer][e.number].fate = MADE;
    posts[e.writer][e.number].index = w->last = e.index;
}

static void take_get(const struct web *w)
{
    struct event e;

    if (w->answer.status >= 500)
        return;
    if (w->answer.status != 200)
        world_fail("what was made is answered %u: %s", w->answer.status, w->answer.body);
    e = read_node(w->answer.body);
    if (e.index != w->last || posts[e.writer][e.number].index != e.index)
        world_fail("key %" PRIu64 " is %s", w->last, w->answer.body);
}

static void take_all(const struct web *w)
{
    const char *at = w->answer.body;

    if (w->answer.status >= 500)
        return;
    all.count = 0;
    has_all = true;
    while (w->answer.status == 200 && (at = strstr(at, "\"key\":\"/log/")) != NULL)
        note(&all, read_node(at++));
}

/* Whole lines are events. */
static void take_events(struct web *w)
{
    struct answer *a = &w->answer;
    char *end;

    while ((end = memchr(a->body, '\n', a->len)) != NULL) {
        struct event e;

        *end = '\0';
        tell(w, "hears of");
        e = read_node(a->body);
        e.after = w->last;
        if (e.index <= w->last)
            world_fail("a watch behind %" PRIu64 " is told %s", w->last, a->body);
        if (posts[e.writer][e.number].fate == NOT_SENT)
            world_fail("a watch is told %s", a->body);
        w->last = e.index;
        note(&w->events, e);
        a->len -= (size_t)(end + 1 - a->body);
        memmove(a->body, end + 1, a->len + 1);
    }
}

static void take_answer(struct web *w)
{
    tell(w, "is answered");
    if (w->asked == ASKED_POST)
        take_post(w);
    else if (w->asked == ASKED_GET)
        take_get(w);
    else if (w->asked == ASKED_ALL)
        take_all(w);
    w->is_over = w->asked == ASKED_STREAM && w->answer.status < 500;
    w->asked = ASKED_NOTHING;
}

/* --- Bytes. --- */

static void consume(struct web *w, size_t n)
{
    w->in_len -= n;
    memmove(w->in, w->in + n, w->in_len + 1);
}

static bool take_head(struct web *w)
{
    struct answer *a = &w->answer;
    char *end = strstr(w->in, "\r\n\r\n");

    if (end == NULL)
        return false;
    *end = '\0';
    if (w->asked == ASKED_NOTHING || sscanf(w->in, "HTTP/1.1 %u ", &a->status) != 1)
        world_fail("web %u is told %s", number_of(w), w->in);
    a->has_head = true;
    a->chunked = strstr(w->in, "Transfer-Encoding: chunked") != NULL;
    a->left = a->chunked ? 0 : member(w->in, "Content-Length: ");
    if (w->asked == ASKED_STREAM && a->status == 200)
        w->last = member(w->in, "X-Etcd-Index: "); /* from now on */
    consume(w, (size_t)(end + 4 - w->in));
    return true;
}

static bool take_body(struct web *w)
{
    struct answer *a = &w->answer;
    size_t n = a->left < w->in_len ? a->left : w->in_len;

    if (a->len + n >= IN_MAX)
        world_fail("an answer is too long");
    memcpy(a->body + a->len, w->in, n);
    a->len += n;
    a->body[a->len] = '\0';
    a->left -= n;
    consume(w, n);
    if (a->chunked && a->status == 200)
        take_events(w);
    return n > 0;
}

/* A chunk ends with a line, and the next begins with one. True: the last one is over. */
static bool next_chunk(struct web *w, bool *is_last)
{
    char *end = w->in_len > 2 ? strstr(w->in + (w->in[0] == '\r' ? 2 : 0), "\r\n") : NULL;

    *is_last = false;
    if (end == NULL)
        return false;
    w->answer.left = strtoul(w->in + (w->in[0] == '\r' ? 2 : 0), NULL, 16);
    *is_last = w->answer.left == 0;
    if (*is_last && w->in_len < (size_t)(end + 4 - w->in))
        return *is_last = false;
    consume(w, (size_t)(end - w->in) + (*is_last ? 4 : 2));
    return true;
}

static bool digest(struct web *w)
{
    struct answer *a = &w->answer;
    bool is_last = false;

    if (w->asked == ASKED_NOTHING && w->in_len > 0)
        world_fail("web %u gets an answer to nothing", number_of(w));
    if (w->asked == ASKED_NOTHING || (!a->has_head && !take_head(w)))
        return false;
    if (a->left > 0)
        return take_body(w);
    if (a->chunked && !next_chunk(w, &is_last))
        return false;
    if (a->chunked && !is_last)
        return true;
    take_answer(w);
    return true;
}

/* --- Steps. --- */

/* Whether it was carried out, nobody knows. */
static void hang_up(struct web *w, bool reset)
{
    if (w->asked == ASKED_POST)
        posts[number_of(w)][w->posts - 1].fate = IN_DOUBT;
    w->asked = ASKED_NOTHING;
    w->answer = (struct answer){0};
    w->out_len = w->in_len = 0;
    w->in[0] = '\0';
    net_sim_leave(w->fd, reset);
    w->fd = -1;
}

void web_leave(unsigned i)
{
    if (webs[i].fd >= 0)
        hang_up(&webs[i], chance(2));
}

static bool receive(struct web *w, bool *ended)
{
    ssize_t n = net_sim_recv(w->fd, w->in + w->in_len, IN_MAX - 1 - w->in_len);

    *ended = n < 0;
    if (n <= 0)
        return false;
    w->in_len += (size_t)n;
    w->in[w->in_len] = '\0';
    return true;
}

static bool flush(struct web *w)
{
    size_t n = w->out_len == 0 ? 0 : net_sim_send(w->fd, w->out, w->out_len);

    w->out_len -= n;
    memmove(w->out, w->out + n, w->out_len);
    return n > 0;
}

enum web_news web_step(unsigned i, bool asks)
{
    struct web *w = &webs[i];
    bool moved, ended, answering;

    if (w->fd < 0) {
        w->fd = chance(4) ? net_sim_dial(w->home) : -1;
        return w->fd < 0 ? WEB_NOTHING : WEB_MOVED;
    }
    moved = receive(w, &ended);
    while (!w->is_over && digest(w))
        moved = true;
    if (w->is_over) {
        w->is_over = false;
        return WEB_ENDED;
    }
    if (ended) {
        tell(w, "is ended at");
        answering = w->asked != ASKED_NOTHING && w->asked != ASKED_POLL && w->asked != ASKED_STREAM;
        hang_up(w, false);
        return answering ? WEB_MOVED : WEB_ENDED;
    }
    if (w->asked == ASKED_NOTHING && asks && (i >= WRITERS || chance(4))) {
        ask_something(w);
        moved = moved || w->asked != ASKED_NOTHING;
    }
    return flush(w) || moved ? WEB_MOVED : WEB_NOTHING;
}

/* --- The end. --- */

static bool writers_are_done(void)
{
    for (unsigned i = 0; i < WRITERS; i++) {
        if (webs[i].asked != ASKED_NOTHING)
            return false;
    }
    return true;
}

/* True if the watchers have seen the newest key. Unanswered requests may still create keys later.
 */
static bool is_newest(void)
{
    uint64_t newest = all.count == 0 ? 0 : all.items[all.count - 1].index;

    for (unsigned i = POLLER; i < WEBS; i++) {
        const struct events *e = &webs[i].events;

        if (e->count > 0 && e->items[e->count - 1].index > newest)
            return false;
    }
    return true;
}

static const struct event *find(uint64_t index)
{
    for (size_t i = 0; i < all.count; i++) {
        if (all.items[i].index == index)
            return &all.items[i];
    }
    return NULL;
}

static void judge_posts(void)
{
    for (unsigned w = 0; w < WRITERS; w++) {
        for (unsigned n = 0; n < POSTS; n++) {
            const struct event *e = posts[w][n].fate == MADE ? find(posts[w][n].index) : NULL;

            if (posts[w][n].fate == MADE && (e == NULL || e->writer != w || e->number != n))
                world_fail("key %u.%u was made at %" PRIu64 ", and is not there", w, n,
                           posts[w][n].index);
        }
    }
    for (size_t i = 0; i < all.count; i++) {
        const struct event *e = &all.items[i];

        if (posts[e->writer][e->number].fate == REFUSED ||
            posts[e->writer][e->number].fate == NOT_SENT)
            world_fail("key %u.%u is there, and was not made", e->writer, e->number);
    }
}

static void judge_watch(const struct events *events)
{
    for (size_t i = 0; i < events->count; i++) {
        const struct event *e = &events->items[i], *there = find(e->index);

        if (there == NULL || there->writer != e->writer || there->number != e->number)
            world_fail("a watch was told of key %u.%u at %" PRIu64 ", which is not there",
                       e->writer, e->number, e->index);
        for (size_t k = 0; k < all.count; k++) {
            if (all.items[k].index > e->after && all.items[k].index < e->index)
                world_fail("a watch was told of %" PRIu64 " behind %" PRIu64, e->index, e->after);
        }
    }
}

bool web_judge(void)
{
    has_all = has_all && is_newest();
    if (!has_all && webs[0].fd >= 0 && writers_are_done())
        ask(&webs[0], ASKED_ALL);
    if (!has_all || webs[POLLER].events.count < all.count)
        return false;
    judge_posts();
    for (unsigned i = POLLER; i < WEBS; i++)
        judge_watch(&webs[i].events);
    return true;
}
