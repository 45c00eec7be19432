/* What the parts of config share while a struct config is being made: the settings with their
 * sources, and the struct config that receives them. For config*.c and etcd_apply.c only. */
#pragma once

#include "rdzv/config/config.h"
#include "rdzv/config/config_file.h"

/* Reasons that etcd_apply.c gives too. */
#define ETCD_HAS_NO_PEERS "there are no peers: this is a cluster of one"
#define ETCD_OWN_LOG      "one line per event goes to stderr; see --log-format, --log-level"

/* --- URLs of etcd's flags and members: what etcd refuses of them. --- */

/* The host points into the URL; that of unix:// and unixs:// is NULL. */
struct etcd_url {
    bool is_tls, is_unix;
    const char *host;
    size_t host_len;
    uint16_t port;
};

/* Checks a URL that etcd may listen on or advertise. Returns NULL if it is valid, and sets *out
 * (unless it is NULL) to its parts. Otherwise returns the fault with a hint. */
const char *etcd_url_check(const char *url, struct etcd_url *out);

/* --- The table of settings, ours and every flag of etcd 3.4, which settings.py writes. --- */

enum option_kind {
    OPTION_LISTEN,
    OPTION_DURATION, /* these four are numbers of `size` bytes: milliseconds */
    OPTION_SIZE,     /* bytes */
    OPTION_COUNT,
    OPTION_CHOICE,  /* the place among the words of value_name; a bool: the first word is true */
    OPTION_TEXT,    /* char * */
    OPTION_URLS,    /* struct string_list of client URLs, sorted as etcd does */
    OPTION_ORIGINS, /* struct string_list: `*` or URLs */
    OPTION_NAMES,   /* struct string_list: `*` or words */
    OPTION_FILE,    /* --config: read before the others */
    OPTION_ACTION,  /* takes no value */
    OPTION_ALIAS,   /* etcd's name for a setting of ours */
    OPTION_IGNORED, /* etcd's, and without effect here: its value is not read */
};

static inline bool option_kind_is_number(enum option_kind kind)
{
    return kind >= OPTION_DURATION && kind <= OPTION_CHOICE;
}

/* The value is a struct string_list. */
static inline bool option_kind_is_list(enum option_kind kind)
{
    return kind == OPTION_URLS || kind == OPTION_ORIGINS || kind == OPTION_NAMES;
}

enum option_owner { OWNER_RDZVD, OWNER_BOTH, OWNER_ETCD };

/* Returns NULL, or the fault of a text or of an item of a list. Of a text, it may also store the
 * parsed value in the config. */
typedef const char *config_check(struct config *c, const char *text);

/* One flag, line of a file and variable. */
struct option {
    const char *name; /* without dashes */
    enum option_kind kind;
    enum option_owner owner;
    size_t offset, size;       /* in struct config */
    const char *initial;       /* the value where no other is given; NULL: 0, or none */
    uint64_t least, most;      /* most 0: as much as the type holds */
    const char *least_why;     /* why not less; NULL: plain to see */
    bool may_be_off;           /* `off` and 0 are legal, and mean 0 */
    bool may_be_auto;          /* `auto` is legal, and means CONFIG_AUTO */
    enum config_action action; /* OPTION_ACTION */
    bool is_for_stores;        /* refused on a relay, which keeps no keys */
    bool is_for_files;         /* refused beside --journal, where no state is in files */
    config_check *check;       /* NULL: every text is fine */
    const char *value_name;
    /* OPTION_TEXT: what not to give it means. With it, an empty text is refused: a script whose
     * variable is not set must not switch off what keeps others out. NULL: it may be empty. */
    const char *left_out;
    const char *own;     /* OPTION_ALIAS: our name */
    const char *ignored; /* OPTION_IGNORED: why */
    bool is_bool;        /* of etcd: a boolean to Go, so it does not take the next word */
};

extern const struct option config_options[];
extern const size_t config_option_count;

/* What settings need beside them, and the fault if it is missing. The first fault counts. */
struct option_need {
    const char *name, *needs, *fault;
};

extern const struct option_need config_needs[];
extern const size_t config_need_count;

/* NULL: there is none of that name. */
const struct option *config_find_option(const char *name);

/* The order is that of application. SETTING_ENVIRONMENT is ETCD_*, SETTING_VARIABLE is RDZVD_*. */
enum setting_source { SETTING_FILE, SETTING_ENVIRONMENT, SETTING_VARIABLE, SETTING_ARGUMENT };

/* The value of one flag from one source. All text is borrowed from argv, the environment or the
 * file's tree, which outlive the parse. */
struct setting {
    const char *name;            /* as it was given, without dashes */
    const struct option *row;    /* of that name */
    const struct option *option; /* the row that it sets: of an alias, the one of ours */
    const char *value;           /* NULL: a boolean without one */
    enum setting_source source;
    bool etcd_file; /* from etcd's --config-file, whose errors end as etcd's do */
    const char *file;
    struct config_place at;
};

