/* Server-sent events. See event_stream.h for the contract. */
#include "rdzv/admin/event_stream.h"

/* --- Events. --- */

size_t event_head_len(const char *name)
{
    return strlen("event: ") + strlen(name) + strlen("\ndata: ");
}

struct blob *event_make(const char *name, struct slice data)
{
    struct blob *b = blob_alloc(ACCOUNT_WATCHES, event_head_len(name) + data.len + 2);
    struct writer w;

    if (b == NULL)
        return NULL;
    w = (struct writer){.ptr = b->bytes, .cap = b->len};
    writer_str(&w, "event: ");
    writer_str(&w, name);
    writer_str(&w, "\ndata: ");
    writer_slice(&w, data);
    writer_str(&w, "\n\n");
    return b;
}

struct blob *event_make_of_body(const char *name, struct reply_body *body)
{
    struct blob *event = NULL;

    if (reply_body_is_whole(body))
        event = event_make(name, (struct slice){body->w.ptr, body->w.len});
    reply_body_drop(body);
    return event;
}

/* --- Clients. --- */

void event_client_send(struct event_client *client, struct blob *event)
{
    if (conn_is_open(client->conn)) /* else the stream has ended, and its end may still be queued */
        reply_stream_put(client->conn, client->chunked, event, blob_slice(event));
}

static struct event_client *client_of_job(struct http_job *job)
{
    return (struct event_client *)(void *)job; /* its first member */
}

/* Its client sends no more, or the daemon stops: ends the stream as a whole reply ends, so that the
 * client knows that nothing was lost on the way. */
static void event_client_end(struct http_job *job)
{
    struct event_client *client = client_of_job(job);

    if (conn_is_open(client->conn))
        reply_stream_end(client->conn, client->chunked);
    conn_finish(client->conn);
}

static void event_client_leave(struct http_job *job)
{
    struct event_client *client = client_of_job(job);
    struct event_stream *s = client->stream;

    TAILQ_REMOVE(&s->clients, client, entry);
    s->client_count--;
    event_client_free(client);
    if (TAILQ_EMPTY(&s->clients) && !s->is_at_work)
        s->calls->idle(s);
}

static void event_client_drained(struct http_job *job)
{
    struct event_client *client = client_of_job(job);

    if (client->stream->calls->drained != NULL)
        client->stream->calls->drained(client);
}

/* No event wakes this job: the stream itself sends all of its events. */
static enum http_job_state event_client_wait(struct http_job *, const struct http_request *)
{
    return HTTP_JOB_WAITS;
}

struct event_client *event_client_new(void)
{
    struct event_client *client =
        account_request_zeroed(ACCOUNT_WATCHES, ACCOUNT_SMALL, sizeof *client);

    if (client != NULL)
        client->job = (struct http_job){.run = event_client_wait,
                                        .free = event_client_leave,
                                        .eof = event_client_end,
                                        .stop = event_client_end,
                                        .drained = event_client_drained,
                                        .endless = true,
                                        .no_use = true};
    return client;
}

void event_client_free(struct event_client *client)
{
    account_free(ACCOUNT_WATCHES, client, sizeof *client);
}

/* --- Streams. --- */

static void event_stream_on_timer(evutil_socket_t, short, void *arg)
{
    struct event_stream *s = arg;

    s->is_at_work = true;
    s->calls->tick(s);
    if (!TAILQ_EMPTY(&s->clients) && !event_stream_arm(s))
        event_stream_end_replies(s);
    s->is_at_work = false;
    if (TAILQ_EMPTY(&s->clients))
        s->calls->idle(s);
}

void event_stream_init(struct event_stream *s, struct net *net,
                       const struct event_stream_calls *calls)
{
    *s = (struct event_stream){.calls = calls, .net = net};
    TAILQ_INIT(&s->clients);
    evtimer_assign(&s->timer, net->base, event_stream_on_timer, s);
}

bool event_stream_arm(struct event_stream *s)
{
    return net_set_timer(&s->timer, s->calls->wait_ms(s) * 1000);
}

void event_stream_join(struct event_stream *s, struct event_client *client,
                       const struct http_request *r)
{
    client->stream = s;
    client->conn = r->conn;
    client->chunked = reply_begin_stream(
        r, &(struct reply){.status = 200, .content_type = "text/event-stream", .no_store = true});
    TAILQ_INSERT_TAIL(&s->clients, client, entry);
    s->client_count++;
    http_start_job(r, &client->job, HTTP_JOB_WAITS);
}

void event_stream_end_replies(struct event_stream *s)
{
    bool was_at_work = s->is_at_work;

    s->is_at_work = true;
    TAILQ_EACH_SAFE(struct event_client, client, &s->clients, entry)
        event_client_end(&client->job);
    s->is_at_work = was_at_work;
}
