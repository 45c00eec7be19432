/* What to do on the cluster after a rewrite. */
#pragma once

#include "deploy/rewrite/rewrite_engine.h"

/* Prints the commands in their order: the jobs that have to begin anew are deleted, then what the
 * new files do not have or no apply can change; then the files are applied, and the store is
 * awaited. The bundle is rewritten. */
void rewrite_steps_print(FILE *out, struct rewrite *w);
