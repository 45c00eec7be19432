/* Reads --journal, and refuses what has no use beside it. */
#include "rdzv/config/config_internal.h"

#include <stdlib.h>
#include <string.h>

#include "store/memory/xalloc.h"

static const char wanted[] = "write etcd://HOST:PORT[,HOST:PORT...]/NAME, such as "
                             "etcd://etcd-0.etcd:2379,etcd-1.etcd:2379/rdzv";

#define SCHEME           "etcd://"
#define JOURNAL_NAME_MAX 100u

void config_clear_journal(struct config *c)
{
    for (size_t i = 0; i < c->journal.endpoint_count; i++)
        free(c->journal.endpoints[i].host);
    free(c->journal.endpoints);
    free(c->journal.name);
    c->journal.endpoints = NULL;
    c->journal.endpoint_count = 0;
    c->journal.name = NULL;
}

const char *config_check_journal(struct config *c, const char *text)
{
    struct config_journal *j = &c->journal;
    const char *name;

    config_clear_journal(c);
    if (strncmp(text, SCHEME, strlen(SCHEME)) != 0)
        return wanted;
    text += strlen(SCHEME);
    name = strchr(text, '/');
    if (name == NULL || strlen(name + 1) > JOURNAL_NAME_MAX || !config_space_name_ok(name + 1))
        return wanted;
    j->name = config_copy_text(name + 1, strlen(name + 1));
    while (text < name) {
        size_t len = strcspn(text, ",/");
        struct upstream_spec one;

        if (!config_read_endpoint(text, len, &one))
            return wanted;
        j->endpoints = xrealloc(j->endpoints, (j->endpoint_count + 1) * sizeof *j->endpoints);
        j->endpoints[j->endpoint_count++] = one;
        text += len + 1;
    }
    return NULL;
}

/* The members stand in one place. */
static bool finish_endpoints(struct parse *p)
{
    const struct config_journal *j = &p->draft.config.journal;
    const struct setting *file = config_last_setting(p, "journal-endpoints-file");

    if (file == NULL && j->url != NULL && j->endpoint_count == 0)
        return config_fail(&p->draft, config_last_setting(p, "journal"),
                           "names no member of etcd: %s; or give --journal-endpoints-file=FILE",
                           wanted);
    if (file != NULL && j->url == NULL)
        return config_fail(&p->draft, file, "is for --journal=etcd:///NAME");
    if (file != NULL && j->endpoint_count > 0)
        return config_fail(&p->draft, file,
                           "names the members of etcd, and --journal does, too: write "
                           "--journal=etcd:///%s",
                           j->name);
    return true;
}

static const char *const for_files[] = {"data-dir", "sync"};

bool config_is_for_files(const struct option *o)
{
    for (size_t i = 0; i < sizeof for_files / sizeof for_files[0]; i++) {
        if (strcmp(o->name, for_files[i]) == 0)
            return true;
    }
    return false;
}

bool config_finish_journal(struct parse *p)
{
    const struct config_journal *j = &p->draft.config.journal;
    const struct setting *user = config_last_setting(p, "journal-user");
    const struct setting *password = config_last_setting(p, "journal-password-file");

    if (!finish_endpoints(p))
        return false;
    if (user != NULL && j->url == NULL)
        return config_fail(&p->draft, user, "is for --journal=etcd://...");
    if (password != NULL && j->user == NULL)
        return config_fail(&p->draft, password, "goes with --journal-user=NAME");
    if (user != NULL && password == NULL)
        return config_fail(&p->draft, user, "needs --journal-password-file=FILE");
    for (size_t i = 0; j->url != NULL && i < sizeof for_files / sizeof for_files[0]; i++) {
        const struct setting *s = config_last_setting(p, for_files[i]);

        if (s != NULL)
            return config_fail(&p->draft, s,
                               "is for files; with --journal=etcd://... all state is in etcd");
    }
    return true;
}
