/* Prints findings as text, JSON, SARIF or GitHub's annotations, and the rules. */
#include "deploy/check/check_verb.h"

#include "deploy/kube/kube_view.h"
#include "deploy/yaml/diag.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const severity_names[] = {
    [CHECK_NOTE] = "note", [CHECK_WARNING] = "warning", [CHECK_ERROR] = "error"};

const char *check_severity_name(enum check_severity severity)
{
    return severity_names[severity];
}

/* --- Text. --- */

static void print_reasons(FILE *out, const struct check_rule *rule)
{
    text_wrap(out, "    why:", 12, rule->why);
    text_wrap(out, "    remedy:", 12, rule->remedy);
}

void check_print_text(FILE *out, const struct check *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct check_finding *f = &c->findings[i];

        diag_put(out, f->file);
        fprintf(out, ":%u:%u: %s: ", f->mark.line, f->mark.column,
                severity_names[f->rule->severity]);
        diag_put(out, f->text);
        fprintf(out, " [%s]\n", f->rule->id);
        print_reasons(out, f->rule);
    }
}

/* --- What check did not look at. --- */

#define KINDS_MAX 8

/* Kinds without pods, of which no rule needs to know. */
static const char *const kinds_without_pods[] = {"PersistentVolume",
                                                 "StorageClass",
                                                 "Secret",
                                                 "ServiceAccount",
                                                 "Role",
                                                 "RoleBinding",
                                                 "ClusterRole",
                                                 "ClusterRoleBinding",
                                                 "Certificate",
                                                 "ServiceMonitor",
                                                 "Ingress",
                                                 "Queue",
                                                 "PodDisruptionBudget",
                                                 "PriorityClass",
                                                 "ResourceQuota",
                                                 "LimitRange",
                                                 "PodGroup",
                                                 "LocalQueue",
                                                 "ClusterQueue",
                                                 "ResourceFlavor",
                                                 "Endpoints",
                                                 "EndpointSlice",
                                                 "WorkloadPriorityClass",
                                                 "CustomResourceDefinition",
                                                 "HorizontalPodAutoscaler",
                                                 NULL};

/* An object of another kind, in which neither pods nor templates of known kinds were found. */
static bool is_unknown(const struct check *c, const struct kube_object *o)
{
    bool has_template =
        o->index + 1 < c->bundle.count && c->bundle.objects[o->index + 1]->wrapper == o;

    return o->type == KUBE_OTHER && o->pods_count == 0 && !has_template &&
           !check_is_one_of(o->kind, kinds_without_pods);
}

static void print_unknown(FILE *out, const struct check *c)
{
    const char *kinds[KINDS_MAX];
    size_t count = 0, unknown = 0, k;

    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];

        if (!is_unknown(c, o))
            continue;
        unknown++;
        for (k = 0; k < count && strcmp(kinds[k], o->kind) != 0; k++)
            ;
        if (k == count && count < KINDS_MAX)
            kinds[count++] = o->kind;
    }
    if (unknown == 0)
        return;
    fprintf(out, "rdzv-manifest: looked at %zu object%s; %zu of unknown kinds: ", c->bundle.count,
            c->bundle.count == 1 ? "" : "s", unknown);
    for (k = 0; k < count; k++) {
        fputs(k == 0 ? "" : ", ", out);
        diag_put(out, *kinds[k] == '\0' ? "(no kind)" : kinds[k]);
    }
    fputs(count == KINDS_MAX ? ", ...\n" : "\n", out);
}

static void print_looked(FILE *out, const struct check *c)
{
    print_unknown(out, c);
    for (size_t i = 0; i < c->file_count; i++) {
        const struct yaml_node *n = kube_find_placeholder(&c->files[i]);

        if (n == NULL)
            continue;
        diag_put(out, c->files[i].name);
        fprintf(out, ":%u:%u: note: a template (", n->start.line, n->start.column);
        diag_put(out, n->text);
        fprintf(out, "): its placeholders count as unknown; %s first to have them judged\n",
                strstr(n->text, "{{") != NULL ? "render it" : "run envsubst");
    }
}

