/* Reads a flat file of settings with libyaml; stricter than YAML, so no file has two readings. */
#include "rdzv/config/config_file.h"

#include "store/memory/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

struct walk {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one; zeroed when there is none */
    const uint8_t *bytes;
    size_t len;
    struct config_file file;
    struct config_file_error *error;
};

/* A longer file is no settings file, and would be slow to search for duplicates. */
#define ENTRIES_MAX 1000
#define VALUES_MAX  10000

static struct config_place place_of_mark(yaml_mark_t mark)
{
    return (struct config_place){(unsigned)mark.line + 1, (unsigned)mark.column + 1};
}

__attribute__((format(printf, 3, 4))) static bool fail(struct walk *w, struct config_place at,
                                                       const char *format, ...)
{
    va_list args;

    w->error->at = at;
    va_start(args, format);
    vsnprintf(w->error->text, sizeof w->error->text, format, args);
    va_end(args);
    return false;
}

/* libyaml reads ahead of its own marks, so a byte that is no text is found by counting. */
static struct config_place place_of_offset(const struct walk *w, size_t offset)
{
    struct config_place at = {1, 1};

    for (size_t i = 0; i < offset && i < w->len; i++) {
        at.column = w->bytes[i] == '\n' ? 1 : at.column + 1;
        at.line += w->bytes[i] == '\n';
    }
    return at;
}

/* libyaml's own words for bytes that are no YAML, with a hint for the usual reasons. */
static bool fail_libyaml(struct walk *w)
{
    const char *problem = w->parser.problem == NULL ? "out of memory" : w->parser.problem;
    const char *hint = "";

    if (w->parser.error == YAML_READER_ERROR)
        return fail(w, place_of_offset(w, w->parser.problem_offset),
                    "%s; the file must be UTF-8 text", problem);
    if (strstr(problem, "cannot start any token") != NULL)
        hint = "; indent with spaces, not tabs, and quote a value that starts with @, ` or %";
    else if (strstr(problem, "alphabetic or numeric character") != NULL)
        hint = "; quote a value that starts with * or &, as in \"*:29400\"";
    else if (strstr(problem, "tab character") != NULL)
        hint = "; indent with spaces";
    else if (strstr(problem, "mapping values are not allowed") != NULL)
        hint = "; quote a value that contains `: `";
    else if (strstr(problem, "could not find expected ':'") != NULL ||
             strstr(problem, "did not find expected") != NULL)
        hint = "; settings are lines of `key: value`";
    return fail(w, place_of_mark(w->parser.problem_mark), "%s%s", problem, hint);
}

static struct config_place current_place(const struct walk *w)
{
    return place_of_mark(w->event.start_mark);
}

/* Refuses features that no settings file needs, and on which readers disagree. */
static bool check_plain(struct walk *w)
{
    const yaml_event_t *e = &w->event;
    bool is_node = e->type == YAML_SCALAR_EVENT || e->type == YAML_SEQUENCE_START_EVENT ||
                   e->type == YAML_MAPPING_START_EVENT;

    if (e->type == YAML_ALIAS_EVENT)
        return fail(w, current_place(w),
                    "aliases are not taken here; quote a value that starts with *");
    /* in the union, the three structs begin alike */
    if (is_node && e->data.scalar.anchor != NULL)
        return fail(w, current_place(w), "anchors are not taken here; remove the &name");
    if (is_node && e->data.scalar.tag != NULL)
        return fail(w, current_place(w), "tags are not taken here; remove the !tag");
    if (e->type == YAML_SCALAR_EVENT &&
        memchr(e->data.scalar.value, '\0', e->data.scalar.length) != NULL)
        return fail(w, current_place(w), "there is a NUL character in this text; remove it");
    return true;
}

static bool next_event(struct walk *w)
{
    yaml_event_delete(&w->event);
    memset(&w->event, 0, sizeof w->event);
    return yaml_parser_parse(&w->parser, &w->event) ? check_plain(w) : fail_libyaml(w);
}

char *config_copy_text(const char *text, size_t len)
{
    char *copy = xcalloc(len + 1, 1);

    memcpy(copy, text, len);
    return copy;
}

static void add_value(struct walk *w, struct config_entry *entry)
{
    entry->values = xrealloc(entry->values, (entry->count + 1) * sizeof *entry->values);
    entry->values[entry->count++] = (struct config_value){
        .text =
            config_copy_text((const char *)w->event.data.scalar.value, w->event.data.scalar.length),
        .quoted = w->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE,
        .at = current_place(w),
    };
}

static bool read_entry_list(struct walk *w, struct config_entry *entry)
{
    entry->list = true;
    for (;;) {
        if (!next_event(w))
            return false;
        if (w->event.type == YAML_SEQUENCE_END_EVENT)
            return true;
        if (w->event.type != YAML_SCALAR_EVENT)
            return fail(w, current_place(w),
                        "%s: a list of plain values is expected, not a %s inside it", entry->key,
                        w->event.type == YAML_SEQUENCE_START_EVENT ? "list" : "mapping");
        if (entry->count == VALUES_MAX)
            return fail(w, current_place(w), "%s: more than %d values", entry->key, VALUES_MAX);
        add_value(w, entry);
    }
}

static bool check_new_key(struct walk *w, const char *key)
{
    for (size_t i = 0; i < w->file.count; i++) {
        if (strcmp(w->file.entries[i].key, key) == 0)
            return fail(w, current_place(w), "%s: is there twice, first in line %u; keep one", key,
                        w->file.entries[i].at.line);
    }
    return true;
}

