/* Starts of the daemon for tests: command line, environment and file, in a folder of the test's
 * own. */
#pragma once

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdzv/config/config.h"

#define WORDS_MAX 12

/* A command line: its words, the environment, and what rdzvd.yaml in the working directory holds
 * (NULL: nothing is written). */
struct start {
    const char
        *words[WORDS_MAX]; /* argv[0] is "rdzvd", unless the first word starts with a slash */
    const char *environment[WORDS_MAX];
    const char *file;
};

static char folder[] = "/tmp/rdzv-config-XXXXXX";

static inline int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : chdir(folder);
}

static inline int leave_folder(void **state)
{
    (void)state;
    unlink("rdzvd.yaml");
    return chdir("/") == 0 ? rmdir(folder) : -1;
}

static inline void write_file(const char *text, size_t len)
{
    int fd = open("rdzvd.yaml", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

static inline bool parse(const struct start *start, struct config *config,
                         struct config_error *error)
{
    char *argv[WORDS_MAX + 2] = {(char *)(uintptr_t) "rdzvd"};
    int argc = 1;

    if (start->words[0] != NULL && start->words[0][0] == '/')
        argc = 0;
    for (size_t i = 0; i < WORDS_MAX && start->words[i] != NULL; i++)
        argv[argc++] = (char *)(uintptr_t)start->words[i];
    if (start->file != NULL)
        write_file(start->file, strlen(start->file));
    return config_parse(argc, argv, (char *const *)(uintptr_t)start->environment, config, error);
}

static inline void parse_well(const struct start *start, struct config *config)
{
    struct config_error error;

    if (!parse(start, config, &error))
        fail_msg("refused: %s", error.text);
}
