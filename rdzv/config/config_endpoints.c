/* Servers that rdzvd connects to: the lists of --upstream and --journal. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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

/* One HOST:PORT, [ADDRESS]:PORT; false: it is none. */
static bool add_endpoint(const char *text, size_t len, struct upstream_spec **list, size_t *count)
{
    const char *colon = memrchr(text, ':', len), *host = text;
    size_t host_len = colon == NULL ? 0 : (size_t)(colon - text);
    uint16_t port;

    if (colon == NULL || !config_read_port(colon + 1, len - host_len - 1, &port) || port == 0)
        return false;
    if (host_len > 2 && host[0] == '[' && host[host_len - 1] == ']') {
        host++;
        host_len -= 2;
        if (!config_is_address(AF_INET6, host, host_len))
            return false;
    } else if (!config_is_host_name(host, host_len)) {
        return false;
    }
    *list = xrealloc(*list, (*count + 1) * sizeof **list);
    (*list)[(*count)++] =
        (struct upstream_spec){.host = config_copy_text(host, host_len), .port = port};
    return true;
}

/* Reads a comma-separated list of HOST:PORT from `text` to `end` into the list, whose entries
 * before that are freed. False: an entry is invalid; the list has the entries before it. */
static bool read_endpoints(const char *text, const char *end, struct upstream_spec **list,
                           size_t *count)
{
    config_free_endpoints(list, count);
    for (;;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        size_t len = (size_t)((comma == NULL ? end : comma) - text);

        if (!add_endpoint(text, len, list, count))
            return false;
        if (comma == NULL)
            return true;
        text = comma + 1;
    }
}

const char *config_check_upstream(struct config *c, const char *text)
{
    return read_endpoints(text, text + strlen(text), &c->upstreams, &c->upstream_count)
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
        read_endpoints(hosts, name, &j->endpoints, &j->endpoint_count)) {
        free(j->name);
        j->name = config_copy_text(name + 1, strlen(name + 1));
        return NULL;
    }
    return "write etcd://HOST:PORT[,HOST:PORT...]/NAME, such as "
           "etcd://etcd-0.etcd:2379,etcd-1.etcd:2379/rdzv";
}
