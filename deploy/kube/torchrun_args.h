/* The options of torchrun among the words of a command, each with the place of its value. It
 * accepts what torch 1.9 to 2.14 accept: - or _ in names, `=` or a blank before the value, unique
 * abbreviations. */
#pragma once

#include "deploy/yaml/shell_words.h"

enum torchrun_option {
    TORCHRUN_NNODES,
    TORCHRUN_NPROC_PER_NODE,
    TORCHRUN_RDZV_BACKEND,
    TORCHRUN_RDZV_ENDPOINT,
    TORCHRUN_RDZV_ID,
    TORCHRUN_RDZV_CONF,
    TORCHRUN_STANDALONE, /* takes no value */
    TORCHRUN_MAX_RESTARTS,
    TORCHRUN_NODE_RANK,
    TORCHRUN_MASTER_ADDR,
    TORCHRUN_MASTER_PORT,
    TORCHRUN_LOCAL_ADDR,
    TORCHRUN_OTHER,   /* known, but not used here */
    TORCHRUN_UNKNOWN, /* torchrun does not accept it */
};
#define TORCHRUN_OPTIONS TORCHRUN_OTHER

/* Lists of data/words.yaml, which says what each has; NULL ends a list. The options and variables
 * of the enum are the first, in its order: "rdzv_endpoint" and "PET_RDZV_ENDPOINT". */
extern const char *const torchrun_options[], *const torchrun_variables[];
extern const char *const torchrun_switches[], *const command_talkers[];

/* The option that the variable sets; TORCHRUN_UNKNOWN: none. */
enum torchrun_option torchrun_option_of_variable(const char *variable);

struct torchrun_flag {
    enum torchrun_option option;
    struct arg_word flag;  /* the word with the name, `--rdzv-id=...` */
    struct arg_word value; /* text NULL: it has none */
    bool separate;         /* the value is a word of its own */
    enum torchrun_option
        of_accelerate;   /* to `accelerate launch`; TORCHRUN_UNKNOWN: nothing known */
    const char *nearest; /* if it is unknown: the option that was probably meant, or NULL */
};

struct torchrun_args {
    struct arg_word command; /* the word `torchrun`, or the module's name behind -m */
    struct torchrun_flag *flags;
    size_t count;
    const struct arg_word *program; /* the training script, or NULL */
    bool is_other;                  /* the words start another program, which starts torch itself */
    bool is_accelerate;             /* and that is `accelerate launch` */
    bool opaque;                    /* there may be more options than these */
    const struct arg_word *unread;  /* the word that may hold them, such as $FLAGS, or NULL */
};

/* The index after `launch` of `accelerate launch`; 0 if the words do not start it. */
size_t torchrun_find_accelerate(const struct arg_word *words, size_t count);

/* The index after the word that is torchrun; 0 if the words do not start it. */
size_t torchrun_find(const struct arg_word *words, size_t count);

/* Where the options of torchrun begin, if one of the rendezvous is among them; else count. A
 * program with such an option passes it on to torchrun, whatever its name is. */
size_t torchrun_find_option(const struct arg_word *words, size_t count);

/* Reads the words from words[first] on. */
void torchrun_parse(struct arena *a, const struct arg_word *words, size_t count, size_t first,
                    struct torchrun_args *out);
