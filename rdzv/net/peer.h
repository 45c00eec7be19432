/* Who a peer is: its address, kept in 18 bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct peer {
    uint8_t address[16]; /* IPv6, or IPv4 mapped into it; all zero: at the other end of a Unix
                            socket */
    uint16_t port;
};

/* From what accept() or getsockname() tells: an address of IPv4, of IPv6 or of a Unix socket. */
struct peer peer_of(const struct sockaddr *from);

/* Our own address of a connected or listening socket; false with errno. */
bool peer_local(int fd, struct peer *out);

bool peer_is_loopback(const struct peer *p);
bool peer_is_unix(const struct peer *p);

/* Without brackets: "127.0.0.1", "::1", "unix". */
#define PEER_HOST_MAX 46
const char *peer_host(const struct peer *p, char text[PEER_HOST_MAX]);

/* With its port: "127.0.0.1:4711", "[::1]:4711", "unix". */
#define PEER_TEXT_MAX 64
const char *peer_text(const struct peer *p, char text[PEER_TEXT_MAX]);
#define PEER_TEXT(p) peer_text((p), (char[PEER_TEXT_MAX]){0}) /* until the block ends */

/* The part of an address that a peer cannot choose: all of an IPv4 address, and the network's half
 * of an IPv6 address, because one host may use all addresses of its network. The rest is zero. */
void peer_network(const struct peer *p, uint8_t network[16]);
