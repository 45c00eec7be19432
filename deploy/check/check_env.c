/* Rules about variables: which source wins, what replaces references, and in which order. */
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

/* A range whose maximum is the operator's number: this is how jobs of Trainer become elastic. */
static bool is_range_up_to(const struct job_run *r, const struct job_setting *weaker)
{
    return weaker->from == JOB_FROM_OPERATOR && job_is_elastic(r) && r->nodes_max > 0 &&
           strtol(weaker->value.text, NULL, 10) == r->nodes_max;
}

static const char *source_name(enum job_from from)
{
    return from == JOB_FROM_ENV        ? "the container's env"
           : from == JOB_FROM_OPERATOR ? "the operator"
                                       : "the script";
}

void check_option_env_conflict(struct check *c)
{
    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];

        for (int o = 0; o < TORCHRUN_OPTIONS; o++) {
            const struct job_setting *s = &r->settings[o], *weaker = s->weaker;

            if (weaker == NULL || s->from != JOB_FROM_FLAG || !s->value.known ||
                !weaker->value.known ||
                same_value((enum torchrun_option)o, s->value.text, weaker->value.text) ||
                (o == TORCHRUN_NNODES && is_range_up_to(r, weaker)))
                continue;
            check_report(
                c, job_run_object(r), check_at_setting(r, (enum torchrun_option)o),
                "--%s is %s here, but %s sets %s=%s", torchrun_option_name((enum torchrun_option)o),
                *s->value.text == '\0' ? "(empty)" : s->value.text, source_name(weaker->from),
                job_variable_name((enum torchrun_option)o), weaker->value.text);
        }
    }
}

/* --- Variables that an operator sets itself. --- */

/* The operator sets the same value as the user. */
static bool is_harmless(struct check *c, const struct kube_container *container,
                        const struct job_variable *v)
{
    const char *text = yaml_text(v->value);
    const struct job_variable *winner = job_variable(&c->jobs, container, v->name);
    struct job_view_runs runs = job_runs_in(&c->jobs, container->pods);

    if (winner != NULL && winner->made != NULL && text != NULL && strcmp(winner->made, text) == 0)
        return true;
    for (size_t i = 0; i < runs.count; i++) {
        const struct job_run *r = runs.list[i];

        for (int o = 0; o < TORCHRUN_OPTIONS; o++) {
            const struct job_setting *s = &r->settings[o];

            if (r->container == container && s->from == JOB_FROM_OPERATOR && text != NULL &&
                strcmp(job_variable_name((enum torchrun_option)o), v->name) == 0 &&
                strcmp(s->value.text, text) == 0)
                return true;
        }
    }
    return false;
}

void check_env_overwritten(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        for (size_t j = 0; j < p->count && p->object->type == KUBE_PYTORCHJOB; j++) {
            const struct kube_container *container = &p->containers[j];
            size_t count;
            const struct job_variable *list = job_variables(&c->jobs, container, &count);

            for (size_t k = 0; k < count && !container->init; k++) {
                const char *source = job_made_by(container, list[k].name);

                if (source != NULL && !is_harmless(c, container, &list[k]))
                    check_report(c, p->object, check_at_first(list[k].node, "name"),
                                 "%s has no effect: %s appends its own value", list[k].name,
                                 source);
            }
        }
    }
}

