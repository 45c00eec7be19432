/* A flat YAML file of settings to a list of keys and values with their places. Knows YAML and
 * nothing of what the settings mean; bounded by CONFIG_FILE_MAX bytes. Anchors, aliases, tags,
 * nested mappings and duplicate keys are errors. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/bytes.h"

#define CONFIG_FILE_MAX (1024 * 1024)

struct config_place {
    unsigned line, column; /* counted from 1 */
};

struct config_value {
    char *text;
    bool quoted; /* "true" and 'off' are strings; plain ones may be booleans, numbers or null */
    struct config_place at;
};

/* One `key: value` or `key: [values]`. */
struct config_entry {
    char *key;
    struct config_place at;
    bool list;                   /* written as a sequence */
    struct config_value *values; /* one, if not a list */
    size_t count;
};

struct config_file {
    struct config_entry *entries;
    size_t count;
};

struct config_file_error {
    struct config_place at; /* line 0: the file as a whole */
    char text[256];
};

/* On false *out is untouched. An empty file is no settings, not an error. */
bool config_file_parse(const uint8_t *bytes, size_t len, struct config_file *out,
                       struct config_file_error *error);
/* The bytes of a file, at most CONFIG_FILE_MAX of them; 0 or -errno (-EFBIG). free() them. */
int config_file_read(const char *path, uint8_t **bytes, size_t *len);

/* A token or a password: the text of a plain file of less than `cap` bytes, without the white space
 * at its end, and in `out` with a NUL behind it. False with errno; ENODATA: there is none. */
bool secret_file_read(const char *path, uint8_t *out, size_t cap, struct slice *secret);

void config_file_free(struct config_file *file);

/* With a 0 behind it. */
char *config_copy_text(const char *text, size_t len);
