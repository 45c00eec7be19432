/* What the daemon prints on stdout: help, version, the settings in effect, and the table of all. */
#include "proto/units.h"
#include "proto/utf8.h"
#include "rdzv/config/config_internal.h"

#include <string.h>

#define HELP_COLUMN 39
#define HELP_WIDTH  90

/* Characters that YAML wants escaped, or takes for the end of a line or of nothing at all. */
static bool must_escape(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029 ||
           point == 0xfeff || point == 0xfffe || point == 0xffff;
}

/* Within a double-quoted YAML string. All texts of a config are UTF-8. */
static void write_escaped(FILE *out, const char *text)
{
    struct slice rest = slice_str(text);

    while (rest.len > 0) {
        uint32_t point = rest.ptr[0];
        size_t len = utf8_decode(rest, &point);

        if (len == 0)
            len = 1;
        if (must_escape(point))
            fprintf(out, "\\u%04x", point);
        else if (point == '"' || point == '\\')
            fprintf(out, "\\%c", (char)point);
        else
            fwrite(rest.ptr, 1, len, out);
        rest = slice_from(rest, len);
    }
}

static void write_quoted_yaml(FILE *out, const char *text)
{
    fputc('"', out);
    write_escaped(out, text);
    fputc('"', out);
}

static void write_list(FILE *out, const struct string_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        fputs(i == 0 ? "[" : ", ", out);
        write_quoted_yaml(out, list->items[i]);
    }
    fputc(']', out);
}

/* An amount as the flag takes it: "8MiB", "1m30s", "131072", "off". */
static void format_amount(const struct config *c, const struct option *o, char *text)
{
    const char *field = (const char *)c + o->offset;
    uint64_t amount;
    uint32_t small;

    if (o->kind == OPTION_COUNT) {
        memcpy(&small, field, sizeof small);
        amount = small;
    } else {
        memcpy(&amount, field, sizeof amount);
    }
    if (amount == 0 && o->may_be_off)
        strcpy(text, "off");
    else if (amount == CONFIG_AUTO && o->may_be_auto)
        strcpy(text, "auto");
    else
        config_format_amount(o, amount, text);
}

/* A value that YAML and the help write alike, without quotes; NULL: the option is of another kind.
 * `text` has UNITS_TEXT_MAX bytes. */
static const char *format_plain(const struct config *c, const struct option *o, char *text)
{
    const char *field = (const char *)c + o->offset;
    unsigned choice;

    if (o->kind == OPTION_DURATION || o->kind == OPTION_SIZE || o->kind == OPTION_COUNT) {
        format_amount(c, o, text);
        return text;
    }
    if (o->kind == OPTION_SWITCH)
        return o->choices[*(const bool *)field];
    if (o->kind != OPTION_CHOICE)
        return NULL;
    memcpy(&choice, field, sizeof choice);
    return o->choices[choice];
}

/* The texts of an option; NULL: it has none. */
static const struct string_list *list_of(const struct config *c, const struct option *o)
{
    const struct string_list *list = (const void *)((const char *)c + o->offset);

    return option_kind_is_list(o->kind) && list->count > 0 ? list : NULL;
}

/* Writes the option as a line of YAML, unless there is nothing to say. */
static void write_option(FILE *out, const struct config *c, const struct option *o)
{
    const struct string_list *list = list_of(c, o);
    char text[UNITS_TEXT_MAX];
    const char *plain = format_plain(c, o, text), *string = NULL;

    if (o->kind == OPTION_TEXT)
        memcpy(&string, (const char *)c + o->offset, sizeof string);
    if (plain == NULL && string == NULL && list == NULL)
        return;
    fprintf(out, "%s: %s", o->name, plain == NULL ? "" : plain);
    if (string != NULL)
        write_quoted_yaml(out, string);
    if (list != NULL)
        write_list(out, list);
    fputc('\n', out);
}

/* Is the next listener the ::1 of this localhost? */
static bool is_localhost_pair(const struct config *c, size_t i)
{
    return strcmp(c->listeners[i].host, "127.0.0.1") == 0 && i + 1 < c->listener_count &&
           c->listeners[i + 1].optional && c->listeners[i + 1].port == c->listeners[i].port;
}

