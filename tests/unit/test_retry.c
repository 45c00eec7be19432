/* How long a relay waits between two tries to reach its store. */
#include "rdzv/relay/upstream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void the_first_try_is_at_once(void **state)
{
    (void)state;
    assert_int_equal(upstream_retry_ms(0, 12345), 0);
}

/* Around 50 ms, 100, 200, 400, 800, and then a second; a quarter more or less. */
static void delays_double_up_to_a_second(void **state)
{
    static const uint32_t wanted[] = {50, 100, 200, 400, 800, 1000, 1000, 1000};

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t least = UINT32_MAX, most = 0;

        for (uint32_t random = 0; random < 5000; random++) {
            uint32_t delay = upstream_retry_ms(i + 1, random);

            least = delay < least ? delay : least;
            most = delay > most ? delay : most;
        }
        assert_in_range(least, wanted[i] * 3 / 4, wanted[i] * 3 / 4 + 1); /* rounded */
        assert_in_range(most, wanted[i] * 5 / 4 - 1, wanted[i] * 5 / 4 + 1);
    }
    assert_in_range(upstream_retry_ms(UINT32_MAX, 0), 750, 1250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_try_is_at_once),
        cmocka_unit_test(delays_double_up_to_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
