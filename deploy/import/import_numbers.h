/* Numbers of a job, as what they come to: emit may write them elsewhere than the manifest did. */
#pragma once

#include "deploy/import/import_job.h"

/* What emit makes of the settings, read as any manifest is. */
struct import_made {
    struct kube_bundle bundle;
    struct job_view jobs;
    const struct job_run *run; /* of the workers; NULL: emit makes no torchrun that is visible */
};

/* The documents outlive it. Call import_made_free() in any case. */
void import_made_read(struct import_made *made, const struct importer *m,
                      const struct yaml_node *documents);
void import_made_free(struct import_made *made);

/* Whether import_compare_numbers() sees to this field. */
bool import_is_number(const struct importer *m, const struct yaml_node *within, const char *key);

/* Notes each number that emit changes: nodes, processes of a node, restarts, and the pods that a
 * scheduler waits for. Returns how many. */
size_t import_compare_numbers(struct importer *m, struct import_made *made);
