/* CRC32C: known values, and the instruction and the tables agree on any bytes however they are cut.
 */
#include "store/disk/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/exact.h"

static uint32_t of(uint32_t (*function)(uint32_t, const void *, size_t), const void *bytes,
                   size_t len)
{
    struct slice copy = exact(bytes, len);
    uint32_t crc = function(0, copy.ptr, len);

    exact_free(copy);
    return crc;
}

/* Those of RFC 3720, B.4. */
static void known_bytes_have_known_sums(void **state)
{
    uint8_t bytes[32];
    const struct {
        const void *bytes;
        size_t len;
        uint32_t crc;
    } cases[] = {{"", 0, 0}, {"a", 1, 0xc1d04330}, {"123456789", 9, 0xe3069283}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(of(crc32c, cases[i].bytes, cases[i].len), cases[i].crc);
        assert_int_equal(of(crc32c_by_table, cases[i].bytes, cases[i].len), cases[i].crc);
    }
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(of(crc32c, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(of(crc32c, bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(of(crc32c, bytes, 32), 0x46dd794e);
    assert_int_equal(of(crc32c_by_table, bytes, 32), 0x46dd794e);
}

static void every_length_and_cut_gives_the_same(void **state)
{
    uint8_t bytes[67];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 167 + 13);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        uint32_t whole = of(crc32c, bytes, len);

        assert_int_equal(whole, of(crc32c_by_table, bytes, len));
        for (size_t cut = 0; cut <= len; cut++) {
            assert_int_equal(crc32c(crc32c(0, bytes, cut), bytes + cut, len - cut), whole);
            assert_int_equal(crc32c_by_table(crc32c(0, bytes, cut), bytes + cut, len - cut), whole);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_bytes_have_known_sums),
        cmocka_unit_test(every_length_and_cut_gives_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
