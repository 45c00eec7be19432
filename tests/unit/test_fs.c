/* The files of a real directory: the calls, the lock between processes, whom a directory may belong
 * to; and writes that are short. */
#include "store/disk/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char base[] = "/tmp/test_fs.XXXXXX";
static char path[64];
static char why[300];

static struct fs *open_fs(enum fs_use use, int expected)
{
    struct fs *fs = fs_posix_open(path, use, why, sizeof why);

    if (expected != 0) {
        assert_null(fs);
        assert_int_equal(errno, expected);
    } else if (fs == NULL) {
        fail_msg("%s", why);
    }
    return fs;
}

/* The directories that were synced. */
static ino_t synced[8];
static size_t synced_count;

static int setup(void **state)
{
    (void)state;
    strcpy(base, "/tmp/test_fs.XXXXXX");
    if (mkdtemp(base) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/data", base);
    synced_count = 0;
    return 0;
}

static int teardown(void **state)
{
    char command[100];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    assert_true(synced_count < sizeof synced / sizeof *synced);
    synced[synced_count++] = st.st_ino;
    return __real_fsync(fd);
}

static bool was_synced(const char *name)
{
    struct stat st;

    assert_int_equal(stat(name, &st), 0);
    for (size_t i = 0; i < synced_count; i++) {
        if (synced[i] == st.st_ino)
            return true;
    }
    return false;
}

static mode_t mode_of(const char *name)
{
    struct stat st;

    assert_int_equal(stat(name, &st), 0);
    return st.st_mode & 0777;
}

static void a_directory_is_made_for_its_owner_alone(void **state)
{
    struct fs *fs = open_fs(FS_MAY_CREATE, 0);
    char name[100];
    int file;

    (void)state;
    assert_int_equal(mode_of(path), 0700);
    file = fs->open(fs, "a", FS_CREATE);
    assert_true(file >= 0);
    assert_true((fcntl(file, F_GETFD) & FD_CLOEXEC) != 0);
    snprintf(name, sizeof name, "%s/a", path);
    assert_int_equal(mode_of(name), 0600);
    fs->close(fs, file);
    fs->free(fs);
}

/* The directory keeps its name after a power cut, also if its first process died before it synced
 * the name. */
static void the_name_of_a_directory_is_synced(void **state)
{
    char outer[40];
    struct fs *fs;

    (void)state;
    snprintf(outer, sizeof outer, "%s/outer", base);
    snprintf(path, sizeof path, "%s/outer/inner", base);
    for (int start = 0; start < 2; start++) {
        synced_count = 0;
        assert_int_equal(fs_posix_make_dir(outer), start == 0);
        assert_true(was_synced(base));
        assert_int_equal(mode_of(outer), 0700);
        synced_count = 0;
        fs = open_fs(FS_MAY_CREATE, 0);
        fs->free(fs);
        assert_true(was_synced(outer));
    }
    snprintf(outer, sizeof outer, "%s/no/such", base);
    assert_int_equal(fs_posix_make_dir(outer), -ENOENT);
}

static void a_directory_that_others_write_is_refused(void **state)
{
    static const mode_t refused[] = {0770, 0702, 0777}, taken[] = {0700, 0755, 0750};
    struct fs *fs;

    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(chmod(path, refused[i]), 0);
        open_fs(FS_MAY_CREATE, EPERM);
        assert_non_null(strstr(why, "other users may write"));
        assert_int_equal(chmod(path, taken[i]), 0);
        fs = open_fs(FS_MAY_CREATE, 0);
        fs->free(fs);
    }
}

static void a_directory_of_another_user_is_refused(void **state)
{
    struct fs *fs;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 1234, 1234), 0);
    open_fs(FS_MAY_CREATE, EPERM);
    assert_non_null(strstr(why, "belongs to user 1234"));
    fs = open_fs(FS_MUST_EXIST, 0); /* to look at it */
    fs->free(fs);
}

static void a_path_that_is_no_directory_is_refused(void **state)
{
    FILE *f;

    (void)state;
    open_fs(FS_MUST_EXIST, ENOENT);
    assert_non_null(strstr(why, path));
    f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    open_fs(FS_MAY_CREATE, ENOTDIR);
    snprintf(path, sizeof path, "%s/no/data", base);
    open_fs(FS_MAY_CREATE, ENOENT); /* parents are not made */
}

static void write_text(struct fs *fs, int file, uint64_t at, const char *text)
{
    const struct slice parts[] = {slice_str(text), slice_str("!")};

    assert_int_equal(fs_write_all(fs, file, at, parts, 2), 0);
}

static void count_name(void *arg, const char *name)
{
    *(int *)arg += name[0] != '.';
}

