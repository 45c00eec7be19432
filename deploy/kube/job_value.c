/* Lists the variables of a container, and replaces references as Kubernetes and then a shell do.
 * References to undefined variables stay unchanged. */
#include "deploy/kube/job_parts.h"

#include <string.h>

/* Limits of nesting, of bytes and of steps: a text beyond them counts as unknown. */
#define DEPTH_MAX  5
#define RESULT_MAX 4096
#define STEPS_MAX  1000

/* --- The variables of a container. --- */

static void add_variable(struct job_view *v, struct job_variable variable)
{
    arena_push(&v->bundle->arena, v->variables, v->variable_count, v->variable_cap) = variable;
}

/* The value of a ConfigMap to which `valueFrom` refers, or NULL. */
static const struct yaml_node *value_in_map(const struct job_view *v,
                                            const struct kube_container *c,
                                            const struct yaml_node *source)
{
    const struct yaml_node *ref = kube_get(source, "configMapKeyRef"), *value = NULL;

    KUBE_FOREACH_HIT(hit, kube_index_find(&v->bundle->named, "ConfigMap", kube_text(ref, "name"))) {
        const struct kube_object *map = v->bundle->objects[*hit.list];

        if (kube_reads_map(c->pods->object, map) && value == NULL)
            value = yaml_get(kube_get(map->node, "data"), kube_text(ref, "key"));
    }
    return value;
}

static void add_env(struct job_view *v, const struct kube_container *c, const struct yaml_node *env)
{
    YAML_FOREACH(entry, env) {
        const struct yaml_node *value = kube_get(entry, "value");
        const char *name = kube_text(entry, "name");

        if (value == NULL)
            value = value_in_map(v, c, kube_get(entry, "valueFrom"));
        if (*name != '\0')
            add_variable(v, (struct job_variable){
                                .name = name,
                                .node = entry,
                                .value = yaml_text(value) != NULL ? value : NULL,
                                .source = kube_get(entry, "valueFrom"),
                            });
    }
}

static void add_config_map(struct job_view *v, const struct kube_object *map, const char *prefix)
{
    YAML_FOREACH_PAIR(entry, kube_get(map->node, "data")) {
        const char *name = arena_text(&v->bundle->arena, "%s%s", prefix, entry->key->text);

        if (entry->value->kind == YAML_SCALAR)
            add_variable(v, (struct job_variable){
                                .name = name, .node = entry->value, .value = entry->value});
    }
}

static void add_env_from(struct job_view *v, const struct kube_container *c)
{
    YAML_FOREACH(source, kube_get(c->node, "envFrom")) {
        const char *name = kube_text(source, "configMapRef.name");

        KUBE_FOREACH_HIT(hit, kube_index_find(&v->bundle->named, "ConfigMap", name)) {
            const struct kube_object *o = v->bundle->objects[*hit.list];

            if (*name != '\0' && kube_reads_map(c->pods->object, o))
                add_config_map(v, o, kube_text(source, "prefix"));
        }
    }
}

/* So many variables are found sooner without an index. */
#define FEW 16

const struct job_variable *job_variables(struct job_view *v, const struct kube_container *c)
{
    if (v->variables_of != c) {
        v->variables_of = c;
        v->variables = NULL;
        v->variable_count = v->variable_cap = 0;
        v->variable_names = (struct kube_index){0};
        add_env_from(v, c);
        add_env(v, c, kube_get(c->node, "env"));
        add_env(v, c, kube_get(c->over, "env"));
        for (size_t i = 0; v->variable_count > FEW && i < v->variable_count; i++)
            kube_index_add(&v->bundle->arena, &v->variable_names, "", v->variables[i].name, i);
    }
    return v->variables;
}

const struct job_variable *job_variable(struct job_view *v, const struct kube_container *c,
                                        const char *name)
{
    const struct job_variable *list = job_variables(v, c), *found = job_made_variable(v, c, name);

    if (found != NULL)
        return found;
    if (v->variable_count > FEW) {
        struct kube_hits hits = kube_index_find(&v->variable_names, "", name);

        return hits.count == 0 ? NULL : &list[hits.list[hits.count - 1]];
    }
    FOREACH(const struct job_variable, one, list, v->variable_count)
        found = strcmp(one->name, name) == 0 ? one : found;
    return found;
}

/* --- Replacing. --- */

struct expansion {
    const struct job_scope *scope; /* `assigned` is empty if there is no script */
    struct job_value value;
    char *text;
    size_t len;
    int depth, steps;
};

static void expand(struct expansion *e, const char *text, size_t len, bool shell);

static void expand_put(struct expansion *e, const char *text, size_t len)
{
    if (len > RESULT_MAX - e->len) {
        len = RESULT_MAX - e->len;
        e->value.known = false;
    }
    memcpy(e->text + e->len, text, len);
    e->len += len;
}

static void expand_put_unknown(struct expansion *e, const char *text, size_t len)
{
    e->value.known = false;
    expand_put(e, text, len);
}

