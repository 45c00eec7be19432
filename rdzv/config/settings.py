#!/usr/bin/env python3
"""The one table of rdzvd's settings: its own, and every flag of etcd 3.4. As a program it writes the table for C:

    settings.py OUT.c

A setting is a flag, a line of a file and a variable. Its kind is that of enum option_kind, `member` one of struct config,
and `takes` what --help shows for its value: the words of a choice, of which the first is true for a bool; DURATION|off may
be off, and SIZE|auto may be auto. What else a row has, such as `least` and `left_out`, is explained in struct option of
config_internal.h; `check` names a function without its config_check_. --help leaves out what has no help; behind the help
it shows the default, or `unset`; called as etcd, it shows `as_etcd`.
"""
import sys


def setting(kind, name, member=None, takes=None, help=None, **more):
    return dict(more, kind=kind, name=name, member=member, takes=takes, help=help)


SETTINGS = [  # a text begins a group of --help
    "Listening",
    setting("listen", "listen", "listeners", "ADDR:PORT[/SPACE]", "serve here, or unix:/PATH; repeatable",
            unset="localhost:29400, localhost:2379"),

    "TLS",
    setting("text", "cert", "tls.cert", "FILE", "serve TLS with this certificate and its chain, as PEM",
            left_out="there is no TLS"),
    setting("text", "key", "tls.key", "FILE", "its key, as PEM without a password", left_out="there is no TLS"),
    setting("text", "client-ca", "tls.client_ca", "FILE", "clients must show a certificate of one of these CAs",
            left_out="clients need no certificate"),
    setting("choice", "client-cert", "tls.client_cert", "required|optional",
            "optional: clients may show no certificate", default="required"),
    setting("names", "client-names", "tls.client_names", "NAMES", "a client's certificate must have one of these names",
            unset="any", check="peer_name"),
    setting("text", "crl", "tls.crl", "FILE", "the CAs' lists of certificates that are revoked",
            left_out="no certificate counts as revoked"),
    setting("text", "plaintext", "tls.plaintext", "WHO", "clients that may use no TLS: on, off, loopback, or networks",
            check="plaintext", unset="loopback"),

    "As a relay",
    setting("text", "upstream", "upstream", "HOST:PORT[,HOST:PORT...]",
            "be a relay of this store; a replica relays to the leader", check="upstream"),
    setting("text", "upstream-ca", "upstream_tls.ca", "FILE|system",
            "speak TLS with the store, whose certificate has one of these CAs", left_out="the relay speaks plain text"),
    setting("text", "upstream-cert", "upstream_tls.cert", "FILE", "show it this certificate",
            left_out="it shows no certificate"),
    setting("text", "upstream-key", "upstream_tls.key", "FILE", "the key of that", left_out="it shows no certificate"),
    setting("text", "upstream-name", "upstream_tls.name", "NAME", "the name in its certificate",
            left_out="it is the host of --upstream", unset="the host of --upstream"),
    setting("text", "space", "space", "NAME", "the space of that store (default)", check="space"),
    setting("count", "exit-on-restart", "exit_on_restart", "COUNT|off",
            "exit with this when a relay of the run (--expect) starts anew", default="off", most=255),
    setting("text", "node-label", "node_label_text", "KEY=VALUE", check="node_label"),  # manifests have it
    setting("text", "name", "name", "NAME", "the node's name there; as an etcd, the member's", owner="both",
            default="default"),

    "Who may do what",
    setting("text", "allow", "allow", "NETWORKS", "who may connect, beside this machine: 10.0.0.0/8,fd00::/8",
            check="allow", unset="anybody"),
    setting("text", "admin-token-file", "admin_token_file", "FILE",
            "clients that send the token in FILE may change things at /rdzv/v1",
            left_out="no token lets clients change things"),
    setting("names", "admin-names", "tls.admin_names", "NAMES",
            "operators may instead show a certificate with one of these names", unset="none", check="peer_name"),
    setting("text", "read-token-file", "read_token_file", "FILE", "readers of /rdzv/v1 send the token in FILE",
            left_out="readers need no token", unset="anybody may", for_stores=True),
    setting("names", "read-names", "tls.read_names", "NAMES",
            "readers may instead show a certificate with one of these names", unset="none", check="peer_name",
            for_stores=True),
    setting("names", "relay-names", "tls.relay_names", "SPACE=NAME,...",
            "relays of SPACE need a certificate with this name", unset="no space does", check="relay_name"),
    setting("origins", "cors", "cors", "ORIGINS", check="url", owner="both"),  # etcd documents it
    setting("names", "host-whitelist", "host_whitelist", "NAMES", "Host headers to answer, * is any",
            unset="any, on loopback its own", as_etcd="*", owner="both"),

    "Keys and spaces",
    setting("text", "data-dir", "data_dir", "DIR", "keep all state in DIR, so that it outlives the process",
            owner="both", left_out="a restart starts empty", for_stores=True, for_files=True),
    setting("choice", "sync", "sync", "always|batch|off",
            "what an answered change survives: a power cut; a kill; nothing", default="batch", for_stores=True,
            for_files=True),
    setting("text", "journal", "journal.url", "etcd://HOSTS/NAME",
            "keep all state in this etcd v3; one of several replicas leads", check="journal"),
    setting("duration", "journal-lease", "journal.lease_ms", "DURATION",
            "another replica leads this long after the leader has died", default="5s", least=2000, most=60000,
            for_stores=True),
    setting("text", "journal-user", "journal.user", "NAME", "user name of the login to etcd",
            left_out="it does not log in", for_stores=True),
    setting("text", "journal-password-file", "journal.password_file", "FILE", "that user's password",
            left_out="it does not log in", for_stores=True),
    setting("text", "journal-ca", "journal.tls.ca", "FILE|system",
            "speak TLS with etcd, whose certificate has one of these CAs", left_out="it speaks plain text with etcd"),
    setting("text", "journal-cert", "journal.tls.cert", "FILE", "show etcd this certificate",
            left_out="it shows no certificate"),
    setting("text", "journal-key", "journal.tls.key", "FILE", "the key of that", left_out="it shows no certificate"),
    setting("text", "journal-server-name", "journal.tls.name", "NAME", "the name in etcd's certificates",
            left_out="it is the host of each endpoint", unset="the host of each endpoint"),
    setting("duration", "space-idle-timeout", "space_idle_timeout_ms", "DURATION|off",
            "forget a space's c10d keys after this time without a c10d client", default="off", for_stores=True),
    setting("duration", "session-timeout", "session_timeout_ms", "DURATION",
            "end a relay's session after this time without it", default="45s", least=1, for_stores=True),
    setting("duration", "exit-when-idle", "exit_when_idle_ms", "DURATION|off",
            "exit after this time without use, once there was use", default="off"),
    setting("choice", "exit-with-stdin", "exit_with_stdin", "on|off", default="off"),  # for programs that start rdzvd
    setting("duration", "drain-timeout", "drain_timeout_ms", "DURATION|off", default="5s"),  # for the same

    "Elastic jobs",
    setting("choice", "elastic-fixes", "elastic.fixes", "on|off",
            "repair elastic jobs, or be a plain store like torch's", default="on"),
    setting("text", "advertise", "elastic.advertise", "HOST[:PORT]", "where workers reach this store (as agents do)",
            check="advertise"),
    setting("text", "worker-ports", "elastic.worker_ports", "LOW-HIGH",
            "a port for each run's workers (the agents' port)", check="worker_ports"),
    setting("duration", "closed-run-ttl", "elastic.closed_run_ttl_ms", "DURATION",
            "forget a closed run after this time without an agent", default="5s", least=1),
    setting("duration", "closed-run-wait", "elastic.closed_run_wait_ms", "DURATION|off",
            "agents wait this long for a closed run to be replaced", default="45s"),
    setting("duration", "ended-job-ttl", "elastic.ended_job_ttl_ms", "DURATION|off",
            "spares and lost nodes do not begin an ended job again", default="10m"),
    setting("duration", "idle-run-ttl", "elastic.idle_run_ttl_ms", "DURATION|off",
            "forget an open run after this time without an agent", default="1d"),
    setting("duration", "silent-node-timeout", "elastic.silent_node_ms", "DURATION|off",
            "a node is dead when its agent is silent for this time", default="off", least=6000,
            least_why="torch's agents send a heartbeat each 5s, and 1.13 sends nothing else"),
    setting("choice", "restart-on-loss", "elastic.restart_on_loss", "off|closed|silent",
            "when a node is lost, make the others meet again", default="silent"),
    setting("duration", "regroup-wait", "elastic.regroup_wait_ms", "DURATION|off",
            "after a loss, go on without missing nodes, not after torch's 30 s", default="off", least=2000),
    setting("count", "expect", "elastic.expected_nodes", "COUNT|off",
            "nodes of a job: the first round waits for no more", default="off"),
    setting("choice", "rank-order", "elastic.rank_order", "torch|natural|keep|table",
            "keep: nodes keep their ranks, new nodes take free ones", default="keep"),
    setting("text", "rules", "elastic.rules_text", "RULES",
            "rules of all runs, such as nodes-multiple=4,restart-budget=3/1h", check="run_rules", unset="none"),
    setting("count", "nodes-multiple", "elastic.rules.nodes_multiple", "COUNT|off", default="off"),  # each rule
    setting("duration", "grow-interval", "elastic.rules.grow_interval_ms", "DURATION|off", default="off"),
    setting("text", "rank-zero", "elastic.rank_zero", "NAME"),
    setting("text", "topology-file", "elastic.topology_file", "FILE",
            "the rack or domain of each node, for their ranks", left_out="all nodes are in one domain"),
    setting("choice", "end-failed-runs", "elastic.end_failed_runs", "on|off",
            "if a node fails for good, all nodes of its run end", default="on"),
    setting("choice", "close-needs-all", "elastic.close_needs_all", "on|off",
            "a run closes only when all its agents ask (torch 2.3-2.7)", default="off"),
    setting("names", "disable", "disabled", "NAMES", check="disable"),

    "Limits",
    setting("size", "value-limit", "limits.value_max", "SIZE", "a c10d value", default="8MiB", least=1),
    setting("size", "output-limit", "limits.output_max", "SIZE", "unread replies of one client; above, it is dropped",
            default="64MiB", least=1024),
    setting("count", "connection-limit", "limits.connections_max", "COUNT|off", "connections at a time", default="off"),
    setting("size", "memory-limit", "limits.memory_max", "SIZE|auto|off",
            "memory of rdzvd; auto is 80% of the available memory", default="auto", least=1 << 20,
            least_why="a number alone counts bytes"),
    setting("size", "space-limit", "limits.space_bytes_max", "SIZE|off", "memory of each space", default="4GiB"),
    setting("duration", "request-timeout", "limits.request_timeout_ms", "DURATION|off",
            "for a whole request to arrive; idle clients stay", default="1m"),

    "Log",
    setting("choice", "log-format", "log_format", "logfmt|json", "one line per event on stderr, in this format",
            default="logfmt"),
    setting("choice", "log-level", "log_level", "debug|info|warn|error", "the lowest level that is logged",
            default="info", owner="both"),
    setting("urls", "advertise-client-urls", "advertise_client_urls", "URLS", check="url", owner="both",
            default="http://localhost:2379"),

    "Settings",
    setting("file", "config", "config_file", "FILE", "read settings from YAML; the names are those of the flags"),
    setting("action", "check-config", help="check the settings, print them as YAML and exit", action="check"),
    setting("text", "check-data", "check_data", "DIR", "read a data directory, print its content and exit"),
    setting("text", "check-health", "check_health", "HOST:PORT/PATH",
            "ask the rdzvd there for /livez, /readyz or /startz, and exit"),
    setting("action", "help", help="print this and exit", action="help"),
    setting("action", "version", help="print the version and exit", action="version", owner="both"),
]

