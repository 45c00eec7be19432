/* Turns the regions that were edited into changes of whole lines, and groups these into hunks. */
#include "deploy/yaml/text_diff.h"

#include <stdlib.h>
#include <string.h>

#define CONTEXT 3

struct lines {
    const char *bytes;
    size_t *starts; /* count + 1 of them; the last is the length of the text */
    size_t count;
};

/* Lines [old_from, old_to) became [new_from, new_to). */
struct change {
    size_t old_from, old_to, new_from, new_to;
};

struct changes {
    struct change *list;
    size_t count;
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

static bool is_equal(const struct lines *a, size_t i, const struct lines *b, size_t j)
{
    size_t len = a->starts[i + 1] - a->starts[i];

    return len == b->starts[j + 1] - b->starts[j] &&
           memcmp(a->bytes + a->starts[i], b->bytes + b->starts[j], len) == 0;
}

/* Regions within one line, or on lines next to each other, are one change. */
static void add_change(struct changes *c, struct change next)
{
    struct change *last = c->count > 0 ? &c->list[c->count - 1] : NULL;

    if (next.old_from == next.old_to && next.new_from == next.new_to)
        return;
    if (last != NULL && (next.old_from <= last->old_to || next.new_from <= last->new_to)) {
        last->old_to = next.old_to;
        last->new_to = next.new_to;
        return;
    }
    c->list[c->count++] = next;
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
static struct change change_of(const struct lines *a, const struct lines *b,
                               const struct text_region *r)
{
    size_t more = !begins_line(a, r->old_end) || !begins_line(b, r->new_end);
    struct change c = {first_line(a, r->old_start), line_of(a, r->old_end) + more,
                       first_line(b, r->new_start), line_of(b, r->new_end) + more};

    c.old_to = c.old_to > a->count ? a->count : c.old_to;
    c.new_to = c.new_to > b->count ? b->count : c.new_to;
    while (c.old_from < c.old_to && c.new_from < c.new_to && is_equal(a, c.old_from, b, c.new_from))
        c.old_from++, c.new_from++;
    while (c.old_from < c.old_to && c.new_from < c.new_to &&
           is_equal(a, c.old_to - 1, b, c.new_to - 1))
        c.old_to--, c.new_to--;
    return c;
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

/* Changes that are so near to each other that their contexts would meet. */
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
    struct changes c = {arena_alloc(&arena, (result->count + 1) * sizeof *c.list), 0};
    struct lines a = split(&arena, old_bytes, old_len);
    struct lines b = split(&arena, result->bytes, result->len);

    for (size_t i = 0; i < result->count; i++)
        add_change(&c, change_of(&a, &b, &result->regions[i]));
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
