/* Where in its file a byte of a scalar's value stands: the line of a flag in a block of script. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* The place of byte `at` of the scalar's text. Exact for every style but the folded ones, whose
 * joined lines are followed as far as the text shows how. An alias stands where it is written; a
 * node that was made stands nowhere (line 0). */
struct yaml_mark scalar_position(const struct yaml_file *f, const struct yaml_node *scalar,
                                 size_t at);
