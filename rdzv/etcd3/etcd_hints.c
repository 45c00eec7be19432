/* What is wrong with etcd, in words. See etcd_hints.h for the contract. */
#include "rdzv/etcd3/etcd_hints.h"

#include <stdio.h>
#include <string.h>

#include "proto/tls/tls.h"

#define WANTS_TLS  "if etcd speaks TLS, give its CA with --journal-ca=FILE"
#define WANTS_USER "give a user of etcd with --journal-user=NAME and --journal-password-file=FILE"
#define MAJORITY   "start the stopped members of etcd: without a majority, no member serves"
#define SPACE      "give etcd space: etcdctl compact, etcdctl defrag, then etcdctl alarm disarm"

/* Words of the reason -> what to do. The first that is found counts. */
static const struct {
    const char *words, *hint;
    bool at_first_in_plain_text; /* only before etcd has served rdzvd, which speaks no TLS */
} hints[] = {
    {"closed the connection", WANTS_TLS, true},
    {"speaks no HTTP/2", WANTS_TLS, true},
    {"user name is empty", WANTS_USER, false},
    {"does not answer", MAJORITY, false},
    {"no leader", MAJORITY, false},
    {"request timed out", MAJORITY, false},
    {"space exceeded", SPACE, false},
};

/* The reason itself says what to do; this adds the setting. */
static const char *const settings_of_tls[] = {
    [TLS_MATTER_NONE] = "see the settings of TLS with etcd: --journal-ca and the like",
    [TLS_MATTER_CA] = "see --journal-ca",
    [TLS_MATTER_NAME] = "see --journal-server-name",
    [TLS_MATTER_OURS] = "see --journal-cert and --journal-key"};

/* What resolve.c and grpc.c say of an endpoint that no connection leads to. */
static bool is_about_endpoint(const char *reason)
{
    static const char *const words[] = {"cannot be reached", "cannot be looked up", "name", "Name"};

    return ANY(FOREACH_POINTER(const char, word, words, sizeof words / sizeof *words),
               strstr(reason, word) != NULL);
}

const char *etcd_hint_write(const struct config_journal *config, const struct etcd_fault *fault,
                            char out[ETCD_HINT_MAX])
{
    const char *reason = fault->reason;
    bool at_first_in_plain_text = !fault->has_answered && config->tls.ca == NULL;

    out[0] = '\0';
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        if (strstr(reason, hints[i].words) == NULL ||
            (hints[i].at_first_in_plain_text && !at_first_in_plain_text))
            continue;
        snprintf(out, ETCD_HINT_MAX, "%s", hints[i].hint);
        return out;
    }
    if (fault->code == 7)
        snprintf(out, ETCD_HINT_MAX,
                 "the user %.60s needs the permission to read and write all keys below "
                 "/rdzvd/%s/: etcdctl role grant-permission ROLE readwrite --prefix /rdzvd/%s/",
                 config->user != NULL ? config->user : "of this certificate", config->name,
                 config->name);
    else if (config->user != NULL && strstr(reason, "authentication failed") != NULL)
        snprintf(out, ETCD_HINT_MAX,
                 "see --journal-user=%.60s and --journal-password-file=%.250s, which rdzvd reads "
                 "again at each login",
                 config->user, config->password_file);
    else if (strstr(reason, "TLS handshake: ") != NULL)
        snprintf(out, ETCD_HINT_MAX, "%s", settings_of_tls[tls_hint(reason)->matter]);
    else if (fault->code < 0 && is_about_endpoint(reason))
        snprintf(out, ETCD_HINT_MAX, "does etcd run there, and is --journal right?");
    return out;
}

bool etcd_reason_is_news(struct etcd_reasons *t, const char *reason, uint64_t now_ms)
{
    size_t at = 0;

    for (size_t i = 0; i < ETCD_REASONS; i++) {
        bool is_same = strncmp(t->list[i].reason, reason, ETCD_REASON_MAX - 1) == 0;

        if (is_same && now_ms < t->list[i].said_ms + ETCD_REASON_AGAIN_MS)
            return false;
        if (is_same || t->list[i].said_ms < t->list[at].said_ms)
            at = i;
        if (is_same)
            break;
    }
    snprintf(t->list[at].reason, ETCD_REASON_MAX, "%s", reason);
    t->list[at].said_ms = now_ms;
    return true;
}
