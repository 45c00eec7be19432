/* Open watches. See watch_stream.h for the contract. */
#include "rdzv/http/watch_stream.h"

#include <assert.h>

#include "rdzv/engine/log.h"

/* Of a peer's budget, for each event. */
#define EVENT_COST 128u

/* A watch with so many unread bytes and events ends; etcd's does after a hundred events. */
#define BEHIND_BYTES  (1u << 20)
#define BEHIND_EVENTS 100u

void watch_stream_open(struct watch_stream *s, const struct http_request *r, struct watch *watch,
                       uint64_t index)
{
    assert(s->watch == NULL);
    s->watch = watch;
    engine_use_began(r->http->engine);
    s->chunked = reply_begin_stream(
        r, &(struct reply){
               .status = 200, .content_type = HTTP_JSON, .etcd = HTTP_ETCD_KEYS, .index = index});
    s->keep_alive = r->head->keep_alive && s->chunked;
}

void watch_stream_close(struct watch_stream *s, struct conn *c)
{
    if (s->watch == NULL)
        return;
    watch_close(&conn_space(c)->store->tree.hub, s->watch);
    s->watch = NULL;
    engine_use_ended(conn_net(c)->engine);
}

void watch_stream_end(struct watch_stream *s, struct conn *c)
{
    watch_stream_close(s, c);
    conn_set_input(c, INPUT_READY);
    reply_stream_end(c, s->chunked);
    if (!s->keep_alive)
        conn_finish(c);
}

static bool watch_stream_is_behind(const struct conn *c, const struct blob *chunk)
{
    return c->output == OUTPUT_BLOCKED && c->out.bytes > BEHIND_BYTES &&
           c->out.bytes / BEHIND_EVENTS > chunk->len;
}

/* The client gets its queued events, and then the end. */
static void watch_stream_lose(struct watch_stream *s, struct conn *c)
{
    subscription_clear(&s->watch->subscription);
    s->watch->subscription.ended = s->watch->subscription.lost = true;
    log_limited(LOG_WARN, "watch_lost", log_str("peer", CONN_PEER(c)),
                log_str("space", conn_space(c)->store->name),
                log_str("reason", "the client reads events too slowly"));
}

void watch_stream_send(struct watch_stream *s, struct conn *c, int max)
{
    struct blob *chunk;

    for (int i = 0; i < max && conn_is_open(c); i++) {
        struct slice json;

        if (!conn_can_push(c) || (chunk = subscription_next(&s->watch->subscription)) == NULL)
            return;
        json = tree_chunk_json(chunk);
        if (watch_stream_is_behind(c, chunk))
            watch_stream_lose(s, c);
        else if (s->chunked)
            conn_share(c, chunk);
        else
            conn_put(c, json.ptr, json.len);
        blob_unref(chunk);
        conn_charge(c, EVENT_COST);
    }
}
