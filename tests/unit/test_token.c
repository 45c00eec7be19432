/* Tokens against a file: what counts, and what can go wrong with the file. */
#include "rdzv/http/access.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static enum token_result check(const char *file, size_t len, const char *header)
{
    int fd = memfd_create("token", MFD_CLOEXEC);
    enum token_result result;
    char path[40];

    assert_true(fd >= 0);
    assert_int_equal(write(fd, file, len), len);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    result = token_check(path, slice_str(header));
    close(fd);
    return result;
}

static void a_token_is_the_text_of_the_file(void **state)
{
    static const struct {
        const char *file, *header;
        enum token_result result;
    } rows[] = {
        {"secret", "Bearer secret", TOKEN_RIGHT},
        {"secret\n", "Bearer secret", TOKEN_RIGHT},
        {"secret \t\r\n\n", "bEARER secret", TOKEN_RIGHT},
        {"two words\n", "Bearer two words", TOKEN_RIGHT},
        {"secret", "Bearer secret ", TOKEN_WRONG},
        {"secret", "Bearer  secret", TOKEN_WRONG},
        {"secret", "Bearer Secret", TOKEN_WRONG},
        {"secret", "Bearer secre", TOKEN_WRONG},
        {"secret", "Bearer secretsecret", TOKEN_WRONG},
        {"secret", "Bearer ", TOKEN_WRONG},
        {"aaaa", "Bearer aa", TOKEN_WRONG},
        {"aa", "Bearer aaaa", TOKEN_WRONG},
        {"", "Bearer ", TOKEN_UNREADABLE},
        {" \n", "Bearer ", TOKEN_UNREADABLE},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        print_message("  row %zu\n", i);
        assert_int_equal(check(rows[i].file, strlen(rows[i].file), rows[i].header), rows[i].result);
    }
}

static void other_schemes_have_no_token(void **state)
{
    (void)state;
    assert_true(token_is_sent(slice_str("Bearer x")));
    assert_true(token_is_sent(slice_str("bearer ")));
    assert_false(token_is_sent(slice_str("")));
    assert_false(token_is_sent(slice_str("Bearer")));
    assert_false(token_is_sent(slice_str("Bearers x")));
    assert_false(token_is_sent(slice_str("Basic c2VjcmV0")));
}

static void a_file_has_a_limit(void **state)
{
    static char longest[TOKEN_FILE_MAX + 2], header[TOKEN_FILE_MAX + 16];

    (void)state;
    memset(longest, 'x', TOKEN_FILE_MAX + 1);
    snprintf(header, sizeof header, "Bearer %.*s", TOKEN_FILE_MAX, longest);
    assert_int_equal(check(longest, TOKEN_FILE_MAX, header), TOKEN_RIGHT);
    assert_int_equal(check(longest, TOKEN_FILE_MAX + 1, header), TOKEN_UNREADABLE);
    assert_int_equal(errno, EFBIG);
}

static void a_path_that_is_no_file_is_no_token(void **state)
{
    (void)state;
    assert_int_equal(token_check("/nowhere/at/all", slice_str("Bearer x")), TOKEN_UNREADABLE);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(token_check("/dev/zero", slice_str("Bearer x")), TOKEN_UNREADABLE);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(token_check("/", slice_str("Bearer x")), TOKEN_UNREADABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_the_text_of_the_file),
        cmocka_unit_test(other_schemes_have_no_token),
        cmocka_unit_test(a_file_has_a_limit),
        cmocka_unit_test(a_path_that_is_no_file_is_no_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
