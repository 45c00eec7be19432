/* The JSON that clients send to members and the log's level: a body becomes a cJSON tree. */
#pragma once

#include <cjson/cJSON.h>

#include "rdzv/http/reply.h"

/* A tree takes some forty times the room of its text. etcd has no limit. */
#define JSON_BODY_MAX (256u << 10)

/* True when there is memory for a request's body as a tree. False: the reply says that there is
 * none. */
bool json_body_has_room(const struct http_request *r);

/* The first value of a body; what follows it is not looked at, as by Go's Decoder. NULL when it is
 * no JSON, longer than JSON_BODY_MAX, or has a NUL in it, which cJSON would take for the end of a
 * string. The caller frees it with cJSON_Delete(). */
cJSON *json_body_parse(struct slice body);
