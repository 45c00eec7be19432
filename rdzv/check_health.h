/* Asks an rdzvd whether it lives, or is ready. Probes of a kubelet run this inside the pod in two
 * cases. A kubelet dials the pod's address, so it cannot reach a listener on loopback. And a
 * kubelet has no client certificate, which a listener with --client-ca requires except on loopback.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* `url` is HOST:PORT/PATH, without a scheme. Sends GET with that path (and query) to each address
 * of the host until one answers 200, and writes the replies to `out`. False if no address answers
 * 200 within two seconds in all, or if `url` has another form. */
bool check_health(const char *url, FILE *out);
