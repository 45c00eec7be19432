/* What the daemon turns away, and why. See refusal.h for the contract. */
#include "rdzv/net/refusal.h"

#include "rdzv/engine/log.h"
#include "rdzv/net/peer.h"

static const struct {
    const char *name, *kind, *hint;
} reasons[REFUSAL_REASONS] = {
    [REFUSAL_CONNECTIONS] = {"connections", "refused_connections", "raise --connection-limit"},
    [REFUSAL_DESCRIPTORS] = {"descriptors", "refused_descriptors",
                             "raise the limit of open files (ulimit -n, LimitNOFILE)"},
    [REFUSAL_MEMORY] = {"memory", "refused_memory", "give the process more memory"},
    [REFUSAL_OPERATOR] = {"operator", "refused_operator",
                          "use the Unix socket, or the token of --admin-token-file"},
    [REFUSAL_READER] = {"reader", "refused_reader",
                        "use the Unix socket, the token of --read-token-file or a certificate with "
                        "one of --read-names"},
    [REFUSAL_TOKEN] = {"token", "refused_token",
                       "send the token of --admin-token-file, or of --read-token-file"},
    [REFUSAL_BACKOFF] = {"backoff", "refused_backoff",
                         "find out who sends wrong tokens from this address"},
    [REFUSAL_RELAY] = {"relay", "refused_relay",
                       "give the relay the --upstream and the --space that are meant for it"},
    [REFUSAL_ADDRESS] = {"address", "refused_address",
                         "if it is one of yours, add its network to --allow"},
    [REFUSAL_PLAINTEXT] = {"plaintext", "refused_plaintext",
                           "let the client speak TLS (https://), or add its network to "
                           "--plaintext; torch's c10d clients speak TLS through a relay"},
    [REFUSAL_TLS] = {"tls", "refused_tls",
                     "compare the certificates and CAs of both sides with what the detail says"},
    [REFUSAL_HOST] = {"host", "refused_host",
                      "if the name is yours, add it to --host-whitelist; else a web page may have "
                      "given its name this address"},
};

const char *refusal_name(enum refusal_reason why)
{
    return reasons[why].name;
}

void refusal_note(struct stats *stats, enum refusal_reason why, const struct peer *peer,
                  struct slice detail)
{
    const char *kind = reasons[why].kind, *name = reasons[why].name, *hint = reasons[why].hint;
    char text[PEER_TEXT_MAX];

    stats->refused[why]++;
    if (detail.len != 0)
        log_limited_as(LOG_WARN, kind, "refused", log_str("peer", peer_text(peer, text)),
                       log_str("reason", name), log_bytes("detail", detail), log_str("hint", hint));
    else
        log_limited_as(LOG_WARN, kind, "refused", log_str("peer", peer_text(peer, text)),
                       log_str("reason", name), log_str("hint", hint));
}
