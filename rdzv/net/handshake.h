/* How a connection begins where there is a certificate: its first byte says whether it speaks TLS,
 * and then there is a handshake, or it may speak plain text, or it is refused. Until that is
 * settled the connection is ours; then it goes on as any other, with or without conn.tls.
 *
 * A handshake costs much more than the bytes that ask for it. So each step is a costly request
 * (conn_begin_costly()): in one iteration they have half a millisecond together, and wait for each
 * other in turn. HANDSHAKES_MAX are open at a time, each with its memory; one more ends the one
 * that has been open for longest, which is none of a client that goes on. Who is not done within
 * HANDSHAKE_MS is dropped. What OpenSSL allocates is counted (ACCOUNT_TLS) and may be refused. */
#pragma once

#include <stdbool.h>

struct config_tls;
struct conn;
struct net;

#define HANDSHAKES_MAX 512u
#define HANDSHAKE_MS   10000u

/* Reads the certificate, if the settings name one. 0, or -1 after it logged why not. */
int handshakes_start(struct net *n, const struct config_tls *config);

/* Once a second: files that have changed, which are for new connections, and handshakes that take
 * too long. */
void handshakes_tick(struct net *n);

/* Something has come, may be sent, or it is the connection's turn. True: the connection is settled,
 * and what has come for it may be received. */
bool handshake_run(struct conn *c);

/* A client speaks TLS, and there is no certificate: it is told so, in TLS, and in the log. */
void handshake_refuse(struct conn *c);
