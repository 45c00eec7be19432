/* The words of commands, and a shell script as such words, each with its place in the text. Nothing
 * is expanded, nothing runs. A text that no shell accepts is read as far as possible. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* A word of a command, or a part of one: from a list in YAML, or from a script in a scalar. */
struct arg_word {
    const char *text; /* NUL-terminated; without quotes of the shell and continued lines */
    size_t len;
    const struct yaml_node *node; /* the scalar that contains it, or NULL */
    const size_t *at;  /* text[i] is byte at[i] of the scalar's text, and at[len] is `end`; NULL: it
                          is byte start + i */
    size_t start, end; /* in the scalar's text, quotes included */
    bool shell;        /* a shell reads it and expands it */
    bool expands;      /* the shell replaces something in it: a $ or ` outside single quotes */
    bool single;       /* it is known to become one word, and no option */
};

/* All of a scalar. */
struct arg_word arg_word_of(const struct yaml_node *scalar);
/* The part of a word after its first `from` bytes. */
struct arg_word arg_word_from(const struct arg_word *word, size_t from);

/* Redirections and comments are left out. Words such as `then` and `exec` are ordinary first
 * words. */
struct shell_command {
    struct arg_word *words;
    size_t count, cap;
    bool maybe; /* behind && or ||: runs only if the previous command succeeds or fails */
    bool pipes; /* its output goes to the next command */
    struct arg_word target;  /* or into this file; text NULL: into none */
    struct arg_word heredoc; /* the text behind `<<` or `<<<`; text NULL: none */
};

struct shell_script {
    struct shell_command *commands;
    size_t count, cap;
    bool active;      /* a shell does more than split it into words: there is an operator, a
                         pattern, an expansion or a comment, or quotes do not end */
    size_t first_end; /* of the first command, also an empty one: the byte of the newline or
                         operator, or `len` */
    size_t open;      /* the byte that begins a quote or substitution which does not end, or the
                         backslash at the end of the last line; `len`: there is none */
};

/* Reads a word, or a whole scalar, as a script; the words say where they stand in its scalar. *out
 * lies in the arena, and does not point into the text. */
void shell_read(struct arena *a, const struct arg_word *script, struct shell_script *out);

/* The word as a shell reads it: in quotes where it needs them. */
const char *shell_quote(struct arena *a, const char *word);
