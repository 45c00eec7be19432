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
    size_t at;     /* in by_domain */
};

struct topology {
    char *text;         /* the file; its words end with a NUL each */
    struct line *lines; /* first whole names, in the order of their bytes; then patterns */
    size_t names, count;
    struct line **by_domain; /* the whole names */
};

void topology_free(struct topology *t)
{
    if (t == NULL)
        return;
    free(t->text);
    free(t->lines);
    free(t->by_domain);
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

/* Its domain with a `/` behind it: a domain and those in it stand together. */
static struct slice path_of(const struct line *line)
{
    return (struct slice){line->place.domain.ptr, line->place.domain.len + 1};
}

static int compare_paths(const void *a, const void *b)
{
    return slice_compare(path_of(*(struct line *const *)a), path_of(*(struct line *const *)b));
}

static struct topology *sort_domains(struct topology *t)
{
    t->by_domain = xcalloc(t->names + 1, sizeof *t->by_domain);
    for (size_t i = 0; i < t->names; i++) {
        t->by_domain[i] = &t->lines[i];
        ((uint8_t *)(uintptr_t)path_of(&t->lines[i]).ptr)[t->lines[i].place.domain.len] = '/';
    }
    qsort(t->by_domain, t->names, sizeof *t->by_domain, compare_paths);
    for (size_t i = 0; i < t->names; i++)
        t->by_domain[i]->at = i;
    return t;
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
        return sort_domains(t);
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

/* The line with that whole name, or NULL. */
static const struct line *find_name(const struct topology *t, struct slice name)
{
    return t == NULL ? NULL : bsearch(&name, t->lines, t->names, sizeof *t->lines, compare_name);
}

struct topology_place topology_find(const struct topology *t, struct slice name,
                                    const struct topology_label *label)
{
    static const struct topology_label none;
    const struct line *line = find_name(t, name);

    for (size_t i = t == NULL ? 0 : t->names; t != NULL && line == NULL && i < t->count; i++) {
        if (topology_matches((const char *)t->lines[i].name.ptr, name))
            line = &t->lines[i];
    }
    label = label == NULL ? &none : label;
    return line != NULL ? line->place
                        : (struct topology_place){slice_str(label->domain), label->index - 1};
}

struct topology_group topology_group(const struct topology *t, struct slice name, uint64_t column)
{
    const struct line *line = column == 0 ? NULL : find_name(t, name);
    struct slice path = line == NULL ? (struct slice){0} : path_of(line);
    size_t len = 0, first, end;

    for (; column > 0 && len < path.len; len++)
        column -= path.ptr[len] == '/';
    if (line == NULL || column > 0)
        return (struct topology_group){0};
    path.len = len;
    for (first = line->at; first > 0 && slice_starts_with(path_of(t->by_domain[first - 1]), path);)
        first--;
    for (end = line->at; end < t->names && slice_starts_with(path_of(t->by_domain[end]), path);)
        end++;
    return (struct topology_group){line->at, first, end - first};
}

const char *topology_choose(const struct topology_group *group, uint32_t *needs, uint64_t *room)
{
    uint64_t places = 0;

    if (needs[group->first] == UINT32_MAX)
        return NULL;
    for (size_t i = group->first; i < group->first + group->count; i++) {
        if (needs[i] == 0)
            return "its group is not whole";
        places += needs[i] - 1;
    }
    if (places > *room)
        return "its group has no place";
    *room -= places;
    needs[group->first] = UINT32_MAX;
    return NULL;
}

/* --- Names and domains. --- */

bool cordons_have(const struct cordons *cordons, struct slice host)
{
    return cordons != NULL && ANY(FOREACH_POINTER(char, pattern, cordons->patterns, cordons->count),
                                  topology_matches(pattern, host));
}

static bool is_digit(struct slice s, size_t at)
{
    return at < s.len && s.ptr[at] >= '0' && s.ptr[at] <= '9';
}

/* The digits at that place, without zeros in front. */
static struct slice number_at(struct slice s, size_t at)
{
    size_t end;

    while (at < s.len && s.ptr[at] == '0')
        at++;
    for (end = at; is_digit(s, end);)
        end++;
    return (struct slice){s.ptr + at, end - at};
}

int topology_compare(struct slice a, struct slice b)
{
    struct slice x, y;
    size_t at = 0;

    while (at < a.len && at < b.len && a.ptr[at] == b.ptr[at])
        at++;
    while (at > 0 && is_digit(a, at - 1))
        at--;
    if (!is_digit(a, at) || !is_digit(b, at))
        return slice_compare(a, b);
    x = number_at(a, at);
    y = number_at(b, at);
    if (x.len != y.len)
        return x.len < y.len ? -1 : 1;
    return slice_equal(x, y) ? slice_compare(a, b) : slice_compare(x, y);
}

size_t topology_common(struct slice a, struct slice b)
{
    size_t at = 0, common = 0;

    for (; at < a.len && at < b.len && a.ptr[at] == b.ptr[at]; at++)
        common += a.ptr[at] == '/';
    return common +
           (at != 0 && (at == a.len || a.ptr[at] == '/') && (at == b.len || b.ptr[at] == '/'));
}
