/* HOST:PORT from text, and getaddrinfo() in a detached thread that may outlive its caller; see
 * lookup.h. */
#include "proto/lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/bytes.h"
#include "proto/thread.h"

/* --- HOST:PORT. --- */

static bool is_port(const char *text)
{
    uint64_t port;

    return strlen(text) <= 5 && slice_to_u64(slice_str(text), UINT16_MAX, &port) && port > 0;
}

bool address_parse(const char *text, struct address *out)
{
    const char *colon = strrchr(text, ':'), *host = text;
    size_t len = colon == NULL ? 0 : (size_t)(colon - text);
    struct address a = {0};

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

/* The libraries that getaddrinfo() loads need some, and sanitizers more. */
#define STACK_SIZE (1u << 20)

/* Memory that the thread and its caller share. The thread holds it until it has written `fd`; the
 * last holder frees it. */
struct lookup {
    struct address address;
    int fd;   /* an eventfd */
    int held; /* by how many; atomic */
    int error;
    struct addrinfo *list; /* NULL: no address was found, or the caller has taken the list */
};

/* Without AI_ADDRCONFIG, the list also has addresses without a route from this machine. With it, a
 * machine without a network would not find its loopback address. */
static int find_addresses(const struct address *address, int flags, struct addrinfo **list)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};

    *list = NULL;
    return getaddrinfo(address->host, address->port, &hints, list);
}

int lookup_digits(const struct address *address, struct addrinfo **list)
{
    return find_addresses(address, AI_NUMERICHOST, list);
}

static void lookup_release(struct lookup *l)
{
    if (__atomic_sub_fetch(&l->held, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (l->list != NULL)
        freeaddrinfo(l->list);
    if (l->fd >= 0)
        close(l->fd);
    free(l);
}

static void *lookup_run(void *arg)
{
    struct lookup *l = arg;

    l->error = find_addresses(&l->address, 0, &l->list);
    eventfd_write(l->fd, 1);
    lookup_release(l);
    return NULL;
}

struct lookup *lookup_start(const struct address *address, int *fd)
{
    struct lookup *l = calloc(1, sizeof *l);
    pthread_t thread;
    int error;

    if (l == NULL)
        return NULL;
    l->address = *address;
    l->held = 2;
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    error = l->fd < 0 ? errno : thread_start(&thread, STACK_SIZE, lookup_run, l);
    if (error != 0) {
        l->held = 1;
        lookup_release(l);
        errno = error;
        return NULL;
    }
    pthread_detach(thread);
    *fd = l->fd;
    return l;
}

int lookup_finish(struct lookup *l, struct addrinfo **list)
{
    eventfd_t count;
    int error;

    eventfd_read(l->fd, &count); /* from here on, what the thread wrote before is seen */
    error = l->error;
    *list = l->list;
    l->list = NULL;
    lookup_release(l);
    return error;
}

void lookup_cancel(struct lookup *l)
{
    if (l != NULL)
        lookup_release(l);
}