# What only etcd has, with an effect here.
OF_ETCD = [
    setting("urls", "listen-client-urls", "etcd.client_urls", "URLS", check="url"),
    setting("urls", "listen-metrics-urls", "etcd.metrics_urls", "URLS", check="url"),
    setting("urls", "initial-advertise-peer-urls", "advertise_peer_urls", "URLS", check="url",
            default="http://localhost:2380"),
    setting("text", "initial-cluster", "initial_cluster"),
    setting("text", "initial-cluster-token", "initial_cluster_token", default="etcd-cluster"),
    setting("choice", "initial-cluster-state", "etcd.cluster_state", "new|existing", default="new"),
    setting("choice", "enable-v2", "etcd.v2", "true|false", default="false"),
    setting("choice", "client-cert-auth", "etcd.client_cert_auth", "true|false", default="false"),
    setting("choice", "debug", "etcd.debug", "true|false", default="false"),
    setting("choice", "logger", "etcd.logger", "capnslog|zap", default="capnslog"),
    setting("names", "log-outputs", "etcd.log_outputs"),
    setting("file", "config-file"),
]

# Names of etcd's for settings of ours.
ALIASES = {"cert-file": "cert", "key-file": "key", "trusted-ca-file": "client-ca", "client-crl-file": "crl",
           "client-cert-allowed-hostname": "client-names"}

