/* The verb check: reads arguments and files, and prints what check_bundle() finds. The file of
 * options and the command line have the same words, and go through the same functions; the command
 * line comes second, and wins. */
#include "deploy/check/check.h"

#include "deploy/check/check_verb.h"
#include "deploy/verbs.h"

#include <string.h>
#include <unistd.h>

/* Where a word is written; NULL: on the command line. */
struct reading {
    struct check_options *options;
    struct check *check;
    struct diag *diag;
    const struct yaml_node *at;
};

#define fail(r, ...) yaml_error((r)->diag, (r)->at, __VA_ARGS__)

/* --- Words. --- */

static void add_text(struct reading *r, int letter, const char *text)
{
    struct check_texts *to = letter == 'x' ? &r->options->excluded : &r->options->paths;

    arena_push(&r->options->arena, to->list, to->count, to->cap) = text;
}

static void choose_rule(struct reading *r, int letter, const char *id)
{
    struct check_options *o = r->options;
    bool want = letter == 'r';
    const struct check_rule *rule = check_rule_named(id);
    const char *near = check_rule_near(id);

    if (rule == NULL && near != NULL)
        fail(r, "there is no rule %s: did you mean %s?", id, near);
    else if (rule == NULL)
        fail(r, "there is no rule %s: see `rdzv-manifest list rules`", id);
    if (rule == NULL)
        return;
    if (want && !o->chosen) {
        memset(o->wanted, 0, check_rule_count * sizeof *o->wanted);
        o->chosen = true;
    }
    o->wanted[rule - check_rules] = want;
}

/* The index of the word among `names`; -1, with an error: it is none of them. */
static int choose(struct reading *r, const char *what, const char *word, const char *const *names,
                  const char *instead)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], word) == 0)
            return i;
    }
    fail(r, "there is no %s %s: write %s", what, word, instead);
    return -1;
}

static void choose_format(struct reading *r, int, const char *name)
{
    static const char *const names[] = {"text", "json", "sarif", "github", NULL};
    static void (*const printers[])(FILE * out, struct check * c) = {
        check_print_text, check_print_json, check_print_sarif, check_print_github};
    int i = choose(r, "output", name, names, "text, json, sarif or github");

    if (i >= 0)
        r->options->print = printers[i];
}

static void choose_severity(struct reading *r, int, const char *name)
{
    static const char *const names[] = {
        [CHECK_NOTE] = "note", [CHECK_WARNING] = "warning", [CHECK_ERROR] = "error", NULL};
    int i = choose(r, "severity", name, names, "error, warning or note");

    if (i >= 0)
        r->options->least = (enum check_severity)i;
}

/* `volcano=1.8`, `v1.8.2`; or only the name. */
static void choose_target(struct reading *r, int, const char *text)
{
    static const char *const names[] = {
        "kubernetes", "training-operator", "volcano", "jobset", "istio", NULL};
    const char *equals = strchr(text, '='), *version = equals == NULL ? NULL : equals + 1;
    char name[32];
    struct check_target target = {.given = true, .major = -1};
    int i;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    i = choose(r, "target", name, names, "kubernetes, training-operator, volcano, jobset or istio");
    if (i < 0)
        return;
    if (version != NULL &&
        sscanf(version + (*version == 'v'), "%5d.%5d", &target.major, &target.minor) != 2)
        fail(r, "--target %s: this is no version: write one like 1.8", text);
    else
        r->check->targets[i] = target;
}

/* The words of the file, and the letters of the command line. */
static const struct {
    const char *key;
    int letter;
    bool list;
    void (*take)(struct reading *r, int letter, const char *word);
} keys[] = {
    {"rules", 'r', true, choose_rule},     {"ignore", 'i', true, choose_rule},
    {"exclude", 'x', true, add_text},      {"targets", 't', true, choose_target},
    {"files", 0, true, add_text},          {"severity", 's', false, choose_severity},
    {"output", 'o', false, choose_format},
};

/* --- The file. --- */

static void read_pair(struct reading *r, const struct yaml_pair *pair)
{
    struct nearest n = nearest_to(pair->key->text);
    const struct yaml_node *value = pair->value;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        nearest_try(&n, keys[i].key);
        if (strcmp(keys[i].key, pair->key->text) != 0)
            continue;
        r->at = value;
        if (!keys[i].list && yaml_text(value) != NULL)
            keys[i].take(r, keys[i].letter, value->text);
        else if (!keys[i].list || value->kind != YAML_SEQUENCE)
            fail(r, "%s: a %s is expected: see deploy/README.md", keys[i].key,
                 keys[i].list ? "list" : "word");
        for (size_t j = 0; keys[i].list && j < yaml_length(value); j++) {
            r->at = value->items[j];
            if (yaml_text(r->at) != NULL)
                keys[i].take(r, keys[i].letter, r->at->text);
            else
                fail(r, "%s: a list of words is expected: see deploy/README.md", keys[i].key);
        }
        return;
    }
    r->at = pair->key;
    fail(r, "%s: there is no such key: %s%s%s", pair->key->text,
         n.found == NULL ? "write rules, ignore, exclude, targets, files, severity or output"
                         : "did you mean ",
         n.found == NULL ? "" : n.found, n.found == NULL ? "" : "?");
}

