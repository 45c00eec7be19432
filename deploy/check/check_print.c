/* Prints findings as text, JSON, SARIF or GitHub's annotations, and the rules. */
#include "deploy/check/check_verb.h"

#include "deploy/template/template.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const severity_names[] = {
    [CHECK_NOTE] = "note", [CHECK_WARNING] = "warning", [CHECK_ERROR] = "error"};

/* --- Text. --- */

static void print_reasons(FILE *out, const struct check_rule *rule)
{
    text_wrap(out, "    why:", 12, rule->why);
    text_wrap(out, "    remedy:", 12, rule->remedy);
}

void check_print_text(FILE *out, struct check *c)
{
    FOREACH(const struct check_finding, f, c->findings, c->count) {
        diag_put(out, f->file);
        fprintf(out, ":%u:%u: %s: ", f->mark.line, f->mark.column,
                severity_names[f->rule->severity]);
        diag_put(out, f->text);
        fprintf(out, " [%s]\n", f->rule->id);
        print_reasons(out, f->rule);
    }
}

/* --- What check did not look at. --- */

/* An object of another kind, in which neither pods nor templates of known kinds were found.
 * Kubernetes' own kinds, and kinds that end so, have none. */
static bool kind_is_unknown(const struct check *c, const struct kube_object *o)
{
    const char *api = kube_text(o->node, "apiVersion");
    bool known = strchr(api, '/') == NULL || strstr(api, ".k8s.io/") != NULL ||
                 text_begins(api, "policy/", "autoscaling/");
    bool has_template =
        o->index + 1 < c->bundle.count && c->bundle.objects[o->index + 1]->wrapper == o;

    return o->type == KUBE_OTHER && o->pods_count == 0 && !has_template && !known &&
           !ANY(FOREACH_WORD(end, "Certificate", "Domain", "Flavor", "Group", "Kustomization",
                             "Monitor", "Queue"),
                text_ends_with(o->kind, end));
}

#define NAMED_MAX  4
#define LENGTH_MAX 60

/* What was not looked at, for one line: how many, and the names of the first of them. */
struct unread {
    const char *what, *many;
    struct buf names;
    const char *last;
    size_t count;
};

static void unread_add(struct unread *u, const struct kube_object *o, const char *text)
{
    size_t len = strcspn(text, "\n");

    if (u->count++ == NAMED_MAX)
        buf_print(&u->names, ", ...");
    if (u->count > NAMED_MAX || (u->last != NULL && strcmp(u->last, text) == 0))
        return;
    buf_print(&u->names, "%s", u->count == 1 ? "" : ", ");
    if (o != NULL)
        buf_print(&u->names, "%s %s: ", o->kind, o->name);
    buf_print(&u->names, "%.*s", (int)(len > LENGTH_MAX ? LENGTH_MAX : len), text);
    u->last = text;
}

size_t check_print_unread(FILE *out, const struct check *c)
{
    struct arena *a = (struct arena *)&c->bundle.arena;
    struct unread parts[] = {{.what = "launch", .many = "launches", .names.arena = a},
                             {.what = "container", .many = "containers", .names.arena = a},
                             {.what = "object", .many = "objects", .names.arena = a}};
    size_t count = 0;

    for (size_t i = 0; i < c->jobs.count; i++) {
        if (job_unread(c->jobs.runs[i]) != NULL)
            unread_add(&parts[0], job_run_object(c->jobs.runs[i]), job_unread(c->jobs.runs[i]));
    }
    FOREACH(const struct job_closed, one, c->jobs.closed, c->jobs.closed_count)
        unread_add(&parts[1], one->container->pods->object,
                   one->program == NULL ? "the image decides" : one->program);
    KUBE_FOREACH(o, &c->bundle) {
        if (kind_is_unknown(c, o))
            unread_add(&parts[2], NULL, o->kind);
    }
    FOREACH(const struct unread, u, parts, 3) {
        if (out != NULL && u->count > 0) {
            fprintf(out, "%s%zu %s (", count == 0 ? "rdzv-manifest: not looked at: " : "; ",
                    u->count, u->count == 1 ? u->what : u->many);
            diag_put(out, u->names.text);
            fputc(')', out);
        }
        count += u->count;
    }
    if (out != NULL && count > 0)
        fputc('\n', out);
    return count;
}

/* The first placeholder of a text. */
static void put_placeholder(FILE *out, const char *text)
{
    const char *braces = strstr(text, "{{"), *dollar = strchr(text, '$');
    const char *start = braces != NULL ? braces : dollar != NULL ? dollar : text;
    size_t len = braces != NULL                 ? strcspn(start, "}") + 2
                 : strncmp(start, "${", 2) == 0 ? strcspn(start, "}") + 1
                                                : 1 + strcspn(start + 1, " ./:-\"'$\n");

    fprintf(out, "%.*s", (int)(len > LENGTH_MAX ? LENGTH_MAX : len), start);
}

static void print_looked(FILE *out, const struct check *c)
{
    /* What rdzvd can do for the first launcher that is no torchrun. */
    const struct job_closed *first =
        FIND(one, FOREACH(const struct job_closed, one, c->jobs.closed, c->jobs.closed_count),
             one->remedy != NULL);

    check_print_unread(out, c);
    if (first != NULL)
        fprintf(out, "rdzv-manifest: %s: %s\n", first->program, first->remedy);
    for (size_t i = 0; i < c->file_count; i++) {
        const struct yaml_node *n = kube_find_placeholder(&c->files[i]);

        if (n == NULL)
            continue;
        diag_put(out, c->files[i].name);
        fprintf(out, ":%u:%u: note: a template (", n->start.line, n->start.column);
        put_placeholder(out, n->text);
        fprintf(out, "): its placeholders count as unknown; %s first to have them judged\n",
                strstr(n->text, "{{") != NULL ? "render it" : "run envsubst");
    }
}