static bool is_reserved(const char *name)
{
    static const char *const names[] = {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK",
                                        "PET_MASTER_ADDR", "PET_MASTER_PORT"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
}

static void look_for_reserved(struct check *c, const struct kube_object *o,
                              const struct yaml_node *env)
{
    for (size_t i = 0; i < yaml_length(env); i++) {
        const char *name = kube_text(env->items[i], "name");

        if (is_reserved(name))
            check_report(c, o, check_at_first(env->items[i], "name"),
                         "Trainer's torch policy sets %s, and refuses it here", name);
    }
}

void check_env_reserved(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        if (c->bundle.objects[i]->type == KUBE_TRAINJOB)
            look_for_reserved(c, c->bundle.objects[i],
                              kube_get(c->bundle.objects[i]->spec, "trainer.env"));
    }
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];
        bool train = p->object->type == KUBE_TRAINJOB || p->object->type == KUBE_RUNTIME;

        for (size_t j = 0; j < p->count && train; j++) {
            if (strcmp(p->containers[j].name, "node") == 0)
                look_for_reserved(c, p->object, kube_get(p->containers[j].node, "env"));
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
            strspn(p + 2, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

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

static void look_at_words(struct check *c, const struct job_run *r)
{
    for (size_t i = 0; i < r->args->count; i++) {
        const struct arg_text *value = &r->args->flags[i].value;
        size_t at;

        if (value->text == NULL || value->shell)
            continue;
        if (has_shell_variable(job_run_object(r), value->text, &at))
            check_report(c, job_run_object(r),
                         (struct check_position){value->node, value->start + at},
                         "there is no shell here, so `%s` stays as it is", value->text + at);
        else if (has_unknown_variable(c, r->container, value->text, &at))
            check_report(
                c, job_run_object(r), (struct check_position){value->node, value->start + at},
                "the container has no such variable, so `%s` stays as it is", value->text + at);
    }
}

void check_env_not_expanded(struct check *c)
{
    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];

        if (r->args != NULL)
            look_at_words(c, r);
        for (int o = 0; o < TORCHRUN_OPTIONS; o++) {
            const struct job_setting *s =
                r->settings[o].from == JOB_FROM_ENV ? &r->settings[o] : r->settings[o].weaker;
            size_t at;

            if (s == NULL || s->from != JOB_FROM_ENV || yaml_text(s->node) == NULL)
                continue;
            if (has_shell_variable(job_run_object(r), s->node->text, &at))
                check_report(c, job_run_object(r), (struct check_position){s->node, at},
                             "in a value Kubernetes replaces only $(NAME), so `%s` stays as it is",
                             s->node->text + at);
            else if (has_unknown_variable(c, r->container, s->node->text, &at))
                check_report(c, job_run_object(r), (struct check_position){s->node, at},
                             "the container has no such variable, so `%s` stays as it is",
                             s->node->text + at);
        }
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

static void look_at_order(struct check *c, const struct kube_object *o, const struct yaml_node *env)
{
    struct kube_index names = names_in(c, env);

    for (size_t i = 0; i < yaml_length(env); i++) {
        const struct yaml_node *value = kube_get(env->items[i], "value");
        const char *text = yaml_text(value);

        for (const char *p = text == NULL ? NULL : strstr(text, "$("); p != NULL;
             p = strstr(p + 2, "$(")) {
            size_t len = strcspn(p + 2, ")");
            struct kube_hits hits = kube_index_find(&names, "", p + 2, len);

            if ((p == text || p[-1] != '$') && hits.count > 0 && hits.list[0] >= i &&
                hits.list[hits.count - 1] > i)
                check_report(
                    c, o, (struct check_position){value, (size_t)(p - text)},
                    "$(%.*s) is set further down in this list, so the reference stays as it is",
                    (int)len, p + 2);
        }
    }
}

void check_env_order(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        for (size_t j = 0; j < p->count; j++) {
            look_at_order(c, p->object, kube_get(p->containers[j].node, "env"));
            look_at_order(c, p->object, kube_get(p->containers[j].over, "env"));
        }
    }
}

/* --- Types. --- */

static const char *yaml_type_words(enum yaml_type type)
{
    return type == YAML_BOOL ? "a boolean" : type == YAML_NULL ? "null" : "a number";
}

static void look_at_type(struct check *c, const struct kube_object *o,
                         const struct yaml_node *value, const char *what, const char *name)
{
    enum yaml_type type = yaml_type(value);

    if (value->kind == YAML_SCALAR && type != YAML_STRING && type != YAML_NULL)
        check_report(c, o, check_at(value), "%s %s: %s is %s, but Kubernetes expects a string",
                     what, name, value->text, yaml_type_words(type));
}

static void look_at_map(struct check *c, const struct kube_object *o, const struct yaml_node *map,
                        const char *what)
{
    for (size_t i = 0; map != NULL && map->kind == YAML_MAPPING && i < map->count; i++)
        look_at_type(c, o, map->pairs[i].value, what, map->pairs[i].key->text);
}

static void look_at_env_types(struct check *c, const struct kube_object *o,
                              const struct yaml_node *env)
{
    for (size_t i = 0; i < yaml_length(env); i++) {
        const struct yaml_node *value = kube_get(env->items[i], "value");

        if (value != NULL)
            look_at_type(c, o, value, "variable", kube_text(env->items[i], "name"));
    }
}

void check_env_value_not_string(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];

        look_at_map(c, o, kube_get(o->node, "metadata.annotations"), "annotation");
        look_at_map(c, o, kube_get(o->node, "metadata.labels"), "label");
        if (o->type == KUBE_CONFIG_MAP)
            look_at_map(c, o, kube_get(o->node, "data"), "key");
    }
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        look_at_map(c, p->object, kube_get(p->meta, "annotations"), "annotation");
        look_at_map(c, p->object, kube_get(p->meta, "labels"), "label");
        for (size_t j = 0; j < p->count; j++) {
            look_at_env_types(c, p->object, kube_get(p->containers[j].node, "env"));
            look_at_env_types(c, p->object, kube_get(p->containers[j].over, "env"));
        }
    }
}
