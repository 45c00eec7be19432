/* What the training container runs, without the options by which it found its old store. */
#pragma once

#include "deploy/import/import_job.h"

/* Adds mainProgram, so that emit writes the command of torchrun, or command and args word by word,
 * where that would not mean the same. Returns whether it was mainProgram; errors are in diag. */
bool import_command(struct importer *m);

/* The number that the setting `restarts` gets, instead of the option of a command that emit writes;
 * NULL: none. */
const char *import_restarts(const struct importer *m);
