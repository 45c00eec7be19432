/* The files of one directory by system calls, and what every table of file functions needs. See
 * fs.h for the contract. */
#include "store/disk/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* --- With any table. --- */

/* Returns the parts that remain after `done` written bytes. Shortens the first of them. */
static struct slice *skip_written(struct slice *parts, size_t *count, size_t done)
{
    while (*count > 0 && done >= parts->len) {
        done -= parts->len;
        parts++;
        --*count;
    }
    if (*count > 0)
        *parts = slice_from(*parts, done);
    return parts;
}

bool fs_is_full(int error)
{
    return error == -ENOSPC || error == -EDQUOT;
}

int fs_write_all(struct fs *fs, int file, uint64_t at, const struct slice *parts, size_t count)
{
    struct slice left[FS_PARTS_MAX], *next = left;

    memcpy(left, parts, count * sizeof *parts);
    next = skip_written(next, &count, 0);
    while (count > 0) {
        ssize_t n = fs->write(fs, file, at, next, count);

        if (n <= 0)
            return n < 0 ? (int)n : -EIO; /* a file that takes nothing and gives no reason */
        at += (uint64_t)n;
        next = skip_written(next, &count, (size_t)n);
    }
    return 0;
}

/* --- The system's. --- */

struct posix_fs {
    struct fs fs;
    int dir;
};

static int dir_of(struct fs *fs)
{
    return ((struct posix_fs *)(void *)fs)->dir;
}

static int fs_result(int result)
{
    return result < 0 ? -errno : result;
}

static int posix_open(struct fs *fs, const char *name, enum fs_mode mode)
{
    static const int flags[] = {
        [FS_READ] = O_RDONLY,
        [FS_CREATE] = O_RDWR | O_CREAT | O_TRUNC,
    };

    return fs_result(openat(dir_of(fs), name, flags[mode] | O_CLOEXEC | O_NOFOLLOW, 0600));
}

static ssize_t posix_read(struct fs *, int file, uint64_t at, void *to, size_t len)
{
    ssize_t done = 0, n = 1;

    while (n > 0 && (size_t)done < len) {
        n = TEMP_FAILURE_RETRY(
            pread(file, (uint8_t *)to + done, len - (size_t)done, (off_t)at + done));
        if (n < 0)
            return -errno;
        done += n;
    }
    return done;
}

static ssize_t posix_write(struct fs *, int file, uint64_t at, const struct slice *parts,
                           size_t count)
{
    struct iovec vectors[FS_PARTS_MAX];
    ssize_t n;

    for (size_t i = 0; i < count; i++)
        vectors[i] = (struct iovec){(void *)(uintptr_t)parts[i].ptr, parts[i].len};
    n = TEMP_FAILURE_RETRY(pwritev(file, vectors, (int)count, (off_t)at));
    return n < 0 ? -errno : n;
}

static int64_t posix_size(struct fs *, int file)
{
    struct stat st;

    return fstat(file, &st) < 0 ? -errno : st.st_size;
}

/* A sync that a signal ended has synced nothing that we know of, but has reported no failure: it
 * may be asked for again. */
static int posix_sync(struct fs *, int file)
{
    return fs_result((int)TEMP_FAILURE_RETRY(fdatasync(file)));
}

static int posix_truncate(struct fs *, int file, uint64_t size)
{
    return fs_result((int)TEMP_FAILURE_RETRY(ftruncate(file, (off_t)size)));
}

/* Linux has closed it, whatever close() says. */
static int posix_close(struct fs *, int file)
{
    return fs_result(close(file));
}

static int posix_rename(struct fs *fs, const char *from, const char *to)
{
    return fs_result(renameat(dir_of(fs), from, dir_of(fs), to));
}

static int posix_remove(struct fs *fs, const char *name)
{
    return fs_result(unlinkat(dir_of(fs), name, 0));
}

/* Some network file systems have no sync of a directory, and say EINVAL: their server has it done.
 */
static int posix_sync_dir(struct fs *fs)
{
    int result = (int)TEMP_FAILURE_RETRY(fsync(dir_of(fs)));

    return result < 0 && errno == EINVAL ? 0 : fs_result(result);
}

