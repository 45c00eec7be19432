/* Which space a relay gets. */
#pragma once

#include "rdzv/net/conn.h"

/* Spaces that relays may have made of one store: whoever reaches it can be a relay. */
#define RELAY_SPACES_MAX 1024u

#define RELAY_SPACE_WHY_MAX 400

/* A listener whose space is named takes relays for that space alone; any other one for any space,
 * which is made when there is none (event space_made). NULL, and `why`, for the one who runs the
 * store as well as for him who runs the relay: it is refused. */
struct engine_space *relay_space(struct conn *c, struct slice name, char why[RELAY_SPACE_WHY_MAX]);
