/* Passwords: what hashes them, and what is taken for them. */
#include <crypt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "rdzv/etcd/password.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct crypt_data room; /* large */

static void make(const char *password, char made[PASSWORD_HASH_MAX])
{
    char setting[PASSWORD_HASH_MAX];

    assert_true(password_new_setting(setting));
    password_hash(password, setting, &room, made);
    assert_string_not_equal(made, "");
}

static bool verify(const char *password, struct slice hash)
{
    char setting[PASSWORD_HASH_MAX], made[PASSWORD_HASH_MAX];

    if (!password_setting_of(hash, setting))
        return false;
    password_hash(password, setting, &room, made);
    return password_hash_is(slice_str(made), hash);
}

/* Passwords that are alike. */
static void every_byte_of_a_password_counts(void **state)
{
    static char lengths[2][512];
    const char *const passwords[] = {
        "secret",
        "secret ",
        "Secret",
        "\xff",
        "",
        memset(lengths[0], 'x', 510),
        memset(lengths[1], 'x', PASSWORD_MAX),
    };
    char hashes[COUNT(passwords)][PASSWORD_HASH_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(passwords); i++)
        make(passwords[i], hashes[i]);
    for (size_t i = 0; i < COUNT(passwords); i++) {
        for (size_t k = 0; k < COUNT(passwords); k++) {
            if (verify(passwords[i], slice_str(hashes[k])) != (i == k))
                fail_msg("password %zu, hash %zu", i, k);
        }
    }
}

/* A password is remembered with its own hash. */
static void what_was_right_is_remembered(void **state)
{
    struct slice a = slice_str("secret"), b = slice_str("Secret");
    char first[PASSWORD_HASH_MAX], second[PASSWORD_HASH_MAX];

    (void)state;
    make("secret", first);
    make("secret", second);
    assert_false(password_is_remembered(a, slice_str(first)));
    password_remember(a, slice_str(first));
    assert_true(password_is_remembered(a, slice_str(first)));
    assert_false(password_is_remembered(a, slice_str(second)));
    assert_false(password_is_remembered(b, slice_str(first)));
    assert_false(password_is_remembered(a, password_decoy()));
    password_remember(a, slice_str(""));
    assert_false(password_is_remembered(a, slice_str("")));
}

/* crypt(3) would take these for others. */
static void what_crypt_cannot_tell_apart_is_refused(void **state)
{
    static char text[PASSWORD_MAX + 2];
    struct slice passwords[] = {
        {(const uint8_t *)"secret\0", 7},
        {(const uint8_t *)"\0secret", 7},
        slice_str(memset(text, 'x', PASSWORD_MAX + 1)),
    };

    (void)state;
    for (size_t i = 0; i < COUNT(passwords); i++)
        assert_false(password_is_usable(passwords[i]));
    assert_true(password_is_usable(slice_str("")));
    assert_true(password_is_usable((struct slice){(const uint8_t *)text, PASSWORD_MAX}));
}

static void each_hash_has_its_own_salt(void **state)
{
    char first[PASSWORD_HASH_MAX], second[PASSWORD_HASH_MAX];

    (void)state;
    make("same", first);
    make("same", second);
    assert_string_not_equal(first, second);
    assert_true(verify("same", slice_str(first)));
    assert_true(verify("same", slice_str(second)));
}

static void what_is_no_hash_fits_no_password(void **state)
{
    static const char *const texts[] = {"", "*", "*0", "x", "$6$", "$6$salt", "$nosuch$salt$hash"};
    char long_text[2 * PASSWORD_HASH_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        if (verify("x", slice_str(texts[i])))
            fail_msg("%s", texts[i]);
    }
    memset(long_text, 'x', sizeof long_text);
    assert_false(verify("x", (struct slice){(uint8_t *)long_text, sizeof long_text}));
    assert_false(verify("x", (struct slice){(const uint8_t *)"$6$\0", 4}));
}

/* Else the time of an answer would tell which users there are. */
static void a_decoy_costs_what_any_hash_costs(void **state)
{
    struct slice decoy = password_decoy();
    char hash[PASSWORD_HASH_MAX], setting[PASSWORD_HASH_MAX], made[PASSWORD_HASH_MAX];
    size_t head;

    (void)state;
    make("any", hash);
    assert_int_equal(decoy.len, strlen(hash));
    /* Method, parameters and salt end at the same place, so the decoy has no parameters either. */
    head = (size_t)(strrchr(hash, '$') - hash);
    assert_memory_equal(decoy.ptr, hash, 3);
    assert_int_equal(strrchr((const char *)decoy.ptr, '$') - (const char *)decoy.ptr, head);
    /* And it is a hash that is computed, not one that is refused at once. */
    assert_true(password_setting_of(decoy, setting));
    password_hash("x", setting, &room, made);
    assert_int_equal(strlen(made), decoy.len);
    assert_memory_equal(made, decoy.ptr, head);
    assert_false(verify("", decoy));
    assert_false(verify("x", decoy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_of_a_password_counts),
        cmocka_unit_test(what_was_right_is_remembered),
        cmocka_unit_test(what_crypt_cannot_tell_apart_is_refused),
        cmocka_unit_test(each_hash_has_its_own_salt),
        cmocka_unit_test(what_is_no_hash_fits_no_password),
        cmocka_unit_test(a_decoy_costs_what_any_hash_costs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
