/* Keeps errors and notes in their order, each once, and prints them; finds names that are near to
 * another one, and breaks texts at blanks. */
#include "deploy/yaml/diag.h"

#include <string.h>

/* Users do not read more, and usually all errors have one cause. */
#define ERRORS_MAX 50

#define COLUMNS 100

static bool is_same_file(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool is_repeated(const struct diag *d, const struct diag_entry *e)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct diag_entry *old = &d->entries[i];

        if (old->kind == e->kind && old->mark.line == e->mark.line &&
            old->mark.column == e->mark.column && is_same_file(old->file, e->file) &&
            strcmp(old->text, e->text) == 0)
            return true;
    }
    return false;
}

void diag_add(struct diag *d, enum diag_kind kind, const char *file, struct yaml_mark mark,
              const char *format, va_list args)
{
    struct diag_entry e = {.kind = kind, .file = file, .mark = mark};

    if (kind == DIAG_ERROR && ++d->errors > ERRORS_MAX)
        return;
    e.text = arena_vtext(&d->arena, format, args);
    if (is_repeated(d, &e))
        return;
    e.file = file == NULL ? NULL : arena_copy(&d->arena, file, strlen(file));
    d->entries = arena_room(&d->arena, d->entries, d->count, &d->cap, sizeof *d->entries);
    d->entries[d->count++] = e;
}

void diag_error(struct diag *d, const char *file, struct yaml_mark mark, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    diag_add(d, DIAG_ERROR, file, mark, format, args);
    va_end(args);
}

void diag_note(struct diag *d, const char *file, struct yaml_mark mark, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    diag_add(d, DIAG_NOTE, file, mark, format, args);
    va_end(args);
}

void diag_append(struct diag *d, const struct diag *more)
{
    for (size_t i = 0; i < more->count; i++) {
        const struct diag_entry *e = &more->entries[i];

        if (e->kind == DIAG_ERROR)
            diag_error(d, e->file, e->mark, "%s", e->text);
        else
            diag_note(d, e->file, e->mark, "%s", e->text);
    }
}

void diag_put(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\x%02x", c);
        else
            fputc(c, out);
    }
}

void diag_print(const struct diag *d, FILE *out)
{
    enum diag_kind kind = d->errors > 0 ? DIAG_ERROR : DIAG_NOTE;

    for (size_t i = 0; i < d->count; i++) {
        const struct diag_entry *e = &d->entries[i];

        if (e->kind != kind)
            continue;
        diag_put(out, e->file == NULL ? "rdzv-manifest" : e->file);
        if (e->file != NULL && e->mark.line > 0)
            fprintf(out, ":%u:%u", e->mark.line, e->mark.column);
        fputs(kind == DIAG_NOTE ? ": note: " : ": ", out);
        diag_put(out, e->text);
        fputc('\n', out);
    }
    if (d->errors > ERRORS_MAX)
        fprintf(out, "rdzv-manifest: %zu more errors: mend these first\n", d->errors - ERRORS_MAX);
}

int diag_exit(const struct diag *d)
{
    return d->errors > 0 ? 2 : 0;
}

void diag_free(struct diag *d)
{
    arena_free(&d->arena);
    *d = (struct diag){0};
}

/* --- Names that are near to each other. --- */

/* Optimal string alignment: letters missing, wrong, too many, or two exchanged. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { MAX = 64 };
    size_t d[3][MAX + 1], n = strlen(a), m = strlen(b);

    if (n > MAX || m > MAX)
        return MAX;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = d[i % 3], *up = d[(i - 1) % 3], *up2 = d[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);

            if (up[j] + 1 < best)
                best = up[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            row[j] = best;
        }
    }
    return d[n % 3][m];
}

static bool same_but_case(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        if ((*a | 0x20) != (*b | 0x20))
            return false;
    }
    return *a == *b;
}

struct nearest nearest_to(const char *name)
{
    size_t len = strlen(name);

    /* One letter of a short name may be wrong, three of a long one. */
    return (struct nearest){.name = name, .distance = len < 3 ? 2 : len < 9 ? len / 3 + 1 : 4};
}

void nearest_try(struct nearest *n, const char *candidate)
{
    size_t distance = same_but_case(n->name, candidate) ? 0 : edit_distance(n->name, candidate);

    if (distance < n->distance) {
        n->distance = distance;
        n->found = candidate;
    }
}

const char *nearest_name(const char *name, const char *const *names)
{
    struct nearest n = nearest_to(name);

    for (; *names != NULL; names++)
        nearest_try(&n, *names);
    return n.found;
}

/* --- Lines. --- */

void text_wrap(FILE *out, const char *label, int indent, const char *text)
{
    int column = fprintf(out, "%-*s", indent, label == NULL ? "" : label);

    while (*text != '\0') {
        int word = (int)strcspn(text, " \n");

        if (column > indent && column + 1 + word > COLUMNS)
            column = fprintf(out, "\n%*s", indent, "") - 1;
        if (column > indent)
            column += fprintf(out, " ");
        column += fprintf(out, "%.*s", word, text);
        text += word + (text[word] != '\0');
    }
    fputc('\n', out);
}
