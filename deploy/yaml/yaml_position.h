/* Places in a file: libyaml counts characters, from behind a byte order mark, and we count bytes.
 */
#pragma once

#include "deploy/yaml/diag.h"

struct yaml_positions {
    const char *bytes;
    size_t len;
    size_t base;    /* bytes of a byte order mark, which libyaml does not get to see */
    size_t *chunks; /* the byte of every 64th character; NULL when each character is a byte */
};

void yaml_positions_init(struct yaml_positions *p, struct arena *a, const char *bytes, size_t len);

/* A mark of libyaml's, all of whose numbers start at 0. */
struct yaml_mark yaml_positions_mark(const struct yaml_positions *p, size_t index, size_t line,
                                     size_t column);

/* The same of a byte, counted from the start of the file: slow, for one message. */
struct yaml_mark yaml_positions_offset(const struct yaml_positions *p, size_t offset);
