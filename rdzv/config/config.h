/* All settings of the daemon in one checked struct, and the way there from a command line, an
 * environment and a YAML file. Pure but for reading that file: nothing is opened, resolved,
 * printed or logged here.
 *
 * One table has our own flags and those of etcd (settings.py); both may be mixed on one
 * command line, since no name means two things. Flags are Go's style: -flag or --flag, =value or
 * the next argument, booleans without value or =true, =false.
 *
 * rdzvd reads ETCD_* variables if it is called `etcd`; or if a flag that only etcd has is given; or
 * if no --listen is given (by flag or file), so that a pod that runs `rdzvd` with
 * ETCD_LISTEN_CLIENT_URLS in its env works as its author meant. With --listen and without a flag of
 * etcd's, rdzvd ignores ETCD_* variables and logs a note.
 *
 * Precedence, first wins: command line, RDZVD_* environment (RDZVD_LISTEN is one --listen), ETCD_*
 * environment (beside the same flag: an error, as in etcd), --config file, default. etcd's own
 * --config-file ends etcd's flags and variables, as in etcd, and leaves ours in force. --config is
 * always ours: etcd's flag of this name has no effect. */
#pragma once

#include "proto/queue.h"
#include "rdzv/config/elastic_settings.h"
#include "rdzv/config/topology.h"
#include "rdzv/engine/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_DEFAULT_SPACE "default"
#define CONFIG_DEFAULT_NAME  "default"

/* Owned strings; config_parse() makes them, config_free() frees them. */
struct string_list {
    char **items;
    size_t count;
};

/* Networks, as 10.0.0.0/8 or fd00::/8. */
struct cidr {
    uint8_t address[16]; /* IPv6, or IPv4 mapped into it; what is behind the bits says nothing */
    uint8_t bits;        /* of those 128 */
};

/* Owned; cidr_list_free() frees and zeroes it. */
struct cidr_list {
    struct cidr *items;
    size_t count;
};

/* Reads networks with commas between them; blanks are ignored. An address without a length is a
 * network of one address. False if a part is no network; *out is unchanged. */
bool cidr_list_parse(const char *text, struct cidr_list *out);
void cidr_list_free(struct cidr_list *list);

/* `address` is as struct cidr has it. */
bool cidr_list_has(const struct cidr_list *list, const uint8_t address[16]);

/* The names of --disable; no help has them, and only the first one is in a document. */
#define CONFIG_C10D_LEGACY        "c10d-legacy"
#define CONFIG_CLOSE_FROM_MEMBERS "close-from-members"
#define CONFIG_DROP_DISCONNECTED  "drop-disconnected"
#define CONFIG_END_LAST_CALL      "end-last-call"

/* What is spoken at a listener, where there is a certificate (--cert). */
enum listen_wire {
    LISTEN_BY_SETTING, /* TLS, and plain text with whom --plaintext names */
    LISTEN_PLAIN,      /* both, with everybody: a URL with http:// says so */
    LISTEN_TLS,        /* TLS alone: one with https:// does */
};

struct listen_spec {
    char *path;       /* of a Unix socket, which speaks HTTP alone; NULL: host and port */
    char *host;       /* "" for every address of IPv4 and IPv6; else an address without brackets,
                         or a name that the server resolves */
    uint16_t port;    /* 0: the kernel chooses, the log says what */
    char *space;      /* the space of c10d and etcd requests that come in here */
    bool space_named; /* by its own text, so a relay that names another space is refused here */
    bool ipv6_only;   /* [::] in --listen: leaves 0.0.0.0 of the same port to another listener */
    bool optional;    /* ::1 beside a default or named localhost: no error where there is no IPv6 */
    bool metrics_only; /* --listen-metrics-urls: /metrics and /health, nothing else */
    enum listen_wire wire;
    int fd;      /* an inherited listening socket, or -1: open one */
    int kept_fd; /* main()'s own copy of it */
};

/* Where a relay finds its store. */
struct upstream_spec {
    char *host; /* an address without brackets, or a name */
    uint16_t port;
};

/* TLS with a server that rdzvd connects to. */
struct config_client_tls {
    char *ca;         /* whose certificate the server has, or "system"; NULL: there is no TLS */
    char *cert, *key; /* what rdzvd shows; NULL: nothing */
    char *name;       /* in the server's certificate; NULL: the host that it connects to */
    const char *crl;  /* that of config_tls */
};

/* Where the journal is kept on an etcd v3 cluster. */
struct config_journal {
    char *url;                       /* as given; NULL: it is not */
    struct upstream_spec *endpoints; /* at least one */
    size_t endpoint_count;
    char *name; /* of the journal: its keys are below /rdzvd/NAME/ */
    uint64_t lease_ms;
    char *user; /* NULL: no login */
    char *password_file;
    struct config_client_tls tls;
};

