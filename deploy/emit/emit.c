/* The verb emit: from user files to the documents of a job and its store. */
#include "deploy/emit/emit_job.h"
#include "deploy/verbs.h"
#include "deploy/yaml/yaml_write.h"

#include <stdlib.h>
#include <string.h>

const char emit_help[] =
    "rdzv-manifest emit turns a user file into the manifest of a job wired to rdzvd.\n"
    "\n"
    "  rdzv-manifest emit [-f FILE...] [OPTION...]\n"
    "\n"
    "  -f, --file FILE       settings, - for standard input; of several files later ones win\n"
    "  --set A.B=C           one setting, after all files; A[0].B=C, A={x,y}, several with commas\n"
    "  --platform NAME       see `rdzv-manifest list platforms`, or a file of your own "
    "(./mine.yaml)\n"
    "  --profile NAME        settings of a kind of cluster, below those of the files; repeatable\n"
    "  --rdzv NAME           how rdzvd runs: service, sidecar, ..., see `rdzv-manifest list "
    "placements`\n"
    "  --backend NAME        c10d or etcd-v2\n"
    "  --shape pods          the same as --platform pods: plain pods, as the LitGPT chart has "
    "them\n"
    "  --release NAME        for the values of the LitGPT chart: the name of the release\n"
    "  --input-format NAME   fms, litgpt, intel or own, instead of telling by the settings\n"
    "  -o, --output FORMAT   yaml or json (yaml)\n"
    "\n"
    "Settings: `rdzv-manifest list settings`. The manifest goes to standard output, notes go to\n"
    "standard error. After an error there is no output, and the exit code is 2.\n";

struct emit_arguments {
    const char **files, **sets, **profiles;
    size_t file_count, set_count, profile_count;
    struct emit_options job;
    bool json;
};

static bool refuse(struct diag *d, const char *text, const char *argument)
{
    diag_error(d, NULL, (struct yaml_mark){0}, text, argument);
    return false;
}

/* The value of an option, `--name VALUE` or `--name=VALUE`; NULL when it is another option. */
static const char *value_of(int argc, char **argv, int *i, const char *name, struct diag *d)
{
    size_t len = strlen(name);

    if (strncmp(argv[*i], name, len) != 0)
        return NULL;
    if (argv[*i][len] == '=' && name[1] == '-')
        return argv[*i] + len + 1;
    if (argv[*i][len] != '\0')
        return NULL;
    if (*i + 1 == argc) {
        diag_error(d, NULL, (struct yaml_mark){0}, "%s needs a value: see emit --help", name);
        return "";
    }
    return argv[++*i];
}

static bool read_option(struct emit_arguments *o, int argc, char **argv, int *i, struct diag *d)
{
    const struct {
        const char *name;
        const char **value;
    } single[] = {
        {"--platform", &o->job.platform},         {"--rdzv", &o->job.placement},
        {"--backend", &o->job.protocol},          {"--release", &o->job.release},
        {"--input-format", &o->job.input_format},
    };
    const char *value;

    if ((value = value_of(argc, argv, i, "-f", d)) != NULL ||
        (value = value_of(argc, argv, i, "--file", d)) != NULL) {
        o->files[o->file_count++] = value;
        return true;
    }
    if ((value = value_of(argc, argv, i, "--set", d)) != NULL) {
        o->sets[o->set_count++] = value;
        return true;
    }
    if ((value = value_of(argc, argv, i, "--profile", d)) != NULL) {
        o->profiles[o->profile_count++] = value;
        return true;
    }
    if ((value = value_of(argc, argv, i, "-o", d)) != NULL ||
        (value = value_of(argc, argv, i, "--output", d)) != NULL) {
        o->json = strcmp(value, "json") == 0;
        return o->json || strcmp(value, "yaml") == 0
                   ? true
                   : refuse(d, "there is no output %s: write yaml or json", value);
    }
    for (size_t j = 0; j < sizeof single / sizeof *single; j++) {
        value = value_of(argc, argv, i, single[j].name, d);
        if (value != NULL) {
            *single[j].value = value;
            return true;
        }
    }
    value = value_of(argc, argv, i, "--shape", d);
    if (value != NULL) {
        o->job.platform = "pods";
        return strcmp(value, "pods") == 0 ? true
                                          : refuse(d, "there is no shape %s: write pods", value);
    }
    if (argv[*i][0] != '-') {
        diag_error(d, NULL, (struct yaml_mark){0}, "%s is no option of emit: did you mean -f %s?",
                   argv[*i], argv[*i]);
        return false;
    }
    return refuse(d, "%s is no option of emit: see emit --help", argv[*i]);
}

static bool read_options(struct emit_arguments *o, int argc, char **argv, struct diag *d)
{
    bool ok = true;

    for (int i = 1; i < argc; i++)
        ok = read_option(o, argc, argv, &i, d) && ok;
    o->job.profiles = o->profiles;
    o->job.profile_count = o->profile_count;
    if (ok && o->file_count == 0 && o->set_count == 0)
        return refuse(d, "there are no settings: give a file with %s", "-f FILE");
    return ok && d->errors == 0;
}

static void print_json_list(const struct emit_job *job, struct arena *a)
{
    struct yaml_node *list = job->documents;

    if (list->count == 1) {
        yaml_write_json(stdout, list->items[0]);
        return;
    }
    list = yaml_new(a, YAML_MAPPING);
    yaml_put(a, list, "apiVersion", yaml_new_text(a, "v1", 2));
    yaml_put(a, list, "kind", yaml_new_text(a, "List", 4));
    yaml_put(a, list, "items", job->documents);
    yaml_write_json(stdout, list);
}

static void print(struct emit_job *job, bool json)
{
    if (json) {
        print_json_list(job, &job->arena);
        return;
    }
    for (size_t i = 0; i < job->documents->count; i++) {
        if (i > 0)
            puts("---");
        yaml_write(stdout, job->documents->items[i]);
    }
}

static void emit(const struct emit_arguments *o, struct diag *d)
{
    struct userfile user;
    struct emit_job job = {0};

    if (userfile_read(&user, o->files, o->file_count, o->sets, o->set_count, d) &&
        emit_job_make(&job, &user, &o->job, d))
        print(&job, o->json);
    emit_job_free(&job);
    userfile_free(&user);
}

int verb_emit(int argc, char **argv)
{
    struct diag d = {0};
    struct emit_arguments o = {
        .files = calloc((size_t)argc, sizeof *o.files),
        .sets = calloc((size_t)argc, sizeof *o.sets),
        .profiles = calloc((size_t)argc, sizeof *o.profiles),
    };
    int code;

    if (o.files == NULL || o.sets == NULL || o.profiles == NULL)
        abort();
    if (read_options(&o, argc, argv, &d))
        emit(&o, &d);
    diag_print(&d, stderr);
    code = diag_exit(&d);
    diag_free(&d);
    free(o.files);
    free(o.sets);
    free(o.profiles);
    return code;
}
