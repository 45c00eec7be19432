/* Files that change: in place, by a rename, behind a symbolic link; and when that is over. */
#include "rdzv/net/certificate.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/rdzv-file-watch-XXXXXX";

static const char *path(const char *name)
{
    static char paths[8][200];
    static unsigned next;
    char *text = paths[next++ % 8];

    snprintf(text, sizeof paths[0], "%s/%s", folder, name);
    return text;
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(path(name), "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"cert", "key", "one", "two", "link", "new"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(path(names[i]));
    return rmdir(folder);
}

static void begin(struct file_watch *w, const char *first, const char *second)
{
    const char *const paths[FILE_WATCH_MAX] = {first, second};

    file_watch_begin(w, paths);
    assert_false(file_watch_poll(w));
}

static void a_change_is_told_once_when_it_is_over(void **state)
{
    struct file_watch w;

    (void)state;
    write_file("cert", "a");
    write_file("key", "b");
    begin(&w, path("cert"), path("key"));
    write_file("cert", "aa");
    assert_false(file_watch_poll(&w)); /* the key may follow */
    write_file("key", "bb");
    assert_false(file_watch_poll(&w));
    assert_true(file_watch_poll(&w));
    assert_false(file_watch_poll(&w));
}

static void a_rename_and_a_link_are_changes(void **state)
{
    struct file_watch w;

    (void)state;
    write_file("one", "same");
    write_file("two", "same");
    assert_int_equal(symlink("one", path("link")), 0);
    begin(&w, path("link"), NULL);
    assert_int_equal(symlink("two", path("new")), 0);
    assert_int_equal(rename(path("new"), path("link")), 0);
    assert_false(file_watch_poll(&w));
    assert_true(file_watch_poll(&w));
    write_file("new", "same");
    assert_int_equal(rename(path("new"), path("two")), 0);
    assert_false(file_watch_poll(&w));
    assert_true(file_watch_poll(&w));
}

static void a_file_that_goes_and_comes_back_is_a_change_each_time(void **state)
{
    struct file_watch w;

    (void)state;
    write_file("one", "text");
    begin(&w, path("one"), NULL);
    unlink(path("one"));
    assert_false(file_watch_poll(&w));
    assert_true(file_watch_poll(&w));
    write_file("one", "text");
    assert_false(file_watch_poll(&w));
    assert_true(file_watch_poll(&w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_told_once_when_it_is_over),
        cmocka_unit_test(a_rename_and_a_link_are_changes),
        cmocka_unit_test(a_file_that_goes_and_comes_back_is_a_change_each_time),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