enum config_action {
    CONFIG_RUN,
    CONFIG_CHECK,        /* config_write_check() to stdout, exit 0; or 1, and the log says why */
    CONFIG_HELP,         /* config_help to stdout, exit 0 */
    CONFIG_VERSION,      /* config_write_version() to stdout, exit 0 */
    CONFIG_CHECK_DATA,   /* read a data directory, say what is in it; exit 0 when it is whole */
    CONFIG_CHECK_HEALTH, /* ask the rdzvd at check_health; exit 0 when it answers 200 */
};

/* What a change has survived once it is answered. The order is that of the words in the table. */
enum config_sync {
    CONFIG_SYNC_ALWAYS, /* the machine's end, too */
    CONFIG_SYNC_BATCH,  /* the process's; the machine's, but for the last 100 ms */
    CONFIG_SYNC_OFF,    /* nothing: as without a data directory */
};

/* An amount that is found out at start. */
#define CONFIG_AUTO UINT64_MAX

/* Checked before the bytes come. 0 means no limit where the comment says so, and nowhere else. */
struct config_limits {
    uint64_t value_max;  /* bytes of a c10d value or queue item; see c10d_limits_of() */
    uint64_t output_max; /* bytes queued for a peer that does not read; one reply may be longer */
    uint32_t connections_max;    /* 0: no limit but the descriptors */
    uint64_t memory_max;         /* bytes of the process; 0: no limit; CONFIG_AUTO */
    uint64_t space_bytes_max;    /* all that one space keeps; 0: no limit */
    uint64_t request_timeout_ms; /* from the first byte of a request to its last; 0: for ever */
};

/* Who may speak plain text where there is a certificate. Who comes over a Unix socket may. */
struct config_plaintext {
    bool everybody;
    struct cidr_list networks; /* else those */
};

enum config_client_cert { CONFIG_CLIENT_CERT_REQUIRED, CONFIG_CLIENT_CERT_OPTIONAL };

/* TLS: of files, the names. */
struct config_tls {
    char *cert, *key;                    /* NULL: there is no TLS, and the rest says nothing */
    char *client_ca;                     /* NULL: clients are asked for no certificate */
    enum config_client_cert client_cert; /* whether one without it is let in */
    char *crl;                           /* certificates that are taken no more; NULL: none */
    struct string_list client_names;     /* their certificates name one of these; empty: any */
    struct string_list admin_names;      /* clients whose certificates have one of these names are
                                            operators */
    struct string_list read_names;       /* and these are readers */
    struct string_list relay_names;      /* SPACE=NAME: a relay of that space has such a name */
    char *plaintext;                     /* as given; NULL: loopback */
    struct config_plaintext plaintext_for;
};

/* What only etcd's flags say; the check of the settings makes listeners and more of it. */
struct config_etcd {
    struct string_list client_urls, metrics_urls, log_outputs;
    bool v2, client_cert_auth, debug;
    enum log_format logger; /* capnslog or zap */
    enum { ETCD_CLUSTER_NEW, ETCD_CLUSTER_EXISTING } cluster_state;
};

/* Something the log should say once at start. */
struct config_note {
    enum config_note_kind {
        CONFIG_NOTE_IGNORED, /* an accepted flag without effect here */
        CONFIG_NOTE_WARNING, /* probably not what the user meant */
    } kind;
    char *flag; /* as it was given: "--pre-vote", "ETCD_FOO", "rdzvd.yaml:3:1: pre-vote" */
    char *why;
};

struct config {
    enum config_action action;
    bool etcd_mode;         /* started as etcd, or by etcd's flags or variables */
    bool listeners_default; /* no setting names a listener: inherited sockets take their place */

    struct string_list disabled; /* of those names */

    struct listen_spec *listeners; /* at least one */
    size_t listener_count;

    char *upstream; /* as given; NULL: a store that passes no client on. Otherwise clients are
                       passed on to these: config_is_relay(), config_passes_on() */
    struct upstream_spec *upstreams; /* one at least */
    size_t upstream_count;
    struct config_client_tls upstream_tls;
    char *space;           /* of a relay: what its clients use there; NULL: the default one */
    char *node_label_text; /* of a relay */
    struct topology_label node_label; /* the same */
    uint32_t exit_on_restart;         /* its exit code when its run starts again; 0: off */

