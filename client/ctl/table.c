/* Tables of text with aligned columns, as rdzvctl prints them; see text.h. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/text.h"

#define CELL_MOST 120 /* bytes of one cell that are shown */

static const char *const escapes[] = {
    [STYLE_PLAIN] = "",      [STYLE_BAD] = "\033[1;31m", [STYLE_GOOD] = "\033[32m",
    [STYLE_DIM] = "\033[2m", [STYLE_HEAD] = "\033[1m",
};

static size_t columns_of(const struct table *t)
{
    size_t n = 0;

    while (n < TABLE_COLUMNS && t->heads[n] != NULL)
        n++;
    return n;
}

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

void table_cell(struct table *t, const char *text)
{
    char **cell = &t->cells[(t->rows - 1) * TABLE_COLUMNS + t->at++];
    size_t size;
    FILE *out = ctl_memory(open_memstream(cell, &size));

    if (text == NULL || text[0] == '\0')
        text = "-";
    text_safe(out, text, strlen(text), CELL_MOST);
    fclose(out);
    ctl_memory(*cell);
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

void text_styled(FILE *out, enum text_style style, bool colour, const char *text)
{
    if (colour && style != STYLE_PLAIN)
        fprintf(out, "%s%s\033[0m", escapes[style], text);
    else
        fputs(text, out);
}

/* Of characters, since cells are UTF-8. */
static size_t width(const char *text)
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
        int pad = i + 1 < columns ? (int)(widths[i] - width(cell)) + 2 : 0;

        fprintf(out, "%s%*s", cell, pad, "");
    }
    fputs(styled ? "\033[0m\n" : "\n", out);
}

void table_print(struct table *t, FILE *out, const char *indent, bool colour)
{
    size_t widths[TABLE_COLUMNS] = {0}, columns = columns_of(t);

    for (size_t i = 0; i < columns; i++) {
        widths[i] = width(t->heads[i]);
        for (size_t row = 0; row < t->rows; row++) {
            const char *cell = t->cells[row * TABLE_COLUMNS + i];

            if (cell != NULL && width(cell) > widths[i])
                widths[i] = width(cell);
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
