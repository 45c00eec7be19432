/* Texts in lines of at most 100 columns, for a terminal. */
#pragma once

#include <stdio.h>

/* Prints the words of the text behind `indent` blanks, as many on a line as fit, and ends the last
 * line. `label` (NULL: none) is printed into the first `indent` columns. */
void text_wrap(FILE *out, const char *label, int indent, const char *text);
