/* What the daemon turns away. See refusal.h for the contract. */
#include "rdzv/net/refusal.h"

#include "rdzv/engine/log.h"

/* Its name, and the kind of event that the log limits. */
#define REASON(name) name, "refused_" name

static const struct {
    const char *name, *kind, *hint;
} reasons[REFUSAL_REASONS] = {
    [REFUSAL_CONNECTIONS] = {REASON("connections"), "raise --connection-limit"},
    [REFUSAL_DESCRIPTORS] = {REASON("descriptors"),
                             "raise the limit of open files (ulimit -n, LimitNOFILE)"},
    [REFUSAL_MEMORY] = {REASON("memory"), "give the process more memory"},
    [REFUSAL_OPERATOR] = {REASON("operator"),
                          "use the Unix socket, or the token of --admin-token-file"},
    [REFUSAL_READER] = {REASON("reader"),
                        "use the Unix socket, the token of --read-token-file or a certificate with "
                        "one of --read-names"},
    [REFUSAL_TOKEN] = {REASON("token"),
                       "send the token of --admin-token-file, or of --read-token-file"},
    [REFUSAL_BACKOFF] = {REASON("backoff"), "find out who sends wrong tokens from this address"},
    [REFUSAL_RELAY] = {REASON("relay"),
                       "give the relay the --upstream and the --space that are meant for it"},
    [REFUSAL_ADDRESS] = {REASON("address"), "if it is one of yours, add its network to --allow"},
    [REFUSAL_PLAINTEXT] = {REASON("plaintext"),
                           "let the client speak TLS (https://), or add its network to "
                           "--plaintext; torch's c10d clients speak TLS through a relay"},
    [REFUSAL_TLS] = {REASON("tls"),
                     "compare the certificates and CAs of both sides with what the detail says"},
    [REFUSAL_HOST] = {REASON("host"),
                      "if the name is yours, add it to --host-whitelist; else a web "
                      "page may have given its name this address"},
};

const char *refusal_name(enum refusal_reason why)
{
    return reasons[why].name;
}

void refusal_note(struct stats *stats, enum refusal_reason why, const struct peer *peer,
                  struct slice detail)
{
    const char *kind = reasons[why].kind, *name = reasons[why].name, *hint = reasons[why].hint;

    stats->refused[why]++;
    log_limited_as(LOG_WARN, kind, "refused", log_str("peer", PEER_TEXT(peer)),
                   log_str("reason", name), log_if(detail.len != 0, log_bytes("detail", detail)),
                   log_str("hint", hint));
}

/* --- Who gets in. --- */

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
