/* Who gets in when descriptors or connections run short. See admission.h for the contract. */
#include "rdzv/net/admission.h"

#define RESERVE_MOST 32u

enum admission admission_of(const struct admission_room *room, const struct peer *peer,
                            enum refusal_reason *why)
{
    uint64_t reserve =
        room->descriptors_max / 4 < RESERVE_MOST ? room->descriptors_max / 4 : RESERVE_MOST;
    uint64_t left = room->descriptor < room->descriptors_max
                        ? room->descriptors_max - room->descriptor
                        : 0; /* the new one is one of them */

    if (left <= reserve / 8) {
        *why = REFUSAL_DESCRIPTORS;
        return ADMISSION_NONE;
    }
    if (peer_is_unix(peer))
        return ADMISSION_FULL;
    if (left <= (peer_is_loopback(peer) ? reserve * 3 / 8 : reserve)) {
        *why = REFUSAL_DESCRIPTORS;
        return ADMISSION_PROBATION;
    }
    if (room->connections_max != 0 && room->connections >= room->connections_max) {
        *why = REFUSAL_CONNECTIONS;
        return ADMISSION_PROBATION;
    }
    return ADMISSION_FULL;
}
