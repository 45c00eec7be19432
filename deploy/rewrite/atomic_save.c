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

/* Writes the new contents into a file of its own, with the permissions of the old one. */
static bool write_aside(struct arena *a, struct save *s)
{
    char *target = realpath(s->path, NULL), *temp;
    struct stat st;
    FILE *out;
    int fd, ok;

    if (target == NULL)
        return false;
    s->target = arena_copy(a, target, strlen(target));
    free(target);
    if (stat(s->target, &st) < 0)
        return false;
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return false;
    }
    temp = arena_text(a, "%s.XXXXXX", s->target);
    fd = mkstemp(temp);
    if (fd < 0)
        return false;
    s->temp = temp;
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
static bool keep_old(struct arena *a, struct save *s)
{
    for (int n = 1; n <= BACKUPS_MAX; n++) {
        const char *name =
            n == 1 ? arena_text(a, "%s.bak", s->target) : arena_text(a, "%s.bak.%d", s->target, n);

        if (link(s->target, name) == 0 ||
            ((errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK) &&
             copy_to(s->target, name))) {
            s->backup = name;
            return true;
        }
        if (errno != EEXIST)
            return false;
    }
    return false;
}

/* The path of the file that failed, or NULL. */
static const char *write_and_rename(struct arena *a, struct save *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!write_aside(a, &list[i]))
            return list[i].path;
    }
    for (size_t i = 0; i < count; i++) {
        if (!keep_old(a, &list[i]))
            return list[i].path;
    }
    for (size_t i = 0; i < count; i++) {
        if (rename(list[i].temp, list[i].target) < 0)
            return list[i].path;
        list[i].temp = NULL;
    }
    return NULL;
}

const char *save_files(struct arena *a, struct save *list, size_t count)
{
    const char *failed = write_and_rename(a, list, count);
    int err = errno;

    for (size_t i = 0; i < count; i++) {
        if (list[i].temp == NULL)
            continue; /* already renamed to its target, or never written */
        unlink(list[i].temp);
        if (list[i].backup != NULL)
            unlink(list[i].backup);
    }
    errno = err;
    return failed;
}
