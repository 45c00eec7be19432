/* What the parts of config share while a struct config is being made: the settings with their
 * sources, and the struct config that receives them. For config*.c and etcd_apply.c only. */
#pragma once

#include "rdzv/config/config.h"
#include "rdzv/config/config_file.h"

/* --- etcd_flags.c: every flag of etcd 3.4, its type, whether rdzvd honours or ignores it, and why.
 * etcd_apply.c carries the flags out. The value of an ignored flag is not read. --- */

enum etcd_flag_type {
    ETCD_TYPE_TEXT, /* numbers and durations are texts as well */
    ETCD_TYPE_BOOL,
    ETCD_TYPE_LIST,    /* words or URLs, separated by commas */
    ETCD_TYPE_ANCIENT, /* of etcd 0.4: a boolean to Go, so it does not take the next word; with any
                          =value */
};

/* Reasons that etcd_apply.c gives too. */
#define ETCD_HAS_NO_PEERS "there are no peers: this is a cluster of one"
#define ETCD_OWN_LOG      "one line per event goes to stderr; see --log-format, --log-level"

struct etcd_flag {
    const char *name; /* without dashes */
    enum etcd_flag_type type;
    const char *ignored; /* why it has no effect here; NULL: it has */
    const char *choices; /* "a|b": the only legal values; NULL: any of the type */
    const char *own; /* our own flag with the same effect; NULL: none, or one of the same name */
};

/* NULL where etcd 3.4 has no such flag. */
const struct etcd_flag *etcd_flag_find(const char *name, size_t len);
/* The index-th flag, NULL behind the last. */
const struct etcd_flag *etcd_flag_at(size_t index);

/* --- URLs of etcd's flags and members: what etcd refuses of them. --- */

/* The pieces point into the URL. Of unix:// and unixs:// there is only the scheme. */
struct etcd_url {
    const char *scheme, *host;
    size_t scheme_len, host_len;
    uint16_t port;
};

/* Checks a URL that etcd may listen on or advertise. Returns NULL if it is valid, and sets *out
 * (unless it is NULL) to its parts. Otherwise returns the fault with a hint. */
const char *etcd_url_check(const char *url, struct etcd_url *out);

/* Case ignored. */
bool etcd_url_scheme_is(const struct etcd_url *url, const char *scheme);

/* --- Our own flags, and where settings come from. --- */

enum option_kind {
    OPTION_LISTEN,
    OPTION_DURATION, /* uint64_t, milliseconds */
    OPTION_SIZE,     /* uint64_t, bytes */
    OPTION_COUNT,    /* uint32_t */
    OPTION_SWITCH,   /* bool: on or off */
    OPTION_CHOICE,   /* an enum whose values are the places in `choices` */
    OPTION_TEXT,     /* char * */
    OPTION_URLS,     /* struct string_list of client URLs, sorted as etcd does */
    OPTION_ORIGINS,  /* struct string_list: `*` or URLs */
    OPTION_NAMES,    /* struct string_list: `*` or words */
    OPTION_FILE,     /* --config: read before the others */
    OPTION_ACTION,   /* takes no value */
};

/* The value is a struct string_list. */
static inline bool option_kind_is_list(enum option_kind kind)
{
    return kind == OPTION_URLS || kind == OPTION_ORIGINS || kind == OPTION_NAMES;
}

/* What a relay, which keeps no keys and does nothing for elastic jobs, does with an option. */
enum option_on_relay { RELAY_TAKES, RELAY_REFUSES, RELAY_IGNORES };

/* One flag of our own. */
struct option {
    const char *name; /* without dashes */
    enum option_kind kind;
    size_t offset;              /* in struct config */
    uint64_t least, most;       /* most 0: as much as the type holds */
    const char *least_why;      /* why not less; NULL: plain to see */
    bool may_be_off;            /* `off` and 0 are legal, and mean 0 */
    bool may_be_auto;           /* `auto` is legal, and means CONFIG_AUTO */
    const char *const *choices; /* the only legal words; ends with NULL */
    enum config_action action;  /* OPTION_ACTION */
    enum option_on_relay on_relay;
    bool is_for_files; /* refused beside --journal, where no state is in files */
    /* OPTION_TEXT: stores the parsed value in the config and returns NULL, or returns the fault. */
    const char *(*check)(struct config *c, const char *text);
    const char *group; /* of the help, where it begins; NULL: as the option before */
    const char *value_name;
    const char *help;    /* NULL: neither --help nor --describe tells of it */
    const char *without; /* what the help says while a list is empty, or a text is not given */
    /* OPTION_TEXT: what not to give it means. With it, an empty text is refused: a script whose
     * variable is not set must not switch off what keeps others out. NULL: it may be empty. */
    const char *left_out;
};

extern const struct option config_options[];
extern const size_t config_option_count;

/* NULL: there is none of that name. */
const struct option *config_find_option(const char *name, size_t len);

