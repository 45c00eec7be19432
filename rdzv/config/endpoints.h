/* Parses HOST:PORT, by which settings name servers, and the file of --journal-endpoints-file: one
 * HOST:PORT in each line; empty lines and comments behind `#` are ignored. Pure. */
#pragma once

#include "rdzv/config/config.h"
#include "rdzv/config/config_file.h"

/* A cluster of etcd has 3 or 5 members, so a longer file is surely a wrong file. */
#define ENDPOINTS_MAX      32u
#define ENDPOINTS_FILE_MAX 16384u
#define ENDPOINT_HOST_MAX  254u

struct endpoint_set {
    struct upstream_spec list[ENDPOINTS_MAX]; /* their hosts lie below: not to be moved */
    char hosts[ENDPOINTS_MAX][ENDPOINT_HOST_MAX];
    size_t count;
};

/* False: *error says where and why, and *out is of no use. True: there is one at least. */
bool endpoints_file_parse(struct slice text, struct endpoint_set *out,
                          struct config_file_error *error);
