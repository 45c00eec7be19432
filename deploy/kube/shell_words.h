/* A shell script as the words of its commands, each with its place in the text. Nothing is
 * expanded, nothing runs. A text that no shell accepts is read as far as possible. */
#pragma once

#include "deploy/yaml/arena.h"

#include <stdbool.h>
#include <stddef.h>

struct shell_word {
    size_t start, end; /* its bytes in the script, quotes included */
    const char *text;  /* without quotes and continued lines; expansions stay as they are written */
    size_t len;
    const size_t *at; /* text[i] is byte at[i] of the script; at[len] is `end` */
    bool expands;     /* the shell replaces something in it: a $ or ` outside single quotes */
};

/* Redirections and comments are left out. Words such as `then` and `exec` are ordinary first
 * words. */
struct shell_command {
    struct shell_word *words;
    size_t count, cap;
    bool maybe; /* it is behind && or ||, and runs only if the one before it succeeds, or fails */
};

struct shell_script {
    struct shell_command *commands;
    size_t count, cap;
};

/* *out lies in the arena, and does not point into the text. */
void shell_read(struct arena *a, const char *text, size_t len, struct shell_script *out);

/* The word as a shell reads it: in quotes where it needs them. */
const char *shell_quote(struct arena *a, const char *word);
