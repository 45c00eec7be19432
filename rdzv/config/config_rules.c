/* Which settings go together: what each needs beside it, and what a relay or a journal on etcd
 * refuses. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "rdzv/config/config_internal.h"

/* --- Names of certificates. --- */

const char *config_check_peer_name(struct config *, const char *name)
{
    return strcmp(name, "*") == 0 ? "* is no name; leave the setting out, or write names" : NULL;
}

const char *config_check_relay_name(struct config *, const char *item)
{
    const char *equals = strchr(item, '=');
    char *space = config_copy_text(item, equals == NULL ? 0 : (size_t)(equals - item));
    bool ok = equals != NULL && equals[1] != '\0' && config_space_name_ok(space);

    free(space);
    return ok ? NULL : "write SPACE=NAME[,SPACE=NAME...]";
}

/* --- What a setting needs. --- */

/* The last setting of that name; NULL if there is none, or its value is empty. */
static const struct setting *find_given(const struct parse *p, const char *name)
{
    const struct setting *s = config_last_setting(p, name);

    return s == NULL || s->value[0] == '\0' ? NULL : s;
}

static bool check_needs(struct parse *p)
{
    for (size_t i = 0; i < config_need_count; i++) {
        const struct setting *s = find_given(p, config_needs[i].name);

        if (s != NULL && find_given(p, config_needs[i].needs) == NULL)
            return config_fail(p, s, "%s", config_needs[i].fault);
    }
    return true;
}

/* Rules with more than one remedy, or about a value. */
static bool check_tls(struct parse *p)
{
    const struct config *c = &p->config;
    const struct setting *from = p->listen_from;

    if (c->etcd.client_cert_auth && c->tls.client_ca == NULL)
        return config_fail(p, config_last_setting(p, "client-cert-auth"),
                           "needs the CA of the clients: --trusted-ca-file=FILE");
    if (c->tls.crl != NULL && c->tls.client_ca == NULL && c->upstream_tls.ca == NULL &&
        c->journal.tls.ca == NULL)
        return config_fail(p, config_last_setting(p, "crl"),
                           "needs the CA whose list it is: --client-ca=FILE, --upstream-ca=FILE or "
                           "--journal-ca=FILE");
    if (from == NULL)
        from = config_last_setting(p, "listen-client-urls");
    if (from == NULL)
        from = config_last_setting(p, "listen-metrics-urls");
    for (size_t i = 0; i < c->listener_count; i++) {
        if (c->listeners[i].wire == LISTEN_TLS && c->tls.cert == NULL)
            return config_fail_check(p, from,
                                     "TLS (https://, or tls:) needs a certificate: --cert=FILE and "
                                     "--key=FILE");
    }
    return true;
}

/* etcd's own charts write an empty text for "none"; only etcd's names can have one here. With TLS,
 * an empty text may also be the unset variable of a script. */
static void note_empty_texts(struct parse *p)
{
    for (size_t i = 0; p->config.tls.cert != NULL && i < p->settings.count; i++) {
        const struct setting *s = &p->settings.items[i];

        if (s->row->kind == OPTION_ALIAS && s->value[0] == '\0' && s->option->left_out != NULL)
            config_note(&p->config, CONFIG_NOTE_WARNING, CONFIG_LABEL(s),
                        "is empty, which for etcd means unset: %s", s->option->left_out);
    }
}

/* --- Relays and replicas. --- */

/* All listeners of a relay serve the space of --space. False: a listener names another one. */
static bool set_listeners_space(struct parse *p)
{
    struct config *c = &p->config;

    if (c->space == NULL)
        c->space = config_copy_text(CONFIG_DEFAULT_SPACE, strlen(CONFIG_DEFAULT_SPACE));
    FOREACH(struct listen_spec, spec, c->listeners, c->listener_count) {
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

/* What a relay ignores, because it does nothing for elastic jobs, except the number of its run's
 * relays. */
static bool is_for_jobs(const struct config *c, const struct option *o)
{
    return o->offset >= offsetof(struct config, elastic) &&
           o->offset < offsetof(struct config, elastic) + sizeof c->elastic &&
           (c->exit_on_restart == 0 || strcmp(o->name, "expect") != 0);
}

bool config_relay_takes(const struct config *c, const struct option *o)
{
    return !o->is_for_stores && !is_for_jobs(c, o);
}

/* False: the setting has no place on a relay, or beside --journal. */
static bool check_place(struct parse *p, const struct setting *s)
{
    const struct config *c = &p->config;

    if (c->journal.url != NULL && s->option->is_for_files)
        return config_fail(p, s, "is for files; --journal=etcd://... keeps all state in etcd");
    if (!config_is_relay(c) || config_relay_takes(c, s->option))
        return true;
    if (s->option->is_for_stores)
        return config_fail(p, s, "a relay (--upstream) keeps no keys; give this to the store");
    config_note(&p->config, CONFIG_NOTE_WARNING, CONFIG_LABEL(s),
                "has no effect on a relay (--upstream); give it to the store");
    return true;
}

static bool check_places(struct parse *p)
{
    for (size_t i = 0; i < p->settings.count; i++) {
        if (!check_place(p, &p->settings.items[i]))
            return false;
    }
    return true;
}

/* The settings that only a relay has. */
static bool check_relay_settings(struct parse *p)
{
    const struct config *c = &p->config;
    const struct setting *restarts = config_last_setting(p, "exit-on-restart");
    const struct setting *space = config_last_setting(p, "space");
    const struct setting *only =
        c->exit_on_restart != 0 ? restarts : config_last_setting(p, "node-label");

    if (!config_is_relay(c) && space != NULL)
        return config_fail(p, space,
                           "is a setting of relays (--upstream without --journal); name a store's "
                           "spaces with --listen=ADDR:PORT/SPACE");
    if (only != NULL && !config_is_relay(c))
        return config_fail(p, only, "is a setting of relays (--upstream without --journal)");
    if (c->exit_on_restart != 0 && c->elastic.expected_nodes == 0)
        return config_fail(p, restarts, "add --expect=N, the number of relays of the run");
    return true;
}

/* The links of all spaces go to the same addresses. */
static void note_unlike_spaces(struct parse *p)
{
    struct config *c = &p->config;
    const struct listen_spec *first = NULL;

    FOREACH(const struct listen_spec, spec, c->listeners, c->listener_count) {
        if (spec->path != NULL || spec->metrics_only)
            continue;
        if (!spec->space_named)
            return;
        if (first != NULL && strcmp(first->space, spec->space) != 0) {
            config_note(c, CONFIG_NOTE_WARNING, "--upstream",
                        "each listener serves another space: for replicas, --upstream must name "
                        "a listener for relays of any space (--listen=ADDR:PORT, without /SPACE)");
            return;
        }
        first = spec;
    }
}

bool config_check_rules(struct parse *p)
{
    struct config *c = &p->config;

    note_empty_texts(p);
    if (!check_needs(p) || !check_tls(p) || !check_relay_settings(p))
        return false;
    c->upstream_tls.crl = c->journal.tls.crl = c->tls.crl;
    if (config_passes_on(c))
        note_unlike_spaces(p);
    return check_places(p) && (!config_is_relay(c) || set_listeners_space(p));
}
