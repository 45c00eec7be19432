/* The URLs of etcd's flags and members: what etcd refuses of them. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pieces point into the URL. Of unix:// and unixs:// there is only the scheme. */
struct etcd_url {
    const char *scheme, *host;
    size_t scheme_len, host_len;
    uint16_t port;
};

/* NULL when the URL is one that etcd may listen on or advertise; then *out, which may be NULL, has
 * its pieces. Else what is wrong, with a hint. */
const char *etcd_url_check(const char *url, struct etcd_url *out);

/* Case ignored. */
bool etcd_url_scheme_is(const struct etcd_url *url, const char *scheme);
