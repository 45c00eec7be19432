/* etcd 3.4's command line, ETCD_* variables and config file, as another way to fill struct config.
 * Knows every flag of etcd --help, whether it is honoured here or taken and ignored, and why. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum etcd_flag_type {
    ETCD_TYPE_STRING,
    ETCD_TYPE_BOOL,
    ETCD_TYPE_INT,      /* Go's int, base prefixes and all */
    ETCD_TYPE_UINT,     /* Go's uint64 */
    ETCD_TYPE_DURATION, /* Go's duration: 1h2m3.5s, no bare numbers but 0 */
    ETCD_TYPE_URLS,     /* separated by commas */
    ETCD_TYPE_LIST,     /* words, separated by commas */
};

struct etcd_flag {
    const char *name; /* without dashes */
    enum etcd_flag_type type;
    const char *ignored; /* why it has no effect here; NULL: it has */
    const char *choices; /* "a|b": the only legal values; NULL: any of the type */
};

/* NULL where etcd 3.4 has no such flag. */
const struct etcd_flag *etcd_flag_find(const char *name, size_t len);
/* The index-th flag, NULL behind the last. */
const struct etcd_flag *etcd_flag_at(size_t index);

/* Whether Go's flag package would take `text` for a flag of that type (of STRING, URLS and LIST
 * anything). */
bool etcd_flag_value_ok(enum etcd_flag_type type, const char *text);
/* Go's strconv.ParseBool. */
bool etcd_flag_parse_bool(const char *text, bool *out);
