/* Rules about variables: the precedence of sources, and the order in which references expand. */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>

/* --- Two sources that disagree. --- */

/* "4" and "4:4" are the same number of nodes. */
static bool same_value(enum torchrun_option option, const char *a, const char *b)
{
    size_t len = strcspn(a, ":");

    if (strcmp(a, b) == 0)
        return true;
    if (option != TORCHRUN_NNODES)
        return false;
    if (a[len] == '\0')
        return strncmp(b, a, len) == 0 && b[len] == ':' && strcmp(b + len + 1, a) == 0;
    return strchr(b, ':') == NULL && same_value(option, b, a);
}

bool check_is_twice(const struct job_run *r, enum torchrun_option option)
{
    size_t count = 0;

    JOB_FOREACH_FLAG(f, r)
        count += f->option == option;
    return count > 1;
}

void check_option_env_conflict(struct check *c, const struct job_run *r)
{
    for (enum torchrun_option o = 0; o < TORCHRUN_OPTIONS; o++) {
        if (check_is_twice(r, o))
            check_report(c, check_at_setting(r, o),
                         "--%s is given twice: torchrun takes the last one only",
                         torchrun_options[o]);
    }
    for (enum torchrun_option o = 0; o < TORCHRUN_OPTIONS; o++) {
        const struct job_setting *s = &r->settings[o], *weaker = s->weaker;

        if (weaker == NULL || s->from != JOB_FROM_FLAG || !s->value.known || !weaker->value.known ||
            same_value(o, s->value.text, weaker->value.text))
            continue;
        /* A range up to the operator's number: this is how jobs of Trainer become elastic. */
        if (o == TORCHRUN_NNODES && weaker->from == JOB_FROM_OPERATOR && job_is_elastic(r) &&
            strtol(weaker->value.text, NULL, 10) == r->nodes_max)
            continue;
        check_report(c, check_at_setting(r, o), "--%s is %s here, but %s sets %s=%s",
                     torchrun_options[o], *s->value.text == '\0' ? "(empty)" : s->value.text,
                     weaker->from == JOB_FROM_ENV ? "the container's env"
                     : weaker->written.node != NULL &&
                             weaker->written.node == r->container->pods->injected
                         ? "the policy of the label rdzv.dev/inject"
                     : weaker->from == JOB_FROM_OPERATOR ? "the operator"
                                                         : "the script",
                     torchrun_variables[o], weaker->value.text);
    }
}

/* --- Variables that an operator sets itself. --- */

/* The operator sets the same value as the user. */
static bool is_harmless(struct check *c, const struct kube_container *container,
                        const struct job_variable *v)
{
    const char *text = yaml_text(v->value);
    const struct job_variable *winner = job_variable(&c->jobs, container, v->name);
    enum torchrun_option option = torchrun_option_of_variable(v->name);

    if (winner != NULL && winner->made != NULL && text != NULL && strcmp(winner->made, text) == 0)
        return true;
    return ANY(JOB_FOREACH(r, job_runs_in(&c->jobs, container->pods)),
               r->container == container && option < TORCHRUN_OPTIONS && text != NULL &&
                   r->settings[option].from == JOB_FROM_OPERATOR &&
                   strcmp(r->settings[option].value.text, text) == 0);
}

void check_env_overwritten(struct check *c, const struct kube_container *container)
{
    if (container->init || container->pods->object->type != KUBE_PYTORCHJOB)
        return;
    JOB_FOREACH_VARIABLE(v, &c->jobs, container)
    {
        const char *source = job_made_by(container, v->name);

        if (source != NULL && !is_harmless(c, container, v))
            check_report(c, check_at_first(v->node, "name"),
                         "%s has no effect: %s appends its own value", v->name, source);
    }
}

void check_env_reserved(struct check *c, const struct kube_container *container)
{
    enum kube_type type = container->pods->object->type;

    if ((type != KUBE_TRAINJOB && type != KUBE_RUNTIME) || strcmp(container->name, "node") != 0)
        return;
    for (int over = 0; over < 2; over++) {
        YAML_FOREACH(entry, kube_get(over ? container->over : container->node, "env")) {
            const char *name = kube_text(entry, "name");

            if (text_is(name, "PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK",
                        "PET_MASTER_ADDR", "PET_MASTER_PORT"))
                check_report(c, check_at_first(entry, "name"),
                             "Trainer's torch policy sets %s, and refuses it here", name);
        }
    }
}

/* --- References that nothing replaces. --- */

/* `$NAME` or `${NAME}`, which only a shell replaces, unless it is a placeholder of a template; *at
 * is its place. */
static bool has_shell_variable(const struct kube_object *o, const char *text, size_t *at)
{
    for (const char *p = strchr(text, '$'); p != NULL && !o->templated; p = strchr(p + 1, '$')) {
        char next = p[1];

        if (next == '{' || next == '_' || (next >= 'a' && next <= 'z') ||
            (next >= 'A' && next <= 'Z')) {
            *at = (size_t)(p - text);
            return true;
        }
        p += next == '$';
    }
    return false;
}

