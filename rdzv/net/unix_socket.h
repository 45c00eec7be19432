/* The file of a Unix socket: made for its owner alone, never taken from a process that serves it,
 * and removed at the end. */
#pragma once

#include <sys/types.h>

/* Which file it is: another process may have put one of its own in its place. */
struct unix_socket_file {
    dev_t device;
    ino_t inode;
};

/* A listening socket, mode 0600, which nobody else can connect to at any moment; or -1 with errno:
 * EADDRINUSE when a process serves the path, EEXIST when there is something that is no socket. What
 * a process that was killed has left there is replaced. */
int unix_socket_listen(const char *path, struct unix_socket_file *file);

/* Removes the file, if it is still that one. */
void unix_socket_remove(const char *path, const struct unix_socket_file *file);
