/* Settings files: any bytes are settings or an error with a place, and settings in effect, printed
 * by --check-config, are a file that gives the same settings again. An input is a file; it is read
 * both as our own (--config) and as etcd's (--config-file). */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rdzv/config/config.h"
#include "rdzv/config/config_file.h"
#include "tests/fuzz/fuzz.h"

/* What the parser of files itself promises. */
static void check_bytes(const uint8_t *data, size_t size)
{
    struct config_file file;
    struct config_file_error error;

    if (config_file_parse(data, size, &file, &error)) {
        for (size_t i = 0; i < file.count; i++) {
            CHECK(file.entries[i].at.line > 0 && file.entries[i].at.column > 0);
            CHECK(file.entries[i].list || file.entries[i].count <= 1);
            for (size_t j = 0; j < file.entries[i].count; j++)
                CHECK(file.entries[i].values[j].text != NULL);
        }
        config_file_free(&file);
    } else {
        CHECK(error.at.line > 0 && error.at.column > 0);
        CHECK(error.text[0] != '\0' && strlen(error.text) < sizeof error.text);
    }
}

/* Parses a command line whose one flag reads the file of these bytes. */
static bool parse_bytes(const char *flag, const uint8_t *data, size_t size, struct config *config,
                        struct config_error *error)
{
    char path[64], *argv[] = {(char *)(uintptr_t) "rdzvd", path, NULL};
    char *environment[] = {NULL};
    int fd = memfd_create("settings", MFD_CLOEXEC);
    bool ok;

    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "--%s=/proc/self/fd/%d", flag, fd);
    ok = config_parse(2, argv, environment, config, error);
    close(fd);
    return ok;
}

static char *effective(const struct config *config, size_t *len)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, len);

    CHECK(out != NULL);
    config_write_effective(out, config);
    CHECK(fclose(out) == 0);
    return text;
}

static void check_settings(const char *flag, const uint8_t *data, size_t size)
{
    struct config config, again;
    struct config_error error;
    char *first, *second;
    size_t first_len, second_len;

    if (!parse_bytes(flag, data, size, &config, &error)) {
        CHECK(error.exit_code == 1 || error.exit_code == 2);
        CHECK(error.text[0] != '\0' && strchr(error.text, '\n') == NULL);
        return;
    }
    CHECK(config.listener_count > 0);
    first = effective(&config, &first_len);
    if (!parse_bytes("config", (const uint8_t *)first, first_len, &again, &error)) {
        fprintf(stderr, "%s\n%s\n", error.text, first);
        abort();
    }
    second = effective(&again, &second_len);
    CHECK(first_len == second_len && memcmp(first, second, first_len) == 0);
    free(first);
    free(second);
    config_free(&config);
    config_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096)
        return 0;
    check_bytes(data, size);
    check_settings("config", data, size);
    check_settings("config-file", data, size);
    return 0;
}