struct settings {
    struct setting *items;
    size_t count;
};

/* Everything one parse holds on to. */
struct parse {
    struct config config; /* is being filled */
    struct config_error *error;
    const struct setting *listen_from; /* the last --listen; NULL: not given */
    struct settings settings;          /* in the order in which they apply */
    struct config_file file;           /* the settings borrow from it */
    char *file_name;
    struct string_list unknown; /* variables ETCD_... without a row */
    bool is_named_etcd;
    bool as_etcd; /* rdzvd is called etcd, or has a flag that only etcd has */
};

/* config_collect.c: fills parse->settings, in the order in which they apply, and decides
 * config.etcd_mode. After --help nothing else is looked at. */
bool config_collect(struct parse *p, int argc, char *const argv[], char *const environment[]);
/* False: two settings of one source set one thing under two names, to different values. */
bool config_check_pairs(struct parse *p);

/* config_values.c: checks the value and puts it into p->config. */
bool config_apply_setting(struct parse *p, const struct setting *s);
/* Puts the initial value of each row into p->config. */
void config_apply_initial(struct parse *p);
/* A number as text, as its flag takes it: "8MiB", "1m30s", "off", "json". `text` has UNITS_TEXT_MAX
 * bytes. */
const char *config_format_number(const struct config *c, const struct option *o, char *text);
void config_free_values(struct config *c);
config_check config_check_url;

/* config_address.c */
config_check config_check_space, config_check_advertise, config_check_upstream;
config_check config_check_journal, config_check_plaintext, config_check_allow;
bool config_apply_listen(struct parse *p, const struct setting *s);
void config_free_endpoints(struct upstream_spec **list, size_t *count);
/* localhost is 127.0.0.1, and ::1 where there is one. Not with port 0: that would be two ports. */
void config_add_localhost(struct config *c, uint16_t port, const char *space);
/* Takes nothing over, copies what it keeps. */
struct listen_spec *config_add_listener(struct config *c, const char *host, size_t host_len,
                                        uint16_t port, const char *space);
void config_free_listener(struct listen_spec *spec);
void config_clear_listeners(struct config *c);
bool config_check_overlaps(struct parse *p);
/* Whether the len bytes are a numeric address of that family, AF_INET or AF_INET6. */
bool config_is_address(int family, const char *text, size_t len);
/* The digits of a port, which is not below `least`, and nothing else. */
bool config_read_port(const char *text, size_t len, uint16_t least, uint16_t *out);

/* config_elastic.c */
config_check config_check_worker_ports, config_check_run_rules, config_check_disable;
config_check config_check_node_label;
/* Notes what does not go together. */
void config_finish_elastic(struct config *c);

/* config_rules.c */
config_check config_check_peer_name, config_check_relay_name;
/* True if the option has an effect on a relay with these settings. */
bool config_relay_takes(const struct config *c, const struct option *o);
/* Checks which settings go together; all listeners are known. */
bool config_check_rules(struct parse *p);

/* config_text.c */
/* The last setting of that name, which counts; NULL if there is none. */
const struct setting *config_last_setting(const struct parse *p, const char *name);

#define CONFIG_LABEL_MAX 400

/* "--space-idle-timeout", "ETCD_NAME" or "rdzvd.yaml:3:9: cors". */
const char *config_label(const struct setting *setting, char text[CONFIG_LABEL_MAX]);
#define CONFIG_LABEL(setting) config_label((setting), (char[CONFIG_LABEL_MAX]){0})

/* Sets the error and returns false: "LABEL: text". `is_check`: with exit code 1, as for checks that
 * etcd makes after reading its flags. */
bool config_refuse(struct parse *p, bool is_check, const struct setting *setting,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
#define config_fail(p, setting, ...)       config_refuse(p, false, setting, __VA_ARGS__)
#define config_fail_check(p, setting, ...) config_refuse(p, true, setting, __VA_ARGS__)

/* A value as an error may show it: quoted, cut, control characters escaped. */
#define CONFIG_SHOWN_MAX 128
struct shown {
    char text[CONFIG_SHOWN_MAX];
};
struct shown config_show(const char *value);

void config_note(struct config *c, enum config_note_kind kind, const char *flag, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

void string_list_add(struct string_list *list, const char *text, size_t len);
void string_list_free(struct string_list *list);
void string_list_sort(struct string_list *list);
/* Splits at commas and trims blanks; empty parts are kept. */
void string_list_split(struct string_list *list, const char *text);

/* etcd_apply.c */

/* Listeners from URLs, and etcd's checks across flags; p->config.etcd_mode is decided. */
bool etcd_flags_finish(struct parse *p);
