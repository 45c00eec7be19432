/* Asking a host whether a port is listened on. See probe.h for the contract. */
#include "rdzv/net/probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdzv/net/net.h"

struct probe {
    struct event event;
    int fd;
    int error; /* what connect() said at once; EINPROGRESS: it will be known later */
    void (*tell)(void *arg, enum probe_answer answer);
    void *arg;
};

void probe_cancel(struct probe *p)
{
    if (p == NULL)
        return;
    event_del(&p->event);
    close(p->fd);
    account_free(ACCOUNT_SESSIONS, p, sizeof *p);
}

static void probe_on_event(evutil_socket_t fd, short what, void *arg)
{
    struct probe *p = arg;
    int error = p->error;
    socklen_t len = sizeof error;
    enum probe_answer answer;

    if (error == EINPROGRESS && (what & EV_WRITE) != 0)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    answer = error == 0 ? PROBE_LISTENS : error == ECONNREFUSED ? PROBE_REFUSED : PROBE_UNKNOWN;
    p->tell(p->arg, answer);
    probe_cancel(p);
}

static int probe_dial(int fd, const uint8_t address[16], uint16_t port, bool v4)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(port)};

    memcpy(&in6.sin6_addr, address, 16);
    memcpy(&in4.sin_addr, address + 12, 4);
    if (connect(fd, v4 ? (struct sockaddr *)&in4 : (struct sockaddr *)&in6,
                v4 ? sizeof in4 : sizeof in6) == 0)
        return 0;
    return errno;
}

struct probe *probe_start(struct event_base *base, const uint8_t address[16], uint16_t port,
                          uint32_t patience_ms, void (*tell)(void *arg, enum probe_answer),
                          void *arg)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool v4 = memcmp(address, mapped, sizeof mapped) == 0;
    struct probe *p = account_request_zeroed(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *p);

    if (p == NULL)
        return NULL;
    p->tell = tell;
    p->arg = arg;
    p->fd = socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (p->fd < 0) {
        account_free(ACCOUNT_SESSIONS, p, sizeof *p);
        return NULL;
    }
    p->error = probe_dial(p->fd, address, port, v4);
    event_assign(&p->event, base, p->fd, EV_WRITE, probe_on_event, p);
    if (!net_set_timer(&p->event, UINT64_C(1000) * patience_ms)) {
        probe_cancel(p);
        return NULL;
    }
    if (p->error != EINPROGRESS)
        event_active(&p->event, EV_WRITE, 0);
    return p;
}
