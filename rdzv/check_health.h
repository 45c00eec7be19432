/* Asks an rdzvd whether it lives, or is ready. For probes that cannot come over the network: a
 * kubelet dials the address of a pod, so what listens on loopback alone has to be asked from
 * inside; and it has no certificate to show, which a listener with --client-ca asks others than
 * loopback for. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* `url` is HOST:PORT/PATH, without a scheme. Sends GET with that path (and its query) to each
 * address of the host until one answers 200, and says in `out` what came back. False: none did
 * within two seconds, all in all, or this is no such URL. */
bool check_health(const char *url, FILE *out);
