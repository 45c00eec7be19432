/* What the files behind job_view.h share: words, variables with their values, settings, stores. */
#pragma once

#include "deploy/kube/job_view.h"
#include "deploy/kube/shell_words.h"

/* A word of the script that `outer` is, as a word of the scalar that holds it. */
struct arg_word job_inner_word(struct arena *a, const struct arg_word *outer,
                               const struct shell_word *w);

/* The assignments that a script has made up to here. */
struct job_assignment {
    const char *name;
    struct arg_text value;
};

struct job_scope {
    struct job_view *view;
    const struct kube_container *container;
    struct job_assignment *assigned;
    size_t count, cap;
    struct kube_index names; /* their indices by name */
};

void job_scope_assign(struct job_scope *s, const char *name, struct arg_text value);
/* Finds the value of a word that is nothing but `$NAME`, at the place where it is written. */
bool job_scope_find(const struct job_scope *s, const struct arg_word *word, struct arg_text *out);
struct job_value job_scope_value(const struct job_scope *s, const struct arg_text *text);

void job_find_stores(struct job_view *v);

/* Whether the controller of the container's object sets the variable. */
bool job_made_variable(struct job_view *v, const struct kube_container *c, const char *name,
                       struct job_variable *out);

/* Reads all settings of a run, and its backend, its nodes and its endpoint from them. */
void job_read_settings(struct job_scope *scope, struct job_run *r);