/* A label of the pod that the platform sets, or its namespace: these are known without a
 * cluster. */
static const char *field_value(const struct kube_container *c, const char *path)
{
    const char *key = strstr(path, "['");

    if (strcmp(path, "metadata.namespace") == 0 && *c->pods->object->namespace != '\0')
        return c->pods->object->namespace;
    if (strncmp(path, "metadata.labels", 15) != 0 || key == NULL)
        return NULL;
    FOREACH(const struct kube_label, label, c->pods->labels, c->pods->label_count) {
        size_t len = strlen(label->key);

        if (strncmp(key + 2, label->key, len) == 0 && strcmp(key + 2 + len, "']") == 0)
            return label->value;
    }
    return NULL;
}

/* The value of the variable, or the reference as it is written. */
static void put_variable(struct expansion *e, const struct job_variable *variable,
                         const char *written, size_t len)
{
    const char *path = kube_text(variable->source, "fieldRef.fieldPath"), *known;

    if (variable->is_made && variable->made == NULL) {
        expand_put_unknown(e, written, len);
    } else if (variable->is_made) {
        expand_put(e, variable->made, strlen(variable->made));
    } else if (variable->value != NULL) {
        expand(e, variable->value->text, variable->value->len, false);
    } else if (*path != '\0') {
        if (e->value.field_count < JOB_FIELDS_MAX)
            e->value.fields[e->value.field_count++] = path;
        known = field_value(e->scope->container, path);
        if (known == NULL && strcmp(path, "metadata.namespace") == 0)
            e->value.lacks_namespace = true; /* the manifest names none: the reference stays */
        else if (known == NULL)
            e->value.known = false;
        expand_put(e, known == NULL ? written : known, known == NULL ? len : strlen(known));
    } else if (variable->source == NULL) {
        /* neither value nor valueFrom: empty */
    } else {
        expand_put_unknown(e, written, len);
    }
}

static size_t name_length(const char *text, size_t len)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

    return *text >= '0' && *text <= '9' ? 0 : n < len ? n : len;
}

const struct job_assignment *job_scope_assigned(const struct job_scope *s, const char *name,
                                                size_t len)
{
    struct kube_hits hits = kube_index_find_part(&s->names, "", name, len);

    return hits.count == 0 ? NULL : &s->assigned[hits.list[hits.count - 1]];
}

/* `$NAME`, `${NAME}`, `$(NAME)`, `${NAME:-OTHERWISE}`, `${NAME[@]}`. */
struct reference {
    const char *name; /* name_len 0: it is no plain variable */
    size_t name_len;
    const char *otherwise; /* NULL: it says nothing for a variable that is not set */
    size_t otherwise_len;
};

/* What stands behind the name in braces. */
static void measure_braces(struct reference *out, const char *end)
{
    const char *rest = out->name + out->name_len;
    size_t len = (size_t)(end - rest), colon = *rest == ':';

    if (len == 0 || (len == 3 && (memcmp(rest, "[@]", 3) == 0 || memcmp(rest, "[*]", 3) == 0)))
        return;
    if (len > colon && (rest[colon] == '-' || rest[colon] == '=')) {
        out->otherwise = rest + colon + 1;
        out->otherwise_len = len - colon - 1;
    } else {
        out->name_len = 0;
    }
}

/* At a $: the length of the reference. */
static size_t measure(const char *text, size_t len, struct reference *out)
{
    char open = len > 1 ? text[1] : '\0', shut = open == '{' ? '}' : ')';
    size_t end = 2;

    *out = (struct reference){.name = text + 1};
    if (open != '{' && open != '(') {
        bool special = open == '@' || open == '*' || (open >= '1' && open <= '9');

        out->name_len = special ? 1 : name_length(out->name, len - 1);
        return 1 + (out->name_len > 0 ? out->name_len : (size_t)(len > 1));
    }
    for (int depth = 1; end < len; end++) {
        depth += (text[end] == open) - (text[end] == shut);
        if (depth == 0)
            break;
    }
    if (end == len)
        return len;
    out->name = text + 2;
    out->name_len = name_length(out->name, end - 2);
    if (open == '{' && end == 3 && (*out->name == '@' || (*out->name >= '1' && *out->name <= '9')))
        out->name_len = 1;
    if (open == '(' && out->name_len != end - 2)
        out->name_len = 0;
    else if (open == '{' && out->name_len > 0)
        measure_braces(out, text + end);
    return end + 1;
}

/* One reference of a text. Kubernetes replaces $(NAME) if the container has NAME; a shell replaces
 * the rest. */
