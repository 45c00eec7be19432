/* Lines of the regions that were edited are compared by Myers' algorithm; the rest is known to be
 * equal, so a large file costs what its edits cost. */
#include "deploy/yaml/text_diff.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT 3
/* Above so many lines on both sides together a region is shown as wholly replaced: the trace of
 * the search grows with the square of what differs. */
#define SEARCH_MAX 4000

struct lines {
    const char *bytes;
    size_t *starts; /* count + 1 of them: the last is the length of the text */
    size_t count;
};

/* Lines [old_from, old_to) became [new_from, new_to). */
struct change {
    size_t old_from, old_to, new_from, new_to;
};

struct changes {
    struct arena *arena;
    struct change *list;
    size_t count, cap;
};

static struct lines split(struct arena *a, const char *bytes, size_t len)
{
    struct lines l = {.bytes = bytes};
    size_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += bytes[i] == '\n';
    l.starts = arena_alloc(a, (count + 2) * sizeof *l.starts);
    for (size_t i = 0; i < len; l.count++) {
        const char *nl = memchr(bytes + i, '\n', len - i);

        l.starts[l.count] = i;
        i = nl == NULL ? len : (size_t)(nl - bytes) + 1;
    }
    l.starts[l.count] = len;
    return l;
}

/* The line that holds the byte; behind the last byte, the number of lines. */
static size_t line_of(const struct lines *l, size_t offset)
{
    size_t low = 0, high = l->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (l->starts[mid + 1] <= offset)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool is_equal(const struct lines *a, size_t i, const struct lines *b, size_t j)
{
    size_t len = a->starts[i + 1] - a->starts[i];

    return len == b->starts[j + 1] - b->starts[j] &&
           memcmp(a->bytes + a->starts[i], b->bytes + b->starts[j], len) == 0;
}

static void add_change(struct changes *c, struct change next)
{
    struct change *last = c->count > 0 ? &c->list[c->count - 1] : NULL;

    if (next.old_from == next.old_to && next.new_from == next.new_to)
        return;
    if (last != NULL && last->old_to == next.old_from && last->new_to == next.new_from) {
        last->old_to = next.old_to;
        last->new_to = next.new_to;
        return;
    }
    if (c->count == c->cap) {
        size_t cap = c->cap == 0 ? 16 : c->cap * 2;

        c->list = arena_grow(c->arena, c->list, c->cap * sizeof next, cap * sizeof next);
        c->cap = cap;
    }
    c->list[c->count++] = next;
}

/* E. Myers, "An O(ND) Difference Algorithm": v[k] is how far one comes on diagonal k with d steps
 * aside; each round's v is kept, and the way is read back from them. */
static void search(const struct lines *a, const struct lines *b, struct change area,
                   struct changes *out)
{
    long n = (long)(area.old_to - area.old_from), m = (long)(area.new_to - area.new_from);
    long most = n + m, d, x = 0, y = 0;
    struct arena scratch = {0};
    int32_t *v = arena_alloc(&scratch, (size_t)(2 * most + 3) * sizeof *v);
    int32_t **kept = arena_alloc(&scratch, (size_t)(most + 1) * sizeof *kept);
    bool *gone = arena_alloc(&scratch, (size_t)n + 1), *come = arena_alloc(&scratch, (size_t)m + 1);

    for (d = 0; d <= most; d++) {
        kept[d] = arena_alloc(&scratch, (size_t)(2 * d + 3) * sizeof *v);
        memcpy(kept[d], v + most - d, (size_t)(2 * d + 3) * sizeof *v); /* v[-d-1 .. d+1] */
        for (long k = -d; k <= d; k += 2) {
            int32_t *at = v + most + 1 + k;

            x = k == -d || (k != d && at[-1] < at[1]) ? at[1] : at[-1] + 1;
            y = x - k;
            while (x < n && y < m &&
                   is_equal(a, area.old_from + (size_t)x, b, area.new_from + (size_t)y))
                x++, y++;
            at[0] = (int32_t)x;
            if (x >= n && y >= m)
                goto found;
        }
    }
found:
    for (; d > 0; d--) {
        const int32_t *before = kept[d] + d + 1; /* before[k] is v[k] of round d - 1 */
        long k = x - y;
        bool down = k == -d || (k != d && before[k - 1] < before[k + 1]);

        x = before[down ? k + 1 : k - 1];
        y = x - (down ? k + 1 : k - 1);
        if (down)
            come[y] = true;
        else
            gone[x] = true;
    }
    for (x = 0, y = 0; x < n || y < m;) {
        struct change c = {area.old_from + (size_t)x, 0, area.new_from + (size_t)y, 0};

        while (x < n && gone[x])
            x++;
        while (y < m && come[y])
            y++;
        c.old_to = area.old_from + (size_t)x;
        c.new_to = area.new_from + (size_t)y;
        add_change(out, c);
        if (x < n && y < m)
            x++, y++;
    }
    arena_free(&scratch);
}

/* The regions as areas of whole lines, those that touch as one. */
static void find_changes(const struct lines *a, const struct lines *b,
                         const struct text_result *result, struct changes *out)
{
    for (size_t i = 0; i < result->count;) {
        const struct text_region *r = &result->regions[i];
        struct change area = {line_of(a, r->old_start), 0, line_of(b, r->new_start), 0};

        for (;;) {
            r = &result->regions[i++];
            area.old_to = line_of(a, r->old_end) + 1; /* a line more: the end of the last one */
            area.new_to = line_of(b, r->new_end) + 1;
            if (i == result->count || (line_of(a, result->regions[i].old_start) > area.old_to &&
                                       line_of(b, result->regions[i].new_start) > area.new_to))
                break;
        }
        area.old_to = area.old_to > a->count ? a->count : area.old_to;
        area.new_to = area.new_to > b->count ? b->count : area.new_to;
        if (area.old_to - area.old_from + area.new_to - area.new_from > SEARCH_MAX)
            add_change(out, area);
        else
            search(a, b, area, out);
    }
}

static void print_range(FILE *out, char sign, size_t from, size_t to)
{
    if (to - from == 1)
        fprintf(out, " %c%zu", sign, from + 1);
    else
        fprintf(out, " %c%zu,%zu", sign, to == from ? from : from + 1, to - from);
}

static void print_lines(FILE *out, char sign, const struct lines *l, size_t from, size_t to)
{
    for (; from < to; from++) {
        size_t len = l->starts[from + 1] - l->starts[from];

        fputc(sign, out);
        fwrite(l->bytes + l->starts[from], 1, len, out);
        if (len == 0 || l->bytes[l->starts[from + 1] - 1] != '\n')
            fputs("\n\\ No newline at end of file\n", out);
    }
}

/* Changes that are so near to one another that their context would meet. */
static void print_hunk(FILE *out, const struct lines *a, const struct lines *b,
                       const struct change *c, size_t count)
{
    size_t lead = c[0].old_from < CONTEXT ? c[0].old_from : CONTEXT;
    size_t at = c[0].old_from - lead, old_end = c[count - 1].old_to, left = a->count - old_end;
    size_t tail = left < CONTEXT ? left : CONTEXT;

    fputs("@@", out);
    print_range(out, '-', at, old_end + tail);
    print_range(out, '+', c[0].new_from - lead, c[count - 1].new_to + tail);
    fputs(" @@\n", out);
    for (size_t i = 0; i < count; i++) {
        print_lines(out, ' ', a, at, c[i].old_from);
        print_lines(out, '-', a, c[i].old_from, c[i].old_to);
        print_lines(out, '+', b, c[i].new_from, c[i].new_to);
        at = c[i].old_to;
    }
    print_lines(out, ' ', a, at, old_end + tail);
}

void text_diff_print(FILE *out, const char *old_name, const char *new_name, const char *old_bytes,
                     size_t old_len, const struct text_result *result)
{
    struct arena arena = {0};
    struct changes c = {.arena = &arena};
    struct lines a = split(&arena, old_bytes, old_len);
    struct lines b = split(&arena, result->bytes, result->len);

    find_changes(&a, &b, result, &c);
    if (c.count > 0)
        fprintf(out, "--- %s\n+++ %s\n", old_name, new_name);
    for (size_t i = 0, n; i < c.count; i += n) {
        n = 1;
        while (i + n < c.count && c.list[i + n].old_from - c.list[i + n - 1].old_to <= 2 * CONTEXT)
            n++;
        print_hunk(out, &a, &b, &c.list[i], n);
    }
    arena_free(&arena);
}
