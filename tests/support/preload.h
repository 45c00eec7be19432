/* For libraries that stand before libc in a daemon under test (LD_PRELOAD): the function that would
 * have been called, and a page that a test shares with the library. */
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* `next` points to a function pointer, NULL until the first call. */
static inline void preload_next(void *next, const char *name)
{
    void **at = next;

    if (*at == NULL)
        *at = dlsym(RTLD_NEXT, name);
}

/* The first `size` bytes of the file that the environment variable names; NULL without one. */
static inline void *preload_page(const char *variable, size_t size)
{
    const char *path = getenv(variable);
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *at = MAP_FAILED;

    if (fd >= 0) {
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    }
    return at == MAP_FAILED ? NULL : at;
}
