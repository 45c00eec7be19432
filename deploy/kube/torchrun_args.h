/* The options of torchrun among the words of a command, each with the place of its value. It
 * accepts what torch 1.9 to 2.14 accept: - or _ in names, `=` or a blank before the value, unique
 * abbreviations. */
#pragma once

#include "deploy/yaml/arena.h"
#include "deploy/yaml/yaml_doc.h"

#include <stdbool.h>
#include <stddef.h>

/* One word of a command, from a list in YAML or from a script in one of its scalars. */
struct arg_word {
    const char *text; /* NUL-terminated; quotes of the shell are gone */
    size_t len;
    const struct yaml_node *node; /* the scalar that contains it */
    const size_t *at;             /* text[i] is byte at[i] of the scalar's text; NULL: byte i */
    size_t start, end;            /* in the scalar's text, quotes included */
    bool shell;                   /* a shell reads it and expands it */
    bool expands;                 /* it contains an expansion */
};

/* A piece of a scalar, and its place. */
struct arg_text {
    const char *text;
    const struct yaml_node *node;
    const size_t *at;  /* as in arg_word */
    size_t start, end; /* in the text of the node; quotes of the shell included */
    bool shell, expands;
};

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

/* "rdzv_endpoint" */
const char *torchrun_option_name(enum torchrun_option option);

struct torchrun_flag {
    enum torchrun_option option;
    struct arg_text flag;  /* the word with the name, `--rdzv-id=...` */
    struct arg_text value; /* text NULL: it has none */
    bool separate;         /* the value is a word of its own */
    enum torchrun_option
        of_accelerate;   /* to `accelerate launch`; TORCHRUN_UNKNOWN: nothing known */
    const char *nearest; /* if it is unknown: the option that was probably meant, or NULL */
};

struct torchrun_args {
    struct arg_text command; /* the word `torchrun`, or the module's name behind -m */
    struct torchrun_flag *flags;
    size_t count;
    const struct arg_word *program; /* the training script, or NULL */
    bool is_other;                  /* the words start another program, which starts torch itself */
    bool is_accelerate;             /* and that is `accelerate launch` */
    bool opaque;                    /* there is a word like $FLAGS, which may hold more options */
};

/* Whether the words start `accelerate launch`. */
bool torchrun_is_accelerate(const struct arg_word *words, size_t count);

/* The index after the word that is torchrun; 0 if the words do not start it. */
size_t torchrun_find(const struct arg_word *words, size_t count);

/* The index of the first word that is a rendezvous option of torchrun, or count. A program with
 * such an option passes it on to torchrun, whatever its name is. */
size_t torchrun_find_option(const struct arg_word *words, size_t count);

/* Reads the words from words[first] on. */
void torchrun_parse(struct arena *a, const struct arg_word *words, size_t count, size_t first,
                    struct torchrun_args *out);

/* The part of a word after its first `from` bytes. */
struct arg_text arg_text_of(const struct arg_word *word, size_t from);
