/* The verb check: arguments, the files of a bundle, each wanted rule, and the findings in order. */
#include "deploy/check/check.h"

#include "deploy/check/check_print.h"
#include "deploy/verbs.h"

#include <stdlib.h>
#include <string.h>

const char check_help[] =
    "rdzv-manifest check [OPTION...] FILE...\n"
    "\n"
    "Finds in Kubernetes manifests what is known to break the rendezvous of training jobs. All "
    "files\n"
    "together are one bundle, as they are applied; - is the standard input. Volcano, PyTorchJob,\n"
    "AppWrapper, JobSet, Job, TrainJob, Pods, StatefulSets and Services are understood; "
    "torchrun's\n"
    "options are found in commands, in scripts, in PET_* variables and in elasticPolicy.\n"
    "\n"
    "  -o text|json|sarif     text is the default; SARIF is of version 2.1.0\n"
    "  --rule RULE            this rule alone; repeatable\n"
    "  --ignore RULE          not this one; repeatable\n"
    "  --severity LEVEL       error, warning (and errors), note (all; the default)\n"
    "  --target WHAT[=VERSION]\n"
    "                         also what breaks there: kubernetes=1.28, training-operator=1.7,\n"
    "                         volcano=1.8, jobset=0.6, istio; repeatable\n"
    "  --rules                lists the rules; `rdzv-manifest explain RULE` says all about one\n"
    "\n"
    "Exit codes: 0 nothing found; 1 findings; 2 the input or the arguments are wrong.\n";

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SARIF };

struct check_arguments {
    enum format format;
    bool *wanted; /* by rule */
    bool chosen;  /* --rule was given */
    enum check_severity least;
    bool list;
    const char **files;
    size_t file_count;
};

/* --- Arguments. --- */

static bool complain(const char *format, const char *what, const char *near)
{
    fputs("rdzv-manifest: check: ", stderr);
    fprintf(stderr, "%s%s", format, what);
    if (near != NULL)
        fprintf(stderr, ": did you mean %s?", near);
    fputs("\n", stderr);
    return false;
}

static bool choose_rule(struct check_arguments *o, const char *id, bool want)
{
    const char **names = calloc(check_rule_count + 1, sizeof *names), *near;
    const struct check_rule *rule = check_rule_named(id);

    if (names == NULL)
        abort();
    for (size_t i = 0; i < check_rule_count; i++)
        names[i] = check_rules[i].id;
    near = nearest_name(id, names);
    free(names);
    if (rule == NULL)
        return complain("there is no rule ", id, near == NULL ? "--rules" : near);
    if (want && !o->chosen) {
        memset(o->wanted, 0, check_rule_count * sizeof *o->wanted);
        o->chosen = true;
    }
    o->wanted[rule - check_rules] = want;
    return true;
}

static bool choose_format(struct check_arguments *o, const char *name)
{
    static const char *const names[] = {"text", "json", "sarif", NULL};

    for (size_t i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], name) == 0) {
            o->format = (enum format)i;
            return true;
        }
    }
    return complain("-o takes text, json or sarif, not ", name, nearest_name(name, names));
}

static bool choose_severity(struct check_arguments *o, const char *name)
{
    for (int i = CHECK_NOTE; i <= CHECK_ERROR; i++) {
        if (strcmp(check_severity_name((enum check_severity)i), name) == 0) {
            o->least = (enum check_severity)i;
            return true;
        }
    }
    return complain("--severity takes error, warning or note, not ", name, NULL);
}

static const char *const target_names[] = {
    "kubernetes", "training-operator", "volcano", "jobset", "istio", NULL};

/* `volcano=1.8`, `v1.8.2`; or the name alone. */
static bool choose_target(struct check *c, const char *text)
{
    size_t len = strcspn(text, "=");
    const char *version = text[len] == '=' ? text + len + 1 : "";
    char name[32], *end;

    snprintf(name, sizeof name, "%.*s", (int)len, text);
    for (size_t i = 0; target_names[i] != NULL; i++) {
        struct check_target *t = &c->targets[i];

        if (strcmp(target_names[i], name) != 0)
            continue;
        *t = (struct check_target){target_names[i], true, -1, 0};
        if (*version == '\0')
            return text[len] == '\0' || complain("--target: there is no version in ", text, NULL);
        version += *version == 'v';
        t->major = (int)strtol(version, &end, 10);
        if (end == version || *end != '.')
            return complain("--target: a version is like 1.8, not as in ", text, NULL);
        t->minor = (int)strtol(end + 1, NULL, 10);
        return true;
    }
    complain("--target: there is no ", name, nearest_name(name, target_names));
    fputs("rdzv-manifest: check: --target takes", stderr);
    for (size_t i = 0; target_names[i] != NULL; i++)
        fprintf(stderr, "%s %s", i == 0 ? "" : ",", target_names[i]);
    fputs("\n", stderr);
    return false;
}

/* The value of an option that is argv[*i], in the same word behind `=` or in the next one. */
static const char *option_value(int argc, char **argv, int *i, const char *name)
{
    size_t len = strlen(name);

    if (strncmp(argv[*i], name, len) != 0)
        return NULL;
    if (argv[*i][len] == '=')
        return argv[*i] + len + 1;
    if (argv[*i][len] != '\0')
        return NULL;
    if (*i + 1 < argc)
        return argv[++*i];
    complain("a value is missing behind ", name, NULL);
    return "";
}

