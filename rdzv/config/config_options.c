/* The one table of settings: ours, and every flag of etcd 3.4. See config_internal.h. */
#include <stddef.h>
#include <string.h>

#include "rdzv/config/config_internal.h"

const char *const rank_order_names[] = {"torch", "natural", "keep", "table", NULL};

static const char no_raft[] = "there is no raft log here: one process holds the state";
static const char no_grpc[] = "there is no v3 (gRPC) API here";
static const char no_discovery[] = "there is nothing to discover: this is a cluster of one";
static const char no_proxy[] = "there is no proxy here";
static const char no_disk[] = "nothing is written to disk in this way here";
static const char no_auth[] = "there is no v3 authentication here";
static const char long_ago[] = "etcd itself has ignored it for years";
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
#define BOOL(flag, member)               CHOICE(flag, member, "true|false", "false", NULL)
#define DURATION(flag, member, amount, text) \
    ROW(flag, OPTION_DURATION, member, "DURATION", text), .initial = (amount)
#define SIZE(flag, member, amount, text) \
    ROW(flag, OPTION_SIZE, member, "SIZE", text), .initial = (amount)
#define COUNT(flag, member, amount, text) \
    ROW(flag, OPTION_COUNT, member, "COUNT", text), .initial = (amount)
#define ACTION(flag, value, text) \
    .name = (flag), .kind = OPTION_ACTION, .action = (value), .help = (text)

/* Rows of etcd's flags. */
#define ALIAS(flag, ours) .name = (flag), .kind = OPTION_ALIAS, .owner = OWNER_ETCD, .own = (ours)
#define IGNORED(flag, why) \
    .name = (flag), .kind = OPTION_IGNORED, .owner = OWNER_ETCD, .ignored = (why)
