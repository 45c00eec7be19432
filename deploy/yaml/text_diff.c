/* Unified diffs: of a text and its edited self, whose regions become changes of whole lines, and of
 * any two texts, by the longest common subsequence of their lines. Changes are grouped into hunks.
 */
#include "deploy/yaml/text_edit.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT   3
#define CELLS_MAX 4000000

struct lines {
    const char *bytes;
    size_t *starts; /* count + 1 of them; the last is the length of the text */
    size_t count;
};

/* Lines [old_from, old_to) became [new_from, new_to). */
struct change {
    size_t old_from, old_to, new_from, new_to;
};

struct text_diff {
    struct arena arena;
    struct lines old, new;
    struct change *changes;
    size_t count;
};

static struct lines lines_split(struct arena *a, const char *bytes, size_t len)
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

/* Whether line i of the old text is line j of the new one. */
static bool is_same_line(const struct text_diff *d, size_t i, size_t j)
{
    const struct lines *a = &d->old, *b = &d->new;
    size_t len = a->starts[i + 1] - a->starts[i];

    return len == b->starts[j + 1] - b->starts[j] &&
           memcmp(a->bytes + a->starts[i], b->bytes + b->starts[j], len) == 0;
}

static struct text_diff diff_open(const char *old, size_t old_len, const char *new, size_t new_len)
{
    struct text_diff d = {0};

    d.old = lines_split(&d.arena, old, old_len);
    d.new = lines_split(&d.arena, new, new_len);
    d.changes = arena_alloc(&d.arena, (d.old.count + 1) * sizeof *d.changes);
    return d;
}

/* Regions within one line, or on lines next to each other, are one change. */
static void diff_add(struct text_diff *d, struct change next)
{
    struct change *last = d->count > 0 ? &d->changes[d->count - 1] : NULL;

    if (next.old_from == next.old_to && next.new_from == next.new_to)
        return;
    if (last != NULL && (next.old_from <= last->old_to || next.new_from <= last->new_to)) {
        last->old_to = next.old_to;
        last->new_to = next.new_to;
        return;
    }
    d->changes[d->count++] = next;
}

/* The change without the equal lines at its start and its end. */
static struct change change_trim(const struct text_diff *d, struct change c)
{
    while (c.old_from < c.old_to && c.new_from < c.new_to &&
           is_same_line(d, c.old_from, c.new_from))
        c.old_from++, c.new_from++;
    while (c.old_from < c.old_to && c.new_from < c.new_to &&
           is_same_line(d, c.old_to - 1, c.new_to - 1))
        c.old_to--, c.new_to--;
    return c;
}

/* --- Changes of a text that was edited. --- */

/* The line that holds the byte; after the last byte, the number of lines. */
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

static bool begins_line(const struct lines *l, size_t offset)
{
    return offset == 0 || l->bytes[offset - 1] == '\n';
}

/* The line that holds the byte, or that a text without a newline ends in. */
static size_t first_line(const struct lines *l, size_t offset)
{
    return line_of(l, begins_line(l, offset) ? offset : offset - 1);
}

/* A region in whole lines, without the equal lines at its start and its end. */
static struct change change_of_region(const struct text_diff *d, const struct text_region *r)
{
    const struct lines *a = &d->old, *b = &d->new;
    size_t more = !begins_line(a, r->old_end) || !begins_line(b, r->new_end);
    struct change c = {first_line(a, r->old_start), line_of(a, r->old_end) + more,
                       first_line(b, r->new_start), line_of(b, r->new_end) + more};

    c.old_to = c.old_to > a->count ? a->count : c.old_to;
    c.new_to = c.new_to > b->count ? b->count : c.new_to;
    return change_trim(d, c);
}

/* --- Changes between any two texts. --- */

/* Adds the changes within `whole`. COMMON(i, j) is the length of the longest common subsequence of
 * its lines from i and from j on. */
