/* Files that something fills in before they are applied, as envsubst does: `name: ${JOB}`. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* The first placeholder at a place where no shell and no Kubernetes would replace it; NULL: there
 * is none, and every $NAME of the file is what it says. */
const struct yaml_node *kube_find_placeholder(const struct yaml_file *file);