static void count_findings(const struct check *c, size_t counts[3])
{
    counts[CHECK_NOTE] = counts[CHECK_WARNING] = counts[CHECK_ERROR] = 0;
    for (size_t i = 0; i < c->count; i++)
        counts[c->findings[i].rule->severity]++;
}

void check_print_sum(FILE *out, const struct check *c)
{
    size_t counts[3];

    count_findings(c, counts);
    fprintf(out, "rdzv-manifest: %zu error%s, %zu warning%s, %zu note%s in %zu object%s",
            counts[CHECK_ERROR], counts[CHECK_ERROR] == 1 ? "" : "s", counts[CHECK_WARNING],
            counts[CHECK_WARNING] == 1 ? "" : "s", counts[CHECK_NOTE],
            counts[CHECK_NOTE] == 1 ? "" : "s", c->bundle.count, c->bundle.count == 1 ? "" : "s");
    if (c->bundle.made > 0)
        fprintf(out, ", without %zu that controllers made of them", c->bundle.made);
    fputc('\n', out);
    print_looked(out, c);
}

void check_print_rule(FILE *out, const struct check_rule *rule)
{
    fprintf(out, "%s (%s): %s\n", rule->id, severity_names[rule->severity], rule->title);
    print_reasons(out, rule);
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

void check_print_github(FILE *out, struct check *c)
{
    FOREACH(const struct check_finding, f, c->findings, c->count) {
        fprintf(out, "::%s file=",
                f->rule->severity == CHECK_NOTE ? "notice" : severity_names[f->rule->severity]);
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

static struct yaml_node *put_finding(struct arena *a, struct yaml_node *list,
                                     const struct check_finding *f)
{
    struct yaml_node *item = yaml_put_new(a, list, NULL, YAML_MAPPING);

    YAML_PUT_TEXTS(a, item, {"rule", f->rule->id}, {"severity", severity_names[f->rule->severity]},
                   {"file", f->file});
    yaml_put_number(a, item, "line", f->mark.line);
    yaml_put_number(a, item, "column", f->mark.column);
    YAML_PUT_TEXTS(a, yaml_put_new(a, item, "object", YAML_MAPPING), {"kind", f->object->kind},
                   {"name", f->object->name}, {"namespace", f->object->namespace});
    YAML_PUT_TEXTS(a, item, {"message", f->text}, {"why", f->rule->why},
                   {"remedy", f->rule->remedy});
    return item;
}

void check_print_json(FILE *out, struct check *c)
{
    struct arena *a = &c->bundle.arena;
    struct yaml_node *root = yaml_new(a, YAML_MAPPING), *sum;
    struct yaml_node *list = yaml_put_new(a, root, "findings", YAML_SEQUENCE);
    size_t counts[3];

    count_findings(c, counts);
    for (size_t i = 0; i < c->count; i++)
        put_finding(a, list, &c->findings[i]);
    sum = yaml_put_new(a, root, "sum", YAML_MAPPING);
    yaml_put_number(a, sum, "errors", (long)counts[CHECK_ERROR]);
    yaml_put_number(a, sum, "warnings", (long)counts[CHECK_WARNING]);
    yaml_put_number(a, sum, "notes", (long)counts[CHECK_NOTE]);
    yaml_put_number(a, sum, "objects", (long)c->bundle.count);
    fprintf(out, "%s\n", yaml_write_json(a, root, "\t"));
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
static void put_uri(struct arena *a, struct yaml_node *object, const char *file)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    const char *path = strcmp(file, "<stdin>") == 0 ? "stdin" : below_here(a, file);
    char *uri = arena_alloc(a, strlen(path) * 3 + 8), *at = uri;
    bool absolute = *path == '/';

    if (absolute)
        at += sprintf(at, "file://");
    for (; *path != '\0'; path++)
        at += sprintf(at, strchr(plain, *path) != NULL ? "%c" : "%%%02X", (unsigned char)*path);
    yaml_put_text(a, object, "uri", uri);
    if (!absolute)
        yaml_put_text(a, object, "base", "%SRCROOT%");
}

void check_print_sarif(FILE *out, struct check *c)
{
    struct arena *a = &c->bundle.arena;
    struct diag d = {0};
    struct yaml_node *vars = yaml_new(a, YAML_MAPPING), *item;
    struct yaml_node *findings = yaml_put_new(a, vars, "findings", YAML_SEQUENCE);
    struct yaml_node *rules = yaml_put_new(a, vars, "rules", YAML_SEQUENCE);

    yaml_put_text(a, vars, "version", RDZV_VERSION);
    FOREACH(const struct check_rule, r, check_rules, check_rule_count) {
        item = yaml_put_new(a, rules, NULL, YAML_MAPPING);
        YAML_PUT_TEXTS(a, item, {"id", r->id}, {"severity", severity_names[r->severity]},
                       {"title", r->title}, {"why", r->why}, {"remedy", r->remedy});
    }
    FOREACH(const struct check_finding, f, c->findings, c->count) {
        item = put_finding(a, findings, f);
        yaml_put_number(a, item, "index", f->rule - check_rules);
        put_uri(a, item, f->file);
    }
    template_print_json(out, "report", "sarif", vars, &d);
    diag_end(&d);
}