static size_t expand_one(struct expansion *e, const char *text, size_t len, bool shell)
{
    struct reference ref;
    size_t size = measure(text, len, &ref);
    bool by_kubernetes = len > 1 && text[1] == '(';
    const struct job_variable *variable = NULL;
    const struct job_assignment *a = NULL;

    if (ref.name_len > 0 && (by_kubernetes || shell)) {
        a = by_kubernetes ? NULL : job_scope_assigned(e->scope, ref.name, ref.name_len);
        if (a == NULL)
            variable =
                job_variable(e->scope->view, e->scope->container,
                             arena_copy(&e->scope->view->bundle->arena, ref.name, ref.name_len));
    }
    if (!by_kubernetes && !shell && (ref.name_len > 0 || (len > 1 && text[1] == '{')) &&
        e->scope->container->pods->object->templated)
        expand_put_unknown(e, text, size); /* a placeholder: what comes in its place is not known */
    else if (a != NULL)
        expand(e, a->value.text, strlen(a->value.text), a->value.shell && a->value.expands);
    else if (variable != NULL)
        put_variable(e, variable, text, size);
    else if (shell && ref.otherwise != NULL &&
             kube_get(e->scope->container->node, "envFrom") == NULL)
        expand(e, ref.otherwise, ref.otherwise_len, true);
    else if (shell)
        expand_put_unknown(e, text, size);
    else
        expand_put(e, text, size);
    return size;
}

/* The length of {{ ... }} at the start of the text, which Helm or another program fills in; 0:
 * there is none. */
static size_t braces_length(const char *text, size_t len)
{
    const char *end = len < 4 || text[1] != '{' ? NULL : memmem(text + 2, len - 2, "}}", 2);

    return end == NULL ? 0 : (size_t)(end - text) + 2;
}

/* The bytes in which nothing is replaced. */
static size_t plain_length(const char *text, size_t len, bool shell)
{
    size_t plain = 0;

    while (plain < len && text[plain] != '$' && (!shell || text[plain] != '`') &&
           (text[plain] != '{' || braces_length(text + plain, len - plain) == 0))
        plain++;
    return plain;
}

static void expand(struct expansion *e, const char *text, size_t len, bool shell)
{
    size_t i = 0;

    if (e->depth >= DEPTH_MAX || e->steps++ > STEPS_MAX) {
        expand_put_unknown(e, text, len);
        return;
    }
    e->depth++;
    while (i < len && e->len < RESULT_MAX && e->steps < STEPS_MAX) {
        size_t plain = plain_length(text + i, len - i, shell);

        expand_put(e, text + i, plain);
        i += plain;
        if (i == len)
            break;
        if (text[i] == '`') {
            expand_put_unknown(e, text + i, len - i);
            break;
        }
        if (text[i] == '{') {
            size_t size = braces_length(text + i, len - i);

            expand_put_unknown(e, text + i, size);
            i += size;
            continue;
        }
        if (!shell && i + 1 < len && text[i + 1] == '$') { /* $$(NAME) is $(NAME) */
            expand_put(e, "$", 1);
            i += 2;
            continue;
        }
        i += expand_one(e, text + i, len - i, shell);
    }
    e->value.known = e->value.known && i >= len;
    e->depth--;
}

static struct job_value expansion_result(struct expansion *e)
{
    e->value.text = arena_copy(&e->scope->view->bundle->arena, e->text, e->len);
    e->value.lacks_namespace = e->value.lacks_namespace && e->value.known;
    e->value.known = e->value.known && !e->value.lacks_namespace;
    return e->value;
}

struct job_value job_scope_value(const struct job_scope *s, const struct arg_word *text)
{
    char buffer[RESULT_MAX + 1];
    struct expansion e = {.scope = s, .text = buffer, .value = {.known = true}};

    expand(&e, text->text, strlen(text->text), text->shell && text->expands);
    return expansion_result(&e);
}

struct job_value job_variable_value(struct job_view *v, const struct kube_container *c,
                                    const struct job_variable *variable)
{
    struct job_scope scope = {.view = v, .container = c};
    char buffer[RESULT_MAX + 1];
    struct expansion e = {.scope = &scope, .text = buffer, .value = {.known = true}};

    put_variable(&e, variable, "", 0);
    return expansion_result(&e);
}

/* --- Scripts. --- */

void job_scope_assign(struct job_scope *s, const struct job_assignment *assignment)
{
    kube_index_add(&s->view->bundle->arena, &s->names, "", assignment->name, s->count);
    arena_push(&s->view->bundle->arena, s->assigned, s->count, s->cap) = *assignment;
}

bool job_scope_find(const struct job_scope *s, const struct arg_word *word,
                    const struct job_assignment **found, struct arg_word *out)
{
    struct reference ref;
    const struct job_variable *variable;

    *found = NULL;
    out->text = NULL;
    if (!word->expands || word->text[0] != '$' ||
        measure(word->text, word->len, &ref) != word->len || ref.name_len == 0 ||
        ref.otherwise != NULL || word->text[1] == '(')
        return false;
    *found = job_scope_assigned(s, ref.name, ref.name_len);
    if (*found != NULL)
        return true;
    variable = job_variable(s->view, s->container,
                            arena_copy(&s->view->bundle->arena, ref.name, ref.name_len));
    if (variable == NULL || variable->value == NULL)
        return false;
    *out = arg_word_of(variable->value);
    return true;
}
