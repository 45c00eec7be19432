/* The verb emit: reads arguments and user files, and prints the documents of a job and its
 * store. */
#include "deploy/emit/emit_job.h"
#include "deploy/verbs.h"
#include "deploy/yaml/text_edit.h"

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

static const char *emit_json(struct arena *a, const struct yaml_node *documents)
{
    struct yaml_node *list = yaml_new(a, YAML_MAPPING);

    YAML_PUT_TEXTS(a, list, {"apiVersion", "v1"}, {"kind", "List"});
    yaml_put(a, list, "items", documents);
    return arena_text(a, "%s\n",
                      yaml_write_json(a, documents->count == 1 ? documents->items[0] : list, "\t"));
}

/* Prints the documents, or how the file differs from what emit would write there. */
static void emit_print_result(struct emit_arguments *o, struct emit_job *job, struct diag *d)
{
    const char *text = o->json ? emit_json(&job->arena, job->documents)
                               : yaml_write_documents(&job->arena, job->documents);
    struct yaml_file old;

    if (o->compared == NULL) {
        fputs(text, stdout);
        return;
    }
    if (!yaml_file_read(&old, o->compared, YAML_SIZE_MAX, d))
        return;
    o->differs = text_diff_print(stdout, old.name, old.bytes, old.len, text, strlen(text));
    yaml_file_free(&old);
}

int run_emit(int argc, char **argv)
{
    struct diag d = {0};
    struct emit_arguments o = {
        .files = arena_alloc(&d.arena, (size_t)argc * sizeof *o.files),
        .sets = arena_alloc(&d.arena, (size_t)argc * sizeof *o.sets),
        .profiles = arena_alloc(&d.arena, (size_t)argc * sizeof *o.profiles),
    };
    struct userfile user = {0};
    struct emit_job job = {0};
    int code;

    read_emit_arguments(&o, argc, argv, &d);
    if (d.errors == 0 && userfile_read(&user, o.files, o.file_count, o.sets, o.set_count, &d) &&
        emit_job_make(&job, &user, &o.job, &d))
        emit_print_result(&o, &job, &d);
    emit_job_free(&job);
    userfile_free(&user);
    code = diag_end(&d);
    return code == 0 ? o.differs : code;
}