# Flags of etcd's without an effect: why, those that have a value, and those that are booleans to Go. A why in capital
# letters is a text of config_internal.h, which etcd_apply.c gives too.
IGNORED = [
    ("there is no raft log here: one process holds the state",
     "wal-dir snapshot-count heartbeat-interval election-timeout max-snapshots max-wals",
     "initial-election-tick-advance strict-reconfig-check pre-vote force-new-cluster"),
    ("nothing is written to disk in this way here", "", "unsafe-no-fsync"),
    ("there is no v3 (gRPC) API here",
     "quota-backend-bytes backend-batch-interval backend-batch-limit max-txn-ops max-concurrent-streams "
     "grpc-keepalive-min-time grpc-keepalive-interval grpc-keepalive-timeout auto-compaction-retention auto-compaction-mode",
     "enable-grpc-gateway"),
    ("etcd does not apply it to its v2 API either", "max-request-bytes", ""),
    ("ETCD_HAS_NO_PEERS",
     "listen-peer-urls peer-cert-file peer-key-file peer-trusted-ca-file peer-cert-allowed-cn peer-cert-allowed-hostname "
     "peer-crl-file", "peer-client-cert-auth peer-auto-tls"),
    ("there is nothing to discover: this is a cluster of one",
     "discovery discovery-fallback discovery-proxy discovery-srv discovery-srv-name", ""),
    ("no certificate is made here: give --cert-file and --key-file", "", "auto-tls"),
    ("TLS 1.2 and 1.3 are spoken, with AEAD ciphers and forward secrecy alone", "cipher-suites", ""),
    ("there is no v3 authentication here", "auth-token auth-token-ttl bcrypt-cost", ""),
    ("there is no Go runtime to profile", "", "enable-pprof"),
    ("there is one level of detail", "metrics", ""),
    ("ETCD_OWN_LOG", "log-output log-package-levels", ""),
    ("there is no proxy here",
     "proxy proxy-failure-wait proxy-refresh-interval proxy-dial-timeout proxy-write-timeout proxy-read-timeout", ""),
    ("an experiment of etcd's v3 side",
     "experimental-corrupt-check-time experimental-enable-v2v3 experimental-backend-bbolt-freelist-type "
     "experimental-compaction-batch-limit experimental-watch-progress-notify-interval experimental-warning-apply-duration",
     "experimental-initial-corrupt-check experimental-enable-lease-checkpoint experimental-peer-skip-client-san-verification"),
    ("etcd itself has ignored it for years", "",
     "snapshot v vv force max-result-buffer max-retry-attempts retry-interval cluster-active-size cluster-remove-delay "
     "cluster-sync-interval peer-heartbeat-interval peer-election-timeout"),
]

