/* The store's side of HTTP that comes through relays. Such a connection begins as a relay's does,
 * with RELAY_MAGIC and a HELLO, whose `http` says that plain HTTP/1.1 follows the WELCOME. So a
 * relay is let in, and gets its space, by one rule, whatever it brings; and no field of HTTP says
 * which space it is about, which any client could send.
 *
 * Behind the WELCOME the connection speaks HTTP as others do, except that the relay has looked at
 * its Host header. */
#pragma once

#include "rdzv/http/session.h"

struct relay_entry {
    /* As the listeners' own, except for what is said above; [1] of clients that speak TLS. */
    struct http http[2];
    struct protocol protocols[2]; /* over these */
};

/* `http` is what the listeners' own connections have; it is copied. */
void relay_entry_init(struct relay_entry *e, const struct http *http);

/* The table for net.protocols: before one of relays that knows no `http`, to which it leaves all
 * other HELLOs. `e` outlives it. */
struct protocol relay_entry_protocol(struct relay_entry *e);
