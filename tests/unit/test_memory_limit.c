/* How much memory the process may take: settings, cgroups of both versions, the machine. */
#include "rdzv/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "rdzv/config/config.h"

#define GIB (UINT64_C(1) << 30)

/* A place with a /proc and a /sys of its own. */
static char root[64];

static int begin(void **state)
{
    (void)state;
    strcpy(root, "/tmp/memory_limit.XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int end(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static void write_file(const char *path, const char *text)
{
    char name[512];
    FILE *f;

    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *at = name + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(name, 0700);
        *at = '/';
    }
    f = fopen(name, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static uint64_t found(uint64_t machine)
{
    return memory_limit_find(CONFIG_AUTO, root, machine).bytes;
}

static void a_setting_counts_alone(void **state)
{
    (void)state;
    write_file("/proc/self/cgroup", "0::/\n");
    write_file("/sys/fs/cgroup/memory.max", "1000000\n");
    assert_int_equal(memory_limit_find(0, root, GIB).bytes, 0);
    assert_int_equal(memory_limit_find(2 * GIB, root, GIB).bytes, 2 * GIB);
}

static void without_a_cgroup_it_is_of_the_machine(void **state)
{
    (void)state;
    assert_int_equal(found(1000), 800);
    assert_int_equal(found(0), 0); /* nothing is known */
    write_file("/proc/self/cgroup", "0::/\n");
    write_file("/sys/fs/cgroup/memory.max", "max\n");
    assert_int_equal(found(1000), 800);
}

static void the_lowest_of_version_2_counts(void **state)
{
    (void)state;
    write_file("/proc/self/cgroup", "0::/kube/pod/container\n");
    write_file("/sys/fs/cgroup/kube/pod/container/memory.max", "max\n");
    write_file("/sys/fs/cgroup/kube/pod/memory.max", "1000000000\n");
    write_file("/sys/fs/cgroup/kube/memory.max", "4000000000\n");
    assert_int_equal(found(8 * GIB), 800000000);
    assert_int_equal(found(1000), 800); /* the machine has less than that */
}

/* As in a container: the path is the host's, and the top of the mount is the container's. */
static void the_mounted_cgroup_limit_is_found(void **state)
{
    (void)state;
    write_file("/proc/self/cgroup", "12:pids:/a\n9:memory:/docker/0123\n0::/docker/0123\n");
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000000\n");
    assert_int_equal(found(8 * GIB), 1600000000);
    write_file("/sys/fs/cgroup/memory.max", "1000000000\n");
    assert_int_equal(found(8 * GIB), 800000000);
}

/* Version 1 says a number where there is no limit. */
static void no_limit_of_version_1_is_none(void **state)
{
    (void)state;
    write_file("/proc/self/cgroup", "9:memory:/\n");
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(found(1000), 800);
}

static void odd_files_are_no_harm(void **state)
{
    (void)state;
    write_file("/proc/self/cgroup", "\nmemory\n:\n::\n9:memory\n9:memory:\n0::\n");
    write_file("/sys/fs/cgroup/memory.max", "\n");
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "none\n");
    assert_int_equal(found(1000), 800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_setting_counts_alone, begin, end),
        cmocka_unit_test_setup_teardown(without_a_cgroup_it_is_of_the_machine, begin, end),
        cmocka_unit_test_setup_teardown(the_lowest_of_version_2_counts, begin, end),
        cmocka_unit_test_setup_teardown(the_mounted_cgroup_limit_is_found, begin, end),
        cmocka_unit_test_setup_teardown(no_limit_of_version_1_is_none, begin, end),
        cmocka_unit_test_setup_teardown(odd_files_are_no_harm, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
