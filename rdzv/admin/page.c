/* The status page. See handlers.h for the contract. */
#include <assert.h>
#include <string.h>

#include "rdzv/admin/handlers.h"
#include "rdzv/admin/page_text.h"

#define PAGE_HEADERS_MAX 640

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
    uint8_t headers[PAGE_HEADERS_MAX];
    struct writer w = {.ptr = headers, .cap = sizeof headers};
    bool known = page_is_known(r);

    writer_str(&w, "Content-Security-Policy: ");
    writer_str(&w, page_policy);
    /* A browser asks each time whether the page is still the same: it is that of this release. */
    writer_str(&w, "\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache\r\nETag: ");
    writer_str(&w, page_etag);
    writer_str(&w, "\r\n");
    writer_u8(&w, '\0');
    assert(w.len <= w.cap);
    reply_send(r, &(struct reply){
                      .status = known ? 304 : 200,
                      .content_type = known ? NULL : HTTP_HTML,
                      .nosniff = true,
                      .headers = (const char *)headers,
                      .body = {(const uint8_t *)page_text, known ? 0 : page_text_len},
                  });
}
