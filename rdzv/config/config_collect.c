/* Collects settings from the command line, the environment and a file, in the order in which they
 * apply, and refuses unknown names. Other files judge the values. */
#include "proto/nearest.h"
#include "rdzv/config/config_internal.h"
#include "store/memory/xalloc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* --- Names. --- */

const struct option *config_find_option(const char *name)
{
    return FIND(o, FOREACH(const struct option, o, config_options, config_option_count),
                strcmp(o->name, name) == 0);
}

/* Of other programs; -p comes with its number. */
static const char *const foreign_names[][2] = {{"port", "listen"},
                                               {"p", "listen"},
                                               {"host", "listen"},
                                               {"tls-cert", "cert"},
                                               {"max-memory", "memory-limit"},
                                               {"verbose", "log-level"},
                                               {NULL, NULL}};

/* The known name that is nearest to a wrong one, or NULL if none is near. A flag that only etcd has
 * is near at distance 1 alone, because --help does not list it. */
static const char *suggest_name(const char *name)
{
    struct nearest near =
        nearest_to(name[0] == 'p' && byte_is_digit((uint8_t)name[1]) ? "p" : name);

    nearest_try_foreign(&near, foreign_names);
    for (size_t i = 0; strlen(name) >= 3 && i < config_option_count; i++) {
        bool is_ours = config_options[i].owner != OWNER_ETCD;

        if (!is_ours && near.distance > 2)
            near.distance = 2;
        (is_ours ? nearest_try_word : nearest_try)(&near, config_options[i].name);
    }
    return near.found;
}

static bool fail_unknown_name(struct parse *p, const struct setting *where, const char *name,
                              const char *dashes)
{
    const char *near = suggest_name(name);

    if (near != NULL)
        return config_fail(p, where, "no such setting; did you mean %s%s?", dashes, near);
    return config_fail(p, where, "no such setting; `%s --help` lists them",
                       p->as_etcd ? "etcd" : "rdzvd");
}

/* Keeps the settings in the order of their sources, and those of one source in that of their
 * coming: so the last one of a name counts. */
static void add_setting(struct parse *p, struct setting setting)
{
    struct settings *all = &p->settings;
    size_t at = all->count++;

    all->items = xrealloc(all->items, all->count * sizeof *all->items);
    for (; at > 0 && all->items[at - 1].source > setting.source; at--)
        all->items[at] = all->items[at - 1];
    all->items[at] = setting;
}

/* Finds the rows of a name. False: there is none. */
static bool find_rows(struct setting *s, const char *name)
{
    s->row = s->option = config_find_option(name);
    if (s->row == NULL)
        return false;
    s->name = s->row->name;
    if (s->row->kind == OPTION_ALIAS)
        s->option = config_find_option(s->row->own);
    return true;
}

/* One word of the command line that starts with a dash. *i is its index, and moves on if the next
 * word is its value. */
static bool read_flag(struct parse *p, int argc, char *const argv[], int *i)
{
    const char *word = argv[*i] + (argv[*i][1] == '-' ? 2 : 1);
    size_t len = strcspn(word, "=");
    struct setting s = {.source = SETTING_ARGUMENT};
    char name[CONFIG_LABEL_MAX];

    snprintf(name, sizeof name, "%.*s", (int)(len < 200 ? len : 200), word);
    s.name = name;
    if (len == 0 || word[0] == '-')
        return config_fail(p, NULL, "%s is no flag; write --name or --name=value",
                           config_show(argv[*i]).text);
    if (!find_rows(&s, strcmp(name, "h") == 0 ? "help" : name))
        return fail_unknown_name(p, &s, name, "--");
    if (word[len] == '=') {
        s.value = word + len + 1;
    } else if (s.row->kind != OPTION_ACTION && !s.row->is_bool) {
        if (*i + 1 == argc || strncmp(argv[*i + 1], "--", 2) == 0)
            return config_fail(p, &s, "needs a value: --%s=VALUE or --%s VALUE", s.name, s.name);
        s.value = argv[++*i];
    }
    add_setting(p, s);
    return true;
}

/* A word that is no flag, behind `before`, which may be NULL. */
static bool fail_stray(struct parse *p, const char *stray, const struct setting *before)
{
    if (before != NULL && before->value == NULL)
        config_fail(p, NULL, "%s is not a flag; join a value of --%s to the flag: --%s=%s",
                    config_show(stray).text, before->name, before->name, stray);
    else
        config_fail(p, NULL, "%s is not a flag; flags start with --", config_show(stray).text);
    if (p->as_etcd)
        p->error->exit_code = 1; /* etcd reads its flags first, then complains */
    return false;
}

