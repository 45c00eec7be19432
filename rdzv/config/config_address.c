/* Addresses: how --listen spells those of listeners, and which cannot stand side by side; the
 * servers of --upstream and --journal; and networks. */
#include "rdzv/config/config_internal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "proto/lookup.h"
#include "store/memory/xalloc.h"
#include "store/space.h"

/* The kernel's room for a path, less its end. */
#define UNIX_PATH_MAX (sizeof((struct sockaddr_un){0}.sun_path) - 1)

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

bool config_space_name_ok(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= SPACE_NAME_MAX && strchr("._-", name[0]) == NULL &&
           strspn(name, LETTERS) == len;
}

const char *config_check_space(struct config *, const char *text)
{
    return config_space_name_ok(text) ? NULL
                                      : "a space is named with 1 to 253 letters, digits, `.`, `_` "
                                        "or `-`, a letter or digit first";
}

struct listen_spec *config_add_listener(struct config *c, const char *host, size_t host_len,
                                        uint16_t port, const char *space)
{
    struct listen_spec *spec;

    c->listeners = xrealloc(c->listeners, (c->listener_count + 1) * sizeof *c->listeners);
    spec = &c->listeners[c->listener_count++];
    *spec = (struct listen_spec){
        .host = config_copy_text(host, host_len),
        .port = port,
        .space = config_copy_text(space, strlen(space)),
        .fd = -1,
    };
    return spec;
}

void config_add_localhost(struct config *c, uint16_t port, const char *space)
{
    config_add_listener(c, "127.0.0.1", 9, port, space);
    if (port != 0)
        config_add_listener(c, "::1", 3, port, space)->optional = true;
}

void config_free_listener(struct listen_spec *spec)
{
    free(spec->path);
    free(spec->host);
    free(spec->space);
}

void config_clear_listeners(struct config *c)
{
    for (size_t i = 0; i < c->listener_count; i++)
        config_free_listener(&c->listeners[i]);
    free(c->listeners);
    c->listeners = NULL;
    c->listener_count = 0;
}

