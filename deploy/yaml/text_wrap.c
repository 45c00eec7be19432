/* Breaks texts at blanks. */
#include "deploy/yaml/text_wrap.h"

#include <string.h>

#define COLUMNS 100

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
