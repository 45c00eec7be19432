/* Passwords: what hashes them, and what is taken for them. */
#include <crypt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/etcd/password.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Passwords that are alike. */
static void every_byte_of_a_password_counts(void **state)
{
    static char lengths[2][512];
    struct slice passwords[] = {
        slice_str("secret"),
        slice_str("secret "),
        slice_str("Secret"),
        slice_str("\xff"),
        slice_str(""),
        slice_str(memset(lengths[0], 'x', 510)),
        slice_str(memset(lengths[1], 'x', PASSWORD_MAX)),
    };
    char hashes[COUNT(passwords)][PASSWORD_HASH_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(passwords); i++)
        assert_true(password_hash(passwords[i], hashes[i]));
    for (size_t i = 0; i < COUNT(passwords); i++) {
        for (size_t k = 0; k < COUNT(passwords); k++) {
            if (password_verify(passwords[i], slice_str(hashes[k])) != (i == k))
                fail_msg("password %zu, hash %zu", i, k);
        }
    }
    /* Now the right ones are remembered, and still belong to their own hashes. */
    for (size_t i = 0; i < COUNT(passwords); i++)
        assert_true(password_verify(passwords[i], slice_str(hashes[i])));
    assert_false(password_verify(passwords[0], slice_str(hashes[1])));
}

/* It takes the time that a hash takes, and nothing is right for it. */
static void no_password_makes_the_hash_of_none(void **state)
{
    char hash[PASSWORD_HASH_MAX];

    (void)state;
    assert_true(password_hash(slice_str("secret"), hash));
    assert_int_equal(password_decoy().len, strlen(hash));
    assert_false(password_verify(slice_str("secret"), password_decoy()));
    assert_false(password_verify(slice_str(""), password_decoy()));
    assert_false(password_is_remembered(slice_str("secret"), slice_str(hash)));
    assert_true(password_verify(slice_str("secret"), slice_str(hash)));
    assert_true(password_is_remembered(slice_str("secret"), slice_str(hash)));
    assert_false(password_is_remembered(slice_str("secret"), password_decoy()));
    assert_false(password_is_remembered(slice_str("secret"), slice_str("")));
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
    char hash[PASSWORD_HASH_MAX];

    (void)state;
    assert_true(password_hash(slice_str("secret"), hash));
    for (size_t i = 0; i < COUNT(passwords); i++) {
        char made[PASSWORD_HASH_MAX];

        assert_false(password_is_usable(passwords[i]));
        assert_false(password_hash(passwords[i], made));
        assert_false(password_verify(passwords[i], slice_str(hash)));
    }
}

static void each_hash_has_its_own_salt(void **state)
{
    char first[PASSWORD_HASH_MAX], second[PASSWORD_HASH_MAX];

    (void)state;
    assert_true(password_hash(slice_str("same"), first));
    assert_true(password_hash(slice_str("same"), second));
    assert_string_not_equal(first, second);
    assert_true(password_verify(slice_str("same"), slice_str(first)));
    assert_true(password_verify(slice_str("same"), slice_str(second)));
}

static void what_is_no_hash_fits_no_password(void **state)
{
    static const char *const texts[] = {"", "*", "*0", "x", "$6$", "$6$salt", "$nosuch$salt$hash"};
    char long_text[2 * PASSWORD_HASH_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        if (password_verify(slice_str("x"), slice_str(texts[i])))
            fail_msg("%s", texts[i]);
    }
    memset(long_text, 'x', sizeof long_text);
    assert_false(
        password_verify(slice_str("x"), (struct slice){(uint8_t *)long_text, sizeof long_text}));
}

/* Else the time of an answer would tell which users there are. */
static void a_decoy_costs_what_any_hash_costs(void **state)
{
    struct slice decoy = password_decoy();
    char hash[PASSWORD_HASH_MAX], setting[PASSWORD_HASH_MAX];
    struct crypt_data data = {0};
    size_t head;

    (void)state;
    assert_true(password_hash(slice_str("any"), hash));
    assert_int_equal(decoy.len, strlen(hash));
    /* Method, parameters and salt end at the same place, so the decoy has no parameters either. */
    head = (size_t)(strrchr(hash, '$') - hash);
    assert_memory_equal(decoy.ptr, hash, 3);
    assert_int_equal(strrchr((const char *)decoy.ptr, '$') - (const char *)decoy.ptr, head);
    /* And it is a hash that is computed, not one that is refused at once. */
    snprintf(setting, sizeof setting, "%.*s", (int)decoy.len, (const char *)decoy.ptr);
    assert_non_null(crypt_r("x", setting, &data));
    assert_int_equal(strlen(data.output), decoy.len);
    assert_memory_equal(data.output, decoy.ptr, head);
    assert_false(password_verify(slice_str(""), decoy));
    assert_false(password_verify(slice_str("x"), decoy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_of_a_password_counts),
        cmocka_unit_test(no_password_makes_the_hash_of_none),
        cmocka_unit_test(what_crypt_cannot_tell_apart_is_refused),
        cmocka_unit_test(each_hash_has_its_own_salt),
        cmocka_unit_test(what_is_no_hash_fits_no_password),
        cmocka_unit_test(a_decoy_costs_what_any_hash_costs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