static void write_listeners(FILE *out, const struct config *c)
{
    fputs("listen:", out);
    fputs(c->listener_count == 0 ? " []\n" : "\n", out);
    for (size_t i = 0; i < c->listener_count; i++) {
        const struct listen_spec *spec = &c->listeners[i];
        char text[CONFIG_ADDRESS_MAX];

        if (spec->metrics_only)
            continue;
        if (is_localhost_pair(c, i)) {
            snprintf(text, sizeof text, "localhost:%u", spec->port);
            i++;
        } else {
            config_format_address(spec, text);
        }
        fprintf(out, "  - \"%s",
                spec->wire == LISTEN_TLS     ? "tls:"
                : spec->wire == LISTEN_PLAIN ? "plain:"
                                             : "");
        write_escaped(out, text);
        if (spec->space_named)
            fprintf(out, "/%s", spec->space);
        fputs("\"\n", out);
    }
}

static void write_metrics(FILE *out, const struct config *c)
{
    bool any = false;

    for (size_t i = 0; i < c->listener_count; i++) {
        struct listen_spec spec = c->listeners[i];
        char text[CONFIG_ADDRESS_MAX];
        static char everywhere[] = "0.0.0.0"; /* as etcd spells it */

        if (!spec.metrics_only)
            continue;
        if (spec.host[0] == '\0')
            spec.host = everywhere;
        fprintf(out, "%s\"http%s://%s\"", any ? ", " : "listen-metrics-urls: [",
                spec.wire == LISTEN_TLS ? "s" : "", config_format_address(&spec, text));
        any = true;
    }
    if (any)
        fputs("]\n", out);
}

/* True if the option may stand beside the others when the file is read. */
static bool has_effect(const struct config *c, const struct option *o)
{
    return (!config_is_relay(c) || config_relay_takes(c, o)) &&
           (c->journal.url == NULL || !o->is_for_files);
}

void config_write_effective(FILE *out, const struct config *c)
{
    write_listeners(out, c);
    for (size_t i = 0; i < config_option_count; i++) {
        if (has_effect(c, &config_options[i]))
            write_option(out, c, &config_options[i]);
    }
    write_metrics(out, c);
    if (!c->etcd_mode)
        return;
    fputs("initial-advertise-peer-urls: ", out);
    write_list(out, &c->advertise_peer_urls);
    if (c->initial_cluster != NULL) {
        fputs("\ninitial-cluster: ", out);
        write_quoted_yaml(out, c->initial_cluster);
    }
    fputs("\ninitial-cluster-token: ", out);
    write_quoted_yaml(out, c->initial_cluster_token);
    fputs("\nenable-v2: true\n", out);
}

void config_write_check(FILE *out, const struct config *c, bool fits_machine)
{
    fputs(fits_machine ? "# configuration ok\n" : "# this machine lacks what these settings need\n",
          out);
    for (size_t i = 0; i < c->note_count; i++) {
        const struct config_note *note = &c->notes[i];

        fputs(note->kind == CONFIG_NOTE_IGNORED ? "# ignored: " : "# warning: ", out);
        for (const char *p = note->flag; *p != '\0'; p++)
            fputc((unsigned char)*p < 0x20 ? '?' : *p, out); /* a comment ends with its line */
        fprintf(out, ": %s\n", note->why);
    }
    config_write_effective(out, c);
}

/* The default of the option, written as on the command line; NULL if the option has none. `text`
 * has UNITS_TEXT_MAX bytes. */
static const char *default_of(const struct config *defaults, const struct option *o, char *text)
{
    const struct string_list *list = list_of(defaults, o);

    if (o->kind == OPTION_LISTEN)
        return "localhost:29400, localhost:2379";
    if (o->kind == OPTION_TEXT)
        return strcmp(o->name, "name") == 0 ? defaults->name : o->without;
    if (option_kind_is_list(o->kind))
        return list == NULL ? o->without : list->items[0];
    return format_plain(defaults, o, text);
}

