/* Bodies of JSON. See json_body.h for the contract. */
#include "rdzv/etcd/json_body.h"

/* Of a tree, for each byte of its text, about. */
#define TREE_COST 40u

bool json_body_has_room(const struct http_request *r)
{
    size_t room = r->body.len <= JSON_BODY_MAX ? r->body.len * TREE_COST : 0;

    if (store_make_room(&http_engine(r)->store, account_class_of(room), room))
        return true;
    reply_no_memory(r);
    return false;
}

cJSON *json_body_parse(struct slice body)
{
    static const char escaped_nul[] = "\\u0000";
    cJSON *tree = NULL;
    char *text;

    if (body.len == 0 || body.len > JSON_BODY_MAX || memchr(body.ptr, 0, body.len) != NULL)
        return NULL;
    text = account_request(ACCOUNT_INPUT, ACCOUNT_ORDINARY,
                           body.len +
                               1); /* some releases of cJSON read a byte behind what is not ended */
    if (text == NULL)
        return NULL;
    memcpy(text, body.ptr, body.len);
    text[body.len] = '\0';
    if (strstr(text, escaped_nul) == NULL)
        tree = cJSON_Parse(text);
    account_free(ACCOUNT_INPUT, text, body.len + 1);
    return tree;
}
