/* The options of a verb: getopt_long(), with its complaints as errors in a diag. */
#pragma once

#include "deploy/yaml/diag.h"

#include <getopt.h>

/* A table for getopt_long(); each `val` is another letter. */
struct verb_options {
    const char *letters; /* those that are options, too: -f. It begins with `:` */
    const struct option *names;
};

/* The next option of argv[1] and the following words, and then -1; starts anew when optind is 0. 0:
 * the option is unknown, lacks its value or has one too many, and there is an error in d that names
 * the verb, argv[0]. */
int options_next(int argc, char **argv, const struct verb_options *options, struct diag *d);

/* An error of the command line, or a note about the whole input: `format` has what is wrong and,
 * after a colon, the remedy. */
#define options_error(d, ...) diag_error(d, NULL, (struct yaml_mark){0}, __VA_ARGS__)
#define options_note(d, ...)  diag_note(d, NULL, (struct yaml_mark){0}, __VA_ARGS__)

/* The files behind the options; without any, standard input, unless that is a terminal: then 0, and
 * an error in d. Returns how many. */
size_t options_files(int argc, char **argv, char ***files, struct diag *d);