static void diff_add_middle(struct text_diff *d, const struct change *whole)
{
    size_t width = whole->old_to - whole->old_from, height = whole->new_to - whole->new_from;
    size_t x = whole->old_from, y = whole->new_from, i = 0, j = 0, from_i = 0, from_j = 0;
    uint32_t *common = calloc((width + 1) * (height + 1), sizeof *common);

    if (common == NULL)
        abort();
#define COMMON(i, j) common[(i) * (height + 1) + (j)]
    for (i = width; i-- > 0;) {
        for (j = height; j-- > 0;) {
            uint32_t down = COMMON(i + 1, j), right = COMMON(i, j + 1);

            COMMON(i, j) = is_same_line(d, x + i, y + j) ? COMMON(i + 1, j + 1) + 1
                           : down > right                ? down
                                                         : right;
        }
    }
    for (i = 0, j = 0; i < width && j < height;) {
        if (is_same_line(d, x + i, y + j)) {
            diff_add(d, (struct change){x + from_i, x + i, y + from_j, y + j});
            from_i = ++i;
            from_j = ++j;
        } else if (COMMON(i + 1, j) >= COMMON(i, j + 1)) {
            i++;
        } else {
            j++;
        }
    }
#undef COMMON
    diff_add(d, (struct change){x + from_i, whole->old_to, y + from_j, whole->new_to});
    free(common);
}

/* Texts of many thousand lines that have little in common make one large change. */
static void diff_add_lines(struct text_diff *d)
{
    struct change c = change_trim(d, (struct change){0, d->old.count, 0, d->new.count});

    if (c.old_to > c.old_from && c.new_to - c.new_from > CELLS_MAX / (c.old_to - c.old_from))
        diff_add(d, c);
    else
        diff_add_middle(d, &c);
}

/* --- Hunks. --- */

static void print_hunk_range(FILE *out, char sign, size_t from, size_t to)
{
    if (to - from == 1)
        fprintf(out, " %c%zu", sign, from + 1);
    else
        fprintf(out, " %c%zu,%zu", sign, to == from ? from : from + 1, to - from);
}

static void print_hunk_lines(FILE *out, char sign, const struct lines *l, size_t from, size_t to)
{
    for (; from < to; from++) {
        size_t len = l->starts[from + 1] - l->starts[from];

        fputc(sign, out);
        fwrite(l->bytes + l->starts[from], 1, len, out);
        if (len == 0 || l->bytes[l->starts[from + 1] - 1] != '\n')
            fputs("\n\\ No newline at end of file\n", out);
    }
}

/* Changes that are so near to each other that their contexts would meet. */
static void print_hunk(FILE *out, const struct text_diff *d, const struct change *c, size_t count)
{
    const struct lines *a = &d->old, *b = &d->new;
    size_t lead = c[0].old_from < CONTEXT ? c[0].old_from : CONTEXT;
    size_t at = c[0].old_from - lead, old_end = c[count - 1].old_to, left = a->count - old_end;
    size_t tail = left < CONTEXT ? left : CONTEXT;

    fputs("@@", out);
    print_hunk_range(out, '-', at, old_end + tail);
    print_hunk_range(out, '+', c[0].new_from - lead, c[count - 1].new_to + tail);
    fputs(" @@\n", out);
    for (size_t i = 0; i < count; i++) {
        print_hunk_lines(out, ' ', a, at, c[i].old_from);
        print_hunk_lines(out, '-', a, c[i].old_from, c[i].old_to);
        print_hunk_lines(out, '+', b, c[i].new_from, c[i].new_to);
        at = c[i].old_to;
    }
    print_hunk_lines(out, ' ', a, at, old_end + tail);
}

static void diff_print(FILE *out, const char *old_name, const char *new_name,
                       const struct text_diff *d)
{
    const struct change *c = d->changes;

    if (d->count > 0)
        fprintf(out, "--- %s\n+++ %s\n", old_name, new_name);
    for (size_t i = 0, n; i < d->count; i += n) {
        n = 1;
        while (i + n < d->count && c[i + n].old_from - c[i + n - 1].old_to <= 2 * CONTEXT)
            n++;
        print_hunk(out, d, &c[i], n);
    }
}

void text_diff_print(FILE *out, const char *old_name, const char *new_name, const char *old_bytes,
                     size_t old_len, const struct text_result *result)
{
    struct text_diff d = diff_open(old_bytes, old_len, result->bytes, result->len);

    for (size_t i = 0; i < result->count; i++)
        diff_add(&d, change_of_region(&d, &result->regions[i]));
    diff_print(out, old_name, new_name, &d);
    arena_free(&d.arena);
}

bool text_diff_print_lines(FILE *out, const char *name, const char *old_bytes, size_t old_len,
                           const char *new_bytes, size_t new_len)
{
    struct text_diff d = diff_open(old_bytes, old_len, new_bytes, new_len);
    bool differs;

    diff_add_lines(&d);
    diff_print(out, name, name, &d);
    differs = d.count > 0;
    arena_free(&d.arena);
    return differs;
}
