/* Shows what the reader sees in a bundle, for users to read and for tests to compare. */
#pragma once

#include "deploy/kube/job_view.h"

#include <stdio.h>

/* Prints JSON: each run with its backend, endpoint, id, nodes and the target of its endpoint, and
 * each store with the ports at which it serves clients. */
void job_show(FILE *out, struct job_view *v);
