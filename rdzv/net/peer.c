/* Addresses of peers. See peer.h for the contract. */
#include "rdzv/net/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static bool is_mapped(const struct peer *p)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(p->address, prefix, sizeof prefix) == 0;
}

struct peer peer_of(const struct sockaddr *from)
{
    struct peer p = {0};

    if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)from;

        memcpy(p.address, &in6->sin6_addr, 16);
        p.port = ntohs(in6->sin6_port);
    } else if (from->sa_family == AF_INET) {
        const struct sockaddr_in *in4 = (const struct sockaddr_in *)(const void *)from;

        p.address[10] = p.address[11] = 0xff;
        memcpy(p.address + 12, &in4->sin_addr, 4);
        p.port = ntohs(in4->sin_port);
    }
    return p;
}

bool peer_local(int fd, struct peer *out)
{
    union {
        struct sockaddr any;
        struct sockaddr_storage room;
    } at;
    socklen_t len = sizeof at;

    if (getsockname(fd, &at.any, &len) < 0)
        return false;
    *out = peer_of(&at.any);
    return true;
}

bool peer_is_loopback(const struct peer *p)
{
    static const uint8_t loopback6[16] = {[15] = 1};

    return is_mapped(p) ? p->address[12] == 127 : memcmp(p->address, loopback6, 16) == 0;
}

bool peer_is_unix(const struct peer *p)
{
    static const uint8_t nowhere[16];

    return memcmp(p->address, nowhere, sizeof nowhere) == 0;
}

const char *peer_host(const struct peer *p, char text[PEER_HOST_MAX])
{
    if (peer_is_unix(p))
        strcpy(text, "unix");
    else if (is_mapped(p))
        inet_ntop(AF_INET, p->address + 12, text, PEER_HOST_MAX);
    else
        inet_ntop(AF_INET6, p->address, text, PEER_HOST_MAX);
    return text;
}

const char *peer_text(const struct peer *p, char text[PEER_TEXT_MAX])
{
    char host[PEER_HOST_MAX];

    if (peer_is_unix(p))
        return peer_host(p, text);
    snprintf(text, PEER_TEXT_MAX, is_mapped(p) ? "%s:%u" : "[%s]:%u", peer_host(p, host), p->port);
    return text;
}

/* All of ::1 counts, because its first half is zero, which stands for Unix sockets. */
void peer_network(const struct peer *p, uint8_t network[16])
{
    size_t len = is_mapped(p) || peer_is_loopback(p) ? 16 : 8;

    memset(network, 0, 16);
    memcpy(network, p->address, len);
}