#define IGNORED_BOOL(flag, why) IGNORED(flag, why), .is_bool = true

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
    {COUNT("exit-on-restart", exit_on_restart, "off",
           "exit with this when a relay of the run (--expect) starts anew"),
     .most = 255, .may_be_off = true},
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
     .left_out = "readers need no token", .unset = "anybody may", .on_relay = RELAY_REFUSES},
    {NAMES("read-names", tls.read_names, "NAMES",
           "readers may instead show a certificate with one of these names"),
     .unset = "none", .check = config_check_peer_name, .on_relay = RELAY_REFUSES},
    {NAMES("relay-names", tls.relay_names, "SPACE=NAME,...",
           "relays of SPACE need a certificate with this name"),
     .unset = "no space does", .check = config_check_relay_name},
    {ROW("cors", OPTION_ORIGINS, cors, "ORIGINS", NULL), /* etcd documents it */
     .check = config_check_url, .owner = OWNER_BOTH},
    {NAMES("host-whitelist", host_whitelist, "NAMES", "Host headers to answer, * is any"),
     .unset = "any, on loopback its own", .owner = OWNER_BOTH},

    {TEXT("data-dir", data_dir, "DIR", "keep all state in DIR, so that it outlives the process"),
     .group = "Keys and spaces", .owner = OWNER_BOTH, .left_out = "a restart starts empty",
     .on_relay = RELAY_REFUSES, .is_for_files = true},
    {CHOICE("sync", sync, "always|batch|off", "batch",
            "what an answered change survives: a power cut; a kill; nothing"),
     .on_relay = RELAY_REFUSES, .is_for_files = true},
    {TEXT("journal", journal.url, "etcd://HOSTS/NAME",
          "keep all state in this etcd v3; one of several replicas leads"),
     .check = config_check_journal},
    {DURATION("journal-lease", journal.lease_ms, "5s",
              "another replica leads this long after the leader has died"),
     .least = 2000, .most = 60000, .on_relay = RELAY_REFUSES},
    {TEXT("journal-user", journal.user, "NAME", "user name of the login to etcd"),
     .left_out = "it does not log in", .on_relay = RELAY_REFUSES},
    {TEXT("journal-password-file", journal.password_file, "FILE", "that user's password"),
     .left_out = "it does not log in", .on_relay = RELAY_REFUSES},
    {TEXT("journal-ca", journal.tls.ca, "FILE|system",
          "speak TLS with etcd, whose certificate has one of these CAs"),
     .left_out = "it speaks plain text with etcd"},
    {TEXT("journal-cert", journal.tls.cert, "FILE", "show etcd this certificate"),
     .left_out = "it shows no certificate"},
    {TEXT("journal-key", journal.tls.key, "FILE", "the key of that"),
     .left_out = "it shows no certificate"},
    {TEXT("journal-server-name", journal.tls.name, "NAME", "the name in etcd's certificates"),
     .left_out = "it is the host of each endpoint", .unset = "the host of each endpoint"},
    {DURATION("space-idle-timeout", space_idle_timeout_ms, "off",
              "forget a space's c10d keys after this time without a c10d client"),
     .may_be_off = true, .on_relay = RELAY_REFUSES},
    {DURATION("session-timeout", session_timeout_ms, "45s",
              "end a relay's session after this time without it"),
     .least = 1, .on_relay = RELAY_REFUSES},
    {DURATION("exit-when-idle", exit_when_idle_ms, "off",
              "exit after this time without use, once there was use"),
     .may_be_off = true},
    {SWITCH("exit-with-stdin", exit_with_stdin, "off", NULL)}, /* for programs that start rdzvd */
    {DURATION("drain-timeout", drain_timeout_ms, "5s", NULL),
     .may_be_off = true}, /* for the same */

    {SWITCH("elastic-fixes", elastic.fixes, "on",
            "repair elastic jobs, or be a plain store like torch's"),
     .group = "Elastic jobs", .on_relay = RELAY_IGNORES},
    {TEXT("advertise", elastic.advertise, "HOST[:PORT]",
          "where workers reach this store (as agents do)"),
     .check = config_check_advertise, .on_relay = RELAY_IGNORES},
    {TEXT("worker-ports", elastic.worker_ports, "LOW-HIGH",
          "a port for each run's workers (the agents' port)"),
     .check = config_check_worker_ports, .on_relay = RELAY_IGNORES},
    {DURATION("closed-run-ttl", elastic.closed_run_ttl_ms, "5s",
              "forget a closed run after this time without an agent"),
     .least = 1, .on_relay = RELAY_IGNORES},
    {DURATION("closed-run-wait", elastic.closed_run_wait_ms, "45s",
              "agents wait this long for a closed run to be replaced"),
     .may_be_off = true, .on_relay = RELAY_IGNORES},
    {DURATION("ended-job-ttl", elastic.ended_job_ttl_ms, "10m",
              "spares and lost nodes do not begin an ended job again"),
     .may_be_off = true, .on_relay = RELAY_IGNORES},
    {DURATION("idle-run-ttl", elastic.idle_run_ttl_ms, "1d",
              "forget an open run after this time without an agent"),
     .may_be_off = true, .on_relay = RELAY_IGNORES},
    {DURATION("silent-node-timeout", elastic.silent_node_ms, "off",
              "a node is dead when its agent is silent for this time"),
     .least = 6000,
     .least_why = "torch's agents send a heartbeat each 5s, and 1.13 sends nothing else",
     .may_be_off = true, .on_relay = RELAY_IGNORES},
    {CHOICE("restart-on-loss", elastic.restart_on_loss, "off|closed|silent", "silent",
            "when a node is lost, make the others meet again"),
     .on_relay = RELAY_IGNORES},
    {DURATION("regroup-wait", elastic.regroup_wait_ms, "off",
              "after a loss, go on without missing nodes (MIN are left)"),
     .least = 2000, .may_be_off = true, .on_relay = RELAY_IGNORES},
    {COUNT("expect", elastic.expected_nodes, "off",
           "nodes of a job: the first round waits for no more"),
     .may_be_off = true, .on_relay = RELAY_IGNORES},
    {CHOICE("rank-order", elastic.rank_order, "torch|natural|keep|table", "keep",
            "keep: nodes keep their ranks, new nodes take free ones"),
     .on_relay = RELAY_IGNORES},
    {TEXT("rank-zero", elastic.rank_zero, "NAME", "rank 0 is for the node of this name or pattern"),
     .on_relay = RELAY_IGNORES, .left_out = "any node gets rank 0", .unset = "any node"},
    {TEXT("topology-file", elastic.topology_file, "FILE",
          "the rack or domain of each node, for their ranks"),
     .on_relay = RELAY_IGNORES, .left_out = "all nodes are in one domain"},
    {SWITCH("end-failed-runs", elastic.end_failed_runs, "on",
            "if a node fails for good, all nodes of its run end"),
     .on_relay = RELAY_IGNORES},
    {SWITCH("close-needs-all", elastic.close_needs_all, "off",
            "a run closes only when all its agents ask (torch 2.3-2.7)"),
     .on_relay = RELAY_IGNORES},
    {NAMES("disable", disabled, "NAMES", NULL), .check = config_check_disable},

    {SIZE("value-limit", limits.value_max, "8MiB", "a c10d value"), .group = "Limits", .least = 1},
    {SIZE("output-limit", limits.output_max, "64MiB",
          "unread replies of one client; above, it is dropped"),
     .least = 1024},
    {COUNT("connection-limit", limits.connections_max, "off", "connections at a time"),
     .may_be_off = true},
    {SIZE("memory-limit", limits.memory_max, "auto",
          "memory of rdzvd; auto is 80% of the available memory"),
     .least = 1 << 20, .least_why = "a number alone counts bytes", .may_be_off = true,
     .may_be_auto = true},
    {SIZE("space-limit", limits.space_bytes_max, "4GiB", "memory of each space"),
     .may_be_off = true},
    {DURATION("request-timeout", limits.request_timeout_ms, "1m",
              "for a whole request to arrive; idle clients stay"),
     .may_be_off = true},

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

    /* Flags without one. */

    {IGNORED("wal-dir", no_raft)},
    {IGNORED("snapshot-count", no_raft)},
    {IGNORED("heartbeat-interval", no_raft)},
    {IGNORED("election-timeout", no_raft)},
    {IGNORED_BOOL("initial-election-tick-advance", no_raft)},
    {IGNORED("max-snapshots", no_raft)},
    {IGNORED("max-wals", no_raft)},
    {IGNORED_BOOL("strict-reconfig-check", no_raft)},
    {IGNORED_BOOL("pre-vote", no_raft)},
    {IGNORED_BOOL("force-new-cluster", no_raft)},
    {IGNORED_BOOL("unsafe-no-fsync", no_disk)},
    {IGNORED("quota-backend-bytes", no_grpc)},
    {IGNORED("backend-batch-interval", no_grpc)},
    {IGNORED("backend-batch-limit", no_grpc)},
    {IGNORED("max-txn-ops", no_grpc)},
    {IGNORED("max-request-bytes", "etcd does not apply it to its v2 API either")},
    {IGNORED("max-concurrent-streams", no_grpc)},
    {IGNORED("grpc-keepalive-min-time", no_grpc)},
    {IGNORED("grpc-keepalive-interval", no_grpc)},
    {IGNORED("grpc-keepalive-timeout", no_grpc)},
    {IGNORED_BOOL("enable-grpc-gateway", no_grpc)},
    {IGNORED("auto-compaction-retention", no_grpc)},
    {IGNORED("auto-compaction-mode", no_grpc)},

    {IGNORED("listen-peer-urls", ETCD_HAS_NO_PEERS)},
    {IGNORED("peer-cert-file", ETCD_HAS_NO_PEERS)},
    {IGNORED("peer-key-file", ETCD_HAS_NO_PEERS)},
    {IGNORED_BOOL("peer-client-cert-auth", ETCD_HAS_NO_PEERS)},
    {IGNORED("peer-trusted-ca-file", ETCD_HAS_NO_PEERS)},
    {IGNORED("peer-cert-allowed-cn", ETCD_HAS_NO_PEERS)},
    {IGNORED("peer-cert-allowed-hostname", ETCD_HAS_NO_PEERS)},
    {IGNORED_BOOL("peer-auto-tls", ETCD_HAS_NO_PEERS)},
    {IGNORED("peer-crl-file", ETCD_HAS_NO_PEERS)},
    {IGNORED("discovery", no_discovery)},
    {IGNORED("discovery-fallback", no_discovery)},
    {IGNORED("discovery-proxy", no_discovery)},
    {IGNORED("discovery-srv", no_discovery)},
    {IGNORED("discovery-srv-name", no_discovery)},

    {IGNORED_BOOL("auto-tls", "no certificate is made here: give --cert-file and --key-file")},
    {IGNORED("cipher-suites",
             "TLS 1.2 and 1.3 are spoken, with AEAD ciphers and forward secrecy alone")},

    {IGNORED("auth-token", no_auth)},
    {IGNORED("auth-token-ttl", no_auth)},
    {IGNORED("bcrypt-cost", no_auth)},
    {IGNORED_BOOL("enable-pprof", "there is no Go runtime to profile")},
    {IGNORED("metrics", "there is one level of detail")},
    {IGNORED("log-output", ETCD_OWN_LOG)},
    {IGNORED("log-package-levels", ETCD_OWN_LOG)},

    {IGNORED("proxy", no_proxy)},
    {IGNORED("proxy-failure-wait", no_proxy)},
    {IGNORED("proxy-refresh-interval", no_proxy)},
    {IGNORED("proxy-dial-timeout", no_proxy)},
    {IGNORED("proxy-write-timeout", no_proxy)},
    {IGNORED("proxy-read-timeout", no_proxy)},

    {IGNORED_BOOL("experimental-initial-corrupt-check", experiment)},
    {IGNORED("experimental-corrupt-check-time", experiment)},
    {IGNORED("experimental-enable-v2v3", experiment)},
    {IGNORED("experimental-backend-bbolt-freelist-type", experiment)},
    {IGNORED_BOOL("experimental-enable-lease-checkpoint", experiment)},
    {IGNORED("experimental-compaction-batch-limit", experiment)},
    {IGNORED_BOOL("experimental-peer-skip-client-san-verification", experiment)},
    {IGNORED("experimental-watch-progress-notify-interval", experiment)},
    {IGNORED("experimental-warning-apply-duration", experiment)},

    /* Of etcd 0.4 and before; Go took all of them for booleans. */
    {IGNORED_BOOL("snapshot", long_ago)},
    {IGNORED_BOOL("v", long_ago)},
    {IGNORED_BOOL("vv", long_ago)},
    {IGNORED_BOOL("force", long_ago)},
    {IGNORED_BOOL("max-result-buffer", long_ago)},
    {IGNORED_BOOL("max-retry-attempts", long_ago)},
    {IGNORED_BOOL("retry-interval", long_ago)},
    {IGNORED_BOOL("cluster-active-size", long_ago)},
    {IGNORED_BOOL("cluster-remove-delay", long_ago)},
    {IGNORED_BOOL("cluster-sync-interval", long_ago)},
    {IGNORED_BOOL("peer-heartbeat-interval", long_ago)},
    {IGNORED_BOOL("peer-election-timeout", long_ago)},
};

const size_t config_option_count = sizeof config_options / sizeof config_options[0];

const struct option *config_find_option(const char *name, size_t len)
{
    for (size_t i = 0; i < config_option_count; i++) {
        if (strlen(config_options[i].name) == len && memcmp(config_options[i].name, name, len) == 0)
            return &config_options[i];
    }
    return NULL;
}
