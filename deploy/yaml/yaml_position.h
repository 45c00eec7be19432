/* Places in a file: of what libyaml reads, which counts characters after the byte order mark where
 * we count bytes, and of each byte of a scalar: the line of an option within a block of script. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

struct yaml_positions {
    const char *bytes;
    size_t len;
    size_t base;    /* bytes of the byte order mark, which libyaml does not get */
    size_t *chunks; /* the byte of every 64th character; NULL if each character is a byte */
};

void yaml_positions_init(struct yaml_positions *p, struct arena *a, const char *bytes, size_t len);

/* The mark for one of libyaml's, whose numbers all start at 0. */
struct yaml_mark yaml_positions_mark(const struct yaml_positions *p, size_t index, size_t line,
                                     size_t column);

/* The mark of a byte behind another one. This is slow: use it for one message. */
struct yaml_mark yaml_mark_forward(struct yaml_mark from, const char *bytes, size_t offset);

/* The place of byte `at` of the scalar's text. It is exact for every style but the folded ones:
 * there, joined lines are followed as far as the text shows how. The place of an alias is where the
 * alias is written. A node that no file contains has none (line 0). */
struct yaml_mark scalar_position(const struct yaml_file *f, const struct yaml_node *scalar,
                                 size_t at);
