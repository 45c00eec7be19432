/* Bodies that grow. See body.h for the contract. */
#include "rdzv/http/body.h"

#include "proto/json.h"

#include <string.h>

static struct blob *resize(struct blob *b, size_t cap)
{
    size_t old = b == NULL ? 0 : blob_size(b);

    b = account_resize(ACCOUNT_ANSWERS, account_class_of(cap), b, old, sizeof *b + cap);
    return b == NULL ? NULL : blob_begin(b, ACCOUNT_ANSWERS, cap);
}

/* When there is no room for twice as much, it grows by less, and never by a few bytes each time:
 * each step may copy all that was written, and a body of 10 MB would be copied for every word of
 * it. */
#define GROW_PART 16

/* To at least `len` bytes, and to twice what it was if there is room. */
static void grow(struct writer *w, size_t len)
{
    struct reply_body *b = (struct reply_body *)w; /* its first member */
    size_t cap = 2 * w->cap > len ? 2 * w->cap : len;
    struct blob *wider = resize(b->blob, cap);

    if (wider == NULL)
        wider = resize(b->blob, cap = len + w->cap / GROW_PART);
    if (wider == NULL) {
        w->grow = NULL;
        return;
    }
    if (b->blob == NULL)
        memcpy(wider->bytes, b->small, w->len);
    b->blob = wider;
    w->ptr = wider->bytes;
    w->cap = cap;
}

void reply_body_begin(struct reply_body *b)
{
    b->w = (struct writer){.ptr = b->small, .cap = sizeof b->small, .grow = grow};
    b->blob = NULL;
}

/* To what was written: it may be queued for long. What is little too large stays as it is. False:
 * memory is short. */
static bool shrink(struct reply_body *b)
{
    size_t spare = b->blob->len - b->w.len;
    struct blob *less;

    if (spare > b->w.len / 8 || spare > BLOB_SPARE_MAX) {
        less =
            account_realloc(ACCOUNT_ANSWERS, b->blob, blob_size(b->blob), sizeof *less + b->w.len);
        if (less == NULL)
            return false;
        b->blob = blob_begin(less, ACCOUNT_ANSWERS, b->w.len);
        spare = 0;
    }
    blob_leave_spare(b->blob, spare);
    return true;
}

void reply_body_send(const struct http_request *r, const struct reply *reply, struct reply_body *b)
{
    struct reply whole = *reply;

    conn_charge(r->conn, b->w.len);
    if (!reply_body_is_whole(b) || (b->blob != NULL && !shrink(b))) {
        reply_no_memory(r);
    } else if (b->blob == NULL) {
        whole.body = (struct slice){b->small, b->w.len};
        reply_send(r, &whole);
    } else {
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

/* --- {"message":"…"}. --- */

void reply_message_parts(const struct http_request *r, unsigned status, enum http_etcd_headers etcd,
                         const struct slice *parts, size_t count)
{
    struct reply_body body;

    reply_body_begin(&body);
    writer_str(&body.w, "{\"message\":\"");
    for (size_t i = 0; i < count; i++)
        json_text(&body.w, parts[i]);
    writer_str(&body.w, "\"}");
    reply_body_send(r, &(struct reply){.status = status, .content_type = HTTP_JSON, .etcd = etcd},
                    &body);
}

void reply_message(const struct http_request *r, unsigned status, const char *message,
                   enum http_etcd_headers etcd)
{
    REPLY_MESSAGE(r, status, etcd, slice_str(message));
}
