/* The verb import: any bytes are a bundle of one file of which a user file is made, or which is
 * refused with a place and a remedy. What comes out is YAML, and emit takes it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/emit/emit_job.h"
#include "deploy/import/import.h"
#include "tests/fuzz/fuzz.h"

static void check_errors(const struct diag *d)
{
    CHECK(d->errors > 0);
    for (size_t i = 0; i < d->count; i++)
        CHECK(d->entries[i].kind == DIAG_NOTE || strstr(d->entries[i].text, ": ") != NULL ||
              strchr(d->entries[i].text, '?') != NULL);
}

/* The text is a user file. */
static void emit_text(const char *text, size_t len)
{
    struct userfile user = {.first = "user"};
    struct emit_options options = {.input_format = "own"};
    struct yaml_file file;
    struct emit_job job;
    struct diag d = {0};

    CHECK(yaml_file_parse(&file, "user", text, len, &d));
    CHECK(file.count == 1);
    user.settings = file.docs[0].root;
    CHECK(emit_job_make(&job, &user, &options, &d));
    emit_job_free(&job);
    yaml_file_free(&file);
    diag_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diag d = {0};
    struct importer m = {.diag = &d};
    struct yaml_file file;

    m.files = &file;
    if (yaml_file_parse(&file, "file", (const char *)data, size, &d)) {
        m.file_count = 1;
        if (import_look(&m) && import_run(&m)) {
            const char *text = yaml_write(&m.arena, m.settings);

            emit_text(text, strlen(text));
        } else {
            check_errors(&d);
        }
        yaml_file_free(&file);
    }
    kube_free(&m.bundle);
    arena_free(&m.arena);
    diag_free(&d);
    return 0;
}
