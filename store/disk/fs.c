/* What every table of file functions needs. See fs.h for the contract. */
#include "store/disk/fs.h"

#include <errno.h>

/* What is left of the parts behind the first `done` bytes, which were written. The first one that
 * is not done is changed. */
static struct slice *skip(struct slice *parts, size_t *count, size_t done)
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
    next = skip(next, &count, 0);
    while (count > 0) {
        ssize_t n = fs->write(fs, file, at, next, count);

        if (n <= 0)
            return n < 0 ? (int)n : -EIO; /* a file that takes nothing and gives no reason */
        at += (uint64_t)n;
        next = skip(next, &count, (size_t)n);
    }
    return 0;
}