void check_print_sum(FILE *out, const struct check *c)
{
    size_t counts[3] = {0};

    for (size_t i = 0; i < c->count; i++)
        counts[c->findings[i].rule->severity]++;
    fprintf(out, "rdzv-manifest: %zu error%s, %zu warning%s, %zu note%s in %zu object%s",
            counts[CHECK_ERROR], counts[CHECK_ERROR] == 1 ? "" : "s", counts[CHECK_WARNING],
            counts[CHECK_WARNING] == 1 ? "" : "s", counts[CHECK_NOTE],
            counts[CHECK_NOTE] == 1 ? "" : "s", c->bundle.count, c->bundle.count == 1 ? "" : "s");
    if (c->made_count > 0)
        fprintf(out, ", without %zu that controllers made of them", c->made_count);
    fputc('\n', out);
    print_looked(out, c);
}

static void print_rule(FILE *out, const struct check_rule *rule)
{
    fprintf(out, "%s (%s): %s\n", rule->id, severity_names[rule->severity], rule->title);
    print_reasons(out, rule);
}

bool check_print_rule(FILE *out, const char *id)
{
    const struct check_rule *rule = check_rule_named(id);

    if (rule != NULL)
        print_rule(out, rule);
    return rule != NULL;
}

void check_print_rules(FILE *out)
{
    for (size_t i = 0; i < check_rule_count; i++)
        print_rule(out, &check_rules[i]);
}

/* --- Annotations of GitHub's workflows: commands in the log. --- */

/* What a command may not contain, escaped; in a property also what ends it. */
static void put_escaped(FILE *out, const char *text, bool property)
{
    for (; *text != '\0'; text++) {
        if (strchr("%\r\n", *text) != NULL || (property && strchr(":,", *text) != NULL))
            fprintf(out, "%%%02X", (unsigned char)*text);
        else
            fputc(*text, out);
    }
}

void check_print_github(FILE *out, const struct check *c)
{
    static const char *const commands[] = {
        [CHECK_NOTE] = "notice", [CHECK_WARNING] = "warning", [CHECK_ERROR] = "error"};

    for (size_t i = 0; i < c->count; i++) {
        const struct check_finding *f = &c->findings[i];

        fprintf(out, "::%s file=", commands[f->rule->severity]);
        put_escaped(out, f->file, true);
        fprintf(out, ",line=%u,col=%u,title=", f->mark.line, f->mark.column);
        put_escaped(out, f->rule->id, true);
        fputs("::", out);
        put_escaped(out, f->text, false);
        fputs(". Remedy: ", out);
        put_escaped(out, f->rule->remedy, false);
        fputc('\n', out);
    }
}

/* --- JSON. --- */

/* If memory runs out, the program aborts, here as elsewhere. cJSON then returns NULL, and adding
 * NULL fails. */
static cJSON *must(cJSON *item)
{
    if (item == NULL)
        abort();
    return item;
}

static void add_text(cJSON *object, const char *key, const char *text)
{
    must(cJSON_AddStringToObject(object, key, text));
}

static void add_number(cJSON *object, const char *key, double number)
{
    must(cJSON_AddNumberToObject(object, key, number));
}

static cJSON *add_json_object(cJSON *object, const char *key)
{
    return must(cJSON_AddObjectToObject(object, key));
}

static cJSON *add_array(cJSON *object, const char *key)
{
    return must(cJSON_AddArrayToObject(object, key));
}

static cJSON *append_object(cJSON *array)
{
    cJSON *object = must(cJSON_CreateObject());

    if (!cJSON_AddItemToArray(array, object))
        abort();
    return object;
}