bool config_is_address(int family, const char *text, size_t len)
{
    struct in6_addr address; /* large enough for both */
    char copy[INET6_ADDRSTRLEN + 1];
    const char *zone = family == AF_INET6 ? memchr(text, '%', len) : NULL;

    if (zone != NULL && zone + 1 < text + len)
        len = (size_t)(zone - text);
    if (len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return inet_pton(family, copy, &address) == 1;
}

/* Whether the bytes may be the name of a host; of an address of IPv4 as well. */
static bool is_host_name(const char *text, size_t len)
{
    return len > 0 && len <= 253 && text[0] != '-' && text[0] != '.' &&
           strspn(text, LETTERS) >= len;
}

bool config_read_port(const char *text, size_t len, uint16_t least, uint16_t *out)
{
    uint64_t port;

    if (!slice_to_u64((struct slice){(const uint8_t *)text, len}, UINT16_MAX, &port) ||
        port < least)
        return false;
    *out = (uint16_t)port;
    return true;
}

/* Returns the fault of a host without brackets, or NULL if it is valid. */
static const char *check_host(const char *host, size_t len)
{
    if (len == 0 || (len == 1 && host[0] == '*') || config_is_address(AF_INET, host, len))
        return NULL;
    if (memchr(host, ':', len) != NULL)
        return "an IPv6 address stands in brackets, as in [::1]:29400";
    if (strspn(host, "0123456789.") >= len)
        return "this is no IPv4 address; write four numbers from 0 to 255";
    if (!is_host_name(host, len))
        return "this is no host name; write ADDR:PORT, such as 127.0.0.1:29400 or *:29400";
    return NULL;
}

/* NULL, or what is wrong. The pieces point into `text`. */
static const char *split_listen(const char *text, const char **host, size_t *host_len,
                                const char **port, const char **space)
{
    size_t len;

    if (strstr(text, "://") != NULL)
        return "this is a URL; write ADDR:PORT, or use --listen-client-urls";
    if (text[0] == '/')
        return "this is a path; write unix:/PATH, or ADDR:PORT";
    *space = strchr(text, '/');
    len = *space == NULL ? strlen(text) : (size_t)(*space - text);
    if (*space != NULL)
        ++*space;
    if (text[0] == '[') {
        const char *end = memchr(text, ']', len);

        if (end == NULL)
            return "there is no ] behind the IPv6 address; write [ADDR]:PORT";
        *host = text + 1;
        *host_len = (size_t)(end - *host);
        if (!config_is_address(AF_INET6, *host, *host_len))
            return "there is no IPv6 address between [ and ]";
        *port = end + 1;
    } else {
        *host = text;
        *port = memrchr(text, ':', len);
        if (*port == NULL && len > 0 && strspn(text, "0123456789") == len)
            return "this is a port alone; write *:PORT for every address, or ADDR:PORT";
        *host_len = *port == NULL ? len : (size_t)(*port - text);
    }
    if (*port == NULL || **port != ':')
        return "there is no port; write ADDR:PORT, such as 127.0.0.1:29400";
    ++*port;
    return text[0] == '[' ? NULL : check_host(*host, *host_len);
}

/* `path` is all that stands behind "unix:". */
static bool apply_unix(struct parse *p, const struct setting *s, const char *path)
{
    if (path[0] != '/' || strlen(path) > UNIX_PATH_MAX)
        return config_fail(p, s,
                           "%s: the path of a Unix socket begins with / and has %zu bytes at most; "
                           "write unix:/PATH",
                           config_show(s->value).text, UNIX_PATH_MAX);
    config_add_listener(&p->config, "", 0, 0, CONFIG_DEFAULT_SPACE)->path =
        config_copy_text(path, strlen(path));
    return true;
}

static bool take_prefix(const char **text, const char *prefix)
{
    size_t len = strlen(prefix);

    if (strncmp(*text, prefix, len) != 0)
        return false;
    *text += len;
    return true;
}

bool config_apply_listen(struct parse *p, const struct setting *s)
{
    struct config *c = &p->config;
    const char *host, *port, *space, *problem, *text = s->value;
    enum listen_wire wire;
    struct listen_spec *spec;
    size_t host_len, before;
    bool named;
    uint16_t number;

    if (p->listen_from != NULL && p->listen_from->source != s->source)
        config_clear_listeners(c); /* the command line's replace the file's */
    p->listen_from = s;
    if (take_prefix(&text, "unix:"))
        return apply_unix(p, s, text);
    wire = take_prefix(&text, "tls:")     ? LISTEN_TLS
           : take_prefix(&text, "plain:") ? LISTEN_PLAIN
                                          : LISTEN_BY_SETTING;
    problem = split_listen(text, &host, &host_len, &port, &space);
    if (problem == NULL && !config_read_port(port, strcspn(port, "/"), 0, &number))
        problem = "the port is a number from 0 to 65535; write ADDR:PORT";
    if (problem == NULL && space != NULL)
        problem = config_check_space(c, space);
    if (problem != NULL)
        return config_fail(p, s, "%s: %s", config_show(s->value).text, problem);
    named = space != NULL;
    before = c->listener_count;
    if (!named)
        space = CONFIG_DEFAULT_SPACE;
    if (host_len == 9 && strncasecmp(host, "localhost", 9) == 0) {
        config_add_localhost(c, number, space);
    } else {
        if (host_len == 1 && host[0] == '*')
            host_len = 0;
        spec = config_add_listener(c, host, host_len, number, space);
        spec->ipv6_only = strcmp(spec->host, "::") == 0;
    }
    for (size_t i = before; i < c->listener_count; i++) {
        c->listeners[i].space_named = named;
        c->listeners[i].wire = wire;
    }
    return true;
}

const char *config_format_address(const struct listen_spec *spec, char text[CONFIG_ADDRESS_MAX])
{
    const char *format = spec->path != NULL                ? "unix:%s"
                         : spec->host[0] == '\0'           ? "*%s:%u"
                         : strchr(spec->host, ':') != NULL ? "[%s]:%u"
                                                           : "%s:%u";

    snprintf(text, CONFIG_ADDRESS_MAX, format, spec->path != NULL ? spec->path : spec->host,
             spec->port);
    return text;
}

/* Whether `all` stands for every address of a family, and `one` is an address of that family. */
static bool covers_host(const char *all, const char *one)
{
    return (strcmp(all, "0.0.0.0") == 0 && config_is_address(AF_INET, one, strlen(one))) ||
           (strcmp(all, "::") == 0 && config_is_address(AF_INET6, one, strlen(one)));
}

/* Whether both cannot be bound at once. Names are left to the server, which resolves them. */
static bool listeners_overlap(const struct listen_spec *a, const struct listen_spec *b)
{
    if (a->path != NULL || b->path != NULL)
        return a->path != NULL && b->path != NULL && strcmp(a->path, b->path) == 0;
    if (a->port == 0 || a->port != b->port)
        return false;
    return a->host[0] == '\0' || b->host[0] == '\0' || strcmp(a->host, b->host) == 0 ||
           covers_host(a->host, b->host) || covers_host(b->host, a->host);
}

bool config_check_overlaps(struct parse *p)
{
    const struct config *c = &p->config;
    const struct setting *from = p->listen_from;
    bool is_check = from == NULL;

    if (from == NULL)
        from = config_last_setting(p, "listen-client-urls");
    for (size_t i = 0; i < c->listener_count; i++) {
        FOREACH(const struct listen_spec, one, c->listeners, i) {
            const struct listen_spec *two = &c->listeners[i];
            const char *a = CONFIG_ADDRESS(one), *b = CONFIG_ADDRESS(two);

            if (!listeners_overlap(one, two))
                continue;
            if (strcmp(a, b) == 0)
                return config_refuse(p, is_check, from, "%s is there twice; keep one", a);
            return config_refuse(p, is_check, from,
                                 "rdzvd cannot listen on both %s and %s; drop one, or change a "
                                 "port",
                                 a, b);
        }
    }
    return true;
}

/* --- Where workers reach this store. --- */

static bool is_every_address(const char *host, size_t len)
{
    return (len == 7 && memcmp(host, "0.0.0.0", len) == 0) ||
           (len == strspn(host, "0:") && memchr(host, ':', len) != NULL);
}

const char *config_check_advertise(struct config *c, const char *text)
{
    const char *host = text, *port = NULL;
    size_t len = strlen(text);

    if (text[0] == '[') {
        const char *end = strchr(text, ']');

        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return "an IPv6 address stands in brackets, as in [fd00::1]:29400";
        host = text + 1;
        len = (size_t)(end - host);
        port = end[1] == ':' ? end + 2 : NULL;
        if (!config_is_address(AF_INET6, host, len))
            return "there is no IPv6 address between [ and ]";
    } else if (!config_is_address(AF_INET6, host, len)) {
        const char *colon = strrchr(text, ':');

        if (colon != NULL) {
            len = (size_t)(colon - text);
            port = colon + 1;
        }
        if (!is_host_name(host, len))
            return "this is no host; write HOST or HOST:PORT as workers can reach it, such as "
                   "job-rdzv.default.svc:29400";
    }
    if (is_every_address(host, len))
        return "this stands for every address of a machine; write the one that workers can reach";
    c->elastic.advertise_port = 0;
    if (port != NULL && !config_read_port(port, strlen(port), 1, &c->elastic.advertise_port))
        return "the port is not a number from 1 to 65535";
    free((void *)(uintptr_t)c->elastic.advertise_host);
    c->elastic.advertise_host = config_copy_text(host, len);
    return NULL;
}

/* --- Servers that rdzvd connects to. --- */

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
                         : is_host_name(a.host, strlen(a.host))))
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

