/* Signals from a descriptor. See signals.h for the contract. */
#include "rdzv/signals.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/net/net.h"

static void on_readable(evutil_socket_t fd, short, void *arg)
{
    const struct signals *s = arg;
    struct signalfd_siginfo info;

    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
        s->tell(s->arg, (int)info.ssi_signo);
}

bool signals_open(struct signals *s, struct event_base *base, void (*tell)(void *arg, int number),
                  void *arg)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(&set, numbers[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *s = (struct signals){
        .fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), .tell = tell, .arg = arg};
    if (s->fd < 0) {
        log_event(LOG_ERROR, "loop_failed", log_errno("reason", errno));
        return false;
    }
    event_assign(&s->event, base, s->fd, EV_READ | EV_PERSIST, on_readable, s);
    return net_add_event(&s->event, NULL);
}

void signals_close(struct signals *s)
{
    if (!event_initialized(&s->event))
        return;
    event_del(&s->event);
    close(s->fd);
}
