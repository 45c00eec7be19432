/* The file of a Unix socket. See listen.h for the contract. */
#include "rdzv/net/listen.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Only a socket without a listener refuses a connection. */
static bool is_left_over(const struct sockaddr_un *at)
{
    int fd = open_socket(), error;

    if (fd < 0)
        return false;
    error = connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 ? 0 : errno;
    close(fd);
    return error == ECONNREFUSED;
}

static int bind_private(int fd, const struct sockaddr_un *at)
{
    mode_t before = umask(0177);
    int result = bind(fd, (const struct sockaddr *)at, sizeof *at), error = errno;

    umask(before);
    errno = error;
    return result;
}

/* 0, or an errno. */
static int bind_or_replace(int fd, const struct sockaddr_un *at)
{
    struct stat there;

    if (bind_private(fd, at) == 0)
        return 0;
    if (errno != EADDRINUSE)
        return errno;
    if (lstat(at->sun_path, &there) == 0 && !S_ISSOCK(there.st_mode))
        return EEXIST;
    if (!is_left_over(at))
        return EADDRINUSE;
    if (unlink(at->sun_path) < 0 && errno != ENOENT)
        return errno;
    return bind_private(fd, at) == 0 ? 0 : errno;
}

int unix_socket_listen(const char *path, struct unix_socket_file *file)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat made;
    int fd, error;

    if (strlen(path) >= sizeof at.sun_path)
        return net_fail(-1, ENAMETOOLONG);
    strcpy(at.sun_path, path);
    fd = open_socket();
    if (fd < 0)
        return -1;
    error = bind_or_replace(fd, &at);
    if (error != 0)
        return net_fail(fd, error);
    if (lstat(path, &made) < 0 || listen(fd, 0x7fffffff) < 0)
        return net_fail(fd, errno);
    *file = (struct unix_socket_file){made.st_dev, made.st_ino};
    return fd;
}

void unix_socket_remove(const char *path, const struct unix_socket_file *file)
{
    struct stat there;

    if (lstat(path, &there) == 0 && there.st_dev == file->device && there.st_ino == file->inode)
        unlink(path);
}
