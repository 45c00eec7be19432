/* Reads --upstream and --space, and refuses settings that a relay cannot use: it keeps no state. */
#include "rdzv/config/config_internal.h"

#include <stdlib.h>
#include <string.h>

static const char wanted[] =
    "write HOST:PORT[,HOST:PORT...], such as job-rdzv.default.svc:29400 or [fd00::1]:29400";

const char *config_check_upstream(struct config *c, const char *text)
{
    return config_read_endpoints(text, text + strlen(text), &c->upstreams, &c->upstream_count)
               ? NULL
               : wanted;
}

const char *config_check_space(struct config *, const char *text)
{
    return config_space_name_ok(text) ? NULL
                                      : "a space is named with 1 to 253 letters, digits, `.`, `_` "
                                        "or `-`, a letter or digit first";
}

/* All listeners of a relay serve the space of --space. False: a listener names another one. */
static bool set_listeners_space(struct parse *p)
{
    struct config *c = &p->config;

    for (size_t i = 0; i < c->listener_count; i++) {
        struct listen_spec *spec = &c->listeners[i];

        if (strcmp(spec->space, CONFIG_DEFAULT_SPACE) != 0)
            return config_fail(p, p->listen_from,
                               "a listener of a relay (--upstream) has no space of its own; name "
                               "the store's with --space=%s",
                               spec->space);
        free(spec->space);
        spec->space = config_copy_text(c->space, strlen(c->space));
        spec->space_named = false;
    }
    return true;
}

bool config_relay_takes(const struct config *c, const struct option *o)
{
    return o->on_relay == RELAY_TAKES ||
           (c->exit_on_restart != 0 && strcmp(o->name, "expect") == 0); /* the number of relays */
}

static bool check_store_settings(struct parse *p)
{
    for (size_t i = 0; i < p->settings.count; i++) {
        const struct setting *s = &p->settings.items[i];
        char label[CONFIG_LABEL_MAX];

        if (s->option != NULL && s->option->on_relay == RELAY_REFUSES)
            return config_fail(p, s, "a relay (--upstream) keeps no keys; give this to the store");
        if (s->option != NULL && s->option->on_relay == RELAY_IGNORES &&
            !config_relay_takes(&p->config, s->option))
            config_note(&p->config, CONFIG_NOTE_WARNING, config_label(s, label),
                        "has no effect on a relay (--upstream); give it to the store");
    }
    return true;
}

/* False: the setting of restarts in place has no effect here. */
static bool check_restarts(struct parse *p)
{
    const struct config *c = &p->config;
    const struct setting *s = config_last_setting(p, "exit-on-restart");

    if (c->exit_on_restart == 0)
        return true;
    if (!config_is_relay(c))
        return config_fail(p, s, "is a setting of relays (--upstream without --journal)");
    if (c->elastic.expected_nodes == 0)
        return config_fail(p, s, "add --expect=N, the number of relays of the run");
    return true;
}

/* The links of all spaces go to the same addresses. */
static void note_unlike_spaces(struct parse *p)
{
    struct config *c = &p->config;
    const struct listen_spec *first = NULL;

    for (size_t i = 0; i < c->listener_count; i++) {
        const struct listen_spec *spec = &c->listeners[i];

        if (spec->path != NULL || spec->metrics_only)
            continue;
        if (!spec->space_named)
            return;
        if (first != NULL && strcmp(first->space, spec->space) != 0)
            config_note(c, CONFIG_NOTE_WARNING, "--upstream",
                        "each listener serves another space: for replicas, --upstream must name "
                        "a listener for relays of any space (--listen=ADDR:PORT, without /SPACE)");
        if (first != NULL && strcmp(first->space, spec->space) != 0)
            return;
        first = spec;
    }
}

bool config_finish_relay(struct parse *p)
{
    struct config *c = &p->config;
    const struct setting *space = config_last_setting(p, "space");

    if (!config_is_relay(c) && space != NULL)
        return config_fail(p, space,
                           "is a setting of relays (--upstream without --journal); name a store's "
                           "spaces with --listen=ADDR:PORT/SPACE");
    if (!check_restarts(p))
        return false;
    if (config_passes_on(c))
        note_unlike_spaces(p);
    if (!config_is_relay(c))
        return true;
    if (c->space == NULL)
        c->space = config_copy_text(CONFIG_DEFAULT_SPACE, strlen(CONFIG_DEFAULT_SPACE));
    return check_store_settings(p) && set_listeners_space(p);
}
