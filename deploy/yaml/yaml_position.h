/* Positions in a file: libyaml counts characters after the byte order mark, we count bytes. */
#pragma once

#include "deploy/yaml/diag.h"

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

/* The mark of a byte, counted from the start of the file. This is slow: use it for one message. */
struct yaml_mark yaml_positions_offset(const struct yaml_positions *p, size_t offset);
