/* Imports a job from files that are read. */
#pragma once

#include "deploy/import/import_job.h"

/* Finds the objects, pods and runs of the files. False: there are too many. */
bool import_look(struct importer *m);

/* Makes the settings, and holds against the manifest what emit would make of them. False: there is
 * an error in diag, and no user file. */
bool import_run(struct importer *m);
