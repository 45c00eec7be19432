/* The value of --rdzv_conf: `key=value,key=value`, possibly with expansions of a shell. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* An entry, with its key and its value: bytes [start, end) of the text, without the blanks around
 * them. A missing value starts and ends at the end of the entry. */
struct rdzv_conf_entry {
    size_t start, end;
    size_t key_end;
    size_t value_start;
};

/* Finds the next entry that is not empty; *at starts at 0. False: there is none. A comma inside
 * quotes or substitutions does not end an entry. */
bool rdzv_conf_next(const char *conf, size_t *at, struct rdzv_conf_entry *out);

/* Finds the entry of that key; false if there is none. */
bool rdzv_conf_find(const char *conf, const char *key, struct rdzv_conf_entry *out);

/* Whether torch takes the entry's value for false. */
bool rdzv_conf_is_false(const char *conf, const struct rdzv_conf_entry *e);
