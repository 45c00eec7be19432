/* Reads the annotation rdzv.dev/ignore. */
#include "deploy/check/check_ignore.h"

#include "deploy/yaml/diag.h"

#include <string.h>

static const struct yaml_node *annotation(const struct kube_object *o)
{
    return yaml_get(kube_get(o->node, "metadata.annotations"), CHECK_IGNORE);
}

/* The next name in the list at *p, without blanks; false: there is none. */
static bool next_name(const char **p, const char **name, size_t *len)
{
    *p += strspn(*p, ", \t\n");
    *name = *p;
    *len = strcspn(*p, ", \t\n");
    *p += *len;
    return *len > 0;
}

static bool names_rule(const struct kube_object *o, const char *rule)
{
    const char *p = yaml_text(annotation(o)), *name;
    size_t len;

    while (p != NULL && next_name(&p, &name, &len)) {
        if (strlen(rule) == len && memcmp(name, rule, len) == 0)
            return true;
    }
    return false;
}

static bool is_ignored(const struct check_finding *f)
{
    for (const struct kube_object *o = f->object; o != NULL; o = o->wrapper) {
        if (names_rule(o, f->rule->id))
            return true;
    }
    return false;
}

static void note_unknown(struct check *c, const struct kube_object *o, struct diag *d)
{
    const struct yaml_node *node = annotation(o);
    const char *p = yaml_text(node), *name;
    size_t len;

    while (p != NULL && next_name(&p, &name, &len)) {
        const char *id = arena_copy(&c->bundle.arena, name, len);
        struct nearest n = nearest_to(id);

        if (check_rule_named(id) != NULL)
            continue;
        for (size_t i = 0; i < check_rule_count; i++)
            nearest_try(&n, check_rules[i].id);
        diag_note(d, node->file, node->start, "%s: there is no rule %s%s%s", CHECK_IGNORE, id,
                  n.found == NULL ? "" : ": did you mean ", n.found == NULL ? "" : n.found);
    }
}

size_t check_ignore(struct check *c, struct diag *d)
{
    size_t kept = 0, before = c->count;

    for (size_t i = 0; i < c->bundle.count; i++)
        note_unknown(c, c->bundle.objects[i], d);
    for (size_t i = 0; i < c->count; i++) {
        if (!is_ignored(&c->findings[i]))
            c->findings[kept++] = c->findings[i];
    }
    c->count = kept;
    return before - kept;
}
