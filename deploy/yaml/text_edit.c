/* Sorts the edits, refuses overlaps, and copies what is between them; and prints unified diffs. */
#include "deploy/yaml/text_edit.h"

#include <stdlib.h>
#include <string.h>

void text_edits_add(struct text_edits *e, struct arena *a, size_t at, size_t len, const char *text)
{
    struct text_edit edit = {at, len, arena_copy(a, text, strlen(text)), e->count};

    arena_push(a, e->list, e->count, e->cap) = edit;
}

static int compare_edits(const void *left, const void *right)
{
    const struct text_edit *a = left, *b = right;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    if ((a->len == 0) != (b->len == 0))
        return a->len == 0 ? -1 : 1; /* an insertion comes before a replacement at the same place */
    return a->order < b->order ? -1 : 1;
}

/* Whether the edit is one of the `kept` ones. */
static bool has_edit(const struct text_edits *e, size_t kept, const struct text_edit *edit)
{
    for (; kept > 0 && e->list[kept - 1].at == edit->at; kept--) {
        const struct text_edit *old = &e->list[kept - 1];

        if (old->len == edit->len && strcmp(old->text, edit->text) == 0)
            return true;
    }
    return false;
}

/* Sorts the edits and drops repetitions; false if two of them change the same bytes. */
static bool edits_settle(struct text_edits *e, size_t *where)
{
    size_t kept = 0;

    if (e->count > 0)
        qsort(e->list, e->count, sizeof *e->list, compare_edits);
    FOREACH(struct text_edit, next, e->list, e->count) {
        struct text_edit *last = kept > 0 ? &e->list[kept - 1] : NULL;

        if (has_edit(e, kept, next))
            continue;
        if (last != NULL && next->at < last->at + last->len) {
            *where = next->at;
            return false;
        }
        e->list[kept++] = *next;
    }
    e->count = kept;
    return true;
}

bool text_edits_apply(struct text_edits *e, struct arena *a, const char *bytes, size_t len,
                      struct buf *out, size_t *where)
{
    size_t from = 0;

    if (!edits_settle(e, where))
        return false;
    *out = (struct buf){.arena = a};
    FOREACH(const struct text_edit, edit, e->list, e->count) {
        buf_add(out, bytes + from, edit->at - from);
        buf_put(out, edit->text);
        from = edit->at + edit->len;
    }
    buf_add(out, bytes + from, len - from);
    return true;
}

/* --- Unified diffs of any two texts: the fewest lines that go and come, grouped into hunks. --- */

#define CONTEXT   3
#define EDITS_MAX 3000 /* lines that go or come; the search takes the square of it */

struct lines {
    const char *bytes;
    size_t *starts; /* count + 1 of them; the last is the length of the text */
    size_t count;
    bool *edited; /* these go, or come */
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
    l.edited = arena_alloc(a, count + 1);
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

/* --- The search, which is Myers' greedy one. With `edits` lines that went or came, `gone` of them
 * old ones, the texts are matched up to an old line x and the new line x + edits - 2 * gone.
 * reach[edits][gone] is the furthest such x. --- */

/* Whether the furthest way there comes from one whose last edit removes an old line, rather than
 * adds a new one. */
static bool ends_with_removal(const size_t *before, size_t edits, size_t gone)
{
    return gone > 0 && (gone == edits || before[gone - 1] + 1 > before[gone]);
}

/* Marks the lines of the edits on the way that ends behind all lines. */
static void diff_mark(struct text_diff *d, size_t *const *reach, size_t edits, size_t gone)
{
    for (; edits > 0; edits--) {
        const size_t *before = reach[edits - 1];

        if (ends_with_removal(before, edits, gone))
            d->old.edited[before[--gone]] = true;
        else
            d->new.edited[before[gone] + edits - 1 - 2 * gone] = true;
    }
}

/* Texts that differ in too many lines have no line in common, as far as the diff says. */
static void diff_search(struct text_diff *d)
{
    size_t *reach[EDITS_MAX + 1];

    for (size_t edits = 0; edits <= EDITS_MAX; edits++) {
        reach[edits] = arena_alloc(&d->arena, (edits + 1) * sizeof **reach);
        for (size_t gone = 0; gone <= edits; gone++) {
            size_t x = edits == 0 ? 0
                       : ends_with_removal(reach[edits - 1], edits, gone)
                           ? reach[edits - 1][gone - 1] + 1
                           : reach[edits - 1][gone];
            size_t y = x + edits - 2 * gone;

            for (; x < d->old.count && y < d->new.count &&is_same_line(d, x, y); y++)
                x++;
            reach[edits][gone] = x;
            if (x >= d->old.count && y >= d->new.count) {
                diff_mark(d, reach, edits, gone);
                return;
            }
        }
    }
    memset(d->old.edited, true, d->old.count);
    memset(d->new.edited, true, d->new.count);
}

/* Edited lines that stand next to each other are one change. */
static void diff_collect(struct text_diff *d)
{
    size_t cap = 0;

    for (size_t i = 0, j = 0; i < d->old.count || j < d->new.count; i++, j++) {
        struct change c = {.old_from = i, .new_from = j};

        while (i < d->old.count && d->old.edited[i])
            i++;
        while (j < d->new.count && d->new.edited[j])
            j++;
        c.old_to = i;
        c.new_to = j;
        if (i == c.old_from && j == c.new_from)
            continue;
        arena_push(&d->arena, d->changes, d->count, cap) = c;
    }
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

/* Prints one hunk: changes so close that their lines of context touch. */
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

static void diff_print(FILE *out, const char *name, const struct text_diff *d)
{
    const struct change *c = d->changes;

    if (d->count > 0)
        fprintf(out, "--- %s\n+++ %s\n", name, name);
    for (size_t i = 0, n; i < d->count; i += n) {
        n = 1;
        while (i + n < d->count && c[i + n].old_from - c[i + n - 1].old_to <= 2 * CONTEXT)
            n++;
        print_hunk(out, d, &c[i], n);
    }
}

bool text_diff_print(FILE *out, const char *name, const char *old_bytes, size_t old_len,
                     const char *new_bytes, size_t new_len)
{
    struct text_diff d = {0};

    d.old = lines_split(&d.arena, old_bytes, old_len);
    d.new = lines_split(&d.arena, new_bytes, new_len);
    diff_search(&d);
    diff_collect(&d);
    diff_print(out, name, &d);
    arena_free(&d.arena);
    return d.count > 0;
}
