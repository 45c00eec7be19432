/* The one table of settings: ours, and every flag of etcd 3.4. See config_internal.h. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "rdzv/config/config_internal.h"

const char *const rank_order_names[] = {"torch", "natural", "keep", "table", NULL};

static const char no_raft[] = "there is no raft log here: one process holds the state";
static const char no_grpc[] = "there is no v3 (gRPC) API here";
static const char experiment[] = "an experiment of etcd's v3 side";

/* The first fields of a row; more fields of the option may follow. A group of the help begins at
 * the row with the group's name. */
#define ROW(flag, type, member, value, text)                                   \
    .name = (flag), .kind = (type), .offset = offsetof(struct config, member), \
    .size = sizeof(((struct config *)0)->member), .value_name = (value), .help = (text)
#define TEXT(flag, member, value, text)  ROW(flag, OPTION_TEXT, member, value, text)
#define NAMES(flag, member, value, text) ROW(flag, OPTION_NAMES, member, value, text)
#define URLS(flag, member)               ROW(flag, OPTION_URLS, member, "URLS", NULL), .check = config_check_url
#define CHOICE(flag, member, words, word, text) \
    ROW(flag, OPTION_CHOICE, member, words, text), .initial = (word)
#define SWITCH(flag, member, word, text) CHOICE(flag, member, "on|off", word, text)
#define BOOL(flag, member)               CHOICE(flag, member, "true|false", "false", NULL), .is_bool = true
#define DURATION(flag, member, amount, text) \
    ROW(flag, OPTION_DURATION, member, "DURATION", text), .initial = (amount)
#define SIZE(flag, member, amount, text) \
    ROW(flag, OPTION_SIZE, member, "SIZE", text), .initial = (amount)
#define COUNT_OR_OFF(flag, member, amount, text) \
    ROW(flag, OPTION_COUNT, member, "COUNT|off", text), .initial = (amount), .may_be_off = true
#define DURATION_OR_OFF(flag, member, amount, text)                                \
    ROW(flag, OPTION_DURATION, member, "DURATION|off", text), .initial = (amount), \
                                                              .may_be_off = true
#define SIZE_OR_OFF(flag, member, amount, text) \
    ROW(flag, OPTION_SIZE, member, "SIZE|off", text), .initial = (amount), .may_be_off = true
#define ACTION(flag, value, text) \
    .name = (flag), .kind = OPTION_ACTION, .action = (value), .help = (text)

/* Rows of etcd's flags. */
#define ALIAS(flag, ours) .name = (flag), .kind = OPTION_ALIAS, .owner = OWNER_ETCD, .own = (ours)
#define IGNORED(why, flags) \
    .name = (flags), .kind = OPTION_IGNORED, .owner = OWNER_ETCD, .ignored = (why)
#define IGNORED_BOOL(why, flags) IGNORED(why, flags), .is_bool = true

