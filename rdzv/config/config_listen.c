/* Addresses of listeners: how --listen spells them, and which cannot stand side by side. */
#include "rdzv/config/config_internal.h"
#include "store/memory/xalloc.h"
#include "store/space.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

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

bool config_is_host_name(const char *text, size_t len)
{
    return len > 0 && len <= 253 && text[0] != '-' && text[0] != '.' &&
           strspn(text, LETTERS) >= len;
}

bool config_read_port(const char *text, size_t len, uint16_t *out)
{
    uint64_t port;

    if (!slice_to_u64((struct slice){(const uint8_t *)text, len}, UINT16_MAX, &port))
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
    if (!config_is_host_name(host, len))
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

static enum listen_wire take_wire(const char **text)
{
    if (take_prefix(text, "tls:"))
        return LISTEN_TLS;
    return take_prefix(text, "plain:") ? LISTEN_PLAIN : LISTEN_BY_SETTING;
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
    wire = take_wire(&text);
    problem = split_listen(text, &host, &host_len, &port, &space);
    if (problem == NULL && !config_read_port(port, strcspn(port, "/"), &number))
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

/* Whether both cannot be bound at once. Names are left to the server, which resolves them. */
static bool listeners_overlap(const struct listen_spec *a, const struct listen_spec *b)
{
    if (a->path != NULL || b->path != NULL)
        return a->path != NULL && b->path != NULL && strcmp(a->path, b->path) == 0;
    if (a->port == 0 || a->port != b->port)
        return false;
    if (a->host[0] == '\0' || b->host[0] == '\0' || strcmp(a->host, b->host) == 0)
        return true;
    if (strcmp(b->host, "0.0.0.0") == 0 || strcmp(b->host, "::") == 0) {
        const struct listen_spec *swapped = a;

        a = b;
        b = swapped;
    }
    return (strcmp(a->host, "0.0.0.0") == 0 &&
            config_is_address(AF_INET, b->host, strlen(b->host))) ||
           (strcmp(a->host, "::") == 0 && config_is_address(AF_INET6, b->host, strlen(b->host)));
}

bool config_check_overlaps(struct parse *p)
{
    const struct config *c = &p->config;

    for (size_t i = 0; i < c->listener_count; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct listen_spec *one = &c->listeners[j], *two = &c->listeners[i];
            const char *a = CONFIG_ADDRESS(one), *b = CONFIG_ADDRESS(two);
            char text[2 * CONFIG_ADDRESS_MAX + 100];

            if (!listeners_overlap(one, two))
                continue;
            if (strcmp(a, b) == 0)
                snprintf(text, sizeof text, "%s is there twice; keep one", a);
            else
                snprintf(text, sizeof text,
                         "rdzvd cannot listen on both %s and %s; drop one, or change a port", a, b);
            if (p->listen_from != NULL)
                return config_fail(p, p->listen_from, "%s", text);
            return config_fail_check(p, config_last_setting(p, "listen-client-urls"), "%s", text);
        }
    }
    return true;
}
