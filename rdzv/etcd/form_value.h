/* A large value of a form, on its way into the tree: it is decoded in slices, into the memory in
 * which it will be kept. */
#pragma once

#include "rdzv/http/reply.h"

struct form_value {
    size_t at;   /* where it begins in the body */
    size_t len;  /* of it there */
    size_t read; /* of that */
    bool whole;  /* all of it is decoded */
    struct blob *blob;
};

/* From this length on; shorter ones are decoded at once. */
#define FORM_VALUE_LARGE (256u << 10)

/* `escaped` is a part of the request's body. False: memory is short. */
bool form_value_begin(struct form_value *v, const struct http_request *r, struct slice escaped);

/* Decodes a slice; true when all is. */
bool form_value_go_on(struct form_value *v, const struct http_request *r);

void form_value_end(struct form_value *v);