static int posix_list(struct fs *fs, void (*each)(void *arg, const char *name), void *arg)
{
    int fd = openat(dir_of(fs), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), error;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (dir == NULL) {
        error = -errno;
        if (fd >= 0)
            close(fd);
        return error;
    }
    while (errno = 0, (entry = readdir(dir)) != NULL)
        each(arg, entry->d_name);
    error = -errno;
    closedir(dir);
    return error;
}

static int posix_lock(struct fs *fs, const char *name)
{
    int file = openat(dir_of(fs), name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), error;

    if (file < 0)
        return -errno;
    if (flock(file, LOCK_EX | LOCK_NB) == 0)
        return file;
    error = errno;
    close(file);
    return -error;
}

static void posix_free(struct fs *fs)
{
    close(dir_of(fs));
    free(fs);
}

static const struct fs posix_table = {
    .open = posix_open,
    .read = posix_read,
    .write = posix_write,
    .size = posix_size,
    .sync = posix_sync,
    .truncate = posix_truncate,
    .close = posix_close,
    .rename = posix_rename,
    .remove = posix_remove,
    .sync_dir = posix_sync_dir,
    .list = posix_list,
    .lock = posix_lock,
    .free = posix_free,
};

/* --- Opening. --- */

/* The name of a new directory is synced, too: its parent has it. */
static int sync_parent(int dir)
{
    int parent = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC), error;

    if (parent < 0)
        return 0; /* it may be closed to us; then it is not ours to sync */
    error = fsync(parent) < 0 && errno != EINVAL ? errno : 0;
    close(parent);
    return error;
}

/* An earlier process may have created the directory and died before it synced the name. So the
 * parent of an existing directory is synced again, if possible. */
int fs_posix_make_dir(const char *path)
{
    bool made = mkdir(path, 0700) == 0;
    int dir, error;

    if (!made && errno != EEXIST)
        return -errno;
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    error = dir < 0 ? errno : sync_parent(dir);
    if (dir >= 0)
        close(dir);
    return !made ? 0 : error == 0 ? 1 : -error;
}

static int open_dir(const char *path, enum fs_use use, bool *made, int *dir)
{
    int result = use == FS_MAY_CREATE ? fs_posix_make_dir(path) : 0;

    *made = result > 0;
    if (result < 0)
        return -result;
    *dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *dir < 0 ? errno : 0;
}

static int check_owner(int dir, const char *path, char *why, size_t why_size)
{
    struct stat st;

    if (fstat(dir, &st) < 0)
        return errno;
    if (st.st_uid != geteuid()) {
        snprintf(why, why_size,
                 "%s belongs to user %u, and this process is user %u: name a directory in it, "
                 "which is then made, or change its owner",
                 path, (unsigned)st.st_uid, (unsigned)geteuid());
        return EPERM;
    }
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        snprintf(why, why_size,
                 "other users may write in %s (its mode is %03o): name a directory in it, which is "
                 "then made, or chmod it to 700",
                 path, (unsigned)st.st_mode & 0777);
        return EPERM;
    }
    return 0;
}

static struct fs *fs_refuse(int dir, int error, const char *path, char *why, size_t why_size)
{
    if (why[0] == '\0')
        snprintf(why, why_size, "%s: %s", path, strerror(error));
    if (dir >= 0)
        close(dir);
    errno = error;
    return NULL;
}

struct fs *fs_posix_open(const char *path, enum fs_use use, char *why, size_t why_size)
{
    struct posix_fs *p;
    int dir = -1, failed;
    bool made;

    why[0] = '\0';
    failed = open_dir(path, use, &made, &dir);
    if (failed == 0 && !made && use == FS_MAY_CREATE)
        failed = check_owner(dir, path, why, why_size);
    if (failed != 0)
        return fs_refuse(dir, failed, path, why, why_size);
    p = malloc(sizeof *p);
    if (p == NULL)
        return fs_refuse(dir, ENOMEM, path, why, why_size);
    *p = (struct posix_fs){.fs = posix_table, .dir = dir};
    return &p->fs;
}
