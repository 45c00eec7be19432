/* Server-sent events. See event_stream.h for the contract. An event is kept as it is sent: as a
 * chunk, which clients of HTTP/1.0 get without its frame. */
#include "rdzv/admin/event_stream.h"

#include <stdio.h>

#define CHUNK_HEAD 10 /* "0000002a" in hexadecimal, and the end of that line */
#define CHUNK_END  2

size_t event_head_len(const char *name)
{
    return CHUNK_HEAD + strlen("event: ") + strlen(name) + strlen("\ndata: ");
}

struct blob *event_make(const char *name, struct slice data)
{
    size_t len = event_head_len(name) - CHUNK_HEAD + data.len + 2;
    struct blob *b = blob_alloc(ACCOUNT_WATCHES, CHUNK_HEAD + len + CHUNK_END);
    struct writer w;
    char head[CHUNK_HEAD + 1];

    if (b == NULL)
        return NULL;
    w = (struct writer){.ptr = b->bytes, .cap = b->len};
    snprintf(head, sizeof head, "%08zx\r\n", len);
    writer_str(&w, head);
    writer_str(&w, "event: ");
    writer_str(&w, name);
    writer_str(&w, "\ndata: ");
    writer_slice(&w, data);
    writer_str(&w, "\n\n\r\n");
    return b;
}

void event_send(struct conn *c, bool chunked, struct blob *event)
{
    if (!conn_is_open(c))
        return; /* the stream has ended, and its end may still be queued */
    if (chunked)
        conn_share(c, event);
    else
        conn_put(c, event->bytes + CHUNK_HEAD, event->len - CHUNK_HEAD - CHUNK_END);
}

void event_end(struct conn *c, bool chunked)
{
    if (chunked && conn_is_open(c))
        conn_put(c, "0\r\n\r\n", 5);
    conn_finish(c);
}
