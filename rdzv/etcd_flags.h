/* etcd 3.4's command line, ETCD_* variables and config file, as another way to fill struct config.
 * Knows every flag of etcd --help and what becomes of it here: honoured, refused with a remedy, or
 * taken and ignored for a reason that the log gives. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum etcd_flag_use {
    ETCD_FLAG_HONOURED,
    ETCD_FLAG_IGNORED, /* `why` goes to the log */
    ETCD_FLAG_TLS,     /* refused while there is no TLS here, unless it says "none" */
};

enum etcd_flag_type {
    ETCD_TYPE_STRING,
    ETCD_TYPE_BOOL,
    ETCD_TYPE_INT,      /* Go's int, base prefixes and all */
    ETCD_TYPE_UINT,     /* Go's uint64 */
    ETCD_TYPE_DURATION, /* Go's duration: 1h2m3.5s, no bare numbers but 0 */
};

struct etcd_flag {
    const char *name; /* without dashes */
    enum etcd_flag_type type;
    enum etcd_flag_use use;
    const char *why; /* of an ignored one */
};

/* NULL where etcd 3.4 has no such flag. */
const struct etcd_flag *etcd_flag_find(const char *name, size_t len);
/* The index-th flag, NULL behind the last. */
const struct etcd_flag *etcd_flag_at(size_t index);

/* Whether Go's flag package would take `text` for a flag of that type. */
bool etcd_flag_value_ok(enum etcd_flag_type type, const char *text);
