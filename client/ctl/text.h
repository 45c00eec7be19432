/* Texts that rdzvctl prints: ages, sizes, what came from elsewhere, names in short, tables. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes that others chose, so that they do nothing to a terminal: control characters and what is no
 * UTF-8 as \xNN, at most `most` bytes of it ("..." behind what is cut). */
void text_safe(FILE *out, const char *bytes, size_t len, size_t most);

/* True: it can be shown as it is; it is UTF-8 without control characters but tabs and line ends. */
bool text_is_plain(const char *bytes, size_t len);

/* Microseconds since 1970 of "2026-11-20T20:58:18.123456Z"; -1: it is no such time. */
int64_t text_time_us(const char *text);

/* "3s", "4m10s", "2h05m", "3d4h". */
void text_age(int64_t us, char *out, size_t size);

/* "512", "3.4 KiB", "1.2 GiB". */
void text_bytes(double bytes, char *out, size_t size);

/* Names in short: "node-[000-102,104-511]", "alpha", "node-7"; those that differ in their last
 * number alone go together, in order. `names` is sorted in place. Ends with "and N more" beyond
 * `most` pieces. */
void text_names(FILE *out, const char **names, size_t count, size_t most);

/* --- Tables. --- */

enum text_style { STYLE_PLAIN, STYLE_BAD, STYLE_GOOD, STYLE_DIM, STYLE_HEAD };

#define TABLE_COLUMNS 12

struct table {
    const char *heads[TABLE_COLUMNS]; /* borrowed; NULL behind the last */
    char **cells;                     /* rows of them */
    enum text_style *styles;          /* one a row */
    size_t rows, cap, at;
};

/* Begins a row. */
void table_row(struct table *t, enum text_style style);
/* The next cell of the row, made safe; NULL or "" is a dash. */
void table_cell(struct table *t, const char *text);
void table_printf(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints it with its heads, each line behind `indent`, and frees what it holds. */
void table_print(struct table *t, FILE *out, const char *indent, bool colour);

/* Text in a style, if there are colours. */
void text_styled(FILE *out, enum text_style style, bool colour, const char *text);
