/* Where a store is, from text. For the library, and for what rdzvctl says about it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct rdzv_address {
    char host[256]; /* a name, or digits without brackets */
    char port[6];
};

/* "HOST:PORT" or "[::1]:PORT". False: it is neither; *out is untouched. */
bool address_parse(const char *text, struct rdzv_address *out);
