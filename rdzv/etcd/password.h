/* Passwords of etcd's users: hashes of crypt(3), and which passwords have been right. */
#pragma once

#include "proto/bytes.h"

#define PASSWORD_MAX      511 /* the longest that crypt(3) takes */
#define PASSWORD_HASH_MAX 256

/* False for a password that crypt(3) cannot tell from others: longer than PASSWORD_MAX, or with a
 * NUL in it. */
bool password_is_usable(struct slice password);

/* Hashes take milliseconds, so that they are slow to guess: hasher.h computes them beside the loop.
 * What they are made with is a method and a salt, at the beginning of a whole hash; with a new salt
 * it is one of a new password. False when the system gives no random bytes. */
bool password_new_setting(char setting[PASSWORD_HASH_MAX]);

/* What a text is compared with: a hash as users have it. False for what is none; nobody has the
 * password then. */
bool password_setting_of(struct slice hash, char setting[PASSWORD_HASH_MAX]);

/* Room to compute in; some KB. */
struct crypt_data;

/* The hash of a usable password. Empty when it cannot be computed. Touches nothing but its
 * arguments, so that a thread of its own may compute. */
void password_hash(const char *password, const char *setting, struct crypt_data *room,
                   char made[PASSWORD_HASH_MAX]);

/* Are two hashes the same? Takes as long whatever is different. */
bool password_hash_is(struct slice a, struct slice b);

/* A hash of the same cost whose password nobody has: what a name is checked with that is no user's,
 * so that the time tells nobody which names are. */
struct slice password_decoy(void);

/* This password is right for this hash; that is remembered for a while, since clients send theirs
 * with each request. */
void password_remember(struct slice password, struct slice hash);

/* True when this password has been right for this hash, not too long ago: then it takes no time. */
bool password_is_remembered(struct slice password, struct slice hash);
