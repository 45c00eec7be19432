/* A user file for a job that exists: what its manifest says, in the settings of emit. */
#pragma once

#include "deploy/kube/job_view.h"
#include "deploy/yaml/diag.h"

struct importer {
    struct arena arena;
    struct diag *diag;
    const char *wanted;   /* the name of the job, or NULL */
    const char *platform; /* NULL: that of the job's kind */
    struct yaml_file *files;
    size_t file_count;
    struct kube_bundle bundle;
    struct job_view jobs;
    const struct kube_object *job;
    const struct kube_pods *pods; /* of its workers */
    const struct kube_container *container;
    const struct job_run *run; /* the first one there */
    struct yaml_node *settings;
};

/* Finds the job and makes its settings. False: there is an error in diag. */
bool import_job(struct importer *m);

/* The run of a job's workers, or of the only pods there are. The job has one. */
const struct job_run *import_workers_run(const struct job_view *jobs,
                                         const struct kube_object *job);

/* Where the manifest says what torchrun is told, or the job. */
const struct yaml_node *import_place(const struct importer *m, enum torchrun_option option);

#define import_note(m, ...)  yaml_note((m)->diag, __VA_ARGS__)
#define import_error(m, ...) yaml_error((m)->diag, __VA_ARGS__)

/* Whether a container is rdzvd or a relay, which emit writes itself. */
bool import_is_store(struct importer *m, const struct kube_container *c);
/* Whether these pods have a store, and do not train. */
bool import_is_only_store(const struct job_view *jobs, const struct kube_pods *p);
/* Whether emit sets this variable itself, or torchrun takes the setting from elsewhere. */
bool import_is_rendezvous(struct importer *m, const char *variable);

/* Puts a key, unless the value is NULL. */
#define import_put(m, to, key, value)      yaml_put(&(m)->arena, to, key, value)
#define import_put_text(m, to, key, text)  yaml_put_text(&(m)->arena, to, key, text)
#define import_put_plain(m, to, key, text) yaml_put_plain(&(m)->arena, to, key, text)
