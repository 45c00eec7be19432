/* Runs a fuzzer's entry over files, and over the files in folders, so that a corpus is also a plain
 * test under any compiler. Names each file before it is run: the last name is the one that failed.
 *
 *   replay FILE_OR_FOLDER...    exit code 0: all files were run; 2: no files were found */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static size_t files_run;

static void fail(const char *path)
{
    fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
    exit(2);
}

static void run_file(const char *path, size_t size)
{
    uint8_t *data = malloc(size == 0 ? 1 : size); /* the exact size, for ASan */
    FILE *f = fopen(path, "rb");

    if (data == NULL || f == NULL || fread(data, 1, size, f) != size)
        fail(path);
    fclose(f);
    fprintf(stderr, "replay: %s\n", path);
    LLVMFuzzerTestOneInput(data, size);
    files_run++;
    free(data);
}

static void run_path(const char *path);

static void run_folder(const char *path)
{
    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort); /* the same order everywhere */

    if (count < 0)
        fail(path);
    for (int i = 0; i < count; i++) {
        char *inner = NULL;

        if (names[i]->d_name[0] != '.') {
            if (asprintf(&inner, "%s/%s", path, names[i]->d_name) < 0)
                fail(path);
            run_path(inner);
        }
        free(inner);
        free(names[i]);
    }
    free(names);
}

static void run_path(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        fail(path);
    if (S_ISDIR(st.st_mode))
        run_folder(path);
    else
        run_file(path, (size_t)st.st_size);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run_path(argv[i]);
    fprintf(stderr, "replay: %zu inputs passed\n", files_run);
    return files_run > 0 ? 0 : 2;
}
