/* Texts for the user. Errors and notes about an input, as `file:line:column: what: remedy`, are
 * collected until the verb ends: a verb with an error prints the errors and nothing else, and
 * returns 2. */
#pragma once

#include "deploy/yaml/arena.h"
#include "proto/nearest.h"

#include <stdio.h>

struct yaml_mark {
    size_t offset;         /* in bytes, from the start of the file */
    unsigned line, column; /* from 1; columns count characters */
};

enum diag_kind {
    DIAG_ERROR, /* the input is refused */
    DIAG_NOTE,  /* the input is accepted, but the user should know this */
};

struct diag_entry {
    enum diag_kind kind;
    const char *file;      /* NULL: no file, but an argument */
    struct yaml_mark mark; /* line 0: the file as a whole */
    const char *text;
};

struct diag {
    struct arena arena; /* of the texts */
    struct diag_entry *entries;
    size_t count, cap, errors;
};

/* `format` has what is wrong and, after a colon, the remedy. File and text are copied. Returns
 * NULL, which is false, too: `return diag_error(...)`. */
void *diag_report(struct diag *d, enum diag_kind kind, const char *file, struct yaml_mark mark,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));
void diag_add(struct diag *d, enum diag_kind kind, const char *file, struct yaml_mark mark,
              const char *format, va_list args) __attribute__((format(printf, 5, 0)));
#define diag_error(d, ...) diag_report(d, DIAG_ERROR, __VA_ARGS__)
#define diag_note(d, ...)  diag_report(d, DIAG_NOTE, __VA_ARGS__)

/* Adds the entries of another one. */
void diag_append(struct diag *d, const struct diag *more);

/* Prints text of a file, with control characters escaped, so that it cannot send them to a
 * terminal. */
void diag_put(FILE *out, const char *text);

/* Prints a line for each error or, without errors, for each note, escaped by diag_put(). */
void diag_print(const struct diag *d, FILE *out);

void diag_free(struct diag *d);

/* At the end of a verb: prints all to stderr, frees it, and returns the exit code: 2 after an
 * error, else 0. */
int diag_end(struct diag *d);

/* --- Texts in lines of at most 100 columns, for a terminal. --- */

/* Prints the words of the text behind `indent` blanks, as many on a line as fit, and ends the last
 * line. `label` (NULL: none) is printed into the first `indent` columns. */
void text_wrap(FILE *out, const char *label, int indent, const char *text);
