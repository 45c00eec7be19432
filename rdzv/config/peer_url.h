/* The URLs of etcd's members: what Go's url.Parse() and etcd's types.NewURLs() refuse, and in which
 * words. Pure. */
#pragma once

#include "proto/bytes.h"

/* True for a URL that a member may have. Else `why` gets the text. */
bool peer_url_check(struct slice url, struct writer *why);

/* A URL without the blanks around it, which do not count. */
struct slice peer_url_trim(struct slice url);
