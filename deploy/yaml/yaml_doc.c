/* Reads the bytes of YAML files, and frees the trees. */
#include "deploy/yaml/yaml_doc.h"

#include "deploy/yaml/yaml_build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* f has its bytes and its name. */
static bool finish(struct yaml_file *out, struct yaml_file *f, struct diag *d)
{
    if (!yaml_doc_build(f, d)) {
        yaml_file_free(f);
        return false;
    }
    *out = *f;
    return true;
}

bool yaml_file_parse(struct yaml_file *out, const char *name, const char *bytes, size_t len,
                     struct diag *d)
{
    struct yaml_file f = {.len = len};

    f.name = arena_copy(&f.arena, name, strlen(name));
    f.bytes = malloc(len + 1);
    if (f.bytes == NULL)
        abort();
    memcpy(f.bytes, bytes, len);
    f.bytes[len] = '\0';
    return finish(out, &f, d);
}

/* All bytes of fd, or NULL and errno; EFBIG if there are more than `max`. */
static char *read_all(int fd, size_t max, size_t *len)
{
    size_t cap = 64 << 10, filled = 0;
    char *bytes = malloc(cap + 1);
    ssize_t n = 1;

    while (bytes != NULL && n != 0 && filled <= max) {
        if (filled == cap) {
            char *more = realloc(bytes, (cap *= 2) + 1);

            if (more == NULL)
                abort();
            bytes = more;
        }
        n = read(fd, bytes + filled, cap - filled);
        if (n > 0)
            filled += (size_t)n;
        else if (n < 0 && errno != EINTR)
            break;
    }
    if (bytes == NULL)
        abort();
    if (n < 0 || filled > max) {
        int err = n < 0 ? errno : EFBIG;

        free(bytes);
        errno = err;
        return NULL;
    }
    bytes[filled] = '\0';
    *len = filled;
    return bytes;
}

bool yaml_file_read(struct yaml_file *out, const char *path, size_t size_max, struct diag *d)
{
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "<stdin>" : path;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC), err;
    struct yaml_file f = {0};

    f.bytes = fd < 0 ? NULL : read_all(fd, size_max, &f.len);
    err = errno;
    if (fd >= 0 && !standard)
        close(fd);
    if (f.bytes == NULL && err == EFBIG) {
        diag_error(d, name, (struct yaml_mark){0}, "more than %zu MiB: give it in parts",
                   size_max >> 20);
        return false;
    }
    if (f.bytes == NULL) {
        diag_error(d, name, (struct yaml_mark){0}, "cannot be read: %s", strerror(err));
        return false;
    }
    f.name = arena_copy(&f.arena, name, strlen(name));
    return finish(out, &f, d);
}

void yaml_file_free(struct yaml_file *f)
{
    if (f == NULL)
        return;
    free(f->bytes);
    arena_free(&f->arena);
    *f = (struct yaml_file){0};
}