/* The order is that of application. SETTING_ENVIRONMENT is ETCD_*, SETTING_VARIABLE is RDZVD_*. */
enum setting_source { SETTING_FILE, SETTING_ENVIRONMENT, SETTING_VARIABLE, SETTING_ARGUMENT };

/* The value of one flag from one source. All text is borrowed from argv, the environment or the
 * file's tree, which outlive the parse. */
struct setting {
    const char *name;             /* without dashes */
    const struct option *option;  /* ours, or NULL */
    const struct etcd_flag *etcd; /* etcd's, or NULL; at least one of the two */
    const char *value;            /* NULL: a boolean without one */
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
    struct string_list client_urls; /* --listen-client-urls */
    struct string_list metrics_urls;
    const struct setting *listen_from; /* the last --listen; NULL: not given */
    bool v2;
    struct settings settings;
    struct config_file file; /* the settings borrow from it */
    char *file_name;
    bool is_named_etcd;
    bool as_etcd; /* rdzvd is called etcd, or has a flag that only etcd has */
};

/* config_collect.c: fills parse->settings, in the order in which they apply, and decides
 * config.etcd_mode. After --help nothing else is looked at. */
bool config_collect(struct parse *p, int argc, char *const argv[], char *const environment[]);
/* False: two settings of one source set one thing under two names, to different values. */
bool config_check_pairs(struct parse *p);

/* config_options.c: checks the value and puts it into p->config. */
bool config_apply_option(struct parse *p, const struct setting *s);
/* A duration, a size or a count as text; `text` has UNITS_TEXT_MAX bytes. */
const char *config_format_amount(const struct option *o, uint64_t value, char *text);
/* A comma-separated list of URLs, checked and sorted; an empty value changes nothing. */
bool config_read_urls(struct parse *p, const struct setting *s, struct string_list *list);

/* config_listen.c */
bool config_apply_listen(struct parse *p, const struct setting *s);
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
/* Whether they may be the name of a host; of an address of IPv4 as well. */
bool config_is_host_name(const char *text, size_t len);
/* Digits of a port, 0 as well, and nothing else. */
bool config_read_port(const char *text, size_t len, uint16_t *out);

/* config_elastic.c; see struct option */
const char *config_check_advertise(struct config *c, const char *text);
const char *config_check_worker_ports(struct config *c, const char *text);
/* Notes what does not go together. */
void config_finish_elastic(struct config *c);

/* config_journal.c; see struct option */
const char *config_check_journal(struct config *c, const char *text);
/* Checks the settings that --journal needs or excludes. */
bool config_finish_journal(struct parse *p);

/* config_tls.c; see struct option */
const char *config_check_plaintext(struct config *c, const char *text);
const char *config_check_allow(struct config *c, const char *text);
/* Which files go together. */
bool config_finish_tls(struct parse *p);

/* config_relay.c; see struct option */
const char *config_check_upstream(struct config *c, const char *text);
const char *config_check_space(struct config *c, const char *text);
/* True if the option has an effect on a relay with these settings. */
bool config_relay_takes(const struct config *c, const struct option *o);
/* Checks the settings that --upstream needs or excludes. */
bool config_finish_relay(struct parse *p);

/* Reads a comma-separated list of HOST:PORT from `text` to `end` into the list, whose entries
 * before that are freed. False: an entry is invalid; the list has the entries before it. */
bool config_read_endpoints(const char *text, const char *end, struct upstream_spec **list,
                           size_t *count);
void config_free_endpoints(struct upstream_spec **list, size_t *count);

/* config_text.c */
/* The last setting of that name, which counts; NULL if there is none. */
const struct setting *config_last_setting(const struct parse *p, const char *name);

#define CONFIG_LABEL_MAX 400

/* "--space-idle-timeout", "ETCD_NAME" or "rdzvd.yaml:3:9: cors". */
const char *config_label(const struct setting *setting, char *text);

/* Sets the error and returns false: "LABEL: text". */
bool config_fail(struct parse *p, const struct setting *setting, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with exit code 1, for checks that etcd makes after reading its flags. */
bool config_fail_check(struct parse *p, const struct setting *setting, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A value as an error may show it: quoted, cut, control characters escaped. */
#define CONFIG_SHOWN_MAX 128
struct shown {
    char text[CONFIG_SHOWN_MAX];
};
struct shown config_show(const char *value);

void config_note(struct config *c, enum config_note_kind kind, const char *flag, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

char *config_copy_text(const char *text, size_t len);
void string_list_add(struct string_list *list, const char *text, size_t len);
void string_list_free(struct string_list *list);
void string_list_sort(struct string_list *list);
/* Splits at commas and trims blanks; empty parts are kept. */
void string_list_split(struct string_list *list, const char *text);

/* etcd_apply.c */

/* Applies a setting whose name only etcd has. */
bool etcd_flag_apply(struct parse *p, const struct setting *setting);
/* Listeners from URLs, and etcd's checks across flags; p->config.etcd_mode is decided. */
bool etcd_flags_finish(struct parse *p);
