/* A user file for a job that exists: what its manifest says, in the settings of emit. */
#pragma once

#include "deploy/kube/job_view.h"

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
    const struct job_run *run;  /* the first one there */
    struct yaml_node *facts;    /* the variables of deploy/data/import.yaml */
    bool writes_program;        /* the user file has mainProgram */
    struct yaml_node *settings; /* NULL: none yet */
};

/* Finds the job and makes its settings. False: there is an error in diag. */
bool import_job(struct importer *m);

/* The run of a job's workers, or of the only pods there are. The job has one. */
const struct job_run *import_workers_run(const struct job_view *jobs,
                                         const struct kube_object *job);

#define import_note(m, ...)  yaml_note((m)->diag, __VA_ARGS__)
#define import_error(m, ...) yaml_error((m)->diag, __VA_ARGS__)

/* Whether emit sets this variable itself, or torchrun takes the setting from elsewhere. */
bool import_is_rendezvous(struct importer *m, const char *variable);

/* Puts a key, unless the value is NULL. */
#define import_put(m, to, key, value)      yaml_put(&(m)->arena, to, key, value)
#define import_put_text(m, to, key, text)  yaml_put_text(&(m)->arena, to, key, text)
#define import_put_plain(m, to, key, text) yaml_put_plain(&(m)->arena, to, key, text)
#define import_put_number(m, to, key, n)   yaml_put_number(&(m)->arena, to, key, n)
#define import_put_truth(m, to, key, is)   import_put_plain(m, to, key, (is) ? "true" : "false")

/* Finds the objects, pods and runs of the files. False: there are too many. */
bool import_look(struct importer *m);

/* Makes the settings, and holds against the manifest what emit would make of them. False: there is
 * an error in diag, and no user file. */
bool import_run(struct importer *m);

/* --- The command. --- */

/* Adds the facts mainProgram, so that emit writes the command of torchrun, or command and args word
 * by word, where that would not mean the same; the others are null. Returns whether it was
 * mainProgram; errors are in diag. */
bool import_command(struct importer *m);

/* Whether emit sets the option in every case, so that the user file has no place for it. */
bool import_is_of_rendezvous(enum torchrun_option o);

/* The number that the setting `restarts` gets, instead of the option of a command that emit writes;
 * NULL: none. */
const char *import_restarts(const struct importer *m);

/* --- What a user file cannot say of a manifest. --- */

/* What torchrun is told in a run, of the files or of what emit makes, for the template. */
struct yaml_node *import_run_facts(struct importer *m, const struct job_run *r);

/* Notes the differences of numbers that the template knows, by the facts `made`, `gang` and
 * `madeGang`. Returns how many. */
size_t import_note_differences(struct importer *m);

/* Compares the files with `documents`, which emit has made. Notes each part of the job's object
 * that differs, and each other object of the files that is missing from `documents`. Returns how
 * many parts. */
size_t import_compare(struct importer *m, const struct yaml_node *documents);
