/* Passwords of etcd's users: a hash that is slow to guess, made and checked with crypt(3). */
#pragma once

#include "proto/bytes.h"

#define PASSWORD_MAX      511 /* the longest that crypt(3) takes */
#define PASSWORD_HASH_MAX 256

/* False for a password that crypt(3) cannot tell from others: longer than PASSWORD_MAX, or with a
 * NUL in it. */
bool password_is_usable(struct slice password);

/* Fills *hash, which holds a terminated text. False when the password is not usable, or the system
 * gives no random bytes or memory. */
bool password_hash(struct slice password, char hash[PASSWORD_HASH_MAX]);

/* A hash of the same cost whose password nobody has: what a name is checked with that is no user's,
 * so that the time tells nobody which names are. */
struct slice password_decoy(void);

/* True when this password has been right for this hash, not too long ago: then it takes no time. */
bool password_is_remembered(struct slice password, struct slice hash);

/* True when `hash` was made of this password. Takes some milliseconds the first time; passwords
 * that were right are remembered for a while, since clients send theirs with each request. */
bool password_verify(struct slice password, struct slice hash);
