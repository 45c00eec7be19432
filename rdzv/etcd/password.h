/* Passwords of etcd's users: a hash that is slow to guess, made and checked with crypt(3). */
#pragma once

#include "proto/bytes.h"

#define PASSWORD_HASH_MAX 256

/* Fills *hash, which holds a terminated text. False when the system gives no random bytes or
 * memory. Any bytes make a password, and any number of them. */
bool password_hash(struct slice password, char hash[PASSWORD_HASH_MAX]);

/* True when `hash` was made of this password. Takes some milliseconds the first time; passwords
 * that were right are remembered for a while, since clients send theirs with each request. */
bool password_verify(struct slice password, struct slice hash);
