/* Counts characters once, and then searches bytes near the wanted character. */
#include "deploy/yaml/yaml_position.h"

#include <stdbool.h>
#include <string.h>

#define CHUNK 64

static bool is_lead(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

void yaml_positions_init(struct yaml_positions *p, struct arena *a, const char *bytes, size_t len)
{
    size_t chars = 0;

    *p = (struct yaml_positions){.bytes = bytes, .len = len};
    if (len >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        p->base = 3;
    for (size_t i = 0; i < len && p->chunks == NULL; i++) {
        if ((unsigned char)bytes[i] >= 0x80)
            p->chunks = arena_alloc(a, (len / CHUNK + 2) * sizeof *p->chunks);
    }
    if (p->chunks == NULL)
        return;
    for (size_t i = p->base; i < len; i++) {
        if (!is_lead(bytes[i]))
            continue;
        if (chars % CHUNK == 0)
            p->chunks[chars / CHUNK] = i;
        chars++;
    }
    for (size_t i = (chars + CHUNK - 1) / CHUNK; i < len / CHUNK + 2; i++)
        p->chunks[i] = len;
}

static size_t byte_of(const struct yaml_positions *p, size_t index)
{
    size_t at;

    if (p->chunks == NULL || index > p->len)
        return index < p->len ? index : p->len;
    at = p->chunks[index / CHUNK];
    for (size_t left = index % CHUNK; left > 0 && at < p->len; left--) {
        do
            at++;
        while (at < p->len && !is_lead(p->bytes[at]));
    }
    return at;
}

struct yaml_mark yaml_positions_mark(const struct yaml_positions *p, size_t index, size_t line,
                                     size_t column)
{
    return (struct yaml_mark){byte_of(p, index), (unsigned)line + 1, (unsigned)column + 1};
}

struct yaml_mark yaml_positions_offset(const struct yaml_positions *p, size_t offset)
{
    struct yaml_mark at = {offset, 1, 1};

    for (size_t i = 0; i < offset && i < p->len; i++) {
        if (p->bytes[i] == '\n') {
            at.line++;
            at.column = 1;
        } else if (is_lead(p->bytes[i])) {
            at.column++;
        }
    }
    return at;
}