static bool collect_arguments(struct parse *p, int argc, char *const argv[])
{
    const struct setting *last = NULL;

    for (int i = 1; i < argc; i++) {
        bool is_end = strcmp(argv[i], "--") == 0;

        if (is_end && i + 1 == argc)
            break;
        if (argv[i][0] != '-' || argv[i][1] == '\0' || is_end)
            return fail_stray(p, argv[i + is_end], last);
        if (!read_flag(p, argc, argv, &i))
            return false;
        last = &p->settings.items[p->settings.count - 1];
        if (last->row->owner == OWNER_ETCD)
            p->as_etcd = true;
        if (strcmp(last->name, "help") == 0)
            break; /* as Go's flag package: nothing behind it is looked at */
    }
    return true;
}

/* "ETCD_LISTEN_CLIENT_URLS" to "listen-client-urls". False if the variable has no name of that
 * form. */
static bool split_variable(const char *prefix, const char *variable, char *name, size_t cap,
                           const char **value)
{
    size_t len = strlen(prefix);

    if (strncmp(variable, prefix, len) != 0)
        return false;
    variable += len;
    len = strcspn(variable, "=");
    if (variable[len] != '=' || len == 0 || len >= cap)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = variable[i];

        name[i] = (char)(c == '_' ? '-' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        if (c == '-' || (c >= 'a' && c <= 'z'))
            return false;
    }
    name[len] = '\0';
    *value = variable + len + 1;
    return true;
}

/* A typing error, or a variable of somebody else. For a Service called rdzvd, Kubernetes sets
 * RDZVD_PORT=tcp://10.0.0.1:29400, RDZVD_PORT_29400_TCP_ADDR, RDZVD_SERVICE_HOST and more. */
static void note_unknown_variable(struct parse *p, const char *name, const char *value)
{
    struct setting s = {.name = name, .source = SETTING_VARIABLE}, near = s;

    if (strstr(name, "service-") != NULL || strstr(name, "port-") != NULL ||
        strncmp(value, "tcp://", 6) == 0 || strncmp(value, "udp://", 6) == 0)
        return;
    near.name = suggest_name(name);
    config_note(&p->config, CONFIG_NOTE_WARNING, CONFIG_LABEL(&s),
                near.name != NULL ? "no setting has this name; did you mean %s?"
                                  : "is not read: no line of a file of settings has this name",
                near.name != NULL ? CONFIG_LABEL(&near) : "");
}

/* RDZVD_LISTEN and the like: what may stand in a file, and RDZVD_CONFIG. An empty value is the
 * empty value of a flag, which most settings refuse; etcd treats an empty ETCD_... as unset. */
static void read_variable(struct parse *p, const char *variable)
{
    struct setting s = {.source = SETTING_VARIABLE};
    char name[100];

    if (split_variable("RDZVD_", variable, name, sizeof name, &s.value)) {
        if (find_rows(&s, name) && s.row->owner != OWNER_ETCD && s.row->kind != OPTION_ACTION)
            add_setting(p, s);
        else
            note_unknown_variable(p, name, s.value);
    } else if (split_variable("ETCD_", variable, name, sizeof name, &s.value) &&
               s.value[0] != '\0') {
        s.source = SETTING_ENVIRONMENT;
        /* Images set ETCD_VERSION to their etcd's version; etcd takes it for a flag and fails. */
        if (strcmp(name, "version") != 0 && find_rows(&s, name) && s.row->owner != OWNER_RDZVD)
            add_setting(p, s);
        else
            string_list_add(&p->unknown, variable, strcspn(variable, "="));
    }
}

/* The last flag on the command line that is the same as this variable, or sets the same row. */
static const struct setting *find_argument(const struct parse *p, const struct setting *s)
{
    for (size_t i = p->settings.count; i-- > 0;) {
        const struct setting *flag = &p->settings.items[i];

        if (flag->source == SETTING_ARGUMENT &&
            (strcmp(flag->name, s->name) == 0 ||
             (flag->option == s->option && flag->row != s->row)))
            return flag;
    }
    return NULL;
}

