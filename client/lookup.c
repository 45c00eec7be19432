/* HOST:PORT from text, and getaddrinfo() in a detached thread that may outlive its caller; see
 * lookup.h. */
#include "client/lookup.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* --- HOST:PORT. --- */

static bool is_port(const char *text)
{
    size_t len = strlen(text);
    long port;

    if (len == 0 || len > 5 || strspn(text, "0123456789") != len)
        return false;
    port = strtol(text, NULL, 10);
    return port > 0 && port <= 65535;
}

bool address_parse(const char *text, struct rdzv_address *out)
{
    const char *colon = strrchr(text, ':'), *host = text;
    size_t len = colon == NULL ? 0 : (size_t)(colon - text);
    struct rdzv_address a = {0};

    if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    } else if (strcspn(text, ":[]") < len) {
        return false; /* an IPv6 address without its brackets */
    }
    if (len == 0 || len >= sizeof a.host || !is_port(colon + 1) || memchr(host, '/', len) != NULL)
        return false;
    memcpy(a.host, host, len);
    strcpy(a.port, colon + 1);
    *out = a;
    return true;
}

/* --- Names. --- */

struct lookup {
    struct rdzv_address address;
    pthread_mutex_t lock; /* over what follows */
    bool ended;           /* the thread has its result */
    bool canceled;        /* its caller does not want it: the last one to leave frees this */
    int fd;
    int error;
    struct addrinfo *list;
};

static int get_addresses(const struct rdzv_address *address, int flags, struct addrinfo **list)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};

    return getaddrinfo(address->host, address->port, &hints, list);
}

int lookup_digits(const struct rdzv_address *address, struct addrinfo **list)
{
    return get_addresses(address, AI_NUMERICHOST, list);
}

static void lookup_free(struct lookup *l)
{
    if (l->list != NULL)
        freeaddrinfo(l->list);
    close(l->fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void *lookup_run(void *arg)
{
    struct lookup *l = arg;
    struct addrinfo *list = NULL;
    int error = get_addresses(&l->address, 0, &list);
    bool canceled;

    pthread_mutex_lock(&l->lock);
    l->error = error;
    l->list = error == 0 ? list : NULL;
    l->ended = true;
    canceled = l->canceled;
    if (!canceled)
        eventfd_write(l->fd, 1);
    pthread_mutex_unlock(&l->lock);
    if (canceled)
        lookup_free(l);
    return NULL;
}

/* The thread takes no signals, which are the program's. */
static int start_thread(struct lookup *l)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, old;
    int error = pthread_attr_init(&attr);

    if (error != 0)
        return error;
    sigfillset(&all);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&thread, &attr, lookup_run, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

struct lookup *lookup_start(const struct rdzv_address *address, int *fd)
{
    struct lookup *l = calloc(1, sizeof *l);
    int error;

    if (l == NULL)
        return NULL;
    l->address = *address;
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->fd < 0) {
        free(l);
        return NULL;
    }
    pthread_mutex_init(&l->lock, NULL);
    *fd = l->fd;
    error = start_thread(l);
    if (error != 0) {
        lookup_free(l);
        errno = error;
        return NULL;
    }
    return l;
}

int lookup_finish(struct lookup *l, struct addrinfo **list)
{
    int error;

    pthread_mutex_lock(&l->lock); /* the thread may still be at its unlock */
    error = l->error;
    *list = l->list;
    l->list = NULL;
    pthread_mutex_unlock(&l->lock);
    lookup_free(l);
    return error;
}

void lookup_cancel(struct lookup *l)
{
    bool ended;

    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    l->canceled = true;
    ended = l->ended;
    pthread_mutex_unlock(&l->lock);
    if (ended)
        lookup_free(l);
}
