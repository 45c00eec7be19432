/* The status page. See handlers.h for the contract. */
#include <string.h>

#include "rdzv/admin/handlers.h"
#include "rdzv/admin/page_text.h"

/* True for `*`, and for a list with our tag, weak or not. */
static bool page_is_known(const struct http_request *r)
{
    struct slice tags;

    return http_find_header(r->head, "if-none-match", &tags) &&
           (slice_is(tags, "*") ||
            memmem(tags.ptr, tags.len, page_etag, strlen(page_etag)) != NULL);
}

void admin_page_handle(const struct http_request *r)
{
    bool known = page_is_known(r);

    reply_send(r, &(struct reply){
                      .status = known ? 304 : 200,
                      .content_type = known ? NULL : HTTP_HTML,
                      .nosniff = true,
                      .headers = page_headers,
                      .body = {(const uint8_t *)page_text, known ? 0 : page_text_len},
                  });
}
