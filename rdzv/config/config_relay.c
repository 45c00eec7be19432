/* Reads --upstream and --space, and refuses what a relay has no use for: it keeps nothing. */
#include "rdzv/config/config_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "store/memory/xalloc.h"

static const char wanted[] =
    "write HOST:PORT[,HOST:PORT...], such as job-rdzv.default.svc:29400 or [fd00::1]:29400";

/* The text ends with nothing that is known: it may be a part of a file. */
static bool is_name(const char *text, size_t len)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

    for (size_t i = 0; i < len; i++) {
        if (memchr(letters, text[i], sizeof letters - 1) == NULL)
            return false;
    }
    return len > 0 && len <= 253 && text[0] != '-' && text[0] != '.';
}

bool config_split_endpoint(const char *text, size_t len, struct slice *out, uint16_t *out_port)
{
    const char *colon = memrchr(text, ':', len), *host = text;
    size_t host_len = colon == NULL ? 0 : (size_t)(colon - text);
    uint64_t port;

    if (colon == NULL ||
        !slice_to_u64((struct slice){(const uint8_t *)colon + 1, len - host_len - 1}, UINT16_MAX,
                      &port) ||
        port == 0)
        return false;
    if (host_len > 2 && host[0] == '[' && host[host_len - 1] == ']') {
        host++;
        host_len -= 2;
        if (!config_is_address(AF_INET6, host, host_len))
            return false;
    } else if (!is_name(host, host_len)) {
        return false;
    }
    *out = (struct slice){(const uint8_t *)host, host_len};
    *out_port = (uint16_t)port;
    return true;
}

bool config_read_endpoint(const char *text, size_t len, struct upstream_spec *out)
{
    struct slice host;
    uint16_t port;

    if (!config_split_endpoint(text, len, &host, &port))
        return false;
    *out = (struct upstream_spec){.host = config_copy_text((const char *)host.ptr, host.len),
                                  .port = port};
    return true;
}

void config_clear_upstreams(struct config *c)
{
    for (size_t i = 0; i < c->upstream_count; i++)
        free(c->upstreams[i].host);
    free(c->upstreams);
    c->upstreams = NULL;
    c->upstream_count = 0;
}

const char *config_check_upstream(struct config *c, const char *text)
{
    config_clear_upstreams(c);
    for (;;) {
        size_t len = strcspn(text, ",");
        struct upstream_spec one;

        if (!config_read_endpoint(text, len, &one))
            return wanted;
        c->upstreams = xrealloc(c->upstreams, (c->upstream_count + 1) * sizeof *c->upstreams);
        c->upstreams[c->upstream_count++] = one;
        if (text[len] == '\0')
            return NULL;
        text += len + 1;
    }
}

const char *config_check_space(struct config *c, const char *text)
{
    (void)c;
    return config_space_name_ok(text) ? NULL
                                      : "a space is named with 1 to 253 letters, digits, `.`, `_` "
                                        "or `-`, a letter or digit first";
}

/* Settings of who keeps keys, and whose answers depend on it. */
static bool is_refused(const char *name)
{
    static const char *const names[] = {
        "data-dir",           "journal-endpoints-file", "journal-lease",
        "journal-user",       "journal-password-file",  "sync",
        "space-idle-timeout", "session-timeout",        "read-token-file",
        "read-names"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

/* The store does all that is done for elastic jobs. */
static bool is_elastic(const struct option *o)
{
    return o->group != NULL && strcmp(o->group, "Elastic jobs") == 0;
}

bool config_is_of_store(const struct option *o)
{
    return is_refused(o->name) || is_elastic(o);
}

static bool refuse_store_settings(struct parse *p)
{
    for (size_t i = 0; i < p->settings.count; i++) {
        const struct setting *s = &p->settings.items[i];

        if (is_refused(s->name))
            return config_fail(&p->draft, s,
                               "a relay (--upstream) keeps no keys; give this to the store");
    }
    return true;
}

/* All of a relay's listeners are for the space that it has in its store. */
static bool name_listeners(struct parse *p)
{
    struct config *c = &p->draft.config;

    for (size_t i = 0; i < c->listener_count; i++) {
        struct listen_spec *spec = &c->listeners[i];

        if (strcmp(spec->space, CONFIG_DEFAULT_SPACE) != 0)
            return config_fail(&p->draft, p->draft.listen_from,
                               "a listener of a relay (--upstream) has no space of its own; name "
                               "the store's with --space=%s",
                               spec->space);
        free(spec->space);
        spec->space = config_copy_text(c->space, strlen(c->space));
        spec->space_named = false;
    }
    return true;
}

static void note_elastic_settings(struct parse *p)
{
    for (size_t i = 0; i < p->settings.count; i++) {
        const struct setting *s = &p->settings.items[i];
        char label[CONFIG_LABEL_MAX];

        if (s->option != NULL && is_elastic(s->option))
            config_note(&p->draft.config, CONFIG_NOTE_WARNING, config_label(s, label),
                        "has no effect on a relay (--upstream); give it to the store");
    }
}

/* The links of all spaces go to the same addresses. */
static void note_unlike_spaces(struct parse *p)
{
    struct config *c = &p->draft.config;
    const struct listen_spec *first = NULL;

    for (size_t i = 0; i < c->listener_count; i++) {
        const struct listen_spec *spec = &c->listeners[i];

        if (spec->path != NULL || spec->metrics_only)
            continue;
        if (!spec->space_named)
            return;
        if (first != NULL && strcmp(first->space, spec->space) != 0)
            config_note(c, CONFIG_NOTE_WARNING, "--upstream",
                        "each listener is of a space of its own: for replicas, --upstream names "
                        "one that takes relays of any space (--listen=ADDR:PORT, without /SPACE)");
        if (first != NULL && strcmp(first->space, spec->space) != 0)
            return;
        first = spec;
    }
}

bool config_finish_relay(struct parse *p)
{
    struct config *c = &p->draft.config;
    const struct setting *space = config_last_setting(p, "space");

    if (!config_is_relay(c) && space != NULL)
        return config_fail(&p->draft, space,
                           "is for a relay, which has --upstream and no --journal; a store's "
                           "spaces are named with --listen=ADDR:PORT/SPACE");
    if (config_passes_on(c))
        note_unlike_spaces(p);
    if (!config_is_relay(c))
        return true;
    if (c->space == NULL)
        c->space = config_copy_text(CONFIG_DEFAULT_SPACE, strlen(CONFIG_DEFAULT_SPACE));
    if (!refuse_store_settings(p) || !name_listeners(p))
        return false;
    note_elastic_settings(p);
    return true;
}
