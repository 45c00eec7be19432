/* Splits a conf as torch does, except what a shell replaces first. */
#include "deploy/kube/rdzv_conf.h"

#include <string.h>
#include <strings.h>

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* A comma outside of quotes and substitutions, or the end. */
static size_t find_comma(const char *conf, size_t at)
{
    int depth = 0;
    char quote = '\0';

    for (; conf[at] != '\0'; at++) {
        char c = conf[at];

        if (quote != '\0')
            quote = c == quote ? '\0' : quote;
        else if (c == '"' || c == '\'' || c == '`')
            quote = c;
        else if (c == '(' || c == '{')
            depth++;
        else if (c == ')' || c == '}')
            depth--;
        else if (c == ',' && depth <= 0)
            break;
    }
    return at;
}

static size_t trim_end(const char *conf, size_t start, size_t end)
{
    while (end > start && is_white(conf[end - 1]))
        end--;
    return end;
}

bool rdzv_conf_next(const char *conf, size_t *at, struct rdzv_conf_entry *out)
{
    const char *equals;

    while (conf[*at] == ',' || is_white(conf[*at]))
        ++*at;
    if (conf[*at] == '\0')
        return false;
    out->start = *at;
    *at = find_comma(conf, *at);
    out->end = trim_end(conf, out->start, *at);
    equals = memchr(conf + out->start, '=', out->end - out->start);
    out->key_end = equals == NULL ? out->end : (size_t)(equals - conf);
    out->value_start = equals == NULL ? out->end : out->key_end + 1;
    while (out->value_start < out->end && is_white(conf[out->value_start]))
        out->value_start++;
    out->key_end = trim_end(conf, out->start, out->key_end);
    return true;
}

bool rdzv_conf_find(const char *conf, const char *key, struct rdzv_conf_entry *out)
{
    size_t at = 0, len = strlen(key);

    while (rdzv_conf_next(conf, &at, out)) {
        if (out->key_end - out->start == len && strncmp(conf + out->start, key, len) == 0 &&
            conf[out->key_end + strspn(conf + out->key_end, " \t\n")] == '=')
            return true;
    }
    return false;
}

bool rdzv_conf_is_false(const char *conf, const struct rdzv_conf_entry *e)
{
    static const char *const words[] = {"0", "false", "f", "no", "n"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i]) == e->end - e->value_start &&
            strncasecmp(conf + e->value_start, words[i], e->end - e->value_start) == 0)
            return true;
    }
    return false;
}
