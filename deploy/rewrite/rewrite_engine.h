/* From a bundle that was read to the new text of its files. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"

/* Returns how many things there were to rewrite; on errors, which are in diag, no file has a new
 * text. Else each file has its `result`, which may be the old text. */
size_t rewrite_run(struct rewrite *w);

bool rewrite_changed(const struct rewrite_file *f);
