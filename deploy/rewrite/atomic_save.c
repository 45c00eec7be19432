/* Saves a file by a temporary file beside it, fsync, a hard link as the backup, and rename. */
#include "deploy/rewrite/rewrite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKUPS_MAX 1000
#define COPY_MAX    (1 << 30) /* bytes at a time */

static char *path_text(const char *format, const char *path, int n)
{
    char *out = NULL;

    if (asprintf(&out, format, path, n) < 0)
        abort();
    return out;
}

/* Writes the new contents into a file of its own, with the permissions of the old one. */
static bool write_aside(struct save *s)
{
    struct stat st;
    FILE *out;
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
    ok = fchmod(fd, st.st_mode & 07777) == 0;
    out = fdopen(fd, "w");
    ok = ok && out != NULL && fwrite(s->bytes, 1, s->len, out) == s->len && fflush(out) == 0 &&
         fsync(fd) == 0;
    return (out != NULL ? fclose(out) : close(fd)) == 0 && ok;
}

/* A copy, for file systems without hard links. */
static bool copy_to(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), out = -1, err;
    struct stat st;
    ssize_t n = -1;

    if (in >= 0 && fstat(in, &st) == 0)
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 07777);
    while (out >= 0 && (n = sendfile(out, in, NULL, COPY_MAX)) > 0)
        ;
    if (n == 0)
        n = fsync(out);
    err = errno;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    if (out >= 0 && n < 0)
        unlink(to);
    errno = err;
    return n == 0;
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