# Settings, the one that each of them needs beside it, and the fault if it is missing. The first fault counts. A name of a
# client that nobody has verified says nothing, so it needs the CA.
NEEDS = [
    ("cert", "key", "needs its key: --key=FILE"),
    ("key", "cert", "needs its certificate: --cert=FILE"),
    ("client-ca", "cert", "needs a certificate of ours: --cert=FILE and --key=FILE"),
    ("client-names admin-names read-names relay-names", "client-ca",
     "needs the CA whose certificates they are: --client-ca=FILE"),
    ("upstream-ca upstream-cert upstream-key upstream-name", "upstream", "is for a relay, which has --upstream"),
    ("upstream-cert upstream-key upstream-name", "upstream-ca", "needs the CA of the store: --upstream-ca=FILE, or system"),
    ("upstream-cert", "upstream-key", "needs its key: --upstream-key=FILE"),
    ("upstream-key", "upstream-cert", "needs its certificate: --upstream-cert=FILE"),
    ("journal-ca journal-cert journal-key journal-server-name journal-user", "journal", "is for --journal=etcd://..."),
    ("journal-cert journal-key journal-server-name", "journal-ca", "needs the CA of etcd: --journal-ca=FILE, or system"),
    ("journal-cert", "journal-key", "needs its key: --journal-key=FILE"),
    ("journal-key", "journal-cert", "needs its certificate: --journal-cert=FILE"),
    ("journal-password-file", "journal-user", "goes with --journal-user=NAME"),
    ("journal-user", "journal-password-file", "needs --journal-password-file=FILE"),
]

