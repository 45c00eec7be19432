/* rdzvctl's command line, from argv to a struct ctl; its commands and options, and the texts about
 * them. The tables are in commands.py, of which texts.py makes them in C. */
#pragma once

#include "client/ctl_run.h"

struct rdzv_client;

struct ctl_option {
    const char *name;  /* without "--" */
    char letter;       /* 0: none */
    const char *value; /* "FILE"; NULL: it takes none */
    size_t member;     /* where struct ctl has the value, or that it is given; 0: nowhere */
};

struct ctl_command {
    const char *name;   /* NULL: behind the last */
    const char *words;  /* "KEY VALUE", "[RUN]", "KEY..."; "" */
    size_t least, most; /* how many */
    unsigned options;   /* that it takes, 1u << OPTION_... each */
    /* Before it, of its first word, the space and the store; NULL: none. */
    const char *question;
    /* One of both; the other one runs with a client of c10d. */
    enum ctl_exit (*run)(const struct ctl *ctl);
    enum ctl_exit (*run_over_c10d)(const struct ctl *ctl, struct rdzv_client *c);
    enum ctl_exit (*print)(const struct ctl_view *view); /* what run_list() prints with; or NULL */
};

/* "help" with the name "" is about all commands, with a name about that command, without the
 * options of all commands; the text "options" has those. "completion" has the name of a shell.
 * "man" is the manual page. */
struct ctl_text {
    const char *kind, *name; /* "help", "status" */
    const char *text;        /* NULL: behind the last */
};

extern const struct ctl_option ctl_options[OPTION_COUNT_OF_ALL];
extern const struct ctl_command ctl_commands[];
extern const struct ctl_text ctl_texts[];

/* Options may stand before and behind the command and its words; "--" ends them. `environment` is
 * getenv(). False: *error names the fault and the remedy, in one line without its end. With --help,
 * `command` is the help command, and its word is the named command; with --version it is NULL. */
bool options_parse(int argc, char **argv, char *(*environment)(const char *name), struct ctl *out,
                   char *error, size_t error_size);
