/* Listening sockets: from a checked listen_spec to one that accepts. */
#pragma once

#include "rdzv/server.h"

/* Opens what the configuration names, or takes over what was inherited, adds it to s->listeners and
 * logs each address. 0, or -1 after it logged why not and what to do. */
int listen_open_all(struct server *s);

/* Stops accepting; the listeners themselves stay, as connections point to them. */
void listen_close_all(struct server *s);
void listen_free_all(struct server *s);

/* Accepts again after descriptors had run out. */
void listen_resume_all(struct server *s);
