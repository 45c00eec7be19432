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

void import_note(struct importer *m, const struct yaml_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void import_error(struct importer *m, const struct yaml_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether a container is rdzvd or a relay, which emit writes itself. */
bool import_is_store(struct importer *m, const struct kube_container *c);
/* Whether these pods have a store, and do not train. */
bool import_is_only_store(const struct job_view *jobs, const struct kube_pods *p);
/* Whether emit sets this variable itself, or torchrun takes the setting from elsewhere. */
bool import_is_rendezvous(struct importer *m, const char *variable);

/* Puts a key, unless the value is NULL. */
void import_put(struct importer *m, struct yaml_node *to, const char *key,
                const struct yaml_node *value);
void import_put_text(struct importer *m, struct yaml_node *to, const char *key, const char *text);
void import_put_plain(struct importer *m, struct yaml_node *to, const char *key, const char *text);