/* Refuses two flags for the same thing, so that no user must know which one counts. */
bool config_check_pairs(struct parse *p)
{
    for (size_t i = 0; i < p->settings.count; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct setting *a = &p->settings.items[i], *b = &p->settings.items[j];

            if (a->source == b->source && a->option == b->option && a->row != b->row &&
                strcmp(a->value, b->value) != 0)
                return config_fail(p, a, "sets what %s sets, to another value; keep one of the two",
                                   CONFIG_LABEL(b));
        }
    }
    return true;
}

/* Drops the ETCD_... variables that do not count, and says why. */
static bool settle_environment(struct parse *p, bool counts)
{
    struct settings *all = &p->settings;
    size_t kept = 0;

    for (size_t i = 0; i < all->count; i++) {
        struct setting s = all->items[i];
        bool is_variable = s.source == SETTING_ENVIRONMENT;
        const struct setting *flag = is_variable ? find_argument(p, &s) : NULL;

        p->config.etcd_mode = p->config.etcd_mode || (is_variable && counts);
        if (is_variable && !counts)
            config_note(&p->config, CONFIG_NOTE_WARNING, CONFIG_LABEL(&s),
                        "ignored, because --listen is given without a flag of etcd's");
        else if (flag != NULL && flag->row == s.row)
            return config_fail_check(
                p, &s,
                "conflicting environment variable is shadowed by corresponding command-line "
                "flag --%s; unset the variable or remove the flag",
                s.name);
        else if (flag != NULL)
            config_note(&p->config, CONFIG_NOTE_WARNING, CONFIG_LABEL(&s),
                        "not used, since --%s is given", flag->name);
        else
            all->items[kept++] = s;
    }
    all->count = kept;
    return true;
}

/* Reports variables that look like flags of etcd's and are none: a typing error, or one of those
 * that Kubernetes puts into every pod for a Service called etcd. */
static void note_unknown_variables(struct parse *p)
{
    for (size_t i = 0; i < p->unknown.count; i++)
        config_note(&p->config, CONFIG_NOTE_WARNING, p->unknown.items[i],
                    "unrecognized environment variable: no flag of etcd's has this name");
}

static bool is_null(const struct config_value *value)
{
    return !value->quoted && (value->text[0] == '\0' || strcmp(value->text, "~") == 0 ||
                              strcasecmp(value->text, "null") == 0);
}

/* Joins a list of the file into the one comma-separated value that a flag would have. */
static void join_values(struct config_entry *entry)
{
    size_t len = 1, at = 0;
    char *joined;

    for (size_t i = 0; i < entry->count; i++)
        len += strlen(entry->values[i].text) + 1;
    joined = xcalloc(len, 1);
    for (size_t i = 0; i < entry->count; i++) {
        at += (size_t)sprintf(joined + at, "%s%s", i > 0 ? "," : "", entry->values[i].text);
        free(entry->values[i].text);
    }
    entry->values[0].text = joined;
    entry->count = 1;
}

static bool add_entry(struct parse *p, struct config_entry *entry, struct setting s)
{
    if (entry->count == 0 && !entry->list)
        return config_fail(p, &s, "a value is expected here, not a mapping");
    if (entry->list && s.option->kind != OPTION_LISTEN && s.option->kind != OPTION_IGNORED &&
        !option_kind_is_list(s.option->kind))
        return config_fail(p, &s, "one value is expected here, not a list");
    for (size_t i = 0; i < entry->count; i++) {
        s.at = entry->values[i].at;
        if (is_null(&entry->values[i])) {
            if (s.etcd_file)
                return true; /* etcd's sample file leaves most of them empty */
            return config_fail(p, &s, "the value is missing; write a value or remove the line");
        }
    }
    if (entry->count > 1 && s.option->kind != OPTION_LISTEN)
        join_values(entry);
    for (size_t i = 0; i < entry->count; i++) {
        s.at = entry->values[i].at;
        s.value = entry->values[i].text;
        add_setting(p, s);
    }
    return true;
}

/* The name of a flag behind a grouped name of etcd's file: "client-transport-security.cert-file" is
 * --cert-file, "peer-transport-security.cert-file" is --peer-cert-file. Others stay as they are. */
static const char *ungrouped_name(const char *key, char *name, size_t cap)
{
    static const char client[] = "client-transport-security.";
    static const char peer[] = "peer-transport-security.";

    if (strncmp(key, client, sizeof client - 1) == 0)
        return key + sizeof client - 1;
    if (strncmp(key, peer, sizeof peer - 1) != 0)
        return key;
    snprintf(name, cap, "peer-%s", key + sizeof peer - 1);
    return name;
}

