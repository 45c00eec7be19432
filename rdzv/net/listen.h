/* Listening sockets: from a checked listen_spec to one that accepts. */
#pragma once

#include "rdzv/server.h"

/* Opens what the configuration names, or takes over what was inherited, adds it to s->listeners and
 * logs each address. 0, or -1 after it logged why not and what to do. */
int listen_open_all(struct server *s);

/* Stops accepting; the listeners themselves stay, as connections point to them. */
void listen_close_all(struct server *s);
void listen_free_all(struct server *s);

/* One more listener for a run's workers: on the address of `like`, with the first port from `low`
 * to `high` that is free; 0 and 0: any. NULL with errno when there is none. */
struct listener *listen_open_like(struct server *s, struct listener *like, uint16_t low,
                                  uint16_t high);

/* Ends one of those; freed with its last connection. */
void listen_close_one(struct listener *l);
void listen_conn_gone(struct listener *l);

/* The port it is bound to; 0 when it is closed. */
uint16_t listen_port(const struct listener *l);

/* Accepts again after descriptors had run out. */
void listen_resume_all(struct server *s);
