/* Asks an rdzvd whether it lives. For probes that cannot come over the network: a kubelet dials the
 * address of a pod, and what listens on loopback alone has to be asked from inside. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Sends GET /livez to HOST:PORT, to each address of a name until one answers 200, and says in `out`
 * what came back. False: none did within two seconds, all in all, or this is no HOST:PORT. */
bool check_live(const char *address, FILE *out);
