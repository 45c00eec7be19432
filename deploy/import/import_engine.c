/* An import is the settings of a job, and the proof of what emit makes of them. */
#include "deploy/import/import_engine.h"

#include "deploy/emit/emit_job.h"
#include "deploy/import/import_compare.h"
#include "deploy/kube/kube_view.h"
#include "deploy/yaml/options.h"

bool import_look(struct importer *m)
{
    for (size_t i = 0; i < m->file_count; i++)
        kube_add_file(&m->bundle, &m->files[i]);
    if (m->bundle.overflow) {
        options_error(m->diag, "more than %d objects, all files together: name fewer files",
                      KUBE_OBJECTS_MAX);
        return false;
    }
    kube_drop_made(&m->bundle);
    kube_find_pods(&m->bundle);
    job_find(&m->jobs, &m->bundle);
    return true;
}

/* What emit makes of the settings, which are printed after that: if it refuses them, its errors
 * name their places in the manifest. */
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
        diag_note(m->diag, NULL, (struct yaml_mark){0},
                  "emit gives all of the job back, with the rendezvous as the user file has it");
    diag_free(&said);
    emit_job_free(&job);
    return made;
}

bool import_run(struct importer *m)
{
    return import_job(m) && is_emitted(m);
}
