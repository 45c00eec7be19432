/* Password hashes with crypt(3), and which passwords have been right. See password.h. */
#include "rdzv/etcd/password.h"

#include <crypt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

_Static_assert(PASSWORD_MAX == CRYPT_MAX_PASSPHRASE_SIZE - 1, "what crypt() takes");
_Static_assert(PASSWORD_HASH_MAX <= CRYPT_OUTPUT_SIZE,
               "what crypt() writes is checked for its length");

/* SHA-512 crypt with its default of 5000 rounds: 2 to 4 ms, which an event loop can spare once for
 * each login. yescrypt, the distributions' default, takes ten times that and megabytes. */
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

/* The hash of a password with the method and salt of `setting`, which may be a whole hash. */
static bool make_hash(struct slice password, const char *setting, char hash[PASSWORD_HASH_MAX])
{
    struct crypt_data *data = NULL;
    char phrase[PASSWORD_MAX + 1] = "";
    const char *made;
    bool ok;

    if (password_is_usable(password))
        data = calloc(1, sizeof *data);
    if (data == NULL)
        return false;
    if (password.len > 0)
        memcpy(phrase, password.ptr, password.len);
    made = crypt_r(phrase, setting, data);
    ok = made != NULL && made[0] != '*' && strlen(made) < PASSWORD_HASH_MAX;
    if (ok)
        memcpy(hash, made, strlen(made) + 1);
    explicit_bzero(phrase, sizeof phrase);
    explicit_bzero(data, sizeof *data);
    free(data);
    return ok;
}

bool password_hash(struct slice password, char hash[PASSWORD_HASH_MAX])
{
    char random[16], setting[CRYPT_GENSALT_OUTPUT_SIZE];

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    if (crypt_gensalt_rn(METHOD, 0, random, sizeof random, setting, sizeof setting) == NULL)
        return false;
    return make_hash(password, setting, hash);
}

struct slice password_decoy(void)
{
    return slice_str(
        METHOD
        "MOpmORKv9ogMsCrS$"
        "6VDr.VOUw//ngUNxqqeA5hP0gozHFYRi32nMsq6XTn7XSjlx1LIARq8ybMG7LNThrSJ8sbgZoWGvsURx9sYdp1");
}

/* Takes as long whatever is different. */
static bool is_same(const char *a, const char *b, size_t len)
{
    unsigned difference = 0;

    for (size_t i = 0; i < len; i++)
        difference |= (unsigned)(a[i] ^ b[i]);
    return difference == 0;
}

static bool is_usable_hash(struct slice hash)
{
    return hash.len != 0 && hash.len < PASSWORD_HASH_MAX && memchr(hash.ptr, 0, hash.len) == NULL;
}

bool password_is_remembered(struct slice password, struct slice hash)
{
    uint64_t digest = is_usable_hash(hash) ? digest_of(password, hash) : 0;

    return digest != 0 && right[digest % REMEMBERED] == digest;
}

bool password_verify(struct slice password, struct slice hash)
{
    char wanted[PASSWORD_HASH_MAX], made[PASSWORD_HASH_MAX];
    uint64_t digest;

    if (!is_usable_hash(hash))
        return false;
    if (password_is_remembered(password, hash))
        return true;
    digest = digest_of(password, hash);
    memcpy(wanted, hash.ptr, hash.len);
    wanted[hash.len] = '\0';
    if (!make_hash(password, wanted, made) || strlen(made) != hash.len ||
        !is_same(made, wanted, hash.len))
        return false;
    right[digest % REMEMBERED] = digest;
    return true;
}
