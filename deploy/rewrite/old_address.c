/* Finds the texts of a job that name the store of worker 0, where nothing listens after the
 * rewrite: a loop that waits for it, or an init container, would wait for ever. */
#include "deploy/rewrite/rewrite_plan.h"

#include <stdlib.h>
#include <string.h>

/* Whether the port follows a host: HOST:PORT, `HOST PORT`, /HOST/PORT and the like. */
static bool is_port_next(const char *text, long port)
{
    size_t variable;

    text += *text == '.' ? strspn(text, ".abcdefghijklmnopqrstuvwxyz0123456789-") : 0;
    text += strspn(text, "})\"', :/");
    variable = strspn(text, "${(");
    return variable > 0 ? strncmp(text + variable, "MASTER_PORT", 11) == 0
                        : strtol(text, NULL, 10) == port;
}

/* Where the text names the old store of a run that moves, except where rewrite edits it; NULL:
 * nowhere. */
static const char *old_address_in(struct rewrite *w, const struct rewrite_job *j,
                                  const struct yaml_node *n)
{
    const struct rewrite_file *f = rewrite_file_of(w, n);

    JOB_FOREACH(r, j->runs) {
        FOREACH_WORD(host, *r->host == '\0' ? "MASTER_ADDR" : r->host, "MASTER_ADDR") {
            for (const char *p = strstr(n->text, host); p != NULL; p = strstr(p + 1, host)) {
                size_t at;

                if (!r->hosted || !is_port_next(p + strlen(host), r->port))
                    continue;
                at = scalar_position(&f->yaml, n, (size_t)(p - n->text)).offset;
                if (!ANY(FOREACH(const struct text_edit, e, f->edits.list, f->edits.count),
                         e->at <= at && at < e->at + e->len))
                    return p;
            }
        }
    }
    return NULL;
}

/* Whether the line has the program nc, as a word of its own: rsync waits for nothing. */
static bool runs_nc(const char *line)
{
    return ANY(for (const char *p = strstr(line, "nc "); p != NULL; p = strstr(p + 1, "nc ")),
               p == line || strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", p[-1]) == NULL);
}

void old_address_refuse(struct rewrite *w, const struct rewrite_job *j, const struct yaml_node *n,
                        bool waits)
{
    const char *p = n->kind == YAML_SCALAR ? old_address_in(w, j, n) : NULL, *line = p;
    const struct rewrite_file *f = rewrite_file_of(w, n);

    if (p != NULL) {
        while (line > n->text && line[-1] != '\n')
            line--;
        line = arena_copy(&w->arena, line, (size_t)(p - line));
        waits = waits || text_has(line, "until ", "while ", "wait") || runs_nc(line);
        diag_report(w->diag, waits ? DIAG_ERROR : DIAG_NOTE, f->yaml.name,
                    scalar_position(&f->yaml, n, (size_t)(p - n->text)),
                    "%s: this names the store of worker 0, and nothing listens there after the "
                    "rewrite: remove it",
                    j->object->title);
    }
    for (size_t i = 0; n->kind != YAML_SCALAR && !n->alias && i < n->count; i++)
        old_address_refuse(w, j, yaml_child(n, i),
                           waits || (n->kind == YAML_MAPPING &&
                                     strcmp(n->pairs[i].key->text, "initContainers") == 0));
}