/* --- Networks. --- */

static bool parse_one(const char *text, struct cidr *out)
{
    const char *slash = strchr(text, '/');
    size_t host_len = strcspn(text, "/");
    char host[INET6_ADDRSTRLEN + 1] = "";
    struct cidr c = {.address = {[10] = 0xff, [11] = 0xff}};
    uint64_t most, bits;

    if (host_len >= sizeof host)
        return false;
    memcpy(host, text, host_len);
    if (inet_pton(AF_INET, host, c.address + 12) == 1)
        most = 32;
    else if (inet_pton(AF_INET6, host, c.address) == 1)
        most = 128;
    else
        return false;
    bits = most;
    if (slash != NULL && !slice_to_u64(slice_str(slash + 1), most, &bits))
        return false;
    c.bits = (uint8_t)(128 - most + bits);
    *out = c;
    return true;
}

bool cidr_list_parse(const char *text, struct cidr_list *out)
{
    struct cidr_list list = {0};
    struct string_list parts = {0};
    bool ok = true;

    string_list_split(&parts, text);
    list.items = xcalloc(parts.count, sizeof *list.items);
    while (ok && list.count < parts.count) {
        ok = parse_one(parts.items[list.count], &list.items[list.count]);
        list.count++;
    }
    string_list_free(&parts);
    cidr_list_free(ok ? out : &list);
    if (ok)
        *out = list;
    return ok;
}

void cidr_list_free(struct cidr_list *list)
{
    free(list->items);
    *list = (struct cidr_list){0};
}

static bool cidr_has_address(const struct cidr *c, const uint8_t address[16])
{
    size_t whole = c->bits / 8, rest = c->bits % 8;

    return memcmp(c->address, address, whole) == 0 &&
           (rest == 0 || ((c->address[whole] ^ address[whole]) & (0xff00u >> rest) & 0xff) == 0);
}

bool cidr_list_has(const struct cidr_list *list, const uint8_t address[16])
{
    return ANY(FOREACH(const struct cidr, c, list->items, list->count),
               cidr_has_address(c, address));
}

/* --- --plaintext and --allow. --- */

const char *config_check_plaintext(struct config *c, const char *text)
{
    struct config_plaintext *p = &c->tls.plaintext_for;

    if (strcmp(text, "on") == 0 || strcmp(text, "off") == 0) {
        cidr_list_free(&p->networks);
        p->everybody = text[1] == 'n';
    } else if (strcmp(text, "loopback") == 0) {
        p->everybody = false;
        (void)cidr_list_parse("127.0.0.0/8,::1", &p->networks); /* as the default is */
    } else if (cidr_list_parse(text, &p->networks)) {
        p->everybody = false;
    } else {
        return "write on, loopback, off, or networks as in 10.0.0.0/8,fd00::/8";
    }
    return NULL;
}

const char *config_check_allow(struct config *c, const char *text)
{
    return cidr_list_parse(text, &c->allowed) ? NULL : "write networks, as in 10.0.0.0/8,fd00::/8";
}