HELP_COLUMN = 39
HELP = """Usage: rdzvd [--FLAG=VALUE ...]

A rendezvous store: torch's c10d TCPStore and etcd's v2 API on one port.
Reads RDZVD_* variables like flags (RDZVD_DATA_DIR is --data-dir); a flag wins.
Accepts all flags of etcd 3.4, such as --advertise-client-urls and --cors, ETCD_*
variables and --config-file; called as `etcd` it starts as one.
%s
DURATION: 500ms, 30s, 1m30s, 2h; a number alone counts seconds.
SIZE: 64KiB, 8MiB, 4GiB, or kB, MB, GB for powers of 1000; a number alone counts bytes.
off means no limit, or never.
"""


def help_text(as_etcd):
    lines = ""
    for s in SETTINGS:
        if isinstance(s, str):
            lines += "\n%s:\n" % s
        elif s["help"] is not None:
            flag = "  --" + s["name"] + ("=" + s["takes"] if s["takes"] else "")
            default = s.get("as_etcd") if as_etcd else None
            default = default or s.get("default", s.get("unset"))
            lines += max(flag + "  ", flag.ljust(HELP_COLUMN), key=len) + s["help"] + (" (%s)\n" % default if default else "\n")
    return HELP % lines


# --- In C. ---

# Keys of a row of SETTINGS whose values are texts in C, and the member of the C struct for each.
TEXTS = {"name": "name", "takes": "value_name", "default": "initial", "least_why": "least_why", "left_out": "left_out",
         "own": "own"}


def quoted(text):
    return '"%s"' % text.replace('"', '\\"').replace("\n", "\\n")


def members(s):
    """Those of struct option that are not zero, in C."""
    takes, is_amount = s["takes"] or "", s["kind"] in ("duration", "size", "count")
    found = {"kind": "OPTION_" + s["kind"].upper(), "owner": "OWNER_" + s["owner"].upper()}
    found.update((member, quoted(s[key])) for key, member in TEXTS.items() if s.get(key) is not None)
    found.update((key, str(s[key])) for key in ("least", "most") if key in s)
    if s["member"] is not None:
        found["offset"] = "offsetof(struct config, %s)" % s["member"]
        found["size"] = "sizeof(((struct config *)0)->%s)" % s["member"]
    if "action" in s:
        found["action"] = "CONFIG_" + s["action"].upper()
    if "check" in s:
        found["check"] = "config_check_" + s["check"]
    if "ignored" in s:
        found["ignored"] = s["ignored"] if s["ignored"].isupper() else quoted(s["ignored"])
    found.update((key, "true") for key, so in {
        "may_be_off": is_amount and "|off" in takes, "may_be_auto": "|auto" in takes,
        "is_bool": takes == "true|false" or s.get("is_bool"),
        "is_for_stores": s.get("for_stores"), "is_for_files": s.get("for_files")}.items() if so)
    return found


def rows():
    for s in SETTINGS:
        if not isinstance(s, str):
            yield dict({"owner": "rdzvd"}, **s)
    for s in OF_ETCD:
        yield dict(s, owner="etcd")
    for name, own in ALIASES.items():
        yield setting("alias", name, own=own, owner="etcd")
    for why, values, booleans in IGNORED:
        yield from (setting("ignored", name, ignored=why, owner="etcd") for name in values.split())
        yield from (setting("ignored", name, ignored=why, owner="etcd", is_bool=True) for name in booleans.split())


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write('/* Made by rdzv/config/settings.py. */\n#include <stddef.h>\n\n#include "rdzv/config/config_internal.h"\n\n'
                "const struct option config_options[] = {\n")
        for s in rows():
            f.write("    {%s},\n" % ", ".join(".%s = %s" % member for member in members(s).items()))
        f.write("};\n\nconst size_t config_option_count = sizeof config_options / sizeof *config_options;\n\n"
                "const struct option_need config_needs[] = {\n")
        for names, needs, fault in NEEDS:
            f.writelines("    {%s, %s, %s},\n" % tuple(map(quoted, (name, needs, fault))) for name in names.split())
        f.write("};\n\nconst size_t config_need_count = sizeof config_needs / sizeof *config_needs;\n\n")
        for name, as_etcd in ("config_help", False), ("config_help_of_etcd", True):
            f.write("const char %s[] =\n%s;\n" % (name, "\n".join("    " + quoted(line) for line in
                                                               help_text(as_etcd).splitlines(keepends=True))))


if __name__ == "__main__":
    main()
