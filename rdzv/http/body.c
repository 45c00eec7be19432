/* Bodies that grow. See body.h for the contract. */
#include "rdzv/http/body.h"

#include <stdlib.h>
#include <string.h>

/* To at least `len` bytes, and to twice what it was. */
static void grow(struct writer *w, size_t len)
{
    struct reply_body *b = (struct reply_body *)w; /* its first member */
    size_t cap = 2 * w->cap > len ? 2 * w->cap : len;
    struct blob *wider = len > b->max ? NULL : realloc(b->blob, sizeof *wider + cap);

    if (wider == NULL) {
        w->grow = NULL;
        return;
    }
    if (b->blob == NULL) {
        *wider = (struct blob){.refs = 1};
        memcpy(wider->bytes, b->small, w->len);
    }
    b->blob = wider;
    w->ptr = wider->bytes;
    w->cap = cap;
}

void reply_body_begin(struct reply_body *b)
{
    b->w = (struct writer){.ptr = b->small, .cap = sizeof b->small, .grow = grow};
    b->blob = NULL;
    b->max = SIZE_MAX;
}

void reply_body_send(const struct http_request *r, const struct reply *reply, struct reply_body *b)
{
    struct reply whole = *reply;

    conn_charge(r->conn, b->w.len);
    if (!reply_body_is_whole(b)) {
        conn_drop(r->conn, DROP_NO_MEMORY, "out of memory", r->path);
    } else if (b->blob == NULL) {
        whole.body = (struct slice){b->small, b->w.len};
        reply_send(r, &whole);
    } else {
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
