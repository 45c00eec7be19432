/* Password hashes with crypt(3), and which passwords have been right. See password.h. */
#include "rdzv/etcd/password.h"

#include <crypt.h>
#include <sys/random.h>

_Static_assert(PASSWORD_MAX == CRYPT_MAX_PASSPHRASE_SIZE - 1, "what crypt() takes");
_Static_assert(PASSWORD_HASH_MAX <= CRYPT_OUTPUT_SIZE &&
                   PASSWORD_HASH_MAX >= CRYPT_GENSALT_OUTPUT_SIZE,
               "what crypt() writes is checked for its length, what makes salts fits");

/* SHA-512 crypt with its default of 5000 rounds: 2 to 4 ms, and no memory. yescrypt, the
 * distributions' default, takes ten times that and megabytes. */
#define METHOD "$6$"

/* --- What has been right. --- */

/* Passwords that were right are found by a keyed digest of hash and password, so that no password
 * stays in memory in clear, and that none outlives its hash: a new password has a new salt. Each
 * digest has one place. Not for use by several threads. */
#define REMEMBERED 1024

static uint64_t right[REMEMBERED]; /* 0: free */
static uint64_t secret[2];
static bool have_secret;

static uint64_t rotate(uint64_t v, unsigned n)
{
    return v << n | v >> (64 - n);
}

static void sip_rounds(uint64_t v[4], int count)
{
    for (int i = 0; i < count; i++) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

/* SipHash-2-4 (Aumasson and Bernstein, 2012). */
static uint64_t siphash(const uint64_t key[2], struct slice in)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                     key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};

    for (size_t at = 0; at <= in.len; at += 8) {
        uint8_t block[8] = {[7] = (uint8_t)in.len}; /* the last one ends with the length */
        size_t left = in.len - at;
        uint64_t m;

        if (left > 0)
            memcpy(block, in.ptr + at, left < 8 ? left : 8);
        m = bytes_get_u64(block);
        v[3] ^= m;
        sip_rounds(v, 2);
        v[0] ^= m;
    }
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* 0 when there is no secret yet, and so nothing can be remembered. */
static uint64_t digest_of(struct slice password, struct slice hash)
{
    uint8_t both[PASSWORD_HASH_MAX + 8];

    if (!have_secret)
        have_secret = getrandom(secret, sizeof secret, 0) == (ssize_t)sizeof secret;
    if (!have_secret)
        return 0;
    bytes_put_u64(both, siphash(secret, password));
    memcpy(both + 8, hash.ptr, hash.len);
    return siphash(secret, (struct slice){both, 8 + hash.len});
}

/* --- Hashes. --- */

bool password_is_usable(struct slice password)
{
    return password.len <= PASSWORD_MAX &&
           (password.len == 0 || memchr(password.ptr, 0, password.len) == NULL);
}

bool password_new_setting(char setting[PASSWORD_HASH_MAX])
{
    char random[16];

    return getrandom(random, sizeof random, 0) == (ssize_t)sizeof random &&
           crypt_gensalt_rn(METHOD, 0, random, sizeof random, setting, PASSWORD_HASH_MAX) != NULL;
}

static bool is_usable_hash(struct slice hash)
{
    return hash.len != 0 && hash.len < PASSWORD_HASH_MAX && memchr(hash.ptr, 0, hash.len) == NULL;
}

bool password_setting_of(struct slice hash, char setting[PASSWORD_HASH_MAX])
{
    if (!is_usable_hash(hash))
        return false;
    memcpy(setting, hash.ptr, hash.len);
    setting[hash.len] = '\0';
    return true;
}

void password_hash(const char *password, const char *setting, struct crypt_data *room,
                   char made[PASSWORD_HASH_MAX])
{
    const char *hash = crypt_r(password, setting, room);

    made[0] = '\0';
    if (hash != NULL && hash[0] != '*' && strlen(hash) < PASSWORD_HASH_MAX)
        memcpy(made, hash, strlen(hash) + 1);
    explicit_bzero(room, sizeof *room);
}

bool password_hash_is(struct slice a, struct slice b)
{
    unsigned difference = a.len != b.len;

    for (size_t i = 0; i < a.len && i < b.len; i++)
        difference |= (unsigned)(a.ptr[i] ^ b.ptr[i]);
    return difference == 0;
}

struct slice password_decoy(void)
{
    return slice_str(
        METHOD
        "MOpmORKv9ogMsCrS$"
        "6VDr.VOUw//ngUNxqqeA5hP0gozHFYRi32nMsq6XTn7XSjlx1LIARq8ybMG7LNThrSJ8sbgZoWGvsURx9sYdp1");
}

void password_remember(struct slice password, struct slice hash)
{
    uint64_t digest = is_usable_hash(hash) ? digest_of(password, hash) : 0;

    if (digest != 0)
        right[digest % REMEMBERED] = digest;
}

bool password_is_remembered(struct slice password, struct slice hash)
{
    uint64_t digest = is_usable_hash(hash) ? digest_of(password, hash) : 0;

    return digest != 0 && right[digest % REMEMBERED] == digest;
}
