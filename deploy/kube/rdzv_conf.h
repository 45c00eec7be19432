/* The value of --rdzv_conf: `key=value,key=value`, possibly with expansions of a shell. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The position of an entry with its key and value: bytes [start, end) of the text, without
 * surrounding blanks. A missing value starts and ends at the end of the entry. */
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

/* The backends of torch that read a conf. */
enum rdzv_conf_backend {
    RDZV_CONF_C10D = 1,
    RDZV_CONF_ETCD_V2 = 2,
    RDZV_CONF_ETCD = 4,
    RDZV_CONF_STATIC = 8,
};

/* The keys of deploy/data/conf.yaml. */
struct rdzv_conf_key {
    const char *key;
    int backends; /* that read it, as bits */
};

extern const struct rdzv_conf_key rdzv_conf_keys[];
extern const size_t rdzv_conf_key_count;

/* The bit of a backend's name; 0: an unknown one, which may read anything. */
int rdzv_conf_backend(const char *name);

/* The bits of the backends that read a key; 0: none does. */
int rdzv_conf_readers(const char *key);

/* The key of these backends (0: of any) that was probably meant, or NULL. */
const char *rdzv_conf_near(const char *key, int backends);
