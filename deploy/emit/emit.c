/* The verb emit: reads arguments and user files, and prints the documents of a job and its
 * store. */
#include "deploy/emit/emit_job.h"
#include "deploy/verbs.h"
#include "deploy/yaml/options.h"
#include "deploy/yaml/text_edit.h"
#include "deploy/yaml/yaml_write.h"

#include <string.h>

struct emit_arguments {
    const char **files, **sets, **profiles;
    size_t file_count, set_count, profile_count;
    struct emit_options job;
    bool json;
    const char *compared; /* the file of --diff, or NULL */
    bool differs;         /* that file */
};

/* --output and --shape: each accepts few words. */
static void read_word(struct emit_arguments *o, int option, const char *word, struct diag *d)
{
    if (option == 'o' && text_is(word, "json", "yaml"))
        o->json = word[0] == 'j';
    else if (option == 'o')
        options_error(d, "there is no output %s: write yaml or json", word);
    else if (strcmp(word, "pods") == 0)
        o->job.platform = "pods";
    else
        options_error(d, "there is no shape %s: write pods", word);
}

static void read_emit_arguments(struct emit_arguments *o, int argc, char **argv, struct diag *d)
{
    const char **words[128] = {
        ['P'] = &o->job.platform, ['r'] = &o->job.placement,    ['b'] = &o->job.protocol,
        ['R'] = &o->job.release,  ['F'] = &o->job.input_format, ['x'] = &o->job.suffix,
        ['d'] = &o->compared,
    };
    int option;

    optind = 0;
    while ((option = options_next(argc, argv, &emit_options, d)) >= 0) {
        if (option == 'f')
            o->files[o->file_count++] = optarg;
        else if (option == 's')
            o->sets[o->set_count++] = optarg;
        else if (option == 'p')
            o->profiles[o->profile_count++] = optarg;
        else if (option == 'o' || option == 'S')
            read_word(o, option, optarg, d);
        else if (words[option] != NULL)
            *words[option] = optarg;
    }
    o->job.profiles = o->profiles;
    o->job.profile_count = o->profile_count;
    for (int i = optind; i < argc; i++)
        options_error(d, "%s is no option of emit: did you mean -f %s?", argv[i], argv[i]);
    if (d->errors == 0 && o->file_count == 0 && o->set_count == 0)
        options_error(d, "there are no settings: give a file with -f FILE");
}

static void emit_print_yaml(FILE *out, const struct yaml_node *documents)
{
    for (size_t i = 0; i < documents->count; i++) {
        if (i > 0)
            fputs("---\n", out);
        yaml_write(out, documents->items[i]);
    }
}

static void emit_print_json(FILE *out, const struct yaml_node *documents)
{
    struct arena a = {0};
    struct yaml_node *list = yaml_new(&a, YAML_MAPPING);

    yaml_put_text(&a, list, "apiVersion", "v1");
    yaml_put_text(&a, list, "kind", "List");
    yaml_put(&a, list, "items", documents);
    yaml_write_json(out, documents->count == 1 ? documents->items[0] : list);
    arena_free(&a);
}

/* Prints the documents, or how the file differs from what emit would write there. */
static void emit_print_result(struct emit_arguments *o, struct emit_job *job, struct diag *d)
{
    void (*print)(FILE * out, const struct yaml_node *documents) =
        o->json ? emit_print_json : emit_print_yaml;
    struct yaml_file old;
    const char *text;

    if (o->compared == NULL) {
        print(stdout, job->documents);
        return;
    }
    if (!yaml_file_read(&old, o->compared, YAML_SIZE_MAX, d))
        return;
    text = yaml_text_of(&job->arena, job->documents, print);
    o->differs = text_diff_print(stdout, old.name, old.bytes, old.len, text, strlen(text));
    yaml_file_free(&old);
}

static void emit(struct emit_arguments *o, struct diag *d)
{
    struct userfile user;
    struct emit_job job = {0};

    if (userfile_read(&user, o->files, o->file_count, o->sets, o->set_count, d) &&
        emit_job_make(&job, &user, &o->job, d))
        emit_print_result(o, &job, d);
    emit_job_free(&job);
    userfile_free(&user);
}

int run_emit(int argc, char **argv)
{
    struct diag d = {0};
    struct emit_arguments o = {
        .files = arena_alloc(&d.arena, (size_t)argc * sizeof *o.files),
        .sets = arena_alloc(&d.arena, (size_t)argc * sizeof *o.sets),
        .profiles = arena_alloc(&d.arena, (size_t)argc * sizeof *o.profiles),
    };
    int code;

    read_emit_arguments(&o, argc, argv, &d);
    if (d.errors == 0)
        emit(&o, &d);
    code = diag_end(&d);
    return code == 0 ? o.differs : code;
}
