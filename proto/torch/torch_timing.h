/* How long torch's agents wait by default. Upstream: dynamic_rendezvous.py, RendezvousSettings and
 * RendezvousTimeout; c10d_rendezvous_backend.py, read_timeout (1.13 to 2.14). */
#pragma once

#define TORCH_HEARTBEAT_MS    5000  /* between two heartbeats of a node */
#define TORCH_DEAD_MS         15000 /* others presume a node dead whose heartbeat is that old */
#define TORCH_READ_TIMEOUT_MS 60000 /* for a reply of a c10d store */
