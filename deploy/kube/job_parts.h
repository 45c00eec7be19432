/* What the files behind job_view.h share: words, variables with their values, settings, stores. */
#pragma once

#include "deploy/kube/job_view.h"

/* The assignments that a script has made up to here. */
struct job_assignment {
    const char *name;
    struct arg_word value;
    const struct arg_word *words; /* that `$NAME` becomes without quotes */
    size_t count;
    bool array;
};

struct job_scope {
    struct job_view *view;
    const struct kube_container *container;
    struct job_assignment *assigned;
    size_t count, cap;
    struct kube_index names;        /* their indices by name */
    struct kube_index written;      /* names of files that the script writes */
    bool copies;                    /* it copies files, whose names stay */
    size_t scripts;                 /* how many texts were read */
    const struct kube_object *map;  /* the ConfigMap with the current one, or NULL */
    const struct arg_word *unread;  /* the first text that is not in these files, or NULL */
    const struct arg_word *foreign; /* the first launcher with a remedy, or NULL */
    const struct arg_word *cleared; /* by this program, or NULL: the variables of the container */
};

void job_scope_assign(struct job_scope *s, const struct job_assignment *assignment);
/* What the script has assigned last, or NULL. */
const struct job_assignment *job_scope_assigned(const struct job_scope *s, const char *name,
                                                size_t len);
/* Finds the value of a word that is nothing but `$NAME`: an assignment or, with *assigned NULL, the
 * text of a variable at the place where it is written. */
bool job_scope_find(const struct job_scope *s, const struct arg_word *word,
                    const struct job_assignment **assigned, struct arg_word *out);
struct job_value job_scope_value(const struct job_scope *s, const struct arg_word *text);

/* Adds the runs of a container; an init container that starts torchrun is a closed one. */
void job_find_runs(struct job_view *v, const struct kube_container *c);
/* Adds those in scripts of a ConfigMap; the containers come first. */
void job_find_scripts(struct job_view *v, const struct kube_object *map);
void job_find_stores(struct job_view *v);

/* Which of the controller's containers get a variable; as deploy/data/variables.yaml has it. */
enum made_when {
    MADE_ALWAYS,
    MADE_WITH_MASTER,  /* the PyTorchJob has a Master */
    MADE_WITH_POLICY,  /* it has an elasticPolicy */
    MADE_WITH_PLUGIN,  /* the Volcano Job has the plugin `key` */
    MADE_WHEN_INDEXED, /* the Job is Indexed, as every Job of a JobSet is that says nothing else */
    MADE_IN_TRAINER,   /* the container `node` of a runtime with the torch policy */
};

struct made_row {
    unsigned types; /* of objects, as bits */
    const char *const *names;
    enum made_when when;
    const char *key; /* the field that has to be there, too; a plugin's name; or NULL */
    bool in_init;    /* init containers get it, too */
};

extern const struct made_row made_rows[];
extern const size_t made_row_count;

/* The variable as the controller of the container's object sets it, or NULL. */
const struct job_variable *job_made_variable(struct job_view *v, const struct kube_container *c,
                                             const char *name);

/* Reads all settings of a run, and derives the backend, the number of nodes and the endpoint. */
void job_read_settings(struct job_scope *scope, struct job_run *r);
