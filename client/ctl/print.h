/* What rdzvctl prints: texts (text.c), tables, JSON and YAML (print.c), and runs (status_text.c).
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdio.h>

#include "client/ctl/ctl.h"
#include "proto/queue.h"

/* --- Texts: what came from elsewhere, ages, sizes, names in short. --- */

/* Prints bytes from elsewhere so that they cannot control a terminal: control characters and
 * invalid UTF-8 as \xNN. Of a longer text, it prints `most` bytes and "...". */
void text_safe(FILE *out, const char *bytes, size_t len, size_t most);

/* The same of a text; NULL counts as "". */
void text_put(FILE *out, const char *text, size_t most);

/* True: it is UTF-8 without control characters except tabs and line ends, so it can be printed
 * unchanged. */
bool text_is_plain(const char *bytes, size_t len);

/* Microseconds since 1970 of "2026-11-20T20:58:18.123456Z"; -1: it is no such time. */
int64_t text_time_us(const char *text);

struct short_text {
    char text[64];
};

/* Formatted, and cut off where it does not fit. */
struct short_text text_made(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "3s", "4m10s", "2h05m", "3d4h". */
struct short_text text_age(int64_t us);

/* "512", "3.4 KiB", "1.2 GiB". */
struct short_text text_bytes(double bytes);

/* Names in short: "node-[000-102,104-511]", "alpha", "node-7". Names that differ only in their last
 * number are joined, in order. Two nodes of one host: "alpha (2)". Ends with "and N more" beyond
 * `most` pieces. */
void text_names(FILE *out, const char *const *names, size_t count, size_t most);

/* --- Members of a JSON object. --- */

/* A loop over the items of an array, which may be NULL. */
#define JSON_EACH(item, array) \
    for (cJSON *item = json_first(array); item != NULL; item = item->next)
static inline cJSON *json_first(const cJSON *array)
{
    return array == NULL ? NULL : array->child;
}

/* NULL, 0, and "", if there is none; and a number that is not whole. */
const cJSON *member_item(const cJSON *object, const char *name);
double member_double(const cJSON *object, const char *name);
long member_number(const cJSON *object, const char *name);
const char *member_text(const cJSON *object, const char *name);
/* For how long: "4m10s"; "" if it is not said. */
struct short_text member_age(const cJSON *object, const char *name, int64_t now_us);

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
/* The same of any bytes, of which at most `most` are shown. */
void table_bytes(struct table *t, const char *bytes, size_t len, size_t most);
void table_printf(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the table with its heads, each line behind `indent`, and frees the cells. */
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
void table_add_json(struct table *t, enum text_style style, const cJSON *row);
/* A table of all the rows, printed as by table_print(). `style`: of a row; NULL: plain. */
void table_show(FILE *out, const char *indent, const struct table_column *columns,
                const cJSON *rows, enum text_style (*style)(const cJSON *row), int64_t now_us,
                bool colour);

/* A text; a number, or a dash if there is none; a number, or 0; for how long. */
void cell_text(struct table *t, const cJSON *row, const char *member);
void cell_number(struct table *t, const cJSON *row, const char *member);
void cell_count(struct table *t, const cJSON *row, const char *member);
void cell_age(struct table *t, const cJSON *row, const char *member);
/* Seconds: "2.3s", "4m10s"; a dash if they are not said. */
void cell_took(struct table *t, const cJSON *row, const char *member);
/* "3.4 KiB" */
void cell_bytes(struct table *t, const cJSON *row, const char *member);

/* --- Text, JSON, YAML. --- */

/* Text in a style, if there are colours. */
void text_styled(FILE *out, enum text_style style, bool colour, const char *text);

/* True: `-o json` or `-o yaml` was asked for, and `json` was printed so. */
bool print_structured(const struct ctl *ctl, const cJSON *json);

/* Prints one YAML document; a YAML parser reads the same values back. */
void print_yaml(FILE *out, const cJSON *json);

/* {"key": KEY, "value": "…"}, or "base64" in place of "value" if the value is not UTF-8. The caller
 * gives it to cJSON_Delete(). */
cJSON *print_pair(const char *key, size_t key_len, const char *value, size_t len);

/* --- The answer of /rdzv/v1/status as text: missing nodes and awaited keys on one screen. --- */

/* One run of the space `space`, as an element of "runs". `now_us` is the server's time. */
void status_print_run(FILE *out, const struct ctl *ctl, const char *space, const cJSON *run,
                      int64_t now_us);

/* The keys that clients of a run wait for, or of none; else its workers, if they are news. */
#define STATUS_OVERDUE_US INT64_C(30000000) /* as for the store's event workers_wait */
void status_print_waits(FILE *out, const struct ctl *ctl, const cJSON *owner, int64_t now_us);

/* Prints the orders of operators in the space; of one run, those about it and about nodes. */
void status_print_orders(FILE *out, const struct ctl *ctl, const cJSON *space, int64_t now_us);
/* The keys that clients wait for which belong to no run; prints nothing if there are none. */
void status_print_rest(FILE *out, const struct ctl *ctl, const cJSON *space);

/* "joining", "last call, 12 s left" */
struct short_text status_state(const cJSON *run);
/* "3 of 4": nodes that take part, and how many are wanted, as far as known. */
struct short_text status_nodes(const cJSON *run);
/* A first round: torch does not say how many nodes it waits for, and no --expect does. */
bool status_size_is_unknown(const cJSON *run);
