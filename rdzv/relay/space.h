/* Which space a relay gets. */
#pragma once

#include "rdzv/net/conn.h"

/* Spaces that relays may have made of one store: whoever reaches it can be a relay. */
#define RELAY_SPACES_MAX 1024u

/* A listener whose space is named takes relays for that space alone; any other one for any space,
 * which is made when there is none. NULL, and *why as a static text: the relay is refused. */
struct engine_space *relay_space(struct conn *c, struct slice name, const char **why);
