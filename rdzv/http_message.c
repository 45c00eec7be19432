/* {"message":"…"} answers. See http_message.h. */
#include "rdzv/http_message.h"

#include <stdlib.h>

#include "proto/json.h"

#define ESCAPED_MAX 6 /* \u0000 is the longest that a byte becomes */

void http_reply_parts(const struct http_request *r, unsigned status, enum http_etcd_headers etcd,
                      const struct slice *parts, size_t count)
{
    static const char start[] = "{\"message\":", end[] = "}";
    size_t len = 0, room;
    struct writer text, json;
    uint8_t *memory;

    for (size_t i = 0; i < count; i++)
        len += parts[i].len;
    room = sizeof start + 2 + ESCAPED_MAX * len + sizeof end;
    memory = malloc(len + room);
    if (memory == NULL) {
        http_reply_message(r, 500, "Internal Server Error", etcd);
        return;
    }
    text = (struct writer){.ptr = memory, .cap = len};
    for (size_t i = 0; i < count; i++)
        writer_slice(&text, parts[i]);
    json = (struct writer){.ptr = memory + len, .cap = room};
    writer_str(&json, start);
    json_string(&json, (struct slice){text.ptr, text.len});
    writer_str(&json, end);
    http_reply(r, &(struct http_answer){.status = status,
                                        .content_type = HTTP_JSON,
                                        .etcd = etcd,
                                        .body = {json.ptr, json.len}});
    free(memory);
}
