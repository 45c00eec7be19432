/* The one table of rdzvctl's commands and options: the parser, --help, the manual page and the
 * completions of shells all come from it. */
#pragma once

#include "client/ctl/ctl.h"

/* What a word stands for, so that shells can complete it. */
enum ctl_word {
    WORD_NONE,
    WORD_RUN,
    WORD_SPACE,
    WORD_KEY,
    WORD_COMMAND,
    WORD_SHELL,
    WORD_FILE,
    WORD_OUTPUT
};

enum ctl_option_id {
    OPTION_SERVER,
    OPTION_SPACE,
    OPTION_TOKEN_FILE,
    OPTION_CACERT,
    OPTION_CERT,
    OPTION_KEY,
    OPTION_TLS_SERVER_NAME,
    OPTION_OUTPUT,
    OPTION_TIMEOUT,
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_WATCH,
    OPTION_INTERVAL,
    OPTION_COUNT,
    OPTION_WAIT,
    OPTION_RAW,
    OPTION_YES,
    OPTION_READY,
    OPTION_MAN,
    OPTION_COUNT_OF_ALL,
};

/* Those that every command takes. */
#define OPTIONS_OF_TLS \
    (1u << OPTION_CACERT | 1u << OPTION_CERT | 1u << OPTION_KEY | 1u << OPTION_TLS_SERVER_NAME)
#define OPTIONS_OF_ALL                                                                          \
    (1u << OPTION_SERVER | 1u << OPTION_SPACE | 1u << OPTION_TOKEN_FILE | 1u << OPTION_OUTPUT | \
     1u << OPTION_TIMEOUT | 1u << OPTION_HELP | 1u << OPTION_VERSION | OPTIONS_OF_TLS)

struct ctl_option {
    const char *name;  /* without "--" */
    char letter;       /* 0: none */
    const char *value; /* "FILE"; NULL: it takes none */
    const char *help;
    enum ctl_word word;
};

struct ctl_example {
    const char *command; /* without "rdzvctl " */
    const char *about;
};

struct ctl_command {
    const char *name;
    const char *words;  /* "KEY VALUE", "[RUN]", "KEY..."; "" */
    size_t least, most; /* how many */
    enum ctl_word word; /* what the first ones are */
    unsigned options;   /* 1u << OPTION_... each, those of all left out */
    const char *summary;
    const char *about; /* paragraphs, an empty line between them */
    struct ctl_example examples[4];
    enum ctl_exit (*run)(const struct ctl *ctl);
};

extern const struct ctl_option ctl_options[OPTION_COUNT_OF_ALL];
extern const struct ctl_command ctl_commands[];
extern const size_t ctl_command_count;

/* NULL: there is none. */
const struct ctl_command *command_find(const char *name);
