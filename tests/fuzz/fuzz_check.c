/* The verb check: any bytes are manifests or an error with a place; all rules look at them, what
 * they find has a place inside the file, and each form of output holds it. Bytes of scalars are
 * found where they stand, and words of scripts where scalar_position() says. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/check/check.h"
#include "deploy/check/check_verb.h"
#include "deploy/yaml/shell_words.h"
#include "deploy/yaml/yaml_doc.h"
#include "tests/fuzz/fuzz.h"

/* Trees that aliases make large take their time, and show nothing new. */
#define WEIGHT_MAX 20000

/* A byte that the styles write as it is. (A file with other characters may have more kinds of line
 * ends.) */
static bool stands_as_it_is(enum yaml_style style, char c)
{
    return c > ' ' && c != '\'' && c < 0x7f &&
           (style == YAML_PLAIN || style == YAML_SINGLE || style == YAML_LITERAL);
}

static void check_scalar(const struct yaml_file *f, const struct yaml_node *n, bool ascii)
{
    size_t step = n->len / 50 + 1;

    for (size_t at = 0; at <= n->len; at += step) {
        struct yaml_mark mark = scalar_position(f, n, at);

        CHECK(mark.offset <= f->len && mark.offset >= n->start.offset);
        CHECK(mark.line >= n->start.line && mark.column > 0);
        if (ascii && !n->alias && at < n->len && stands_as_it_is(n->style, n->text[at]))
            CHECK(f->bytes[mark.offset] == n->text[at]);
    }
}

static void check_node(const struct yaml_file *f, const struct yaml_node *n, bool ascii, int depth)
{
    if (n == NULL || n->alias || depth > YAML_DEPTH_MAX)
        return;
    if (n->kind == YAML_SCALAR)
        check_scalar(f, n, ascii);
    for (size_t i = 0; i < n->count && n->kind == YAML_SEQUENCE; i++)
        check_node(f, n->items[i], ascii, depth + 1);
    for (size_t i = 0; i < n->count && n->kind == YAML_MAPPING; i++) {
        if (n->pairs[i].merged)
            continue;
        check_node(f, n->pairs[i].key, ascii, depth + 1);
        check_node(f, n->pairs[i].value, ascii, depth + 1);
    }
}

/* Words stand in order and do not overlap; their bytes are the script's. */
static void check_words(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct shell_script script;
    char *text = arena_copy(&arena, (const char *)data, size);
    size_t behind = 0;

    shell_read(&arena, &(struct arg_word){.text = text, .len = size}, &script);
    for (size_t i = 0; i < script.count; i++) {
        CHECK(script.commands[i].count > 0);
        for (size_t j = 0; j < script.commands[i].count; j++) {
            const struct arg_word *w = &script.commands[i].words[j];

            CHECK(w->start >= behind && w->end >= w->start && w->end <= size);
            CHECK(w->at[w->len] == w->end && w->text[w->len] == '\0');
            for (size_t k = 0; k < w->len; k++)
                CHECK(w->at[k] >= w->start && w->at[k] < w->end && text[w->at[k]] == w->text[k]);
            behind = w->end;
        }
    }
    arena_free(&arena);
}

static void check_findings(struct check *c)
{
    FILE *out = fopen("/dev/null", "w");

    for (size_t i = 0; i < c->count; i++) {
        const struct check_finding *f = &c->findings[i];

        CHECK(f->mark.line > 0 && f->mark.column > 0 && f->mark.offset <= c->files[0].len);
        CHECK(f->text[0] != '\0' && f->file == c->files[0].name);
    }
    CHECK(out != NULL);
    check_print_text(out, c);
    check_print_json(out, c);
    check_print_sarif(out, c);
    CHECK(fclose(out) == 0);
}

static void check_file(const uint8_t *data, size_t size)
{
    struct diag d = {0};
    struct yaml_file file;
    struct check c = {.files = &file, .file_count = 1};
    bool ascii = true;
    size_t weight = 0;

    if (!yaml_file_parse(&file, "input", (const char *)data, size, &d)) {
        CHECK(d.errors > 0);
        diag_free(&d);
        return;
    }
    for (size_t i = 0; i < size; i++)
        ascii = ascii && data[i] < 0x80;
    for (size_t i = 0; i < file.count; i++) {
        check_node(&file, file.docs[i].root, ascii, 0);
        weight += file.docs[i].root == NULL ? 0 : file.docs[i].root->weight;
    }
    for (size_t i = 0; i < CHECK_TARGETS; i++)
        c.targets[i] = (struct check_target){.given = true, .major = 1, .minor = 0};
    if (weight <= WEIGHT_MAX && check_bundle(&c, NULL))
        check_findings(&c);
    kube_free(&c.bundle);
    yaml_file_free(&file);
    diag_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 16384)
        return 0;
    check_words(data, size);
    check_file(data, size);
    return 0;
}
