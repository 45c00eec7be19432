/* Finds nodes in trees, tells types of scalars, and makes trees. */
#include "deploy/yaml/yaml_doc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- Finding. --- */

struct yaml_pair *yaml_get_pair(const struct yaml_node *mapping, const char *key)
{
    return (struct yaml_pair *)FIND(pair, YAML_FOREACH_PAIR(pair, mapping),
                                    strcmp(pair->key->text, key) == 0);
}

struct yaml_node *yaml_get(const struct yaml_node *mapping, const char *key)
{
    struct yaml_pair *pair = yaml_get_pair(mapping, key);

    return pair == NULL ? NULL : pair->value;
}

struct yaml_node *yaml_at(const struct yaml_node *sequence, size_t index)
{
    if (sequence == NULL || sequence->kind != YAML_SEQUENCE || index >= sequence->count)
        return NULL;
    return sequence->items[index];
}

struct yaml_node *const *yaml_items(const struct yaml_node *sequence, struct yaml_node *const **end)
{
    static struct yaml_node *const none[1];
    struct yaml_node *const *first = yaml_length(sequence) == 0 ? none : sequence->items;

    *end = first + yaml_length(sequence);
    return first;
}

struct yaml_pair *yaml_pairs(const struct yaml_node *mapping, struct yaml_pair **end)
{
    static struct yaml_pair none[1];
    bool empty = mapping == NULL || mapping->kind != YAML_MAPPING || mapping->count == 0;
    struct yaml_pair *first = empty ? none : mapping->pairs;

    *end = empty ? first : first + mapping->count;
    return first;
}

struct yaml_node *yaml_child(const struct yaml_node *collection, size_t index)
{
    return collection->kind == YAML_MAPPING ? collection->pairs[index].value
                                            : collection->items[index];
}

size_t yaml_length(const struct yaml_node *sequence)
{
    return sequence != NULL && sequence->kind == YAML_SEQUENCE ? sequence->count : 0;
}

struct yaml_node *yaml_path(const struct yaml_node *node, const char *path)
{
    char key[256];

    while (node != NULL && *path != '\0') {
        size_t len = 0;

        if (*path == '[') {
            char *end;
            size_t index = strtoul(path + 1, &end, 10);

            node = *end == ']' ? yaml_at(node, index) : NULL;
            path = *end == ']' ? end + 1 : "";
        } else {
            while (*path != '\0' && *path != '.' && *path != '[' && len < sizeof key - 1) {
                if (*path == '\\' && path[1] != '\0')
                    path++;
                key[len++] = *path++;
            }
            key[len] = '\0';
            node = yaml_get(node, key);
        }
        if (*path == '.')
            path++;
    }
    return (struct yaml_node *)node;
}

const char *yaml_text(const struct yaml_node *node)
{
    return node == NULL || node->kind != YAML_SCALAR ? NULL : node->text;
}

bool yaml_is(const struct yaml_node *node, const char *text)
{
    const char *own = yaml_text(node);

    return own != NULL && strcmp(own, text) == 0;
}

bool yaml_contains(const struct yaml_node *sequence, const char *text)
{
    return ANY(YAML_FOREACH(item, sequence), yaml_is(item, text));
}

void *yaml_report(struct diag *d, enum diag_kind kind, const struct yaml_node *at,
                  const char *format, ...)
{
    va_list args;

    va_start(args, format);
    diag_add(d, kind, at == NULL ? NULL : at->file, at == NULL ? (struct yaml_mark){0} : at->start,
             format, args);
    va_end(args);
    return NULL;
}

/* --- Meaning. --- */

static const char *const trues[] = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                    "True", "TRUE", "on",  "On",  "ON",  NULL};
static const char *const falses[] = {"n",     "N",     "no",  "No",  "NO",  "false",
                                     "False", "FALSE", "off", "Off", "OFF", NULL};

/* Takes the digits of an integer without its sign and `_`. Returns its base; 0: the text is none.
 */
static int int_digits(const char *text, char *digits, size_t size)
{
    size_t len = 0;
    int base = 10;

    if (*text == '-' || *text == '+')
        text++;
    if (*text == '0' && text[1] != '\0') {
        base = text[1] == 'x' || text[1] == 'X' ? 16 : text[1] == 'b' || text[1] == 'B' ? 2 : 8;
        text += base != 8 || text[1] == 'o' || text[1] == 'O' ? 2 : 1;
    }
    if (*text == '_' && base == 10)
        return 0;
    for (; *text != '\0'; text++) {
        int value = *text >= '0' && *text <= '9'   ? *text - '0'
                    : *text >= 'a' && *text <= 'f' ? *text - 'a' + 10
                    : *text >= 'A' && *text <= 'F' ? *text - 'A' + 10
                                                   : 99;

        if (*text == '_')
            continue;
        if (value >= base || len == size - 1)
            return 0;
        digits[len++] = *text;
    }
    digits[len] = '\0';
    return len > 0 ? base : 0;
}

/* A decimal number without regard to `_`, or one of the words. */
static bool is_float(const char *text)
{
    char digits[128], *end;
    size_t len = 0;

    if (text_is(text, ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
                ".nan", ".NaN", ".NAN"))
        return true;
    if (text[strspn(text, "0123456789_+-.eE")] != '\0' || text[strspn(text, "+-")] == '_')
        return false;
    for (; *text != '\0' && len < sizeof digits - 1; text++) {
        if (*text != '_')
            digits[len++] = *text;
    }
    digits[len] = '\0';
    strtod(digits, &end);
    return len > 0 && *end == '\0' && *text == '\0';
}

enum yaml_type yaml_type(const struct yaml_node *node)
{
    static const char core[] = "tag:yaml.org,2002:";
    char digits[72];
    const char *tag = NULL;

