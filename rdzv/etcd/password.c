/* Password hashes with crypt(3), and which passwords have been right. See password.h. */
#include "rdzv/etcd/password.h"

#include <crypt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "rdzv/config/sha1.h"

_Static_assert(PASSWORD_HASH_MAX <= CRYPT_OUTPUT_SIZE,
               "what crypt() writes is checked for its length");

/* SHA-512 crypt with its default of 5000 rounds: 2 to 4 ms, which an event loop can spare once for
 * each login. yescrypt, the distributions' default, takes ten times that and megabytes. */
#define METHOD "$6$"

/* --- What has been right. --- */

/* Passwords that were right are found by a digest of key, hash and password, so that no password
 * stays in memory in clear, and that none outlives its hash: a new password has a new salt. Each
 * digest has one place. Not for use by several threads. */
#define REMEMBERED 1024

static uint8_t right[REMEMBERED][SHA1_SIZE];
static uint8_t secret[16];
static bool have_secret;

static bool make_digest(struct slice password, struct slice hash, uint8_t digest[SHA1_SIZE])
{
    struct writer w = {.cap = sizeof secret + hash.len + 1 + password.len};

    if (!have_secret)
        have_secret = getrandom(secret, sizeof secret, 0) == (ssize_t)sizeof secret;
    w.ptr = have_secret ? malloc(w.cap) : NULL;
    if (w.ptr == NULL)
        return false;
    writer_put(&w, secret, sizeof secret);
    writer_slice(&w, hash);
    writer_u8(&w, 0);
    writer_slice(&w, password);
    sha1((struct slice){w.ptr, w.len}, digest);
    explicit_bzero(w.ptr, w.cap);
    free(w.ptr);
    return true;
}

static uint8_t *place_of(const uint8_t digest[SHA1_SIZE])
{
    return right[bytes_get_u32(digest) % REMEMBERED];
}

/* --- Hashes. --- */

/* crypt() takes terminated strings of limited length. Passwords that are none are replaced by their
 * digest. */
static void make_phrase(struct slice password, char phrase[CRYPT_MAX_PASSPHRASE_SIZE])
{
    uint8_t digest[SHA1_SIZE];
    char *end = phrase;

    if (password.len < CRYPT_MAX_PASSPHRASE_SIZE && memchr(password.ptr, 0, password.len) == NULL) {
        memcpy(phrase, password.ptr, password.len);
        phrase[password.len] = '\0';
        return;
    }
    sha1(password, digest);
    end += sprintf(end, "sha1:");
    for (size_t i = 0; i < SHA1_SIZE; i++)
        end += sprintf(end, "%02x", digest[i]);
}

/* The hash of a password with the method and salt of `setting`, which may be a whole hash. */
static bool make_hash(struct slice password, const char *setting, char hash[PASSWORD_HASH_MAX])
{
    struct crypt_data *data = calloc(1, sizeof *data);
    char phrase[CRYPT_MAX_PASSPHRASE_SIZE];
    const char *made;
    bool ok;

    if (data == NULL)
        return false;
    make_phrase(password, phrase);
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

/* Takes as long whatever is different. */
static bool is_same(const char *a, const char *b, size_t len)
{
    unsigned difference = 0;

    for (size_t i = 0; i < len; i++)
        difference |= (unsigned)(a[i] ^ b[i]);
    return difference == 0;
}

bool password_verify(struct slice password, struct slice hash)
{
    char wanted[PASSWORD_HASH_MAX], made[PASSWORD_HASH_MAX];
    uint8_t digest[SHA1_SIZE];
    bool known;

    if (hash.len == 0 || hash.len >= sizeof wanted || memchr(hash.ptr, 0, hash.len) != NULL)
        return false;
    known = make_digest(password, hash, digest);
    if (known && memcmp(place_of(digest), digest, SHA1_SIZE) == 0)
        return true;
    memcpy(wanted, hash.ptr, hash.len);
    wanted[hash.len] = '\0';
    if (!make_hash(password, wanted, made) || strlen(made) != hash.len ||
        !is_same(made, wanted, hash.len))
        return false;
    if (known)
        memcpy(place_of(digest), digest, SHA1_SIZE);
    return true;
}
