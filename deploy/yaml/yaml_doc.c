/* Reads the bytes of YAML files, and frees the trees. */
#include "deploy/yaml/yaml_doc.h"

#include "deploy/yaml/yaml_build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first line that a template has and YAML has not: braces of helm, jinja and the like, or a
 * line that is nothing but a placeholder of envsubst. NULL: none; *what says how to render it. */
static const char *find_template(const struct yaml_file *f, struct yaml_mark *mark,
                                 const char **what)
{
    *mark = (struct yaml_mark){.line = 1};
    for (const char *line = f->bytes; line < f->bytes + f->len; mark->line++) {
        const char *end = memchr(line, '\n', f->len - (size_t)(line - f->bytes));
        size_t len = end == NULL ? f->len - (size_t)(line - f->bytes) : (size_t)(end - line);
        const char *first = line + strspn(line, " -"), *at = memmem(line, len, "{{", 2);

        *what = "helm template";
        if (at == NULL)
            at = memmem(line, len, "{%", 2);
        if (at == NULL && first < line + len && first[0] == '$' && first[1] == '{') {
            *what = "envsubst";
            at = first + strcspn(first, "}\n ");
            at = *at == '}' && (at[1] == '\n' || at[1] == '\r' || at[1] == '\0') ? first : NULL;
        }
        if (at != NULL && *first != '#') {
            mark->column = (unsigned)(at - line) + 1;
            mark->offset = (size_t)(at - f->bytes);
            return at;
        }
        line += len + 1;
    }
    return NULL;
}

/* f has its bytes and its name. The reader's messages about a template would not help the user. */
static bool finish(struct yaml_file *out, struct yaml_file *f, struct diag *d)
{
    struct diag own = {0};
    struct yaml_mark mark;
    const char *what;
    bool ok = yaml_doc_build(f, &own);
    bool template = !ok && find_template(f, &mark, &what) != NULL;

    if (template)
        diag_error(d, f->name, mark,
                   "this is a template: render it first (%s), and give what comes out", what);
    else
        diag_append(d, &own);
    diag_free(&own);
    if (!ok)
        yaml_file_free(f);
    *out = *f;
    out->is_template = template;
    return ok;
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

    *out = f;
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