static void files_are_written_read_renamed_and_removed(void **state)
{
    struct fs *fs = open_fs(FS_MAY_CREATE, 0);
    char buffer[32] = "";
    int file, names = 0;

    (void)state;
    assert_int_equal(fs->open(fs, "a", FS_READ), -ENOENT);
    file = fs->open(fs, "a", FS_CREATE);
    write_text(fs, file, 0, "hello");
    write_text(fs, file, 6, "world");
    assert_int_equal(fs->size(fs, file), 12);
    assert_int_equal(fs->truncate(fs, file, 11), 0);
    assert_int_equal(fs->sync(fs, file), 0);
    assert_int_equal(fs->read(fs, file, 3, buffer, 20), 8);
    assert_string_equal(buffer, "lo!world");
    assert_int_equal(fs->read(fs, file, 11, buffer, 20), 0);
    assert_int_equal(fs->close(fs, file), 0);
    assert_int_equal(fs->rename(fs, "a", "b"), 0);
    assert_int_equal(fs->rename(fs, "a", "b"), -ENOENT);
    assert_int_equal(fs->sync_dir(fs), 0);
    assert_int_equal(fs->list(fs, count_name, &names), 0);
    assert_int_equal(names, 1);
    file = fs->open(fs, "b", FS_CREATE); /* empties it */
    assert_int_equal(fs->size(fs, file), 0);
    assert_int_equal(fs->close(fs, file), 0);
    assert_int_equal(fs->remove(fs, "b"), 0);
    assert_int_equal(fs->remove(fs, "b"), -ENOENT);
    fs->free(fs);
}

/* A file that somebody else put there as a link leads nowhere. */
static void a_link_is_not_followed(void **state)
{
    struct fs *fs = open_fs(FS_MAY_CREATE, 0);
    char name[100];

    (void)state;
    snprintf(name, sizeof name, "%s/journal", path);
    assert_int_equal(symlink("/etc/passwd", name), 0);
    assert_int_equal(fs->open(fs, "journal", FS_CREATE), -ELOOP);
    assert_int_equal(fs->open(fs, "journal", FS_READ), -ELOOP);
    fs->free(fs);
}

static int lock_in_a_child(void)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct fs *fs = open_fs(FS_MUST_EXIST, 0);
        int file = fs->lock(fs, "lock");

        fs->free(fs);
        _exit(file >= 0 ? 0 : -file);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_lock_ends_with_its_process(void **state)
{
    struct fs *fs = open_fs(FS_MAY_CREATE, 0);
    int ready[2], status;
    pid_t child;
    char c;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    child = fork();
    if (child == 0) {
        if (fs->lock(fs, "lock") < 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(fs->lock(fs, "lock"), -EWOULDBLOCK);
    assert_int_equal(lock_in_a_child(), EWOULDBLOCK);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_int_equal(lock_in_a_child(), 0);
    assert_true(fs->lock(fs, "lock") >= 0);
    assert_int_equal(lock_in_a_child(), EWOULDBLOCK);
    close(ready[0]);
    close(ready[1]);
    fs->free(fs);
}

/* A real short write: the size of files is limited. */
static void a_write_that_the_system_cuts_short_is_an_error(void **state)
{
    struct fs *fs = open_fs(FS_MAY_CREATE, 0);
    int file = fs->open(fs, "a", FS_CREATE);
    const struct slice parts[] = {slice_str("0123456789"), slice_str("0123456789")};
    struct rlimit before, limit;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 15;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(fs->write(fs, file, 0, parts, 2), 15);
    assert_int_equal(fs_write_all(fs, file, 0, parts, 2), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(fs_write_all(fs, file, 0, parts, 2), 0);
    assert_int_equal(fs->size(fs, file), 20);
    fs->close(fs, file);
    fs->free(fs);
}

/* --- Short writes of any length. --- */

static char written[64];
static size_t each_takes;

static ssize_t write_a_little(struct fs *fs, int file, uint64_t at, const struct slice *parts,
                              size_t count)
{
    size_t done = 0;

    (void)fs;
    (void)file;
    for (size_t i = 0; i < count; i++) {
        assert_true(parts[i].len > 0 || i > 0); /* never a call that writes nothing */
        for (size_t k = 0; k < parts[i].len && done < each_takes; k++)
            written[at + done++] = (char)parts[i].ptr[k];
    }
    return (ssize_t)done;
}

static void all_is_written_however_little_a_call_takes(void **state)
{
    struct fs fs = {.write = write_a_little};
    const struct slice parts[] = {slice_str("abc"), slice_str(""),  slice_str("defg"),
                                  slice_str(""),    slice_str("h"), slice_str("")};

    (void)state;
    for (each_takes = 1; each_takes < 12; each_takes++) {
        memset(written, 0, sizeof written);
        assert_int_equal(fs_write_all(&fs, 0, 5, parts, 6), 0);
        assert_string_equal(written + 5, "abcdefgh");
    }
    each_takes = 0;
    assert_int_equal(fs_write_all(&fs, 0, 5, parts, 6), -EIO); /* and does not go on for ever */
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_directory_is_made_for_its_owner_alone),
        TEST(the_name_of_a_directory_is_synced),
        TEST(a_directory_that_others_write_is_refused),
        TEST(a_directory_of_another_user_is_refused),
        TEST(a_path_that_is_no_directory_is_refused),
        TEST(files_are_written_read_renamed_and_removed),
        TEST(a_link_is_not_followed),
        TEST(a_lock_ends_with_its_process),
        TEST(a_write_that_the_system_cuts_short_is_an_error),
        TEST(all_is_written_however_little_a_call_takes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
