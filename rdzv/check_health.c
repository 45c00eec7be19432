/* One GET, and nothing of HTTP but the status. See check_health.h for the contract. */
#include "rdzv/check_health.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "proto/lookup.h"
#include "rdzv/engine/clock.h"

#define PATIENCE_MS 2000

struct health_target {
    struct address address;
    char request[512];
};

/* The path is sent unchanged: it must be text without blanks. */
static bool health_parse(const char *url, struct health_target *out)
{
    size_t len = strcspn(url, "/");
    char address[sizeof out->address + 4];

    if (url[len] == '\0' || len >= sizeof address)
        return false;
    for (const char *p = url + len; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~')
            return false;
    }
    memcpy(address, url, len);
    address[len] = '\0';
    return address_parse(address, &out->address) &&
           (size_t)snprintf(out->request, sizeof out->request,
                            "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                            url + len) < sizeof out->request;
}

/* Calls of the socket end at the deadline. */
static void health_set_deadline(int fd, int64_t deadline_ms)
{
    int64_t left_ms = deadline_ms - (int64_t)clock_monotonic_ms(&clock_system);
    struct timeval left;

    if (left_ms < 1)
        left_ms = 1; /* 0 would be for ever */
    left = (struct timeval){.tv_sec = left_ms / 1000, .tv_usec = left_ms % 1000 * 1000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof left);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &left, sizeof left);
}

/* Reads no further than the status: 200, another one, or -errno. */
static int health_ask(int fd, const struct addrinfo *to, const char *request, int64_t deadline_ms)
{
    char head[] = "HTTP/1.1 200";
    ssize_t n;

    health_set_deadline(fd, deadline_ms);
    if (connect(fd, to->ai_addr, to->ai_addrlen) < 0)
        return errno == EINPROGRESS ? -ETIMEDOUT : -errno;
    /* It fits into an empty buffer. */
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
        return -errno;
    health_set_deadline(fd, deadline_ms);
    n = recv(fd, head, sizeof head - 1, MSG_WAITALL);
    if (n < 0)
        return errno == EAGAIN ? -ETIMEDOUT : -errno;
    if ((size_t)n < sizeof head - 1)
        return (int64_t)clock_monotonic_ms(&clock_system) >= deadline_ms ? -ETIMEDOUT : -ECONNRESET;
    if (strncmp(head, "HTTP/1.", 7) != 0 || strspn(head + 9, "0123456789") < 3)
        return -EPROTO;
    return (head[9] - '0') * 100 + (head[10] - '0') * 10 + (head[11] - '0');
}

static int health_ask_address(const struct addrinfo *to, const char *request, int64_t deadline_ms)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), result;

    if (fd < 0)
        return -errno;
    result = health_ask(fd, to, request, deadline_ms);
    close(fd);
    return result;
}

bool check_health(const char *url, FILE *out)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int64_t deadline_ms = (int64_t)clock_monotonic_ms(&clock_system) + PATIENCE_MS;
    int result, len = (int)strcspn(url, "/");
    struct addrinfo *list = NULL;
    struct health_target target;

    if (!health_parse(url, &target)) {
        fprintf(out, "%s is no URL: write HOST:PORT/PATH, such as localhost:29400/livez\n", url);
        return false;
    }
    result = getaddrinfo(target.address.host, target.address.port, &hints, &list);
    if (result != 0) {
        fprintf(out, "%.*s: %s\n", len, url, gai_strerror(result));
        return false;
    }
    for (const struct addrinfo *to = list; to != NULL && result != 200; to = to->ai_next)
        result = health_ask_address(to, target.request, deadline_ms);
    freeaddrinfo(list);
    if (result < 0)
        fprintf(out, "%.*s: %s\n", len, url, strerror(-result));
    else
        fprintf(out, "%.*s: %s answers %d\n", len, url, url + len, result);
    return result == 200;
}
