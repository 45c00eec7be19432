/* The options of a verb: getopt_long(), with its complaints as errors in a diag. */
#pragma once

#include "deploy/yaml/diag.h"

#include <getopt.h>

/* As getopt_long() of argv[1] and the following words, `short_options` beginning with `:`. Starts
 * anew when optind is 0. 0: the option is unknown or lacks its value, and there is an error in d
 * that names the verb, argv[0]. */
int options_next(int argc, char **argv, const char *short_options, const struct option *options,
                 struct diag *d);

/* An error of the command line: `format` has what is wrong and, after a colon, the remedy. */
#define options_error(d, ...) diag_error(d, NULL, (struct yaml_mark){0}, __VA_ARGS__)
