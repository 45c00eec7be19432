/* What a user file cannot say of a manifest. */
#pragma once

#include "deploy/import/import_job.h"

/* Notes each part of the job's object that emit does not write as it is, for these documents of
 * emit; and the other objects of the files that are not among them. Returns how many parts. */
size_t import_compare(struct importer *m, const struct yaml_node *documents);
