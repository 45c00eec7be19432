/* Keeps errors and notes in their order, each once, and prints them; finds names that are near to
 * another one, and breaks texts at blanks. */
#include "deploy/yaml/diag.h"

#include <string.h>

/* Users read only the first errors, and most errors share one cause. */
#define ERRORS_MAX 50

#define COLUMNS 100

void diag_add(struct diag *d, enum diag_kind kind, const char *file, struct yaml_mark mark,
              const char *format, va_list args)
{
    struct diag_entry e = {.kind = kind, .mark = mark};

    if (kind == DIAG_ERROR && ++d->errors > ERRORS_MAX)
        return;
    e.text = arena_vtext(&d->arena, format, args);
    if (ANY(FOREACH(const struct diag_entry, old, d->entries, d->count),
            (old->file == NULL || file == NULL ? old->file == file
                                               : strcmp(old->file, file) == 0) &&
                old->kind == kind && old->mark.line == mark.line &&
                old->mark.column == mark.column && strcmp(old->text, e.text) == 0))
        return; /* it is there already */
    e.file = file == NULL ? NULL : arena_copy(&d->arena, file, strlen(file));
    arena_push(&d->arena, d->entries, d->count, d->cap) = e;
}

void *diag_report(struct diag *d, enum diag_kind kind, const char *file, struct yaml_mark mark,
                  const char *format, ...)
{
    va_list args;

    va_start(args, format);
    diag_add(d, kind, file, mark, format, args);
    va_end(args);
    return NULL;
}

void diag_append(struct diag *d, const struct diag *more)
{
    FOREACH(const struct diag_entry, e, more->entries, more->count)
        diag_report(d, e->kind, e->file, e->mark, "%s", e->text);
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

    FOREACH(const struct diag_entry, e, d->entries, d->count) {
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

void diag_free(struct diag *d)
{
    arena_free(&d->arena);
    *d = (struct diag){0};
}

int diag_end(struct diag *d)
{
    int code = d->errors > 0 ? 2 : 0;

    diag_print(d, stderr);
    diag_free(d);
    return code;
}

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
