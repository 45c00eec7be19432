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

/* Without what would end a line or a word. */
static void copy_text(ProtobufCBinaryData text, char *out, size_t size)
{
    size_t n = text.len < size - 1 ? text.len : size - 1;

    for (size_t i = 0; i < n; i++)
        out[i] = text.data[i] > ' ' && text.data[i] < 0x7f ? (char)text.data[i] : '_';
    out[n] = '\0';
}

void greeting_put_journal(Rdzv__RelayWelcome *welcome, const struct greeting_journal *journal)
{
    welcome->journal.data = (uint8_t *)(uintptr_t)journal->name;
    welcome->journal.len = strlen(journal->name);
    welcome->journal_cluster = journal->cluster;
}

struct greeting_journal greeting_journal_of(const Rdzv__RelayWelcome *welcome)
{
    struct greeting_journal journal = {.cluster = welcome->journal_cluster};

    copy_text(welcome->journal, journal.name, sizeof journal.name);
    return journal;
}

bool greeting_is_same_journal(const struct greeting_journal *a, const struct greeting_journal *b)
{
    if (a->name[0] == '\0' || b->name[0] == '\0')
        return true;
    return strcmp(a->name, b->name) == 0 &&
           (a->cluster == b->cluster || a->cluster == 0 || b->cluster == 0);
}

const char *greeting_release(ProtobufCBinaryData release, char out[GREETING_RELEASE_MAX])
{
    copy_text(release, out, GREETING_RELEASE_MAX);
    if (out[0] == '\0')
        strcpy(out, "unknown");
    return out;
}
