/* Manifests and user files: any bytes are trees whose places are true and which come back from what
 * is written of them, and settings are a manifest or errors with a remedy. An input that begins
 * with
 * `--set ` is an argument. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/emit/emit_job.h"
#include "deploy/template/files.h"
#include "tests/fuzz/fuzz.h"

/* Trees that aliases make large are looked at in their beginning alone. */
#define WEIGHT_MAX 20000

static void check_errors(const struct diag *d)
{
    CHECK(d->errors > 0 && d->count > 0);
    for (size_t i = 0; i < d->count; i++)
        CHECK(d->entries[i].kind == DIAG_NOTE || strstr(d->entries[i].text, ": ") != NULL ||
              strchr(d->entries[i].text, '?') != NULL);
}

static void check_places(const struct yaml_file *f, const struct yaml_node *n)
{
    CHECK(n->start.offset <= n->end.offset && n->end.offset <= f->len);
    CHECK(n->start.line > 0 && n->start.column > 0);
    for (size_t i = 0; n->kind != YAML_SCALAR && !n->alias && i < n->count; i++) {
        const struct yaml_node *part = n->kind == YAML_MAPPING ? n->pairs[i].value : n->items[i];

        if (n->kind == YAML_MAPPING && n->pairs[i].merged)
            continue;
        CHECK(part->start.offset >= n->start.offset);
        check_places(f, part);
    }
    if (n->kind == YAML_SCALAR && n->style == YAML_PLAIN && !n->alias && n->tag == NULL &&
        n->anchor == NULL && strchr(n->text, ' ') == NULL && strchr(n->text, '\n') == NULL) {
        CHECK(n->end.offset - n->start.offset >= n->len);
        CHECK(memcmp(f->bytes + n->start.offset, n->text, n->len) == 0);
    }
}

static void check_same(const struct yaml_node *a, const struct yaml_node *b)
{
    CHECK(a->kind == b->kind);
    if (a->kind == YAML_SCALAR) {
        enum yaml_type type = a->style == YAML_PLAIN ? yaml_type(a) : YAML_STRING;

        if (type == YAML_STRING)
            CHECK(a->len == b->len && memcmp(a->text, b->text, a->len) == 0);
        if (a->tag == NULL)
            CHECK(type == yaml_type(b));
        return;
    }
    CHECK(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        if (a->kind == YAML_MAPPING) {
            CHECK(strcmp(a->pairs[i].key->text, b->pairs[i].key->text) == 0);
            check_same(a->pairs[i].value, b->pairs[i].value);
        } else {
            check_same(a->items[i], b->items[i]);
        }
    }
}

static void check_written(const struct yaml_node *n)
{
    struct yaml_file file;
    struct diag d = {0};
    struct arena a = {0};
    const char *text = yaml_write(&a, n);

    if (!yaml_file_parse(&file, "written", text, strlen(text), &d)) {
        diag_print(&d, stderr);
        fputs(text, stderr);
        abort();
    }
    CHECK(file.count == 1);
    if (file.docs[0].root != NULL) /* an empty text stands for nothing, as null does */
        check_same(n, file.docs[0].root);
    yaml_file_free(&file);
    diag_free(&d);
    arena_free(&a);
}

static void check_trees(const struct yaml_file *f)
{
    size_t at = 0;

    for (size_t i = 0; i < f->count; i++) {
        const struct yaml_doc *doc = &f->docs[i];

        CHECK(doc->start == at && doc->body >= doc->start && doc->end >= doc->body);
        at = doc->end;
        if (doc->root == NULL)
            continue;
        check_places(f, doc->root);
        if (doc->root->weight <= WEIGHT_MAX && doc->root->tag == NULL)
            check_written(doc->root);
    }
    CHECK(f->count == 0 || at == f->len);
}

static void check_job(const struct userfile *u, struct diag *d)
{
    struct emit_options options = {.release = "r"};
    struct emit_job job = {0};

    if (yaml_get(u->settings, "cluster") == NULL)
        options.release = NULL;
    if (emit_job_make(&job, u, &options, d)) {
        for (size_t i = 0; i < job.documents->count; i++)
            check_written(job.documents->items[i]);
    } else {
        check_errors(d);
    }
    emit_job_free(&job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct yaml_file file;
    struct userfile user = {0};
    struct diag d = {0};

    user.files = arena_alloc(&user.arena, sizeof *user.files);
    user.settings = yaml_new(&user.arena, YAML_MAPPING);
    if (size > 6 && memcmp(data, "--set ", 6) == 0) {
        char *argument = calloc(size - 5, 1); /* with an end, which the input has not */

        CHECK(argument != NULL);
        memcpy(argument, data + 6, size - 6);
        if (userfile_set(&user.arena, &user.settings, argument, &d))
            check_job(&user, &d);
        else
            check_errors(&d);
        free(argument);
    } else if (yaml_file_parse(&file, "input", (const char *)data, size, &d)) {
        check_trees(&file);
        if (userfile_add(&user, &file, &d))
            check_job(&user, &d);
        else
            check_errors(&d);
    } else {
        check_errors(&d);
    }
    userfile_free(&user);
    diag_free(&d);
    return 0;
}
