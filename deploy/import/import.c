/* The verb import: reads manifests, and prints the user file of a job in them. */
#include "deploy/import/import.h"

#include "deploy/emit/emit_job.h"
#include "deploy/verbs.h"

#include <stdio.h>

bool import_look(struct importer *m)
{
    for (size_t i = 0; i < m->file_count; i++)
        kube_add_file(&m->bundle, &m->files[i]);
    if (m->bundle.overflow)
        return options_error(m->diag, "more than %d objects, all files together: name fewer files",
                             KUBE_OBJECTS_MAX);
    job_find(&m->jobs, &m->bundle);
    return true;
}

/* Whether emit accepts the settings, before import prints them. If emit refuses them, its errors
 * name places in the manifest. */
static bool is_emitted(struct importer *m)
{
    struct userfile user = {.settings = m->settings, .first = m->files[0].name};
    struct emit_options options = {.input_format = "own"};
    struct emit_job job;
    struct diag said = {0};
    bool made = emit_job_make(&job, &user, &options, &said);

    if (!made)
        diag_append(m->diag, &said);
    else if (import_compare(m, job.documents) == 0)
        options_note(m->diag,
                     "emit gives all of the job back, with the rendezvous as the user file has it");
    diag_free(&said);
    emit_job_free(&job);
    return made;
}

bool import_run(struct importer *m)
{
    return import_job(m) && is_emitted(m);
}

/* --- The verb. --- */

static bool read_files(struct importer *m, char **paths, size_t count)
{
    m->files = arena_alloc(&m->arena, (count + 1) * sizeof *m->files);
    for (size_t i = 0; i < count; i++) {
        if (yaml_file_read(&m->files[m->file_count], paths[i], YAML_SIZE_MAX, m->diag))
            m->file_count++;
    }
    return m->diag->errors == 0 && import_look(m);
}

int run_import(int argc, char **argv)
{
    struct diag d = {0};
    struct importer m = {.diag = &d};
    char **paths;
    size_t count;
    int option;

    optind = 0;
    while ((option = options_next(argc, argv, &import_options, &d)) >= 0) {
        if (option == 'j')
            m.wanted = optarg;
        else if (option == 'P')
            m.platform = optarg;
    }
    count = options_files(argc, argv, &paths, &d);
    if (d.errors == 0 && read_files(&m, paths, count) && import_run(&m))
        fputs(yaml_write(&m.arena, m.settings), stdout);
    for (size_t i = 0; i < m.file_count; i++)
        yaml_file_free(&m.files[i]);
    kube_free(&m.bundle);
    arena_free(&m.arena);
    return diag_end(&d);
}
