/* rdzvctl's command line, from argv to a struct ctl. */
#pragma once

#include "client/ctl/ctl.h"

/* Options may stand before and behind the command and its words; "--" ends them. `environment` is
 * getenv(). False: *error says what is wrong and what to do, one line without its end. With --help,
 * `command` is that of help, whose word is the command; with --version it is NULL. */
bool options_parse(int argc, char **argv, char *(*environment)(const char *name), struct ctl *out,
                   char *error, size_t error_size);

/* "500ms", "5s", "2m", "1h", "1.5s". */
bool options_duration(const char *text, int64_t *ms);
