/* systemd's readiness datagrams and inherited sockets, spoken by hand: two small protocols that are
 * promised to stay, against a library with many dependencies. */
#include "rdzv/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/bytes.h"

#define SOCKETS_MAX 4096 /* a larger number is a mistake */

int notify_send(const char *address, const char *state)
{
    struct timeval patience = {.tv_sec = 1};
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len;
    int fd, err = 0;

    if (address == NULL || address[0] == '\0')
        return 0;
    len = strlen(address);
    if (address[0] != '/' && address[0] != '@')
        return -EAFNOSUPPORT;
    if (len >= sizeof to.sun_path)
        return -ENAMETOOLONG;
    memcpy(to.sun_path, address, len);
    if (address[0] == '@')
        to.sun_path[0] = '\0'; /* the length ends an abstract name, not a NUL */
    else
        len++;

    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0 ||
        sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
        err = -errno;
    close(fd);
    return err;
}

/* False: the variable is missing, or no number up to `max`. */
static bool parse_env_number(const char *text, uint64_t max, uint64_t *out)
{
    return text != NULL && slice_to_u64(slice_str(text), max, out);
}

/* Checks and describes one descriptor; `out` is zeroed. */
static int take_socket(int fd, struct notify_socket *out)
{
    struct sockaddr_storage address = {0};
    socklen_t address_len = sizeof address;
    int type = 0, listening = 0, v6_only = 0;
    socklen_t len = sizeof type;
    char port[8] = "";
    int flags;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
        return -errno;
    len = sizeof listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &address_len) < 0)
        return -errno;
    if (type != SOCK_STREAM || !listening ||
        (address.ss_family != AF_INET && address.ss_family != AF_INET6))
        return -EPROTOTYPE;

    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return -errno;
    out->fd = fd;
    getnameinfo((struct sockaddr *)&address, address_len, out->host, sizeof out->host, port,
                sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    out->port = (uint16_t)atoi(port);
    len = sizeof v6_only;
    if (address.ss_family == AF_INET6 && strcmp(out->host, "::") == 0 &&
        getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, &len) == 0 && !v6_only)
        out->host[0] = '\0';
    return 0;
}

/* Without FileDescriptorName=, systemd makes up a name: the socket unit's own, or one of these. */
static bool is_made_up(const char *name)
{
    size_t len = strlen(name);

    return strcmp(name, "unknown") == 0 || strcmp(name, "stored") == 0 ||
           strcmp(name, "connection") == 0 || (len > 7 && strcmp(name + len - 7, ".socket") == 0);
}

/* Reads the next of the colon-separated names; a name that is too long or that systemd made up
 * becomes "". */
static const char *take_name(const char *names, char *out, size_t cap)
{
    size_t len = strcspn(names, ":");

    if (len < cap) {
        memcpy(out, names, len);
        out[len] = '\0';
        if (is_made_up(out))
            out[0] = '\0';
    }
    return names[len] == ':' ? names + len + 1 : names + len;
}

int notify_take_sockets(const struct notify_env *env, struct notify_socket **sockets, size_t *count,
                        int *bad_fd)
{
    const char *names = env->listen_fdnames == NULL ? "" : env->listen_fdnames;
    struct notify_socket *taken;
    uint64_t pid, n;

    if (!parse_env_number(env->listen_pid, INT32_MAX, &pid) || pid != (uint64_t)env->self ||
        !parse_env_number(env->listen_fds, SOCKETS_MAX, &n) || n == 0) {
        *sockets = NULL;
        *count = 0;
        return 0;
    }
    taken = calloc(n, sizeof *taken);
    if (taken == NULL)
        return -ENOMEM;
    for (uint64_t i = 0; i < n; i++) {
        int fd = env->first_fd + (int)i;
        int err = take_socket(fd, &taken[i]);

        if (err < 0) {
            *bad_fd = fd;
            free(taken);
            return err;
        }
        names = take_name(names, taken[i].name, sizeof taken[i].name);
    }
    *sockets = taken;
    *count = n;
    return 0;
}