static void print_json(FILE *out, cJSON *root)
{
    char *text = cJSON_Print(root);

    if (text == NULL)
        abort();
    fprintf(out, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
}

static void add_object_of(cJSON *item, const struct kube_object *o)
{
    cJSON *object = add_json_object(item, "object");

    add_text(object, "kind", o->kind);
    add_text(object, "name", o->name);
    add_text(object, "namespace", o->namespace);
}

void check_print_json(FILE *out, const struct check *c)
{
    cJSON *root = must(cJSON_CreateObject()), *list = add_array(root, "findings"), *sum;
    size_t counts[3] = {0};

    for (size_t i = 0; i < c->count; i++) {
        const struct check_finding *f = &c->findings[i];
        cJSON *item = append_object(list);

        counts[f->rule->severity]++;
        add_text(item, "rule", f->rule->id);
        add_text(item, "severity", severity_names[f->rule->severity]);
        add_text(item, "file", f->file);
        add_number(item, "line", f->mark.line);
        add_number(item, "column", f->mark.column);
        add_object_of(item, f->object);
        add_text(item, "message", f->text);
        add_text(item, "why", f->rule->why);
        add_text(item, "remedy", f->rule->remedy);
    }
    sum = add_json_object(root, "sum");
    add_number(sum, "errors", (double)counts[CHECK_ERROR]);
    add_number(sum, "warnings", (double)counts[CHECK_WARNING]);
    add_number(sum, "notes", (double)counts[CHECK_NOTE]);
    add_number(sum, "objects", (double)c->bundle.count);
    print_json(out, root);
}

/* --- SARIF 2.1.0. --- */

/* The path below the current folder, which code scanning takes for the root of the repository. */
static const char *below_here(struct arena *a, const char *path)
{
    char *here = getcwd(NULL, 0);
    size_t len = here == NULL ? 0 : strlen(here);

    if (len > 0 && strncmp(path, here, len) == 0 && path[len] == '/')
        path += len + 1;
    free(here);
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    return arena_copy(a, path, strlen(path));
}

/* A path as a URI reference, with unusual characters escaped. */
static void add_uri(struct arena *a, cJSON *object, const char *file)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    const char *path = strcmp(file, "<stdin>") == 0 ? "stdin" : below_here(a, file);
    char *uri = arena_alloc(a, strlen(path) * 3 + 8), *at = uri;
    bool absolute = *path == '/';

    if (absolute)
        at += sprintf(at, "file://");
    for (; *path != '\0'; path++) {
        if (strchr(plain, *path) != NULL)
            *at++ = *path;
        else
            at += sprintf(at, "%%%02X", (unsigned char)*path);
    }
    *at = '\0';
    add_text(object, "uri", uri);
    if (!absolute)
        add_text(object, "uriBaseId", "%SRCROOT%");
}

static void add_rules(cJSON *driver)
{
    cJSON *rules = add_array(driver, "rules");

    for (size_t i = 0; i < check_rule_count; i++) {
        cJSON *rule = append_object(rules);

        add_text(rule, "id", check_rules[i].id);
        add_text(add_json_object(rule, "shortDescription"), "text", check_rules[i].title);
        add_text(add_json_object(rule, "fullDescription"), "text", check_rules[i].why);
        add_text(add_json_object(rule, "help"), "text", check_rules[i].remedy);
        add_text(add_json_object(rule, "defaultConfiguration"), "level",
                 severity_names[check_rules[i].severity]);
    }
}

static void add_result(struct check *c, cJSON *results, const struct check_finding *f)
{
    cJSON *result = append_object(results), *location, *physical, *region, *logical;

    add_text(result, "ruleId", f->rule->id);
    add_number(result, "ruleIndex", (double)(f->rule - check_rules));
    add_text(result, "level", severity_names[f->rule->severity]);
    add_text(add_json_object(result, "message"), "text",
             arena_text(&c->bundle.arena, "%s. Remedy: %s", f->text, f->rule->remedy));
    location = append_object(add_array(result, "locations"));
    physical = add_json_object(location, "physicalLocation");
    add_uri(&c->bundle.arena, add_json_object(physical, "artifactLocation"), f->file);
    region = add_json_object(physical, "region");
    add_number(region, "startLine", f->mark.line);
    add_number(region, "startColumn", f->mark.column);
    logical = append_object(add_array(location, "logicalLocations"));
    add_text(logical, "name", f->object->name);
    add_text(logical, "fullyQualifiedName",
             arena_text(&c->bundle.arena, "%s%s%s/%s", f->object->namespace,
                        *f->object->namespace == '\0' ? "" : "/", f->object->kind,
                        f->object->name));
    add_text(logical, "kind", "resource");
}

void check_print_sarif(FILE *out, struct check *c)
{
    cJSON *root = must(cJSON_CreateObject()), *run, *driver, *results;

    add_text(root, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    add_text(root, "version", "2.1.0");
    run = append_object(add_array(root, "runs"));
    driver = add_json_object(add_json_object(run, "tool"), "driver");
    add_text(driver, "name", "rdzv-manifest check");
    add_text(driver, "version", RDZV_VERSION);
    add_rules(driver);
    add_text(run, "columnKind", "unicodeCodePoints");
    results = add_array(run, "results");
    for (size_t i = 0; i < c->count; i++)
        add_result(c, results, &c->findings[i]);
    print_json(out, root);
}
