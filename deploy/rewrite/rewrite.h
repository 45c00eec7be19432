/* The rewrite of a bundle, and the forms in which the verb gives it out. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"

/* Returns the number of things to rewrite. After errors, which are in diag, no file has a new text.
 * Otherwise each file has its `result`, which may equal the old text. */
size_t rewrite_run(struct rewrite *w);

/* --- As a KRM function: a ResourceList on standard input, changed and with results on standard
 * output (config.kubernetes.io/v1, as kustomize and kpt have them). --- */

/* Whether the input is one ResourceList. */
bool rewrite_is_function(const struct rewrite *w);

/* Takes the options from functionConfig (`data` of a ConfigMap, else `spec`): the names of
 * rewrite's own, such as `image` and `rdzv`. Errors are in diag. */
void rewrite_function_options(struct rewrite *w, struct rewrite_options *o);

/* Prints the list with what diag says in `results`; after an error, the list as it came. */
void rewrite_function_print(FILE *out, struct rewrite *w);

/* --- What to do on the cluster after a rewrite. --- */

/* Prints the commands in order: first delete the jobs that must restart, then the objects that are
 * absent from the new files or that kubectl apply cannot change; then apply the files, and wait for
 * the store. Call it after the bundle was rewritten. */
void rewrite_steps_print(FILE *out, struct rewrite *w);

/* --- Files with new contents: none is ever half written, and the old contents are kept. --- */

struct save {
    const char *path;
    const char *bytes;
    size_t len;
    const char *target, *temp, *backup; /* set by save_files(); they lie in the arena */
};

/* Writes all new files under temporary names. Only when each of them is complete and on disk, gives
 * each old file the name of its backup (PATH.bak, else PATH.bak.2 and so on) and renames the new
 * one to its path. Returns NULL, or the path of the file that failed, with errno; until the first
 * rename nothing has changed. Symbolic links are followed. */
const char *save_files(struct arena *a, struct save *list, size_t count);
