/* Reads the table of domains. See topology.h for the contract. */
#include "rdzv/config/topology.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/torch/torch_state.h"
#include "rdzv/config/config_file.h"
#include "store/memory/xalloc.h"

#define WORDS_MAX 4
#define BLANKS    " \t\r"

struct line {
    struct slice name; /* with a NUL behind it */
    struct topology_place place;
    size_t number; /* in the file, from 1 */
};

struct topology {
    char *text;         /* the file; its words end with a NUL each */
    struct line *lines; /* first whole names, in the order of their bytes; then patterns */
    size_t names, count;
};

void topology_free(struct topology *t)
{
    if (t == NULL)
        return;
    free(t->text);
    free(t->lines);
    free(t);
}

size_t topology_lines(const struct topology *t)
{
    return t->count;
}

static bool is_pattern(const struct line *line)
{
    return strpbrk((const char *)line->name.ptr, "*?[") != NULL;
}

static int compare_lines(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int order = is_pattern(x) - is_pattern(y);

    if (order == 0 && !is_pattern(x))
        order = slice_compare(x->name, y->name);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

/* --- Reading. --- */

bool topology_is_domain(const char *domain)
{
    return domain[0] != '/' && domain[strlen(domain) - 1] != '/' && strstr(domain, "//") == NULL;
}

/* NULL: the line is right, or empty. Else why not, and *at is the place. */
static const char *read_line(char *text, struct line *out, char **at)
{
    char *words[WORDS_MAX];
    size_t count = 0;

    text[strcspn(text, "#")] = '\0';
    for (*at = text + strspn(text, BLANKS); **at != '\0' && count < WORDS_MAX;) {
        words[count++] = *at;
        *at += strcspn(*at, BLANKS);
        if (**at != '\0')
            *(*at)++ = '\0';
        *at += strspn(*at, BLANKS);
    }
    if (count == 0)
        return NULL;
    if (count == 1)
        return "a domain is expected behind the node, as in `node-a row1/rack2`";
    if (strlen(*at = words[0]) > TOPOLOGY_NAME_MAX)
        return "a name has at most 255 bytes";
    if (!topology_is_domain(*at = words[1]))
        return "a name is missing beside a `/`";
    out->place = (struct topology_place){slice_str(words[1]), UINT64_MAX};
    if (count > 2 && !slice_to_u64(slice_str(*at = words[2]), INT64_MAX, &out->place.index))
        return "the index is not a whole number";
    *at = words[count - 1];
    out->name = slice_str(words[0]);
    return count > 3 ? "a line has a node, a domain and an index" : NULL;
}

/* NULL: each name is there once, and patterns are few. */
static const char *sort_lines(struct topology *t, size_t *number)
{
    qsort(t->lines, t->count, sizeof *t->lines, compare_lines);
    while (t->names < t->count && !is_pattern(&t->lines[t->names]))
        t->names++;
    for (size_t i = 0; i < t->count; i++) {
        *number = t->lines[i].number;
        if (i > 0 && i < t->names && slice_equal(t->lines[i - 1].name, t->lines[i].name))
            return "the node has a line already";
        if (i >= t->names + TOPOLOGY_PATTERNS_MAX)
            return "more than 100 patterns: name the nodes";
    }
    return NULL;
}

struct topology *topology_parse(struct slice text, char error[TOPOLOGY_ERROR_MAX])
{
    struct topology *t = xcalloc(1, sizeof *t);
    const char *why = NULL;
    size_t number = 0, column = 1;
    char *next, *at, *line;

    next = t->text = xcalloc(text.len + 1, 1);
    for (size_t i = 0; i < text.len; i++) {
        number += text.ptr[i] == '\n';
        t->text[i] = text.ptr[i] == '\0' ? '#' : (char)text.ptr[i];
    }
    t->lines = xcalloc(number + 1, sizeof *t->lines);
    for (number = 1; why == NULL && (line = strsep(&next, "\n")) != NULL; number++) {
        t->lines[t->count].number = number;
        why = read_line(line, &t->lines[t->count], &at);
        column = (size_t)(at - line) + 1;
        t->count += t->lines[t->count].name.len > 0;
    }
    if (why != NULL)
        number--;
    else if ((why = sort_lines(t, &number)) != NULL)
        column = 1;
    if (why == NULL)
        return t;
    snprintf(error, TOPOLOGY_ERROR_MAX, "%zu:%zu: %s", number, column, why);
    topology_free(t);
    return NULL;
}

struct topology *topology_read(const char *file, char error[TOPOLOGY_ERROR_MAX])
{
    char why[TOPOLOGY_ERROR_MAX] = "";
    struct topology *t = NULL;
    uint8_t *bytes = NULL;
    size_t len;
    int err = config_file_read(file, &bytes, &len);

    if (err < 0)
        snprintf(error, TOPOLOGY_ERROR_MAX, "%.300s: %s", file, strerror(-err));
    else if ((t = topology_parse((struct slice){bytes, len}, why)) == NULL)
        snprintf(error, TOPOLOGY_ERROR_MAX, "%.200s:%.300s", file,
                 why); /* there is room for both */
    free(bytes);
    return t;
}

/* --- Looking up. --- */

bool topology_matches(const char *pattern, struct slice name)
{
    char text[TORCH_ADDR_MAX + 1];

    if (name.len > TORCH_ADDR_MAX)
        return false;
    memcpy(text, name.ptr, name.len);
    text[name.len] = '\0';
    return fnmatch(pattern, text, 0) == 0;
}

static int compare_name(const void *name, const void *line)
{
    return slice_compare(*(const struct slice *)name, ((const struct line *)line)->name);
}

struct topology_place topology_find(const struct topology *t, struct slice name,
                                    const struct topology_label *label)
{
    static const struct topology_label none;
    const struct line *line = NULL;

    if (t != NULL && t->names > 0)
        line = bsearch(&name, t->lines, t->names, sizeof *line, compare_name);
    for (size_t i = t == NULL ? 0 : t->names; t != NULL && line == NULL && i < t->count; i++) {
        if (topology_matches((const char *)t->lines[i].name.ptr, name))
            line = &t->lines[i];
    }
    label = label == NULL ? &none : label;
    return line != NULL ? line->place
                        : (struct topology_place){slice_str(label->domain), label->index - 1};
}
