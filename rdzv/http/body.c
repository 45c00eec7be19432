/* Bodies that grow. See body.h for the contract. */
#include "rdzv/http/body.h"

#include <stdlib.h>

#define FIRST_ROOM 512u

static void grow(struct writer *w, size_t len)
{
    struct reply_body *b = (struct reply_body *)w; /* its first member */
    size_t cap = w->cap < FIRST_ROOM / 2 ? FIRST_ROOM : 2 * w->cap;
    struct blob *wider;

    if (cap < len)
        cap = len;
    wider = len > b->max ? NULL : realloc(b->blob, sizeof *wider + cap);
    if (wider == NULL) {
        w->grow = NULL;
        return;
    }
    if (b->blob == NULL)
        *wider = (struct blob){.refs = 1};
    b->blob = wider;
    w->ptr = wider->bytes;
    w->cap = cap;
}

void reply_body_begin(struct reply_body *b)
{
    *b = (struct reply_body){.w = {.grow = grow}, .max = SIZE_MAX};
}

void reply_body_send(const struct http_request *r, const struct reply *reply, struct reply_body *b)
{
    struct reply whole = *reply;

    conn_charge(r->conn, b->w.len);
    if (!reply_body_is_whole(b)) {
        conn_drop(r->conn, DROP_NO_MEMORY, "out of memory", r->path);
    } else {
        if (b->blob != NULL)
            b->blob->len = b->w.len;
        whole.shared = b->blob;
        reply_send(r, &whole);
    }
    reply_body_drop(b);
}

void reply_body_drop(struct reply_body *b)
{
    blob_unref(b->blob);
    b->blob = NULL;
}