const struct option config_options[] = {
    {ROW("listen", OPTION_LISTEN, listeners, "ADDR:PORT[/SPACE]",
         "serve here, or unix:/PATH; repeatable"),
     .group = "Listening", .unset = "localhost:29400, localhost:2379"},

    {TEXT("cert", tls.cert, "FILE", "serve TLS with this certificate and its chain, as PEM"),
     .group = "TLS", .left_out = "there is no TLS"},
    {TEXT("key", tls.key, "FILE", "its key, as PEM without a password"),
     .left_out = "there is no TLS"},
    {TEXT("client-ca", tls.client_ca, "FILE",
          "clients must show a certificate of one of these CAs"),
     .left_out = "clients need no certificate"},
    {CHOICE("client-cert", tls.client_cert, "required|optional", "required",
            "optional: clients may show no certificate")},
    {NAMES("client-names", tls.client_names, "NAMES",
           "a client's certificate must have one of these names"),
     .unset = "any", .check = config_check_peer_name},
    {TEXT("crl", tls.crl, "FILE", "the CAs' lists of certificates that are revoked"),
     .left_out = "no certificate counts as revoked"},
    {TEXT("plaintext", tls.plaintext, "WHO",
          "clients that may use no TLS: on, off, loopback, or networks"),
     .check = config_check_plaintext, .unset = "loopback"},

    {TEXT("upstream", upstream, "HOST:PORT[,HOST:PORT...]",
          "be a relay of this store; a replica relays to the leader"),
     .group = "As a relay", .check = config_check_upstream},
    {TEXT("upstream-ca", upstream_tls.ca, "FILE|system",
          "speak TLS with the store, whose certificate has one of these CAs"),
     .left_out = "the relay speaks plain text"},
    {TEXT("upstream-cert", upstream_tls.cert, "FILE", "show it this certificate"),
     .left_out = "it shows no certificate"},
    {TEXT("upstream-key", upstream_tls.key, "FILE", "the key of that"),
     .left_out = "it shows no certificate"},
    {TEXT("upstream-name", upstream_tls.name, "NAME", "the name in its certificate"),
     .left_out = "it is the host of --upstream", .unset = "the host of --upstream"},
    {TEXT("space", space, "NAME", "the space of that store (default)"),
     .check = config_check_space},
    {COUNT_OR_OFF("exit-on-restart", exit_on_restart, "off",
                  "exit with this when a relay of the run (--expect) starts anew"),
     .most = 255},
    {TEXT("name", name, "NAME", "the node's name there; as an etcd, the member's"),
     .owner = OWNER_BOTH, .initial = CONFIG_DEFAULT_NAME},

    {TEXT("allow", allow, "NETWORKS", "who may connect, beside this machine: 10.0.0.0/8,fd00::/8"),
     .group = "Who may do what", .check = config_check_allow, .unset = "anybody"},
    {TEXT("admin-token-file", admin_token_file, "FILE",
          "clients that send the token in FILE may change things at /rdzv/v1"),
     .left_out = "no token lets clients change things"},
    {NAMES("admin-names", tls.admin_names, "NAMES",
           "operators may instead show a certificate with one of these names"),
     .unset = "none", .check = config_check_peer_name},
    {TEXT("read-token-file", read_token_file, "FILE", "readers of /rdzv/v1 send the token in FILE"),
     .left_out = "readers need no token", .unset = "anybody may", .is_for_stores = true},
    {NAMES("read-names", tls.read_names, "NAMES",
           "readers may instead show a certificate with one of these names"),
     .unset = "none", .check = config_check_peer_name, .is_for_stores = true},
    {NAMES("relay-names", tls.relay_names, "SPACE=NAME,...",
           "relays of SPACE need a certificate with this name"),
     .unset = "no space does", .check = config_check_relay_name},
    {ROW("cors", OPTION_ORIGINS, cors, "ORIGINS", NULL), /* etcd documents it */
     .check = config_check_url, .owner = OWNER_BOTH},
    {NAMES("host-whitelist", host_whitelist, "NAMES", "Host headers to answer, * is any"),
     .unset = "any, on loopback its own", .owner = OWNER_BOTH},

    {TEXT("data-dir", data_dir, "DIR", "keep all state in DIR, so that it outlives the process"),
     .group = "Keys and spaces", .owner = OWNER_BOTH, .left_out = "a restart starts empty",
     .is_for_stores = true, .is_for_files = true},
    {CHOICE("sync", sync, "always|batch|off", "batch",
            "what an answered change survives: a power cut; a kill; nothing"),
     .is_for_stores = true, .is_for_files = true},
    {TEXT("journal", journal.url, "etcd://HOSTS/NAME",
          "keep all state in this etcd v3; one of several replicas leads"),
     .check = config_check_journal},
    {DURATION("journal-lease", journal.lease_ms, "5s",
              "another replica leads this long after the leader has died"),
     .least = 2000, .most = 60000, .is_for_stores = true},
    {TEXT("journal-user", journal.user, "NAME", "user name of the login to etcd"),
     .left_out = "it does not log in", .is_for_stores = true},
    {TEXT("journal-password-file", journal.password_file, "FILE", "that user's password"),
     .left_out = "it does not log in", .is_for_stores = true},
    {TEXT("journal-ca", journal.tls.ca, "FILE|system",
          "speak TLS with etcd, whose certificate has one of these CAs"),
     .left_out = "it speaks plain text with etcd"},
    {TEXT("journal-cert", journal.tls.cert, "FILE", "show etcd this certificate"),
     .left_out = "it shows no certificate"},
    {TEXT("journal-key", journal.tls.key, "FILE", "the key of that"),
     .left_out = "it shows no certificate"},
    {TEXT("journal-server-name", journal.tls.name, "NAME", "the name in etcd's certificates"),
     .left_out = "it is the host of each endpoint", .unset = "the host of each endpoint"},
    {DURATION_OR_OFF("space-idle-timeout", space_idle_timeout_ms, "off",
                     "forget a space's c10d keys after this time without a c10d client"),
     .is_for_stores = true},
    {DURATION("session-timeout", session_timeout_ms, "45s",
              "end a relay's session after this time without it"),
     .least = 1, .is_for_stores = true},
    {DURATION_OR_OFF("exit-when-idle", exit_when_idle_ms, "off",
                     "exit after this time without use, once there was use")},
    {SWITCH("exit-with-stdin", exit_with_stdin, "off", NULL)}, /* for programs that start rdzvd */
    {DURATION_OR_OFF("drain-timeout", drain_timeout_ms, "5s", NULL)}, /* for the same */

    {SWITCH("elastic-fixes", elastic.fixes, "on",
            "repair elastic jobs, or be a plain store like torch's"),
     .group = "Elastic jobs"},
    {TEXT("advertise", elastic.advertise, "HOST[:PORT]",
          "where workers reach this store (as agents do)"),
     .check = config_check_advertise},
    {TEXT("worker-ports", elastic.worker_ports, "LOW-HIGH",
          "a port for each run's workers (the agents' port)"),
     .check = config_check_worker_ports},
    {DURATION("closed-run-ttl", elastic.closed_run_ttl_ms, "5s",
              "forget a closed run after this time without an agent"),
     .least = 1},
    {DURATION_OR_OFF("closed-run-wait", elastic.closed_run_wait_ms, "45s",
                     "agents wait this long for a closed run to be replaced")},
    {DURATION_OR_OFF("ended-job-ttl", elastic.ended_job_ttl_ms, "10m",
                     "spares and lost nodes do not begin an ended job again")},
    {DURATION_OR_OFF("idle-run-ttl", elastic.idle_run_ttl_ms, "1d",
                     "forget an open run after this time without an agent")},
    {DURATION_OR_OFF("silent-node-timeout", elastic.silent_node_ms, "off",
                     "a node is dead when its agent is silent for this time"),
     .least = 6000,
     .least_why = "torch's agents send a heartbeat each 5s, and 1.13 sends nothing else"},
    {CHOICE("restart-on-loss", elastic.restart_on_loss, "off|closed|silent", "silent",
            "when a node is lost, make the others meet again")},
    {DURATION_OR_OFF("regroup-wait", elastic.regroup_wait_ms, "off",
                     "after a loss, go on without missing nodes, not after torch's 30 s"),
     .least = 2000},
    {COUNT_OR_OFF("expect", elastic.expected_nodes, "off",
                  "nodes of a job: the first round waits for no more")},
    {CHOICE("rank-order", elastic.rank_order, "torch|natural|keep|table", "keep",
            "keep: nodes keep their ranks, new nodes take free ones")},
    {TEXT("rules", elastic.rules_text, "RULES",
          "nodes-multiple=COUNT, grow-interval=DURATION, rank-zero=NAME"),
     .check = config_check_run_rules, .unset = "none"},
    {COUNT_OR_OFF("nodes-multiple", elastic.rules.nodes_multiple, "off", NULL)}, /* each rule */
    {DURATION_OR_OFF("grow-interval", elastic.rules.grow_interval_ms, "off", NULL)},
    {TEXT("rank-zero", elastic.rank_zero, "NAME", NULL)},
    {TEXT("topology-file", elastic.topology_file, "FILE",
          "the rack or domain of each node, for their ranks"),
     .left_out = "all nodes are in one domain"},
    {SWITCH("end-failed-runs", elastic.end_failed_runs, "on",
            "if a node fails for good, all nodes of its run end")},
    {SWITCH("close-needs-all", elastic.close_needs_all, "off",
            "a run closes only when all its agents ask (torch 2.3-2.7)")},
    {NAMES("disable", disabled, "NAMES", NULL), .check = config_check_disable},

    {SIZE("value-limit", limits.value_max, "8MiB", "a c10d value"), .group = "Limits", .least = 1},
    {SIZE("output-limit", limits.output_max, "64MiB",
          "unread replies of one client; above, it is dropped"),
     .least = 1024},
    {COUNT_OR_OFF("connection-limit", limits.connections_max, "off", "connections at a time")},
    {ROW("memory-limit", OPTION_SIZE, limits.memory_max, "SIZE|auto|off",
         "memory of rdzvd; auto is 80% of the available memory"),
     .initial = "auto", .least = 1 << 20, .least_why = "a number alone counts bytes",
     .may_be_off = true, .may_be_auto = true},
    {SIZE_OR_OFF("space-limit", limits.space_bytes_max, "4GiB", "memory of each space")},
    {DURATION_OR_OFF("request-timeout", limits.request_timeout_ms, "1m",
                     "for a whole request to arrive; idle clients stay")},

    {CHOICE("log-format", log_format, "logfmt|json", "logfmt",
            "one line per event on stderr, in this format"),
     .group = "Log"},
    {CHOICE("log-level", log_level, "debug|info|warn|error", "info",
            "the lowest level that is logged"),
     .owner = OWNER_BOTH},

    {URLS("advertise-client-urls", advertise_client_urls), .owner = OWNER_BOTH,
     .initial = "http://localhost:2379"},

    {ROW("config", OPTION_FILE, config_file, "FILE",
         "read settings from YAML; the names are those of the flags"),
     .group = "Settings"},
    {ACTION("check-config", CONFIG_CHECK, "check the settings, print them as YAML and exit")},
    {TEXT("check-data", check_data, "DIR", "read a data directory, print its content and exit")},
    {TEXT("check-health", check_health, "HOST:PORT/PATH",
          "ask the rdzvd there for /livez, /readyz or /startz, and exit")},
    {ACTION("help", CONFIG_HELP, "print this and exit")},
    {ACTION("version", CONFIG_VERSION, "print the version and exit"), .owner = OWNER_BOTH},

    /* --- What only etcd has. Flags with an effect here. --- */

    {URLS("listen-client-urls", etcd.client_urls), .owner = OWNER_ETCD},
    {URLS("listen-metrics-urls", etcd.metrics_urls), .owner = OWNER_ETCD},
    {URLS("initial-advertise-peer-urls", advertise_peer_urls), .owner = OWNER_ETCD,
     .initial = "http://localhost:2380"},
    {TEXT("initial-cluster", initial_cluster, NULL, NULL), .owner = OWNER_ETCD},
    {TEXT("initial-cluster-token", initial_cluster_token, NULL, NULL), .owner = OWNER_ETCD,
     .initial = "etcd-cluster"},
    {CHOICE("initial-cluster-state", etcd.cluster_state, "new|existing", "new", NULL),
     .owner = OWNER_ETCD},
    {BOOL("enable-v2", etcd.v2), .owner = OWNER_ETCD},
    {BOOL("client-cert-auth", etcd.client_cert_auth), .owner = OWNER_ETCD},
    {BOOL("debug", etcd.debug), .owner = OWNER_ETCD},
    {CHOICE("logger", etcd.logger, "capnslog|zap", "capnslog", NULL), .owner = OWNER_ETCD},
    {NAMES("log-outputs", etcd.log_outputs, NULL, NULL), .owner = OWNER_ETCD},
    {.name = "config-file", .kind = OPTION_FILE, .owner = OWNER_ETCD},
    {ALIAS("cert-file", "cert")},
    {ALIAS("key-file", "key")},
    {ALIAS("trusted-ca-file", "client-ca")},
    {ALIAS("client-crl-file", "crl")},
    {ALIAS("client-cert-allowed-hostname", "client-names")},

    /* Flags without one, by reason. */

    {IGNORED(no_raft, "wal-dir snapshot-count heartbeat-interval election-timeout max-snapshots "
                      "max-wals")},
    {IGNORED_BOOL(
        no_raft, "initial-election-tick-advance strict-reconfig-check pre-vote force-new-cluster")},
    {IGNORED_BOOL("nothing is written to disk in this way here", "unsafe-no-fsync")},
    {IGNORED(no_grpc, "quota-backend-bytes backend-batch-interval backend-batch-limit max-txn-ops "
                      "max-concurrent-streams grpc-keepalive-min-time grpc-keepalive-interval "
                      "grpc-keepalive-timeout auto-compaction-retention auto-compaction-mode")},
    {IGNORED("etcd does not apply it to its v2 API either", "max-request-bytes")},
    {IGNORED_BOOL(no_grpc, "enable-grpc-gateway")},
    {IGNORED(ETCD_HAS_NO_PEERS,
             "listen-peer-urls peer-cert-file peer-key-file peer-trusted-ca-file "
             "peer-cert-allowed-cn peer-cert-allowed-hostname peer-crl-file")},
    {IGNORED_BOOL(ETCD_HAS_NO_PEERS, "peer-client-cert-auth peer-auto-tls")},
    {IGNORED("there is nothing to discover: this is a cluster of one",
             "discovery discovery-fallback discovery-proxy discovery-srv discovery-srv-name")},
    {IGNORED_BOOL("no certificate is made here: give --cert-file and --key-file", "auto-tls")},
    {IGNORED("TLS 1.2 and 1.3 are spoken, with AEAD ciphers and forward secrecy alone",
             "cipher-suites")},
    {IGNORED("there is no v3 authentication here", "auth-token auth-token-ttl bcrypt-cost")},
    {IGNORED_BOOL("there is no Go runtime to profile", "enable-pprof")},
    {IGNORED("there is one level of detail", "metrics")},
    {IGNORED(ETCD_OWN_LOG, "log-output log-package-levels")},
    {IGNORED("there is no proxy here",
             "proxy proxy-failure-wait proxy-refresh-interval proxy-dial-timeout "
             "proxy-write-timeout proxy-read-timeout")},
    {IGNORED_BOOL(experiment,
                  "experimental-initial-corrupt-check experimental-enable-lease-checkpoint "
                  "experimental-peer-skip-client-san-verification")},
    {IGNORED(experiment,
             "experimental-corrupt-check-time experimental-enable-v2v3 "
             "experimental-backend-bbolt-freelist-type experimental-compaction-batch-limit "
             "experimental-watch-progress-notify-interval "
             "experimental-warning-apply-duration")},
    {IGNORED_BOOL("etcd itself has ignored it for years",
                  "snapshot v vv force max-result-buffer max-retry-attempts retry-interval "
                  "cluster-active-size cluster-remove-delay cluster-sync-interval "
                  "peer-heartbeat-interval peer-election-timeout")},
};

const size_t config_option_count = sizeof config_options / sizeof config_options[0];

bool config_next_word(const char **rest, char word[CONFIG_WORD_MAX])
{
    size_t len = strcspn(*rest += strspn(*rest, " "), " ");

    assert(len < CONFIG_WORD_MAX);
    memcpy(word, *rest, len);
    word[len] = '\0';
    *rest += len;
    return len > 0;
}

const struct option *config_find_option(const char *name)
{
    char word[CONFIG_WORD_MAX];

    for (size_t i = 0; i < config_option_count; i++) {
        for (const char *rest = config_options[i].name; config_next_word(&rest, word);) {
            if (strcmp(word, name) == 0)
                return &config_options[i];
        }
    }
    return NULL;
}
