/* How a relay and its store begin: HELLO describes the relay, WELCOME the store, and both together
 * decide the version of the frames and the space. A build speaks the versions from
 * RELAY_VERSION_MIN to RELAY_VERSION_MAX; of those that both speak, the store takes the newest. */
#pragma once

#include "proto/relay.pb-c.h"
#include "rdzv/net/conn.h"

#define HELLO_RELEASE_MAX 32  /* of rdzvd, for logs: "0.1.0" */
#define HELLO_WHY_MAX     224 /* why there is no version */
#define HELLO_JOURNAL_MAX 128 /* the name of a journal; what is longer is cut */

/* The journal that replicas share. */
struct hello_journal {
    char name[HELLO_JOURNAL_MAX]; /* empty: no journal, or an unknown one */
    uint64_t cluster;             /* etcd's id of the journal's cluster; 0: not known */
};

/* A text as a field of a message that is sent, which borrows it. */
static inline char *hello_field(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* Writes the first bytes of a relay's connection: RELAY_MAGIC and the HELLO, with versions and
 * release filled in. Returns their length. */
#define HELLO_FRAME_MAX 1024u
size_t hello_write(uint8_t out[HELLO_FRAME_MAX], Rdzv__RelayHello *hello);

/* Chooses the version to speak with that relay. 0 if both speak no common version; then `why` names
 * the side that is too old. */
uint32_t hello_version(const Rdzv__RelayHello *hello, char why[HELLO_WHY_MAX]);

/* True: this build speaks the version that the store has taken. */
bool hello_is_spoken(const Rdzv__RelayWelcome *welcome);

/* The journal with the store's state, as WELCOME names it, also for logs; empty: none named. */
struct hello_journal hello_journal_of(const Rdzv__RelayWelcome *welcome);

/* False: two different journals: a store of one does not know the promises of a store of the other.
 * True if one is unknown. */
bool hello_is_same_journal(const struct hello_journal *a, const struct hello_journal *b);

/* A text that the other side has sent, for logs: of so many bytes at most, without what would end a
 * line or a word, and `none` where nothing was said. Returns `out`. */
const char *hello_text(const char *text, const char *none, char *out, size_t size);

static inline const char *hello_release(const char *release, char out[HELLO_RELEASE_MAX])
{
    return hello_text(release, "unknown", out, HELLO_RELEASE_MAX);
}

/* --- Which space a relay gets. --- */

/* Spaces that relays may have made of one store: whoever reaches it can be a relay. */
#define HELLO_SPACES_MAX 1024u

#define HELLO_SPACE_WHY_MAX 400

/* A listener with a named space takes only relays of that space. Any other listener takes relays of
 * any space, and makes a space that does not exist (event space_made). NULL if the relay is
 * refused; `why` is written for the operators of store and relay. */
struct engine_space *hello_space(struct conn *c, const char *name, char why[HELLO_SPACE_WHY_MAX]);
