/* The inner seams of job_view: variables with their values, and stores. For its own files only. */
#pragma once

#include "deploy/kube/job_view.h"

/* What a script has assigned so far. */
struct job_assignment {
    const char *name;
    struct arg_text value;
};

struct job_scope {
    struct job_view *view;
    const struct kube_container *container;
    struct job_assignment *assigned;
    size_t count, cap;
};

void job_scope_assign(struct job_scope *s, const char *name, struct arg_text value);
/* What a word that is nothing but `$NAME` stands for, where that is written. */
bool job_scope_find(const struct job_scope *s, const struct arg_word *word, struct arg_text *out);
struct job_value job_scope_value(const struct job_scope *s, const struct arg_text *text);

void job_find_stores(struct job_view *v);

/* All settings of a run, and what they come to: its backend, its nodes, where its endpoint leads.
 */
void job_read_settings(struct job_scope *scope, struct job_run *r);
