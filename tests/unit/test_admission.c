/* Who gets in when descriptors or connections run short. */
#include "rdzv/net/refusal.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/un.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum from { AFAR, LOOPBACK, UNIX };

static struct peer peer(enum from from)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_addr.s_addr =
                                       htonl(from == LOOPBACK ? INADDR_LOOPBACK : 0x0a000001)};
    const struct sockaddr_un file = {.sun_family = AF_UNIX};

    return peer_of(from == UNIX ? (const struct sockaddr *)&file : (const struct sockaddr *)&at);
}

static enum admission ask(struct admission_room room, enum from from, enum refusal_reason *why)
{
    const struct peer p = peer(from);

    return admission_of(&room, &p, why);
}

/* How many descriptors from the end a kind of peer is let in, so and no further. */
static void the_last_descriptors_are_kept(void **state)
{
    static const struct {
        uint64_t max;
        enum from from;
        uint64_t full,
            probation; /* admitted with this many free places, and refused with one fewer */
    } rows[] = {
        {1024, AFAR, 33, 5},    {1024, LOOPBACK, 13, 5}, {1024, UNIX, 5, 5},
        {1000000, AFAR, 33, 5}, {64, AFAR, 17, 3},       {64, LOOPBACK, 7, 3},
        {64, UNIX, 3, 3},       {20, AFAR, 6, 1},        {20, LOOPBACK, 2, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (uint64_t left = 1; left <= 40 && left <= rows[i].max; left++) {
            struct admission_room room = {.descriptor = rows[i].max - left,
                                          .descriptors_max = rows[i].max};
            enum refusal_reason why = REFUSAL_REASONS;
            enum admission got = ask(room, rows[i].from, &why);

            print_message("  row %zu, %u left\n", i, (unsigned)left);
            assert_int_equal(got, left >= rows[i].full        ? ADMISSION_FULL
                                  : left >= rows[i].probation ? ADMISSION_PROBATION
                                                              : ADMISSION_NONE);
            assert_int_equal(why, got == ADMISSION_FULL ? REFUSAL_REASONS : REFUSAL_DESCRIPTORS);
        }
    }
}

static void a_limit_of_connections_leaves_room_for_probes(void **state)
{
    struct admission_room room = {
        .descriptor = 10, .descriptors_max = 1024, .connections = 4, .connections_max = 5};
    enum refusal_reason why = REFUSAL_REASONS;

    (void)state;
    assert_int_equal(ask(room, AFAR, &why), ADMISSION_FULL);
    room.connections = 5;
    assert_int_equal(why, REFUSAL_REASONS);
    assert_int_equal(ask(room, AFAR, &why), ADMISSION_PROBATION);
    assert_int_equal(why, REFUSAL_CONNECTIONS);
    assert_int_equal(ask(room, LOOPBACK, &why), ADMISSION_PROBATION);
    assert_int_equal(ask(room, UNIX, &why), ADMISSION_FULL);
    room.descriptor = 1020;
    assert_int_equal(ask(room, AFAR, &why), ADMISSION_NONE);
    assert_int_equal(why, REFUSAL_DESCRIPTORS);
    room = (struct admission_room){.descriptor = 10, .descriptors_max = 1024, .connections = 900};
    assert_int_equal(ask(room, AFAR, &why), ADMISSION_FULL);
    room = (struct admission_room){.descriptor = 2000, .descriptors_max = 1024};
    assert_int_equal(ask(room, UNIX, &why), ADMISSION_NONE); /* the limit was lowered */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_descriptors_are_kept),
        cmocka_unit_test(a_limit_of_connections_leaves_room_for_probes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
