/* The token that stands for an operator. See token.h for the contract. */
#include "rdzv/http/token.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static const char scheme[] = "Bearer ";

static bool is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* Never waits: what is no plain file is not read. */
static ssize_t read_plain(const char *path, uint8_t *out, size_t cap)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), error = EINVAL;
    struct stat about;
    ssize_t n = -1;

    if (fd < 0)
        return -1;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
        n = read(fd, out, cap);
        error = errno;
    }
    close(fd);
    errno = error;
    return n;
}

/* False with errno. */
static bool read_token(const char *path, uint8_t out[TOKEN_FILE_MAX + 1], struct slice *token)
{
    ssize_t n = read_plain(path, out, TOKEN_FILE_MAX + 1);

    if (n < 0)
        return false;
    if (n > TOKEN_FILE_MAX) {
        errno = EFBIG;
        return false;
    }
    while (n > 0 && is_space(out[n - 1]))
        n--;
    errno = ENODATA;
    *token = (struct slice){out, (size_t)n};
    return n > 0;
}

/* Looks at every byte of what was sent, whatever the first difference. `right` is not empty. */
static bool is_same(struct slice sent, struct slice right)
{
    volatile uint8_t differs = sent.len != right.len;

    for (size_t i = 0; i < sent.len; i++)
        differs |= (uint8_t)(sent.ptr[i] ^ right.ptr[i % right.len]);
    return differs == 0;
}

bool token_is_sent(struct slice authorization)
{
    return authorization.len >= strlen(scheme) &&
           strncasecmp((const char *)authorization.ptr, scheme, strlen(scheme)) == 0;
}

enum token_result token_check(const char *path, struct slice authorization)
{
    enum token_result result = TOKEN_UNREADABLE;
    uint8_t text[TOKEN_FILE_MAX + 1];
    struct slice right;

    if (read_token(path, text, &right))
        result =
            is_same(slice_from(authorization, strlen(scheme)), right) ? TOKEN_RIGHT : TOKEN_WRONG;
    explicit_bzero(text, sizeof text);
    return result;
}

bool token_file_is_usable(const char *path)
{
    uint8_t text[TOKEN_FILE_MAX + 1];
    struct slice token;
    bool usable = read_token(path, text, &token);
    int error = errno;

    explicit_bzero(text, sizeof text);
    errno = error;
    return usable;
}
