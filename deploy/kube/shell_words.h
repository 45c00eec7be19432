/* A shell script as the words of its commands, each with its place in the text. Expands nothing and
 * runs nothing; text that no shell would take is read as far as it goes. */
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

/* Redirections and comments are left out. Words like `then` and `exec` begin a command as others
 * do. */
struct shell_command {
    struct shell_word *words;
    size_t count, cap;
};

struct shell_script {
    struct shell_command *commands;
    size_t count, cap;
};

/* What lies in *out is the arena's, and borrows nothing of the text. */
void shell_read(struct arena *a, const char *text, size_t len, struct shell_script *out);
