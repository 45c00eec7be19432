/* The verb rewrite: any bytes are a bundle of one file that is rewritten, left, or refused with a
 * place and a remedy. Bytes outside of the edits stay; what comes out is YAML, is settled (a second
 * time changes nothing), and can be shown as a diff. The first byte chooses the options. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/rewrite/rewrite.h"
#include "deploy/yaml/text_edit.h"
#include "tests/fuzz/fuzz.h"

static void check_errors(const struct diag *d)
{
    CHECK(d->errors > 0 && d->count > 0);
    for (size_t i = 0; i < d->count; i++)
        CHECK(d->entries[i].kind == DIAG_NOTE || strstr(d->entries[i].text, ": ") != NULL ||
              strchr(d->entries[i].text, '?') != NULL);
}

/* What lies between the edits is what lay there. */
static void check_rest(const struct rewrite_file *f)
{
    size_t old_at = 0, new_at = 0;

    for (size_t i = 0; i <= f->edits.count; i++) {
        const struct text_edit *e = i < f->edits.count ? &f->edits.list[i] : NULL;
        size_t old_end = e == NULL ? f->yaml.len : e->at, between = old_end - old_at;

        CHECK(old_end >= old_at && f->result.len - new_at >= between);
        CHECK(memcmp(f->yaml.bytes + old_at, f->result.text + new_at, between) == 0);
        new_at += between;
        if (e != NULL) {
            CHECK(strncmp(f->result.text + new_at, e->text, strlen(e->text)) == 0);
            old_at = e->at + e->len;
            new_at += strlen(e->text);
        }
    }
    CHECK(new_at == f->result.len);
}

static void check_diff(const struct rewrite_file *f)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    CHECK(out != NULL);
    text_diff_print(out, "file", f->yaml.bytes, f->yaml.len, f->result.text, f->result.len);
    fclose(out);
    CHECK((size > 0) == rewrite_changed(f));
    free(text);
}

/* `again`: these bytes were rewritten already. */
static void rewrite_bytes(const struct rewrite_options *options, const char *bytes, size_t len,
                          bool again)
{
    struct diag d = {0};
    struct rewrite_file file = {.path = "input"};
    struct rewrite w = {.diag = &d, .options = options, .files = &file, .file_count = 1};

    if (!yaml_file_parse(&file.yaml, "input", bytes, len, &d)) {
        w.file_count = 0;
        CHECK(!again);
        check_errors(&d);
    } else if (!rewrite_look(&w)) {
        CHECK(!again);
        check_errors(&d);
    } else {
        rewrite_run(&w);
        if (d.errors > 0) {
            check_errors(&d);
        } else if (again) {
            CHECK(!rewrite_changed(w.files));
        } else {
            check_rest(w.files);
            check_diff(w.files);
            if (rewrite_changed(w.files))
                rewrite_bytes(options, w.files->result.text, w.files->result.len, true);
        }
    }
    rewrite_free(&w);
    diag_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rewrite_options options = {.image = "registry.example/rdzvd:1"};

    if (size == 0)
        return 0;
    options.keep_backend = (data[0] & 1) != 0;
    options.keep_kind = (data[0] & 2) != 0;
    options.agent_store = (data[0] & 4) != 0;
    options.from_c10d = (data[0] & 8) != 0;
    options.from_etcd = (data[0] & 16) != 0;
    rewrite_bytes(&options, (const char *)data + 1, size - 1, false);
    return 0;
}
