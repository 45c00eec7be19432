/* What was seen in a bundle, for users to read and for tests to compare. */
#pragma once

#include "deploy/kube/job_view.h"

#include <stdio.h>

/* JSON: each thing that starts torch with its backend, endpoint, id and nodes, and where the
 * endpoint leads; and each store with the ports at which it serves clients. */
void job_show(FILE *out, struct job_view *v);
