/* Everything that a store holds, as text: two stores are the same when their dumps are. */
#pragma once

#include <stdio.h>

#include "store/store.h"

/* Waiters and watches are not part of it: they are connections' and not changes'. But absent keys
 * that are waited for take bytes: what is accounted of keys is part of it only with `key_bytes`. */
void dump_store(FILE *out, struct store *s, bool key_bytes);
