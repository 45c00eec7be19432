/* How a connection begins if rdzvd has a certificate. The first byte says whether the client speaks
 * TLS. If so, the handshake follows; if not, the settings allow or refuse plain text. Until then
 * this file handles the connection; afterwards transport.c reads and sends, through conn.tls or
 * through the bare socket.
 *
 * A handshake costs far more time than the bytes that start it. So each step of a handshake is a
 * slow request (conn_begin_slice()): all slow requests together get half a millisecond of each
 * iteration, in turn. At most HANDSHAKES_MAX handshakes are open, because each of them holds
 * memory; another one ends the oldest handshake, whose client has most likely stopped. A handshake
 * that takes longer than HANDSHAKE_MS is dropped. OpenSSL's memory is counted (ACCOUNT_TLS), and an
 * allocation may be refused. */
#pragma once

#include <stdbool.h>

struct config_tls;
struct conn;
struct net;

#define HANDSHAKES_MAX 512u
#define HANDSHAKE_MS   10000u

/* Reads the certificate, if the settings name one. 0, or -1 after it logged why not. */
int handshakes_start(struct net *n, const struct config_tls *config);

/* Once a second: new connections use changed files, and handshakes that take too long end. */
void handshakes_tick(struct net *n);

/* Continues the handshake after an event of the socket, or in the connection's turn. True: the
 * connection is settled, and can receive data. */
bool handshake_run(struct conn *c);

/* Refuses a client that speaks TLS without our certificate: sends a TLS alert and logs it. */
void handshake_refuse(struct conn *c);
