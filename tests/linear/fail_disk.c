/* For tests of linearizability: a disk that fails, is slow, or takes half of a write and then the
 * process with it. With LD_PRELOAD; the page in the file $FAIL_DISK is shared with the test, which
 * says what happens. Built with offsets of 64 bits, as the daemon is: both call pwrite64(). */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/support/preload.h"

struct page {
    volatile int64_t write_error; /* an errno: writes fail with it, after half of the bytes */
    volatile int64_t sync_error;  /* the same of syncs */
    volatile int64_t sync_us;     /* each sync takes so much longer */
    volatile int64_t write_us;
    volatile int64_t writes_left; /* the write that makes this 0 writes half, and kills; 0: none */
    volatile int64_t failed;
    volatile int64_t free_percent; /* so much of the file system is free; 0: what there is */
};

static struct page none;
static struct page *page = &none;

__attribute__((constructor)) static void find_page(void)
{
    struct page *shared = preload_page("FAIL_DISK", sizeof *page);

    if (shared != NULL)
        page = shared;
}

static void pass(int64_t us)
{
    if (us > 0)
        usleep((useconds_t)us);
}

static int fails(int64_t error)
{
    if (error == 0)
        return 0;
    page->failed++;
    errno = (int)error;
    return 1;
}

typedef ssize_t writer(int fd, const struct iovec *parts, int count, off_t at);

static void write_half(writer *next, int fd, const struct iovec *parts, int count, off_t at)
{
    struct iovec half = {parts[0].iov_base, (parts[0].iov_len + 1) / 2};
    ssize_t n = count > 1 ? next(fd, parts, count - 1, at) : next(fd, &half, 1, at);

    (void)n;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    static writer *next;

    preload_next(&next, "pwritev64");
    pass(page->write_us);
    if (page->writes_left > 0 && __sync_sub_and_fetch(&page->writes_left, 1) == 0) {
        write_half(next, fd, parts, count, at);
        kill(getpid(), SIGKILL);
        for (;;)
            pause();
    }
    if (page->write_error != 0)
        write_half(next, fd, parts, count, at);
    return fails(page->write_error) ? -1 : next(fd, parts, count, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    const struct iovec part = {(void *)(uintptr_t)bytes, len};

    return pwritev(fd, &part, 1, at);
}

int fdatasync(int fd)
{
    static int (*next)(int);

    preload_next(&next, "fdatasync");
    pass(page->sync_us);
    return fails(page->sync_error) ? -1 : next(fd);
}

int statvfs(const char *path, struct statvfs *out)
{
    static int (*next)(const char *, struct statvfs *);
    int result;

    preload_next(&next, "statvfs64");
    result = next(path, out);
    if (result == 0 && page->free_percent != 0)
        out->f_bavail = out->f_blocks * (fsblkcnt_t)page->free_percent / 100;
    return result;
}
