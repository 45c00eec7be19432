/* Answers of rdzvctl: tables with aligned columns, JSON, YAML; see print.h. */
#include "client/ctl/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base64.h"

/* --- Members of a JSON object. --- */

const cJSON *member_item(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

double member_double(const cJSON *object, const char *name)
{
    const cJSON *item = member_item(object, name);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

long member_number(const cJSON *object, const char *name)
{
    return (long)member_double(object, name);
}

const char *member_text(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(member_item(object, name));

    return text == NULL ? "" : text;
}

struct short_text member_age(const cJSON *object, const char *name, int64_t now_us)
{
    int64_t then = text_time_us(member_text(object, name));

    return then < 0 ? (struct short_text){""} : text_age(now_us - then);
}

/* --- Tables. --- */

#define CELL_MOST 200 /* bytes of one cell that are shown */

static const char *const escapes[] = {
    [STYLE_PLAIN] = "",
    [STYLE_BAD] = "\033[1;31m",
    [STYLE_GOOD] = "\033[32m",
    [STYLE_HEAD] = "\033[1m",
};

void table_row(struct table *t, enum text_style style)
{
    if (t->rows == t->cap) {
        t->cap = t->cap * 2 + 16;
        t->cells = ctl_memory(reallocarray(t->cells, t->cap * TABLE_COLUMNS, sizeof *t->cells));
        t->styles = ctl_memory(reallocarray(t->styles, t->cap, sizeof *t->styles));
    }
    memset(t->cells + t->rows * TABLE_COLUMNS, 0, TABLE_COLUMNS * sizeof *t->cells);
    t->styles[t->rows++] = style;
    t->at = 0;
}

void table_bytes(struct table *t, const char *bytes, size_t len, size_t most)
{
    char **cell = &t->cells[(t->rows - 1) * TABLE_COLUMNS + t->at++];
    size_t size;
    FILE *out = ctl_memory(open_memstream(cell, &size));

    if (len == 0)
        fputc('-', out);
    text_safe(out, bytes, len, most);
    fclose(out);
    ctl_memory(*cell);
}

void table_cell(struct table *t, const char *text)
{
    table_bytes(t, text, text == NULL ? 0 : strlen(text), CELL_MOST);
}

void table_printf(struct table *t, const char *format, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    table_cell(t, ctl_memory(text));
    free(text);
}

/* Of characters, since cells are UTF-8. */
static size_t text_width(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void print_line(FILE *out, const char *indent, const char *const *cells, size_t columns,
                       const size_t *widths, enum text_style style, bool colour)
{
    bool styled = colour && style != STYLE_PLAIN;

    fputs(indent, out);
    if (styled)
        fputs(escapes[style], out);
    for (size_t i = 0; i < columns; i++) {
        const char *cell = cells[i] == NULL ? "-" : cells[i];
        int pad = i + 1 < columns ? (int)(widths[i] - text_width(cell)) + 2 : 0;

        fprintf(out, "%s%*s", cell, pad, "");
    }
    fputs(styled ? "\033[0m\n" : "\n", out);
}

void table_print(struct table *t, FILE *out, const char *indent, bool colour)
{
    size_t widths[TABLE_COLUMNS] = {0}, columns = 0;

    while (columns < TABLE_COLUMNS && t->heads[columns] != NULL)
        columns++;
    for (size_t i = 0; i < columns; i++) {
        widths[i] = text_width(t->heads[i]);
        for (size_t row = 0; row < t->rows; row++) {
            const char *cell = t->cells[row * TABLE_COLUMNS + i];

            if (cell != NULL && text_width(cell) > widths[i])
                widths[i] = text_width(cell);
        }
    }
    print_line(out, indent, t->heads, columns, widths, STYLE_HEAD, colour);
    for (size_t row = 0; row < t->rows; row++)
        print_line(out, indent, (const char *const *)t->cells + row * TABLE_COLUMNS, columns,
                   widths, t->styles[row], colour);
    for (size_t i = 0; i < t->rows * TABLE_COLUMNS; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t->styles);
    t->cells = NULL;
    t->styles = NULL;
    t->rows = t->cap = 0;
}

/* --- Tables whose rows are JSON objects. --- */

void table_begin(struct table *t, const struct table_column *columns, int64_t now_us)
{
    *t = (struct table){.columns = columns, .now_us = now_us};
    for (size_t i = 0; columns[i].head != NULL; i++)
        t->heads[i] = columns[i].head;
}

void table_add_json(struct table *t, enum text_style style, const cJSON *row)
{
    table_row(t, style);
    for (const struct table_column *c = t->columns; c->head != NULL; c++)
        c->cell(t, row, c->member);
}

void table_show(FILE *out, const char *indent, const struct table_column *columns,
                const cJSON *rows, enum text_style (*style)(const cJSON *row), int64_t now_us,
                bool colour)
{
    struct table t;

    table_begin(&t, columns, now_us);
    JSON_EACH(row, rows)
        table_add_json(&t, style == NULL ? STYLE_PLAIN : style(row), row);
    table_print(&t, out, indent, colour);
}

void cell_text(struct table *t, const cJSON *row, const char *member)
{
    table_cell(t, member_text(row, member));
}

void cell_count(struct table *t, const cJSON *row, const char *member)
{
    table_printf(t, "%ld", member_number(row, member));
}

void cell_number(struct table *t, const cJSON *row, const char *member)
{
    if (cJSON_HasObjectItem(row, member))
        cell_count(t, row, member);
    else
        table_cell(t, NULL);
}

void cell_age(struct table *t, const cJSON *row, const char *member)
{
    table_cell(t, member_age(row, member, t->now_us).text);
}

void cell_bytes(struct table *t, const cJSON *row, const char *member)
{
    table_cell(t, text_bytes((double)member_number(row, member)).text);
}

/* --- Text, JSON, YAML. --- */

void text_styled(FILE *out, enum text_style style, bool colour, const char *text)
{
    if (colour && style != STYLE_PLAIN)
        fprintf(out, "%s%s\033[0m", escapes[style], text);
    else
        fputs(text, out);
}

/* A scalar of JSON is valid YAML; strings always have quotes. */
static void yaml_scalar(FILE *out, const cJSON *json)
{
    char *text = ctl_memory(cJSON_PrintUnformatted(json));

    fputs(text, out);
    fputc('\n', out);
    cJSON_free(text);
}

static void yaml_value(FILE *out, const cJSON *json, int depth);

static void yaml_key(FILE *out, const char *name)
{
    if (name[0] != '\0' && strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name)) {
        fputs(name, out);
    } else {
        cJSON *quoted = ctl_memory(cJSON_CreateString(name));
        char *text = ctl_memory(cJSON_PrintUnformatted(quoted));

        fputs(text, out);
        cJSON_free(text);
        cJSON_Delete(quoted);
    }
    fputc(':', out);
}

/* The first member of an object within a list stands behind the "- ". */
static void yaml_members(FILE *out, const cJSON *json, int depth, bool first_is_indented)
{
    JSON_EACH(item, json) {
        if (item != json->child || !first_is_indented)
            fprintf(out, "%*s", depth * 2, "");
        if (cJSON_IsObject(json))
            yaml_key(out, item->string);
        else
            fputc('-', out);
        if (cJSON_IsArray(json) && cJSON_IsObject(item) && item->child != NULL) {
            fputc(' ', out);
            yaml_members(out, item, depth + 1, true);
        } else {
            yaml_value(out, item, depth + 1);
        }
    }
}

/* Behind a "name:" or a "-". */
static void yaml_value(FILE *out, const cJSON *json, int depth)
{
    if ((cJSON_IsObject(json) || cJSON_IsArray(json)) && json->child != NULL) {
        fputc('\n', out);
        yaml_members(out, json, depth, false);
    } else {
        fputc(' ', out);
        yaml_scalar(out, json);
    }
}

void print_yaml(FILE *out, const cJSON *json)
{
    if ((cJSON_IsObject(json) || cJSON_IsArray(json)) && json->child != NULL)
        yaml_members(out, json, 0, false);
    else
        yaml_scalar(out, json);
}

bool print_structured(const struct ctl *ctl, const cJSON *json)
{
    char *text;

    if (ctl->output == OUTPUT_YAML) {
        if (ctl->watch)
            puts("---");
        print_yaml(stdout, json);
        return true;
    }
    if (ctl->output != OUTPUT_JSON)
        return false;
    text = ctl_memory(ctl->watch ? cJSON_PrintUnformatted(json) : cJSON_Print(json));
    puts(text);
    cJSON_free(text);
    return true;
}

static void add_text_or_base64(cJSON *object, const char *plain_name, const char *base64_name,
                               const char *bytes, size_t len)
{
    bool plain = text_is_plain(bytes, len);
    char *text = ctl_memory(calloc(1, (plain ? len : base64_size(len)) + 1));

    if (plain)
        memcpy(text, bytes, len);
    else
        base64_encode((struct slice){(const uint8_t *)bytes, len}, (uint8_t *)text);
    cJSON_AddStringToObject(object, plain ? plain_name : base64_name, text);
    free(text);
}

cJSON *print_pair(const char *key, size_t key_len, const char *value, size_t len)
{
    cJSON *object = ctl_memory(cJSON_CreateObject());

    add_text_or_base64(object, "key", "key_base64", key, key_len);
    add_text_or_base64(object, "value", "base64", value, len);
    return object;
}
