/* Reads --plaintext and --allow, and checks which files of TLS go together. */
#include "proto/etcd_types.h"
#include "rdzv/config/config_internal.h"

#include <stdlib.h>
#include <string.h>

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

static const struct setting *find_given(const struct parse *p, const char *own, const char *etcd)
{
    const struct setting *s = config_last_setting(p, own);

    return s != NULL ? s : config_last_setting(p, etcd);
}

/* etcd's own charts write an empty text for "none"; only etcd's names can have one here. With TLS,
 * an empty text may also be the unset variable of a script. */
static void drop_empty(struct parse *p, char **text, const char *etcd_name, const char *then)
{
    struct config *c = &p->config;
    const struct setting *from = config_last_setting(p, etcd_name);
    char label[CONFIG_LABEL_MAX];

    if (*text == NULL || **text != '\0')
        return;
    free(*text);
    *text = NULL;
    if (then != NULL && from != NULL && c->tls.cert != NULL)
        config_note(c, CONFIG_NOTE_WARNING, config_label(from, label),
                    "is empty, which for etcd means unset: %s", then);
}

static void drop_empty_texts(struct parse *p)
{
    struct config_tls *t = &p->config.tls;

    drop_empty(p, &t->cert, "cert-file", NULL);
    drop_empty(p, &t->key, "key-file", NULL);
    drop_empty(p, &t->client_ca, "trusted-ca-file", "clients need no certificate");
    drop_empty(p, &t->crl, "client-crl-file", "no certificate counts as revoked");
}

static bool check_listeners(struct parse *p)
{
    const struct config *c = &p->config;
    const struct setting *from = p->listen_from != NULL
                                     ? p->listen_from
                                     : find_given(p, "listen-client-urls", "listen-metrics-urls");

    for (size_t i = 0; i < c->listener_count; i++) {
        if (c->listeners[i].wire == LISTEN_TLS && c->tls.cert == NULL)
            return config_fail_check(p, from,
                                     "TLS (https://, or tls:) needs a certificate: --cert=FILE and "
                                     "--key=FILE");
    }
    return true;
}

/* The settings of a client_tls. */
struct client_settings {
    const char *ca, *cert, *key, *name;
    const char *only; /* for whom they are */
    const char *peer;
};

static const struct client_settings of_clients[] = {
    {"upstream-ca", "upstream-cert", "upstream-key", "upstream-name",
     "is for a relay, which has --upstream", "the store"},
    {"journal-ca", "journal-cert", "journal-key", "journal-server-name",
     "is for --journal=etcd://...", "etcd"},
};

static bool finish_client(struct parse *p, const struct client_settings *names, bool is_used,
                          struct config_client_tls *t)
{
    const struct setting *given[] = {
        config_last_setting(p, names->ca), config_last_setting(p, names->cert),
        config_last_setting(p, names->key), config_last_setting(p, names->name)};

    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (given[i] != NULL && !is_used)
            return config_fail(p, given[i], "%s", names->only);
        if (given[i] != NULL && t->ca == NULL)
            return config_fail(p, given[i], "needs the CA of %s: --%s=FILE, or system", names->peer,
                               names->ca);
    }
    if (t->cert != NULL && t->key == NULL)
        return config_fail(p, given[1], "needs its key: --%s=FILE", names->key);
    if (t->key != NULL && t->cert == NULL)
        return config_fail(p, given[2], "needs its certificate: --%s=FILE", names->cert);
    t->crl = p->config.tls.crl;
    return true;
}

/* A name that nobody has verified says nothing. */
static bool check_names(struct parse *p)
{
    const struct config_tls *t = &p->config.tls;
    const struct setting *relay_names = config_last_setting(p, "relay-names");
    const struct {
        const struct string_list *list;
        const struct setting *from;
    } all[] = {{&t->client_names, find_given(p, "client-names", "client-cert-allowed-hostname")},
               {&t->admin_names, config_last_setting(p, "admin-names")},
               {&t->read_names, config_last_setting(p, "read-names")},
               {&t->relay_names, relay_names}};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].list->count > 0 && t->client_ca == NULL)
            return config_fail(p, all[i].from,
                               "needs the CA whose certificates they are: --client-ca=FILE");
        for (size_t j = 0; j < all[i].list->count; j++) {
            if (strcmp(all[i].list->items[j], "*") == 0)
                return config_fail(p, all[i].from,
                                   "* is no name; leave the setting out, or write names");
        }
    }
    for (size_t i = 0; i < t->relay_names.count; i++) {
        const char *item = t->relay_names.items[i], *equals = strchr(item, '=');
        char *space = config_copy_text(item, equals == NULL ? 0 : (size_t)(equals - item));
        bool ok = equals != NULL && equals[1] != '\0' && config_space_name_ok(space);

        free(space);
        if (!ok)
            return config_fail(p, relay_names, "%s: write SPACE=NAME[,SPACE=NAME...]",
                               config_show(item).text);
    }
    return true;
}

bool config_finish_tls(struct parse *p)
{
    struct config_tls *t = &p->config.tls;
    const struct setting *auth = config_last_setting(p, "client-cert-auth");
    bool wants_auth =
        auth != NULL && (auth->value == NULL ||
                         (etcd_parse_bool(slice_str(auth->value), &wants_auth) && wants_auth));

    drop_empty_texts(p);
    if (t->cert != NULL && t->key == NULL)
        return config_fail(p, find_given(p, "cert", "cert-file"), "needs its key: --key=FILE");
    if (t->key != NULL && t->cert == NULL)
        return config_fail(p, find_given(p, "key", "key-file"),
                           "needs its certificate: --cert=FILE");
    if (t->client_ca != NULL && t->cert == NULL)
        return config_fail(p, find_given(p, "client-ca", "trusted-ca-file"),
                           "needs a certificate of ours: --cert=FILE and --key=FILE");
    if (!check_names(p))
        return false;
    if (wants_auth && t->client_ca == NULL)
        return config_fail(p, auth, "needs the CA of the clients: --trusted-ca-file=FILE");
    if (t->crl != NULL && t->client_ca == NULL && p->config.upstream_tls.ca == NULL &&
        p->config.journal.tls.ca == NULL)
        return config_fail(p, find_given(p, "crl", "client-crl-file"),
                           "needs the CA whose list it is: --client-ca=FILE, --upstream-ca=FILE or "
                           "--journal-ca=FILE");
    return finish_client(p, &of_clients[0], p->config.upstream != NULL, &p->config.upstream_tls) &&
           finish_client(p, &of_clients[1], p->config.journal.url != NULL,
                         &p->config.journal.tls) &&
           check_listeners(p);
}
