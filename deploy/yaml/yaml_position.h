/* The place of each byte of a scalar in its file: the line of an option within a block of script.
 */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* The mark of a byte behind another one. This is slow: use it for one message. */
struct yaml_mark yaml_mark_forward(struct yaml_mark from, const char *bytes, size_t offset);

/* The place of byte `at` of the scalar's text. The place is exact for every style except folded
 * ones: there, the search follows joined lines as far as the text allows. The place of an alias is
 * where the alias is written. A node that no file contains has none (line 0). */
struct yaml_mark scalar_position(const struct yaml_file *f, const struct yaml_node *scalar,
                                 size_t at);
