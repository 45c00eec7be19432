/* Large values of forms, decoded in slices. See form_value.h for the contract. */
#include "rdzv/etcd/form_value.h"

#include "proto/url.h"
#include "rdzv/engine/engine.h"

#define READ_AT_A_TIME (256u << 10)

bool form_value_begin(struct form_value *v, const struct http_request *r, struct slice escaped)
{
    *v = (struct form_value){.len = escaped.len};
    if (escaped.len != 0)
        v->at = (size_t)(escaped.ptr - r->body.ptr);
    if (store_make_room(&http_engine(r)->store, ACCOUNT_ORDINARY, escaped.len))
        v->blob = blob_alloc(ACCOUNT_INPUT, escaped.len);
    if (v->blob == NULL)
        return false;
    blob_leave_spare(v->blob, escaped.len);
    return true;
}

/* No escape is cut in two. */
static struct slice next_piece(const struct form_value *v, const struct http_request *r)
{
    struct slice piece = {r->body.ptr + v->at + v->read, v->len - v->read};

    if (piece.len <= READ_AT_A_TIME)
        return piece;
    piece.len = READ_AT_A_TIME;
    for (size_t i = 1; i <= 2; i++) {
        if (piece.ptr[READ_AT_A_TIME - i] == '%')
            piece.len = READ_AT_A_TIME - i;
    }
    return piece;
}

/* What the escapes took is given back. */
static void give_back_spare(struct form_value *v)
{
    struct blob *b = v->blob;
    struct blob *less = account_realloc(ACCOUNT_INPUT, b, blob_size(b), sizeof *b + b->len);

    if (less == NULL)
        return;
    less->spare = 0;
    v->blob = less;
}

bool form_value_go_on(struct form_value *v, const struct http_request *r)
{
    struct slice piece = next_piece(v, r);
    struct blob *b = v->blob;

    blob_leave_spare(b, b->spare - url_unescape_value(piece, b->bytes + b->len).len);
    v->read += piece.len;
    v->whole = v->read == v->len;
    if (v->whole && b->spare != 0)
        give_back_spare(v);
    return v->whole;
}

void form_value_end(struct form_value *v)
{
    blob_unref(v->blob);
    v->blob = NULL;
}
