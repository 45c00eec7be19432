/* Saves a file by a temporary file beside it, fsync, a hard link as the backup, and rename. */
#include "deploy/rewrite/rewrite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKUPS_MAX 1000

static char *path_text(const char *format, const char *path, int n)
{
    char *out = NULL;

    if (asprintf(&out, format, path, n) < 0)
        abort();
    return out;
}

static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Writes the new contents into a file of its own, with the permissions of the old one. */
static bool write_aside(struct save *s)
{
    struct stat st;
    int fd, ok;

    s->target = realpath(s->path, NULL);
    if (s->target == NULL || stat(s->target, &st) < 0)
        return false;
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return false;
    }
    s->temp = path_text("%s.XXXXXX", s->target, 0);
    fd = mkstemp(s->temp);
    if (fd < 0) {
        free(s->temp);
        s->temp = NULL;
        return false;
    }
    /* Only root can keep the owner; anybody can keep the permissions. */
    ok = fchown(fd, st.st_uid, st.st_gid);
    ok = fchmod(fd, st.st_mode & 07777) == 0 && write_all(fd, s->bytes, s->len) == 0 &&
         fsync(fd) == 0;
    if (close(fd) < 0)
        ok = 0;
    return ok != 0;
}

/* A copy, for file systems without hard links. */
static bool copy_to(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), out, err;
    char part[65536];
    ssize_t n = -1;
    struct stat st;

    if (in < 0 || fstat(in, &st) < 0)
        return false;
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 07777);
    while (out >= 0 && (n = read(in, part, sizeof part)) > 0) {
        if (write_all(out, part, (size_t)n) < 0)
            n = -1;
        if (n < 0)
            break;
    }
    if (out >= 0 && n == 0)
        n = fsync(out);
    err = errno;
    close(in);
    if (out >= 0)
        close(out);
    if (out >= 0 && n < 0)
        unlink(to);
    errno = err;
    return out >= 0 && n == 0;
}

/* The first free name: an older backup is never overwritten. */
static bool keep_old(struct save *s)
{
    for (int n = 1; n <= BACKUPS_MAX; n++) {
        s->backup = path_text(n == 1 ? "%s.bak" : "%s.bak.%d", s->target, n);
        if (link(s->target, s->backup) == 0)
            return true;
        if (errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK) {
            if (copy_to(s->target, s->backup))
                return true;
        }
        free(s->backup);
        s->backup = NULL;
        if (errno != EEXIST)
            return false;
    }
    return false;
}

const char *save_files(struct save *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!write_aside(&list[i]))
            return list[i].path;
    }
    for (size_t i = 0; i < count; i++) {
        if (!keep_old(&list[i]))
            return list[i].path;
    }
    for (size_t i = 0; i < count; i++) {
        if (rename(list[i].temp, list[i].target) < 0)
            return list[i].path;
        free(list[i].temp);
        list[i].temp = NULL;
    }
    return NULL;
}

void save_fini(struct save *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].temp != NULL) { /* it was not renamed to the target */
            unlink(list[i].temp);
            if (list[i].backup != NULL)
                unlink(list[i].backup);
        }
        free(list[i].temp);
        free(list[i].target);
        free(list[i].backup);
        list[i].temp = list[i].target = list[i].backup = NULL;
    }
}
