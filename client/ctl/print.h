/* Answers of rdzvctl: tables, JSON and YAML. */
#pragma once

#include <cjson/cJSON.h>
#include <stdio.h>

#include "client/ctl/ctl.h"

/* --- Members of a JSON object. --- */

/* 0, and "", if there is none. */
long member_number(const cJSON *object, const char *name);
const char *member_text(const cJSON *object, const char *name);
/* For how long: "4m10s"; "" if it is not said. */
void member_age(const cJSON *object, const char *name, int64_t now_us, char *out, size_t size);

/* --- Tables. --- */

enum text_style { STYLE_PLAIN, STYLE_BAD, STYLE_GOOD, STYLE_HEAD };

#define TABLE_COLUMNS 12

struct table {
    const char *heads[TABLE_COLUMNS]; /* borrowed; NULL behind the last */
    char **cells;                     /* rows of them */
    enum text_style *styles;          /* one a row */
    size_t rows, cap, at;
    const struct table_column *columns; /* of rows that are JSON */
    int64_t now_us;
};

/* Begins a row. */
void table_row(struct table *t, enum text_style style);
/* The next cell of the row, made safe; NULL or "" is a dash. */
void table_cell(struct table *t, const char *text);
void table_printf(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints it with its heads, each line behind `indent`, and frees what it holds. */
void table_print(struct table *t, FILE *out, const char *indent, bool colour);

/* --- Tables whose rows are JSON objects. --- */

/* Adds the cell of one member. */
typedef void table_cell_fn(struct table *t, const cJSON *row, const char *member);

struct table_column {
    const char *head; /* NULL: behind the last */
    const char *member;
    table_cell_fn *cell;
};

/* `now_us` is the time of the server, for ages. */
void table_begin(struct table *t, const struct table_column *columns, int64_t now_us);
void table_add(struct table *t, enum text_style style, const cJSON *row);

/* A text; a number, or a dash if there is none; a number, or 0; for how long. */
void cell_text(struct table *t, const cJSON *row, const char *member);
void cell_number(struct table *t, const cJSON *row, const char *member);
void cell_count(struct table *t, const cJSON *row, const char *member);
void cell_age(struct table *t, const cJSON *row, const char *member);
/* "3.4 KiB" */
void cell_bytes(struct table *t, const cJSON *row, const char *member);

/* --- Text, JSON, YAML. --- */

/* Text in a style, if there are colours. */
void text_styled(FILE *out, enum text_style style, bool colour, const char *text);

/* True: `-o json` or `-o yaml` was asked for, and `json` was printed so. */
bool print_structured(const struct ctl *ctl, const cJSON *json);

/* As one document of YAML: what a reader of YAML takes out is what was put in. */
void print_yaml(FILE *out, const cJSON *json);

/* {"key": KEY, "value": "…"}, or "base64" in place of value where it is no text of UTF-8. The
 * caller gives it to cJSON_Delete(). */
cJSON *print_pair(const char *key, size_t key_len, const char *value, size_t len);
