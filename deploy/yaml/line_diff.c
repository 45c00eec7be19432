/* The longest common subsequence of lines, between the lines that both begin and end with. */
#include "deploy/yaml/line_diff.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CELLS_MAX 4000000

struct lines {
    const char *bytes;
    size_t *starts; /* of each line, and the end of the last one */
    size_t count;
};

static struct lines split(struct arena *a, const char *bytes, size_t len)
{
    struct lines l = {.bytes = bytes};

    for (size_t i = 0; i < len; i++)
        l.count += bytes[i] == '\n' || i + 1 == len;
    l.starts = arena_alloc(a, (l.count + 1) * sizeof *l.starts);
    for (size_t i = 0, line = 1; i < len; i++) {
        if (bytes[i] == '\n' || i + 1 == len)
            l.starts[line++] = i + 1;
    }
    return l;
}

static bool is_same(const struct lines *x, size_t i, const struct lines *y, size_t j)
{
    size_t len = x->starts[i + 1] - x->starts[i];

    return len == y->starts[j + 1] - y->starts[j] &&
           memcmp(x->bytes + x->starts[i], y->bytes + y->starts[j], len) == 0;
}

struct differ {
    struct arena *arena;
    struct lines x, y;
    size_t head, tail; /* lines that both begin and end with */
    struct text_result result;
};

static void add_region(struct differ *d, size_t x, size_t x_end, size_t y, size_t y_end)
{
    if (x < x_end || y < y_end)
        d->result.regions[d->result.count++] = (struct text_region){
            d->x.starts[x], d->x.starts[x_end], d->y.starts[y], d->y.starts[y_end]};
}

/* common[i][j]: the longest common subsequence of the lines from i and from j on. */
static void compare_middle(struct differ *d, uint32_t *common, size_t width, size_t height)
{
    size_t i = 0, j = 0, from_i = 0, from_j = 0;

#define COMMON(i, j) common[(i) * (height + 1) + (j)]
    for (size_t x = width; x-- > 0;) {
        for (size_t y = height; y-- > 0;) {
            uint32_t down = COMMON(x + 1, y), right = COMMON(x, y + 1);

            COMMON(x, y) = is_same(&d->x, d->head + x, &d->y, d->head + y)
                               ? COMMON(x + 1, y + 1) + 1
                           : down > right ? down
                                          : right;
        }
    }
    while (i < width && j < height) {
        if (is_same(&d->x, d->head + i, &d->y, d->head + j)) {
            add_region(d, d->head + from_i, d->head + i, d->head + from_j, d->head + j);
            from_i = ++i;
            from_j = ++j;
        } else if (COMMON(i + 1, j) >= COMMON(i, j + 1)) {
            i++;
        } else {
            j++;
        }
    }
#undef COMMON
    add_region(d, d->head + from_i, d->head + width, d->head + from_j, d->head + height);
}

struct text_result line_diff(struct arena *a, const char *old, size_t old_len, char *next,
                             size_t next_len)
{
    struct differ d = {.arena = a,
                       .x = split(a, old, old_len),
                       .y = split(a, next, next_len),
                       .result = {.bytes = next, .len = next_len}};
    size_t least = d.x.count < d.y.count ? d.x.count : d.y.count, width, height;
    uint32_t *common;

    while (d.head < least && is_same(&d.x, d.head, &d.y, d.head))
        d.head++;
    while (d.head + d.tail < least &&
           is_same(&d.x, d.x.count - d.tail - 1, &d.y, d.y.count - d.tail - 1))
        d.tail++;
    width = d.x.count - d.head - d.tail;
    height = d.y.count - d.head - d.tail;
    d.result.regions = arena_alloc(a, (least + 2) * sizeof *d.result.regions);
    if (width > 0 && height > CELLS_MAX / width) {
        add_region(&d, d.head, d.head + width, d.head, d.head + height);
        return d.result;
    }
    common = calloc((width + 1) * (height + 1), sizeof *common);
    if (common == NULL)
        abort();
    compare_middle(&d, common, width, height);
    free(common);
    return d.result;
}
