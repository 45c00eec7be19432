/* Passwords: what hashes them, and what is taken for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/etcd/password.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Passwords that differ where a hash of terminated, limited strings would not see it. */
static void every_byte_of_a_password_counts(void **state)
{
    static char lengths[3][700];
    struct slice passwords[] = {
        slice_str("secret"),
        {(const uint8_t *)"secret\0", 7},
        {(const uint8_t *)"secret\0x", 8},
        slice_str("Secret"),
        slice_str("\xff"),
        slice_str(memset(lengths[0], 'x', 511)),
        slice_str(memset(lengths[1], 'x', 512)),
        slice_str(memset(lengths[2], 'x', 699)),
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_of_a_password_counts),
        cmocka_unit_test(each_hash_has_its_own_salt),
        cmocka_unit_test(what_is_no_hash_fits_no_password),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
