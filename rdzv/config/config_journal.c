/* Reads --journal, and refuses settings without use beside it. */
#include "rdzv/config/config_internal.h"

#include <stdlib.h>
#include <string.h>

static const char wanted[] = "write etcd://HOST:PORT[,HOST:PORT...]/NAME, such as "
                             "etcd://etcd-0.etcd:2379,etcd-1.etcd:2379/rdzv";

#define SCHEME           "etcd://"
#define JOURNAL_NAME_MAX 100u

const char *config_check_journal(struct config *c, const char *text)
{
    struct config_journal *j = &c->journal;
    const char *name;

    if (strncmp(text, SCHEME, strlen(SCHEME)) != 0)
        return wanted;
    text += strlen(SCHEME);
    name = strchr(text, '/');
    if (name == NULL || strlen(name + 1) > JOURNAL_NAME_MAX || !config_space_name_ok(name + 1))
        return wanted;
    free(j->name);
    j->name = config_copy_text(name + 1, strlen(name + 1));
    return config_read_endpoints(text, name, &j->endpoints, &j->endpoint_count) ? NULL : wanted;
}

bool config_finish_journal(struct parse *p)
{
    const struct config_journal *j = &p->config.journal;
    const struct setting *user = config_last_setting(p, "journal-user");
    const struct setting *password = config_last_setting(p, "journal-password-file");

    if (user != NULL && j->url == NULL)
        return config_fail(p, user, "is for --journal=etcd://...");
    if (password != NULL && j->user == NULL)
        return config_fail(p, password, "goes with --journal-user=NAME");
    if (user != NULL && password == NULL)
        return config_fail(p, user, "needs --journal-password-file=FILE");
    for (size_t i = 0; j->url != NULL && i < p->settings.count; i++) {
        const struct setting *s = &p->settings.items[i];

        if (s->option != NULL && s->option->is_for_files)
            return config_fail(p, s, "is for files; --journal=etcd://... keeps all state in etcd");
    }
    return true;
}
