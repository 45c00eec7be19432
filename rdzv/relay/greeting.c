/* HELLO and WELCOME. See greeting.h for the contract. */
#include "rdzv/relay/greeting.h"

#include <stdio.h>
#include <string.h>

#include "proto/relay.h"

static ProtobufCBinaryData own_release(void)
{
    static uint8_t text[] = RDZV_VERSION;

    return (ProtobufCBinaryData){.len = sizeof text - 1, .data = text};
}

void greeting_hello(Rdzv__RelayHello *hello)
{
    hello->version_min = RELAY_VERSION_MIN;
    hello->version_max = RELAY_VERSION_MAX;
    hello->release = own_release();
}

uint32_t greeting_version(const Rdzv__RelayHello *hello, char why[GREETING_WHY_MAX])
{
    const uint32_t newest =
        hello->version_max < RELAY_VERSION_MAX ? hello->version_max : RELAY_VERSION_MAX;
    char release[GREETING_RELEASE_MAX];

    if (newest >= hello->version_min && newest >= RELAY_VERSION_MIN)
        return newest;
    snprintf(why, GREETING_WHY_MAX,
             "no version of the frames in common: the relay (rdzvd %s) speaks %u to %u, the store "
             "(rdzvd %s) %u to %u; upgrade the %s",
             greeting_release(hello->release, release), hello->version_min, hello->version_max,
             RDZV_VERSION, RELAY_VERSION_MIN, RELAY_VERSION_MAX,
             hello->version_max < RELAY_VERSION_MIN ? "relay" : "store");
    return 0;
}

void greeting_welcome(Rdzv__RelayWelcome *welcome, uint32_t version)
{
    welcome->version = version;
    welcome->release = own_release();
}

bool greeting_is_spoken(const Rdzv__RelayWelcome *welcome)
{
    return welcome->version >= RELAY_VERSION_MIN && welcome->version <= RELAY_VERSION_MAX;
}

const char *greeting_release(ProtobufCBinaryData release, char out[GREETING_RELEASE_MAX])
{
    size_t n = release.len < GREETING_RELEASE_MAX - 1 ? release.len : GREETING_RELEASE_MAX - 1;

    for (size_t i = 0; i < n; i++)
        out[i] = release.data[i] > ' ' && release.data[i] < 0x7f ? (char)release.data[i] : '_';
    out[n] = '\0';
    if (n == 0)
        strcpy(out, "unknown");
    return out;
}