    char *name;     /* "default"; the member's name in /v2/members and /v2/stats */
    char *data_dir; /* NULL: state is in memory only */
    struct config_journal journal;
    char *check_data;   /* CONFIG_CHECK_DATA: that directory */
    char *check_health; /* CONFIG_CHECK_HEALTH: HOST:PORT/PATH */
    enum config_sync sync;
    struct string_list advertise_client_urls; /* "http://localhost:2379" */
    bool advertise_default;                   /* the default, which may be unreachable */
    struct string_list advertise_peer_urls;   /* "http://localhost:2380" */
    char *initial_cluster;                    /* "NAME=PEER-URL,..." as given, or NULL */
    char *initial_cluster_token;              /* "etcd-cluster" */
    struct config_etcd etcd;
    struct string_list cors;           /* origins, or `*` alone; empty: none */
    struct string_list host_whitelist; /* names, or only `*`; empty: any, but on loopback
                                          only addresses and localhost */

    char *admin_token_file; /* NULL: there is no token */
    char *read_token_file;  /* the same; without that and tls.read_names, all may read */
    struct config_tls tls;
    char *allow;              /* as given; NULL: anybody may connect */
    struct cidr_list allowed; /* who may, beside this machine */

    bool legacy; /* accept c10d's legacy version (torch 1.9 to 2.0), or refuse it: --disable */
    uint64_t space_idle_timeout_ms; /* 0: off */
    uint64_t session_timeout_ms;    /* of sessions without their relay */
    uint64_t exit_when_idle_ms;     /* 0: off */
    bool exit_with_stdin;
    uint64_t drain_timeout_ms; /* from SIGTERM until connections that are left get dropped */
    struct policy_settings elastic;
    struct config_limits limits;

    enum log_format log_format;
    enum log_level log_level;

    char *config_file; /* the YAML file that was read, or NULL */
    struct config_note *notes;
    size_t note_count;
};

#define CONFIG_ERROR_MAX 1024

/* Why a command line was refused. */
struct config_error {
    int exit_code;               /* 2: usage; 1: etcd's exit code for a failed check */
    char text[CONFIG_ERROR_MAX]; /* one line: flag or file:line:column, what is wrong, a hint */
};

/* Fills *out, which the caller frees with config_free(). On false *out is untouched and *error says
 * why. argv[0] counts; environ ends with NULL, as main's does. */
bool config_parse(int argc, char *const argv[], char *const environment[], struct config *out,
                  struct config_error *error);
void config_free(struct config *config);

/* Reads index=NUMBER,domain=DOMAIN, of which each may be absent. A value may be empty, as that of
 * an absent label of a pod, or $(NAME), as Kubernetes leaves an absent variable. False: the text is
 * wrong. */
bool node_label_read(const char *text, struct topology_label *out);

/* Whether --disable has one of the names above. */
bool config_disables(const struct config *config, const char *name);

/* True for a relay, which keeps no state and passes all clients on. */
static inline bool config_is_relay(const struct config *c)
{
    return c->upstream != NULL && c->journal.url == NULL;
}

/* True for a replica that relays its clients to the leader while another replica leads. */
static inline bool config_passes_on(const struct config *c)
{
    return c->upstream != NULL && c->journal.url != NULL;
}

/* An inherited listening socket (see notify.h) takes the place of the listener with that address,
 * if there is one, of the default listeners, if no setting names any, or its own place. A socket
 * whose `name` is a legal space name (systemd's FileDescriptorName=) serves that space. */
void config_adopt_socket(struct config *config, int fd, const char *host, uint16_t port,
                         const char *name);

/* "127.0.0.1:29400", "[::1]:2379", "*:29400", "unix:/run/rdzvd.sock". */
#define CONFIG_ADDRESS_MAX 300
const char *config_format_address(const struct listen_spec *spec, char text[CONFIG_ADDRESS_MAX]);
#define CONFIG_ADDRESS(spec) config_format_address((spec), (char[CONFIG_ADDRESS_MAX]){0})

/* 1 to 253 characters, letters, digits, `.`, `_`, `-`, and the first one a letter or digit. */
bool config_space_name_ok(const char *name);

/* What --help prints, and what it prints if the daemon is called as etcd. */
extern const char config_help[], config_help_of_etcd[];
void config_write_version(FILE *out, const struct config *config, const char *version);
/* The settings in effect, as a YAML file that --config takes and that gives the same settings. */
void config_write_effective(FILE *out, const struct config *config);
/* What --check-config prints: the same below `# configuration ok` and the notes, as comments. If
 * the machine lacks what the settings need, another line stands for the first. */
void config_write_check(FILE *out, const struct config *config, bool fits_machine);

/* The ids of the only member and its cluster, as etcd derives them from its peer URLs and token. */
void etcd_ids(const struct config *config, uint64_t *member, uint64_t *cluster);
/* An id as etcd shows it. */
#define ETCD_ID_MAX 17
const char *etcd_format_id(uint64_t id, char text[ETCD_ID_MAX]);
#define ETCD_ID(id) etcd_format_id((id), (char[ETCD_ID_MAX]){0}) /* until the block ends */
