/* Bodies of JSON. See json_body.h for the contract. */
#include "rdzv/etcd/json_body.h"

#include <stdlib.h>
#include <strings.h>

cJSON *json_body_parse(struct slice body)
{
    static const char escaped_nul[] = "\\u0000";
    cJSON *tree = NULL;
    char *text;

    if (body.len == 0 || body.len > JSON_BODY_MAX || memchr(body.ptr, 0, body.len) != NULL)
        return NULL;
    text = malloc(body.len + 1); /* some releases of cJSON read a byte behind what is not ended */
    if (text == NULL)
        return NULL;
    memcpy(text, body.ptr, body.len);
    text[body.len] = '\0';
    if (strstr(text, escaped_nul) == NULL)
        tree = cJSON_Parse(text);
    free(text);
    return tree;
}

bool json_body_is_named(const cJSON *member, const char *name)
{
    return strcasecmp(member->string, name) == 0;
}
