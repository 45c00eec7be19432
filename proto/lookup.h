/* The address of a server: from text, and by its host name. Names are looked up in a thread, since
 * getaddrinfo() may block for long. */
#pragma once

#include <netdb.h>
#include <stdbool.h>

struct address {
    char host[256]; /* a name, or digits without brackets */
    char port[6];
};

/* "HOST:PORT" or "[::1]:PORT". False: it is neither; *out is untouched. */
bool address_parse(const char *text, struct address *out);

struct lookup;

/* Starts it; *fd becomes readable at the end of the lookup, which owns it. NULL: no memory, thread
 * or descriptor; errno says which. */
struct lookup *lookup_start(const struct address *address, int *fd);

/* After *fd was readable: 0 and *list, which the caller gives to freeaddrinfo(), or a code for
 * gai_strerror() and NULL. Ends the lookup. */
int lookup_finish(struct lookup *l, struct addrinfo **list);

/* Ends a lookup, finished or not; its thread ends with the system's answer. NULL is allowed. */
void lookup_cancel(struct lookup *l);

/* An address of digits is none to look up: 0 and *list at once, or EAI_NONAME. Never blocks. */
int lookup_digits(const struct address *address, struct addrinfo **list);
