/* From argv, environment and file to a checked struct config: the defaults, the order of the steps,
 * and the checks across settings. */
#include "proto/utf8.h"
#include "rdzv/config/config_internal.h"
#include "store/memory/xalloc.h"

#include <string.h>

static bool apply_settings(struct parse *p)
{
    FOREACH(const struct setting, s, p->settings.items, p->settings.count) {
        if (s->value != NULL && !utf8_is_text(slice_str(s->value)))
            return config_fail(p, s, "%s: is not UTF-8 text; write it in UTF-8",
                               config_show(s->value).text);
        if (!config_apply_setting(p, s))
            return false;
    }
    return true;
}

/* A flag of etcd's, such as --debug, moves a rdzvd without --listen to etcd's address. */
static void note_etcd_role(struct parse *p)
{
    for (size_t i = 0; !p->is_named_etcd && i < p->settings.count; i++) {
        const struct setting *s = &p->settings.items[i];

        if (s->etcd_file || (s->row->owner != OWNER_ETCD && s->source != SETTING_ENVIRONMENT))
            continue;
        config_note(&p->config, CONFIG_NOTE_WARNING, CONFIG_LABEL(s),
                    "is a setting of etcd's, so rdzvd serves as an etcd, and only at "
                    "127.0.0.1:2379; give --listen, or leave it out");
        return;
    }
}

/* Checks that need all settings together. */
static bool finish_config(struct parse *p)
{
    struct config *c = &p->config;

    if (c->check_data != NULL && c->action == CONFIG_RUN)
        c->action = CONFIG_CHECK_DATA;
    if (c->check_health != NULL && c->action == CONFIG_RUN)
        c->action = CONFIG_CHECK_HEALTH;
    if (!etcd_flags_finish(p))
        return false;
    if (c->name[0] == '\0')
        return config_refuse(p, c->etcd_mode, config_last_setting(p, "name"),
                             "is empty; give the member a name");

    c->listeners_default =
        !ANY(FOREACH(const struct listen_spec, spec, c->listeners, c->listener_count),
             !spec->metrics_only);
    if (c->listeners_default && c->etcd_mode) {
        note_etcd_role(p);
        config_add_listener(c, "127.0.0.1", 9, 2379, CONFIG_DEFAULT_SPACE);
    } else if (c->listeners_default) {
        config_add_localhost(c, 29400, CONFIG_DEFAULT_SPACE);
        config_add_localhost(c, 2379, CONFIG_DEFAULT_SPACE);
    }
    if (!config_check_overlaps(p) || !config_check_rules(p))
        return false;

    c->advertise_default = config_last_setting(p, "advertise-client-urls") == NULL;
    config_finish_elastic(c);
    return true;
}

bool config_parse(int argc, char *const argv[], char *const environment[], struct config *out,
                  struct config_error *error)
{
    struct parse p = {.error = error};
    const struct setting *help;
    bool ok;

    *error = (struct config_error){.exit_code = 2};
    p.config.elastic.silent_restart_ms = 60000;
    config_apply_initial(&p);
    (void)config_check_plaintext(&p.config, "loopback");
    p.is_named_etcd = p.as_etcd = argc > 0 && strcmp(basename(argv[0]), "etcd") == 0;
    if (p.as_etcd) { /* an etcd answers every name, and tells every web page */
        string_list_add(&p.config.cors, "*", 1);
        string_list_add(&p.config.host_whitelist, "*", 1);
    }
    ok = config_collect(&p, argc, argv, environment);
    help = ok ? config_last_setting(&p, "help") : NULL;
    if (help != NULL) {
        /* --help wins over all errors. */
        p.config.action = CONFIG_HELP;
        p.config.etcd_mode = p.as_etcd;
    } else {
        ok = ok && config_check_pairs(&p) && apply_settings(&p) && finish_config(&p);
    }

    if (ok) {
        p.config.config_file = p.file_name;
        p.file_name = NULL;
        *out = p.config;
    } else {
        config_free(&p.config);
    }
    config_file_free(&p.file);
    string_list_free(&p.unknown);
    free(p.file_name);
    free(p.settings.items);
    return ok;
}

void config_free(struct config *c)
{
    if (c == NULL)
        return;
    config_free_values(c);
    config_clear_listeners(c);
    config_free_endpoints(&c->upstreams, &c->upstream_count);
    config_free_endpoints(&c->journal.endpoints, &c->journal.endpoint_count);
    free(c->journal.name);
    cidr_list_free(&c->tls.plaintext_for.networks);
    cidr_list_free(&c->allowed);
    free((void *)(uintptr_t)c->elastic.advertise_host);
    free(c->config_file);
    for (size_t i = 0; i < c->note_count; i++) {
        free(c->notes[i].flag);
        free(c->notes[i].why);
    }
    free(c->notes);
    *c = (struct config){0};
}

void config_adopt_socket(struct config *c, int fd, const char *host, uint16_t port,
                         const char *name)
{
    struct listen_spec *spec = NULL;

    for (size_t last = c->listener_count; c->listeners_default && last-- > 0;) {
        if (c->listeners[last].metrics_only)
            break; /* the default ones are behind them */
        config_free_listener(&c->listeners[last]);
        c->listener_count = last;
    }
    c->listeners_default = false;
    for (size_t i = 0; i < c->listener_count; i++) {
        if (c->listeners[i].fd < 0 && c->listeners[i].port == port &&
            strcmp(c->listeners[i].host, host) == 0)
            spec = &c->listeners[i];
    }
    if (spec == NULL) {
        bool named = !config_is_relay(c) && config_space_name_ok(name);

        spec = config_add_listener(c, host, strlen(host), port,
                                   config_is_relay(c) ? c->space
                                   : named            ? name
                                                      : CONFIG_DEFAULT_SPACE);
        spec->space_named = named;
    }
    spec->fd = fd;
    spec->optional = false;
}
