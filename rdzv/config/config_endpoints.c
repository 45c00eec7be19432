/* Servers that rdzvd connects to: the lists of --upstream and --journal. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/lookup.h"
#include "rdzv/config/config_internal.h"
#include "store/memory/xalloc.h"

void config_free_endpoints(struct upstream_spec **list, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        free((*list)[i].host);
    free(*list);
    *list = NULL;
    *count = 0;
}

/* HOST:PORT or [ADDRESS]:PORT; false: it is neither. */
static bool read_endpoint(const char *text, struct upstream_spec *out)
{
    struct address a;

    if (!address_parse(text, &a) ||
        !(text[0] == '[' ? config_is_address(AF_INET6, a.host, strlen(a.host))
                         : config_is_host_name(a.host, strlen(a.host))))
        return false;
    *out = (struct upstream_spec){config_copy_text(a.host, strlen(a.host)), (uint16_t)atoi(a.port)};
    return true;
}

/* Reads `len` bytes, endpoints with commas between, into the list, whose entries before that are
 * freed. False: an entry is invalid; the list has the entries before it. */
static bool read_endpoints(const char *text, size_t len, struct upstream_spec **list, size_t *count)
{
    char *copy = config_copy_text(text, len);
    struct string_list parts = {0};
    bool ok = true;

    string_list_split(&parts, copy);
    config_free_endpoints(list, count);
    *list = xcalloc(parts.count, sizeof **list);
    while (ok && *count < parts.count) {
        ok = read_endpoint(parts.items[*count], &(*list)[*count]);
        *count += ok;
    }
    string_list_free(&parts);
    free(copy);
    return ok;
}

const char *config_check_upstream(struct config *c, const char *text)
{
    return read_endpoints(text, strlen(text), &c->upstreams, &c->upstream_count)
               ? NULL
               : "write HOST:PORT[,HOST:PORT...], such as job-rdzv.default.svc:29400 or "
                 "[fd00::1]:29400";
}

#define SCHEME           "etcd://"
#define JOURNAL_NAME_MAX 100u

const char *config_check_journal(struct config *c, const char *text)
{
    struct config_journal *j = &c->journal;
    const char *hosts = text + strlen(SCHEME), *name;

    if (strncmp(text, SCHEME, strlen(SCHEME)) == 0 && (name = strchr(hosts, '/')) != NULL &&
        strlen(name + 1) <= JOURNAL_NAME_MAX && config_space_name_ok(name + 1) &&
        read_endpoints(hosts, (size_t)(name - hosts), &j->endpoints, &j->endpoint_count)) {
        free(j->name);
        j->name = config_copy_text(name + 1, strlen(name + 1));
        return NULL;
    }
    return "write etcd://HOST:PORT[,HOST:PORT...]/NAME, such as "
           "etcd://etcd-0.etcd:2379,etcd-1.etcd:2379/rdzv";
}