/* The flags that accept `off`, on as many lines as they need. */
static void write_may_be_off(FILE *out)
{
    size_t column = 0;

    for (size_t i = 0; i < config_option_count; i++) {
        const struct option *o = &config_options[i];
        size_t len = strlen(o->name) + 3; /* dashes and a blank */

        if (!o->may_be_off)
            continue;
        if (column > 0 && column + len > HELP_WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        fprintf(out, "%s--%s", column == 0 ? "" : " ", o->name);
        column += len;
    }
    fputc('\n', out);
}

void config_write_help(FILE *out, const struct config *config)
{
    fputs("Usage: rdzvd [--FLAG=VALUE ...]\n"
          "\n"
          "A rendezvous store: torch's c10d TCPStore and etcd's v2 API on one port.\n"
          "Reads RDZVD_* variables like flags (RDZVD_DATA_DIR is --data-dir); a flag wins.\n"
          "Accepts all flags of etcd 3.4, such as --advertise-client-urls and --cors, ETCD_*\n"
          "variables and --config-file; called as `etcd` it starts as one.\n",
          out);
    for (size_t i = 0; i < config_option_count; i++) {
        const struct option *o = &config_options[i];
        char text[UNITS_TEXT_MAX];
        const char *unset = default_of(config, o, text);
        int written;

        if (o->help == NULL)
            continue;
        if (o->group != NULL)
            fprintf(out, "\n%s:\n", o->group);
        written = fprintf(out, "  --%s%s%s", o->name, o->value_name == NULL ? "" : "=",
                          o->value_name == NULL ? "" : o->value_name);
        fprintf(out, "%*s%s", written + 2 < HELP_COLUMN ? HELP_COLUMN - written : 2, "", o->help);
        if (unset != NULL)
            fprintf(out, " (%s)", unset);
        fputc('\n', out);
    }
    fputs(
        "\n"
        "DURATION: 500ms, 30s, 1m30s, 2h; a number alone counts seconds.\n"
        "SIZE: 64KiB, 8MiB, 4GiB, or kB, MB, GB for powers of 1000; a number alone counts bytes.\n"
        "off means no limit, or never; these accept it:\n",
        out);
    write_may_be_off(out);
}

void config_write_version(FILE *out, const struct config *config, const char *version)
{
    /* Scripts read the word behind `etcd Version:`; they may expect an etcd 3.4. */
    if (config->etcd_mode)
        fprintf(out,
                "etcd Version: 3.4.23\n"
                "Git SHA: rdzvd-%s\n"
                "Go Version: none\n"
                "Go OS/Arch: linux/amd64\n",
                version);
    else
        fprintf(out, "rdzvd %s\n", version);
}

/* --- The table of settings, as JSON. --- */

/* Writes the possible values of the option with blanks between, for completion by the shell.
 * "@files" and "@folders" stand for names of files and folders; "" means that the values are
 * unknown. */
static void write_words(const struct option *o, char *words, size_t cap)
{
    size_t at = 0;

    words[0] = '\0';
    if (o->kind == OPTION_FILE || strstr(o->name, "-file") != NULL)
        snprintf(words, cap, "@files");
    else if (o->value_name != NULL && strcmp(o->value_name, "DIR") == 0)
        snprintf(words, cap, "@folders");
    for (size_t i = 0; o->choices != NULL && o->choices[i] != NULL; i++)
        at += (size_t)snprintf(words + at, cap - at, "%s%s", at > 0 ? " " : "", o->choices[i]);
    if (o->may_be_off)
        snprintf(words + at, cap - at, o->may_be_auto ? "off auto" : "off");
}

/* The type that a file's value has, for a person. */
static const char *option_type_name(const struct option *o)
{
    static const char *const names[OPTION_ACTION + 1] = {
        [OPTION_DURATION] = "duration", [OPTION_SIZE] = "size",   [OPTION_COUNT] = "number",
        [OPTION_SWITCH] = "word",       [OPTION_CHOICE] = "word",
    };

    if (o->kind == OPTION_LISTEN || option_kind_is_list(o->kind))
        return "text, or a list of texts";
    return names[o->kind] == NULL ? "text" : names[o->kind];
}

/* YAML's double-quoted texts without NEL and the like are JSON's. */
static void describe_member(FILE *out, const char *name, const char *text)
{
    if (text == NULL)
        return;
    fprintf(out, ",\"%s\":", name);
    write_quoted_yaml(out, text);
}

void config_describe(FILE *out, const struct config *config)
{
    const char *group = NULL;

    for (size_t i = 0; i < config_option_count; i++) {
        const struct option *o = &config_options[i];
        bool action = o->kind == OPTION_ACTION || strncmp(o->name, "check-", 6) == 0;
        char text[UNITS_TEXT_MAX], words[100];

        group = o->group != NULL ? o->group : group;
        if (o->help == NULL)
            continue;
        write_words(o, words, sizeof words);
        fprintf(out, "%s{\"repeatable\":%s,\"in_file\":%s", i == 0 ? "[" : ",\n",
                o->kind == OPTION_LISTEN ? "true" : "false",
                action || o->kind == OPTION_FILE ? "false" : "true");
        describe_member(out, "group", group);
        describe_member(out, "name", o->name);
        describe_member(out, "value", o->value_name);
        describe_member(out, "help", o->help);
        describe_member(out, "type", option_type_name(o));
        describe_member(out, "words", words);
        describe_member(out, "default", default_of(config, o, text));
        fputc('}', out);
    }
    fputs("]\n", out);
}
