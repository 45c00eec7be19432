/* Maps a byte of a scalar's value to its place in the file: the line of an option within a block of
 * script. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* The place of byte `at` of the scalar's text. It is exact for every style but the folded ones:
 * there, joined lines are followed as far as the text shows how. The place of an alias is where the
 * alias is written. A node that no file contains has none (line 0). */
struct yaml_mark scalar_position(const struct yaml_file *f, const struct yaml_node *scalar,
                                 size_t at);