    if (node == NULL || node->kind != YAML_SCALAR)
        return YAML_STRING;
    if (node->tag != NULL && strncmp(node->tag, core, sizeof core - 1) == 0)
        tag = node->tag + sizeof core - 1;
    if (tag != NULL && text_is(tag, "str", "binary"))
        return YAML_STRING;
    /* `!!int "5"` is an integer. Without a tag, a quoted scalar is a string. */
    if (node->style != YAML_PLAIN && tag == NULL)
        return YAML_STRING;
    if (text_is(node->text, "", "~", "null", "Null", "NULL"))
        return YAML_NULL;
    if (text_is_one_of(node->text, trues) || text_is_one_of(node->text, falses))
        return YAML_BOOL;
    if (int_digits(node->text, digits, sizeof digits) != 0)
        return tag != NULL && strcmp(tag, "float") == 0 ? YAML_FLOAT : YAML_INT;
    return is_float(node->text) ? YAML_FLOAT : YAML_STRING;
}

bool yaml_is_null(const struct yaml_node *node)
{
    return node == NULL || yaml_type(node) == YAML_NULL;
}

bool yaml_to_bool(const struct yaml_node *node, bool *out)
{
    if (yaml_type(node) != YAML_BOOL)
        return false;
    *out = text_is_one_of(node->text, trues);
    return true;
}

bool yaml_true(const struct yaml_node *node)
{
    bool value;

    return yaml_to_bool(node, &value) && value;
}

bool yaml_to_int(const struct yaml_node *node, int64_t *out)
{
    char digits[72];
    unsigned long long value;

    if (yaml_type(node) != YAML_INT)
        return false;
    errno = 0;
    value = strtoull(digits, NULL, int_digits(node->text, digits, sizeof digits));
    if (errno != 0 || value > INT64_MAX)
        return false;
    *out = *node->text == '-' ? -(int64_t)value : (int64_t)value;
    return true;
}

/* --- Making. --- */

struct yaml_node *yaml_new(struct arena *a, enum yaml_kind kind)
{
    struct yaml_node *n = arena_alloc(a, sizeof *n);

    n->kind = kind;
    n->style = kind == YAML_SCALAR ? YAML_PLAIN : YAML_BLOCK;
    n->text = kind == YAML_SCALAR ? "" : NULL;
    n->weight = 1;
    return n;
}

struct yaml_node *yaml_new_text(struct arena *a, const char *text, size_t len)
{
    struct yaml_node *n = yaml_new(a, YAML_SCALAR);

    n->style = YAML_DOUBLE;
    n->text = arena_copy(a, text, len);
    n->len = len;
    return n;
}

struct yaml_node *yaml_new_string(struct arena *a, const char *text)
{
    return yaml_new_text(a, text, strlen(text));
}

struct yaml_node *yaml_new_plain(struct arena *a, const char *text)
{
    struct yaml_node *n = yaml_new_string(a, text);

    n->style = YAML_PLAIN;
    return n;
}

struct yaml_node *yaml_new_number(struct arena *a, int64_t number)
{
    return yaml_new_plain(a, arena_text(a, "%lld", (long long)number));
}

void yaml_append(struct arena *a, struct yaml_node *sequence, struct yaml_node *item)
{
    arena_push(a, sequence->items, sequence->count, sequence->cap) = item;
}

void yaml_add(struct arena *a, struct yaml_node *mapping, struct yaml_node *key,
              struct yaml_node *value)
{
    arena_push(a, mapping->pairs, mapping->count, mapping->cap) =
        (struct yaml_pair){key, value, false};
}

void yaml_put(struct arena *a, struct yaml_node *mapping, const char *key,
              const struct yaml_node *value)
{
    struct yaml_pair *pair = yaml_get_pair(mapping, key);

    if (value == NULL)
        return;
    if (pair != NULL)
        pair->value = (struct yaml_node *)value;
    else
        yaml_add(a, mapping, yaml_new_plain(a, key), (struct yaml_node *)value);
}

struct yaml_node *yaml_put_new(struct arena *a, struct yaml_node *to, const char *key,
                               enum yaml_kind kind)
{
    struct yaml_node *n = yaml_new(a, kind);

    if (to->kind == YAML_SEQUENCE)
        yaml_append(a, to, n);
    else
        yaml_put(a, to, key, n);
    return n;
}

void yaml_put_text(struct arena *a, struct yaml_node *mapping, const char *key, const char *text)
{
    if (text != NULL)
        yaml_put(a, mapping, key, yaml_new_string(a, text));
}

void yaml_put_texts(struct arena *a, struct yaml_node *mapping, bool filled,
                    const struct yaml_text *texts)
{
    for (; texts->key != NULL; texts++) {
        if (!filled || (texts->text != NULL && *texts->text != '\0'))
            yaml_put_text(a, mapping, texts->key, texts->text);
    }
}

void yaml_put_plain(struct arena *a, struct yaml_node *mapping, const char *key, const char *text)
{
    if (text != NULL)
        yaml_put(a, mapping, key, yaml_new_plain(a, text));
}

void yaml_put_number(struct arena *a, struct yaml_node *mapping, const char *key, long number)
{
    yaml_put(a, mapping, key, yaml_new_number(a, number));
}

bool yaml_remove(struct yaml_node *mapping, const char *key)
{
    struct yaml_pair *pair = yaml_get_pair(mapping, key);
    size_t index;

    if (pair == NULL)
        return false;
    index = (size_t)(pair - mapping->pairs);
    memmove(pair, pair + 1, (mapping->count - index - 1) * sizeof *pair);
    mapping->count--;
    return true;
}