/* Turns one entry of a parsed file into settings. */
static bool read_entry(struct parse *p, struct config_entry *entry, bool etcd_file)
{
    struct setting s = {.name = entry->key,
                        .source = SETTING_FILE,
                        .etcd_file = etcd_file,
                        .file = p->file_name,
                        .at = entry->at};
    char longer[200];
    const char *name = etcd_file ? ungrouped_name(entry->key, longer, sizeof longer) : entry->key;

    if (etcd_file && (strcmp(name, "client-transport-security") == 0 ||
                      strcmp(name, "peer-transport-security") == 0))
        return true; /* a group, with no value of its own */
    if (!find_rows(&s, name)) {
        if (!etcd_file)
            return fail_unknown_name(p, &s, entry->key, "");
        config_note(&p->config, CONFIG_NOTE_WARNING, CONFIG_LABEL(&s),
                    "etcd has no such setting, and ignores it too");
        return true;
    }
    if (s.option->kind == OPTION_FILE || s.option->kind == OPTION_ACTION)
        return config_fail(p, &s, "belongs on the command line, not into a file");
    if (s.row->owner == OWNER_ETCD && !etcd_file)
        p->as_etcd = true;
    return add_entry(p, entry, s);
}

/* Reads a file of settings, and adds them to the present ones. `from` names the file, and counts
 * as one of the file's. */
static bool read_file(struct parse *p, struct setting from)
{
    struct config_file_error error;
    uint8_t *bytes;
    size_t len;
    bool ok;
    int err = config_file_read(from.value, &bytes, &len);

    if (err == -EFBIG)
        return config_fail(p, &from, "%s is longer than %d bytes, so it is no file of settings",
                           config_show(from.value).text, CONFIG_FILE_MAX);
    if (err < 0)
        return config_fail(p, &from, "cannot read %s: %s", config_show(from.value).text,
                           strerror(-err));
    p->file_name = config_copy_text(from.value, strlen(from.value));
    ok = config_file_parse(bytes, len, &p->file, &error);
    free(bytes);
    if (!ok)
        return config_refuse(p, from.etcd_file, NULL, "%.250s:%u:%u: %s", p->file_name,
                             error.at.line, error.at.column, error.text);
    for (size_t i = 0; i < p->file.count; i++) {
        if (!read_entry(p, &p->file.entries[i], from.etcd_file))
            return false;
    }
    return true;
}

/* With its --config-file, etcd ignores its other flags and variables; ours stay in force. */
static void drop_etcd_settings(struct parse *p)
{
    size_t kept = 0;

    FOREACH(struct setting, s, p->settings.items, p->settings.count) {
        bool is_ours = s->row->owner == OWNER_RDZVD || s->source == SETTING_VARIABLE ||
                       s->row->kind == OPTION_ACTION;

        if (is_ours)
            p->settings.items[kept++] = *s;
        else if (s->source == SETTING_ARGUMENT && s->row->kind != OPTION_FILE)
            config_note(&p->config, CONFIG_NOTE_IGNORED, CONFIG_LABEL(s),
                        "--config-file is given, and then etcd reads nothing else");
    }
    p->settings.count = kept;
}

bool config_collect(struct parse *p, int argc, char *const argv[], char *const environment[])
{
    const struct setting *own, *etcds;
    struct setting file;
    bool counts;

    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++)
        read_variable(p, environment[i]);
    if (!collect_arguments(p, argc, argv))
        return false;
    if (config_last_setting(p, "help") != NULL)
        return true;

    own = config_last_setting(p, "config");
    if (own != NULL && !read_file(p, *own))
        return false;
    counts = p->as_etcd || config_last_setting(p, "listen") == NULL;
    etcds = config_last_setting(p, "config-file");
    if (!counts || etcds == NULL || etcds->value[0] == '\0') {
        p->config.etcd_mode = p->as_etcd;
        if (!settle_environment(p, counts))
            return false;
        if (p->config.etcd_mode)
            note_unknown_variables(p);
        return true;
    }
    if (own != NULL)
        return config_fail(p, etcds, "--config is given too; keep one of the two");
    file = *etcds;
    file.etcd_file = true;
    p->config.etcd_mode = true;
    drop_etcd_settings(p);
    return read_file(p, file);
}