static void read_config(struct reading *r, const char *path)
{
    struct yaml_file *f = &r->options->config;
    const struct yaml_node *root;

    if (!yaml_file_read(f, path, YAML_USER_MAX, r->diag))
        return;
    yaml_refuse_twice(f, 0, f->len, r->diag);
    root = f->count == 0 ? NULL : f->docs[0].root;
    if (f->count > 1 || (root != NULL && root->kind != YAML_MAPPING)) {
        diag_error(r->diag, f->name, (struct yaml_mark){0, 1, 1},
                   "one document of `key: value` is expected: see deploy/README.md");
        return;
    }
    YAML_FOREACH_PAIR(pair, root)
        read_pair(r, pair);
    r->at = NULL;
}

/* --- The command line. --- */

/* The file that the arguments name; NULL: none. Whatever is wrong with them is said later. */
static const char *config_path(int argc, char **argv)
{
    const char *path = access(CHECK_CONFIG, F_OK) == 0 ? CHECK_CONFIG : NULL;
    struct diag ignored = {0};
    int option;

    optind = 0;
    while ((option = options_next(argc, argv, &check_options, &ignored)) >= 0) {
        if (option == 'c')
            path = optarg;
        else if (option == 'n')
            path = NULL;
    }
    diag_free(&ignored);
    return path;
}

static void read_command_line(struct reading *r, int argc, char **argv)
{
    int option;

    optind = 0;
    while ((option = options_next(argc, argv, &check_options, r->diag)) >= 0) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            if (keys[i].letter == option)
                keys[i].take(r, option, optarg);
        }
        r->options->show = r->options->show || option == 'S';
        r->options->strict = r->options->strict || option == 'T';
    }
    if (optind < argc)
        r->options->paths.count = 0; /* files of the command line, and not those of the config */
    for (int i = optind; i < argc; i++)
        add_text(r, 0, argv[i]);
}

/* Reads the arguments of the verb over the file that they name, or CHECK_CONFIG. Targets go into c.
 * Errors are in d. */
static void check_options_read(struct check_options *o, struct check *c, int argc, char **argv,
                               struct diag *d)
{
    struct reading r = {o, c, d, NULL};
    const char *path = config_path(argc, argv);

    o->print = check_print_text;
    o->wanted = arena_alloc(&o->arena, check_rule_count * sizeof *o->wanted);
    memset(o->wanted, true, check_rule_count * sizeof *o->wanted);
    if (path != NULL)
        read_config(&r, path);
    read_command_line(&r, argc, argv);
    if (o->paths.count == 0)
        options_error(d, "no file is given: name manifests, folders, or - for the standard input");
}

/* --- The verb. --- */

static void check_files(struct check *c, struct check_options *o, struct diag *d)
{
    size_t ignored;

    if (!check_input_read(o, c, d))
        return; /* errors in single files of a folder do not hide what the others have */
    for (size_t i = 0; i < check_rule_count; i++)
        o->wanted[i] = o->wanted[i] && !o->show && check_rules[i].severity >= o->least;
    if (!check_bundle(c, o->wanted)) {
        diag_error(d, o->paths.list[0], (struct yaml_mark){0},
                   "more than %d objects in all files together: check them in parts",
                   KUBE_OBJECTS_MAX);
        return;
    }
    if (o->show) {
        job_show(stdout, &c->jobs);
        return;
    }
    ignored = check_ignore(c, d);
    o->print(stdout, c);
    check_print_sum(stderr, c);
    if (ignored > 0)
        fprintf(stderr, "rdzv-manifest: %zu more left out by %s\n", ignored, CHECK_IGNORE);
    check_input_print(stderr, &o->skipped);
}

int run_check(int argc, char **argv)
{
    struct check c = {0};
    struct check_options o = {0};
    struct diag d = {0};
    int code;

    check_options_read(&o, &c, argc, argv, &d);
    if (d.errors == 0)
        check_files(&c, &o, &d);
    code = diag_end(&d);
    code = code == 0 ? c.count > 0 || (o.strict && check_print_unread(NULL, &c) > 0) : code;
    for (size_t i = 0; i < c.file_count; i++)
        yaml_file_free(&c.files[i]);
    kube_free(&c.bundle);
    yaml_file_free(&o.config);
    arena_free(&o.arena);
    return code;
}
