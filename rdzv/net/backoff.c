/* Waits after wrong tokens. See backoff.h for the contract. */
#include "rdzv/net/backoff.h"

#include <string.h>

static struct backoff_entry key_of(const struct peer *peer)
{
    struct backoff_entry key = {0};

    peer_network(peer, key.address);
    return key;
}

/* FNV-1a. Who chooses addresses that meet in one place throws out his own. */
static size_t set_of(const struct backoff_entry *key)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < sizeof key->address; i++)
        hash = (hash ^ key->address[i]) * 16777619u;
    return (hash ^ hash >> 16) % BACKOFF_SETS;
}

static bool is_of(const struct backoff_entry *e, const struct backoff_entry *key)
{
    return e->failures != 0 && memcmp(e->address, key->address, sizeof e->address) == 0;
}

static uint64_t age_ms(const struct backoff_entry *e, uint64_t now_ms)
{
    return now_ms > e->failed_ms ? now_ms - e->failed_ms : 0;
}

static uint64_t wait_ms(const struct backoff_entry *e)
{
    uint32_t doublings = e->failures - BACKOFF_FREE;

    if (e->failures < BACKOFF_FREE)
        return 0;
    return doublings < 8 && BACKOFF_FIRST_MS << doublings < BACKOFF_MOST_MS
               ? BACKOFF_FIRST_MS << doublings
               : BACKOFF_MOST_MS;
}

/* NULL: there is none. */
static const struct backoff_entry *find(const struct backoff *b, const struct peer *peer)
{
    const struct backoff_entry key = key_of(peer), *set = b->entries[set_of(&key)];

    for (size_t i = 0; i < BACKOFF_WAYS; i++) {
        if (is_of(&set[i], &key))
            return &set[i];
    }
    return NULL;
}

bool backoff_allows(const struct backoff *b, const struct peer *peer, uint64_t now_ms)
{
    const struct backoff_entry *e = find(b, peer);

    return e == NULL || age_ms(e, now_ms) >= wait_ms(e);
}

void backoff_failed(struct backoff *b, const struct peer *peer, uint64_t now_ms)
{
    struct backoff_entry key = key_of(peer), *set = b->entries[set_of(&key)], *e = &set[0];

    for (size_t i = 0; i < BACKOFF_WAYS; i++) {
        if (is_of(&set[i], &key)) {
            e = &set[i];
            break;
        }
        if (set[i].failed_ms < e->failed_ms)
            e = &set[i];
    }
    if (is_of(e, &key) && age_ms(e, now_ms) < BACKOFF_KEEP_MS)
        key.failures = e->failures;
    key.failures += key.failures < UINT32_MAX;
    key.failed_ms = now_ms;
    *e = key;
}