static bool parse_option(struct check_arguments *o, struct check *c, int argc, char **argv, int *i)
{
    static const char *const names[] = {"--rule",  "--ignore", "--severity", "--target",
                                        "--rules", "--output", NULL};
    const char *value;

    if (strcmp(argv[*i], "--rules") == 0)
        return o->list = true;
    if ((value = option_value(argc, argv, i, "-o")) != NULL ||
        (value = option_value(argc, argv, i, "--output")) != NULL)
        return choose_format(o, value);
    if ((value = option_value(argc, argv, i, "--rule")) != NULL)
        return choose_rule(o, value, true);
    if ((value = option_value(argc, argv, i, "--ignore")) != NULL)
        return choose_rule(o, value, false);
    if ((value = option_value(argc, argv, i, "--severity")) != NULL)
        return choose_severity(o, value);
    if ((value = option_value(argc, argv, i, "--target")) != NULL)
        return choose_target(c, value);
    return complain("there is no option ", argv[*i], nearest_name(argv[*i], names));
}

static bool parse(struct check_arguments *o, struct check *c, int argc, char **argv)
{
    bool plain = false;

    memset(o->wanted, true, check_rule_count * sizeof *o->wanted);
    for (int i = 1; i < argc; i++) {
        if (!plain && strcmp(argv[i], "--") == 0)
            plain = true;
        else if (plain || argv[i][0] != '-' || argv[i][1] == '\0')
            o->files[o->file_count++] = argv[i];
        else if (!parse_option(o, c, argc, argv, &i))
            return false;
    }
    if (o->file_count == 0 && !o->list)
        return complain("no file is given: name manifests, or - for the standard input", "", NULL);
    return true;
}

/* --- The bundle. --- */

/* A document of something else would pass as one without faults. Empty ones are common between
 * `---` lines, but a file of nothing else is a pipe that broke, or the wrong file. */
static void refuse_non_objects(const struct yaml_file *f, struct diag *d)
{
    size_t seen = 0;

    for (size_t i = 0; i < f->count; i++) {
        const struct yaml_node *root = f->docs[i].root;
        const char *missing = NULL;

        if (root == NULL || (root->kind == YAML_SCALAR && yaml_is_null(root)))
            continue;
        seen++;
        if (root->kind != YAML_MAPPING)
            missing = "apiVersion and kind";
        else if (*kube_text(root, "apiVersion") == '\0')
            missing = *kube_text(root, "kind") == '\0' ? "apiVersion and kind" : "apiVersion";
        else if (*kube_text(root, "kind") == '\0')
            missing = "kind";
        if (missing != NULL)
            diag_error(d, f->name, root->start,
                       "this is no Kubernetes object, it has no %s: check takes manifests, as "
                       "kubectl apply does",
                       missing);
    }
    if (seen == 0)
        diag_error(d, f->name, (struct yaml_mark){0, 1, 1},
                   "no Kubernetes object in it: name a file of manifests, or pipe them to -");
}

static bool read_files(struct check *c, const struct check_arguments *o, struct diag *d)
{
    c->files = calloc(o->file_count + 1, sizeof *c->files);
    if (c->files == NULL)
        abort();
    for (size_t i = 0; i < o->file_count; i++) {
        if (!yaml_file_read(&c->files[c->file_count], o->files[i], YAML_SIZE_MAX, d))
            continue; /* the others' errors are worth knowing too */
        refuse_non_objects(&c->files[c->file_count++], d);
    }
    return d->errors == 0;
}

static void check_fini(struct check *c)
{
    for (size_t i = 0; i < c->file_count; i++)
        yaml_file_free(&c->files[i]);
    free(c->files);
    kube_free(&c->bundle);
}

static int check_and_print(struct check *c, const struct check_arguments *o)
{
    struct diag d = {0};

    if (!read_files(c, o, &d)) {
        diag_print(&d, stderr);
        diag_free(&d);
        return 2;
    }
    for (size_t i = 0; i < check_rule_count; i++)
        o->wanted[i] = o->wanted[i] && check_rules[i].severity >= o->least;
    if (!check_bundle(c, o->wanted)) {
        diag_error(&d, o->files[0], (struct yaml_mark){0},
                   "more than %d objects, all files together: check them in parts",
                   KUBE_OBJECTS_MAX);
        diag_print(&d, stderr);
        diag_free(&d);
        return 2;
    }
    diag_free(&d);
    if (o->format == FORMAT_JSON)
        check_print_json(stdout, c);
    else if (o->format == FORMAT_SARIF)
        check_print_sarif(stdout, c);
    else
        check_print_text(stdout, c);
    check_print_sum(stderr, c);
    return c->count > 0;
}

int verb_check(int argc, char **argv)
{
    struct check c = {0};
    struct check_arguments o = {.wanted = calloc(check_rule_count, sizeof *o.wanted),
                                .files = calloc((size_t)argc + 1, sizeof *o.files)};
    int code = 2;

    if (o.wanted == NULL || o.files == NULL)
        abort();
    if (parse(&o, &c, argc, argv)) {
        if (o.list) {
            check_print_rules(stdout);
            code = 0;
        } else {
            code = check_and_print(&c, &o);
        }
    }
    check_fini(&c);
    free(o.wanted);
    free((void *)o.files);
    return code;
}
