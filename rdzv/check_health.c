/* One GET, and nothing of HTTP but the status. See check_health.h for the contract. */
#include "rdzv/check_health.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 2000

struct target {
    char host[256];
    char port[6];
    char request[512];
};

static int64_t health_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The path is sent as it stands: it has to be text without blanks. */
static bool write_health_request(const char *path, struct target *out)
{
    for (const char *p = path; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~')
            return false;
    }
    return (size_t)snprintf(out->request, sizeof out->request,
                            "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                            path) < sizeof out->request;
}

static bool split(const char *url, struct target *out)
{
    size_t whole = strcspn(url, "/"), len = whole, digits = 0;
    const char *host = url;

    while (len > 0 && url[len - 1] >= '0' && url[len - 1] <= '9') {
        len--;
        digits++;
    }
    if (len < 2 || url[len - 1] != ':' || digits == 0 || digits >= sizeof out->port ||
        url[whole] == '\0')
        return false;
    memcpy(out->port, url + len, digits);
    out->port[digits] = '\0';
    len--;
    if (len > 1 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    }
    if (len == 0 || len >= sizeof out->host)
        return false;
    memcpy(out->host, host, len);
    out->host[len] = '\0';
    return write_health_request(url + whole, out);
}

/* 0, or -errno. */
static int wait_for(int fd, short events, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = events};
    int ready;

    do {
        int64_t left = deadline - health_now_ms();

        ready = poll(&p, 1, left > 0 ? (int)left : 0);
    } while (ready < 0 && errno == EINTR);
    return ready < 0 ? -errno : ready == 0 ? -ETIMEDOUT : 0;
}

static int dial_address(int fd, const struct addrinfo *to, int64_t deadline)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -errno;
    error = wait_for(fd, POLLOUT, deadline);
    if (error < 0)
        return error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    return -error;
}

/* Reads no further than the status: 200, another one, or -errno. */
static int read_status(int fd, int64_t deadline)
{
    char head[] = "HTTP/1.1 200";
    size_t len = 0;

    while (len < sizeof head - 1) {
        int error = wait_for(fd, POLLIN, deadline);
        ssize_t n = error < 0 ? 0 : read(fd, head + len, sizeof head - 1 - len);

        if (error < 0)
            return error;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        if (n == 0)
            return -ECONNRESET;
        len += n > 0 ? (size_t)n : 0;
    }
    if (strncmp(head, "HTTP/1.", 7) != 0 || strspn(head + 9, "0123456789") < 3)
        return -EPROTO;
    return (head[9] - '0') * 100 + (head[10] - '0') * 10 + (head[11] - '0');
}

static int ask_address(const struct addrinfo *to, const char *request, int64_t deadline)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), result;

    if (fd < 0)
        return -errno;
    result = dial_address(fd, to, deadline);
    /* It fits into an empty buffer. */
    if (result == 0 && send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
        result = -errno;
    if (result == 0)
        result = read_status(fd, deadline);
    close(fd);
    return result;
}

bool check_health(const char *url, FILE *out)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int64_t deadline = health_now_ms() + PATIENCE_MS;
    int result, len = (int)strcspn(url, "/");
    struct addrinfo *list = NULL;
    struct target target;

    if (!split(url, &target)) {
        fprintf(out, "%s is no URL: write HOST:PORT/PATH, such as localhost:29400/livez\n", url);
        return false;
    }
    result = getaddrinfo(target.host, target.port, &hints, &list);
    if (result != 0) {
        fprintf(out, "%.*s: %s\n", len, url, gai_strerror(result));
        return false;
    }
    for (const struct addrinfo *to = list; to != NULL && result != 200; to = to->ai_next)
        result = ask_address(to, target.request, deadline);
    freeaddrinfo(list);
    if (result < 0)
        fprintf(out, "%.*s: %s\n", len, url, strerror(-result));
    else
        fprintf(out, "%.*s: %s answers %d\n", len, url, url + len, result);
    return result == 200;
}