/* `$(NAME)` of a variable that the container does not have; *at is its place. */
static bool has_unknown_variable(struct check *c, const struct kube_container *container,
                                 const char *text, size_t *at)
{
    for (const char *p = strstr(text, "$("); p != NULL; p = strstr(p + 2, "$(")) {
        size_t len =
            strspn(p + 2, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.-");

        if (len == 0 || p[2 + len] != ')' || (p > text && p[-1] == '$'))
            continue;
        if (job_variable(&c->jobs, container, arena_copy(&c->bundle.arena, p + 2, len)) == NULL &&
            kube_get(container->node, "envFrom") == NULL) {
            *at = (size_t)(p - text);
            return true;
        }
    }
    return false;
}

/* `reason` says why nothing replaces variables of a shell there. */
static void look_at_text(struct check *c, const struct job_run *r, const char *text,
                         struct check_position at, const char *reason)
{
    size_t place;
    bool shell = has_shell_variable(job_run_object(r), text, &place);

    if (!shell && !has_unknown_variable(c, r->container, text, &place))
        return;
    at.at += place;
    check_report(c, at, "%s, so `%s` stays as it is",
                 shell ? reason : "the container has no such variable", text + place);
}

void check_env_not_expanded(struct check *c, const struct job_run *r)
{
    JOB_FOREACH_FLAG(f, r) {
        if (f->value.text != NULL && !f->value.shell)
            look_at_text(c, r, f->value.text, check_at_text(&f->value), "there is no shell here");
    }
    for (int o = 0; o < TORCHRUN_OPTIONS; o++) {
        const struct job_setting *s =
            r->settings[o].from == JOB_FROM_ENV ? &r->settings[o] : r->settings[o].weaker;

        if (s != NULL && s->from == JOB_FROM_ENV && s->written.text != NULL)
            look_at_text(c, r, s->written.text, check_at(s->written.node),
                         "in a value Kubernetes replaces only $(NAME)");
    }
}

/* Reports a variable that copies a label which the pods lack, if a label of theirs has nearly that
 * name: the variable is empty. */
void check_env_label_missing(struct check *c, const struct kube_container *container)
{
    JOB_FOREACH_VARIABLE(v, &c->jobs, container)
    {
        const char *text = kube_text(v->source, "fieldRef.fieldPath"), *key = strchr(text, '\'');
        struct nearest near = nearest_to(
            key == NULL ? "" : arena_copy(&c->bundle.arena, key + 1, strcspn(key + 1, "'")));

        FOREACH(const struct kube_label, l, container->pods->labels, container->pods->label_count)
            nearest_try(&near, l->key);
        if (text_begins(text, "metadata.labels['") && near.found != NULL &&
            (near.distance == 1 || near.distance == 2))
            check_report(c, check_at_first(v->source, "fieldRef.fieldPath"),
                         "the pods have no label %s; did you mean %s?", near.name, near.found);
    }
}

/* The entries of a list by their names, if one of its values refers to any. */
static struct kube_index names_in(struct check *c, const struct yaml_node *env)
{
    struct kube_index names = {0};
    bool refers = false;

    for (size_t i = 0; i < yaml_length(env) && !refers; i++)
        refers = strstr(kube_text(env->items[i], "value"), "$(") != NULL;
    for (size_t i = 0; refers && i < env->count; i++)
        kube_index_add(&c->bundle.arena, &names, "", kube_text(env->items[i], "name"), i);
    return names;
}

static void look_at_order(struct check *c, const struct yaml_node *env)
{
    struct kube_index names = names_in(c, env);

    for (size_t i = 0; i < yaml_length(env); i++) {
        const struct yaml_node *value = kube_get(env->items[i], "value");
        const char *text = yaml_text(value);

        for (const char *p = text == NULL ? NULL : strstr(text, "$("); p != NULL;
             p = strstr(p + 2, "$(")) {
            size_t len = strcspn(p + 2, ")");
            struct kube_hits hits = kube_index_find_part(&names, "", p + 2, len);

            if ((p == text || p[-1] != '$') && hits.count > 0 && hits.list[0] >= i &&
                hits.list[hits.count - 1] > i)
                check_report(
                    c, (struct check_position){value, (size_t)(p - text)},
                    "$(%.*s) is set further down in this list, so the reference stays as it is",
                    (int)len, p + 2);
        }
    }
}

void check_env_order(struct check *c, const struct kube_container *container)
{
    look_at_order(c, kube_get(container->node, "env"));
    look_at_order(c, kube_get(container->over, "env"));
}

/* --- Types. --- */

static void look_at_type(struct check *c, const struct yaml_node *value, const char *what,
                         const char *name)
{
    enum yaml_type type = yaml_type(value);

    if (value->kind == YAML_SCALAR && type != YAML_STRING && type != YAML_NULL)
        check_report(c, check_at(value), "%s %s: %s is %s, but Kubernetes expects a string", what,
                     name, value->text, type == YAML_BOOL ? "a boolean" : "a number");
}

static void look_at_map(struct check *c, const struct yaml_node *map, const char *what)
{
    YAML_FOREACH_PAIR(entry, map)
        look_at_type(c, entry->value, what, entry->key->text);
}

void check_object_value_not_string(struct check *c, const struct kube_object *o)
{
    look_at_map(c, kube_get(o->node, "metadata.annotations"), "annotation");
    look_at_map(c, kube_get(o->node, "metadata.labels"), "label");
    if (o->type == KUBE_CONFIG_MAP)
        look_at_map(c, kube_get(o->node, "data"), "key");
}

void check_pods_value_not_string(struct check *c, const struct kube_pods *p)
{
    look_at_map(c, kube_get(p->meta, "annotations"), "annotation");
    look_at_map(c, kube_get(p->meta, "labels"), "label");
}

void check_env_value_not_string(struct check *c, const struct kube_container *container)
{
    for (int over = 0; over < 2; over++) {
        YAML_FOREACH(entry, kube_get(over ? container->over : container->node, "env")) {
            if (kube_get(entry, "value") != NULL)
                look_at_type(c, kube_get(entry, "value"), "variable", kube_text(entry, "name"));
        }
    }
    FOREACH_WORD(key, "command", "args") {
        YAML_FOREACH(word, kube_field(container, key))
            look_at_type(c, word, "list", key);
    }
}