/* The current event is a key of the mapping `parent` ("" for the file's own). Returns it in full,
 * "parent.key", or NULL after an error. */
static char *read_key(struct walk *w, const char *parent)
{
    size_t size;
    char *key;

    if (w->event.type != YAML_SCALAR_EVENT) {
        fail(w, current_place(w), "a setting's name is expected here, as in `listen: ...`");
        return NULL;
    }
    size = strlen(parent) + w->event.data.scalar.length + 2;
    key = xcalloc(size, 1);
    snprintf(key, size, "%s%s%s", parent, parent[0] == '\0' ? "" : ".",
             (const char *)w->event.data.scalar.value);
    if (!check_new_key(w, key)) {
        free(key);
        return NULL;
    }
    return key;
}

static bool read_mapping(struct walk *w, const char *parent)
{
    for (;;) {
        struct config_entry entry = {0};
        size_t index = w->file.count;

        if (!next_event(w))
            return false;
        if (w->event.type == YAML_MAPPING_END_EVENT)
            return true;
        if (index == ENTRIES_MAX)
            return fail(w, current_place(w), "more than %d settings in one file", ENTRIES_MAX);
        entry.at = current_place(w);
        entry.key = read_key(w, parent);
        if (entry.key == NULL)
            return false;
        w->file.entries = xrealloc(w->file.entries, (w->file.count + 1) * sizeof *w->file.entries);
        w->file.entries[w->file.count++] = entry; /* config_file_free() frees it from here on */

        if (!next_event(w))
            return false;
        if (w->event.type == YAML_SCALAR_EVENT) {
            add_value(w, &w->file.entries[index]);
        } else if (w->event.type == YAML_SEQUENCE_START_EVENT) {
            if (!read_entry_list(w, &w->file.entries[index]))
                return false;
        } else if (parent[0] != '\0') {
            return fail(w, current_place(w), "%s: a value is expected, not a mapping", entry.key);
        } else if (!read_mapping(w, entry.key)) { /* its name stays: it must not come twice */
            return false;
        }
    }
}

static bool read_documents(struct walk *w)
{
    if (!next_event(w) ||
        !next_event(w)) /* the stream's start, then a document's or the stream's end */
        return false;
    if (w->event.type == YAML_STREAM_END_EVENT)
        return true;
    if (!next_event(w))
        return false;
    if (w->event.type == YAML_MAPPING_START_EVENT) {
        if (!read_mapping(w, ""))
            return false;
    } else if (w->event.type != YAML_SCALAR_EVENT || w->event.data.scalar.length > 0) {
        return fail(w, current_place(w), "settings are expected, as lines of `key: value`");
    }
    if (!next_event(w) || !next_event(w)) /* the document's end, then the stream's */
        return false;
    if (w->event.type != YAML_STREAM_END_EVENT)
        return fail(w, current_place(w), "a second document starts here; a file holds one");
    return true;
}

bool config_file_parse(const uint8_t *bytes, size_t len, struct config_file *out,
                       struct config_file_error *error)
{
    struct walk w = {.bytes = bytes, .len = len, .error = error};
    bool ok;

    *error = (struct config_file_error){0};
    if (!yaml_parser_initialize(&w.parser))
        abort(); /* out of memory before the first byte */
    yaml_parser_set_input_string(&w.parser, bytes, len);
    ok = read_documents(&w);
    yaml_event_delete(&w.event);
    yaml_parser_delete(&w.parser);
    if (ok)
        *out = w.file;
    else
        config_file_free(&w.file);
    return ok;
}

void config_file_free(struct config_file *file)
{
    for (size_t i = 0; i < file->count; i++) {
        for (size_t j = 0; j < file->entries[i].count; j++)
            free(file->entries[i].values[j].text);
        free(file->entries[i].values);
        free(file->entries[i].key);
    }
    free(file->entries);
    *file = (struct config_file){0};
}

/* The first bytes of a file, `cap` at most; -1 with errno. `plain`: the file must not be a device
 * or a pipe, so this never waits for a writer. */
static ssize_t read_bytes(const char *path, bool plain, uint8_t *out, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | (plain ? O_NONBLOCK : 0)), error;
    struct stat about;
    size_t filled = 0;
    ssize_t n = 1;

    if (fd < 0)
        return -1;
    if (plain && (fstat(fd, &about) < 0 || !(S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    while (filled < cap && (n > 0 || (n < 0 && errno == EINTR))) {
        n = read(fd, out + filled, cap - filled);
        filled += n > 0 ? (size_t)n : 0;
    }
    error = errno;
    close(fd);
    errno = error;
    return n < 0 ? -1 : (ssize_t)filled;
}

int config_file_read(const char *path, uint8_t **bytes, size_t *len)
{
    uint8_t *buffer = xcalloc(CONFIG_FILE_MAX + 1, 1);
    ssize_t n = read_bytes(path, false, buffer, CONFIG_FILE_MAX + 1);

    if (n < 0 || n > CONFIG_FILE_MAX) {
        int error = n < 0 ? -errno : -EFBIG;

        free(buffer);
        return error;
    }
    *bytes = buffer;
    *len = (size_t)n;
    return 0;
}

bool secret_file_read(const char *path, uint8_t *out, size_t cap, struct slice *secret)
{
    ssize_t n = read_bytes(path, true, out, cap);

    if (n < 0)
        return false;
    if ((size_t)n == cap) {
        errno = EFBIG;
        return false;
    }
    while (n > 0 && memchr(" \t\r\n", out[n - 1], 4) != NULL)
        n--;
    out[n] = '\0';
    *secret = (struct slice){out, (size_t)n};
    errno = ENODATA;
    return n > 0;
}
