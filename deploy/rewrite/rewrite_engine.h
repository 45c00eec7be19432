/* Makes the new text of all files of a bundle. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"

/* Returns the number of things to rewrite. After errors, which are in diag, no file has a new text.
 * Otherwise each file has its `result`, which may equal the old text. */
size_t rewrite_run(struct rewrite *w);

bool rewrite_changed(const struct rewrite_file *f);
