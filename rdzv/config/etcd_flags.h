/* Every flag of etcd 3.4: its type, whether rdzvd honours or ignores it, and why. Knows nothing of
 * struct config: etcd_apply.c carries the flags out. The value of an ignored flag is not read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum etcd_flag_type {
    ETCD_TYPE_TEXT, /* numbers and durations are texts as well */
    ETCD_TYPE_BOOL,
    ETCD_TYPE_LIST,    /* words or URLs, separated by commas */
    ETCD_TYPE_ANCIENT, /* of etcd 0.4: a boolean to Go, so it does not take the next word; with any
                          =value */
};

/* Reasons that etcd_apply.c gives too. */
#define ETCD_HAS_NO_PEERS "there are no peers: this is a cluster of one"
#define ETCD_OWN_LOG      "one line per event goes to stderr; see --log-format, --log-level"

struct etcd_flag {
    const char *name; /* without dashes */
    enum etcd_flag_type type;
    const char *ignored; /* why it has no effect here; NULL: it has */
    const char *choices; /* "a|b": the only legal values; NULL: any of the type */
    const char *own; /* our own flag with the same effect; NULL: none, or one of the same name */
};

/* NULL where etcd 3.4 has no such flag. */
const struct etcd_flag *etcd_flag_find(const char *name, size_t len);
/* The index-th flag, NULL behind the last. */
const struct etcd_flag *etcd_flag_at(size_t index);

/* --- URLs of etcd's flags and members: what etcd refuses of them. --- */

/* The pieces point into the URL. Of unix:// and unixs:// there is only the scheme. */
struct etcd_url {
    const char *scheme, *host;
    size_t scheme_len, host_len;
    uint16_t port;
};

/* Checks a URL that etcd may listen on or advertise. Returns NULL if it is valid, and sets *out
 * (unless it is NULL) to its parts. Otherwise returns the fault with a hint. */
const char *etcd_url_check(const char *url, struct etcd_url *out);

/* Case ignored. */
bool etcd_url_scheme_is(const struct etcd_url *url, const char *scheme);
