/* Clients of librdzv: the queue of requests, deadlines, and what an event loop calls. See
 * rdzv_client.h for the contracts. */
#include "client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_MS 30000
#define DEFAULT_REPLY_MAX  (64u << 20)
#define PREFIX_MAX         4096
#define TORCH_PREFIX       "/"
#define PIECES             32 /* requests of one sendmsg() */

static int64_t client_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

const char *rdzv_version(void)
{
    return RDZV_VERSION;
}

const char *rdzv_status_name(enum rdzv_status status)
{
    static const char *const names[] = {
        [RDZV_OK] = "ok",
        [RDZV_ABSENT] = "absent",
        [RDZV_TIMEOUT] = "timeout",
        [RDZV_CANCELED] = "canceled",
        [RDZV_UNREACHABLE] = "unreachable",
        [RDZV_LOST] = "connection lost",
        [RDZV_PROTOCOL] = "not a c10d store",
        [RDZV_INVALID] = "invalid request",
        [RDZV_NO_MEMORY] = "out of memory",
        [RDZV_TLS] = "no TLS",
    };

    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "?";
}

static struct rdzv_client *client_of_link(struct link *l)
{
    return (struct rdzv_client *)(void *)l; /* its first member */
}

/* --- The timer. --- */

static void client_set_timer(struct rdzv_client *c, int64_t at_ms)
{
    struct itimerspec when = {0};

    c->timer_ms = at_ms;
    if (at_ms != INT64_MAX) {
        when.it_value.tv_sec = at_ms / 1000;
        when.it_value.tv_nsec = at_ms % 1000 * 1000000 + 1; /* 0 and 0 would switch it off */
    }
    timerfd_settime(c->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static bool open_descriptors(struct rdzv_client *c)
{
    struct epoll_event on = {.events = EPOLLIN};

    c->link.epoll = epoll_create1(EPOLL_CLOEXEC);
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    on.data.fd = c->timer;
    return c->link.epoll >= 0 && c->timer >= 0 &&
           epoll_ctl(c->link.epoll, EPOLL_CTL_ADD, c->timer, &on) == 0;
}

/* Takes a request out of the queue, after its answer, or before its first byte is sent. */
static void client_dequeue(struct rdzv_client *c, struct rdzv_request *r)
{
    if (c->unsent == r)
        c->unsent = TAILQ_NEXT(r, entry);
    TAILQ_REMOVE(&c->queue, r, entry);
    r->queued = false;
    if (r->freed)
        request_delete(r);
}

static void client_notify_later(struct rdzv_client *c, struct rdzv_request *r)
{
    c->has_news = true;
    if (r->done == NULL || r->in_ended)
        return;
    TAILQ_INSERT_TAIL(&c->ended, r, ended_entry);
    r->in_ended = true;
}

/* Does not touch `c` if the request waits for no notice: the client may be freed already. */
static void client_drop_notice(struct rdzv_client *c, struct rdzv_request *r)
{
    if (r->in_ended)
        TAILQ_REMOVE(&c->ended, r, ended_entry);
    r->in_ended = false;
}

static void client_end_request(struct rdzv_client *c, struct rdzv_request *r,
                               enum rdzv_status status, const char *why)
{
    request_end(r, status, why);
    client_notify_later(c, r);
}

void rdzv_client_free(struct rdzv_client *c)
{
    struct rdzv_request *r;

    if (c == NULL)
        return;
    rdzv_request_free(c->last);
    link_close(&c->link);
    while ((r = TAILQ_FIRST(&c->queue)) != NULL) {
        if (!r->has_ended)
            request_end(r, RDZV_CANCELED, "the client was closed");
        client_drop_notice(c, r);
        client_dequeue(c, r);
    }
    while ((r = TAILQ_FIRST(&c->ended)) != NULL)
        client_drop_notice(c, r);
    if (c->timer >= 0)
        close(c->timer);
    if (c->link.epoll >= 0)
        close(c->link.epoll);
    free(c->name);
    free(c->prefix);
    secure_fini(&c->link.secure);
    free(c);
}

const char *rdzv_client_address(const struct rdzv_client *c)
{
    return c->name;
}

const char *rdzv_client_tls(const struct rdzv_client *c)
{
    return c->link.tls_text[0] != '\0' ? c->link.tls_text : NULL;
}

int rdzv_client_fd(const struct rdzv_client *c)
{
    return c->link.epoll;
}

/* --- Sending and receiving. --- */

static void client_lost(struct link *l, enum rdzv_status sent, enum rdzv_status unsent,
                        const char *why)
{
    struct rdzv_client *c = client_of_link(l);
    struct rdzv_request *r;

    link_close(l);
    while ((r = TAILQ_FIRST(&c->queue)) != NULL) {
        if (!r->has_ended)
            client_end_request(c, r, r->sent > 0 ? sent : unsent, why);
        client_dequeue(c, r);
    }
}

/* Takes bytes from the first unsent request up to one that holds back later ones. */
static size_t client_gather(struct rdzv_client *c, struct iovec pieces[PIECES])
{
    size_t n = 0;

    for (struct rdzv_request *r = c->unsent; r != NULL && n < PIECES; r = TAILQ_NEXT(r, entry)) {
        if (r->sent < r->send_to)
            pieces[n++] = (struct iovec){r->out + r->sent, r->send_to - r->sent};
        if (request_holds_others(r))
            break;
    }
    return n;
}

static void note_sent(struct rdzv_client *c, size_t bytes)
{
    struct rdzv_request *r = c->unsent;

    while (r != NULL) {
        size_t left = r->send_to - r->sent;

        if (bytes < left || request_holds_others(r)) {
            r->sent += bytes < left ? bytes : left;
            break;
        }
        r->sent += left;
        bytes -= left;
        r = TAILQ_NEXT(r, entry);
    }
    c->unsent = r;
}

static void client_send(struct link *l)
{
    struct rdzv_client *c = client_of_link(l);

    while (l->state == LINK_UP) {
        struct iovec pieces[PIECES];
        size_t count = client_gather(c, pieces);
        ssize_t n;

        if (count == 0 && !link_owes(l)) {
            link_want_out(l, false);
            return;
        }
        n = link_send(l, pieces, count);
        if (n >= 0) {
            note_sent(c, (size_t)n);
        } else if (errno != EINTR) {
            /* Of any other error than EAGAIN: what came before it is read first. */
            link_want_out(l, errno == EAGAIN);
            return;
        }
    }
}

static void client_take_answers(struct link *l)
{
    struct rdzv_client *c = client_of_link(l);
    size_t at = 0;

    l->in_need = 0;
    while (at < l->in_len) {
        struct rdzv_request *r = TAILQ_FIRST(&c->queue);
        size_t used = 0, size = 0;
        enum request_answer a = REQUEST_WRONG;
        bool had_ended = r != NULL && r->has_ended; /* without waiting for this */

        if (r != NULL && r->sent > 0)
            a = request_take(r, (struct slice){l->in + at, l->in_len - at}, &c->link.limits, &used,
                             &size);
        if (a == REQUEST_WRONG) {
            client_lost(l, RDZV_PROTOCOL, RDZV_UNREACHABLE, "the store sent what is no answer");
            return;
        }
        if (a == REQUEST_MORE) {
            l->in_need = size;
            break;
        }
        at += used;
        if (a == REQUEST_ANSWERED) {
            if (!had_ended)
                client_notify_later(c, r);
            client_dequeue(c, r);
        }
    }
    if (at > 0)
        memmove(l->in, l->in + at, l->in_len - at);
    l->in_len -= at;
    client_send(l); /* the second part of a GET, and what it held back */
}

enum rdzv_status rdzv_client_new(const char *address, const struct rdzv_options *options,
                                 struct rdzv_client **out)
{
    static const struct link_calls calls = {
        .lost = client_lost, .arrived = client_take_answers, .can_send = client_send};
    static const struct rdzv_options none = {0};
    const struct rdzv_options *o = options != NULL ? options : &none;
    const char *prefix = o->key_prefix != NULL ? o->key_prefix : TORCH_PREFIX;
    enum rdzv_status status;
    struct address where;
    struct rdzv_client *c;

    if (!address_parse(address, &where) || strlen(prefix) > PREFIX_MAX)
        return RDZV_INVALID;
    c = calloc(1, sizeof *c);
    if (c == NULL)
        return RDZV_NO_MEMORY;
    TAILQ_INIT(&c->queue);
    TAILQ_INIT(&c->ended);
    c->link.calls = &calls;
    c->link.address = where;
    c->link.fd = c->link.lookup_fd = c->link.epoll = c->timer = -1;
    c->timer_ms = INT64_MAX;
    c->timeout_ms = o->timeout_ms != 0 ? o->timeout_ms : DEFAULT_TIMEOUT_MS;
    c->link.limits.reply_max = o->reply_max != 0 ? o->reply_max : DEFAULT_REPLY_MAX;
    c->link.limits.value_max = c->link.limits.reply_max;
    c->last_message = "";
    c->name = strdup(address);
    c->prefix = strdup(prefix);
    status = secure_init(&c->link.secure, o->tls);
    if (status == RDZV_OK && (c->name == NULL || c->prefix == NULL || !open_descriptors(c)))
        status = RDZV_NO_MEMORY;
    if (status != RDZV_OK) {
        rdzv_client_free(c);
        return status;
    }
    *out = c;
    return RDZV_OK;
}

/* --- Requests. --- */

static const char *describe_timeout(const struct rdzv_client *c, const struct rdzv_request *r,
                                    char *text, size_t size)
{
    double s = (double)r->timeout_ms / 1000;

    if (c->link.state == LINK_LOOKING_UP)
        snprintf(text, size, "its host name was not found within %.3g s; is DNS there?", s);
    else if (c->link.state == LINK_CONNECTING)
        snprintf(text, size,
                 "no connection within %.3g s; does a firewall or a NetworkPolicy drop it?", s);
    else if (c->link.state == LINK_SECURING)
        snprintf(text, size, "no TLS within %.3g s; does the store speak TLS there?", s);
    else if (c->link.state != LINK_UP)
        snprintf(text, size,
                 "no greeting within %.3g s; is the store stopped or overloaded, or is it the port "
                 "of another service?",
                 s);
    else if (r->sent == 0)
        snprintf(text, size, "not sent within %.3g s: earlier requests hold it back", s);
    else if (r->kind == RDZV_WAIT)
        snprintf(text, size, "%s there within %.3g s",
                 r->count > 1 ? "they were not all" : "the key was not", s);
    else if (r->kind == RDZV_BARRIER)
        snprintf(text, size, "not all had arrived within %.3g s", s);
    else
        snprintf(text, size, "no answer within %.3g s; is the store stopped or overloaded?", s);
    return text;
}

/* The request has ended before its answer came. */
static void client_abandon(struct rdzv_client *c, struct rdzv_request *r)
{
    if (r->sent == 0)
        client_dequeue(c, r);
    else if (r->parts[1].op == C10D_CANCEL_WAIT)
        r->send_to = r->parts[1].end; /* the store must stop waiting */
}

static void client_expire(struct rdzv_client *c)
{
    int64_t now = client_now_ms(), next = INT64_MAX;
    char why[160];

    TAILQ_EACH_SAFE(struct rdzv_request, r, &c->queue, entry) {
        if (r->has_ended)
            continue;
        if (r->deadline_ms <= now) {
            client_end_request(c, r, RDZV_TIMEOUT, describe_timeout(c, r, why, sizeof why));
            client_abandon(c, r);
        } else if (r->deadline_ms < next) {
            next = r->deadline_ms;
        }
    }
    client_set_timer(c, next);
    client_send(&c->link);
}

static void client_continue(struct rdzv_client *c)
{
    if (c->link.state == LINK_DOWN && !TAILQ_EMPTY(&c->queue))
        link_start(&c->link);
    else
        client_send(&c->link);
    if (c->has_news)
        client_set_timer(c, 0);
}

enum rdzv_status rdzv_submit(struct rdzv_client *c, const struct rdzv_op *op,
                             struct rdzv_request **out)
{
    struct rdzv_request *r;
    enum rdzv_status status = request_new(op, c->prefix, c->name, &r);

    if (status != RDZV_OK)
        return status;
    r->client = c;
    r->timeout_ms = op->timeout_ms != 0 ? op->timeout_ms : c->timeout_ms;
    r->deadline_ms = INT64_MAX;
    if (r->timeout_ms >= 0 && r->timeout_ms < INT64_MAX / 2)
        r->deadline_ms = client_now_ms() + r->timeout_ms;
    TAILQ_INSERT_TAIL(&c->queue, r, entry);
    r->queued = true;
    if (c->unsent == NULL)
        c->unsent = r;
    if (r->deadline_ms < c->timer_ms)
        client_set_timer(c, r->deadline_ms);
    client_continue(c);
    *out = r;
    return RDZV_OK;
}

const struct rdzv_result *rdzv_request_result(const struct rdzv_request *r)
{
    return r->has_ended ? &r->result : NULL;
}

void rdzv_request_cancel(struct rdzv_request *r)
{
    if (r->has_ended) {
        client_drop_notice(r->client, r);
        return;
    }
    request_end(r, RDZV_CANCELED, "it was canceled");
    client_abandon(r->client, r);
    client_send(&r->client->link);
}

void rdzv_request_free(struct rdzv_request *r)
{
    if (r == NULL)
        return;
    rdzv_request_cancel(r);
    if (r->queued)
        r->freed = true; /* until its answer has come */
    else
        request_delete(r);
}

/* --- The loop. --- */

static void client_on_event(struct rdzv_client *c, const struct epoll_event *e)
{
    uint64_t times;

    if (e->data.fd == c->timer) {
        if (read(c->timer, &times, sizeof times) == sizeof times)
            client_expire(c);
    } else if (e->data.fd == c->link.lookup_fd) {
        link_on_lookup(&c->link);
    } else if (e->data.fd == c->link.fd) {
        link_on_socket(&c->link, e->events);
    }
}

void rdzv_client_process(struct rdzv_client *c)
{
    struct epoll_event events[3];
    struct rdzv_request *r;
    int n = epoll_wait(c->link.epoll, events, 3, 0);

    for (int i = 0; i < n; i++)
        client_on_event(c, &events[i]);
    c->has_news = false;
    while ((r = TAILQ_FIRST(&c->ended)) != NULL) {
        client_drop_notice(c, r);
        r->done(r, &r->result, r->arg);
    }
    client_continue(c);
}
