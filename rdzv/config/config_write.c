/* What the daemon prints on stdout: its version, and the settings in effect. */
#include "proto/units.h"
#include "proto/utf8.h"
#include "rdzv/config/config_internal.h"

#include <string.h>

/* Writes a text for YAML, in double quotes. All texts of a config are UTF-8. Characters that YAML
 * takes for the end of a line, or does not take at all, are escaped. */
static void write_text(FILE *out, const char *text)
{
    struct slice rest = slice_str(text);

    fputc('"', out);
    while (rest.len > 0) {
        uint32_t point = rest.ptr[0];
        size_t len = utf8_decode(rest, &point);

        if (point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029 ||
            point == 0xfeff || point == 0xfffe || point == 0xffff)
            fprintf(out, "\\u%04x", point);
        else if (point == '"' || point == '\\')
            fprintf(out, "\\%c", (char)point);
        else
            fwrite(rest.ptr, 1, len, out);
        rest = slice_from(rest, len > 0 ? len : 1);
    }
    fputc('"', out);
}

static void write_list(FILE *out, const struct string_list *list)
{
    fputc('[', out);
    for (size_t i = 0; i < list->count; i++) {
        fputs(i == 0 ? "" : ", ", out);
        write_text(out, list->items[i]);
    }
    fputc(']', out);
}

/* Writes the option as a line of YAML, unless there is nothing to say. */
static void write_option(FILE *out, const struct config *c, const struct option *o)
{
    const struct string_list *list = (const void *)((const char *)c + o->offset);
    bool has_items = option_kind_is_list(o->kind) && list->count > 0;
    char text[UNITS_TEXT_MAX];
    const char *string = NULL;

    if (o->kind == OPTION_TEXT)
        memcpy(&string, (const char *)c + o->offset, sizeof string);
    if (!option_kind_is_number(o->kind) && string == NULL && !has_items)
        return;
    fprintf(out, "%s: ", o->name);
    if (string != NULL)
        write_text(out, string);
    else if (has_items)
        write_list(out, list);
    else
        fputs(config_format_number(c, o, text), out);
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
    struct string_list texts = {0};

    for (size_t i = 0; i < c->listener_count; i++) {
        const struct listen_spec *spec = &c->listeners[i];
        char address[CONFIG_ADDRESS_MAX], text[2 * CONFIG_ADDRESS_MAX];

        if (spec->metrics_only)
            continue;
        config_format_address(spec, address);
        if (is_localhost_pair(c, i)) {
            snprintf(address, sizeof address, "localhost:%u", spec->port);
            i++;
        }
        snprintf(text, sizeof text, "%s%s%s%s",
                 spec->wire == LISTEN_TLS     ? "tls:"
                 : spec->wire == LISTEN_PLAIN ? "plain:"
                                              : "",
                 address, spec->space_named ? "/" : "", spec->space_named ? spec->space : "");
        string_list_add(&texts, text, strlen(text));
    }
    fputs("listen: ", out);
    write_list(out, &texts);
    fputc('\n', out);
    string_list_free(&texts);
}

/* True if the option may stand beside the others in a file, and says something there. */
static bool has_effect(const struct config *c, const struct option *o)
{
    if (o->owner == OWNER_ETCD && (!c->etcd_mode || option_kind_is_number(o->kind)))
        return false; /* other options say what became of those numbers */
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
    if (c->etcd_mode)
        fputs("enable-v2: true\n", out);
}

void config_write_check(FILE *out, const struct config *c, bool fits_machine)
{
    fputs(fits_machine ? "# configuration ok\n" : "# this machine lacks what these settings need\n",
          out);
    FOREACH(const struct config_note, note, c->notes, c->note_count) {
        fputs(note->kind == CONFIG_NOTE_IGNORED ? "# ignored: " : "# warning: ", out);
        for (const char *p = note->flag; *p != '\0'; p++)
            fputc((unsigned char)*p < 0x20 ? '?' : *p, out); /* a comment ends with its line */
        fprintf(out, ": %s\n", note->why);
    }
    config_write_effective(out, c);
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
